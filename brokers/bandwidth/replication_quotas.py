"""Paths of replication traffic through networks and disks, and Kafka's three throttles.

Replication uses networks and disks; a directory move uses only disks. A throttle is modeled as a
resource whose capacity is the configured rate. It counts all traffic of a topic's throttled
replicas, but limits only replicas that are not in sync, so that throttling does not shrink the ISR.
(The leader's throttle checks the ISR; the follower's throttle checks the follower's lag.) Directory
moves are always limited. Kafka measures rates over eleven one-second windows, so its rate may
exceed the limit for some seconds; the model computes only the long-term average.

The functions are pure. Mirrors kafka.server.ReplicationQuotaManager and its callers
kafka.server.{ReplicaManager, ReplicaFetcherThread, ConfigHandler}.
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


class LogPlace(NamedTuple):
    """Location of a log: a broker and one of its log directories."""

    broker_id: int
    log_dir: str

    @property
    def disk(self) -> Resource:
        """The disk of the log directory. Each log directory has a separate disk."""
        return Resource(ResourceKind.DISK, self.broker_id, self.log_dir)


def throttles(broker_id: int, config: Mapping[str, str]) -> dict[Resource, int]:
    """Return the rates of a broker's three throttles in bytes per second.

    ``config`` is the broker's own dynamic config; as in Kafka, the cluster-wide default is ignored.
    Raises InvalidConfig.
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
    return found | {LogPlace(broker_id, path).disk: disk for path in log_dirs}


def replication_flow(
    flow_id: Id,
    leader: LogPlace,
    follower: LogPlace,
    *,
    from_disk: bool = True,
    leader_throttled: bool = False,
    in_isr: bool = False,
    follower_throttled: bool = False,
    caught_up: bool = False,
) -> Flow[Id]:
    """Return the flow of a replica copy from leader to follower.

    - ``from_disk``: the leader reads the records from disk, not from the page cache.
    - ``leader_throttled``: the topic lists the replica in leader.replication.throttled.replicas.
    - ``in_isr``: the follower is in the ISR, so the leader's throttle only counts the traffic.
    - ``follower_throttled``: the topic lists the replica in
      follower.replication.throttled.replicas.
    - ``caught_up``: the follower had no lag at its last response, so its throttle only counts the
      traffic.
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
    leader: LogPlace,
    followers: Iterable[tuple[LogPlace, bool]],
    *,
    leader_throttled: bool = False,
) -> dict[Resource, int]:
    """Return the bandwidth that constant-rate records use on each resource, in bytes per second.

    The records pass from the producer to the leader, and from the leader's page cache to the
    followers. ``followers`` lists the location of each follower's log, and whether the follower is
    throttled. The followers are in sync, so the throttles only count their traffic.
    """
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


def directory_move_flow(flow_id: Id, current: LogPlace, future_log_dir: str) -> Flow[Id]:
    """Return the flow of a move from one log directory of a broker to another."""
    future = LogPlace(current.broker_id, future_log_dir)
    throttle = Resource(ResourceKind.MOVE_THROTTLE, current.broker_id)
    return Flow(flow_id, (current.disk, future.disk, throttle))


def _bytes_per_s(name: str, config: Mapping[str, str]) -> int:
    value = BROKER_CONFIGS[name].value(config)
    return UNLIMITED if value is None else value
