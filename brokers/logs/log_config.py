"""The configs that apply to one log: segment rolling, retention and limits.

Mirrors kafka.log.LogConfig.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from klamm.cluster.configs import BROKER_CONFIGS, TOPIC_CONFIGS
from klamm.cluster.jvm.java_integer import parse_java_int

NO_LIMIT: Final = -1
NEVER: Final = 2**63 - 1
"""The largest Java long. It means "no limit" in configs that do not use -1 for this."""


def _default(name: str) -> Any:
    return TOPIC_CONFIGS[name].default_value


class ThrottledReplicas(msgspec.Struct, frozen=True, gc=False):
    """Replicas of one topic to which the leader's throttle, or the follower's throttle, applies.

    - ``listed``: pairs (partition, broker) in leader.replication.throttled.replicas or
      follower.replication.throttled.replicas. None stands for a number that is too large.
    - ``is_all``: True if all replicas are throttled (kafka.server.ConfigHandler).
    """

    listed: frozenset[tuple[int | None, int | None]] = frozenset()
    is_all: bool = False

    @classmethod
    def of(cls, words: list[str]) -> ThrottledReplicas:
        """Parse the items of the config: only "*", or PARTITION:BROKER items such as 0:1."""
        pairs = (map(parse_java_int, word.split(":")) for word in words if word not in ("", "*"))
        return cls(frozenset((first, last) for first, last in pairs), words == ["*"])

    def has(self, partition: int, broker_id: int) -> bool:
        """Return True if the replica of this partition on this broker is throttled."""
        return self.is_all or (partition, broker_id) in self.listed


NONE_THROTTLED: Final = ThrottledReplicas()


class LogConfig(msgspec.Struct, frozen=True, gc=False):
    """Configs that apply to all logs of a topic. Most fields have the name of a topic config.

    - ``retention_ms``, ``retention_bytes``: a negative value means no limit.
    - ``producer_id_expiration_ms``: how long the state of an idle producer is kept (the broker's
      transactional.id.expiration.ms).
    - ``flush_messages``: number of unflushed records after which the log is flushed.
    - ``flush_ms``: age of unflushed records at which log maintenance flushes the log.
    - ``compression_id``: how the leader compresses batches (compression.type), as an index into
      COMPRESSIONS of record_batch.py; None if it keeps the producer's compression.
    - ``is_log_append_time``: message.timestamp.type is LogAppendTime, so the leader sets the
      timestamps.
    - ``timestamp_difference_max_ms``: how far a producer's timestamps may differ from the leader's
      time (message.timestamp.difference.max.ms).

    Other parts of the broker use the remaining fields. ``min_insync_replicas`` is the minimum size
    of the ISR for acks -1. ``leader_throttled`` and ``follower_throttled`` are the replicas to
    which the throttle of the leader and of the follower applies.
    """

    segment_bytes: int = _default("segment.bytes")
    segment_ms: int = _default("segment.ms")
    segment_index_bytes: int = _default("segment.index.bytes")
    index_interval_bytes: int = _default("index.interval.bytes")
    max_message_bytes: int = _default("max.message.bytes")
    retention_ms: int = _default("retention.ms")
    retention_bytes: int = _default("retention.bytes")
    cleanup_policy: tuple[str, ...] = ("delete",)
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

    @property
    def delete(self) -> bool:
        """True if old segments are deleted; if False, only those before the log start offset."""
        return "delete" in self.cleanup_policy

    @property
    def compact(self) -> bool:
        """True if every record must have a key."""
        return "compact" in self.cleanup_policy


DEFAULT_LOG_CONFIG: Final = LogConfig()
