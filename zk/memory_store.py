"""The Store over a ZooKeeper server in memory: for the simulated world and for tests.

Exact in what it answers, quick, and open to faults (hooks of MemoryServer). It knows no scheduler:
``yield_control`` is called wherever a real call would wait. Use it from one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from klamm.cluster.errors import OperationTooBig
from klamm.zk.memory_server import Crashed, LostReply, MemoryServer
from klamm.zk.request_size import MAX_TRANSACTION_BYTES, transaction_size
from klamm.zk.store import (
    Listener,
    ReadOp,
    ReadResult,
    ResultCode,
    SessionEvent,
    SessionState,
    StoreEvent,
    Transaction,
    TxnResult,
)

Op = TypeVar("Op", ReadOp, Transaction)
R = TypeVar("R", ReadResult, TxnResult)

__all__ = ["Crashed", "LostReply", "MemoryServer", "MemoryStore"]


class MemoryStore:
    """One session of a MemoryServer.

    ``yield_control`` is called before every read wave and every transaction, and at the end of
    every wave; while the session has no connection it is called until that has changed.
    """

    def __init__(
        self,
        server: MemoryServer,
        timeout_ms: float = 18_000,
        yield_control: Callable[[], None] | None = None,
    ) -> None:
        self.server = server
        self.timeout_ms = timeout_ms
        self.yield_control = yield_control
        self._listeners: list[Listener] = []
        self._closed = False
        self._session_id = server.open_session(timeout_ms, self._notify)

    @property
    def session_id(self) -> int:
        """The id of the current session."""
        return self._session_id

    @property
    def is_connected(self) -> bool:
        """False while a call would wait: a scheduler need not resume its caller until then."""
        return self.server.is_connected(self._session_id)

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        """Do a wave of reads; one result per operation, in order."""
        self._yield()
        results = [self._read(op) for op in ops]
        self._yield()
        return results

    def write(self, transactions: Sequence[Transaction]) -> list[TxnResult]:
        """Do a wave of transactions in order; one result each.

        Raises OperationTooBig, before any was done, if one of them exceeds a request.
        """
        for transaction in transactions:
            size = transaction_size(transaction)
            if size > MAX_TRANSACTION_BYTES:
                raise OperationTooBig(
                    f"a transaction of {size} bytes is more than ZooKeeper takes in a request"
                )
        results: list[TxnResult] = []
        lost = False
        for transaction in transactions:
            self._yield()
            if lost:
                results.append(TxnResult(ResultCode.CONNECTIONLOSS, []))
                continue
            result = self._commit(transaction)
            lost = result.code is ResultCode.CONNECTIONLOSS
            results.append(result)
        self._yield()
        return results

    def add_listener(self, listener: Listener) -> None:
        """Call ``listener`` for every event, at the moment it happens: it may only enqueue."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Stop calling ``listener``."""
        self._listeners.remove(listener)

    def reopen(self) -> None:
        """Begin a new session if the old one has ended; nothing if it has not."""
        assert not self._closed, "the store was closed"
        if not self.server.is_alive(self._session_id):
            self.server.close_session(self._session_id)
            self._session_id = self.server.open_session(self.timeout_ms, self._notify)
            self._notify(SessionEvent(SessionState.CONNECTED))

    def close(self) -> None:
        """End the session: its ephemeral nodes go at once."""
        if not self._closed:
            self._closed = True
            self._listeners.clear()
            self.server.close_session(self._session_id)

    def abandon(self) -> None:
        """Drop the connection as a killed process does: the session lives until it times out."""
        if not self._closed:
            self._closed = True
            self._listeners.clear()
            self.server.disconnect(self._session_id, notify=False)

    def _notify(self, event: StoreEvent) -> None:
        for listener in tuple(self._listeners):
            listener(event)

    def _yield(self) -> None:
        if self.yield_control is not None:
            self.yield_control()

    def _wait_until_connected(self) -> bool:
        """True once there is a connection; False if the session has ended, which is told."""
        server = self.server
        while not self._closed and not server.is_connected(self._session_id):
            if not server.is_alive(self._session_id):
                server.tell_expired(self._session_id)
                return False
            assert self.yield_control is not None, "nobody can reconnect this session"
            self.yield_control()
        return not self._closed

    def _read(self, op: ReadOp) -> ReadResult:
        while self._wait_until_connected():
            try:
                return self._between_hooks(self.server.read, op)
            except LostReply:
                self._lose_connection()
        return ReadResult(ResultCode.SESSIONEXPIRED)

    def _commit(self, transaction: Transaction) -> TxnResult:
        if not self._wait_until_connected():
            return TxnResult(ResultCode.SESSIONEXPIRED, [])
        try:
            return self._between_hooks(self.server.commit, transaction)
        except LostReply:
            self._lose_connection()
            if not self._wait_until_connected():
                return TxnResult(ResultCode.SESSIONEXPIRED, [])
            return TxnResult(ResultCode.CONNECTIONLOSS, [])

    def _between_hooks(self, do: Callable[[int, Op], R], op: Op) -> R:
        server, session_id = self.server, self._session_id
        if server.before_op is not None:
            server.before_op(session_id, op)
        result = do(session_id, op)
        if server.after_op is not None:
            server.after_op(session_id, op, result)
        return result

    def _lose_connection(self) -> None:
        self.server.disconnect(self._session_id)
        self.server.reconnect(self._session_id)
        self._yield()
