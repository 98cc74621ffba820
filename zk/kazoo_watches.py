"""Which watches the server holds for a session, and what to ask for when it reconnects.

Kazoo forgets every watch when a connection is lost; this table keeps them, and SetWatches arms them
again. It is touched by the connection's own thread alone, which sees requests, answers and events
in the order in which the server knows them: that makes it exact without a lock. It sends nothing
and calls nobody.

Mirrors ZKWatchManager and ClientCnxn.primeConnection (org.apache.zookeeper).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from klamm.zk.kazoo_wire import (
    Chroot,
    Request,
    set_watches_payload,
)
from klamm.zk.request_size import GROUP_BYTES
from klamm.zk.store import Exists, GetChildren, ReadOp, ReadResult, ResultCode, WatchKind

# The kinds of watch that ZooKeeper keeps, as bits: on a znode that is there, on one that is not, on
# one whose children were listed.
DATA: Final = 1
EXIST: Final = 2
CHILD: Final = 4

# The watches that a change of this kind uses up.
_USED_UP: Final = {
    WatchKind.CREATED: DATA | EXIST,
    WatchKind.DATA_CHANGED: DATA | EXIST,
    WatchKind.DELETED: DATA | EXIST | CHILD,
    WatchKind.CHILDREN_CHANGED: CHILD,
}


def watch_for(op: ReadOp, result: ReadResult) -> int:
    """The watch that ``op`` asks for, given what it read: none where ZooKeeper has none to give."""
    if not op.watch:
        return 0
    if result.code is ResultCode.OK:
        return CHILD if isinstance(op, GetChildren) else DATA
    if result.code is ResultCode.NONODE and not isinstance(op, GetChildren):
        return EXIST
    return 0


class WatchTable:
    """The armed watches of one session, by path."""

    def __init__(self) -> None:
        self._armed: dict[str, int] = {}
        self._sent: deque[SetWatches] = deque()
        self._rearming: list[SetWatches] = []
        self._lost_at_zxid = 0

    def __len__(self) -> int:
        """How many znodes are watched."""
        return len(self._armed)

    def read(self, op: ReadOp, result: ReadResult) -> None:
        """A single read was answered, and armed its watch in the same step."""
        watch = watch_for(op, result)
        # A GetData that finds no znode leaves no watch; only an Exists does.
        if watch and not (watch == EXIST and not isinstance(op, Exists)):
            self._armed[op.path] = self._armed.get(op.path, 0) | watch

    def fired(self, kind: WatchKind, path: str) -> bool:
        """Take an event. False: it is the second half of a deletion that was told already.

        An event belongs to a watch that is armed, if there is one; else to the SetWatches whose
        answer is due next, since the server sends what a SetWatches finds before its answer.
        """
        used_up = _USED_UP[kind]
        if _take(self._armed, path, used_up):
            return True
        if not self._sent:
            return True
        due = self._sent[0]
        taken = _take(due.watches, path, used_up)
        if kind is WatchKind.DELETED:
            if not taken and path in due.told_deleted:
                return False
            if taken & CHILD and taken != CHILD:
                due.told_deleted.add(path)
        return True

    def sent(self, request: SetWatches) -> None:
        """``request`` goes out now."""
        self._sent.append(request)

    def answered(self, request: SetWatches, armed: bool) -> None:
        """The answer is there (what did not fire is armed), or is lost with its connection."""
        if request in self._sent:
            self._sent.remove(request)
        if not armed:
            return
        for path, watches in request.watches.items():
            self._armed[path] = self._armed.get(path, 0) | watches
        if request in self._rearming:
            self._rearming.remove(request)

    def disconnected(self, last_zxid: int) -> None:
        """The connection is lost; the last answer on it carried ``last_zxid``."""
        if not self._rearming:
            self._lost_at_zxid = last_zxid
        # What was not armed again yet has missed what happened since the earlier loss.
        for request in self._rearming:
            for path, watches in request.watches.items():
                self._armed[path] = self._armed.get(path, 0) | watches
        self._rearming.clear()
        self._sent.clear()

    def rearm(self, chroot: Chroot) -> list[SetWatches]:
        """What to send before anything else on the new connection of the same session."""
        self._rearming = list(set_watches(self._lost_at_zxid, self._armed, chroot, self))
        self._armed = {}
        return list(self._rearming)

    def clear(self) -> None:
        """The session is gone, and its watches with it."""
        self._armed.clear()
        self._rearming.clear()
        self._sent.clear()


class SetWatches(Request):
    """Arms watches; what changed since a zxid fires at once instead. Any ZooKeeper since 3.3.

    ``watches`` is what is still to be armed: an event before the answer takes away from it.
    """

    type = 101
    __slots__ = ("_table", "told_deleted", "watches")

    def __init__(self, payload: bytes, watches: dict[str, int], table: WatchTable) -> None:
        super().__init__(payload)
        self.watches = watches
        self.told_deleted: set[str] = set()
        self._table = table

    def serialize(self) -> bytes:
        """Kazoo's call at the moment of sending, by the connection's thread."""
        self._table.sent(self)
        return super().serialize()

    def deserialize(self, buffer: bytes, offset: int) -> bool:
        """An empty answer."""
        return True

    def settle(self, code: ResultCode, reply: Any) -> None:
        """Tell the table first: the next event may be one of these watches."""
        if self.code is None:
            self._table.answered(self, code is ResultCode.OK)
        super().settle(code, reply)


def set_watches(
    relative_zxid: int, watches: Mapping[str, int], chroot: Chroot, table: WatchTable
) -> Iterator[SetWatches]:
    """Spread watches over requests of about 128 KiB.

    All watches of a znode are in one request: so the two events of one deletion follow each other.
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
