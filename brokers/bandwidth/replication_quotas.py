"""Paths of replication traffic through networks and disks, and Kafka's three throttles.

Replication uses networks and disks; a directory move uses disks only. A throttle is a resource with
the configured rate. It counts all traffic of the replicas that a topic lists, but limits only
replicas that are not in sync, so that throttling never removes a replica from the ISR: a leader
checks the ISR, a follower its own lag. Directory moves are always limited. This models the long-run
mean of Kafka's measurement over eleven windows of one second, not the bursts in between.
Values only: it does not know logs or messages. Mirrors kafka.server.ReplicationQuotaManager and
its callers kafka.server.{ReplicaManager, ReplicaFetcherThread, ConfigHandler}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from klamm.brokers.bandwidth.model import UNLIMITED, Flow, Id, Resource, ResourceKind
from klamm.cluster.configs import (
    BROKER_CONFIGS,
    FOLLOWER_THROTTLED_RATE,
    LEADER_THROTTLED_RATE,
    LOG_DIR_CAPACITY,
    LOG_DIRS_THROTTLED_RATE,
    NETWORK_IN_CAPACITY,
    NETWORK_OUT_CAPACITY,
)

_RATES: Final = {
    LEADER_THROTTLED_RATE: ResourceKind.LEADER_THROTTLE,
    FOLLOWER_THROTTLED_RATE: ResourceKind.FOLLOWER_THROTTLE,
    LOG_DIRS_THROTTLED_RATE: ResourceKind.MOVE_THROTTLE,
}
_CAPACITIES: Final = {
    NETWORK_IN_CAPACITY: ResourceKind.NETWORK_IN,
    NETWORK_OUT_CAPACITY: ResourceKind.NETWORK_OUT,
}


class Place(NamedTuple):
    """Location of a log: broker and log directory."""

    broker_id: int
    log_dir: str

    @property
    def disk(self) -> Resource:
        """The disk of this directory; each directory has a separate disk."""
        return Resource(ResourceKind.DISK, self.broker_id, self.log_dir)


def throttles(broker_id: int, config: Mapping[str, str]) -> dict[Resource, int]:
    """Return the rates of a broker's three throttles in bytes per second.

    Read from its own dynamic config; as in Kafka the cluster default does not apply. Raises
    InvalidConfig.
    """
    return {Resource(kind, broker_id): _bytes_per_s(name, config) for name, kind in _RATES.items()}


def capacities(
    broker_id: int, log_dirs: Iterable[str], config: Mapping[str, str]
) -> dict[Resource, int]:
    """Return the capacities of a broker's network and log directories in bytes per second.

    Raises InvalidConfig.
    """
    found = {
        Resource(kind, broker_id): _bytes_per_s(name, config) for name, kind in _CAPACITIES.items()
    }
    disk = _bytes_per_s(LOG_DIR_CAPACITY, config)
    return found | {Place(broker_id, path).disk: disk for path in log_dirs}


def replication_flow(
    flow_id: Id,
    leader: Place,
    follower: Place,
    *,
    from_disk: bool = True,
    leader_throttled: bool = False,
    in_isr: bool = False,
    follower_throttled: bool = False,
    caught_up: bool = False,
) -> Flow[Id]:
    """Return the flow of a replica copy from leader to follower.

    ``from_disk``: the leader reads from disk, not from the page cache. ``leader_throttled`` and
    ``follower_throttled``: the topic lists the replica as throttled on the leader, on the
    follower. ``caught_up``: the follower had no lag at the last response.
    """
    held: list[Resource] = []
    counted: list[Resource] = []
    if leader_throttled:
        throttle = Resource(ResourceKind.LEADER_THROTTLE, leader.broker_id)
        (counted if in_isr else held).append(throttle)
    if follower_throttled:
        throttle = Resource(ResourceKind.FOLLOWER_THROTTLE, follower.broker_id)
        (counted if caught_up else held).append(throttle)
    return Flow(
        flow_id,
        (
            *([leader.disk] if from_disk else []),
            Resource(ResourceKind.NETWORK_OUT, leader.broker_id),
            Resource(ResourceKind.NETWORK_IN, follower.broker_id),
            follower.disk,
            *held,
        ),
        counted_by=tuple(counted),
    )


def constant_traffic(
    bytes_per_s: int,
    leader: Place,
    followers: Iterable[tuple[Place, bool]],
    *,
    leader_throttled: bool = False,
) -> dict[Resource, int]:
    """Return the bandwidth that constant-rate records use, in bytes per second by resource.

    The path is from the producer to the leader, and from the leader's page cache to ``followers``,
    each with a flag whether it is throttled. They are in sync, so throttles only count them."""
    passed = [Resource(ResourceKind.NETWORK_IN, leader.broker_id), leader.disk]
    for follower, is_throttled in followers:
        passed += [
            Resource(ResourceKind.NETWORK_OUT, leader.broker_id),
            Resource(ResourceKind.NETWORK_IN, follower.broker_id),
            follower.disk,
        ]
        if leader_throttled:
            passed.append(Resource(ResourceKind.LEADER_THROTTLE, leader.broker_id))
        if is_throttled:
            passed.append(Resource(ResourceKind.FOLLOWER_THROTTLE, follower.broker_id))
    return {resource: times * bytes_per_s for resource, times in Counter(passed).items()}


def directory_move_flow(flow_id: Id, current: Place, future_log_dir: str) -> Flow[Id]:
    """Return the flow of a move from one log directory of a broker to another."""
    future = Place(current.broker_id, future_log_dir)
    throttle = Resource(ResourceKind.MOVE_THROTTLE, current.broker_id)
    return Flow(flow_id, (current.disk, future.disk, throttle))


def _bytes_per_s(name: str, config: Mapping[str, str]) -> int:
    value = BROKER_CONFIGS[name].value(config)
    return UNLIMITED if value is None else value
