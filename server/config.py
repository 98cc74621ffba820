"""Configuration of `klamm up`, validated before anything is started.

Contains values only and is independent of the command line.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from klamm.cluster.configs import BROKER_CONFIGS, check_broker_configs
from klamm.cluster.counting import parse_whole_number
from klamm.cluster.errors import UsageError
from klamm.cluster.types import EndPoint
from klamm.placement.broker_metadata import MAX_BROKERS
from klamm.placement.pool_rules import check_brokers_exist
from klamm.server.data_dir import DEFAULT_HOST, DEFAULT_PORT
from klamm.server.dumped_cluster import DumpedCluster
from klamm.wire.broker_security import UNSECURED, BrokerSecurity, broker_security
from klamm.wire.config import inter_broker_config, listener_config
from klamm.wire.listener_security import ListenerSecurity, listener_security
from klamm.world.cluster_spec import (
    DEFAULT_END_POINT,
    MAX_PORT,
    SESSION_TIMEOUTS_MS,
    ClusterSpec,
    check_rack_name,
    rack_map,
)
from klamm.world.journal.archive import DEFAULT_ROTATION, Rotation
from klamm.world.log_stores import check_log_dirs
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.security import ZooKeeperSecurity, ZooKeeperTls
from klamm.zk.znodes.brokers import SECURITY_PROTOCOLS, uses_sasl, uses_tls

DEFAULT_CANDIDATES: Final = 5
STATE_CHANGE_LEVELS: Final = ("TRACE", "INFO")
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Configuration of one ``klamm up``: the cluster, and where and how it is served.

    The constructor raises UsageError for invalid or contradictory values.

    - ``cluster``: its ``seed`` is that of the first run. With ``segments``, the data directory
      keeps the brokers' segment files. ``spec`` adds what follows from the other options.
    - ``dump``: what is loaded into ZooKeeper before the cluster starts.
    - ``zookeeper``: connect string. None: embedded ZooKeeper servers are started.
    - ``zookeeper_port``: client port of the first embedded server; the others use the following
      ports. None: free ports.
    - ``zookeeper_digest``: USER:PASSWORD.
    - ``data_dir``: None for a temporary directory.
    - ``port``: port of the HTTP API; 0 selects a free port.
    - ``listen``: where broker 0 listens for Kafka's clients, ``[PROTOCOL://][HOST:]PORT``; broker N
      listens on PORT + N. Unless the data directory keeps the segment files, they are deleted when
      the cluster ends. None: the brokers have no ports.
    - ``advertised_listener``: where clients find broker 0, ``HOST[:PORT]``, if that is not
      ``listen``; broker N is found on PORT + N.
    - ``journal_fsync``: the journal is synced to disk after each event.
    - ``rotation``: limits the size and age of the journal and of the controllers' log files.
    """

    cluster: ClusterSpec
    dump: DumpedCluster | None = None
    zookeeper: str | None = None
    data_dir: Path | None = None
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    state_change_level: str = "TRACE"
    listen: str | None = None
    advertised_listener: str | None = None
    zookeeper_digest: str | None = field(default=None, repr=False)
    zookeeper_tls: ZooKeeperTls | None = None
    zookeeper_port: int | None = None
    journal_fsync: bool = False
    rotation: Rotation = DEFAULT_ROTATION

    def __post_init__(self) -> None:
        cluster = self.cluster
        if cluster.session_timeout_ms not in SESSION_TIMEOUTS_MS:
            raise UsageError(
                f"--session-timeout-ms {cluster.session_timeout_ms}: out of range",
                hint="use 1000 to 60000 ms",
            )
        check_brokers_exist(cluster.pools, cluster.broker_ids)
        check_broker_configs(cluster.config)
        log_dirs = cluster.broker_config.log_dirs
        if self.has_records:
            check_log_dirs(log_dirs)
        if self.port not in range(MAX_PORT + 1):
            raise UsageError(
                f"--port {self.port} is not a valid port",
                hint="use 1 to 65535, or 0 for a free port",
            )
        if self.state_change_level not in STATE_CHANGE_LEVELS:
            raise UsageError(
                f"--state-change-level {self.state_change_level}: unknown level",
                hint="use TRACE or INFO",
            )
        self._check_exposure()
        self._check_listen()
        if self.zookeeper_tls is not None and self.zookeeper is None:
            raise UsageError(
                "the embedded ZooKeeper does not support TLS; it listens only on loopback",
                hint="give a ZooKeeper that supports TLS with --zookeeper, or omit --zk-tls-ca",
            )
        self._check_embedded_zookeeper()
        _ = self.zookeeper_security

    def _check_embedded_zookeeper(self) -> None:
        servers = self.cluster.zookeeper_servers
        for option, value, meaning in (
            ("--zookeeper-servers", servers or None, "the number of embedded servers"),
            ("--zookeeper-port", self.zookeeper_port, "a port of the embedded server"),
        ):
            if value is not None and self.zookeeper is not None:
                raise UsageError(
                    f"give either --zookeeper or {option}, but not both",
                    hint=f"{option} is {meaning}",
                )
        first, count = self.zookeeper_port, servers or 1
        if first is not None and not 1 <= first <= MAX_PORT + 1 - count:
            raise UsageError(
                f"--zookeeper-port {first} is not a valid port",
                hint=f"use 1 to {MAX_PORT + 1 - count}",
            )

    def _check_exposure(self) -> None:
        if is_loopback(self.host):
            return
        if not self.token:
            raise UsageError(
                f"--host {self.host} is reachable from other machines, so a token is required",
                hint="give --token-file FILE or --token, or set KLAMM_TOKEN",
            )
        if _is_any(self.host) and not self.allowed_hosts:
            raise UsageError(
                f"--host {self.host} requires --allowed-host",
                hint="--allowed-host NAME is a host name that clients use in their requests",
            )

    def _check_listen(self) -> None:
        self._check_security_configs()
        if self.listen is None:
            if self.advertised_listener is not None:
                raise UsageError(
                    "--advertised-listener requires --listen",
                    hint="add --listen PORT, or omit --advertised-listener",
                )
            return
        if self.listen_protocol not in SECURITY_PROTOCOLS:
            raise UsageError(
                f"--listen {self.listen}: unknown security protocol {self.listen_protocol}",
                hint=f"use one of {', '.join(SECURITY_PROTOCOLS)}",
            )
        self._check_first_port("--listen", self.listen, self.listen_place(0))
        _ = self.listener_security(), self.broker_security()
        advertised = self._advertised_place()
        self._check_first_port("--advertised-listener", self.advertised_listener, advertised)
        if _is_any(advertised[0]):
            raise UsageError(
                f"--listen {self.listen}: clients cannot connect to {advertised[0]}",
                hint="give the host name that the clients use with --advertised-listener HOST",
            )

    def _check_security_configs(self) -> None:
        """Raise UsageError for a security config that the listeners would ignore."""
        protocol = self.listen_protocol
        for name in self.cluster.config:
            word = name.removeprefix("klamm.").partition(".")[0]
            if word == "ssl" and not uses_tls(protocol):
                wanted = "SASL_SSL" if uses_sasl(protocol) else "SSL"
            elif word == "sasl" and not uses_sasl(protocol):
                wanted = "SASL_SSL" if uses_tls(protocol) else "SASL_PLAINTEXT"
            else:
                continue
            raise UsageError(
                f"--config {name} would have no effect: no broker listens with {wanted}",
                hint=f"write --listen {wanted}://PORT, or omit it",
            )

    def _check_first_port(self, option: str, value: str | None, place: tuple[str, int]) -> None:
        host, port = place
        if ":" in host and _address(host) is None:
            raise UsageError(
                f"{option} {value}: {host} is not a valid host",
                hint="write HOST:PORT, or [ADDRESS]:PORT for an IPv6 address",
            )
        if host.upper() in SECURITY_PROTOCOLS:
            raise UsageError(
                f"{option} {value}: {host} is not a valid host", hint=f"write {host}://{port}"
            )
        last_id = max(self.cluster.broker_ids)
        last = MAX_PORT - last_id
        if port not in range(1, last + 1):
            problem = f"the port of broker {last_id} would be {port + last_id}"
            raise UsageError(
                f"{option} {value}: {problem if last < port <= MAX_PORT else 'not a valid port'}",
                hint=f"{'use' if port > 0 else 'end it with :PORT,'} a port from 1 to {last}",
            )

    @property
    def has_records(self) -> bool:
        """True if brokers store the contents of records, which Kafka's clients send and read."""
        return self.cluster.segments is not None or self.listen is not None

    @property
    def listen_protocol(self) -> str:
        """The security protocol of the listeners, which is also their name."""
        protocol, separator, _ = (self.listen or "").partition("://")
        return protocol.upper() if separator else DEFAULT_END_POINT.security_protocol

    def listener_security(self) -> ListenerSecurity:
        """Return the security settings of the listeners.

        Raises UsageError if a setting or file is missing or cannot be used.
        """
        return listener_security(self.listen_protocol, listener_config(self.cluster.config))

    def broker_security(self) -> BrokerSecurity:
        """Return the security of connections to brokers of other processes.

        With SASL, there are none without a user. Raises UsageError as ``listener_security`` does.
        """
        config = inter_broker_config(self.cluster.config)
        is_sasl = uses_sasl(self.listen_protocol)
        if is_sasl and config.klamm_sasl_inter_broker_user_location is None:
            return UNSECURED
        return broker_security(self.listen_protocol, config)

    def listen_place(self, broker_id: int) -> tuple[str, int]:
        """Return where a broker listens; the port of broker 0 is 0 if it is not a number."""
        host, _, port = (self.listen or "").rpartition("://")[2].rpartition(":")
        return host.strip("[]") or DEFAULT_HOST, _port(port) + broker_id

    def _advertised_place(self) -> tuple[str, int]:
        """Return where clients find broker 0; the port is 0 if it is not a number."""
        place = self.listen_place(0)
        if self.advertised_listener is None:
            return place
        if self.advertised_listener.endswith("]") or ":" not in self.advertised_listener:
            return self.advertised_listener.strip("[]"), place[1]
        host, _, port = self.advertised_listener.rpartition(":")
        return host.strip("[]"), _port(port)

    @property
    def zookeeper_security(self) -> ZooKeeperSecurity:
        """How klamm authenticates to ZooKeeper. Raises UsageError if the settings conflict."""
        return ZooKeeperSecurity(
            digest=self.zookeeper_digest,
            tls=self.zookeeper_tls,
            sets_acls=BROKER_CONFIGS["zookeeper.set.acl"].value(self.cluster.config),
        )

    def session(self, connect_string: str) -> KazooSession:
        """Open a ZooKeeper session with the cluster's timeouts and credentials."""
        return KazooSession(
            connect_string,
            self.cluster.session_timeout_ms,
            self.connection_timeout_ms,
            self.zookeeper_security,
        )

    @property
    def started_broker_ids(self) -> tuple[int, ...]:
        """The ids of the brokers to start; brokers that are dead in a dump are not started."""
        return self.cluster.broker_ids if self.dump is None else self.dump.running

    def spec(
        self,
        run_id: str,
        cluster_id: str | None,
        segments: Path | None = None,
        incarnation: int = 0,
    ) -> ClusterSpec:
        """Return the specification of the cluster for one run.

        ``segments`` is the directory of the brokers' segment files, or None for in-memory logs.
        ``incarnation`` is the number of earlier runs of this cluster; the seed depends on it.
        """
        cluster, first = self.cluster, self.cluster.first_end_point
        if self.listen is not None:
            first = EndPoint(*self._advertised_place(), self.listen_protocol, self.listen_protocol)
        return replace(
            cluster,
            end_points=cluster.end_points if self.listen is None else {},
            first_end_point=first,
            segments=segments,
            run_id=run_id,
            cluster_id=cluster_id,
            seed=cluster.seed if incarnation == 0 else hash((cluster.seed, incarnation)),
            zookeeper_security=self.zookeeper_security,
        )

    @property
    def connection_timeout_ms(self) -> int:
        """Timeout of the first connection to ZooKeeper, by default the session timeout."""
        timeout_ms = BROKER_CONFIGS["zookeeper.connection.timeout.ms"].value(self.cluster.config)
        return self.cluster.session_timeout_ms if timeout_ms is None else timeout_ms

    def host_names(self) -> frozenset[str]:
        """Return the host names that a Host header may contain, in lower case, without ports."""
        own = () if _is_any(self.host) else (self.host,)
        names = (*_LOOPBACK_NAMES, *own, *self.allowed_hosts)
        return frozenset(name.strip("[]").lower() for name in names)


