"""Configuration of `klamm up`, validated before anything is started.

Values only; independent of the command line. ``config`` has the names of Kafka's
server.properties (kafka.server.KafkaConfig) that klamm supports.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from klamm.brokers.config import broker_config
from klamm.cluster.configs import BROKER_CONFIGS, check_broker_configs
from klamm.cluster.errors import UsageError
from klamm.cluster.partition_limits import DEFAULT_LIMITS, PartitionLimits
from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.placement.pool_rules import check_brokers_exist
from klamm.placement.pools import Pools
from klamm.runtime.archive import DEFAULT_ROTATION, Rotation
from klamm.runtime.cluster_spec import FIRST_PORT, MAX_PORT, ClusterSpec, rack_map
from klamm.runtime.log_stores import check_log_dirs_are_relative
from klamm.server.dumped_cluster import DumpedCluster
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.security import ZooKeeperSecurity, ZooKeeperTls

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8282
DEFAULT_CANDIDATES: Final = 5
DEFAULT_SESSION_TIMEOUT_MS: Final = 6_000
STATE_CHANGE_LEVELS: Final = ("TRACE", "INFO")
MAX_BROKERS: Final = 10_000
_SESSION_TIMEOUTS_MS: Final = range(1_000, 60_001)
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Configuration of one ``klamm up``. Raises UsageError for invalid or contradictory values.

    ``brokers``: the broker ids are 0 to ``brokers`` - 1, or those of ``dump``. ``data_dir`` None:
    a temporary directory. ``zookeeper`` None: an embedded ZooKeeper. ``port`` 0: a free port.
    ``controllers``: number of controller candidates; None: all brokers, at most five. ``seed``
    None: random. ``pools``: restrict the placement of topics. ``has_segments``: brokers keep
    segment files in the data directory. ``journal_fsync``: fsync the journal after each event.
    ``rotation``: of the journal and Kafka-like logs. ``zookeeper_digest``: USER:PASSWORD.
    ``partition_limits``: maximum number of partitions per request and in the cluster.
    """

    brokers: int | None = None
    dump: DumpedCluster | None = None
    racks: tuple[str, ...] = ()
    controllers: int | None = None
    zookeeper: str | None = None
    data_dir: Path | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    state_change_level: str = "TRACE"
    quirks: Quirks = NO_QUIRKS
    seed: int | None = None
    pools: Pools | None = None
    journal_messages: bool = False
    has_segments: bool = False
    zookeeper_digest: str | None = field(default=None, repr=False)
    zookeeper_tls: ZooKeeperTls | None = None
    zookeeper_servers: int | None = None
    journal_fsync: bool = False
    rotation: Rotation = DEFAULT_ROTATION
    partition_limits: PartitionLimits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        self._check_cluster()
        if self.pools is not None:
            check_brokers_exist(self.pools, self.broker_ids)
        check_broker_configs(self.config)
        log_dirs = broker_config(self.config).log_dirs
        if self.has_segments:
            check_log_dirs_are_relative(log_dirs)
        if self.port not in range(MAX_PORT + 1):
            raise UsageError(
                f"--port {self.port} is not a valid port",
                hint="use 1 to 65535, or 0 for a free one",
            )
        if self.state_change_level not in STATE_CHANGE_LEVELS:
            raise UsageError(
                f"--state-change-level {self.state_change_level}: unknown level",
                hint="use TRACE or INFO",
            )
        self._check_exposure()
        if self.zookeeper_tls is not None and self.zookeeper is None:
            raise UsageError(
                "the embedded ZooKeeper has no TLS: it listens on loopback only",
                hint="use a ZooKeeper with TLS and --zookeeper, or omit --zk-tls-ca",
            )
        if self.zookeeper_servers is not None and self.zookeeper is not None:
            raise UsageError(
                "give either --zookeeper or --zookeeper-servers, not both",
                hint="--zookeeper-servers is the number of embedded servers",
            )
        _ = self.zookeeper_security

    def _check_cluster(self) -> None:
        if self.dump is not None and (self.brokers is not None or self.racks):
            raise UsageError(
                f"give either --from-dump or {'--racks' if self.brokers is None else '--brokers'}"
                ", not both",
                hint="brokers and racks come from the dump",
            )
        if self.dump is None and self.brokers is None:
            raise UsageError("Missing option '--brokers'", hint="or use --from-dump DUMP")
        count, running = len(self.broker_ids), len(self.started_broker_ids)
        if count not in range(1, MAX_BROKERS + 1):
            raise UsageError(
                f"{count} brokers are out of range", hint=f"klamm supports 1 to {MAX_BROKERS}"
            )
        if self.controllers is not None and self.controllers not in range(1, running + 1):
            raise UsageError(
                f"--controllers {self.controllers}: out of range for {running} brokers",
                hint=f"use 1 to {running}",
            )
        if not all(rack.strip() for rack in self.racks):
            raise UsageError("--racks: a rack name is empty", hint="write --racks a,b,c")
        if len(self.racks) > count:
            raise UsageError(
                f"--racks lists {len(self.racks)} racks for {count} brokers",
                hint="racks are assigned to the brokers in turn, so at most one per broker",
            )
        if self.session_timeout_ms not in _SESSION_TIMEOUTS_MS:
            raise UsageError(
                f"--session-timeout-ms {self.session_timeout_ms}: out of range",
                hint="use 1000 to 60000 ms",
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

    @property
    def zookeeper_security(self) -> ZooKeeperSecurity:
        """Return how the cluster's sessions authenticate to ZooKeeper. Raises UsageError."""
        return ZooKeeperSecurity(
            digest=self.zookeeper_digest,
            tls=self.zookeeper_tls,
            sets_acls=BROKER_CONFIGS["zookeeper.set.acl"].value(self.config),
        )

    def session(self, connect_string: str) -> KazooSession:
        """Open a ZooKeeper session with the cluster's timeouts and credentials."""
        return KazooSession(
            connect_string,
            self.session_timeout_ms,
            self.connection_timeout_ms,
            self.zookeeper_security,
        )

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """All brokers of the cluster."""
        return self.dump.broker_ids if self.dump is not None else tuple(range(self.brokers or 0))

    @property
    def started_broker_ids(self) -> tuple[int, ...]:
        """The brokers that are started; the other brokers of a dump are dead in it."""
        return self.dump.running if self.dump is not None else self.broker_ids

    def spec(
        self,
        run_id: str,
        cluster_id: str | None,
        segments: Path | None = None,
        incarnation: int = 0,
    ) -> ClusterSpec:
        """Return the specification of the cluster.

        Controller candidates are the first brokers; for a dump, its controller comes first.
        ``segments``: directory of the brokers' segment files; None: no files. ``incarnation``:
        number of earlier runs of this cluster; each run derives a separate seed.
        """
        dump, broker_ids = self.dump, self.broker_ids
        count = self.controllers or min(len(self.started_broker_ids), DEFAULT_CANDIDATES)
        return ClusterSpec(
            broker_ids=broker_ids,
            racks=rack_map(broker_ids, self.racks) if dump is None else dump.racks,
            end_points={} if dump is None else dump.end_points,
            candidates=broker_ids[:count] if dump is None else dump.candidates(count),
            session_timeout_ms=self.session_timeout_ms,
            quirks=self.quirks,
            config=self.config,
            pools=self.pools,
            partition_limits=self.partition_limits,
            segments=segments,
            journal_messages=self.journal_messages,
            run_id=run_id,
            cluster_id=cluster_id,
            seed=self._seed_of(incarnation),
            zookeeper_security=self.zookeeper_security,
        )

    def _seed_of(self, incarnation: int) -> int:
        """Return the seed of a run. The first run uses the given seed itself."""
        if self.seed is None:
            return secrets.randbits(31)
        return self.seed if incarnation == 0 else hash((self.seed, incarnation))

    @property
    def connection_timeout_ms(self) -> int:
        """Timeout of the first connection to ZooKeeper; by default the session timeout."""
        timeout_ms = BROKER_CONFIGS["zookeeper.connection.timeout.ms"].value(self.config)
        return self.session_timeout_ms if timeout_ms is None else timeout_ms

    def host_names(self) -> frozenset[str]:
        """Return the host names that clients may use, in lower case, without ports."""
        own = () if _is_any(self.host) else (self.host,)
        names = (*_LOOPBACK_NAMES, *own, *self.allowed_hosts)
        return frozenset(name.strip("[]").lower() for name in names)


def check_broker_id(broker_id: int) -> None:
    """Raise UsageError for an id that is too large to derive the broker's port from."""
    if broker_id not in range(MAX_PORT - FIRST_PORT + 1):
        raise UsageError(
            f"{broker_id} is not a valid broker id", hint=f"use 0 to {MAX_PORT - FIRST_PORT}"
        )


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach a server that listens on ``host``."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _is_any(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_unspecified


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
