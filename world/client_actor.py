"""Actor that runs a producer or consumer, on a real or a simulated cluster.

The actor forwards messages and runs timers; the client decides what to send, and when.
"""

from __future__ import annotations

from typing import Protocol

from klamm.cluster.protocols import Clock, Transport
from klamm.cluster.requests import Address, Message
from klamm.world.actors import Actor


class Client(Protocol):
    """The interface of producers and consumers that the actor uses (see world/clients/)."""

    @property
    def address(self) -> Address:
        """The address to which brokers send responses."""
        ...

    def take_messages(self) -> list[Message]:
        """Return the messages that the client wants to send, and clear the list."""
        ...

    def receive(self, message: Message, now_ms: float) -> None:
        """Process a response, or the notification of a lost connection."""
        ...

    def on_timer(self, now_ms: float) -> None:
        """Run the timers that are due."""
        ...

    def next_due_ms(self) -> float | None:
        """Return the time of the next call of ``on_timer``, in monotonic milliseconds."""
        ...


class ClientActor(Actor):
    """Passes received messages to a client, sends its requests, and runs its timers."""

    def __init__(self, client: Client, transport: Transport, clock: Clock) -> None:
        super().__init__(client.address)
        self._client = client
        self._transport = transport
        self._clock = clock

    def next_due_ms(self) -> float | None:
        return self._client.next_due_ms()

    def run_event(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self.inbox:
            message = self.inbox.popleft()
            assert isinstance(message, Message)
            self._client.receive(message, now_ms)
        else:
            self._client.on_timer(now_ms)
        for message in self._client.take_messages():
            self._transport.send(message)
