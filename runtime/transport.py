"""Implementations of Transport, and the recorder of what was sent.

``RoutedTransport`` hands a message to whoever is registered under its destination, at once and
from the sender's thread; the receiver only enqueues. ``SimulatedTransport`` keeps messages until
their seeded delay is over on the virtual clock; between two actors they stay in order, unless they
carry records and the network is a bad one.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

from cluster.data_requests import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from cluster.protocols import Clock
from cluster.requests import Address, Message

Receiver = Callable[[Message], None]
Tap = Callable[[Message], None]


_DATA = (FetchRequest, FetchResponse, ProduceRequest, ProduceResponse)


@dataclass(frozen=True, kw_only=True)
class NetworkFaults:
    """How a network treats messages that carry records: the share that is lost, that comes twice,
    and that overtakes others; from 0 to 1. Others travel as over a connection that holds."""

    loss: float = 0.0
    repetition: float = 0.0
    reordering: float = 0.0

    @classmethod
    def drawn(cls, rng: random.Random) -> NetworkFaults:
        """Another network for another seed, mostly a good one."""
        return cls(
            loss=rng.choice((0.0, 0.01, 0.1)),
            repetition=rng.choice((0.0, 0.01, 0.1)),
            reordering=rng.choice((0.0, 0.01, 0.3)),
        )


NO_FAULTS = NetworkFaults()
_LATE = 100
"""How many times as long as others a message that is overtaken, or comes twice, may take."""


class RoutedTransport:
    """Delivers at once. A message to nobody is lost, as one to a dead process is."""

    def __init__(self) -> None:
        self._receivers: dict[Address, Receiver] = {}
        self._taps: list[Tap] = []

    def register(self, address: Address, receiver: Receiver) -> None:
        """Deliver messages to ``address`` by calling ``receiver``, which may only enqueue."""
        self._receivers[address] = receiver

    def unregister(self, address: Address) -> None:
        """Lose messages to ``address`` from now on."""
        self._receivers.pop(address, None)

    def add_tap(self, tap: Tap) -> None:
        """Call ``tap`` with every message that is sent, before it is delivered."""
        self._taps.append(tap)

    def send(self, message: Message) -> None:
        """Deliver a message."""
        for tap in self._taps:
            tap(message)
        receiver = self._receivers.get(message.destination)
        if receiver is not None:
            receiver(message)


class SimulatedTransport(RoutedTransport):
    """Delivers after a delay drawn from ``rng``, in milliseconds up to ``max_delay_ms``.

    ``faults`` may be set at any time. ``isolated``: brokers whose messages that carry records reach
    only each other.
    """

    def __init__(self, clock: Clock, rng: random.Random, max_delay_ms: float = 5.0) -> None:
        super().__init__()
        self.faults = NO_FAULTS
        self.isolated: tuple[int, ...] = ()
        self._clock = clock
        self._rng = rng
        self._max_delay_ms = max_delay_ms
        self._in_flight: list[tuple[float, int, Message]] = []
        self._sent = 0
        self._last_due_ms: dict[tuple[Address, Address], float] = {}

    def heal(self) -> None:
        """From now on nothing is lost, and nobody isolated."""
        self.faults, self.isolated = NO_FAULTS, ()

    @property
    def in_flight(self) -> list[Message]:
        """Messages that were sent and not yet delivered, in the order they are due."""
        return [message for _, _, message in sorted(self._in_flight, key=lambda entry: entry[:2])]

    def send(self, message: Message) -> None:
        """Put a message on its way."""
        for tap in self._taps:
            tap(message)
        if isinstance(message.body, _DATA) and (self.isolated or self.faults is not NO_FAULTS):
            self._send_badly(message)
        else:
            self._put(message, in_order=True)

    def _send_badly(self, message: Message) -> None:
        source, destination = message.source, message.destination
        faults, draw = self.faults, self._rng.random
        is_cut = (source.id in self.isolated) != (destination.id in self.isolated)
        if (is_cut and source.role == destination.role) or draw() < faults.loss:
            return
        self._put(message, in_order=draw() >= faults.reordering)
        if draw() < faults.repetition:
            self._put(message, in_order=False)

    def _put(self, message: Message, *, in_order: bool) -> None:
        delay_ms = self._rng.uniform(0.0, self._max_delay_ms)
        due_ms = self._clock.monotonic_ms() + (delay_ms if in_order else delay_ms * _LATE)
        if in_order:
            link = (message.source, message.destination)
            due_ms = max(due_ms, self._last_due_ms.get(link, 0.0))
            self._last_due_ms[link] = due_ms
        self._sent += 1
        heapq.heappush(self._in_flight, (due_ms, self._sent, message))

    def next_due_ms(self) -> float | None:
        """When the next message arrives, in the clock's monotonic milliseconds."""
        return self._in_flight[0][0] if self._in_flight else None

    def in_flight_before(self, due_ms: float) -> bool:
        """True if a message arrives before ``due_ms``."""
        return bool(self._in_flight) and self._in_flight[0][0] <= due_ms

    def deliver_due(self) -> int:
        """Deliver every message whose time has come; returns how many."""
        delivered = 0
        while self._in_flight and self._in_flight[0][0] <= self._clock.monotonic_ms():
            _, _, message = heapq.heappop(self._in_flight)
            receiver = self._receivers.get(message.destination)
            if receiver is not None:
                receiver(message)
            delivered += 1
        return delivered
