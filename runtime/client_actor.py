"""A producer or consumer as an actor with messages and timers, in either world.

Decides nothing: the client decides what to send, and when.
"""

from __future__ import annotations

from typing import Protocol

from klamm.cluster.protocols import Clock, Transport
from klamm.cluster.requests import Address, Message
from klamm.runtime.actors import Actor


class Client(Protocol):
    """The interface of the clients in brokers/clients/: messages and timers."""

    @property
    def address(self) -> Address:
        """Address that responses are sent to."""
        ...

    def take_messages(self) -> list[Message]:
        """Remove and return the messages to be sent."""
        ...

    def receive(self, message: Message, now_ms: float) -> None:
        """Process a response or a lost connection."""
        ...

    def on_timer(self, now_ms: float) -> None:
        """Do everything that is due."""
        ...

    def next_due_ms(self) -> float | None:
        """Return when to call ``on_timer`` next, in monotonic milliseconds."""
        ...


class ClientActor(Actor):
    """Passes messages to a client, and calls it when it is due."""

    def __init__(self, client: Client, transport: Transport, clock: Clock) -> None:
        super().__init__(client.address)
        self._client = client
        self._transport = transport
        self._clock = clock

    def next_due_ms(self) -> float | None:
        """Return when the client is due."""
        return self._client.next_due_ms()

    def run_event(self) -> None:
        """Handle one message, or what is due; send the resulting messages."""
        now_ms = self._clock.monotonic_ms()
        if self.inbox:
            message = self.inbox.popleft()
            assert isinstance(message, Message)
            self._client.receive(message, now_ms)
        else:
            self._client.on_timer(now_ms)
        for message in self._client.take_messages():
            self._transport.send(message)
