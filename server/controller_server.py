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
from typing import Any, Final, NamedTuple

from klamm.cluster.api_version import ApiVersion
from klamm.cluster.configs import BROKER_CONFIGS, check_broker_configs
from klamm.cluster.errors import (
    EnvironmentProblem,
    KlammError,
    RequestTimedOut,
    UsageError,
    WrongState,
)
from klamm.cluster.partition_limits import PartitionLimits
from klamm.cluster.types import EndPoint
from klamm.placement.pools import Pools
from klamm.server.admin_channel import admin_of
from klamm.server.closing import Closing, OpenedParts
from klamm.server.data_dir import DataDir
from klamm.server.kafka_cluster import (
    JoinedCluster,
    OwnReplicas,
    check_rack,
    join_cluster,
    own_replicas,
    secured,
)
from klamm.server.remote_brokers import network_opened
from klamm.server.run_files import new_run_id, run_files, run_start
from klamm.wire.broker_connection import check_log_in
from klamm.wire.broker_security import BrokerSecurity, broker_security, check_own_certificate
from klamm.wire.config import ListenerConfig, inter_broker_config, listener_config
from klamm.wire.listener_security import listener_security
from klamm.world.clock import WallClock
from klamm.world.cluster_spec import ClusterSpec, check_rack_name
from klamm.world.real.cluster import RealCluster
from klamm.world.real.listeners import Listener, check_ports
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.security import UNSECURED, ZooKeeperSecurity
from klamm.zk.znode_client import NodeExists
from klamm.zk.znodes.brokers import uses_sasl

