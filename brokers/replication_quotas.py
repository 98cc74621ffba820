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

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from brokers.bandwidth import UNLIMITED, Flow, Id, Resource, ResourceKind
from cluster.errors import InvalidConfig
from cluster.types import TopicPartition

LEADER_THROTTLED_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED_REPLICAS: Final = "follower.replication.throttled.replicas"
_RATES: Final = {
    "leader.replication.throttled.rate": ResourceKind.LEADER_THROTTLE,
    "follower.replication.throttled.rate": ResourceKind.FOLLOWER_THROTTLE,
    "replica.alter.log.dirs.io.max.bytes.per.second": ResourceKind.MOVE_THROTTLE,
}
_REPLICA: Final = re.compile(r"([0-9]+):([0-9]+)", re.ASCII)
_RATE: Final = re.compile(r"\+?[0-9]+", re.ASCII)


class Place(NamedTuple):
    """Where a log lies."""

    broker_id: int
    log_dir: str

    @property
    def disk(self) -> Resource:
        """The disk of this directory; each directory has its own."""
        return Resource(ResourceKind.DISK, self.broker_id, self.log_dir)


class ThrottledReplicas:
    """The replicas of one broker that one of its replication throttles is about.

    ``config_name``: LEADER_THROTTLED_REPLICAS or FOLLOWER_THROTTLED_REPLICAS.
    """

    def __init__(self, broker_id: int, config_name: str) -> None:
        self._broker_id = broker_id
        self._config_name = config_name
        self._partitions: dict[str, frozenset[int] | None] = {}

    def set_topic(self, topic: str, value: str) -> None:
        """Take over what a topic's config lists: "*", or partition:broker with commas between.

        Raises InvalidConfig, and leaves all as it was, if it is something else.
        """
        words = value.strip().rstrip(",").split(",")
        found = [_REPLICA.fullmatch(word) for word in words]
        if words == [""]:
            self._partitions.pop(topic, None)
        elif words == ["*"]:
            self._partitions[topic] = None
        elif not all(found):
            name = self._config_name
            raise InvalidConfig(
                f"Invalid value {value} for configuration {name}: {name} must be the literal '*' "
                "or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )
        else:
            self._partitions[topic] = frozenset(
                int(match[1]) for match in found if match and int(match[2]) == self._broker_id
            )

    def __contains__(self, tp: TopicPartition) -> bool:
        partitions = self._partitions.get(tp.topic, frozenset())
        return partitions is None or tp.partition in partitions


def throttles(broker_id: int, config: Mapping[str, str]) -> dict[Resource, int]:
    """The capacities of a broker's three throttles, bytes a second, from its own dynamic config.

    As in Kafka the cluster's default config has no say. Raises InvalidConfig.
    """
    return {
        Resource(kind, broker_id): _bytes_per_s(name, config.get(name, str(UNLIMITED)))
        for name, kind in _RATES.items()
    }


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
    demand_bytes_per_s: int = UNLIMITED,
    growth_bytes_per_s: int = 0,
) -> Flow[Id]:
    """What a follower fetches. ``from_disk``: not from the page cache of the leader.

    ``leader_throttled`` and ``follower_throttled``: the replica is in ThrottledReplicas of the
    leader, of the follower. ``caught_up``: there was no lag in the last answer to the follower.
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
        demand_bytes_per_s,
        growth_bytes_per_s,
        tuple(counted),
    )


def directory_move_flow(
    flow_id: Id, current: Place, future_log_dir: str, growth_bytes_per_s: int = 0
) -> Flow[Id]:
    """What a broker copies from one of its directories to another."""
    future = Place(current.broker_id, future_log_dir)
    throttle = Resource(ResourceKind.MOVE_THROTTLE, current.broker_id)
    return Flow(
        flow_id, (current.disk, future.disk, throttle), growth_bytes_per_s=growth_bytes_per_s
    )


def _bytes_per_s(name: str, value: str) -> int:
    text = value.strip()
    if not _RATE.fullmatch(text) or int(text) > UNLIMITED:
        raise InvalidConfig(
            f"Invalid value {text} for configuration {name}: it is bytes a second, "
            f"a whole number from 0 to {UNLIMITED}"
        )
    return int(text)
