"""A ZooKeeper server in memory: transactions, sessions, watches, and hooks for faults.

For the simulated world and for tests: one thread, no I/O, deep-copyable while nobody is inside a
call. Time comes from the clock handed in and only matters to sessions without a connection.
Mirrors org.apache.zookeeper.server.{ZooKeeperServer,SessionTracker} as far as a client sees them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from klamm.cluster.protocols import Clock
from klamm.zk.data_tree import Change, DataTree, split
from klamm.zk.store import (
    GetChildren,
    GetData,
    ReadOp,
    ReadResult,
    ResultCode,
    SessionEvent,
    SessionState,
    StoreEvent,
    Transaction,
    TxnResult,
    WatchEvent,
    WatchKind,
)

_CHILDREN_CHANGED: Final = WatchKind.CHILDREN_CHANGED


class Crashed(BaseException):
    """Raised by a hook: the caller dies here. No handler of errors catches it."""


class LostReply(Exception):
    """Raised by a hook: the connection breaks here, and the session gets another one.

    From ``before_op`` the operation did not take place, from ``after_op`` it did.
    """


BeforeOp = Callable[[int, ReadOp | Transaction], None]
AfterOp = Callable[[int, ReadOp | Transaction, ReadResult | TxnResult], None]


@dataclass(slots=True)
class _Session:
    timeout_ms: float
    notify: Callable[[StoreEvent], None]
    watches: SavedWatches | None = None
    expired: bool = False
    told: bool = False


class MemoryServer:
    """The server. ``before_op`` and ``after_op`` are called around every read and transaction.

    They get the session's id, the operation (a ReadOp, or the whole transaction) and, after it,
    the result; they may raise Crashed or LostReply.
    """

    def __init__(self, clock: Clock) -> None:
        self.tree = DataTree()
        self.watches = WatchManager()
        self.zxid = 0
        self.before_op: BeforeOp | None = None
        self.after_op: AfterOp | None = None
        self._clock = clock
        self._sessions: dict[int, _Session] = {}
        self._expire_at_ms: dict[int, float] = {}
        self._last_session_id = 0

    # Sessions

    def open_session(self, timeout_ms: float, notify: Callable[[StoreEvent], None]) -> int:
        """Begin a session and return its id; ``notify`` hears its events."""
        self.zxid += 1
        self._last_session_id += 1
        self._sessions[self._last_session_id] = _Session(timeout_ms, notify)
        return self._last_session_id

    def close_session(self, session_id: int) -> None:
        """End a session on its client's wish, or forget one that has ended."""
        session = self._sessions.pop(session_id)
        self._expire_at_ms.pop(session_id, None)
        if not session.expired:
            self._end(session_id)

    def expire_session(self, session_id: int, notify: bool = True) -> None:
        """End a session as a timeout does.

        Its client hears of it at once, or, without ``notify``, at its next call or connection.
        """
        session = self._sessions[session_id]
        if session.expired:
            return
        session.expired = True
        self._expire_at_ms.pop(session_id, None)
        self._end(session_id)
        if notify:
            self.tell_expired(session_id)

    def tell_expired(self, session_id: int) -> None:
        """Let the client of an expired session know, once."""
        session = self._sessions[session_id]
        if session.expired and not session.told:
            session.told = True
            session.notify(SessionEvent(SessionState.EXPIRED))

    def disconnect(self, session_id: int, notify: bool = True) -> None:
        """Cut a session's connection; it expires after its timeout unless it is reconnected."""
        session = self._sessions[session_id]
        if session.expired or session_id in self._expire_at_ms:
            return
        self._expire_at_ms[session_id] = self._clock.monotonic_ms() + session.timeout_ms
        session.watches = self.watches.disarm(session_id, self.tree, self.zxid)
        if notify:
            session.notify(SessionEvent(SessionState.DISCONNECTED))

    def reconnect(self, session_id: int) -> None:
        """Give a session a connection again: it hears what it missed, or that it has expired."""
        session = self._sessions[session_id]
        if session.expired:
            self.tell_expired(session_id)
            return
        if self._expire_at_ms.pop(session_id, None) is None:
            return
        saved, session.watches = session.watches, None
        assert saved is not None
        session.notify(SessionEvent(SessionState.CONNECTED))
        for event in self.watches.rearm(session_id, self.tree, saved):
            session.notify(event)

    def fail_authentication(self, session_id: int) -> None:
        """Tell a live session's client that it could not authenticate."""
        self._sessions[session_id].notify(SessionEvent(SessionState.AUTH_FAILED))

    def next_expiry_ms(self) -> float | None:
        """When the first session without a connection expires, in the clock's monotonic time."""
        return min(self._expire_at_ms.values(), default=None)

    def expire_due(self) -> list[int]:
        """Expire the sessions whose time is up; returns them. Their clients hear of it later."""
        now_ms = self._clock.monotonic_ms()
        due = sorted(session_id for session_id, at in self._expire_at_ms.items() if at <= now_ms)
        for session_id in due:
            self.expire_session(session_id, notify=False)
        return due

    def is_connected(self, session_id: int) -> bool:
        """True if the session is alive and has a connection."""
        return self.is_alive(session_id) and session_id not in self._expire_at_ms

    def is_alive(self, session_id: int) -> bool:
        """True if the session has not ended, with or without a connection."""
        session = self._sessions.get(session_id)
        return session is not None and not session.expired

    def _end(self, session_id: int) -> None:
        self.watches.disarm(session_id, self.tree, self.zxid)
        self.zxid += 1
        changes = self.tree.remove_ephemerals(session_id, self.zxid)
        self._deliver(changes)

    # Operations of a connected session

    def read(self, session_id: int, op: ReadOp) -> ReadResult:
        """Do one read and arm its watch."""
        node = self.tree.nodes.get(op.path)
        if op.watch and not isinstance(op, GetChildren):
            self.watches.watch_data(op.path, session_id)
        if node is None:
            return ReadResult(ResultCode.NONODE)
        if isinstance(op, GetChildren):
            if op.watch:
                self.watches.watch_children(op.path, session_id)
            return ReadResult(ResultCode.OK, children=sorted(node.children or ()))
        data = node.data if isinstance(op, GetData) else None
        return ReadResult(ResultCode.OK, data, node.stat())

    def commit(self, session_id: int, transaction: Transaction) -> TxnResult:
        """Do one transaction; whoever watches hears of it before this returns."""
        self.zxid += 1
        result, changes = self.tree.apply(transaction, session_id, self.zxid, self._clock.now_ms())
        if changes:
            self._deliver(changes)
        return result

    def _deliver(self, changes: list[Change]) -> None:
        for session_id, event in self.watches.fire(changes):
            self._sessions[session_id].notify(event)

    def fingerprint(self) -> str:
        """A digest of everything: tree, watches, sessions. Equal states have equal digests."""
        digest = hashlib.blake2b(digest_size=16)
        for path, node in self.tree.items():
            digest.update(repr((path, node.data, node.stat(), node.creations)).encode())
        sessions = [
            (session_id, s.timeout_ms, s.watches, s.expired, s.told)
            for session_id, s in self._sessions.items()
        ]
        expiries = sorted(self._expire_at_ms.items())
        digest.update(repr((self.zxid, self.watches.armed(), sessions, expiries)).encode())
        return digest.hexdigest()


