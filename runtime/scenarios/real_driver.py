"""ScenarioDriver of brokers on a real ZooKeeper: how a scenario acts on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from brokers.broker import Broker
from cluster.errors import UsageError
from cluster.journal import JournalRow
from cluster.requests import Message, Request, Response
from cluster.types import TopicPartition
from runtime.checks.agreement import check_real_cluster, context_of_real_cluster
from runtime.client_actor import Client
from runtime.disks import ClusterDisks
from runtime.journal import MemoryJournal
from runtime.preloading import preload_replicas
from runtime.real.cluster import RealCluster
from runtime.scenarios.by_hand import OperatorClient, bounce_registration
from runtime.scenarios.clients import ScenarioClients
from runtime.scenarios.driver import ToolResult
from runtime.scenarios.tools import ScenarioTools
from runtime.transport import NO_FAULTS, NetworkFaults
from statemachines.context import ControllerContext
from zk.ensemble import SINGLE_SERVER, WHOLE_ENSEMBLE, EmbeddedEnsemble
from zk.kazoo_waves import within
from zk.store import Store

_POLL_S: Final = 0.005
_SETTLED_AFTER_S: Final = 0.15
_SETTLE_TIMEOUT_S: Final = 20.0
_ZOOKEEPER_TIMEOUT_S: Final = 30.0
_CLIENT_TIMEOUT_S: Final = 30.0

T = TypeVar("T")


class RealDriver:
    """Drives a RealCluster whose journal is kept in memory. ``ensemble``: the scenario's own
    ZooKeeper servers, if it may kill them."""

    def __init__(
        self,
        cluster: RealCluster,
        journal: MemoryJournal,
        ensemble: EmbeddedEnsemble | None = None,
    ) -> None:
        self._cluster = cluster
        self._ensemble = ensemble
        self._journal = journal
        self._tools = ScenarioTools(cluster.spec)
        self._began_s = time.monotonic()
        self._incarnation = 0
        self._client = OperatorClient(cluster.transport, self.store)
        self._clients = ScenarioClients(
            self,
            cluster.spec.broker_ids,
            cluster.log_journal,
            has_files=cluster.spec.segments is not None,
        )

    @property
    def store(self) -> Store:
        """The cluster's own session. Its calls raise ZooKeeperUnavailable if none answers."""
        return self._cluster.own_session.store(within(_ZOOKEEPER_TIMEOUT_S))

    @property
    def rows(self) -> Sequence[JournalRow]:
        """The cluster's journal so far."""
        return self._journal.rows

    @property
    def elapsed_ms(self) -> float:
        """Real time since the driver was made."""
        return (time.monotonic() - self._began_s) * 1000

    def add_tap(self, tap: Callable[[Message], None]) -> None:
        """Call ``tap`` with every message that is sent."""
        self._cluster.transport.add_tap(tap)

    @property
    def disks(self) -> ClusterDisks:
        """The cluster's disks."""
        return self._cluster.disks

    def kill_all(self) -> list[int]:
        """End the cluster like a killed process: sessions are left to expire, logs in memory are
        lost. It is replaced by a new cluster in which no broker runs yet."""
        old, killed = self._cluster, list(self._cluster.nodes)
        for broker_id in killed:
            old.kill(broker_id)
        old.close()
        self._incarnation += 1
        spec = replace(old.spec, seed=hash((old.spec.seed, self._incarnation)))
        self._cluster = RealCluster(spec, old.connect_string, self._journal)
        self._client = OperatorClient(self._cluster.transport, self.store)
        self._clients.reconnect(old.spec.broker_ids)
        return killed

    def begin_start_all(self) -> Sequence[int]:
        """Begin to start every broker."""
        for broker_id in self._cluster.spec.broker_ids:
            self._cluster.begin_start(broker_id, holds_controller=True)
        return self._cluster.spec.broker_ids

    def begin_candidacies(self) -> None:
        """Let controllers be elected."""
        for broker_id in filter(self._cluster.spec.is_candidate, self._cluster.spec.broker_ids):
            self._cluster.begin_candidacy(broker_id)

    def close(self) -> None:
        """Close the current cluster; idempotent."""
        self._cluster.close()

    def start(self, broker_id: int) -> None:
        """Start a broker."""
        self._cluster.start(broker_id)

    def kill(self, broker_id: int) -> None:
        """Kill a broker."""
        self._cluster.kill(broker_id)

    def power_off(self, broker_id: int) -> None:
        """Kill a broker together with its machine."""
        self._cluster.kill(broker_id, loses_unflushed=True)

    def stop(self, broker_id: int) -> None:
        """Stop a broker."""
        self._cluster.stop(broker_id)

    def pause(self, broker_id: int) -> None:
        """Freeze a broker."""
        self._cluster.pause(broker_id)

    def resume(self, broker_id: int) -> None:
        """Let a paused broker go on."""
        self._cluster.resume(broker_id)

    def fail_log_dir(self, broker_id: int, path: str) -> None:
        """Let a log directory fail."""
        self._cluster.fail_log_dir(broker_id, path)

    def isolate(self, broker_ids: Sequence[int]) -> None:
        """Let records travel among these, and among the others."""
        self._cluster.isolate(broker_ids)

    def degrade_network(self, faults: NetworkFaults) -> None:
        """A network inside one process is a good one."""
        if faults != NO_FAULTS:
            raise UsageError(
                "a network that loses, repeats or reorders messages is simulated only",
                hint="run the drill without --real",
            )

    def bounce_registration(self, broker_id: int) -> None:
        """Delete a broker's znode and create it again."""
        bounce_registration(self.store, broker_id)

    def preload(self, partition: TopicPartition, size_bytes: int) -> None:
        """Let the replicas of a partition hold so many bytes more."""
        with self._cluster.broker_thread_paused():
            preload_replicas(self.brokers(), partition, size_bytes, self._cluster.clock)

    def move_controller(self) -> None:
        """Delete /controller."""
        self._cluster.move_controller()

    def act_on_zookeeper(self, action: str, server: str) -> None:
        """Act on the scenario's private servers."""
        ensemble = self._ensemble
        if ensemble is None:
            raise UsageError(f"{action}: the scenario has no private ZooKeeper servers")
        if action in WHOLE_ENSEMBLE:
            WHOLE_ENSEMBLE[action](ensemble)
        else:
            SINGLE_SERVER[action](ensemble, ensemble.find(server))

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
        """Constant rates are arithmetic on the simulated clock."""
        raise UsageError(
            "records at constant rates are simulated only", hint="run the drill without --real"
        )

    def acknowledged(self, partition: TopicPartition) -> int:
        """How many records the whole ISR has."""
        return self._clients.acknowledged(partition)

    def consumed(self, partition: TopicPartition) -> int:
        """How many records were read."""
        return self._clients.consumed(partition)

    def add_client(self, client: Client) -> None:
        """Let a producer or consumer live."""
        self._cluster.clients.add(client)

    def brokers(self) -> list[Broker]:
        """Those that run."""
        return [running.node.broker for running in tuple(self._cluster.nodes.values())]

    def call_client(self, function: Callable[[float], T]) -> T:
        """Run ``function`` on the thread of brokers and clients."""
        return self._cluster.clients.call(function).result(_CLIENT_TIMEOUT_S)

    def run_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Poll until ``condition`` holds."""
        deadline = time.monotonic() + timeout_ms / 1000
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def run_for(self, duration_ms: float) -> None:
        """Sleep."""
        time.sleep(duration_ms / 1000)

    def settle(self) -> None:
        """Wait until the cluster has been idle for a while."""
        deadline = time.monotonic() + _SETTLE_TIMEOUT_S
        idle_since: float | None = None
        while time.monotonic() < deadline:
            now = time.monotonic()
            seen = len(self._journal.rows)
            if not self._cluster.is_idle:
                idle_since = None
            elif idle_since is None:
                idle_since = now
            elif now - idle_since > _SETTLED_AFTER_S:
                return
            time.sleep(_POLL_S)
            if len(self._journal.rows) != seen:
                idle_since = None

    def controller_context(self) -> ControllerContext | None:
        """The active controller's context, which its thread may change meanwhile."""
        return context_of_real_cluster(self._cluster)

    def hosted(self, broker_id: int) -> list[TopicPartition] | None:
        """The partitions that a broker has replicas of."""
        with self._cluster.broker_thread_paused():
            running = self._cluster.nodes.get(broker_id)
            if running is None:
                return None
            return sorted(running.node.broker.replica_manager.partitions)

    @property
    def errors(self) -> list[str]:
        """What actors raised."""
        return self._cluster.errors

    def disagreements(self) -> list[str]:
        """What the checks find."""
        return check_real_cluster(self._cluster) + self._clients.findings()
