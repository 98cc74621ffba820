"""`klamm controller run`: klamm's controller as a controller candidate of a real Kafka cluster.

The process is a broker of the cluster that hosts no replicas: it registers in ZooKeeper, takes part
in controller elections, and listens for brokers and clients. As the active controller it sends its
requests to the brokers over TCP. The controller itself is the same as in `klamm up`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from klamm.admin.guard import MARKER_PATH
from klamm.cluster.api_version import ApiVersion
from klamm.cluster.configs import BROKER_CONFIGS, check_broker_configs
from klamm.cluster.errors import (
    EnvironmentProblem,
    KlammError,
    NotKlamm,
    RequestTimedOut,
    UsageError,
    WrongState,
)
from klamm.cluster.journal import SCHEMA_VERSION, JournalRow, Kind
from klamm.cluster.partition_limits import PartitionLimits
from klamm.cluster.types import Broker, EndPoint
from klamm.cluster.version import klamm_version
from klamm.placement.pools import Pools
from klamm.runtime.archive import Archive, Rotation
from klamm.runtime.clock import WallClock
from klamm.runtime.cluster_spec import MAX_PORT, ClusterSpec
from klamm.runtime.journal import FileJournal
from klamm.runtime.kafka_logs import KafkaLogs
from klamm.runtime.real.cluster import RealCluster
from klamm.server.admin_channel import admin_of, new_client_address
from klamm.server.closing import Closing
from klamm.server.cluster_server import new_run_id
from klamm.server.data_dir import DataDir
from klamm.server.remote_brokers import remote_brokers_driven
from klamm.wire.broker_connections import PLAINTEXT
from klamm.wire.listeners import Listeners
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.security import UNSECURED, ZooKeeperSecurity
from klamm.zk.znode_client import NodeExists

SUCCESSOR_TIMEOUT_S: Final = 20.0
"""How long to wait for a broker to be elected after the controller has resigned."""
_NO_LIMITS: Final = PartitionLimits(2**31 - 1, 2**31 - 1)
_LOG_LEVEL: Final = "INFO"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerServerConfig:
    """Configuration of one ``klamm controller run``. The constructor raises UsageError.

    - ``listener``: where the process listens; its name is the brokers' inter-broker listener.
    - ``config``: the broker configs of the cluster that matter to its controller.
    - ``rack``: needed if the brokers have racks, because Kafka creates no topics while only some
      of the registered brokers have one.
    - ``takes_over``: replace the active controller at the start.
    """

    zookeeper: str
    listener: EndPoint
    broker_id: int
    data_dir: Path
    config: Mapping[str, str] = field(default_factory=dict)
    session_timeout_ms: int
    rack: str | None = None
    takes_over: bool = False
    zookeeper_security: ZooKeeperSecurity = UNSECURED

    def __post_init__(self) -> None:
        if self.broker_id < 0:
            raise UsageError(
                f"--id {self.broker_id} is not a valid broker id", hint="use e.g. 1000"
            )
        check_broker_configs(self.config)
        name = "inter.broker.protocol.version"
        if not self.protocol.is_spoken_to_brokers:
            raise UsageError(
                f"--config {name}={self.config[name]}: klamm drives brokers of protocol 2.0 to 2.8"
            )

    @property
    def protocol(self) -> ApiVersion:
        """The inter-broker protocol version of the cluster."""
        return ApiVersion(BROKER_CONFIGS["inter.broker.protocol.version"].value(self.config))

    def spec(self, run_id: str, cluster_id: str) -> ClusterSpec:
        """Return the specification of the cluster's part in this process: one broker."""
        return ClusterSpec(
            broker_ids=(self.broker_id,),
            racks={} if self.rack is None else {self.broker_id: self.rack},
            end_points={self.broker_id: (self.listener,)},
            session_timeout_ms=self.session_timeout_ms,
            # Whether Kafka's brokers create topics that clients ask for is not known here.
            config={"auto.create.topics.enable": "false", **self.config},
            run_id=run_id,
            cluster_id=cluster_id,
            seed=time.time_ns(),
            pools=Pools({}, (), without_replicas=frozenset([self.broker_id])),
            partition_limits=_NO_LIMITS,
            is_controller_only=True,
            takes_over=self.takes_over,
            zookeeper_security=self.zookeeper_security,
        )

    def session(self) -> KazooSession:
        """Open a ZooKeeper session."""
        return KazooSession(
            self.zookeeper, self.session_timeout_ms, security=self.zookeeper_security
        )


class KnownController(NamedTuple):
    """The active controller of the cluster: its broker id, and its epoch."""

    broker_id: int
    epoch: int