class SavedWatches(NamedTuple):
    """What a client knows to re-arm after its connection was cut; paths are sorted."""

    present: list[str]
    absent: list[str]
    children: list[str]
    last_zxid: int


class WatchManager:
    """Sessions that watch a path, in the order in which they began to. Watches fire once.

    Mirrors org.apache.zookeeper.server.WatchManager, the part of DataTree that triggers watches,
    and SetWatches.
    """

    def __init__(self) -> None:
        self._data: dict[str, dict[int, None]] = {}
        self._children: dict[str, dict[int, None]] = {}

    def watch_data(self, path: str, session_id: int) -> None:
        """Arm a data watch, or an exist watch where there is no znode."""
        self._data.setdefault(path, {})[session_id] = None

    def watch_children(self, path: str, session_id: int) -> None:
        """Arm a child watch."""
        self._children.setdefault(path, {})[session_id] = None

    def fire(self, changes: Iterable[Change]) -> list[tuple[int, WatchEvent]]:
        """Disarm what the changes concern: (session, event), one event a session and change."""
        fired: list[tuple[int, WatchEvent]] = []
        for kind, path in changes:
            sessions = self._data.pop(path, None)
            if kind is WatchKind.DELETED:
                watching_children = self._children.pop(path, None)
                if watching_children:
                    sessions = {**sessions, **watching_children} if sessions else watching_children
            if sessions:
                event = WatchEvent(kind, path)
                fired += [(session_id, event) for session_id in sessions]
            if kind is not WatchKind.DATA_CHANGED and self._children:
                parent = split(path)[0]
                sessions = self._children.pop(parent, None)
                if sessions:
                    event = WatchEvent(_CHILDREN_CHANGED, parent)
                    fired += [(session_id, event) for session_id in sessions]
        return fired

    def disarm(self, session_id: int, tree: DataTree, last_zxid: int) -> SavedWatches:
        """Drop all watches of a session, as the end of its connection does."""
        data = _drop(self._data, session_id)
        return SavedWatches(
            [path for path in data if path in tree.nodes],
            [path for path in data if path not in tree.nodes],
            _drop(self._children, session_id),
            last_zxid,
        )

    def rearm(self, session_id: int, tree: DataTree, saved: SavedWatches) -> list[WatchEvent]:
        """Arm again what did not change since ``last_zxid``; events for what did, one a znode."""
        events: dict[WatchEvent, None] = {}
        for path in saved.present:
            node = tree.nodes.get(path)
            if node is None:
                events[WatchEvent(WatchKind.DELETED, path)] = None
            elif node.mzxid > saved.last_zxid:
                events[WatchEvent(WatchKind.DATA_CHANGED, path)] = None
            else:
                self.watch_data(path, session_id)
        for path in saved.absent:
            if path in tree.nodes:
                events[WatchEvent(WatchKind.CREATED, path)] = None
            else:
                self.watch_data(path, session_id)
        for path in saved.children:
            node = tree.nodes.get(path)
            if node is None:
                events[WatchEvent(WatchKind.DELETED, path)] = None
            elif node.pzxid > saved.last_zxid:
                events[WatchEvent(_CHILDREN_CHANGED, path)] = None
            else:
                self.watch_children(path, session_id)
        return list(events)

    def armed(self) -> list[tuple[str, str, list[int]]]:
        """(kind, path, sessions) of every watch, sorted, for fingerprints and tests."""
        tables = (("children", self._children), ("data", self._data))
        return [
            (kind, path, sorted(table[path])) for kind, table in tables for path in sorted(table)
        ]


def _drop(table: dict[str, dict[int, None]], session_id: int) -> list[str]:
    paths = sorted(path for path, sessions in table.items() if session_id in sessions)
    for path in paths:
        del table[path][session_id]
        if not table[path]:
            del table[path]
    return paths
