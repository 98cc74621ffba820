"""Table of the watches that a session has set on the server, so that a reconnect can restore them.

Kazoo forgets all watches when a connection is lost. This table keeps the watches, and SetWatches
requests set them again on the next connection. Only the connection's thread accesses the table, so
no lock is needed. That thread processes replies and events in the order in which the server sent
them, so the table matches the server's watches exactly.

Mirrors ZKWatchManager and ClientCnxn.primeConnection (org.apache.zookeeper).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from klamm.zk.kazoo_wire import (
    Chroot,
    ZooKeeperRequest,
    set_watches_payload,
)
from klamm.zk.request_size import GROUP_BYTES
from klamm.zk.store import Exists, GetChildren, ReadOp, ReadResult, ResultCode, WatchKind

# ZooKeeper's kinds of watches as bits: on an existing znode, on a missing znode, on children.
DATA: Final = 1
EXIST: Final = 2
CHILD: Final = 4

# The watches that a change of this kind consumes.
_USED_UP: Final = {
    WatchKind.CREATED: DATA | EXIST,
    WatchKind.DATA_CHANGED: DATA | EXIST,
    WatchKind.DELETED: DATA | EXIST | CHILD,
    WatchKind.CHILDREN_CHANGED: CHILD,
}


def watch_for(op: ReadOp, result: ReadResult) -> int:
    """Return the kind of watch that a read with this result has set, or 0 if it has set none."""
    if not op.watch:
        return 0
    if result.code is ResultCode.OK:
        return CHILD if isinstance(op, GetChildren) else DATA
    if result.code is ResultCode.NONODE and not isinstance(op, GetChildren):
        return EXIST
    return 0


class WatchTable:
    """Table of the watches of one session, keyed by path."""

    def __init__(self) -> None:
        self._armed: dict[str, int] = {}
        self._sent: deque[SetWatches] = deque()
        self._rearming: list[SetWatches] = []
        self._lost_at_zxid = 0

    def __len__(self) -> int:
        """Return the number of watched znodes."""
        return len(self._armed)

    def read(self, op: ReadOp, result: ReadResult) -> None:
        """Record the watch that the server has set for a SingleRead."""
        watch = watch_for(op, result)
        # A GetData that finds no znode leaves no watch; only an Exists does.
        if watch and not (watch == EXIST and not isinstance(op, Exists)):
            self._armed[op.path] = self._armed.get(op.path, 0) | watch

    def fired(self, kind: WatchKind, path: str) -> bool:
        """Remove the watches that an event has fired. Return False for a duplicate deletion event.

        If no watch in the table matches, the event belongs to the oldest SetWatches request without
        a reply, because the server sends the events that SetWatches causes before its reply.
        """
        used_up = _USED_UP[kind]
        if _take(self._armed, path, used_up):
            return True
        if not self._sent:
            return True
        due = self._sent[0]
        taken = _take(due.watches, path, used_up)
        if kind is WatchKind.DELETED:
            if not taken and path in due.reported_deleted:
                return False
            if taken & CHILD and taken != CHILD:
                due.reported_deleted.add(path)
        return True

    def sent(self, request: SetWatches) -> None:
        """Record that ``request`` is being sent."""
        self._sent.append(request)

    def answered(self, request: SetWatches, armed: bool) -> None:
        """Record the reply to ``request``: its watches, except those that have fired, are now set.

        ``armed`` is False if the request failed or its reply was lost.
        """
        if request in self._sent:
            self._sent.remove(request)
        if not armed:
            return
        for path, watches in request.watches.items():
            self._armed[path] = self._armed.get(path, 0) | watches
        if request in self._rearming:
            self._rearming.remove(request)

    def disconnected(self, last_zxid: int) -> None:
        """Record that the connection was lost. ``last_zxid`` is the zxid of the last reply."""
        if not self._rearming:
            self._lost_at_zxid = last_zxid
        # Watches that were not re-armed yet have missed all changes since the earlier loss.
        for request in self._rearming:
            for path, watches in request.watches.items():
                self._armed[path] = self._armed.get(path, 0) | watches
        self._sent.clear()

    def rearm(self, chroot: Chroot) -> list[SetWatches]:
        """Return the SetWatches requests to send first on a new connection of the session."""
        self._rearming = list(set_watches(self._lost_at_zxid, self._armed, chroot, self))
        self._armed = {}
        return list(self._rearming)

    def clear(self) -> None:
        """Forget all watches, because the session is over."""
        self._armed.clear()
        self._rearming.clear()
        self._sent.clear()


class SetWatches(ZooKeeperRequest):
    """Request that sets watches again after a reconnect (ZooKeeper 3.3 or newer).

    The request contains a zxid. If a znode has changed since that zxid, its watches fire
    immediately. ``watches`` has the watches that the request sets; a watch that fires before the
    reply arrives is removed from it.
    """

    type = 101
    __slots__ = ("_table", "reported_deleted", "watches")

    def __init__(self, payload: bytes, watches: dict[str, int], table: WatchTable) -> None:
        super().__init__(payload)
        self.watches = watches
        self.reported_deleted: set[str] = set()
        self._table = table

    def serialize(self) -> bytes:
        """Serialize the request. Kazoo calls this on the connection's thread before sending."""
        self._table.sent(self)
        return super().serialize()

    def deserialize(self, buffer: bytes, offset: int) -> bool:
        """Read the empty reply."""
        return True

    def complete(self, code: ResultCode, reply: Any) -> None:
        """Record the watches, one of which may fire next, and then complete the request."""
        if self.code is None:
            self._table.answered(self, code is ResultCode.OK)
        super().complete(code, reply)


def set_watches(
    relative_zxid: int, watches: Mapping[str, int], chroot: Chroot, table: WatchTable
) -> Iterator[SetWatches]:
    """Distribute watches over SetWatches requests of about 128 KiB.

    All watches on a znode are in the same request. If the znode was deleted, the two events for its
    data and child watches then arrive directly one after the other.
    """
    vectors: tuple[list[bytes], list[bytes], list[bytes]] = ([], [], [])
    chunk: dict[str, int] = {}
    size = 0
    for path, wanted in watches.items():
        full_path = chroot.add(path)
        if chunk and size + 2 * len(full_path) > GROUP_BYTES:
            yield SetWatches(set_watches_payload(relative_zxid, *vectors), chunk, table)
            chunk, size = {}, 0
            for vector in vectors:
                vector.clear()
        chunk[path] = wanted
        for bit, vector in zip((DATA, EXIST, CHILD), vectors, strict=True):
            if wanted & bit:
                vector.append(full_path)
                size += len(full_path) + 4
    if chunk:
        yield SetWatches(set_watches_payload(relative_zxid, *vectors), chunk, table)


def _take(watches: dict[str, int], path: str, used_up: int) -> int:
    held = watches.get(path, 0)
    taken = held & used_up
    if taken == held:
        watches.pop(path, None)
    else:
        watches[path] = held & ~used_up
    return taken