class ControllerServer:
    """The controller's process from ``open`` to ``close``.

    ``stop``: ends ``open`` when it is set. ``on_failure`` may be called on any thread, with the
    error that ends the process.
    """

    cluster: RealCluster

    def __init__(
        self,
        config: ControllerServerConfig,
        stop: threading.Event,
        on_failure: Callable[[KlammError], None],
    ) -> None:
        self.config = config
        self.closing = Closing()
        self._stop = stop
        self._on_failure = on_failure
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> ControllerServer:
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Resign, close the session, and release everything; idempotent."""
        self.closing.set()
        self._stack.close()

    def known_controller(self) -> KnownController | None:
        """Return the active controller that this process knows of."""
        running = self.cluster.nodes.get(self.config.broker_id)
        if running is None:
            return None
        epoch = running.active_epoch
        if epoch is not None:
            return KnownController(self.config.broker_id, epoch)
        cache = running.node.broker.metadata_cache
        if cache.controller_id in (None, self.config.broker_id):
            return None
        return KnownController(cache.controller_id, cache.controller_epoch)

    def _open(self) -> None:
        config = self.config
        data_dir = DataDir(config.data_dir)
        data_dir.open()
        self._stack.callback(data_dir.close)
        cluster_id = _join(config)
        clock = WallClock()
        started_ms = clock.now_ms()
        archive = Archive(Rotation())
        self._stack.callback(archive.close)
        journal = FileJournal(data_dir.journal, archive=archive)
        self._stack.callback(journal.close)
        run_id = new_run_id(started_ms)
        journal.append([_run_start(config, run_id, cluster_id, started_ms)])
        journal.flush()
        logs = KafkaLogs(data_dir.logs, clock, _LOG_LEVEL, archive=archive)
        self._stack.callback(logs.close)
        spec = config.spec(run_id, cluster_id)
        self.cluster = RealCluster(spec, config.zookeeper, journal, logs, self._on_failure)
        self._stack.callback(self.cluster.close)
        self._open_network()
        started = self.cluster.begin_start(config.broker_id)
        self._stack.callback(self._resign)
        while not started.done() and not self._stop.wait(0.02):
            pass
        if started.done():
            try:
                started.result()
            except NodeExists:
                raise EnvironmentProblem(
                    f"broker {config.broker_id} is registered by another process",
                    hint="choose another id with --id",
                ) from None

    def _open_network(self) -> None:
        config, cluster = self.config, self.cluster
        host, port = config.listener.host, config.listener.port
        admin = admin_of(cluster, self.closing)
        listeners = Listeners(cluster, lambda _: (host, port), new_client_address, admin)
        listeners.open()
        self._stack.callback(listeners.close)
        name = config.listener.listener_name
        self._stack.enter_context(remote_brokers_driven(cluster, listeners, name))

    def _resign(self) -> None:
        with contextlib.suppress(WrongState):  # its start failed
            self.cluster.shut_down(self.config.broker_id, drain=False)


def await_successor(config: ControllerServerConfig) -> KnownController | None:
    """Wait until another broker is the controller; return None if there is none in time.

    Raises ZooKeeperUnavailable.
    """
    session = config.session()
    try:
        client = KafkaZkClient(KazooStore(session))

        def successor() -> KnownController | None:
            broker_id, epoch = client.get_controller_id(), client.get_controller_epoch()
            if broker_id in (None, config.broker_id) or epoch is None:
                return None
            return KnownController(broker_id, epoch[0])

        return Closing().wait_until(successor, time.monotonic() + SUCCESSOR_TIMEOUT_S, "")
    except RequestTimedOut:
        return None
    finally:
        session.close()


def _join(config: ControllerServerConfig) -> str:
    """Return the id of the Kafka cluster.

    Raises NotKlamm if there is no cluster that klamm may join, and UsageError if the controller's
    rack or listener does not fit the brokers.
    """
    session = config.session()
    try:
        client = KafkaZkClient(KazooStore(session))
        cluster_id = client.get_cluster_id()
        is_marked = client.paths_exist([MARKER_PATH])[0]
        brokers = client.get_all_brokers_and_epochs_in_cluster().values
    finally:
        session.close()
    if cluster_id is None:
        raise NotKlamm(
            f"there is no Kafka cluster in ZooKeeper at {config.zookeeper}",
            hint="start its brokers first; give their zookeeper.connect, with its chroot",
        )
    if is_marked:
        raise NotKlamm(
            f"the cluster in ZooKeeper at {config.zookeeper} was created by klamm, and its brokers "
            "are simulated in another process",
            hint="klamm up runs its controllers itself",
        )
    for id_, found in brokers.items():
        if id_ != config.broker_id:
            _check_fits(config, found.broker)
    return cluster_id


def _check_fits(config: ControllerServerConfig, broker: Broker) -> None:
    """Raise UsageError if the controller's rack or listener does not fit a broker of Kafka."""
    if (broker.rack is None) != (config.rack is None):
        racks = ["no rack" if one is None else f"rack {one}" for one in (broker.rack, config.rack)]
        raise UsageError(
            f"broker {broker.id} has {racks[0]}, but this controller has {racks[1]}: Kafka would "
            "create no topics",
            hint="omit --rack" if broker.rack is None else "give one of the racks with --rack",
        )
    name = config.listener.listener_name
    protocols = {one.listener_name: one.security_protocol for one in broker.end_points}
    if protocols.get(name) != PLAINTEXT:
        known = ", ".join(f"{one} ({protocol})" for one, protocol in protocols.items())
        raise UsageError(
            f"broker {broker.id} has no PLAINTEXT listener {name}; its listeners: {known}",
            hint="name the brokers' inter.broker.listener.name with --listener NAME://HOST:PORT",
        )


def parse_listener(text: str) -> EndPoint:
    """Parse ``[NAME://]HOST:PORT``. Raises UsageError."""
    name, separator, place = text.rpartition("://")
    host, _, port = place.rpartition(":")
    if not host or not port.isdecimal() or int(port) not in range(1, MAX_PORT + 1):
        raise UsageError(
            f"--listener {text}: not [NAME://]HOST:PORT",
            hint="write e.g. --listener localhost:9099",
        )
    listener_name = name.upper() if separator else PLAINTEXT
    return EndPoint(host.strip("[]"), int(port), listener_name, PLAINTEXT)


def _run_start(
    config: ControllerServerConfig, run_id: str, cluster_id: str, started_ms: int
) -> JournalRow:
    detail = {
        "klamm_version": klamm_version(),
        "controller": config.broker_id,
        "session_timeout_ms": config.session_timeout_ms,
        "config": config.config,
        "takes_over": config.takes_over,
    }
    return JournalRow(
        SCHEMA_VERSION,
        run_id,
        started_ms,
        0,
        -1,
        0,
        Kind.RUN_START,
        cluster_id=cluster_id,
        detail=msgspec.json.encode(detail).decode(),
    )
