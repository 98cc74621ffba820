"""How a log rolls, keeps and limits: the topic configs that a log looks at.

Values only; who reads configs hands them in. Mirrors kafka.log.LogConfig.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from klamm.cluster.configs import BROKER_CONFIGS, TOPIC_CONFIGS

NO_LIMIT: Final = -1
NEVER: Final = 2**63 - 1
"""Kafka's largest number, which stands for no limit where -1 does not."""


def _default(name: str) -> Any:
    return TOPIC_CONFIGS[name].default_value


class ThrottledReplicas(msgspec.Struct, frozen=True, gc=False):
    """Replicas of one topic that leader.replication.throttled.replicas, or that of followers,
    lists: (partition, broker), or with ``is_all`` every one (kafka.server.ConfigHandler)."""

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


class LogConfig(msgspec.Struct, frozen=True, gc=False):
    """What all logs of a topic share. ``retention_ms`` -1, ``retention_bytes`` below 0: no limit.

    ``delete``: cleanup.policy has "delete"; without it only what is before the log's start goes.
    ``producer_id_expiration_ms``: how long an idle producer is remembered
    (transactional.id.expiration.ms of the broker). ``flush_messages``: after how many records that
    are not on the disk the log is flushed; ``flush_ms``: after how long, which the broker looks
    after. ``compression_id``: how a leader's log compresses
    (compression.type), an index into COMPRESSIONS of record_batch.py; None: as the producer does.
    ``is_log_append_time``: message.timestamp.type is LogAppendTime, the leader gives records
    its own time; else theirs may differ from it by ``timestamp_difference_max_ms``
    (message.timestamp.difference.max.ms). ``min_insync_replicas``: how large the ISR must
    be for a producer with acks -1; ``leader_throttled`` and ``follower_throttled``: the replicas
    whose replication is throttled on the side of the leader, of the follower. The log itself does
    not look at these three.
    """

    segment_bytes: int = _default("segment.bytes")
    segment_ms: int = _default("segment.ms")
    segment_index_bytes: int = _default("segment.index.bytes")
    index_interval_bytes: int = _default("index.interval.bytes")
    max_message_bytes: int = _default("max.message.bytes")
    retention_ms: int = _default("retention.ms")
    retention_bytes: int = _default("retention.bytes")
    delete: bool = True
    file_delete_delay_ms: int = _default("file.delete.delay.ms")
    producer_id_expiration_ms: int = BROKER_CONFIGS["transactional.id.expiration.ms"].default_value
    flush_messages: int = _default("flush.messages")
    flush_ms: int = _default("flush.ms")
    compression_id: int | None = None
    is_log_append_time: bool = False
    timestamp_difference_max_ms: int = _default("message.timestamp.difference.max.ms")
    min_insync_replicas: int = _default("min.insync.replicas")
    leader_throttled: ThrottledReplicas = NONE_THROTTLED
    follower_throttled: ThrottledReplicas = NONE_THROTTLED


DEFAULT_LOG_CONFIG: Final = LogConfig()
