"""Producers and consumers beside the brokers of a real-world cluster, on the brokers' thread.

Takes them in and lets others look at them; what they do is their own business.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from cluster.protocols import Clock
from cluster.requests import Address
from runtime.client_actor import Client, ClientActor
from runtime.real.broker_hub import BrokerHub
from runtime.transport import RoutedTransport

T = TypeVar("T")


class HubClients:
    """The clients of one cluster. For any thread but the hub's own."""

    def __init__(self, hub: BrokerHub, transport: RoutedTransport, clock: Clock) -> None:
        self._hub = hub
        self._transport = transport
        self._clock = clock

    def add(self, client: Client) -> None:
        """Let a client live; it hears of brokers that end."""
        actor = ClientActor(client, self._transport, self._clock)
        self._transport.register(
            actor.address,
            lambda message: self._hub.post(actor.address, message),
            hears_of_connections=True,
        )
        self._hub.add(actor)

    def remove(self, address: Address) -> None:
        """Let a client end as it is."""
        self._transport.unregister(address)
        self._hub.remove(address)

    def call(self, function: Callable[[float], T]) -> Future[T]:
        """Run ``function`` with the monotonic milliseconds, while no client runs."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(function(self._clock.monotonic_ms()))
            except Exception as error:
                future.set_exception(error)

        self._hub.soon(run)
        return future
