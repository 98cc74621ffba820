"""Implementations of Transport, real and simulated.

``RoutedTransport`` passes a message to the receiver of its destination at once, in the sender's
thread; the receiver may only enqueue it. ``SimulatedTransport`` delivers messages after a random
delay on the virtual clock. Messages between two actors stay in order, unless a fault of their link
repeats or reorders messages. A receiver can ask to be notified of broken connections, like a TCP
client: it then receives a Disconnected message for each.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from copy import copy
from typing import Final
from weakref import WeakValueDictionary

from klamm.cluster.protocols import Clock
from klamm.cluster.request_faults import RequestFault, RequestFaults
from klamm.cluster.requests import NO_CORRELATION_ID, Address, Disconnected, Message, Request
from klamm.world.network import (
    ZOOKEEPER,
    LinkFault,
    Traffic,
    effect_of,
    is_affected,
    party_of,
    traffic_of,
)

Receiver = Callable[[Message], None]
Tap = Callable[[Message], None]

MAX_DELAY_MS: Final = 5.0
"""The delay of a message in the simulated network, at most. Three fit into RATE_MARGIN_MS."""
_LOCK: Final = threading.RLock()
"""Guards the held and the late messages of the real world, whose senders are threads."""
_LATE: Final = 100
"""Factor by which the delay of a repeated or reordered message is multiplied."""


class RoutedTransport:
    """Transport that delivers messages at once.

    A message to an address without a receiver is lost, as if it were sent to a dead process.
    ``faults`` are the faults of the network's links; they may be replaced at any time.
    ``on_change`` is called when they change. ``remote`` receives the messages to brokers that are
    not in this process; without it, they are lost. ``deliver_later`` calls ``deliver_late`` with a
    message after a delay in milliseconds; if the last argument is True, in order with the earlier
    messages of the same link.

    If the sender or the receiver of a message is notified of broken connections, the message is
    neither repeated nor reordered, and its loss breaks the connection.

    ``request_faults`` are the faults of clients' requests on links that have none. ``client_ids``
    has the client ids of Kafka's own clients.
    """

    def __init__(self, rng: random.Random | None = None) -> None:
        self.on_change: Callable[[], None] | None = None
        self.remote: Receiver | None = None
        self.deliver_later: Callable[[Message, float, bool], None] | None = None
        self.request_faults = RequestFaults()
        self.client_ids: dict[Address, str] = {}
        self._receivers: dict[Address, Receiver] = {}
        self._taps: list[Tap] = []
        self._connections: dict[Address, dict[Address, None]] = {}
        self._rng = rng or random.Random()
        self._faults: tuple[LinkFault, ...] = ()
        self._effects: dict[tuple[Address, Address, Traffic | None], LinkFault | None] = {}
        self._clogged: list[Message] = []
        self._late: dict[int, Message] = {}

    def register(
        self, address: Address, receiver: Receiver, *, notify_disconnects: bool = False
    ) -> None:
        """Deliver messages to ``address`` by calling ``receiver``, which may only enqueue them.

        If ``notify_disconnects``, the receiver gets a Disconnected message when it sends a message
        to an actor that is not alive, or when an actor that it has sent messages to stops.
        """
        self._receivers[address] = receiver
        if notify_disconnects:
            self._connections[address] = {}

    def unregister(self, address: Address) -> None:
        """Drop messages to ``address`` from now on."""
        if self._receivers.pop(address, None) is None:
            return
        with _LOCK:
            # A message that is late by seconds must not reach the next process at this address.
            self._clogged = [held for held in self._clogged if held.destination != address]
            self._late = {id_: m for id_, m in self._late.items() if m.destination != address}
        self._connections.pop(address, None)
        self.client_ids.pop(address, None)
        for client, others in tuple(self._connections.items()):
            if others.pop(address, address) is None:
                self._disconnect(client, address)

    def _connect(self, message: Message) -> None:
        connected = self._connections.get(message.source)
        if connected is not None:
            connected[message.destination] = None

    def _refuse(self, message: Message) -> None:
        """Drop a message to an address without a receiver, and notify the sender if required."""
        connected = self._connections.get(message.source)
        if connected is not None:
            connected.pop(message.destination, None)
            self._disconnect(message.source, message.destination)

    def _disconnect(self, client: Address, other: Address) -> None:
        receiver = self._receivers.get(client)
        if receiver is not None:
            receiver(Message(other, client, NO_CORRELATION_ID, Disconnected()))

    def add_tap(self, tap: Tap) -> None:
        """Call ``tap`` with every message that is sent, before the message is delivered."""
        self._taps.append(tap)

    # -- faults

    @property
    def faults(self) -> tuple[LinkFault, ...]:
        """The faults of links, oldest first."""
        return self._faults

    @faults.setter
    def faults(self, faults: tuple[LinkFault, ...]) -> None:
        with _LOCK:
            held, self._clogged = self._clogged, []
            for message in held:
                link = (party_of(message.source), party_of(message.destination))
                effect = effect_of(faults, link, traffic_of(message))
                if effect is not None and effect.is_clogged:
                    self._clogged.append(message)
                else:
                    self._put(message, delay_ms=0.0 if effect is None else effect.delay_ms)
            # Last, so that no message of another thread overtakes those that were held.
            self._faults, self._effects = faults, {}
        if self.on_change is not None:
            self.on_change()

    @property
    def isolated_broker_ids(self) -> list[int]:
        """The ids of isolated brokers."""
        return [id_ for fault in self._faults for id_ in fault.isolated]

    @property
    def fault_texts(self) -> list[str]:
        """Descriptions of all faults, except the isolation of brokers."""
        links = [fault.text for fault in self._faults if not fault.isolated]
        return links + [fault.text for fault in tuple(self.request_faults)]

    def heal(self) -> None:
        """End all faults."""
        self.request_faults.clear()
        self.faults = ()

    def reaches(self, source: Address, destination: Address) -> bool:
        """Return True unless a fault stops messages with records from source to destination."""
        effect = self._effect(source, destination, Traffic.RECORDS)
        return effect is None or not (effect.is_cut or effect.is_clogged)

    def with_zookeeper(self, broker_id: int) -> tuple[LinkFault, LinkFault]:
        """Return the effects on what a broker sends to ZooKeeper, and on what it receives."""
        faults = self._faults
        outbound = effect_of(faults, (broker_id, ZOOKEEPER))
        return outbound or LinkFault(), effect_of(faults, (ZOOKEEPER, broker_id)) or LinkFault()

    def _effect(
        self, source: Address, destination: Address, traffic: Traffic | None
    ) -> LinkFault | None:
        if not self._faults:
            return None
        key = (source, destination, traffic)
        effects = self._effects
        if key not in effects:
            link = (party_of(source), party_of(destination))
            effects[key] = effect_of(self._faults, link, traffic)
        return effects[key]

    def _effect_on(self, message: Message) -> LinkFault | None:
        if not self._faults or not is_affected(message):
            return None
        return self._effect(message.source, message.destination, traffic_of(message))

    # -- messages

    def send(self, message: Message) -> None:
        """Send a message."""
        for tap in self._taps:
            tap(message)
        if self._is_broken(message):
            return
        self._connect(message)
        effect = self._effect_on(message)
        if effect is not None:
            self._put_badly(message, effect)
        elif not (self.request_faults and self._has_request_fault(message)):
            self._put(message)

    def take_request_fault(
        self, api: str, client_id: str | None, broker_id: int
    ) -> RequestFault | None:
        """Return the fault of a request that is answered without a message; None if it has none."""
        if not self.request_faults:
            return None
        with _LOCK:
            return self.request_faults.take_named(api, client_id, broker_id)

    def _has_request_fault(self, message: Message, delay_ms: float = 0.0) -> bool:
        """Carry out the fault of a request, if it has one and its receiver is alive.

        ``delay_ms``: delay of the link."""
        source, destination = message.source, message.destination
        if destination not in self._receivers:
            return False
        with _LOCK:
            fault = self.request_faults.take(message, self.client_ids.get(source))
        if fault is None:
            return False
        if fault.is_cut and source in self._connections:
            self._break(source, destination)
        elif fault.error is not None and getattr(message.body, "acks", None) != 0:
            refused = fault.response(message.body)
            answer = Message(destination, source, message.correlation_id, refused)
            self._put(answer, delay_ms=delay_ms)
        elif fault.delay_ms:
            self._put(message, delay_ms=delay_ms + fault.delay_ms)
        return True

    def _is_broken(self, message: Message) -> bool:
        """Return True if the sender or the receiver will hear that their connection is lost."""
        return False

    def _put_badly(self, message: Message, effect: LinkFault) -> None:
        source, destination, draw = message.source, message.destination, self._rng.random
        delay_ms = effect.delay_ms
        has_connection = source in self._connections or destination in self._connections
        if effect.is_cut or draw() < effect.loss:
            if has_connection:
                self._break(source, destination)
            return
        if effect.is_clogged:
            with _LOCK:
                now = self._effect_on(message)
                if now is not None and now.is_clogged:
                    self._clogged.append(message)
                    return
        if self.request_faults and self._has_request_fault(message, delay_ms):
            return
        if has_connection:
            self._put(message, delay_ms=delay_ms)
            return
        self._put(message, delay_ms=delay_ms, in_order=draw() >= effect.reordering)
        if draw() < effect.repetition:
            self._put(message, delay_ms=delay_ms, in_order=False)

    def _break(self, source: Address, destination: Address) -> None:
        """Break a connection, and notify its client."""
        is_client = source in self._connections
        client, other = (source, destination) if is_client else (destination, source)
        self._connections.get(client, {}).pop(other, None)  # its thread may have ended it
        self._disconnect(client, other)

    def _put(self, message: Message, *, delay_ms: float = 0.0, in_order: bool = True) -> None:
        if not in_order:
            delay_ms += self._rng.uniform(0.0, MAX_DELAY_MS) * _LATE
        if self.deliver_later is not None and (delay_ms or self._faults or self._late):
            # Until the last late message has arrived all take this way: none overtakes another.
            with _LOCK:
                message = copy(message)  # a repeated one is late twice
                self._late[id(message)] = message
            self.deliver_later(message, delay_ms, in_order)
        else:
            self.deliver(message)

    def deliver_late(self, message: Message) -> None:
        """Pass a message to its receiver that was given to ``deliver_later``.

        It is lost if the receiver to which it was sent has ended meanwhile."""
        if id(message) in self._late:
            self.deliver(message)
            with _LOCK:
                self._late.pop(id(message), None)

    def deliver(self, message: Message) -> None:
        """Pass a message to its receiver now."""
        receiver = self._receivers.get(message.destination)
        if receiver is None and message.destination.role == "broker":
            receiver = self.remote
        if receiver is not None:
            receiver(message)
        else:
            self._refuse(message)


class RequestClient:
    """Sends requests from a dedicated address, and returns a future for each response.

    Thread-safe. A response is dropped if its future is no longer referenced.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._numbers = itertools.count(1)
        self._answers: WeakValueDictionary[int, Future[object]] = WeakValueDictionary()

    def send(
        self, transport: RoutedTransport, destination: Address, request: Request
    ) -> Future[object]:
        """Send a request."""
        number, answer = next(self._numbers), Future[object]()
        self._answers[number] = answer
        transport.register(self._address, self._receive)
        transport.send(Message(self._address, destination, number, request))
        return answer

    def _receive(self, message: Message) -> None:
        answer = self._answers.pop(message.correlation_id, None)
        if answer is not None:
            answer.set_result(message.body)


