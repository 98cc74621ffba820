"""Store over an in-memory ZooKeeper server, for the simulated world and for tests.

Results equal those of a real ZooKeeper; the hooks of MemoryServer inject faults. ``yield_control``
is called wherever a real call would wait. Single-threaded.
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
    """Store with one session of a MemoryServer.

    ``yield_control`` is called before every batch of reads and every transaction, and at the end of
    every batch; while the session has no connection, it is called repeatedly.
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
        """Id of the current session."""
        return self._session_id

    @property
    def is_connected(self) -> bool:
        """False while calls wait for a connection: a scheduler need not resume the caller."""
        return self.server.is_connected(self._session_id)

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        """Execute a batch of reads; return one result per operation, in order."""
        self._yield()
        results = [self._read(op) for op in ops]
        self._yield()
        return results

    def write(self, transactions: Sequence[Transaction]) -> list[TxnResult]:
        """Execute a batch of transactions in order; return one result per transaction.

        Raises OperationTooBig before any is executed if one exceeds the maximum request size.
        """
        for transaction in transactions:
            size = transaction_size(transaction)
            if size > MAX_TRANSACTION_BYTES:
                raise OperationTooBig(
                    f"a transaction of {size} bytes exceeds ZooKeeper's maximum request size"
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
        """Open a new session if the old one has ended."""
        assert not self._closed, "the store was closed"
        if not self.server.is_alive(self._session_id):
            self.server.close_session(self._session_id)
            self._session_id = self.server.open_session(self.timeout_ms, self._notify)
            self._notify(SessionEvent(SessionState.CONNECTED))

    def close(self) -> None:
        """End the session; its ephemeral znodes are deleted at once."""
        if not self._closed:
            self._closed = True
            self._listeners.clear()
            self.server.close_session(self._session_id)

    def abandon(self) -> None:
        """Drop the connection like a killed process: the session lives until it times out."""
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
        """Wait for a connection; return False if the session has ended, after notifying."""
        server = self.server
        while not self._closed and not server.is_connected(self._session_id):
            if not server.is_alive(self._session_id):
                server.notify_expired(self._session_id)
                return False
            assert self.yield_control is not None, "this session cannot be reconnected"
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
