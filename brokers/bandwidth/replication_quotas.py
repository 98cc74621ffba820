"""What copying passes on its way, and Kafka's three throttles as resources among the others.

Replication takes networks and disks, a move between directories takes disks alone. A throttle is a
resource with the configured rate. It counts all traffic of the replicas that a topic lists and
holds back only those that are not in sync, lest they leave the ISR because of it: a leader looks at
the ISR, a follower at its own lag; a move is always held back. This is the long-run mean of what
Kafka does, which measures over eleven windows of a second; the bursts in between are not modelled.
Values only: it must not know logs or messages. Mirrors kafka.server.ReplicationQuotaManager and
those who ask it: kafka.server.{ReplicaManager, ReplicaFetcherThread, ConfigHandler}.
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
    """Where a log lies."""

    broker_id: int
    log_dir: str

    @property
    def disk(self) -> Resource:
        """The disk of this directory; each directory has its own."""
        return Resource(ResourceKind.DISK, self.broker_id, self.log_dir)


def throttles(broker_id: int, config: Mapping[str, str]) -> dict[Resource, int]:
    """The capacities of a broker's three throttles, bytes a second, from its own dynamic config.

    As in Kafka the cluster's default config has no say. Raises InvalidConfig.
    """
    return {Resource(kind, broker_id): _bytes_per_s(name, config) for name, kind in _RATES.items()}


def capacities(
    broker_id: int, log_dirs: Iterable[str], config: Mapping[str, str]
) -> dict[Resource, int]:
    """What a broker's network, and each of its log directories, carries, bytes a second.

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
    """What a follower fetches. ``from_disk``: not from the page cache of the leader.

    ``leader_throttled`` and ``follower_throttled``: the replica is among the
    ThrottledReplicas of the leader, of the follower. ``caught_up``: there was no lag in the last
    answer to the follower.
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
    """What records that come at a constant rate take of each resource, bytes a second: from the
    producer to the leader, and from its page cache to ``followers``, each with whether it is among
    the ThrottledReplicas. They are in sync, so that throttles count them."""
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
    """What a broker copies from one of its directories to another."""
    future = Place(current.broker_id, future_log_dir)
    throttle = Resource(ResourceKind.MOVE_THROTTLE, current.broker_id)
    return Flow(flow_id, (current.disk, future.disk, throttle))


def _bytes_per_s(name: str, config: Mapping[str, str]) -> int:
    value = BROKER_CONFIGS[name].value(config)
    return UNLIMITED if value is None else value