class SimulatedTransport(RoutedTransport):
    """Delivers messages after a delay drawn from ``rng``, up to MAX_DELAY_MS."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        super().__init__(rng)
        self._clock = clock
        self._in_flight: list[tuple[float, int, Message]] = []
        self._sent = 0
        self._last_due_ms: dict[tuple[Address, Address], float] = {}
        self._broken: dict[tuple[Address, Address], None] = {}

    def unregister(self, address: Address) -> None:
        """Drop messages to ``address`` from now on, also those in flight."""
        # As in a real cluster: see RoutedTransport.
        late_ms = 0.0 if self._faults else self._clock.monotonic_ms() + MAX_DELAY_MS
        self._keep(lambda message, due_ms: message.destination != address or due_ms <= late_ms)
        super().unregister(address)

    def is_lossless(self, one: Address, other: Address) -> bool:
        """Return True if both addresses are alive and no fault affects messages between them."""
        return (
            not any(
                self._effect(*link, traffic)
                for link in ((one, other), (other, one))
                for traffic in (None, *Traffic)
            )
            and one in self._receivers
            and other in self._receivers
        )

    def disconnect_at_once(self, client: Address, other: Address) -> None:
        """Notify the client of a lost connection at once, ahead of messages in flight."""
        super()._disconnect(client, other)

    @property
    def in_flight(self) -> list[Message]:
        """The messages that are not delivered yet, in the order in which they are due.

        Messages on clogged links are not included."""
        return [message for _, _, message in sorted(self._in_flight, key=lambda entry: entry[:2])]

    def _is_broken(self, message: Message) -> bool:
        if not self._broken:
            return False
        link = (message.source, message.destination)
        return link in self._broken or link[::-1] in self._broken

    def _break(self, source: Address, destination: Address) -> None:
        """Break a connection, and drop the messages in flight in both directions."""
        self._lose(source, destination)
        self._lose(destination, source)
        super()._break(source, destination)

    def _disconnect(self, client: Address, other: Address) -> None:
        """Notify the client of a lost connection. Until then, drop all messages on it."""
        if (client, other) not in self._broken:
            self._lose(client, other)
            self._broken[client, other] = None
            gone = Message(other, client, NO_CORRELATION_ID, Disconnected())
            self._put(gone)

    def _lose(self, source: Address, destination: Address) -> None:
        link = (source, destination)
        self._keep(lambda message, _: (message.source, message.destination) != link)

    def _keep(self, is_kept: Callable[[Message, float], bool]) -> None:
        """Drop the messages for which ``is_kept`` returns False, by when they are due."""
        self._clogged = [held for held in self._clogged if is_kept(held, math.inf)]
        self._in_flight = [entry for entry in self._in_flight if is_kept(entry[2], entry[0])]
        heapq.heapify(self._in_flight)

    def _put(self, message: Message, *, delay_ms: float = 0.0, in_order: bool = True) -> None:
        wire_ms = self._rng.random() * MAX_DELAY_MS
        due_ms = self._clock.monotonic_ms() + delay_ms + (wire_ms if in_order else wire_ms * _LATE)
        if in_order:
            link = (message.source, message.destination)
            due_ms = max(due_ms, self._last_due_ms.get(link, 0.0))
            self._last_due_ms[link] = due_ms
        self._sent += 1
        heapq.heappush(self._in_flight, (due_ms, self._sent, message))

    def by_link(self) -> dict[tuple[Address, Address], list[Message]]:
        """Return the messages in flight, oldest first, keyed by source and destination."""
        links: dict[tuple[Address, Address], list[Message]] = {}
        for message in self.in_flight:
            links.setdefault((message.source, message.destination), []).append(message)
        return dict(sorted(links.items()))

    def deliver_next(self, source: Address, destination: Address) -> None:
        """Deliver the oldest message from ``source`` to ``destination`` now."""
        link = (source, destination)
        entries = (e for e in self._in_flight if (e[2].source, e[2].destination) == link)
        entry = min(entries, key=lambda e: e[:2])
        self._in_flight.remove(entry)
        heapq.heapify(self._in_flight)
        self.deliver(entry[2])

    def next_due_ms(self) -> float | None:
        """Return the delivery time of the next message, in monotonic milliseconds, or None."""
        return self._in_flight[0][0] if self._in_flight else None

    def deliver_due(self) -> int:
        """Deliver all messages that are due, and return how many there were."""
        delivered, now_ms = 0, self._clock.monotonic_ms()
        while self._in_flight and self._in_flight[0][0] <= now_ms:
            self.deliver(heapq.heappop(self._in_flight)[2])
            delivered += 1
        return delivered

    def deliver(self, message: Message) -> None:
        if isinstance(message.body, Disconnected):
            self._broken.pop((message.destination, message.source), None)
        super().deliver(message)
