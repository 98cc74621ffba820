"""In-memory ZooKeeper server: transactions, sessions, watches, and hooks for fault injection.

The server is used by the simulated world and by tests. It is single-threaded, does no I/O, and can
be deep-copied between calls. The clock is used to expire disconnected sessions and for the times in
stats. Mirrors the client-visible behaviour of
org.apache.zookeeper.server.{ZooKeeperServer,SessionTracker}.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from klamm.cluster.protocols import Clock
from klamm.cluster.timers import earliest
from klamm.zk.data_tree import DataTree, TreeChange
from klamm.zk.lagging_follower import LaggingFollower
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
    WriteOp,
)
from klamm.zk.watch_manager import SavedWatches, WatchManager


class Crashed(BaseException):
    """Raised by a hook of MemoryServer to simulate a crash of the caller.

    It is a BaseException, so that ordinary error handlers do not catch it.
    """


class LostReply(Exception):
    """Raised by a hook of MemoryServer to break the connection. The session then reconnects.

    If ``before_op`` raises it, the operation has no effect. If ``after_op`` raises it, the
    operation has taken effect.
    """


BeforeOp = Callable[[int, ReadOp | Transaction], None]
OnOperation = Callable[[ReadOp | Transaction, bool], None]
OnCommit = Callable[[int, Sequence[TreeChange]], None]
OnRejection = Callable[[int, WriteOp], None]
AfterOp = Callable[[int, ReadOp | Transaction, ReadResult | TxnResult], None]


@dataclass(slots=True)
class _Session:
    timeout_ms: float
    notify: Callable[[StoreEvent], None]
    watches: SavedWatches | None = None
    expired: bool = False
    notified: bool = False
    is_cut: bool = False
    heard_until_ms: float = 0.0


_SILENCE_SHARE: Final = 2 / 3
"""Share of the session timeout after which a client drops a connection that is silent."""


class MemoryServer:
    """In-memory ZooKeeper server.

    The hooks ``before_op`` and ``after_op`` are called before and after every read and transaction,
    with the session id, the operation (a ReadOp or a whole transaction) and, for ``after_op``, the
    result. These hooks may raise Crashed or LostReply.

    - ``commit_taps``: called with the session id and the changes whenever a transaction commits or
      a session ends, before watches fire.
    - ``rejection_taps``: called with the session id and the operation that failed whenever a
      transaction is rejected.
    - ``on_operation``: called with every read and transaction just before it is executed (True) and
      afterwards (False); it may let other actors run.
    - ``on_lagging``: called when the time of the next ``apply_lagging`` may have changed.
    """

    def __init__(self, clock: Clock) -> None:
        self.tree = DataTree()
        self.watches = WatchManager()
        self.zxid = 0
        self.before_op: BeforeOp | None = None
        self.after_op: AfterOp | None = None
        self.commit_taps: list[OnCommit] = []
        self.rejection_taps: list[OnRejection] = []
        self.on_operation: OnOperation | None = None
        self._clock = clock
        self._sessions: dict[int, _Session] = {}
        self._expire_at_ms: dict[int, float] = {}
        self._last_session_id = 0
        self._followers: dict[int, LaggingFollower] = {}
        self.on_lagging: Callable[[], None] | None = None

    # Sessions

    def open_session(self, timeout_ms: float, notify: Callable[[StoreEvent], None]) -> int:
        """Open a session, and return its id. ``notify`` is called with the session's events."""
        self.zxid += 1
        self._last_session_id += 1
        self._sessions[self._last_session_id] = _Session(timeout_ms, notify)
        return self._last_session_id

    def close_session(self, session_id: int) -> None:
        """End a session at the client's request, or remove an expired session."""
        session = self._sessions.pop(session_id)
        self._expire_at_ms.pop(session_id, None)
        if not session.expired:
            self._end(session_id)

    def expire_session(self, session_id: int, notify: bool = True) -> None:
        """Expire a session.

        If ``notify`` is True, the client is notified now, otherwise when it next makes a call or
        reconnects.
        """
        session = self._sessions[session_id]
        if session.expired:
            return
        session.expired = True
        self._expire_at_ms.pop(session_id, None)
        self._end(session_id)
        if notify:
            self.notify_expired(session_id)

    def is_known_to_have_expired(self, session_id: int) -> bool:
        """Return True if the client was notified that its session has expired."""
        return self._sessions[session_id].notified

    def notify_expired(self, session_id: int) -> None:
        """Notify the client that its session has expired, unless it was already notified."""
        session = self._sessions[session_id]
        if session.expired and not session.notified and not session.is_cut:
            session.notified = True
            session.notify(SessionEvent(SessionState.EXPIRED))

    def disconnect(self, session_id: int, notify: bool = True) -> None:
        """Disconnect a session, which expires after its timeout unless it reconnects."""
        session = self._sessions[session_id]
        if session.expired or session_id in self._expire_at_ms:
            return
        self._expire_at_ms[session_id] = self._clock.monotonic_ms() + session.timeout_ms
        follower = self._followers.pop(session_id, None)
        view = self if follower is None else follower
        session.watches = view.watches.disarm(session_id, view.tree, view.zxid)
        if notify:
            session.notify(SessionEvent(SessionState.DISCONNECTED))

    def reconnect(self, session_id: int) -> None:
        """Reconnect a session. The client gets the watch events that it missed.

        If the session has expired, the client is notified of the expiry instead."""
        session = self._sessions[session_id]
        if session.is_cut:
            return
        if session.expired:
            self.notify_expired(session_id)
            return
        if self._expire_at_ms.pop(session_id, None) is None:
            return
        saved, session.watches = session.watches, None
        assert saved is not None
        session.notify(SessionEvent(SessionState.CONNECTED))
        view = self._view(session_id)
        for event in view.watches.rearm(session_id, view.tree, saved):
            session.notify(event)

    def cut(self, session_id: int, *, is_heard: bool) -> None:
        """Disconnect a session, which cannot reconnect until ``restore``.

        If ``is_heard``, only what the server sends is lost: the client's heartbeats and writes
        reach the server until the client drops the silent connection."""
        session = self._sessions[session_id]
        if session.is_cut:
            return
        session.is_cut = True
        self.disconnect(session_id)
        if is_heard and session_id in self._expire_at_ms:
            silence_ms = session.timeout_ms * _SILENCE_SHARE
            self._expire_at_ms[session_id] += silence_ms
            session.heard_until_ms = self._clock.monotonic_ms() + silence_ms

    def restore(self, session_id: int, *, reconnects: bool = True) -> None:
        """Undo ``cut``, and reconnect the session unless ``reconnects`` is False."""
        session = self._sessions[session_id]
        if session.is_cut:
            session.is_cut, session.heard_until_ms = False, 0.0
            if reconnects:
                self.reconnect(session_id)

    def is_cut(self, session_id: int) -> bool:
        """Return True between ``cut`` and ``restore``."""
        return self._sessions[session_id].is_cut

    def hears(self, session_id: int) -> bool:
        """Return True if a write of a cut session still reaches the server."""
        session = self._sessions[session_id]
        return not session.expired and self._clock.monotonic_ms() < session.heard_until_ms

    def fail_authentication(self, session_id: int) -> None:
        """Notify the client of an authentication failure. The session stays alive."""
        self._sessions[session_id].notify(SessionEvent(SessionState.AUTH_FAILED))

    def next_expiry_ms(self) -> float | None:
        """Return the monotonic time in ms when the next disconnected session expires, or None."""
        return min(self._expire_at_ms.values(), default=None)

    def expire_due(self) -> list[int]:
        """Expire disconnected sessions whose timeout has passed, and return their ids.

        Each client is notified when it next makes a call or reconnects."""
        if not self._expire_at_ms:
            return []
        now_ms = self._clock.monotonic_ms()
        due = sorted(session_id for session_id, at in self._expire_at_ms.items() if at <= now_ms)
        for session_id in due:
            self.expire_session(session_id, notify=False)
        return due

    def is_connected(self, session_id: int) -> bool:
        """Return True if the session is alive and has a connection."""
        return self.is_alive(session_id) and session_id not in self._expire_at_ms

    def is_alive(self, session_id: int) -> bool:
        """Return True if the session has not ended. It may be disconnected."""
        session = self._sessions.get(session_id)
        return session is not None and not session.expired

    def session_states(self) -> list[tuple[int, str]]:
        """Return (session id, state) for all sessions: connected, disconnected or expired."""
        return [
            (
                session_id,
                "expired"
                if session.expired
                else "disconnected"
                if session_id in self._expire_at_ms
                else "connected",
            )
            for session_id, session in sorted(self._sessions.items())
        ]

    def _end(self, session_id: int) -> None:
        self._followers.pop(session_id, None)
        self.watches.disarm(session_id, self.tree, self.zxid)
        self.zxid += 1
        self._propagate(session_id, None)
        self._deliver(session_id, self.tree.remove_ephemerals(session_id, self.zxid))

    # Lagging followers

    def set_lag(self, session_id: int, lag_ms: float) -> None:
        """Let a connected session read from a follower that applies transactions later by a time.

        With 0 the session sees the newest state again. A session that is disconnected reconnects to
        a server that does not lag."""
        follower = self._followers.get(session_id)
        if not self.is_connected(session_id) or (follower is None and not lag_ms):
            return
        if follower is None:
            follower = LaggingFollower(self.tree, self.zxid, lag_ms)
            saved = self.watches.disarm(session_id, self.tree, self.zxid)
            follower.watches.rearm(session_id, follower.tree, saved)
            self._followers[session_id] = follower
        elif lag_ms:
            follower.lag_ms = lag_ms
        else:
            self._catch_up(session_id, follower, math.inf)
            saved = follower.watches.disarm(session_id, follower.tree, follower.zxid)
            self.watches.rearm(session_id, self.tree, saved)
            del self._followers[session_id]

    def next_lagging_ms(self) -> float | None:
        """Return when the next follower has a transaction to apply, in monotonic ms."""
        return earliest([follower.next_due_ms() for follower in self._followers.values()])

    def apply_lagging(self) -> None:
        """Let all followers apply the transactions that are due."""
        for session_id, follower in tuple(self._followers.items()):
            self._catch_up(session_id, follower, self._clock.monotonic_ms())

    def _propagate(self, session_id: int, transaction: Transaction | None) -> None:
        for follower in self._followers.values():
            now_ms = self._clock.now_ms()
            follower.add(self.zxid, session_id, transaction, self._clock.monotonic_ms(), now_ms)
        if self._followers and self.on_lagging is not None:
            self.on_lagging()

    def _catch_up(self, session_id: int, follower: LaggingFollower, monotonic_ms: float) -> None:
        changes = follower.apply_due(monotonic_ms)
        for watching, event in follower.watches.fire(changes):
            self._sessions[watching].notify(event)

    def _view(self, session_id: int) -> MemoryServer | LaggingFollower:
        """Return the server that a session reads from."""
        return self._followers.get(session_id, self)

    # Operations of a connected session

    def read(self, session_id: int, op: ReadOp) -> ReadResult:
        """Execute one read, and set a watch if requested."""
        view = self._view(session_id) if self._followers else self
        node = view.tree.nodes.get(op.path)
        if op.watch and not isinstance(op, GetChildren):
            view.watches.watch_data(op.path, session_id)
        if node is None:
            return ReadResult(ResultCode.NONODE)
        if isinstance(op, GetChildren):
            if op.watch:
                view.watches.watch_children(op.path, session_id)
            return ReadResult(ResultCode.OK, children=sorted(node.children or ()))
        data = node.data if isinstance(op, GetData) else None
        return ReadResult(ResultCode.OK, data, node.stat())

    def commit(self, session_id: int, transaction: Transaction) -> TxnResult:
        """Execute one transaction. Watch events are delivered before this method returns."""
        self.zxid += 1
        result, changes = self.tree.apply(transaction, session_id, self.zxid, self._clock.now_ms())
        if changes:
            if self._followers:
                self._propagate(session_id, transaction)
            self._deliver(session_id, changes)
        elif result.failed_index >= 0:
            for tap in self.rejection_taps:
                tap(session_id, transaction[result.failed_index])
        follower = self._followers.get(session_id)
        if follower is not None:
            # The reply to a write comes after the follower has applied it.
            self._catch_up(session_id, follower, math.inf)
        return result

    def _deliver(self, committer: int, changes: list[TreeChange]) -> None:
        for tap in self.commit_taps:
            tap(committer, changes)
        for session_id, event in self.watches.fire(changes):
            self._sessions[session_id].notify(event)
