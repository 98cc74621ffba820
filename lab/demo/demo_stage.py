"""Starts and inspects the cluster of the demo, and waits for conditions on it.

The steps of the demo are in demo.py. Every wait has a deadline.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from klamm.admin.topics import new_topic_id
from klamm.cluster.errors import KlammError, SessionExpired
from klamm.cluster.journal import JOURNAL_FILE, JournalRow
from klamm.lab.checks.agreement import StoredCluster
from klamm.placement.draws import JavaRandom
from klamm.statemachines.context import ControllerContext
from klamm.world.clock import WallClock
from klamm.world.cluster_spec import ClusterSpec, rack_map
from klamm.world.journal.journal import FileJournal, read_journal
from klamm.world.journal.kafka_logs import KafkaLogs
from klamm.world.real.cluster import RealCluster
from klamm.world.views.brokers import alive_brokers
from klamm.zk.embedded import EmbeddedZooKeeper
from klamm.zk.guard import RunInfo, create_marker
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.waiting import wait_until

RACKS: Final = ("rack-a", "rack-b", "rack-c")
TIMEOUT_S: Final = 30.0
LOGS_FOLDER: Final = "logs"
ZOOKEEPER_FOLDER: Final = "zookeeper"
_RUN_ID: Final = "demo"
_SESSION_TIMEOUT_MS: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Options of the demo. ``data_dir`` must exist and be empty."""

    data_dir: Path
    klamm_version: str
    brokers: int = 6
    seed: int = 0


class Stage:
    """The demo's embedded ZooKeeper and cluster. ``stack`` closes both."""

    connect_string: str
    cluster: RealCluster
    journal: FileJournal

    def __init__(self, options: DemoOptions, stack: contextlib.ExitStack) -> None:
        self._options = options
        self._stack = stack
        self.random = JavaRandom(options.seed)

    def open_zookeeper(self) -> None:
        """Start an embedded ZooKeeper server. Raises ZooKeeperUnavailable or JavaNotFound."""
        server = EmbeddedZooKeeper(self._options.data_dir / ZOOKEEPER_FOLDER)
        self._stack.callback(server.close)
        server.start()
        self.connect_string = server.connect_string

    def open_cluster(self) -> None:
        """Start all brokers; wait until a controller is active and all brokers know each other."""
        options, stack, clock = self._options, self._stack, WallClock()
        self.journal = FileJournal(options.data_dir / JOURNAL_FILE)
        stack.callback(self.journal.close)
        logs = KafkaLogs(options.data_dir / LOGS_FOLDER, clock, "TRACE")
        stack.callback(logs.close)
        ids = tuple(range(options.brokers))
        spec = ClusterSpec(
            broker_ids=ids,
            racks=rack_map(ids, RACKS),
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            seed=options.seed,
            run_id=_RUN_ID,
            cluster_id=new_topic_id(self.random),
        )
        self.cluster = RealCluster(spec, self.connect_string, self.journal, logs)
        stack.callback(self.cluster.close)
        run = RunInfo(_RUN_ID, clock.now_ms(), options.klamm_version)
        create_marker(KafkaZkClient(self.cluster.store), run)
        self.start_brokers(ids)
        self.wait_until("all brokers to know each other", lambda _: self._all_know(len(ids)))

    def start_brokers(self, broker_ids: Sequence[int]) -> None:
        """Start brokers in parallel; return when all are registered."""
        for started in [self.cluster.begin_start(broker_id) for broker_id in broker_ids]:
            started.result(TIMEOUT_S)

    def wait_until(self, what: str, condition: Callable[[StoredCluster], bool]) -> StoredCluster:
        """Wait until a condition holds and the cluster is idle; return the contents of ZooKeeper.

        ``what`` describes the condition in error messages. Raises KlammError after a timeout."""

        def found() -> StoredCluster | None:
            # On a busy machine the session may expire; retry with the next one.
            with contextlib.suppress(SessionExpired):
                stored = StoredCluster.read(self.cluster.store)
                if condition(stored) and self.cluster.is_idle and self._has_controller(stored):
                    return stored
            return None

        if (stored := wait_until(found, TIMEOUT_S)) is None:
            raise KlammError(
                f"timed out after {TIMEOUT_S:g} s waiting for: {what}",
                hint=f"the logs of the controllers are in {self._options.data_dir / LOGS_FOLDER}",
            )
        return stored

    def _has_controller(self, stored: StoredCluster) -> bool:
        """Return True if the controller with the latest epoch has completed its failover."""
        context = self.cluster.controller_context
        return context is not None and context.epoch == stored.controller_epoch

    def controller(self) -> tuple[int, ControllerContext]:
        """Return the id and the context of the active controller. Raises KlammError without one."""
        cluster = self.cluster
        controller_id, context = cluster.active_controller, cluster.controller_context
        if controller_id is None or context is None:
            raise KlammError("no controller is active")
        return controller_id, context

    def _all_know(self, brokers: int) -> bool:
        return all(len(alive) == brokers for alive in alive_brokers(self.cluster))

    def rows(self) -> list[JournalRow]:
        """Return all journal rows so far."""
        self.journal.flush()
        return read_journal(self.journal.path)
