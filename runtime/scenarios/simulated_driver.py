"""ScenarioDriver for a simulated world."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from klamm.brokers.constant_rate.producer import Rate
from klamm.cluster.errors import UsageError
from klamm.cluster.journal import JournalRow
from klamm.cluster.types import TopicPartition
from klamm.runtime.checks.agreement import check_simulated_world, context_of_simulated_world
from klamm.runtime.client_actor import Client
from klamm.runtime.scenarios.clients import (
    CONSUMER,
    RECORD_BYTES,
    OperatorClient,
    ScenarioClients,
)
from klamm.runtime.simulated.world import SimulatedWorld
from klamm.runtime.simulated_workload import WorkloadChecker, begin_workload
from klamm.runtime.transport import NetworkFaults
from klamm.statemachines.context import ControllerContext
from klamm.zk.store import Store

T = TypeVar("T")


class SimulatedDriver:
    """Drives a SimulatedWorld."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.cluster = world
        self.store: Store = world.open_store()
        self.operator = OperatorClient(self)
        self.clients = ScenarioClients(
            self,
            world.spec.broker_ids,
            world.log_stores.journal,
            has_files=world.spec.segments is not None,
        )
        self._workloads: list[WorkloadChecker] = []

    @property
    def rows(self) -> Sequence[JournalRow]:
        """The world's journal so far."""
        return self.cluster.journal.rows

    @property
    def elapsed_ms(self) -> float:
        """Virtual time since the start of the world."""
        return self.cluster.clock.monotonic_ms()

    def kill_all(self) -> list[int]:
        """Kill every node at once."""
        killed = list(self.cluster.nodes)
        self.cluster.kill_all()
        return killed

    def degrade_network(self, faults: NetworkFaults) -> None:
        """Apply faults to messages that carry records."""
        self.cluster.transport.faults = faults

    def act_on_zookeeper(self, action: str, server: str) -> None:
        """Raise UsageError: the simulated ZooKeeper has no server processes."""
        raise UsageError(
            "the simulated world has no ZooKeeper servers", hint="run the drill with --real"
        )

    def produce_constantly(self, records_per_s: Mapping[TopicPartition, float]) -> None:
        """Add a producer with constant rates."""
        rates = {tp: Rate(rate, RECORD_BYTES) for tp, rate in records_per_s.items()}
        producer = begin_workload(self.cluster, rates, CONSUMER.id + 1 + len(self._workloads))
        self._workloads.append(WorkloadChecker(self.cluster, producer))

    def acknowledged(self, partition: TopicPartition) -> int:
        """Return the number of records that the whole ISR has."""
        for workload in self._workloads:
            if partition in workload.partitions:
                return workload.acknowledged(partition)
        return self.clients.acknowledged(partition)

    def add_client(self, client: Client) -> None:
        """Add a producer or consumer."""
        self.cluster.add_client(client)

    def call_client(self, function: Callable[[float], T]) -> T:
        """Run ``function`` at once: no other actor is running."""
        return function(self.cluster.clock.monotonic_ms())

    def run_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Advance simulated time until ``condition`` holds; return False after the timeout."""
        return self.cluster.run_until(condition, timeout_ms=timeout_ms)

    def run_for(self, duration_ms: float) -> None:
        """Advance simulated time by this much."""
        self.cluster.run_for(duration_ms)

    def quiesce(self) -> None:
        """Advance simulated time by two seconds: longer than any retry in the cluster."""
        self.cluster.run_for(2_000)

    def controller_context(self) -> ControllerContext | None:
        """The active controller's context."""
        return context_of_simulated_world(self.cluster)

    def disagreements(self) -> list[str]:
        """Return the findings of all checks."""
        for workload in self._workloads:
            workload.check()
        lost = [line for workload in self._workloads for line in workload.violations]
        return check_simulated_world(self.cluster) + self.clients.findings() + lost
