"""Which replicas of a topic are throttled: what leader.replication.throttled.replicas and
follower.replication.throttled.replicas say.

A value; what a throttle does is replication_quotas.py's business. Mirrors parseThrottledPartitions
of kafka.server.ConfigHandler.
"""

from __future__ import annotations

from typing import Final

import msgspec


class ThrottledReplicas(msgspec.Struct, frozen=True, gc=False):
    """Replicas of one topic: (partition, broker), or with ``is_all`` every one."""

    listed: frozenset[tuple[int, int]] = frozenset()
    is_all: bool = False

    @classmethod
    def of(cls, words: list[str]) -> ThrottledReplicas:
        """What a topic's config lists: "*" alone, or words as 0:1, partition and broker."""
        pairs = (word.split(":") for word in words if word not in ("", "*"))
        return cls(frozenset((int(first), int(last)) for first, last in pairs), words == ["*"])

    def has(self, partition: int, broker_id: int) -> bool:
        """True if the replica of this partition on this broker is among them."""
        return self.is_all or (partition, broker_id) in self.listed


NONE_THROTTLED: Final = ThrottledReplicas()
