"""What can have configs, and the names of the configs that throttle a reassignment."""

from __future__ import annotations

from typing import Final, NamedTuple

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
BROKER_LEADER_THROTTLE: Final = "leader.replication.throttled.rate"
BROKER_FOLLOWER_THROTTLE: Final = "follower.replication.throttled.rate"
BROKER_LOG_DIR_THROTTLE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
BROKER_THROTTLES: Final = (
    BROKER_LEADER_THROTTLE,
    BROKER_FOLLOWER_THROTTLE,
    BROKER_LOG_DIR_THROTTLE,
)
TOPIC_LEADER_THROTTLE: Final = "leader.replication.throttled.replicas"
TOPIC_FOLLOWER_THROTTLE: Final = "follower.replication.throttled.replicas"
TOPIC_THROTTLES: Final = (TOPIC_LEADER_THROTTLE, TOPIC_FOLLOWER_THROTTLE)


class ConfigResource(NamedTuple):
    """An entity that has configs: of type TOPICS or BROKERS, and its name."""

    entity_type: str
    name: str
