"""A lagging ZooKeeper follower, from which one session of a MemoryServer reads.

The follower applies the leader's transactions in order, each after a delay. A session that reads
from it therefore sees an earlier state of the tree, which never goes back, and gets a watch event
before it can read the change. As in ZooKeeper, the reply to a session's own write comes after the
follower has applied it. Mirrors org.apache.zookeeper.server.quorum.FollowerZooKeeperServer.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import NamedTuple

from klamm.zk.data_tree import DataTree, TreeChange
from klamm.zk.store import Transaction
from klamm.zk.watch_manager import WatchManager


class _Pending(NamedTuple):
    """A change that the follower has yet to apply; without a transaction, the end of a session."""

    due_ms: float
    zxid: int
    session_id: int
    transaction: Transaction | None
    now_ms: int


class LaggingFollower:
    """The tree as the follower knows it, and the watches of its session.

    ``zxid``: the last transaction that it has applied. ``lag_ms`` may be changed at any time."""

    def __init__(self, tree: DataTree, zxid: int, lag_ms: float) -> None:
        self.tree = copy.deepcopy(tree)
        self.watches = WatchManager()
        self.zxid = zxid
        self.lag_ms = lag_ms
        self._pending: deque[_Pending] = deque()

    def add(
        self,
        zxid: int,
        session_id: int,
        transaction: Transaction | None,
        monotonic_ms: float,
        now_ms: int,
    ) -> None:
        """Queue a transaction of the leader, or the end of a session."""
        due_ms = monotonic_ms + self.lag_ms
        self._pending.append(_Pending(due_ms, zxid, session_id, transaction, now_ms))

    def next_due_ms(self) -> float | None:
        """Return when the next change is due, in monotonic milliseconds."""
        return self._pending[0].due_ms if self._pending else None

    def apply_due(self, monotonic_ms: float) -> list[TreeChange]:
        """Apply all changes that are due, and return what has changed."""
        changes: list[TreeChange] = []
        while self._pending and self._pending[0].due_ms <= monotonic_ms:
            _, self.zxid, session_id, transaction, now_ms = self._pending.popleft()
            if transaction is None:
                changes += self.tree.remove_ephemerals(session_id, self.zxid)
            else:
                changes += self.tree.apply(transaction, session_id, self.zxid, now_ms)[1]
        return changes
