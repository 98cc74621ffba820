"""Wire format of ZooKeeper requests: MultiRead, transactions, single reads, SetAcl, SetWatches.

Kazoo has no MultiRead and no SetWatches, cannot create a znode with null data inside a transaction,
and parses replies more slowly than ZooKeeper sends them. Instances of the classes in this file are
passed to ``KazooClient._call`` both as the request and as the object that receives the reply.

The formats are defined in zookeeper.jute, MultiOperationRecord.java and MultiResponse.java of
org.apache.zookeeper.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from klamm.cluster.errors import OperationTooBig
from klamm.zk.acls import CREATOR_ACL, CREATOR_WRITES_ALL_READ, OPEN_ACL, Acl, default_acl
from klamm.zk.request_size import GROUP_BYTES, MAX_TRANSACTION_BYTES
from klamm.zk.store import (
    Check,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    OpResult,
    ReadOp,
    ReadResult,
    ResultCode,
    SetData,
    Stat,
    Transaction,
    TxnResult,
)

READS_PER_REQUEST: Final = 1_000

_GET_DATA, _GET_CHILDREN, _EXISTS = 4, 8, 3
_CREATE, _DELETE, _SET_DATA, _CHECK = 1, 2, 5, 13
_ERROR: Final = -1

_INT = struct.Struct("!i")
_LONG = struct.Struct("!q")
_STAT = struct.Struct("!qqqqiiiqiiq")
# An item of a multi starts with (int type, bool done, int error). An item with content continues
# with an int: an error code, the length of data or of a path, or the number of children.
_ITEM_HEADER = struct.Struct("!iBi")
_ITEM = struct.Struct("!iBii")
# Only czxid and version of the stat in the item of a SetData.
_SET_ITEM = struct.Struct("!9xq24xi32x")
_REPLY_ZXID = struct.Struct("!4xq")
_END: Final = _ITEM_HEADER.pack(-1, 1, -1)


_READ_TYPES: Final = {GetData: _GET_DATA, GetChildren: _GET_CHILDREN, Exists: _EXISTS}
_WRITE_TYPES: Final = {Create: _CREATE, Delete: _DELETE, SetData: _SET_DATA, Check: _CHECK}


_RESULT_CODES: Final[dict[int, ResultCode]] = {
    **{int(code): code for code in ResultCode},
    -6: ResultCode.MARSHALLINGERROR,  # UNIMPLEMENTED: the server does not know the request
    -118: ResultCode.CONNECTIONLOSS,  # SESSIONMOVED: another server has the session now
}

_new_tuple = tuple.__new__
_completing = threading.Lock()


def _acl_bytes(acl: Acl) -> bytes:
    parts = [_INT.pack(len(acl))]
    for entry in acl:
        parts += (
            _INT.pack(entry.permissions),
            _string(entry.scheme.encode()),
            _string(entry.id.encode()),
        )
    return b"".join(parts)


def _string(encoded: bytes) -> bytes:
    return _INT.pack(len(encoded)) + encoded


# Bytes after the data of a created znode, by (ACL, ephemeral, sequential).
_CREATE_TAILS: Final = {
    (acl, ephemeral, sequential): _acl_bytes(acl) + _INT.pack(ephemeral + 2 * sequential)
    for acl in (OPEN_ACL, CREATOR_ACL, CREATOR_WRITES_ALL_READ)
    for ephemeral in (False, True)
    for sequential in (False, True)
}


def result_code(number: int) -> ResultCode:
    """Convert ZooKeeper's error number to a ResultCode: SYSTEMERROR if the number is unknown."""
    return _RESULT_CODES.get(number, ResultCode.SYSTEMERROR)


class Chroot:
    """Converter between paths relative to a chroot and full paths."""

    __slots__ = ("_bytes", "path")

    def __init__(self, path: str) -> None:
        """``path``: the chroot, e.g. ``/a/b``, or "" if there is none."""
        self.path = path
        self._bytes = path.encode()

    def add(self, path: str) -> bytes:
        """Return the full path of ``path`` as UTF-8. "/" is the chroot itself."""
        if path == "/" and self._bytes:
            return self._bytes
        return self._bytes + path.encode()

    def strip(self, full_path: str) -> str:
        """Return ``full_path`` relative to the chroot ("/" for the chroot itself)."""
        return full_path[len(self.path) :] or "/"


