"""The two transports with the same three actors: what they receive, and how time passes."""

from __future__ import annotations

import random

from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProduceRequest
from klamm.cluster.requests import Address, Message, UpdateMetadataResponse
from klamm.world.clock import VirtualClock
from klamm.world.network import LinkFault
from klamm.world.real.late_messages import LateMessage, LateMessages
from klamm.world.transport import RoutedTransport, SimulatedTransport

CLIENT = Address("client", 9)
ONE, TWO = Address("broker", 1), Address("broker", 2)


def update(number: int, source: Address = ONE, destination: Address = TWO) -> Message:
    """A message between brokers, with the number as its correlation id."""
    return Message(source, destination, number, UpdateMetadataResponse(Errors.NONE))


def produce(number: int, destination: Address = TWO) -> Message:
    """A request of the client, which is notified of broken connections."""
    return Message(CLIENT, destination, number, ProduceRequest(1, 1_000, {}))


class TransportRig:
    """A transport, its actors ONE, TWO and CLIENT, and a clock that only ``run`` advances."""

    transport: RoutedTransport

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.transport = self._open()
        self.received: dict[Address, list[Message]] = {ONE: [], TWO: [], CLIENT: []}
        for address in (ONE, TWO):
            self.restart(address)
        answers = self.received[CLIENT].append
        self.transport.register(CLIENT, answers, notify_disconnects=True)

    def _open(self) -> RoutedTransport:
        raise NotImplementedError

    def _next_due_ms(self) -> float | None:
        raise NotImplementedError

    def _deliver_due(self) -> None:
        raise NotImplementedError

    def restart(self, address: Address) -> None:
        """Start the actor's process again."""
        self.transport.register(address, self.received[address].append)

    def set_fault(self, *faults: LinkFault) -> None:
        """Replace the faults of the network's links."""
        self.transport.faults = faults

    def send(self, *messages: Message) -> None:
        """Send messages, without letting time pass."""
        for message in messages:
            self.transport.send(message)

    def run(self) -> None:
        """Let time pass until nothing is due any more."""
        while (due_ms := self._next_due_ms()) is not None:
            self.clock.advance_to(max(due_ms, self.clock.monotonic_ms()))
            self._deliver_due()

    def numbers(self, address: Address = TWO) -> list[int]:
        """The correlation ids that an actor has received up to now."""
        self.run()
        return [message.correlation_id for message in self.received[address]]


class RoutedRig(TransportRig):
    """The real world's transport, with its actor for late messages on the virtual clock."""

    def _open(self) -> RoutedTransport:
        transport = RoutedTransport(random.Random(0))
        self._late = LateMessages(transport.deliver_late, self.clock)

        def later(message: Message, delay_ms: float, in_order: bool) -> None:
            due_ms = self.clock.monotonic_ms() + delay_ms
            self._late.inbox.append(LateMessage(due_ms, message, in_order))
            self._late.run_event()

        transport.deliver_later = later
        return transport

    def _next_due_ms(self) -> float | None:
        return self._late.next_due_ms()

    def _deliver_due(self) -> None:
        self._late.run_event()


class SimulatedRig(TransportRig):
    """The simulated world's transport."""

    transport: SimulatedTransport

    def _open(self) -> RoutedTransport:
        return SimulatedTransport(self.clock, random.Random(0))

    def _next_due_ms(self) -> float | None:
        return self.transport.next_due_ms()

    def _deliver_due(self) -> None:
        self.transport.deliver_due()
