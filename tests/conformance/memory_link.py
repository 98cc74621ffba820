"""The link of the reconnect cases for the store in memory.

The cases call the store from threads that wait for a connection; here they take turns, one inside
the server at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from klamm.zk.memory_store import LostReply, MemoryServer, MemoryStore
from klamm.zk.store import (
    ReadOp,
    ReadResult,
    Store,
    StoreEvent,
    StoreListener,
    Transaction,
    TxnResult,
)
from tests.conformance.factories import ManualClock


class MemoryLink:
    """A MemoryStore, and another one on the same server."""

    base = ""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._server = MemoryServer(ManualClock())
        self._inner = MemoryStore(self._server, yield_control=self._wait_for_connection)
        self._replies_before: int | None = None
        self.store: Store = _TakingTurns(self._inner, self._turn)
        self.other: Store = _TakingTurns(MemoryStore(self._server), self._turn)
        self.events: list[StoreEvent] = []
        self.store.add_listener(self.events.append)
        self._server.after_op = self._after_op

    def disconnect(self) -> None:
        """Cut the session's connection."""
        with self._turn:
            self._server.disconnect(self._inner.session_id)

    def reconnect(self) -> None:
        """Give it one again; a reply to be lost is that to the arming of its watches."""
        with self._turn:
            self._server.reconnect(self._inner.session_id)
            if self._replies_before == 0:
                self._replies_before = None
                self._server.disconnect(self._inner.session_id)
                self._server.reconnect(self._inner.session_id)
            self._turn.notify_all()

    def lose_reply(self, replies_before: int = 0) -> None:
        """Lose it by the server's hook."""
        self._replies_before = replies_before

    def expire(self) -> None:
        """Expire the session."""
        with self._turn:
            self._server.expire_session(self._inner.session_id)
            self._turn.notify_all()

    def close(self) -> None:
        """Close both sessions."""
        self.store.close()
        self.other.close()

    def _wait_for_connection(self) -> None:
        session_id = self._inner.session_id
        while not self._server.is_connected(session_id) and self._server.is_alive(session_id):
            self._turn.wait()

    def _after_op(self, session_id: int, _: object, __: object) -> None:
        if session_id != self._inner.session_id or self._replies_before is None:
            return
        if self._replies_before == 0:
            self._replies_before = None
            raise LostReply
        self._replies_before -= 1


class _TakingTurns:
    """A store that only one thread at a time is inside of; one that waits lets others in."""

    def __init__(self, store: MemoryStore, turn: threading.Condition) -> None:
        self._store = store
        self._turn = turn

    @property
    def session_id(self) -> int:
        return self._store.session_id

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        with self._turn:
            return self._store.read(ops)

    def write(self, transactions: Sequence[Transaction]) -> list[TxnResult]:
        with self._turn:
            return self._store.write(transactions)

    def add_listener(self, listener: StoreListener) -> None:
        self._store.add_listener(listener)

    def remove_listener(self, listener: StoreListener) -> None:
        self._store.remove_listener(listener)

    def reopen(self) -> None:
        with self._turn:
            self._store.reopen()

    def close(self) -> None:
        with self._turn:
            self._store.close()

    def abandon(self) -> None:
        with self._turn:
            self._store.abandon()