class ZooKeeperRequest:
    """Base class of requests. A request object also receives the reply.

    ``code`` is None until the request is complete. Then it is OK if there is a ``reply``,
    CONNECTIONLOSS if the connection was lost before the reply arrived, or ZooKeeper's error for the
    request as a whole. ``error``: the exception raised while the reply was parsed, if any.
    """

    type: int
    __slots__ = ("code", "error", "listener", "payload", "reply", "type")

    def __init__(self, payload: bytes) -> None:
        if len(payload) > MAX_TRANSACTION_BYTES:
            raise OperationTooBig(
                f"a request of {len(payload)} bytes exceeds ZooKeeper's maximum of "
                f"{MAX_TRANSACTION_BYTES} bytes; it was not sent"
            )
        self.payload = payload
        self.listener: Callable[[ZooKeeperRequest], None] | None = None
        self.forget()

    def forget(self) -> None:
        """Reset the outcome, so that the request can be sent again."""
        self.code: ResultCode | None = None
        self.reply: Any = None
        self.error: Exception | None = None

    def serialize(self) -> bytes:
        """Return the request body, i.e. the bytes that follow the request type on the wire."""
        return self.payload

    def deserialize(self, buffer: bytes, offset: int) -> Any:
        """Parse the reply body at ``offset`` in ``buffer``, which begins with the reply header."""
        raise NotImplementedError

    def set(self, reply: Any) -> None:
        """Complete the request with a parsed reply. Kazoo calls this method."""
        self.complete(ResultCode.OK, reply)

    def set_exception(self, error: Exception) -> None:
        """Complete the request with an error. Kazoo may call this method twice."""
        number = getattr(error, "code", None)
        if number is None:
            self.error = error
        self.complete(ResultCode.SYSTEMERROR if number is None else result_code(number), None)

    def complete(self, code: ResultCode, reply: Any) -> None:
        """Complete the request and notify its listener. Only the first call counts."""
        with _completing:
            if self.code is not None:
                return
            self.reply = reply
            self.code = code
        if self.listener is not None:
            self.listener(self)


class MultiRead(ZooKeeperRequest):
    """Several reads in one request, without watches (ZooKeeper 3.6 or newer)."""

    type = 22
    __slots__ = ("_ops",)

    def __init__(self, ops: Sequence[ReadOp], payload: bytes) -> None:
        super().__init__(payload)
        self._ops = ops

    @property
    def count(self) -> int:
        """Number of operations."""
        return len(self._ops)

    def deserialize(self, buffer: bytes, offset: int) -> list[ReadResult]:
        """Parse one result per operation. Exists was sent as GetData, so its data is dropped."""
        results: list[ReadResult] = []
        add, item, stat_of = results.append, _ITEM.unpack_from, _STAT.unpack_from
        ok = ResultCode.OK
        for op in self._ops:
            kind, _, _, number = item(buffer, offset)
            offset += 13
            if kind == _GET_DATA:
                data = None
                if number >= 0:
                    data = buffer[offset : offset + number]
                    offset += number
                stat = _new_tuple(Stat, stat_of(buffer, offset))
                offset += 68
                add(ReadResult(ok, None if type(op) is Exists else data, stat))
            elif kind == _ERROR:
                add(ReadResult(result_code(number)))
            else:
                children, offset = _read_strings(buffer, offset, number)
                add(ReadResult(ok, children=children))
        return results


def multi_reads(ops: Sequence[ReadOp], chroot: Chroot) -> Iterator[MultiRead]:
    """Distribute reads over MultiRead requests of at most 1,000 operations and 128 KiB."""
    pack, add_chroot = _ITEM.pack, chroot.add
    parts: list[bytes] = []
    first = size = 0
    for index, op in enumerate(ops):
        full_path = add_chroot(op.path)
        length = len(full_path)
        if index - first == READS_PER_REQUEST or (parts and size + length + 23 > GROUP_BYTES):
            yield MultiRead(ops[first:index], b"".join((*parts, _END)))
            parts, first, size = [], index, 0
        kind = _GET_CHILDREN if type(op) is GetChildren else _GET_DATA
        parts += (pack(kind, 0, -1, length), full_path, b"\0")
        size += length + 14
    if parts:
        yield MultiRead(ops[first:], b"".join((*parts, _END)))


class SingleRead(ZooKeeperRequest):
    """Request for a single read, which can also set a watch.

    ``on_read`` is called with the result on the connection's thread, before any later event is
    processed.
    """

    __slots__ = ("_on_read", "op")

    def __init__(
        self, op: ReadOp, chroot: Chroot, on_read: Callable[[ReadOp, ReadResult], None]
    ) -> None:
        super().__init__(b"%b%b" % (_string(chroot.add(op.path)), b"\1" if op.watch else b"\0"))
        self.op = op
        self._on_read = on_read
        self.type = _READ_TYPES[type(op)]

    def deserialize(self, buffer: bytes, offset: int) -> ReadResult:
        """Parse the result of a read that found the znode."""
        ok = ResultCode.OK
        if self.type == _EXISTS:
            return ReadResult(ok, stat=Stat._make(_STAT.unpack_from(buffer, offset)))
        (number,) = _INT.unpack_from(buffer, offset)
        offset += 4
        if self.type == _GET_CHILDREN:
            return ReadResult(ok, children=_read_strings(buffer, offset, number)[0])
        data = None
        if number >= 0:
            data = buffer[offset : offset + number]
            offset += number
        return ReadResult(ok, data, Stat._make(_STAT.unpack_from(buffer, offset)))

    def complete(self, code: ResultCode, reply: Any) -> None:
        """Complete the request. If Exists found no znode, kazoo passes None as the reply."""
        if code is ResultCode.OK and self.code is None:
            reply = reply or ReadResult(ResultCode.NONODE)
            self._on_read(self.op, reply)
        super().complete(code, reply)


