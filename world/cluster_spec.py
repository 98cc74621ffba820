"""Specification of a cluster: brokers, racks, end points, configs and seed.

The same spec describes real and simulated clusters. world/node_host.py creates nodes from it. The
limits that hold however a user describes a cluster are here, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from klamm.brokers.config import BrokerConfig, broker_config
from klamm.cluster import types
from klamm.cluster.api_version import ApiVersion
from klamm.cluster.configs import BROKER_CONFIGS, broker_fields
from klamm.cluster.errors import UsageError
from klamm.cluster.partition_limits import DEFAULT_LIMITS, PartitionLimits
from klamm.cluster.plain_text import harmless_line
from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.controller.config import ControllerConfig
from klamm.placement.pools import NO_POOLS, Pools
from klamm.zk.fenced_writes import GROUP_SIZE
from klamm.zk.security import UNSECURED, ZooKeeperSecurity

FIRST_PORT = 9092
MAX_PORT = 65_535
DEFAULT_SESSION_TIMEOUT_MS: Final = 6_000
SESSION_TIMEOUTS_MS: Final = range(1_000, 60_001)
BROKERS_FOLDER: Final = Path("brokers")
"""Directory of the brokers' segment files, relative to that of the run."""
DEFAULT_END_POINT = types.EndPoint("localhost", FIRST_PORT)
"""Nothing listens on this port."""


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """Specification of a cluster. All times are in milliseconds.

    - ``racks``: keyed by broker id.
    - ``end_points``: keyed by broker id.
    - ``first_end_point``: end point of broker 0. Brokers without an entry in ``end_points`` have
      the same, with their id added to its port.
    - ``candidates``: the controller candidates. None: all brokers.
    - ``config``: broker configs, keyed by Kafka's names.
    - ``write_group_size``: maximum number of controller writes in one transaction.
    - ``pools``: restricts the placement of topics. None: no restrictions.
    - ``segments``: directory of log segments on disk. None: in-memory (offset-only) logs.
    - ``zookeeper_servers``: size of the ensemble that is started for the cluster. 0: one server, or
      a ZooKeeper that exists.
    - ``is_controller_only``: the brokers host no replicas, and are only controller candidates.
    - ``takes_over``: the controller candidates replace the active controller when they start.
    - ``zookeeper_security``: applies only to real sessions, because the simulated ZooKeeper has no
      access control.
    """

    broker_ids: tuple[int, ...]
    racks: Mapping[int, str] = field(default_factory=dict)
    end_points: Mapping[int, tuple[types.EndPoint, ...]] = field(default_factory=dict)
    first_end_point: types.EndPoint = DEFAULT_END_POINT
    candidates: tuple[int, ...] | None = None
    session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS
    quirks: Quirks = NO_QUIRKS
    config: Mapping[str, str] = field(default_factory=dict)
    run_id: str = "run"
    cluster_id: str | None = None
    seed: int = 0
    journal_messages: bool = False
    write_group_size: int = GROUP_SIZE
    pools: Pools = NO_POOLS
    partition_limits: PartitionLimits = DEFAULT_LIMITS
    segments: Path | None = None
    zookeeper_servers: int = 0
    is_controller_only: bool = False
    takes_over: bool = False
    zookeeper_security: ZooKeeperSecurity = UNSECURED

    def is_candidate(self, broker_id: int) -> bool:
        """Return True if this broker may become the controller."""
        return self.candidates is None or broker_id in self.candidates

    def broker_info(self, broker_id: int) -> types.Broker:
        """Return the broker's id, end points and rack, as it registers them in ZooKeeper."""
        first = self.first_end_point
        port = first.port + broker_id
        own = msgspec.structs.replace(first, port=port if port <= MAX_PORT else first.port)
        end_points = self.end_points.get(broker_id) or (own,)
        return types.Broker(broker_id, end_points, self.racks.get(broker_id))

    @cached_property
    def broker_config(self) -> BrokerConfig:
        """The settings shared by all brokers."""
        return msgspec.structs.replace(
            broker_config(self.config), hosts_replicas=not self.is_controller_only
        )

    def controller_config(self, broker_id: int) -> ControllerConfig:
        """Return the settings for the controller on this broker."""
        protocol = ApiVersion(BROKER_CONFIGS["inter.broker.protocol.version"].value(self.config))
        values = broker_fields(ControllerConfig.__struct_fields__, self.config)
        return ControllerConfig(
            **values,
            broker_id=broker_id,
            run_id=self.run_id,
            cluster_id=self.cluster_id,
            is_alter_isr_enabled=protocol.is_alter_isr_supported,
            is_feature_versioning_supported=protocol.is_feature_versioning_supported,
            uses_topic_ids=protocol.uses_topic_ids,
            pools=self.pools,
            partition_limits=self.partition_limits,
            journal_messages=self.journal_messages,
            write_group_size=self.write_group_size,
            takes_over=self.takes_over,
        )

    def with_broker(self, broker_id: int, rack: str | None) -> ClusterSpec:
        """Return a copy of the spec with one more broker, which is not a controller candidate.

        If the spec already has the broker, only its rack is replaced.
        """
        others = {id_: name for id_, name in self.racks.items() if id_ != broker_id}
        racks = others if rack is None else {**others, broker_id: rack}
        candidates = self.broker_ids if self.candidates is None else self.candidates
        broker_ids = tuple(dict.fromkeys((*self.broker_ids, broker_id)))
        return replace(self, broker_ids=broker_ids, racks=racks, candidates=candidates)


def rack_map(broker_ids: Sequence[int], racks: Sequence[str], option: str = "") -> dict[int, str]:
    """Assign racks to brokers in round-robin order. Return {} if ``racks`` is empty.

    Raises UsageError if there are more racks than brokers; the message names the ``option``.
    """
    if not racks:
        return {}
    if len(racks) > len(broker_ids):
        counts = f"{len(racks)} racks for {len(broker_ids)} brokers"
        raise UsageError(
            f"{option} lists {counts}" if option else counts,
            hint="racks are assigned to brokers in turn, so give at most one rack per broker",
        )
    return {broker_id: racks[n % len(racks)] for n, broker_id in enumerate(broker_ids)}


def check_rack_name(rack: str, what: str = "the rack name") -> None:
    """Raise UsageError if the name is empty, or has characters that are not displayed."""
    if not rack.strip():
        raise UsageError(f"{what} is empty", hint="give names such as a or rack-1")
    if harmless_line(rack) != rack:
        raise UsageError(f"{what} {rack!r} has control characters")


def check_broker_id(broker_id: int) -> None:
    """Raise UsageError if the broker's port, which depends on the id, would be invalid."""
    if broker_id not in range(MAX_PORT - FIRST_PORT + 1):
        raise UsageError(
            f"{broker_id} is not a valid broker id", hint=f"use 0 to {MAX_PORT - FIRST_PORT}"
        )
