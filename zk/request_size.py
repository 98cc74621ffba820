"""How many bytes a transaction takes on the wire, and how many ZooKeeper takes.

The same for every backend, so that what is too big for one is too big for all. Mirrors the
serialized form of org.apache.zookeeper.MultiOperationRecord.
"""

from __future__ import annotations

from typing import Final

from klamm.zk.store import Create, SetData, Transaction, WriteOp

MAX_TRANSACTION_BYTES: Final = 0xFFFFF - 8
"""jute.maxbuffer of a server as it comes, less the xid and the type of a request."""
GROUP_BYTES: Final = 128 * 1024
"""What one request should stay under when it is made of many operations."""

_END_BYTES: Final = 9
_HEADER_AND_LENGTHS: Final = 17
_CREATE_EXTRA: Final = 31
"""The access list "open to all" and the flags."""


def op_size(op: WriteOp, chroot_bytes: int = 0) -> int:
    """Bytes of one operation inside a transaction."""
    size = _HEADER_AND_LENGTHS + chroot_bytes + len(op.path)
    if not op.path.isascii():
        size += len(op.path.encode()) - len(op.path)
    if isinstance(op, (Create, SetData)):
        size += 4 + len(op.data or b"")
        if isinstance(op, Create):
            size += _CREATE_EXTRA - 4
    return size


def transaction_size(transaction: Transaction, chroot_bytes: int = 0) -> int:
    """Bytes of a whole transaction, without the request's xid and type."""
    return _END_BYTES + sum(op_size(op, chroot_bytes) for op in transaction)
