"""The configs of one log: rolling, retention and limits.

Only values; callers read configs. Mirrors kafka.log.LogConfig.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from klamm.cluster.configs import BROKER_CONFIGS, TOPIC_CONFIGS

NO_LIMIT: Final = -1
NEVER: Final = 2**63 - 1
"""Kafka's largest long, which stands for no limit where -1 does not."""


def _default(name: str) -> Any:
    return TOPIC_CONFIGS[name].default_value


class ThrottledReplicas(msgspec.Struct, frozen=True, gc=False):
    """Throttled replicas of one topic, as pairs (partition, broker).

    From leader.replication.throttled.replicas or follower.replication.throttled.replicas;
    ``is_all``: all replicas (kafka.server.ConfigHandler)."""

    listed: frozenset[tuple[int, int]] = frozenset()
    is_all: bool = False

    @classmethod
    def of(cls, words: list[str]) -> ThrottledReplicas:
        """Parse a topic's config: "*" alone, or words like 0:1 (partition and broker)."""
        pairs = (word.split(":") for word in words if word not in ("", "*"))
        return cls(frozenset((int(first), int(last)) for first, last in pairs), words == ["*"])

    def has(self, partition: int, broker_id: int) -> bool:
        """Return True if the replica of this partition on this broker is throttled."""
        return self.is_all or (partition, broker_id) in self.listed


NONE_THROTTLED: Final = ThrottledReplicas()


class LogConfig(msgspec.Struct, frozen=True, gc=False):
    """Configs of all logs of a topic. ``retention_ms`` -1, ``retention_bytes`` below 0: no limit.

    ``delete``: cleanup.policy has "delete"; without it only segments before the log start are
    deleted. ``producer_id_expiration_ms``: how long idle producers are kept
    (transactional.id.expiration.ms of the broker). ``flush_messages``: the log is flushed after
    this many unflushed records. ``flush_ms``: or after this time, by the broker's log maintenance.
    ``compression_id``: compression by the leader (compression.type), an index into COMPRESSIONS of
    record_batch.py; None: as the producer compresses. ``is_log_append_time``:
    message.timestamp.type is LogAppendTime, and the leader sets the timestamps; otherwise they may
    differ from its time by ``timestamp_difference_max_ms`` (message.timestamp.difference.max.ms).

    Not used by the log itself: ``min_insync_replicas``: minimum ISR size for acks -1.
    ``leader_throttled`` and ``follower_throttled``: replicas throttled on the leader, on the
    follower.
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
