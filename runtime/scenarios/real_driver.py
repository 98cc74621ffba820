"""ScenarioDriver for simulated brokers on a real ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from klamm.cluster.journal import JournalRow
from klamm.runtime.checks.agreement import check_real_cluster, context_of_real_cluster
from klamm.runtime.journal import MemoryJournal
from klamm.runtime.real.cluster import RealCluster
from klamm.runtime.scenarios.clients import OperatorClient, ScenarioClients
from klamm.runtime.scenarios.live_driver import LiveDriver
from klamm.statemachines.context import ControllerContext
from klamm.zk.ensemble import EmbeddedEnsemble

_IDLE_AFTER_S: Final = 0.15
_QUIESCE_TIMEOUT_MS: Final = 20_000.0


class RealDriver(LiveDriver[RealCluster]):
    """ScenarioDriver for a RealCluster whose journal is kept in memory.

    ``ensemble``: the scenario's private ZooKeeper servers, or None. Steps that kill or pause
    ZooKeeper servers need it."""

    def __init__(
        self,
        cluster: RealCluster,
        journal: MemoryJournal,
        ensemble: EmbeddedEnsemble | None = None,
    ) -> None:
        super().__init__(cluster)
        self.ensemble = ensemble
        self._journal = journal
        self._incarnation = 0
        self.operator = OperatorClient(self)
        self.clients = ScenarioClients(
            self,
            cluster.spec.broker_ids,
            cluster.log_journal,
            has_files=cluster.spec.segments is not None,
        )

    @property
    def rows(self) -> Sequence[JournalRow]:
        """All journal rows of the cluster so far."""
        return self._journal.rows

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
