"""Read-only Store whose content is the output of `klamm zk dump`.

Code that reads from a live ZooKeeper can thus read from a dump instead. Watches never fire.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from klamm.cluster.errors import StoreError
from klamm.zk.dump import STAT_FIELDS, DumpedZNode
from klamm.zk.dump_text import data_of, is_unreadable, owner_of
from klamm.zk.store import (
    ReadOp,
    ReadResult,
    ResultCode,
    Stat,
    StoreListener,
    Transaction,
    TxnResult,
)


class DumpStore:
    """Read-only Store that contains only the znodes of a dump."""

    def __init__(self, znodes: Sequence[DumpedZNode]) -> None:
        self._znodes = {znode.path: znode for znode in znodes}
        self._children: dict[str, list[str]] = {}
        for path in self._znodes:
            parent, _, name = path.rpartition("/")
            if name:
                self._children.setdefault(parent or "/", []).append(name)

    @property
    def session_id(self) -> int:
        """Always 0: there is no session."""
        return 0

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        """Return a result for each read. A znode that is unreadable in the dump has code NOAUTH."""
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
        """Raise StoreError: a dump is read-only."""
        self._refuse()

    def add_listener(self, listener: StoreListener) -> None:
        """Do nothing: a dump has no events."""

    def remove_listener(self, listener: StoreListener) -> None:
        """Do nothing: a dump has no events."""

    def reopen(self) -> None:
        """Raise StoreError: a dump has no session."""
        self._refuse()

    def close(self) -> None:
        """Do nothing: a dump has no session."""

    def abandon(self) -> None:
        """Do nothing: a dump has no session."""

    def _refuse(self) -> NoReturn:
        raise StoreError("a dump is read-only")


def _stat(znode: DumpedZNode, data: bytes | None, num_children: int) -> Stat:
    return Stat(
        **{name: getattr(znode, name) or 0 for name in STAT_FIELDS},
        ephemeral_owner=owner_of(znode),
        data_length=len(data or b""),
        num_children=num_children,
    )
