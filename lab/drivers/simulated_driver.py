"""ScenarioDriver for a simulated world."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from klamm.cluster.errors import WrongState
from klamm.cluster.journal import JournalRow
from klamm.cluster.types import TopicPartition
from klamm.lab.checks.admin_history import AdminHistory, RecordedStore
from klamm.lab.checks.agreement import check_simulated_world
from klamm.lab.checks.constant_rates import WorkloadChecker, begin_workload
from klamm.lab.checks.watching import Watcher
from klamm.lab.drivers.clients import (
    CONSUMER,
    RECORD_BYTES,
    OperatorClient,
    ScenarioClients,
)
from klamm.lab.drivers.driver import ONLY_PRODUCER, ScenarioDriver
from klamm.lab.drivers.turns import Turns
from klamm.world.client_actor import Client
from klamm.world.clients.constant_rate_producer import Rate
from klamm.world.simulated.breakpoints import Breakpoint, Breakpoints
from klamm.world.simulated.world import SESSION_FAULTS, SimulatedWorld
from klamm.zk.store import Store

T = TypeVar("T")


class SimulatedDriver(ScenarioDriver):
    """ScenarioDriver for a SimulatedWorld (simulated ZooKeeper, network and time)."""

    cluster: SimulatedWorld
    is_simulated = True

    def __init__(self, world: SimulatedWorld) -> None:
        self.cluster = world
        self.admin_history = AdminHistory(world.clock.monotonic_ms)
        self._store = RecordedStore(world.open_store(), self.admin_history)
        self.operator = OperatorClient(self)
        has_files = world.spec.segments is not None
        self.clients = ScenarioClients(self, has_files=has_files)
        self.turns = Turns(self._run_until, world.clock.monotonic_ms)
        self._workloads: list[WorkloadChecker] = []
        self._watcher: Watcher | None = None
        self.breakpoints = Breakpoints(world)

    @property
    def store(self) -> Store:
        """A session with the simulated ZooKeeper."""
        return self._store

    @property
    def rows(self) -> Sequence[JournalRow]:
        return self.cluster.journal.rows

    @property
    def zookeeper_changes(self) -> int:
        """The zxid of the last change in the simulated ZooKeeper."""
        return self.cluster.server.zxid

    @property
    def elapsed_ms(self) -> float:
        return self.cluster.clock.monotonic_ms()

    @property
    def steps_run(self) -> int:
        return self.cluster.steps_run

    def produce_constantly(self, records_per_s: Mapping[TopicPartition, float]) -> None:
        for tp in records_per_s:
            if tp in self.clients.produced:
                raise WrongState(f"{tp} already has a producer", hint=ONLY_PRODUCER)
        rates = {tp: Rate(rate, RECORD_BYTES) for tp, rate in records_per_s.items()}
        producer = begin_workload(self.cluster, rates, CONSUMER.id + 1 + len(self._workloads))
        self._workloads.append(WorkloadChecker(self.cluster, producer))
        self.constant_partitions = {*self.constant_partitions, *records_per_s}
        if self._watcher is not None:
            self._watcher.add_constant_rates(producer)

    def acknowledged(self, partition: TopicPartition) -> int:
        for workload in self._workloads:
            if partition in workload.partitions:
                return workload.acknowledged(partition)
        return super().acknowledged(partition)

    def add_client(self, client: Client) -> None:
        self.cluster.add_client(client)

    def call_client(self, function: Callable[[float], T]) -> T:
        """Call ``function`` now: between two steps, no client or broker is running."""
        return function(self.cluster.clock.monotonic_ms())

    def watch(self, names: Sequence[str]) -> None:
        if names:
            self._watcher = Watcher(self.cluster, names)

    def _run_until(self, condition: Callable[[], bool], deadline_ms: float) -> bool:
        watcher = self._watcher
        if watcher is None:
            return self.cluster.run_before(condition, deadline_ms)
        found = watcher.violations
        is_met = self.cluster.run_before(lambda: bool(found) or condition(), deadline_ms)
        watcher.raise_violation()
        return is_met

    def break_session(self, broker_id: int, how: str) -> None:
        SESSION_FAULTS[how].inject(self.cluster, broker_id)

    def break_at(self, point: Breakpoint) -> Callable[[], bool]:
        return self.breakpoints.add(point)

    def advance(self, count: int) -> None:
        """Run this many steps, or fewer if nothing is left to do."""
        for _ in range(count):
            if not self.cluster.step():
                break
            self.turns.take()
        if self._watcher is not None:
            self._watcher.raise_violation()

    def quiesce(self) -> None:
        """Advance simulated time by two seconds, which is longer than any retry interval."""
        self.run_for(2_000)

    def disagreements_with_zookeeper(self) -> list[str]:
        return check_simulated_world(self.cluster)

    def disagreements(self) -> list[str]:
        for workload in self._workloads:
            workload.check()
        lost = [line for workload in self._workloads for line in workload.violations]
        return super().disagreements() + lost