SUCCESSOR_TIMEOUT_S: Final = 20.0
"""How long to wait for a broker to be elected after the controller has resigned."""
_CHECK_TIMEOUT_S: Final = 10.0
_NO_LIMITS: Final = PartitionLimits(2**31 - 1, 2**31 - 1)
_LOG_LEVEL: Final = "INFO"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerServerConfig:
    """Configuration of one ``klamm controller run``. The constructor raises UsageError.

    - ``listeners``: where the process listens; the name of the first is the brokers' inter-broker
      listener. The brokers' security protocols apply.
    - ``config``: the broker configs of the cluster that matter to its controller.
    - ``rack``: needed if the brokers have racks, because Kafka creates no topics while only some
      of the registered brokers have one.
    - ``takes_over``: replace the active controller at the start.
    """

    zookeeper: str
    listeners: tuple[EndPoint, ...]
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
        if self.rack is not None:
            check_rack_name(self.rack, "--rack")
        check_broker_configs(self.config)
        name = "inter.broker.protocol.version"
        if not self.protocol.is_spoken_to_brokers:
            raise UsageError(
                f"--config {name}={self.config[name]}: klamm drives brokers of protocol 2.0 to 2.8"
            )
        self._check_listeners()

    def _check_listeners(self) -> None:
        names = [one.listener_name for one in self.listeners]
        if len({*names}) < len(names) or len({one.port for one in self.listeners}) < len(names):
            raise UsageError("each --listener must have its own name and port")
        if self.control_listener_name not in names:
            name = self.control_listener_name
            raise UsageError(
                f"control.plane.listener.name={name}, but this controller has no such listener",
                hint=f"add --listener {name}://HOST:PORT",
            )

    @property
    def control_listener_name(self) -> str:
        """The listener for requests between the controller and the brokers, in both directions."""
        name: str | None = BROKER_CONFIGS["control.plane.listener.name"].value(self.config)
        return name or self.listeners[0].listener_name

    @property
    def protocol(self) -> ApiVersion:
        """The inter-broker protocol version of the cluster."""
        return ApiVersion(BROKER_CONFIGS["inter.broker.protocol.version"].value(self.config))

    def spec(self, run_id: str, cluster_id: str, listeners: tuple[EndPoint, ...]) -> ClusterSpec:
        """Return the specification of the cluster's part in this process: one broker.

        ``listeners`` have the brokers' security protocols.
        """
        return ClusterSpec(
            broker_ids=(self.broker_id,),
            racks={} if self.rack is None else {self.broker_id: self.rack},
            end_points={self.broker_id: listeners},
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


class ControllerServer(OpenedParts):
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
        super().__init__()
        self.config = config
        self._stop = stop
        self._on_failure = on_failure
        self._own_replicas: list[OwnReplicas] = []
        self._seen_brokers: object = None

    def known_controller(self) -> KnownController | None:
        """Return the active controller that this process knows of."""
        running = self.cluster.nodes.get(self.config.broker_id)
        if running is None:
            return None
        context = self.cluster.controller_context
        if context is not None:
            return KnownController(self.config.broker_id, context.epoch)
        cache = running.node.broker.metadata_cache
        if cache.controller_id in (None, self.config.broker_id):
            return None
        return KnownController(cache.controller_id, cache.controller_epoch)

    def own_replicas(self) -> list[OwnReplicas]:
        """Return the topics that have replicas on this broker, as far as this process knows."""
        running = self.cluster.nodes.get(self.config.broker_id)
        if running is None:
            return self._own_replicas
        cache = running.node.broker.metadata_cache
        if cache.alive_brokers is not self._seen_brokers:  # each UpdateMetadata has a new dict
            with self.cluster.broker_thread_paused():
                self._own_replicas = own_replicas(self.config.broker_id, cache)
                self._seen_brokers = cache.alive_brokers
        return self._own_replicas

    def _open(self) -> None:
        config = self.config
        data_dir = DataDir(config.data_dir)
        data_dir.open()
        self._stack.callback(data_dir.close)
        with contextlib.closing(config.session()) as session:
            joined = join_cluster(session, config.zookeeper, config.broker_id)
        check_rack(joined.brokers, config.rack)
        end_points = secured(config.listeners, joined.brokers)
        listeners, security = self._security(end_points, joined)
        check_ports(listeners, [config.broker_id])
        started_ms = WallClock().now_ms()
        run_id = new_run_id(started_ms)
        start = run_start(run_id, joined.cluster_id, started_ms, _run_details(config))
        journal, logs = self._stack.enter_context(run_files(data_dir, start, _LOG_LEVEL))
        spec = config.spec(run_id, joined.cluster_id, end_points)
        self.cluster = RealCluster(spec, config.zookeeper, journal, logs, self._on_failure)
        self._stack.callback(self.cluster.close)
        network = network_opened(
            self.cluster,
            admin_of(self.cluster, self.closing),
            listeners,
            config.control_listener_name,
            security,
        )
        self._stack.enter_context(network)
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

    def _security(
        self, end_points: tuple[EndPoint, ...], joined: JoinedCluster
    ) -> tuple[list[Listener], BrokerSecurity]:
        """Return the listeners, and the security of connections to the brokers.

        Raises KlammError if a file cannot be used, or a broker refuses the controller.
        """
        properties, name = self.config.config, self.config.control_listener_name
        _check_user_is_needed(properties, end_points)
        listeners = [_listener(one, listener_config(properties)) for one in end_points]
        control = next(one for one in end_points if one.listener_name == name)
        security = broker_security(control.security_protocol, inter_broker_config(properties))
        own = next(one for one in listeners if one.name == name)
        if own.security.tls is not None and security.tls is not None:
            check_own_certificate(own.security.tls, security.tls, control.host)
        check_log_in(joined.end_points(name), security, _CHECK_TIMEOUT_S)
        return listeners, security

    def _resign(self) -> None:
        with contextlib.suppress(WrongState):  # its start failed
            self.cluster.shut_down(self.config.broker_id, drain=False)


def await_successor(config: ControllerServerConfig) -> KnownController | None:
    """Wait until another broker is the controller; return None if there is none in time.

    Raises ZooKeeperUnavailable.
    """
    with contextlib.closing(config.session()) as session:
        client = KafkaZkClient(KazooStore(session))

        def successor() -> KnownController | None:
            broker_id, epoch = client.get_controller_id(), client.get_controller_epoch()
            if broker_id in (None, config.broker_id) or epoch is None:
                return None
            return KnownController(broker_id, epoch[0])

        with contextlib.suppress(RequestTimedOut):
            return Closing().wait_until(successor, time.monotonic() + SUCCESSOR_TIMEOUT_S, "")
    return None


def _check_user_is_needed(properties: Mapping[str, str], listeners: tuple[EndPoint, ...]) -> None:
    """Raise UsageError if the controller has a user, but no listener uses SASL."""
    name = "klamm.sasl.inter.broker.user.location"
    if name in properties and not any(uses_sasl(one.security_protocol) for one in listeners):
        texts = ", ".join(f"{one.listener_name} ({one.security_protocol})" for one in listeners)
        raise UsageError(
            f"--config {name}={properties[name]}: the controller would not log in, because no "
            f"--listener uses SASL: {texts}",
            hint="name a SASL listener of the brokers with --listener NAME://HOST:PORT",
        )


def _listener(end_point: EndPoint, config: ListenerConfig) -> Listener:
    security = listener_security(end_point.security_protocol, config)
    place = end_point.host, end_point.port
    return Listener(end_point.listener_name, lambda _: place, security)


def _run_details(config: ControllerServerConfig) -> dict[str, Any]:
    return {
        "controller": config.broker_id,
        "session_timeout_ms": config.session_timeout_ms,
        "config": config.config,
        "takes_over": config.takes_over,
    }