def described_cluster(
    brokers: int | None,
    racks: Sequence[str] = (),
    controllers: int | None = None,
    dump: DumpedCluster | None = None,
) -> ClusterSpec:
    """Return the cluster that options of ``klamm up`` describe.

    ``brokers``: number of brokers, whose ids begin at 0. None: the cluster in ``dump``.
    ``controllers``: number of candidates, which are the brokers with the lowest ids; for a dump,
    the first one is the controller in the dump. None: five, or all brokers if there are fewer.
    Raises UsageError.
    """
    if dump is None and brokers is None:
        raise UsageError("Missing option '--brokers'", hint="or use --from-dump DUMP")
    if dump is not None and (brokers is not None or racks):
        raise UsageError(
            f"give either --from-dump or {'--racks' if brokers is None else '--brokers'}"
            ", but not both",
            hint="brokers and racks come from the dump",
        )
    count = len(dump.cluster.broker_ids) if dump is not None else brokers or 0
    if count not in range(1, MAX_BROKERS + 1):
        raise UsageError(
            f"a cluster cannot have {count} brokers",
            hint=f"klamm supports 1 to {MAX_BROKERS} brokers",
        )
    for rack in racks:
        check_rack_name(rack, "--racks: a rack name")
    if dump is not None:
        cluster = dump.cluster
    else:
        ids = tuple(range(count))
        cluster = ClusterSpec(broker_ids=ids, racks=rack_map(ids, racks, "--racks"))
    candidates = cluster.candidates or cluster.broker_ids
    if controllers is not None and controllers not in range(1, len(candidates) + 1):
        raise UsageError(
            f"--controllers {controllers}: out of range for {len(candidates)} brokers",
            hint=f"use 1 to {len(candidates)}",
        )
    return replace(cluster, candidates=candidates[: controllers or DEFAULT_CANDIDATES])


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach a server that listens on ``host``."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _port(text: str) -> int:
    return parse_whole_number(text) or 0


def _is_any(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_unspecified


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
