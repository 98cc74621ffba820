"""Sizes of transactions on the wire, and ZooKeeper's size limit.

All Store backends use the same limit, so that they reject the same transactions. Mirrors the
serialization of org.apache.zookeeper.MultiOperationRecord.
"""

from __future__ import annotations

from typing import Final

from klamm.zk.store import Create, SetData, Transaction, WriteOp

MAX_TRANSACTION_BYTES: Final = 0xFFFFF - 8
"""Maximum transaction size: a server's default jute.maxbuffer without a request's xid and type."""
GROUP_BYTES: Final = 128 * 1024
"""Target size in bytes of a request with several operations."""

_END_BYTES: Final = 9
_HEADER_AND_LENGTHS: Final = 17
_CREATE_EXTRA: Final = 31
"""Number of bytes that only a create operation has: the open ACL and the flags."""


def op_size(op: WriteOp) -> int:
    """Return the size in bytes of one operation inside a transaction, without a chroot."""
    size = _HEADER_AND_LENGTHS + len(op.path)
    if not op.path.isascii():
        size += len(op.path.encode()) - len(op.path)
    if isinstance(op, (Create, SetData)):
        size += 4 + len(op.data or b"")
        if isinstance(op, Create):
            size += _CREATE_EXTRA - 4
    return size


def transaction_size(transaction: Transaction) -> int:
    """Return the size in bytes of a transaction, without the request's xid and type."""
    return _END_BYTES + sum(map(op_size, transaction))
