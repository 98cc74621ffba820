"""Runs the producers and consumers of a real-world cluster on the brokers' thread.

The behaviour of producers and consumers is defined in world/clients/.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from klamm.cluster.errors import KlammError
from klamm.cluster.protocols import Clock, Transport
from klamm.cluster.requests import Address
from klamm.world.client_actor import Client, ClientActor
from klamm.world.live.broker_hub import BrokerHub
from klamm.world.transport import RoutedTransport

T = TypeVar("T")
_Wait = tuple[Future[None], Callable[[], bool]]


class _HubClient(ClientActor):
    """Actor that runs one client, and caches the due time of the client's next timer.

    The cache saves time, because a cluster may have hundreds of clients.

    ``after_event`` is called after each event of the client.
    """

    def __init__(
        self, client: Client, transport: Transport, clock: Clock, after_event: Callable[[], None]
    ) -> None:
        super().__init__(client, transport, clock)
        self._after_event = after_event
        self._is_due_known = False
        self._due_ms: float | None = None

    def next_due_ms(self) -> float | None:
        if not self._is_due_known:
            self._due_ms = super().next_due_ms()
            self._is_due_known = True
        return self._due_ms

    def changed(self) -> None:
        """Discard the cached due time, because the client may have changed."""
        self._is_due_known = False

    def run_event(self) -> None:
        self.changed()
        super().run_event()
        self.changed()
        self._after_event()


class HubClients:
    """The clients of one cluster. Call its methods on any thread except the hub's."""

    def __init__(self, hub: BrokerHub, transport: RoutedTransport, clock: Clock) -> None:
        self._hub = hub
        self._transport = transport
        self._clock = clock
        # Use these only on the hub's thread.
        self._actors: dict[Address, _HubClient] = {}
        self._waits: dict[Address, list[_Wait]] = {}

    def add(self, client: Client) -> None:
        """Add a client. It is notified when a broker that it is connected to stops."""
        actor = _HubClient(
            client, self._transport, self._clock, lambda: self._check_waits(client.address)
        )

        def begin() -> None:
            self._actors[actor.address] = actor
            self._waits[actor.address] = []

        self._transport.register(
            actor.address,
            lambda message: self._hub.post(actor.address, message),
            notify_disconnects=True,
        )
        self._hub.call(begin).result()
        self._hub.add(actor)

    def remove(self, address: Address) -> None:
        """Remove a client without flushing its records.

        Its pending ``when`` futures fail with an error."""
        self._transport.unregister(address)
        self._hub.remove(address)
        self._hub.call(lambda: self._forget(address)).result()

    def call(self, function: Callable[[float], T]) -> Future[T]:
        """Run ``function`` on the brokers' thread while no client or broker is running.

        The argument of ``function`` is the monotonic time in milliseconds. Returns a future of the
        result."""

        def run() -> T:
            try:
                return function(self._clock.monotonic_ms())
            finally:
                for actor in self._actors.values():
                    actor.changed()

        return self._hub.call(run)

    def when(self, address: Address, condition: Callable[[], bool]) -> Future[None]:
        """Return a future that completes when ``condition`` on a client holds.

        The condition is checked now and after each event of the client. Cancel the future to stop
        the checks.
        """
        future: Future[None] = Future()

        def begin() -> None:
            if address in self._waits:
                self._waits[address].append((future, condition))
                self._check_waits(address)
            else:
                _fail_closed(future)

        self._hub.soon(begin)
        return future

    def _check_waits(self, address: Address) -> None:
        if self._waits.get(address):
            self._waits[address] = [wait for wait in self._waits[address] if _is_open(wait)]

    def _forget(self, address: Address) -> None:
        self._actors.pop(address, None)
        for future, _ in self._waits.pop(address, ()):
            _fail_closed(future)


def _fail_closed(future: Future[None]) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(KlammError("the producer or consumer was closed in the meantime"))


def _is_open(wait: _Wait) -> bool:
    """Complete a future if its condition holds; return True if it must be checked again."""
    future, condition = wait
    if future.cancelled():
        return False
    try:
        if not condition():
            return True
    except Exception as error:
        if future.set_running_or_notify_cancel():
            future.set_exception(error)
        return False
    if future.set_running_or_notify_cancel():
        future.set_result(None)
    return False