class Multi(ZooKeeperRequest):
    """Request for one atomic transaction.

    If ``sets_acls`` is True, znodes are created with Kafka's ACLs instead of open ACLs.
    """

    type = 14
    __slots__ = ("_chroot", "_ops")

    def __init__(self, ops: Transaction, chroot: Chroot, *, sets_acls: bool = False) -> None:
        super().__init__(_transaction_payload(ops, chroot, sets_acls))
        self._ops = ops
        self._chroot = chroot

    def deserialize(self, buffer: bytes, offset: int) -> list[TxnResult]:
        """Parse the result into a list with one element, because kazoo iterates over it."""
        if buffer[offset : offset + 4] == b"\xff\xff\xff\xff" and self._ops:
            return [self._failed(buffer, offset)]
        (zxid,) = _REPLY_ZXID.unpack_from(buffer, 0)
        ok = ResultCode.OK
        results = []
        for op in self._ops:
            kind = type(op)
            if kind is SetData:
                czxid, version = _SET_ITEM.unpack_from(buffer, offset)
                offset += 77
                results.append(OpResult(ok, op.path, version, czxid))
            elif kind is Create:
                (length,) = _INT.unpack_from(buffer, offset + 9)
                offset += 13 + length
                created = self._chroot.strip(buffer[offset - length : offset].decode())
                # A multi is one transaction: znodes that it creates have its zxid as czxid.
                results.append(OpResult(ok, created, 0, zxid))
            else:
                offset += 9
                results.append(OpResult(ok, op.path))
        return [TxnResult(ok, results, zxid=zxid)]

    def result(self) -> TxnResult:
        """Return the outcome of the transaction; only an error code if the request failed."""
        if self.reply:
            return self.reply[0]
        assert self.code is not None, "the request is not complete"
        return TxnResult(self.code, [])

    def _failed(self, buffer: bytes, offset: int) -> TxnResult:
        codes = [
            result_code(_ITEM.unpack_from(buffer, offset + 13 * index)[3])
            for index in range(len(self._ops))
        ]
        first = next(index for index, code in enumerate(codes) if code is not ResultCode.OK)
        results = [OpResult(code) for code in codes]
        return TxnResult(codes[first], results, failed_index=first)


class SetAcl(ZooKeeperRequest):
    """Request that replaces the ACL of one znode. ``path`` is relative to the chroot."""

    type = 7
    __slots__ = ()

    def __init__(self, path: str, acl: Acl, chroot: Chroot) -> None:
        super().__init__(_string(chroot.add(path)) + _acl_bytes(acl) + _INT.pack(-1))

    def deserialize(self, buffer: bytes, offset: int) -> Stat:
        """Parse the znode's new stat."""
        return Stat._make(_STAT.unpack_from(buffer, offset))


def _transaction_payload(ops: Transaction, chroot: Chroot, sets_acls: bool) -> bytes:
    parts: list[bytes] = []
    for op in ops:
        full_path = chroot.add(op.path)
        parts += (_ITEM.pack(_WRITE_TYPES[type(op)], 0, -1, len(full_path)), full_path)
        if isinstance(op, SetData):
            parts += (_buffer(op.data), _INT.pack(op.version))
        elif isinstance(op, Create):
            acl = default_acl(op.path) if sets_acls else OPEN_ACL
            parts += (_buffer(op.data), _CREATE_TAILS[acl, op.ephemeral, op.sequential])
        else:
            parts.append(_INT.pack(op.version))
    parts.append(_END)
    return b"".join(parts)


def set_watches_payload(
    relative_zxid: int, data: Iterable[bytes], exist: Iterable[bytes], child: Iterable[bytes]
) -> bytes:
    """Return the body of a SetWatches request, given the full paths for each kind of watch."""
    parts = [_LONG.pack(relative_zxid)]
    for full_paths in (list(data), list(exist), list(child)):
        parts.append(_INT.pack(len(full_paths)))
        for full_path in full_paths:
            parts += (_INT.pack(len(full_path)), full_path)
    return b"".join(parts)


def read_watch_event(buffer: bytes, offset: int) -> tuple[int, str]:
    """Parse a watch event, and return (type number, full path)."""
    kind, _, length = struct.unpack_from("!iii", buffer, offset)
    offset += 12
    return kind, buffer[offset : offset + length].decode()


def _read_strings(buffer: bytes, offset: int, count: int) -> tuple[list[str], int]:
    strings = []
    length_of = _INT.unpack_from
    for _ in range(count):
        (length,) = length_of(buffer, offset)
        offset += 4 + length
        strings.append(buffer[offset - length : offset].decode())
    return strings, offset


def _buffer(data: bytes | None) -> bytes:
    return _INT.pack(-1) if data is None else _INT.pack(len(data)) + data
