"""A producer or consumer as an actor: its messages and timers, in either world.

Decides nothing: what is sent, and when, is the client's business.
"""

from __future__ import annotations

from typing import Protocol

from klamm.cluster.protocols import Clock, Transport
from klamm.cluster.requests import Address, Message
from klamm.runtime.actors import Actor


class Client(Protocol):
    """What brokers/clients/ has: messages in, messages out, and when it is due next."""

    @property
    def address(self) -> Address:
        """Where answers come to."""
        ...

    def take_messages(self) -> list[Message]:
        """What is to be sent; from now on nothing."""
        ...

    def receive(self, message: Message, now_ms: float) -> None:
        """Take an answer, or that a connection is lost."""
        ...

    def on_timer(self, now_ms: float) -> None:
        """Do what is due."""
        ...

    def next_due_ms(self) -> float | None:
        """When ``on_timer`` is to be called next, in monotonic milliseconds."""
        ...


class ClientActor(Actor):
    """A client that is called with its messages and when it is due."""

    def __init__(self, client: Client, transport: Transport, clock: Clock) -> None:
        super().__init__(client.address)
        self._client = client
        self._transport = transport
        self._clock = clock

    def next_due_ms(self) -> float | None:
        """When the client is due."""
        return self._client.next_due_ms()

    def run_event(self) -> None:
        """Handle one message, or what is due, and send what follows from it."""
        now_ms = self._clock.monotonic_ms()
        if self.inbox:
            message = self.inbox.popleft()
            assert isinstance(message, Message)
            self._client.receive(message, now_ms)
        else:
            self._client.on_timer(now_ms)
        for message in self._client.take_messages():
            self._transport.send(message)
