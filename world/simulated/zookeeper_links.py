"""The links between the brokers of a simulated world and ZooKeeper, with their faults.

The transport has the faults; this module applies them to the sessions. A session whose link is cut
in one or both directions expires after its timeout. As with ZooKeeper's client, the broker does not
notice the expiry before it reaches ZooKeeper again.
"""

from __future__ import annotations

import heapq
from functools import partial

from klamm.cluster.protocols import Clock
from klamm.cluster.requests import Address
from klamm.cluster.timers import earliest
from klamm.world.actors import Actor, Scheduler
from klamm.world.transport import RoutedTransport
from klamm.zk.memory_store import MemoryServer, MemoryStore
from klamm.zk.store import SessionEvent, SessionState, StoreEvent

ADDRESS = Address("zookeeper", 0)


class ZooKeeperLinks(Actor):
    """Actor that delivers what is late on links with ZooKeeper."""

    is_shared = True

    def __init__(
        self,
        transport: RoutedTransport,
        server: MemoryServer,
        scheduler: Scheduler,
        clock: Clock,
    ) -> None:
        super().__init__(ADDRESS)
        self._transport = transport
        self._server = server
        server.on_lagging = self.woken
        self._scheduler = scheduler
        self._clock = clock
        self._stores: dict[int, MemoryStore] = {}
        self._late: list[tuple[float, int, int | Actor]] = []
        self._count = 0

    def add(self, broker_id: int, store: MemoryStore) -> None:
        """Add the store of a broker that starts."""
        self._stores[broker_id] = store
        store.add_listener(partial(self._on_event, broker_id))
        store.links = self
        self._review(broker_id, store)

    def remove(self, broker_id: int) -> None:
        """Remove the store of a broker that has ended."""
        self._stores.pop(broker_id).links = None

    def review(self) -> None:
        """Apply the faults of the network. Call this after each change."""
        for broker_id, store in self._stores.items():
            self._review(broker_id, store)

    def _review(self, broker_id: int, store: MemoryStore) -> None:
        outbound, inbound = self._transport.with_zookeeper(broker_id)
        store.outbound_ms, store.inbound_ms = outbound.delay_ms, inbound.delay_ms
        if outbound.is_cut or inbound.is_cut:
            store.server.cut(store.session_id, is_heard=not outbound.is_cut)
        else:
            broker = self._scheduler.actors.get(Address("broker", broker_id))
            store.server.restore(store.session_id, reconnects=broker is None or not broker.paused)
        store.server.set_lag(store.session_id, inbound.lag_ms)

    # -- delays

    def now_ms(self) -> float:
        """Return the monotonic time in milliseconds."""
        return self._clock.monotonic_ms()

    def wait_until(self, due_ms: float) -> None:
        """Suspend the event in progress until this time."""
        actor = self._scheduler.running
        assert actor is not None
        self._push(due_ms, actor)
        while self._clock.monotonic_ms() < due_ms:
            self._scheduler.suspend()

    def wait_for_session(self) -> None:
        """Suspend the event in progress until the state of its session changes."""
        self._scheduler.suspend()

    def deliver_at(self, due_ms: float, store: MemoryStore) -> None:
        """Call ``deliver_due`` of a store at this time."""
        broker_id = next(id_ for id_, known in self._stores.items() if known is store)
        self._push(due_ms, broker_id)

    def next_due_ms(self) -> float | None:
        """Return when the next reply or event arrives, or the next follower applies a transaction.

        In monotonic milliseconds."""
        late_ms = self._late[0][0] if self._late else None
        return earliest((late_ms, self._server.next_lagging_ms()))

    def run_event(self) -> None:
        self._server.apply_lagging()
        now_ms = self._clock.monotonic_ms()
        while self._late and self._late[0][0] <= now_ms:
            _, _, due = heapq.heappop(self._late)
            if isinstance(due, Actor):
                due.continue_event()
            elif due in self._stores:
                self._stores[due].deliver_due(now_ms)

    def _push(self, due_ms: float, due: int | Actor) -> None:
        self._count += 1
        heapq.heappush(self._late, (due_ms, self._count, due))
        self.woken()

    # -- actors that wait

    def _on_event(self, broker_id: int, event: StoreEvent) -> None:
        if event == SessionEvent(SessionState.CONNECTED):
            self._review(broker_id, self._stores[broker_id])
        if isinstance(event, SessionEvent) and event.state is not SessionState.DISCONNECTED:
            for role in ("broker", "controller"):
                actor = self._scheduler.actors.get(Address(role, broker_id))
                if actor is not None:
                    actor.continue_event()
