"""ScenarioDriver for simulated brokers on a real ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from klamm.cluster.errors import UsageError
from klamm.cluster.journal import JournalRow
from klamm.cluster.types import TopicPartition
from klamm.runtime.checks.agreement import check_real_cluster, context_of_real_cluster
from klamm.runtime.client_actor import Client
from klamm.runtime.journal import MemoryJournal
from klamm.runtime.real.cluster import RealCluster
from klamm.runtime.scenarios.clients import OperatorClient, ScenarioClients
from klamm.runtime.transport import NO_FAULTS, NetworkFaults
from klamm.statemachines.context import ControllerContext
from klamm.zk.ensemble import SINGLE_SERVER, WHOLE_ENSEMBLE, EmbeddedEnsemble
from klamm.zk.kazoo_pipeline import within
from klamm.zk.store import Store

_POLL_S: Final = 0.005
_IDLE_AFTER_S: Final = 0.15
_QUIESCE_TIMEOUT_S: Final = 20.0
_ZOOKEEPER_TIMEOUT_S: Final = 30.0
_CLIENT_TIMEOUT_S: Final = 30.0

T = TypeVar("T")


class RealDriver:
    """Drives a RealCluster with a journal in memory.

    ``ensemble``: private ZooKeeper servers of the scenario, for steps that kill servers."""

    def __init__(
        self,
        cluster: RealCluster,
        journal: MemoryJournal,
        ensemble: EmbeddedEnsemble | None = None,
    ) -> None:
        self.cluster = cluster
        self._ensemble = ensemble
        self._journal = journal
        self._began_s = time.monotonic()
        self._incarnation = 0
        self.operator = OperatorClient(self)
        self.clients = ScenarioClients(
            self,
            cluster.spec.broker_ids,
            cluster.log_journal,
            has_files=cluster.spec.segments is not None,
        )

    @property
    def store(self) -> Store:
        """The cluster's session; calls raise ZooKeeperUnavailable without a response."""
        return self.cluster.own_session.store(within(_ZOOKEEPER_TIMEOUT_S))

    @property
    def rows(self) -> Sequence[JournalRow]:
        """The cluster's journal so far."""
        return self._journal.rows

    @property
    def elapsed_ms(self) -> float:
        """Real time since the driver was created."""
        return (time.monotonic() - self._began_s) * 1000

    def kill_all(self) -> list[int]:
        """Stop the cluster like a killed process: sessions expire, in-memory logs are lost.

        It is replaced by a new cluster in which no broker runs yet."""
        old, killed = self.cluster, list(self.cluster.nodes)
        for broker_id in killed:
            old.kill(broker_id)
        old.close()
        self._incarnation += 1
        spec = replace(old.spec, seed=hash((old.spec.seed, self._incarnation)))
        self.cluster = RealCluster(spec, old.connect_string, self._journal)
        self.clients.reconnect(old.spec.broker_ids)
        return killed

    def close(self) -> None:
        """Close the current cluster; idempotent."""
        self.cluster.close()

    def degrade_network(self, faults: NetworkFaults) -> None:
        """Refuse faults: the network inside one process is reliable."""
        if faults != NO_FAULTS:
            raise UsageError(
                "message loss, repetition and reordering exist only in the simulated world",
                hint="run the drill without --real",
            )

    def act_on_zookeeper(self, action: str, server: str) -> None:
        """Act on the scenario's private servers."""
        ensemble = self._ensemble
        if ensemble is None:
            raise UsageError(f"{action}: the scenario has no private ZooKeeper servers")
        if action in WHOLE_ENSEMBLE:
            WHOLE_ENSEMBLE[action](ensemble)
        else:
            SINGLE_SERVER[action](ensemble, ensemble.find(server))

    def produce_constantly(self, records_per_s: Mapping[TopicPartition, float]) -> None:
        """Refuse: constant rates are computed on the simulated clock."""
        raise UsageError(
            "constant-rate workloads exist only in the simulated world",
            hint="run the drill without --real",
        )

    def acknowledged(self, partition: TopicPartition) -> int:
        """Return the number of records that the whole ISR has."""
        return self.clients.acknowledged(partition)

    def add_client(self, client: Client) -> None:
        """Add a producer or consumer."""
        self.cluster.clients.add(client)

    def call_client(self, function: Callable[[float], T]) -> T:
        """Run ``function`` on the thread of brokers and clients."""
        return self.cluster.clients.call(function).result(_CLIENT_TIMEOUT_S)

    def run_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Poll until ``condition`` holds; return False after the timeout."""
        deadline = time.monotonic() + timeout_ms / 1000
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def run_for(self, duration_ms: float) -> None:
        """Sleep for this long."""
        time.sleep(duration_ms / 1000)

    def quiesce(self) -> None:
        """Wait until the cluster has been idle for a while."""
        deadline = time.monotonic() + _QUIESCE_TIMEOUT_S
        idle_since: float | None = None
        while time.monotonic() < deadline:
            now = time.monotonic()
            seen = len(self._journal.rows)
            if not self.cluster.is_idle:
                idle_since = None
            elif idle_since is None:
                idle_since = now
            elif now - idle_since > _IDLE_AFTER_S:
                return
            time.sleep(_POLL_S)
            if len(self._journal.rows) != seen:
                idle_since = None

    def controller_context(self) -> ControllerContext | None:
        """The active controller's context, which its thread may change meanwhile."""
        return context_of_real_cluster(self.cluster)

    def disagreements(self) -> list[str]:
        """Return the findings of all checks."""
        return check_real_cluster(self.cluster) + self.clients.findings()
