"""Writes ZooKeeper transaction logs (version-2/log.*) that ZooKeeper's own tools can read.

Encodes transactions and adds checksums, but does not check whether the operations are valid.
zk/txn_log.py reads these files. The format is that of ZooKeeper 3.5
(org.apache.zookeeper.server.persistence.FileTxnLog).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from io import SEEK_CUR
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Final

from klamm.zk.txn_log import FILE_HEADER, FRAME, MAGIC, TXN_HEADER, VERSION, TxnOp, TxnType

_INT: Final = Struct(">i")
_END_OF_RECORD: Final = b"B"
_OPEN_ACL: Final = b"\0\0\0\1\0\0\0\x1f\0\0\0\5world\0\0\0\6anyone"
_UNKNOWN_CVERSION: Final = 1
_CORRUPT: Final = b"\xa5"
PADDING_BYTES: Final = 1024


def log_name(first_zxid: int) -> str:
    """Return the name of a log file whose first transaction has this zxid."""
    return f"log.{first_zxid:x}"


class TxnLogWriter:
    """Writes a transaction log. Transactions must be written in order of zxids."""

    def __init__(self, path: Path) -> None:
        """Create the file. Raises FileExistsError if it exists."""
        self._file: BinaryIO = path.open("xb")
        self._file.write(FILE_HEADER.pack(MAGIC, VERSION, 0))

    @property
    def offset(self) -> int:
        """Byte offset at which the next transaction will begin."""
        return self._file.tell()

    def write(
        self,
        zxid: int,
        t_ms: int,
        session_id: int,
        ops: Sequence[TxnOp],
        *,
        cxid: int = 0,
        is_multi: bool | None = None,
    ) -> None:
        """Append a transaction: a multi if there are several operations, or if ``is_multi``."""
        multi = len(ops) > 1 if is_multi is None else is_multi
        if multi:
            kind, body = TxnType.MULTI, _multi(ops)
        else:
            (op,) = ops
            kind, body = op.type, _body(op)
        payload = TXN_HEADER.pack(session_id, cxid, zxid, t_ms, kind) + body
        frame = FRAME.pack(zlib.adler32(payload), len(payload))
        self._file.write(b"".join((frame, payload, _END_OF_RECORD)))

    def damage_last(self) -> None:
        """Corrupt the last byte of the last transaction, so that its checksum is wrong."""
        self._file.seek(-len(_END_OF_RECORD) - 1, SEEK_CUR)
        self._file.write(_CORRUPT + _END_OF_RECORD)

    def close(self) -> None:
        """Pad the file with zeros, as in ZooKeeper's logs, which are preallocated, and close it."""
        self._file.write(b"\0" * PADDING_BYTES)
        self._file.close()


def _multi(ops: Sequence[TxnOp]) -> bytes:
    parts = [_INT.pack(len(ops))]
    for op in ops:
        parts += (_INT.pack(op.type), _buffer(_body(op)))
    return b"".join(parts)


def _body(op: TxnOp) -> bytes:
    match op.type:
        case TxnType.CREATE:
            ephemeral = b"\1" if op.is_ephemeral else b"\0"
            version = _INT.pack(_UNKNOWN_CVERSION)
            return _text(op.path) + _buffer(op.data) + _OPEN_ACL + ephemeral + version
        case TxnType.SET_DATA:
            return _text(op.path) + _buffer(op.data) + _INT.pack(op.version)
        case TxnType.CHECK:
            return _text(op.path) + _INT.pack(op.version)
        case TxnType.DELETE:
            return _text(op.path)
        case TxnType.SET_ACL:
            return _text(op.path) + _OPEN_ACL + _INT.pack(op.version)
        case TxnType.CREATE_SESSION | TxnType.ERROR:
            return _INT.pack(op.number)
        case TxnType.CLOSE_SESSION if op.paths is None:
            return b""
        case TxnType.CLOSE_SESSION:
            return _INT.pack(len(op.paths or ())) + b"".join(map(_text, op.paths or ()))
    raise AssertionError(f"no record of {op.type.name}")


def _buffer(data: bytes | None) -> bytes:
    return _INT.pack(-1) if data is None else _INT.pack(len(data)) + data


def _text(text: str) -> bytes:
    data = text.encode() if text.isascii() else _utf_16_units(text)
    return _INT.pack(len(data)) + data


def _utf_16_units(text: str) -> bytes:
    """Encode each UTF-16 code unit separately as UTF-8, as ZooKeeper's Jute encoding does."""
    units = text.encode("utf-16-be", "surrogatepass")
    return b"".join(
        chr(int.from_bytes(units[n : n + 2])).encode("utf-8", "surrogatepass")
        for n in range(0, len(units), 2)
    )
