"""Reader for ZooKeeper's transaction logs (version-2/log.*), which also reports damaged records.

The reader supports the record formats of ZooKeeper 3.5 to 3.9. A record has no version number, and
each part that a newer ZooKeeper added can be disabled; the reader infers from the number of
remaining bytes which parts are present. Mirrors org.apache.zookeeper.server.persistence.FileTxnLog
and server.util.SerializeUtils.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from klamm.cluster.errors import EnvironmentProblem
from klamm.zk.jute import JuteError, JuteReader

MAGIC: Final = b"ZKLG"
VERSION: Final = 2
FILE_HEADER: Final = Struct(">4siq")
FRAME: Final = Struct(">qi")
TXN_HEADER: Final = Struct(">qiqqi")
_END_OF_RECORD: Final = 0x42
_DIGEST_BYTES: Final = 12
_DIGEST_VERSION: Final = 2
_ERROR_BYTES: Final = 4
_VERSION_BYTES: Final = 4
_EPHEMERAL_AND_VERSION_BYTES: Final = 5


class TxnType(IntEnum):
    """Type of a transaction, as in org.apache.zookeeper.ZooDefs.OpCode."""

    ERROR = -1
    CREATE_SESSION = -10
    CLOSE_SESSION = -11
    CREATE = 1
    DELETE = 2
    SET_DATA = 5
    SET_ACL = 7
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21


class TxnOp(NamedTuple):
    """One change in a transaction.

    - ``type``: CREATE, DELETE, SET_DATA, SET_ACL, CHECK, CREATE_SESSION, CLOSE_SESSION or ERROR.
      Other types are mapped to these, e.g. CREATE2 to CREATE.
    - ``version``: for SET_DATA and SET_ACL, the new version; for CHECK, the checked version plus
      one, as ZooKeeper logs it.
    - ``paths``: the ephemeral znodes of a closed session, or None if the log does not contain them
      (ZooKeeper before 3.6).
    - ``number``: the session timeout in ms (CREATE_SESSION), or the error code (ERROR).
    """

    type: TxnType
    path: str = ""
    data: bytes | None = None
    version: int = -1
    is_ephemeral: bool = False
    number: int = 0
    paths: tuple[str, ...] | None = None


class Txn(NamedTuple):
    """A transaction in a transaction log.

    ``offset`` is the position in the file in bytes. ``t_ms`` is the time on the leader's clock.
    ``ops`` has one change, or all changes of a multi. A rejected multi may be logged together with
    the changes that precede the failed operation; those changes did not take effect either. They
    are the same in the logs of all servers, although some servers log them with the type ERROR.
    """

    offset: int
    session_id: int
    cxid: int
    zxid: int
    t_ms: int
    is_multi: bool
    ops: tuple[TxnOp, ...]

    @property
    def is_rejected(self) -> bool:
        """True if the transaction was logged but rejected, without any effect."""
        return any(op.type is TxnType.ERROR for op in self.ops)


class TxnDamage(NamedTuple):
    """An unreadable part of a transaction log.

    ``problem``: "torn" (incomplete), "crc" (wrong checksum) or "record" (cannot be parsed)."""

    offset: int
    problem: str
    text: str


class ZxidStretch(NamedTuple):
    """Consecutive transactions in a file, with every zxid from ``first_zxid`` to ``last_zxid``.

    ``offset`` is the position of the first transaction in the file, in bytes.
    """

    offset: int
    first_zxid: int
    last_zxid: int


def check_txn_log(path: Path, head: bytes) -> None:
    """Raise EnvironmentProblem if a file is not a transaction log. ``head``: its first bytes.

    A file that is empty or contains only zeros is valid: ZooKeeper was stopped before it wrote a
    transaction.
    """
    header = head[: FILE_HEADER.size]
    if not header.strip(b"\0"):
        return
    if len(header) < FILE_HEADER.size or header[:4] != MAGIC:
        raise EnvironmentProblem(f"{path} is not a ZooKeeper transaction log")
    version = FILE_HEADER.unpack(header)[1]
    if version != VERSION:
        raise EnvironmentProblem(
            f"{path} is a transaction log of version {version}", hint="only version 2 is supported"
        )


def read_txn_log(path: Path, begin: int = 0, end: int | None = None) -> Iterator[Txn | TxnDamage]:
    """Yield the transactions and the damage of a file, or of a part that ``cut_txn_log`` returns.

    As in ZooKeeper, reading ends at an incomplete transaction. A wrong checksum is reported, and
    reading continues. Raises EnvironmentProblem if the file is not a transaction log.
    """
    with _mapped(path) as data:
        for frame in _frames(data, begin, end):
            yield frame if isinstance(frame, TxnDamage) else _read(*frame)


def cut_txn_log(path: Path, part_bytes: int) -> list[tuple[int, int]]:
    """Divide a file into parts of ``part_bytes`` or more, to be read in parallel.

    Returns where each part begins and ends, in bytes. A part begins with a transaction, so that no
    transaction is in two parts. Raises EnvironmentProblem if the file is not a transaction log.
    """
    with _mapped(path) as data:
        begins = [0]
        for frame in _frames(data):
            offset = frame.offset if isinstance(frame, TxnDamage) else frame[0]
            if offset - begins[-1] >= part_bytes:
                begins.append(offset)
        return list(zip(begins, [*begins[1:], len(data)], strict=True))


def read_stretches(path: Path) -> Iterator[ZxidStretch]:
    """Yield the ranges of zxids in a file, without parsing its transactions.

    Checksums are only verified where a range begins; use ``read_txn_log`` to find other damage.
    Raises EnvironmentProblem if the file is not a transaction log.
    """
    with _mapped(path) as data:
        first_offset, first, last = 0, 0, -1
        for frame in _frames(data):
            if isinstance(frame, TxnDamage) or len(frame[2]) < TXN_HEADER.size:
                continue
            offset, checksum, payload = frame
            zxid = TXN_HEADER.unpack_from(payload)[2]
            if zxid != last + 1 or last < 0:
                if zlib.adler32(payload) != checksum:
                    continue
                if last >= 0:
                    yield ZxidStretch(first_offset, first, last)
                first_offset, first = offset, zxid
            last = zxid
        if last >= 0:
            yield ZxidStretch(first_offset, first, last)


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap | bytes]:
    with path.open("rb") as file:
        header = file.read(FILE_HEADER.size)
        check_txn_log(path, header)
        if not header.strip(b"\0"):
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


_Frame = tuple[int, int, bytes]
"""A transaction that is not parsed yet: (offset, checksum, payload)."""


def _frames(
    data: mmap.mmap | bytes, begin: int = 0, end: int | None = None
) -> Iterator[_Frame | TxnDamage]:
    size = len(data)
    offset, end = max(begin, FILE_HEADER.size), size if end is None else end
    while offset < end and offset + FRAME.size <= size:
        checksum, length = FRAME.unpack_from(data, offset)
        start = offset + FRAME.size
        if length == 0 and checksum == 0:
            return
        if length <= 0 or start + length >= size or data[start + length] != _END_OF_RECORD:
            lost = len(data[offset:].rstrip(b"\0"))
            text = (
                f"incomplete transaction of {length} bytes; the remaining {lost} bytes are ignored"
            )
            yield TxnDamage(offset, "torn", text)
            return
        yield offset, checksum, data[start : start + length]
        offset = start + length + 1
    if end == size and data[offset:].strip(b"\0"):
        yield TxnDamage(
            offset, "torn", f"the file ends with {size - offset} bytes of an incomplete transaction"
        )


def _read(offset: int, checksum: int, payload: bytes) -> Txn | TxnDamage:
    found = zlib.adler32(payload)
    if found != checksum:
        return TxnDamage(offset, "crc", f"wrong checksum {checksum:x}, expected {found:x}")
    return _parse(offset, payload)


def _parse(offset: int, payload: bytes) -> Txn | TxnDamage:
    try:
        session_id, cxid, zxid, t_ms, number = TXN_HEADER.unpack_from(payload)
        kind = TxnType(number)
        reader = JuteReader(payload, TXN_HEADER.size)
        ops = _multi(reader) if kind is TxnType.MULTI else (_op(kind, reader),)
    except (JuteError, StructError, ValueError) as error:
        return TxnDamage(offset, "record", str(error))
    return Txn(offset, session_id, cxid, zxid, t_ms, kind is TxnType.MULTI, ops)


def _multi(reader: JuteReader) -> tuple[TxnOp, ...]:
    ops = []
    for _ in range(reader.count()):
        kind, record = TxnType(reader.int32()), reader.buffer() or b""
        if kind is TxnType.ERROR and len(record) > _ERROR_BYTES:
            kind = _type_of(JuteReader(record))
        ops.append(_op(kind, JuteReader(record)))
    return tuple(ops)


def _type_of(record: JuteReader) -> TxnType:
    """Return the type of an operation before the failed one in a multi, from its record.

    A server that applies a failed multi replaces these types by ERROR and keeps the records. In
    this form the leader sends the multi to a server that catches up, which then logs it
    (DataTree.processTxn, ZKDatabase.addCommittedProposal).
    """
    record.text()
    if not record.remaining:
        return TxnType.DELETE
    if record.remaining == _VERSION_BYTES:
        return TxnType.CHECK
    record.buffer()
    if record.remaining == _VERSION_BYTES:
        return TxnType.SET_DATA
    record.skip_acls()
    is_plain = record.remaining == _EPHEMERAL_AND_VERSION_BYTES
    return TxnType.CREATE if is_plain else TxnType.CREATE_CONTAINER


def _op(kind: TxnType, reader: JuteReader) -> TxnOp:
    return _READERS[kind](reader)


def _create(reader: JuteReader) -> TxnOp:
    path, data = reader.text(), reader.buffer()
    reader.skip_acls()
    return TxnOp(TxnType.CREATE, path, data, is_ephemeral=reader.boolean())


def _create_lasting(reader: JuteReader) -> TxnOp:
    """Read the creation of a container or TTL znode."""
    return TxnOp(TxnType.CREATE, reader.text(), reader.buffer())


def _delete(reader: JuteReader) -> TxnOp:
    return TxnOp(TxnType.DELETE, reader.text())


def _set_data(reader: JuteReader) -> TxnOp:
    return TxnOp(TxnType.SET_DATA, reader.text(), reader.buffer(), reader.int32())


def _set_acl(reader: JuteReader) -> TxnOp:
    path = reader.text()
    reader.skip_acls()
    return TxnOp(TxnType.SET_ACL, path, version=reader.int32())


def _check(reader: JuteReader) -> TxnOp:
    return TxnOp(TxnType.CHECK, reader.text(), version=reader.int32())


def _create_session(reader: JuteReader) -> TxnOp:
    return TxnOp(TxnType.CREATE_SESSION, number=reader.int32())


def _close_session(reader: JuteReader) -> TxnOp:
    # 3.5 writes nothing here. 3.6 without paths writes at most the digest, which starts with its
    # version (2); two paths would not fit into the bytes of a digest.
    only_digest = reader.remaining == _DIGEST_BYTES
    if not reader.remaining:
        return TxnOp(TxnType.CLOSE_SESSION)
    count = reader.count()
    if only_digest and count == _DIGEST_VERSION:
        return TxnOp(TxnType.CLOSE_SESSION)
    return TxnOp(TxnType.CLOSE_SESSION, paths=tuple(reader.text() for _ in range(count)))


def _error(reader: JuteReader) -> TxnOp:
    return TxnOp(TxnType.ERROR, number=reader.int32())


_READERS: Final[dict[TxnType, Callable[[JuteReader], TxnOp]]] = {
    TxnType.CREATE: _create,
    TxnType.CREATE2: _create,
    TxnType.CREATE_CONTAINER: _create_lasting,
    TxnType.CREATE_TTL: _create_lasting,
    TxnType.DELETE: _delete,
    TxnType.DELETE_CONTAINER: _delete,
    TxnType.SET_DATA: _set_data,
    TxnType.RECONFIG: _set_data,
    TxnType.SET_ACL: _set_acl,
    TxnType.CHECK: _check,
    TxnType.CREATE_SESSION: _create_session,
    TxnType.CLOSE_SESSION: _close_session,
    TxnType.ERROR: _error,
}
