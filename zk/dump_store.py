"""What `klamm zk dump` printed, read back as a Store that can only be read.

So that what reads a live ZooKeeper reads a dump as well. It arms no watches and fires none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from klamm.cluster.errors import StoreError
from klamm.zk.dump import STAT_FIELDS, ZNode
from klamm.zk.dump_text import data_of, is_unreadable, owner_of, parse_dump
from klamm.zk.store import Listener, ReadOp, ReadResult, ResultCode, Stat, Transaction, TxnResult

__all__ = ["DumpStore", "parse_dump"]


class DumpStore:
    """The znodes of a dump, which may be of a part of the tree: the rest is not there."""

    def __init__(self, znodes: Sequence[ZNode]) -> None:
        self._znodes = {znode.path: znode for znode in znodes}
        self._children: dict[str, list[str]] = {}
        for path in self._znodes:
            parent, _, name = path.rpartition("/")
            if name:
                self._children.setdefault(parent or "/", []).append(name)

    @property
    def session_id(self) -> int:
        """0: nobody is connected."""
        return 0

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        """One result per operation, in order; NOAUTH for what the dump could not read."""
        return [self._read(op.path) for op in ops]

    def _read(self, path: str) -> ReadResult:
        znode = self._znodes.get(path)
        if znode is None:
            return ReadResult(ResultCode.NONODE)
        if is_unreadable(znode):
            return ReadResult(ResultCode.NOAUTH)
        data = data_of(znode)
        children = sorted(self._children.get(path, ()))
        return ReadResult(ResultCode.OK, data, _stat(znode, data, len(children)), children)

    def write(self, transactions: Sequence[Transaction]) -> list[TxnResult]:
        """Raises StoreError."""
        self._refuse()

    def add_listener(self, listener: Listener) -> None:
        """Nothing ever happens to a dump."""

    def remove_listener(self, listener: Listener) -> None:
        """Nothing ever happens to a dump."""

    def reopen(self) -> None:
        """Raises StoreError."""
        self._refuse()

    def close(self) -> None:
        """Nothing is open."""

    def abandon(self) -> None:
        """Nothing is open."""

    def _refuse(self) -> NoReturn:
        raise StoreError("a dump is only read, never written")


def _stat(znode: ZNode, data: bytes | None, num_children: int) -> Stat:
    return Stat(
        **{name: getattr(znode, name) or 0 for name in STAT_FIELDS},
        ephemeral_owner=owner_of(znode),
        data_length=len(data or b""),
        num_children=num_children,
    )
