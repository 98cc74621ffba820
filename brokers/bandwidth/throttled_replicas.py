"""Which replicas of a topic are throttled: what leader.replication.throttled.replicas and
follower.replication.throttled.replicas say.

A value and its parsing; what a throttle does is replication_quotas.py's business. Mirrors
kafka.server.ThrottledReplicaListValidator and parseThrottledPartitions of
kafka.server.ConfigHandler.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from cluster.errors import InvalidConfig

LEADER_THROTTLED_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED_REPLICAS: Final = "follower.replication.throttled.replicas"
_REPLICA: Final = re.compile(r"([0-9]+):([0-9]+)", re.ASCII)


class ThrottledReplicas(msgspec.Struct, frozen=True, gc=False):
    """Replicas of one topic: (partition, broker), or with ``is_all`` every one."""

    listed: frozenset[tuple[int, int]] = frozenset()
    is_all: bool = False

    @classmethod
    def parse(cls, name: str, value: str) -> ThrottledReplicas:
        """What a topic's config lists: "*", or partition:broker with commas between.

        Raises InvalidConfig if it is something else.
        """
        words = value.strip().rstrip(",").split(",")
        if words == [""]:
            return NONE_THROTTLED
        if words == ["*"]:
            return cls(is_all=True)
        found = [match for word in words if (match := _REPLICA.fullmatch(word))]
        if len(found) < len(words):
            raise InvalidConfig(
                f"Invalid value {value} for configuration {name}: {name} must be the literal '*' "
                "or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )
        return cls(frozenset((int(match[1]), int(match[2])) for match in found))

    def has(self, partition: int, broker_id: int) -> bool:
        """True if the replica of this partition on this broker is among them."""
        return self.is_all or (partition, broker_id) in self.listed


NONE_THROTTLED: Final = ThrottledReplicas()
