"""ScenarioDriver for simulated brokers on a real ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from klamm.cluster.errors import UsageError
from klamm.cluster.journal import JournalRow
from klamm.cluster.types import TopicPartition
from klamm.runtime.checks.admin_history import AdminHistory, RecordedStore
from klamm.runtime.checks.agreement import check_real_cluster, context_of_real_cluster
from klamm.runtime.client_actor import Client
from klamm.runtime.journal import MemoryJournal
from klamm.runtime.real.cluster import RealCluster
from klamm.runtime.scenarios.clients import OperatorClient, ScenarioClients
from klamm.runtime.scenarios.turns import Turns
from klamm.runtime.simulated.breakpoints import Breakpoint
from klamm.statemachines.context import ControllerContext
from klamm.zk.ensemble import SINGLE_SERVER, WHOLE_ENSEMBLE, EmbeddedEnsemble
from klamm.zk.kazoo_pipeline import within
from klamm.zk.store import Store

_POLL_S: Final = 0.005
_IDLE_AFTER_S: Final = 0.15
_QUIESCE_TIMEOUT_MS: Final = 20_000.0
_ZOOKEEPER_TIMEOUT_S: Final = 30.0
_CLIENT_TIMEOUT_S: Final = 30.0
_NO_STEPS: Final = "advance requires the simulated world"

T = TypeVar("T")


class RealDriver:
    """ScenarioDriver for a RealCluster whose journal is kept in memory.

    ``ensemble``: the scenario's private ZooKeeper servers, or None. Steps that kill or pause
    ZooKeeper servers need it."""

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
        self.turns = Turns(self._run_until, lambda: self.elapsed_ms)
        self.admin_history = AdminHistory(lambda: self.elapsed_ms)
        self.operator = OperatorClient(self)
        self.clients = ScenarioClients(
            self,
            cluster.spec.broker_ids,
            cluster.log_journal,
            has_files=cluster.spec.segments is not None,
        )

    @property
    def store(self) -> Store:
        """The cluster's session. Calls raise ZooKeeperUnavailable if ZooKeeper does not respond."""
        store = self.cluster.own_session.store(within(_ZOOKEEPER_TIMEOUT_S))
        return RecordedStore(store, self.admin_history)

    @property
    def rows(self) -> Sequence[JournalRow]:
        """All journal rows of the cluster so far."""
        return self._journal.rows

    @property
    def zookeeper_changes(self) -> int:
        """The current time instead of a number of changes, so that callers cache nothing."""
        return time.monotonic_ns()

    @property
    def elapsed_ms(self) -> float:
        """Real time since the driver was created, in milliseconds."""
        return (time.monotonic() - self._began_s) * 1000

    def kill_all(self) -> list[int]:
        """Stop the cluster like a killed process: sessions expire and in-memory logs are lost.

        It is replaced by a new cluster in which no broker is running yet."""
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

    @property
    def steps_run(self) -> int:
        """Raise UsageError: threads have no steps that could be counted."""
        raise UsageError(_NO_STEPS, hint="run the drill without --real")

    def advance(self, count: int) -> None:
        """Raise UsageError: threads have no steps that could be counted."""
        raise UsageError(_NO_STEPS, hint="run the drill without --real")

    def break_session(self, broker_id: int, how: str) -> None:
        """Raise UsageError: klamm cannot break a real connection at a given write."""
        raise UsageError(f"{how} requires the simulated world", hint="run the drill without --real")

    def break_at(self, point: Breakpoint) -> Callable[[], bool]:
        """Raise UsageError: klamm cannot stop a real controller at a given operation."""
        raise UsageError(
            "before and after require the simulated world", hint="run the drill without --real"
        )

    def watch(self, names: Sequence[str]) -> None:
        """Do nothing, because the events of a real cluster cannot be observed one by one."""

    def act_on_zookeeper(self, action: str, server: str) -> None:
        """Act on one or all of the scenario's private ZooKeeper servers."""
        ensemble = self._ensemble
        if ensemble is None:
            raise UsageError(f"{action}: the scenario has no private ZooKeeper servers")
        if action in WHOLE_ENSEMBLE:
            WHOLE_ENSEMBLE[action](ensemble)
        else:
            SINGLE_SERVER[action](ensemble, ensemble.find(server))

    def produce_constantly(self, records_per_s: Mapping[TopicPartition, float]) -> None:
        """Raise UsageError: constant-rate workloads need the simulated clock."""
        raise UsageError(
            "constant-rate workloads require the simulated world",
            hint="run the drill without --real",
        )

    def acknowledged(self, partition: TopicPartition) -> int:
        """Return how many of the records sent to a partition were acknowledged."""
        return self.clients.acknowledged(partition)

    def add_client(self, client: Client) -> None:
        """Add a producer or consumer."""
        self.cluster.clients.add(client)

    def call_client(self, function: Callable[[float], T]) -> T:
        """Run ``function`` on the brokers' thread, between two events."""
        return self.cluster.clients.call(function).result(_CLIENT_TIMEOUT_S)

    def run_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Poll until ``condition`` holds; return False after the timeout."""
        return self.turns.run_until(condition, timeout_ms)

    def _run_until(self, condition: Callable[[], bool], deadline_ms: float) -> bool:
        while not condition():
            if self.elapsed_ms > deadline_ms:
                return False
            time.sleep(_POLL_S)
        return True

    def run_for(self, duration_ms: float) -> None:
        """Let the cluster run for this many milliseconds."""
        self.run_until(lambda: False, duration_ms)

    def quiesce(self) -> None:
        """Wait until the cluster has been idle for a short time."""
        idle_since_s: float | None = None
        rows_seen = -1

        def is_settled() -> bool:
            nonlocal idle_since_s, rows_seen
            now_s, rows = time.monotonic(), len(self._journal.rows)
            if rows != rows_seen or not self.cluster.is_idle:
                rows_seen, idle_since_s = rows, None
            elif idle_since_s is None:
                idle_since_s = now_s
            return idle_since_s is not None and now_s - idle_since_s > _IDLE_AFTER_S

        self.run_until(is_settled, _QUIESCE_TIMEOUT_MS)

    def controller_context(self) -> ControllerContext | None:
        """Return the active controller's context, or None. Its thread may change it at any time."""
        return context_of_real_cluster(self.cluster)

    def disagreements_with_zookeeper(self) -> list[str]:
        """Return the differences between ZooKeeper, the brokers and the controller."""
        return check_real_cluster(self.cluster)

    def disagreements(self) -> list[str]:
        """Return the findings of all checks, one line each."""
        return self.disagreements_with_zookeeper() + self.clients.findings()
