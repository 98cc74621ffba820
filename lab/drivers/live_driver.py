"""ScenarioDriver for a cluster on a real ZooKeeper, without what depends on klamm's own brokers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from klamm.cluster.errors import UsageError
from klamm.lab.checks.admin_history import AdminHistory, RecordedStore
from klamm.lab.drivers.clients import FETCH_WAIT_MS, OperatorClient, ScenarioClients
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.lab.drivers.turns import Turns
from klamm.world.client_actor import Client
from klamm.world.cluster import Cluster
from klamm.world.live.hub_clients import HubClients
from klamm.world.live.sessions import OwnSession
from klamm.world.simulated.breakpoints import Breakpoint
from klamm.zk.kazoo_pipeline import within
from klamm.zk.store import Store
from klamm.zk.waiting import wait_until

_ZOOKEEPER_TIMEOUT_S: Final = 30.0
_CLIENT_TIMEOUT_S: Final = 30.0
_QUIESCE_TIMEOUT_MS: Final = 20_000.0
_NO_STEPS: Final = "advance requires the simulated world"


class LiveCluster(Cluster, Protocol):
    """A cluster on a real ZooKeeper, with the clients of a scenario."""

    @property
    def own_session(self) -> OwnSession:
        """The session with which scenarios read and write znodes."""
        ...

    @property
    def clients(self) -> HubClients:
        """The producers and consumers of a scenario."""
        ...


C = TypeVar("C", bound=LiveCluster)
T = TypeVar("T")


class LiveDriver(ScenarioDriver, Generic[C]):
    """Base class of drivers whose cluster runs on threads or processes, in real time."""

    cluster: C
    POLL_S = 0.005
    """Pause between two evaluations of a condition that is awaited."""

    def __init__(self, cluster: C, *, has_files: bool, fetch_wait_ms: int = FETCH_WAIT_MS) -> None:
        self.cluster = cluster
        self._began_s = time.monotonic()
        self.turns = Turns(self._run_until, lambda: self.elapsed_ms)
        self.admin_history = AdminHistory(lambda: self.elapsed_ms)
        self.operator = OperatorClient(self)
        self.clients = ScenarioClients(self, has_files=has_files, fetch_wait_ms=fetch_wait_ms)

    @property
    def store(self) -> Store:
        """The cluster's session. Calls raise ZooKeeperUnavailable if ZooKeeper does not respond."""
        store = self.cluster.own_session.store(within(_ZOOKEEPER_TIMEOUT_S))
        return self.recorded(store)

    def recorded(self, store: Store) -> RecordedStore:
        """Return the store whose writes are part of the history."""
        return RecordedStore(store, self.admin_history)

    @property
    def zookeeper_changes(self) -> int:
        """The current time instead of a number of changes, so that callers cache nothing."""
        return time.monotonic_ns()

    @property
    def elapsed_ms(self) -> float:
        """Real time since the driver was created, in milliseconds."""
        return (time.monotonic() - self._began_s) * 1000

    @property
    def steps_run(self) -> int:
        """Raise UsageError: threads have no steps that could be counted."""
        raise UsageError(_NO_STEPS, hint="run the drill without --real")

    def break_at(self, point: Breakpoint) -> Callable[[], bool]:
        """Raise UsageError: klamm cannot stop a real controller at a given operation."""
        raise UsageError(
            "before and after require the simulated world", hint="run the drill without --real"
        )

    def add_client(self, client: Client) -> None:
        self.cluster.clients.add(client)

    def call_client(self, function: Callable[[float], T]) -> T:
        """Run ``function`` on the brokers' thread, between two events."""
        return self.cluster.clients.call(function).result(_CLIENT_TIMEOUT_S)

    def _run_until_still(self, observe: Callable[[], object], idle_s: float) -> None:
        """Run until ``observe`` has returned the same for a time; None: the cluster is busy."""
        seen: object = None
        since_s = 0.0

        def is_still() -> bool:
            nonlocal seen, since_s
            now_s, before = time.monotonic(), seen
            seen = observe()
            if seen is None or seen != before:
                since_s = now_s
            return now_s - since_s > idle_s

        self.turns.run_until(is_still, _QUIESCE_TIMEOUT_MS)

    def _run_until(self, condition: Callable[[], bool], deadline_ms: float) -> bool:
        return wait_until(condition, (deadline_ms - self.elapsed_ms) / 1000, self.POLL_S)
