"""The cluster that `klamm up` runs: data directory, ZooKeeper, journal, logs, brokers.

Opens these parts in this order and closes them in reverse order, even after a failure. Other
modules serve HTTP. Corresponds to kafka.server.KafkaServer.startup and shutdown, for a whole
cluster.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from prometheus_client.registry import Collector

from klamm.admin.kafka_admin import ListenerAdmin
from klamm.admin.topics import new_topic_id
from klamm.brokers.logs.errors import LogStorageError
from klamm.cluster.counting import joined, plural
from klamm.cluster.errors import (
    EnvironmentProblem,
    KlammError,
    RequestTimedOut,
    UsageError,
    WrongState,
)
from klamm.cluster.quirks import NAMES
from klamm.cluster.status import ZooKeeperState
from klamm.cluster.types import host_and_port
from klamm.cluster.version import klamm_version
from klamm.placement.draws import JavaRandom
from klamm.server.admin_channel import admin_of
from klamm.server.answers import AnswerCounts
from klamm.server.broker_operations import BrokerOperations, controller_of_all
from klamm.server.client_sessions import ClientSessions
from klamm.server.closing import OpenedParts
from klamm.server.config import ServerConfig
from klamm.server.data_dir import DataDir, ServerAddress
from klamm.server.dump_loading import Say, load_dump
from klamm.server.run_files import new_run_id, run_files, run_start
from klamm.server.states import Status
from klamm.server.zookeeper import connected_store
from klamm.server.zookeeper_guard import ZooKeeperGuard
from klamm.server.zookeeper_monitor import ZooKeeperMonitor
from klamm.world.clock import WallClock
from klamm.world.disks import local_disk
from klamm.world.real.cluster import RealCluster
from klamm.world.status import cluster_status
from klamm.zk.dump_load import check_no_load_is_open
from klamm.zk.ensemble import EmbeddedEnsemble
from klamm.zk.guard import RunInfo, check_may_run_in, create_marker
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.store import Exists, SessionState
from klamm.zk.znodes import BrokerIdZNode, ControllerEpochZNode, MalformedZNode

if TYPE_CHECKING:
    from klamm.world.real.listeners import Listener

ELECTION_TIMEOUT_S = 30.0
EXPIRY_MARGIN_S = 5.0
ZNODES_A_SECOND = 1_000
_BOOTSTRAP_SERVERS = 3


class ClusterServer(OpenedParts):
    """One running cluster, from ``open`` to ``close``.

    - ``say`` is called with a line of text for each startup step.
    - ``is_embedded`` means that klamm runs ZooKeeper itself.
    - ``collectors`` have the metrics of the server itself.
    - ``failure`` is the error that ended the cluster, if any. ``on_failure`` is called on the
      thread that sets ``failure``.
    - ``cluster``, ``operations``, ``admin`` and ``client_sessions`` exist after ``open``.
    """

    cluster: RealCluster
    operations: BrokerOperations
    admin: ListenerAdmin
    client_sessions: ClientSessions

    def __init__(
        self,
        config: ServerConfig,
        say: Say = lambda _: None,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self.config = config
        self._disk = local_disk()
        self.data_dir = DataDir(config.data_dir, self._disk)
        self.answer_counts = AnswerCounts()
        self.collectors: list[Collector] = [self.answer_counts]
        self.is_embedded = config.zookeeper is None
        self._zookeeper_servers: ZooKeeperGuard | None = None
        self.url: str | None = None
        self.failure: KlammError | None = None
        self._say = say
        self._on_failure = on_failure
        self._started_s = time.monotonic()

    # -- opening and closing

    def publish(self, url: str) -> None:
        """Write the API's URL to the data directory, where klamm's commands find it."""
        self.url = url
        self.data_dir.write_address(ServerAddress(url, os.getpid(), self.config.token))

    def _open(self) -> None:
        """Start the cluster; return when all brokers are registered and a controller is elected."""
        self.data_dir.open()
        self._stack.callback(self.data_dir.close)
        self._check_logs()
        listeners = self._listeners()
        connect_string = self._open_zookeeper()
        started_ms = WallClock().now_ms()
        run_id = new_run_id(started_ms)
        if self.config.dump is not None:
            run = RunInfo(run_id, started_ms, klamm_version())
            load_dump(self.config.dump, connect_string, self.config, run, self._say)
        cluster_id = self._claim(connect_string, run_id, started_ms)
        files = run_files(
            self.data_dir,
            run_start(run_id, cluster_id, started_ms, self._run_details()),
            self.config.state_change_level,
            self.config.rotation,
            is_fsynced=self.config.journal_fsync,
            disk=self._disk,
        )
        journal, logs = self._stack.enter_context(files)
        incarnation = self.data_dir.next_incarnation()
        spec = self.config.spec(run_id, cluster_id, self._segments(), incarnation)
        self.cluster = RealCluster(spec, connect_string, journal, logs, self.fail, self._disk)
        self._stack.callback(self.cluster.close)
        self._stack.callback(self.closing.set)
        dead = () if self.config.dump is None else self.config.dump.dead
        self.operations = BrokerOperations(self.cluster, self.closing, dead)
        self.admin = admin_of(self.cluster, self.closing)
        self.client_sessions = ClientSessions(
            self.cluster,
            self.closing,
            lambda topic: self.admin.describe_topics([topic])[0],
            has_values=self.config.has_records,
        )
        if listeners:
            from klamm.server.remote_brokers import network_opened

            name, remote = listeners[0].name, self.config.broker_security()
            network = network_opened(self.cluster, self.admin, listeners, name, remote)
            self.collectors.append(self._stack.enter_context(network).metrics)
        self._start_brokers()
        self._elect_controller()
        self._stack.callback(ZooKeeperMonitor(self.cluster, self.fail).close)

    def _listeners(self) -> list[Listener]:
        """Return the listener of the brokers, if they have one.

        Raises EnvironmentProblem if a port cannot be used.
        """
        config = self.config
        if config.listen is None:
            return []
        # kio takes 0.3 s to import, and imports hypothesis where that is installed.
        from klamm.world.real.listeners import Listener, check_ports

        name = config.listen_protocol
        listeners = [Listener(name, config.listen_place, config.listener_security())]
        check_ports(listeners, config.cluster.broker_ids)
        return listeners

    def _segments(self) -> Path | None:
        """Return the directory of segment files; None if the brokers have in-memory logs."""
        if self.config.cluster.segments is not None:
            return self.data_dir.brokers
        if self.config.has_records:
            return self._stack.enter_context(self.data_dir.temporary_segments())
        return None

    def _check_logs(self) -> None:
        """Raise UsageError if segment files exist but would be ignored without --segments."""
        if self.data_dir.has_broker_files and self.config.cluster.segments is None:
            raise UsageError(
                f"{self.data_dir.brokers} has segment files of brokers: without --segments "
                "they would be ignored, and all logs would begin at offset 0",
                hint="run klamm up with --segments, or choose another --data-dir",
            )

    def _open_zookeeper(self) -> str:
        if self.config.zookeeper is not None:
            return self.config.zookeeper
        config = self.config
        ensemble = EmbeddedEnsemble(
            self.data_dir.zookeeper, config.cluster.zookeeper_servers or 1, config.zookeeper_port
        )
        what = "ZooKeeper" if ensemble.size == 1 else f"{ensemble.size} ZooKeeper servers"
        self._say(f"Starting {what}")
        self._stack.callback(ensemble.close)
        ensemble.start()
        self._say(f"ZooKeeper started: {ensemble.connect_string}")
        self._zookeeper_servers = ZooKeeperGuard(ensemble, self.fail)
        self._stack.callback(self._zookeeper_servers.close)
        return ensemble.connect_string

    @property
    def zookeeper_servers(self) -> ZooKeeperGuard:
        """Guard of the embedded ZooKeeper servers.

        Raises WrongState if ZooKeeper is external.
        """
        if self._zookeeper_servers is None:
            raise WrongState(
                f"ZooKeeper at {self.config.zookeeper} is external: klamm cannot control its "
                "servers",
                hint="without --zookeeper, klamm up runs embedded servers",
            )
        return self._zookeeper_servers

    def fail(self, error: KlammError) -> None:
        """Set ``failure`` to ``error`` and call ``on_failure``, unless the shutdown has begun.

        Thread-safe.
        """
        if self.failure is None and not self.closing.is_set:
            self.failure = error
            self._on_failure()

    def _claim(self, connect_string: str, run_id: str, started_ms: int) -> str:
        """Mark the chroot as created by klamm, and return the cluster id.

        Raises KlammError if klamm may not run in this chroot.
        """
        if not self.is_embedded:
            self._say(f"Connecting to ZooKeeper: {connect_string}")
        with contextlib.closing(self.config.session(connect_string)) as session:
            client = KafkaZkClient(KazooStore(session))
            check_no_load_is_open(client.store)
            check_may_run_in(client)
            _check_epoch(client)
            if not self.is_embedded:
                self._say(f"ZooKeeper found: {connect_string}")
            self._await_expiry(client)
            session.create_chroot()
            create_marker(client, RunInfo(run_id, started_ms, klamm_version()))
            client.create_top_level_paths()
            return client.create_or_get_cluster_id(new_topic_id(JavaRandom(secrets.randbits(47))))

    def _await_expiry(self, client: KafkaZkClient) -> None:
        """Wait until the broker sessions of an earlier run that was killed have expired.

        Raises EnvironmentProblem if they have not expired after the session timeout.
        """
        ids = _brokers_with_sessions(client)
        if not ids:
            return
        self._say(
            f"Waiting for the sessions of an earlier run to expire: brokers {joined(ids, ', ')}"
        )
        patience_s = self.config.cluster.session_timeout_ms / 1000 + EXPIRY_MARGIN_S
        try:
            self.closing.wait_until(
                lambda: None if _brokers_with_sessions(client) else True,
                time.monotonic() + patience_s,
                "",
            )
        except RequestTimedOut:
            raise EnvironmentProblem(
                f"brokers {joined(_brokers_with_sessions(client), ', ')} are registered in this "
                "ZooKeeper by another process",
                hint="stop the other klamm process, or choose another chroot",
            ) from None

    def _start_brokers(self) -> None:
        """Start all brokers and wait until they are registered.

        Brokers become controller candidates only afterwards. Otherwise the first controller would
        treat brokers that are not yet registered as dead, and shrink ISRs to the brokers that
        registered early, possibly to a broker that has lost its logs.
        """
        broker_ids = self.config.started_broker_ids
        total = len(broker_ids)
        self._say(f"Starting {total} broker{plural(total)}")
        started = [self.cluster.begin_start(id_, holds_controller=True) for id_ in broker_ids]
        for count, (id_, future) in enumerate(zip(broker_ids, started, strict=True), 1):
            try:
                self.closing.result_of(future, None)
            except LogStorageError as error:
                error.message = f"broker {id_}: {error.message}"
                raise
            if total <= 10 or count % (total // 10) == 0 or count == total:
                self._say(f"Brokers registered: {count}/{total}")

    def _await_controller(self) -> None:
        dump = self.config.dump
        patience_s = ELECTION_TIMEOUT_S
        if dump is not None:
            patience_s += round(len(dump.plan.creates) / ZNODES_A_SECOND)
        elected = self.closing.wait_until(
            lambda: controller_of_all(self.cluster),
            time.monotonic() + patience_s,
            f"within {patience_s:g} s, no controller was elected that considers all brokers live",
        )
        self._say(f"Controller elected: broker {elected['id']}, epoch {elected['epoch']}")

    def _elect_controller(self) -> None:
        """Let the first candidate become controller, then add the other candidates.

        If a dump was loaded, the first candidate is the broker that is the controller in the dump.
        """
        first, *others = self.cluster.spec.candidates or self.config.started_broker_ids
        self.cluster.begin_candidacy(first)
        self._await_controller()
        for broker_id in others:
            self.cluster.begin_candidacy(broker_id)

    def _run_details(self) -> dict[str, Any]:
        cluster, dump = self.config.cluster, self.config.dump
        return {
            "brokers": len(cluster.broker_ids),
            "from_dump": None if dump is None else dump.source,
            "racks": list(dict.fromkeys(cluster.racks.values())),
            "controllers": len(cluster.candidates or cluster.broker_ids),
            "session_timeout_ms": cluster.session_timeout_ms,
            "config": cluster.config,
            "quirks": [name for name, field in NAMES.items() if getattr(cluster.quirks, field)],
            "seed": cluster.seed,
        }

    # -- status

    def status(self) -> Status:
        """Return the values that ``klamm status`` shows."""
        cluster, servers = self.cluster, self._zookeeper_servers
        # An expired session does not count: a server reported the expiry.
        is_stale = cluster.session_state is SessionState.DISCONNECTED
        zookeeper = ZooKeeperState(
            connect=cluster.connect_string,
            state=cluster.session_state.name,
            is_stale=is_stale,
            embedded=servers is not None,
            servers=[] if servers is None else servers.last_known(),
        )
        store = partial(connected_store, cluster)
        shown = cluster_status(cluster, zookeeper, self.operations.states(), store)
        return Status(
            **msgspec.structs.asdict(shown),
            klamm_version=klamm_version(),
            url=self.url,
            data_dir=str(self.data_dir.path),
            uptime_ms=round((time.monotonic() - self._started_s) * 1000),
            bootstrap_servers=self.bootstrap_servers(),
            security_protocol=None if self.config.listen is None else self.config.listen_protocol,
        )

    def bootstrap_servers(self) -> list[str]:
        """Return where Kafka's clients connect: HOST:PORT of the first brokers."""
        if self.config.listen is None:
            return []
        spec = self.cluster.spec
        first = (spec.broker_info(id_).end_points[0] for id_ in spec.broker_ids)
        return [host_and_port(one.host, one.port) for one in islice(first, _BOOTSTRAP_SERVERS)]


def _check_epoch(client: KafkaZkClient) -> None:
    try:
        client.get_controller_epoch()
    except MalformedZNode as error:
        raise KlammError(
            f"{error.at(ControllerEpochZNode.path).message}: no controller can be elected",
            hint="write the last controller epoch, a number, to this znode",
        ) from None


def _brokers_with_sessions(client: KafkaZkClient) -> list[int]:
    """Return the ids of the brokers that are registered with a ZooKeeper session.

    Persistent znodes below /brokers/ids are ignored, because brokers register ephemeral znodes.
    """
    ids = client.get_sorted_broker_list()
    results = client.read([Exists(BrokerIdZNode.path(broker_id)) for broker_id in ids])
    return [
        broker_id
        for broker_id, result in zip(ids, results, strict=True)
        if result.stat is not None and result.stat.ephemeral_owner
    ]
