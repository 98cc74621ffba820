"""ScenarioDriver for simulated brokers on a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from klamm.cluster.journal import JournalRow
from klamm.lab.checks.agreement import check_cluster
from klamm.lab.drivers.live_driver import LiveDriver
from klamm.world.journal.journal import MemoryJournal
from klamm.world.real.cluster import RealCluster
from klamm.zk.ensemble import EmbeddedEnsemble

_IDLE_AFTER_S: Final = 0.15


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
        super().__init__(cluster, has_files=cluster.spec.segments is not None)
        self.ensemble = ensemble
        self._journal = journal

    @property
    def rows(self) -> Sequence[JournalRow]:
        return self._journal.rows

    def quiesce(self) -> None:
        """Wait until the cluster has been idle for a short time."""
        self._run_until_still(
            lambda: len(self._journal.rows) if self.cluster.is_idle else None, _IDLE_AFTER_S
        )

    def disagreements_with_zookeeper(self) -> list[str]:
        return check_cluster(self.cluster, self.cluster.store)
