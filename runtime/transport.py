"""Implementations of Transport, real and simulated.

``RoutedTransport`` hands a message to the receiver of its destination, at once and in the sender's
thread; the receiver only enqueues. ``SimulatedTransport`` keeps messages until a random delay on
the virtual clock is over. Between two actors messages stay in order, unless they carry records and
the network has faults. A receiver may register for notifications of broken connections, as a TCP
client has them: it is then sent a Disconnected.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

from klamm.cluster.data_requests import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from klamm.cluster.protocols import Clock
from klamm.cluster.requests import NO_CORRELATION_ID, Address, Disconnected, Message

Receiver = Callable[[Message], None]
Tap = Callable[[Message], None]


_DATA = (FetchRequest, FetchResponse, ProduceRequest, ProduceResponse)


@dataclass(frozen=True, kw_only=True)
class NetworkFaults:
    """Faults of messages that carry records: shares lost, repeated, and overtaking, from 0 to 1.

    Other messages travel as over a reliable connection. For receivers that are notified of
    connections nothing is repeated or reordered: a loss breaks the connection, with all messages
    in flight on it.
    """

    loss: float = 0.0
    repetition: float = 0.0
    reordering: float = 0.0


NO_FAULTS = NetworkFaults()
_LATE = 100
"""Factor by which a repeated or overtaken message may take longer than others."""


class RoutedTransport:
    """Delivers at once. A message without a receiver is lost, like one to a dead process.

    ``isolated``, which may be set at any time: messages with records between these brokers and
    all others are lost. ``on_change`` is called when these brokers, or the faults, change.
    """

    def __init__(self) -> None:
        self._receivers: dict[Address, Receiver] = {}
        self._taps: list[Tap] = []
        self._connections: dict[Address, dict[Address, None]] = {}
        self.on_change: Callable[[], None] | None = None
        self._isolated: tuple[int, ...] = ()

    def register(
        self, address: Address, receiver: Receiver, *, notify_disconnects: bool = False
    ) -> None:
        """Deliver messages to ``address`` by calling ``receiver``, which may only enqueue.

        ``notify_disconnects``: these include a Disconnected whenever a destination of its
        messages stops, or is not alive when it sends.
        """
        self._receivers[address] = receiver
        if notify_disconnects:
            self._connections[address] = {}

    def unregister(self, address: Address) -> None:
        """Drop messages to ``address`` from now on."""
        if self._receivers.pop(address, None) is None:
            return
        self._connections.pop(address, None)
        for client, others in tuple(self._connections.items()):
            if others.pop(address, address) is None:
                self._disconnect(client, address)

    def _connect(self, message: Message) -> None:
        connected = self._connections.get(message.source)
        if connected is not None:
            connected[message.destination] = None

    def _refuse(self, message: Message) -> None:
        """Drop a message without a receiver, and notify its sender."""
        connected = self._connections.get(message.source)
        if connected is not None:
            connected.pop(message.destination, None)
            self._disconnect(message.source, message.destination)

    def _disconnect(self, client: Address, other: Address) -> None:
        receiver = self._receivers.get(client)
        if receiver is not None:
            receiver(Message(other, client, NO_CORRELATION_ID, Disconnected()))

    def add_tap(self, tap: Tap) -> None:
        """Call ``tap`` with every sent message, before it is delivered."""
        self._taps.append(tap)

    def reaches(self, source: Address, destination: Address) -> bool:
        """Return True if messages with records get from the source to the destination."""
        return not self._is_cut(source, destination)

    @property
    def isolated(self) -> tuple[int, ...]:
        """Brokers cut off from the others."""
        return self._isolated

    @isolated.setter
    def isolated(self, broker_ids: tuple[int, ...]) -> None:
        self._isolated = broker_ids
        self._changed()

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def _is_cut(self, one: Address, other: Address) -> bool:
        is_between = (one.id in self._isolated) != (other.id in self._isolated)
        return is_between and one.role == other.role

    def send(self, message: Message) -> None:
        """Deliver a message."""
        for tap in self._taps:
            tap(message)
        if isinstance(message.body, _DATA) and self._is_cut(message.source, message.destination):
            return
        self._connect(message)
        receiver = self._receivers.get(message.destination)
        if receiver is not None:
            receiver(message)
        else:
            self._refuse(message)


class SimulatedTransport(RoutedTransport):
    """Delivers after a delay drawn from ``rng``, up to ``max_delay_ms``.

    ``faults`` may be set at any time.
    """

    def __init__(self, clock: Clock, rng: random.Random, max_delay_ms: float = 5.0) -> None:
        super().__init__()
        self._faults = NO_FAULTS
        self._is_faulty = False
        self._clock = clock
        self._rng = rng
        self.max_delay_ms = max_delay_ms
        self._in_flight: list[tuple[float, int, Message]] = []
        self._sent = 0
        self._last_due_ms: dict[tuple[Address, Address], float] = {}
        self._broken: dict[tuple[Address, Address], None] = {}

    @property
    def faults(self) -> NetworkFaults:
        """Faults of messages that carry records."""
        return self._faults

    @faults.setter
    def faults(self, faults: NetworkFaults) -> None:
        self._faults = faults
        self._is_faulty = faults != NO_FAULTS
        self._changed()

    def is_lossless(self, one: Address, other: Address) -> bool:
        """Return True if both are alive and no message between them can be lost."""
        return (
            not self._is_faulty
            and not self._is_cut(one, other)
            and one in self._receivers
            and other in self._receivers
        )

    def disconnect_at_once(self, client: Address, other: Address) -> None:
        """Notify the client of a lost connection now, ahead of messages in flight."""
        super()._disconnect(client, other)

    def heal(self) -> None:
        """End all message faults and isolation."""
        self.faults, self.isolated = NO_FAULTS, ()

    @property
    def in_flight(self) -> list[Message]:
        """Messages sent and not delivered yet, in the order they are due."""
        return [message for _, _, message in sorted(self._in_flight, key=lambda entry: entry[:2])]

    def send(self, message: Message) -> None:
        """Send a message with a delay."""
        for tap in self._taps:
            tap(message)
        link = (message.source, message.destination)
        if link in self._broken or link[::-1] in self._broken:
            return
        self._connect(message)
        if isinstance(message.body, _DATA) and (self.isolated or self._is_faulty):
            self._send_badly(message)
        else:
            self._put(message, in_order=True)

    def _send_badly(self, message: Message) -> None:
        source, destination = message.source, message.destination
        faults, draw = self.faults, self._rng.random
        if source in self._connections or destination in self._connections:
            if draw() < faults.loss:
                self._break(source, destination)
            else:
                self._put(message, in_order=True)
            return
        if self._is_cut(source, destination) or draw() < faults.loss:
            return
        self._put(message, in_order=draw() >= faults.reordering)
        if draw() < faults.repetition:
            self._put(message, in_order=False)

    def _break(self, source: Address, destination: Address) -> None:
        """Break a connection, and drop its messages in flight in both directions."""
        is_client = source in self._connections
        client, other = (source, destination) if is_client else (destination, source)
        self._connections[client].pop(other, None)
        self._lose(other, client)
        self._disconnect(client, other)

    def _disconnect(self, client: Address, other: Address) -> None:
        """Drop all messages of the connection until the client is notified."""
        if (client, other) not in self._broken:
            self._lose(client, other)
            self._broken[client, other] = None
            gone = Message(other, client, NO_CORRELATION_ID, Disconnected())
            self._put(gone, in_order=True)

    def _lose(self, source: Address, destination: Address) -> None:
        link = (source, destination)
        self._in_flight = [e for e in self._in_flight if (e[2].source, e[2].destination) != link]
        heapq.heapify(self._in_flight)

    def _put(self, message: Message, *, in_order: bool) -> None:
        delay_ms = self._rng.uniform(0.0, self.max_delay_ms)
        due_ms = self._clock.monotonic_ms() + (delay_ms if in_order else delay_ms * _LATE)
        if in_order:
            link = (message.source, message.destination)
            due_ms = max(due_ms, self._last_due_ms.get(link, 0.0))
            self._last_due_ms[link] = due_ms
        self._sent += 1
        heapq.heappush(self._in_flight, (due_ms, self._sent, message))

    def next_due_ms(self) -> float | None:
        """Return when the next message arrives, in monotonic milliseconds."""
        return self._in_flight[0][0] if self._in_flight else None

    def in_flight_before(self, due_ms: float) -> bool:
        """Return True if a message arrives by ``due_ms``."""
        return bool(self._in_flight) and self._in_flight[0][0] <= due_ms

    def deliver_due(self) -> int:
        """Deliver every message that is due; return their number."""
        delivered = 0
        while self._in_flight and self._in_flight[0][0] <= self._clock.monotonic_ms():
            _, _, message = heapq.heappop(self._in_flight)
            if isinstance(message.body, Disconnected):
                self._broken.pop((message.destination, message.source), None)
            receiver = self._receivers.get(message.destination)
            if receiver is not None:
                receiver(message)
            else:
                self._refuse(message)
            delivered += 1
        return delivered
