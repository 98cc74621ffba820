"""ScenarioDriver of a simulated world: how a scenario acts on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from brokers.broker import Broker
from cluster.errors import UsageError
from cluster.journal import JournalRow
from cluster.requests import Message, Request, Response
from cluster.types import TopicPartition
from runtime.checks.agreement import check_simulated_world, context_of_simulated_world
from runtime.client_actor import Client
from runtime.disks import ClusterDisks
from runtime.preloading import preload_replicas
from runtime.scenarios.by_hand import OperatorClient, bounce_registration
from runtime.scenarios.clients import CONSUMER, RECORD_BYTES, ScenarioClients
from runtime.scenarios.driver import ToolResult
from runtime.scenarios.tools import ScenarioTools
from runtime.simulated.world import SimulatedWorld
from runtime.simulated_workload import WorkloadChecker, begin_workload
from runtime.transport import NetworkFaults
from runtime.workloads import Rate
from statemachines.context import ControllerContext
from zk.store import Delete, Store

T = TypeVar("T")


class SimulatedDriver:
    """Drives a SimulatedWorld."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._tools = ScenarioTools(world.spec)
        self.store: Store = world.open_store()
        self._client = OperatorClient(world.transport, self.store)
        self._clients = ScenarioClients(
            self,
            world.spec.broker_ids,
            world.log_stores.journal,
            has_files=world.spec.segments is not None,
        )
        self._workloads: list[WorkloadChecker] = []

    @property
    def rows(self) -> Sequence[JournalRow]:
        """The world's journal so far."""
        return self._world.journal.rows

    @property
    def elapsed_ms(self) -> float:
        """Virtual time since the world began."""
        return self._world.clock.monotonic_ms()

    def add_tap(self, tap: Callable[[Message], None]) -> None:
        """Call ``tap`` with every message that is sent."""
        self._world.transport.add_tap(tap)

    @property
    def disks(self) -> ClusterDisks:
        """The world's disks."""
        return self._world.disks

    def kill_all(self) -> list[int]:
        """Kill every node at once."""
        killed = list(self._world.nodes)
        self._world.kill_all()
        return killed

    def begin_start_all(self) -> Sequence[int]:
        """Start every node."""
        for broker_id in self._world.spec.broker_ids:
            self._world.start(broker_id, holds_controller=True)
        return self._world.spec.broker_ids

    def begin_candidacies(self) -> None:
        """Let controllers be elected."""
        for broker_id in filter(self._world.spec.is_candidate, self._world.spec.broker_ids):
            self._world.begin_candidacy(broker_id)

    def start(self, broker_id: int) -> None:
        """Start a broker."""
        self._world.start(broker_id)

    def kill(self, broker_id: int) -> None:
        """Kill a broker."""
        self._world.kill(broker_id)

    def power_off(self, broker_id: int) -> None:
        """Kill a broker together with its machine."""
        self._world.kill(broker_id, loses_unflushed=True)

    def stop(self, broker_id: int) -> None:
        """Begin a controlled shutdown."""
        self._world.shut_down(broker_id)

    def pause(self, broker_id: int) -> None:
        """Freeze a broker."""
        self._world.pause(broker_id)

    def resume(self, broker_id: int) -> None:
        """Let a paused broker go on."""
        self._world.resume(broker_id)

    def fail_log_dir(self, broker_id: int, path: str) -> None:
        """Let a log directory fail."""
        self._world.fail_log_dir(broker_id, path)

    def isolate(self, broker_ids: Sequence[int]) -> None:
        """Let records travel among these, and among the others."""
        self._world.transport.isolated = tuple(broker_ids)

    def degrade_network(self, faults: NetworkFaults) -> None:
        """Treat messages that carry records so."""
        self._world.transport.faults = faults

    def bounce_registration(self, broker_id: int) -> None:
        """Delete a broker's znode and create it again."""
        bounce_registration(self.store, broker_id)

    def preload(self, partition: TopicPartition, size_bytes: int) -> None:
        """Let the replicas of a partition hold so many bytes more."""
        preload_replicas(self.brokers(), partition, size_bytes, self._world.clock)

    def move_controller(self) -> None:
        """Delete /controller."""
        self.store.write([[Delete("/controller")]])

    def act_on_zookeeper(self, action: str, server: str) -> None:
        """Raise UsageError: the simulated ZooKeeper has no server processes."""
        raise UsageError(
            "the simulated world has no ZooKeeper servers", hint="run the drill with --real"
        )

    def run_tool(self, name: str, args: Sequence[str]) -> ToolResult:
        """Run a Kafka tool."""
        return self._tools(name, args, self)

    def ask(self, request: Request, broker_id: int | None = None) -> Response:
        """Ask the controller or a broker."""
        return self._client.ask(request, broker_id, self.run_until)

    def produce(self, partition: TopicPartition, count: int) -> None:
        """Give the producer records."""
        self._clients.produce(partition, count)

    def produce_constantly(self, records_per_s: Mapping[TopicPartition, float]) -> None:
        """Let one more producer live."""
        rates = {tp: Rate(rate, RECORD_BYTES) for tp, rate in records_per_s.items()}
        producer = begin_workload(self._world, rates, CONSUMER.id + 1 + len(self._workloads))
        self._workloads.append(WorkloadChecker(self._world, producer))

    def acknowledged(self, partition: TopicPartition) -> int:
        """How many records the whole ISR has."""
        for workload in self._workloads:
            if partition in workload.partitions:
                return workload.acknowledged(partition)
        return self._clients.acknowledged(partition)

    def consumed(self, partition: TopicPartition) -> int:
        """How many records were read."""
        return self._clients.consumed(partition)

    def add_client(self, client: Client) -> None:
        """Let a producer or consumer live."""
        self._world.add_client(client)

    def brokers(self) -> list[Broker]:
        """Those that run."""
        return [running.node.broker for running in self._world.nodes.values()]

    def call_client(self, function: Callable[[float], T]) -> T:
        """Run ``function`` at once: nobody else runs."""
        return function(self._world.clock.monotonic_ms())

    def run_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Let simulated time pass until ``condition`` holds."""
        return self._world.run_until(condition, timeout_ms=timeout_ms)

    def run_for(self, duration_ms: float) -> None:
        """Let simulated time pass."""
        self._world.run_for(duration_ms)

    def settle(self) -> None:
        """Let two simulated seconds pass: longer than any retry in the cluster."""
        self._world.run_for(2_000)

    def controller_context(self) -> ControllerContext | None:
        """The active controller's context."""
        return context_of_simulated_world(self._world)

    def hosted(self, broker_id: int) -> list[TopicPartition] | None:
        """The partitions that a broker has replicas of."""
        running = self._world.nodes.get(broker_id)
        return None if running is None else sorted(running.node.broker.replica_manager.partitions)

    @property
    def errors(self) -> list[str]:
        """What actors raised."""
        return self._world.errors

    def disagreements(self) -> list[str]:
        """What the checks find."""
        for workload in self._workloads:
            workload.check()
        lost = [line for workload in self._workloads for line in workload.violations]
        return check_simulated_world(self._world) + self._clients.findings() + lost
