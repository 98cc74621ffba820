"""In-memory ZooKeeper server: transactions, sessions, watches, and hooks for fault injection.

For the simulated world and for tests: single-threaded, no I/O, deep-copyable between calls. The
clock only matters for the expiry of sessions without a connection. Mirrors the client-visible
behaviour of org.apache.zookeeper.server.{ZooKeeperServer,SessionTracker}.
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
    """Raised by a hook to crash the caller; error handlers do not catch it."""


class LostReply(Exception):
    """Raised by a hook to break the connection; the session gets a new one.

    Raised by ``before_op``, the operation has not taken effect; raised by ``after_op``, it has.
    """


BeforeOp = Callable[[int, ReadOp | Transaction], None]
AfterOp = Callable[[int, ReadOp | Transaction, ReadResult | TxnResult], None]


@dataclass(slots=True)
class _Session:
    timeout_ms: float
    notify: Callable[[StoreEvent], None]
    watches: SavedWatches | None = None
    expired: bool = False
    notified: bool = False


class MemoryServer:
    """In-memory ZooKeeper server.

    The hooks ``before_op`` and ``after_op`` are called around every read and transaction, with the
    session id, the operation (a ReadOp or a whole transaction) and, for ``after_op``, the result.
    They may raise Crashed or LostReply.
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
        """Open a session and return its id; ``notify`` is called with its events."""
        self.zxid += 1
        self._last_session_id += 1
        self._sessions[self._last_session_id] = _Session(timeout_ms, notify)
        return self._last_session_id

    def close_session(self, session_id: int) -> None:
        """End a session at its client's request, or forget a session that has expired."""
        session = self._sessions.pop(session_id)
        self._expire_at_ms.pop(session_id, None)
        if not session.expired:
            self._end(session_id)

    def expire_session(self, session_id: int, notify: bool = True) -> None:
        """Expire a session.

        Its client is notified at once or, without ``notify``, at its next call or connection.
        """
        session = self._sessions[session_id]
        if session.expired:
            return
        session.expired = True
        self._expire_at_ms.pop(session_id, None)
        self._end(session_id)
        if notify:
            self.notify_expired(session_id)

    def notify_expired(self, session_id: int) -> None:
        """Notify the client of an expired session, once."""
        session = self._sessions[session_id]
        if session.expired and not session.notified:
            session.notified = True
            session.notify(SessionEvent(SessionState.EXPIRED))

    def disconnect(self, session_id: int, notify: bool = True) -> None:
        """Cut the connection of a session, which expires after its timeout unless reconnected."""
        session = self._sessions[session_id]
        if session.expired or session_id in self._expire_at_ms:
            return
        self._expire_at_ms[session_id] = self._clock.monotonic_ms() + session.timeout_ms
        session.watches = self.watches.disarm(session_id, self.tree, self.zxid)
        if notify:
            session.notify(SessionEvent(SessionState.DISCONNECTED))

    def reconnect(self, session_id: int) -> None:
        """Reconnect a session; its client gets the missed watch events, or the expiry."""
        session = self._sessions[session_id]
        if session.expired:
            self.notify_expired(session_id)
            return
        if self._expire_at_ms.pop(session_id, None) is None:
            return
        saved, session.watches = session.watches, None
        assert saved is not None
        session.notify(SessionEvent(SessionState.CONNECTED))
        for event in self.watches.rearm(session_id, self.tree, saved):
            session.notify(event)

    def fail_authentication(self, session_id: int) -> None:
        """Notify the client of a live session of an authentication failure."""
        self._sessions[session_id].notify(SessionEvent(SessionState.AUTH_FAILED))

    def next_expiry_ms(self) -> float | None:
        """Return when the next session without a connection expires, in monotonic ms, or None."""
        return min(self._expire_at_ms.values(), default=None)

    def expire_due(self) -> list[int]:
        """Expire and return all sessions that are due; their clients are notified later."""
        now_ms = self._clock.monotonic_ms()
        due = sorted(session_id for session_id, at in self._expire_at_ms.items() if at <= now_ms)
        for session_id in due:
            self.expire_session(session_id, notify=False)
        return due

    def is_connected(self, session_id: int) -> bool:
        """Return True if the session is alive and has a connection."""
        return self.is_alive(session_id) and session_id not in self._expire_at_ms

    def is_alive(self, session_id: int) -> bool:
        """Return True if the session has not ended, with or without a connection."""
        session = self._sessions.get(session_id)
        return session is not None and not session.expired

    def _end(self, session_id: int) -> None:
        self.watches.disarm(session_id, self.tree, self.zxid)
        self.zxid += 1
        changes = self.tree.remove_ephemerals(session_id, self.zxid)
        self._deliver(changes)

    # Operations of a connected session

    def read(self, session_id: int, op: ReadOp) -> ReadResult:
        """Execute one read and arm its watch."""
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
        """Execute one transaction; watch events are delivered before this returns."""
        self.zxid += 1
        result, changes = self.tree.apply(transaction, session_id, self.zxid, self._clock.now_ms())
        if changes:
            self._deliver(changes)
        return result

    def _deliver(self, changes: list[Change]) -> None:
        for session_id, event in self.watches.fire(changes):
            self._sessions[session_id].notify(event)

    def fingerprint(self) -> str:
        """Return a digest of the tree, watches and sessions; equal states have equal digests."""
        digest = hashlib.blake2b(digest_size=16)
        for path, node in self.tree.items():
            digest.update(repr((path, node.data, node.stat(), node.creations)).encode())
        sessions = [
            (session_id, s.timeout_ms, s.watches, s.expired, s.notified)
            for session_id, s in self._sessions.items()
        ]
        expiries = sorted(self._expire_at_ms.items())
        digest.update(repr((self.zxid, self.watches.armed(), sessions, expiries)).encode())
        return digest.hexdigest()


class SavedWatches(NamedTuple):
    """Watches that a client re-arms after its connection was cut; paths are sorted."""

    present: list[str]
    absent: list[str]
    children: list[str]
    last_zxid: int


class WatchManager:
    """Watching sessions by path, in the order of arming. Watches fire once.

    Mirrors org.apache.zookeeper.server.WatchManager, the part of DataTree that triggers watches,
    and SetWatches.
    """

    def __init__(self) -> None:
        self._data: dict[str, dict[int, None]] = {}
        self._children: dict[str, dict[int, None]] = {}

    def watch_data(self, path: str, session_id: int) -> None:
        """Arm a data watch, or an exist watch if the znode is missing."""
        self._data.setdefault(path, {})[session_id] = None

    def watch_children(self, path: str, session_id: int) -> None:
        """Arm a child watch."""
        self._children.setdefault(path, {})[session_id] = None

    def fire(self, changes: Iterable[Change]) -> list[tuple[int, WatchEvent]]:
        """Disarm the watches that the changes fire; return (session, event) pairs.

        A session gets one event per change.
        """
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
        """Remove and return all watches of a session whose connection has ended."""
        data = _drop(self._data, session_id)
        return SavedWatches(
            [path for path in data if path in tree.nodes],
            [path for path in data if path not in tree.nodes],
            _drop(self._children, session_id),
            last_zxid,
        )

    def rearm(self, session_id: int, tree: DataTree, saved: SavedWatches) -> list[WatchEvent]:
        """Re-arm watches on znodes unchanged since ``last_zxid``; return events for the others."""
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
        """Return (kind, path, sessions) of every watch, sorted, for fingerprints and tests."""
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
