"""Store over an in-memory ZooKeeper server, for the simulated world and for tests.

Operations have the same results as with a real ZooKeeper. The hooks of MemoryServer inject faults.
Single-threaded: where a real store would wait, ``yield_control`` is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from klamm.cluster.errors import OperationTooBig
from klamm.zk.memory_server import Crashed, LostReply, MemoryServer
from klamm.zk.request_size import MAX_TRANSACTION_BYTES, transaction_size
from klamm.zk.store import (
    ReadOp,
    ReadResult,
    ResultCode,
    SessionEvent,
    SessionState,
    StoreEvent,
    StoreListener,
    Transaction,
    TxnResult,
)

Op = TypeVar("Op", ReadOp, Transaction)
R = TypeVar("R", ReadResult, TxnResult)

__all__ = ["Crashed", "LostReply", "MemoryServer", "MemoryStore"]


class Links(Protocol):
    """Links between stores and the server, on which requests, replies and events take time."""

    def now_ms(self) -> float:
        """Return the monotonic time in milliseconds."""
        ...

    def wait_until(self, due_ms: float) -> None:
        """Suspend the caller until this time."""
        ...

    def wait_for_session(self) -> None:
        """Suspend the caller until the state of its session changes."""
        ...

    def deliver_at(self, due_ms: float, store: MemoryStore) -> None:
        """Call ``deliver_due`` of a store at this time."""
        ...


class MemoryStore:
    """Store that uses one session of a MemoryServer.

    ``yield_control`` lets other actors run. It is called before every batch of reads, before every
    transaction and after every batch, and repeatedly while the session is disconnected.

    ``links`` makes delays possible: requests arrive ``outbound_ms`` later, replies and watch events
    ``inbound_ms``, in the order in which the server sent them.
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
        self._listeners: list[StoreListener] = []
        self._closed = False
        self.links: Links | None = None
        self.outbound_ms = 0.0
        self.inbound_ms = 0.0
        self._inbound_due_ms = 0.0
        self._late_events: list[tuple[float, StoreEvent]] = []
        self._session_id = server.open_session(timeout_ms, self._notify)

    @property
    def session_id(self) -> int:
        """Id of the current session."""
        return self._session_id

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        """Execute a batch of reads, and return one result per operation, in order."""
        self._yield()
        self._travel()
        results = [self._read(op) for op in ops]
        self._travel_back()
        self._yield()
        return results

    def write(self, transactions: Sequence[Transaction]) -> list[TxnResult]:
        """Execute a batch of transactions in order, and return one result per transaction.

        Raises OperationTooBig before anything is executed if a transaction exceeds the maximum
        request size.
        """
        for transaction in transactions:
            size = transaction_size(transaction)
            if size > MAX_TRANSACTION_BYTES:
                raise OperationTooBig(
                    f"a transaction of {size} bytes exceeds ZooKeeper's maximum request size"
                )
        results: list[TxnResult] = []
        lost = False
        self._travel()
        for transaction in transactions:
            self._yield()
            if lost:
                results.append(TxnResult(ResultCode.CONNECTIONLOSS, []))
                continue
            result = self._commit(transaction)
            lost = result.code is ResultCode.CONNECTIONLOSS
            results.append(result)
        self._travel_back()
        self._yield()
        return results

    def add_listener(self, listener: StoreListener) -> None:
        """Call ``listener`` as soon as an event happens. The listener must only enqueue work."""
        self._listeners.append(listener)

    def remove_listener(self, listener: StoreListener) -> None:
        """Stop calling ``listener``."""
        self._listeners = [known for known in self._listeners if known != listener]

    def reopen(self) -> None:
        """Open a new session if the current one has ended."""
        assert not self._closed, "the store was closed"
        if not self.server.is_alive(self._session_id):
            is_cut = self.server.is_cut(self._session_id)
            self.server.close_session(self._session_id)
            self._session_id = self.server.open_session(self.timeout_ms, self._notify)
            if is_cut:
                self.server.cut(self._session_id, is_heard=False)
                return
            self._notify(SessionEvent(SessionState.CONNECTED))

    def close(self) -> None:
        """End the session. The server immediately deletes the session's ephemeral znodes.

        If the connection is cut, the session expires later instead."""
        if not self._closed and self.server.is_cut(self._session_id):
            self.abandon()
        elif not self._closed:
            self._closed = True
            self._listeners.clear()
            self.server.close_session(self._session_id)

    def abandon(self) -> None:
        """Drop the connection as if the process had been killed: the session expires later."""
        if not self._closed:
            self._closed = True
            self._listeners.clear()
            self.server.disconnect(self._session_id, notify=False)

    def _notify(self, event: StoreEvent) -> None:
        if isinstance(event, SessionEvent):
            # The client notices this itself. What was on its way has arrived, or comes again.
            self.deliver_due(math.inf)
        elif self.links is not None and self._inbound_lasts_until_ms() > self.links.now_ms():
            due_ms = self._inbound_due_ms = self._inbound_lasts_until_ms()
            self._late_events.append((due_ms, event))
            self.links.deliver_at(due_ms, self)
            return
        self._dispatch(event)

    def _dispatch(self, event: StoreEvent) -> None:
        for listener in tuple(self._listeners):
            listener(event)

    def deliver_due(self, now_ms: float) -> None:
        """Pass the late watch events that are due to the listeners."""
        while self._late_events and self._late_events[0][0] <= now_ms:
            self._dispatch(self._late_events.pop(0)[1])

    def _inbound_lasts_until_ms(self) -> float:
        """Return when something that the server sends now arrives, after all that it has sent."""
        assert self.links is not None
        return max(self.links.now_ms() + self.inbound_ms, self._inbound_due_ms)

    def _travel(self) -> None:
        if self.links is not None and self.outbound_ms:
            self.links.wait_until(self.links.now_ms() + self.outbound_ms)

    def _travel_back(self) -> None:
        if self.links is not None and self._inbound_lasts_until_ms() > self.links.now_ms():
            self._inbound_due_ms = self._inbound_lasts_until_ms()
            self.links.wait_until(self._inbound_due_ms)

    def _yield(self) -> None:
        if self.yield_control is not None:
            self.yield_control()

    def _wait_until_connected(self) -> bool:
        """Wait for a connection. If the session ends, notify the listeners and return False."""
        server = self.server
        while not self._closed and not server.is_connected(self._session_id):
            if server.is_known_to_have_expired(self._session_id):
                return False
            if server.is_cut(self._session_id) and self.links is not None:
                self.links.wait_for_session()
                continue
            if not server.is_alive(self._session_id):
                server.notify_expired(self._session_id)
                return False
            assert self.yield_control is not None, (
                "the session is disconnected, and no other actor can reconnect it"
            )
            self.yield_control()
        return not self._closed

    def _read(self, op: ReadOp) -> ReadResult:
        if self._wait_until_connected():
            self._report(op, is_before=True)
        while self._wait_until_connected():
            try:
                return self._between_hooks(self.server.read, op)
            except LostReply:
                self._lose_connection()
        return ReadResult(ResultCode.SESSIONEXPIRED)

    def _commit(self, transaction: Transaction) -> TxnResult:
        if self.server.hears(self._session_id) or self._wait_until_connected():
            self._report(transaction, is_before=True)
        if self.server.hears(self._session_id):
            self._between_hooks(self.server.commit, transaction)
            is_alive = self._wait_until_connected()
            return TxnResult(
                ResultCode.CONNECTIONLOSS if is_alive else ResultCode.SESSIONEXPIRED, []
            )
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
        self._report(op, is_before=False)
        if server.after_op is not None:
            server.after_op(session_id, op, result)
        return result

    def _report(self, op: ReadOp | Transaction, *, is_before: bool) -> None:
        if self.server.on_operation is not None:
            self.server.on_operation(op, is_before)

    def _lose_connection(self) -> None:
        self.server.disconnect(self._session_id)
        self.server.reconnect(self._session_id)
        self._yield()
