"""How a log rolls, keeps and limits: the topic configs that a log looks at, with Kafka's defaults.

Values only; who reads configs hands them in. Mirrors kafka.log.LogConfig.
"""

from __future__ import annotations

from typing import Final

import msgspec

from brokers.bandwidth.throttled_replicas import NONE_THROTTLED, ThrottledReplicas

NO_LIMIT: Final = -1
NEVER: Final = 2**63 - 1
"""Kafka's largest number, which stands for no limit where -1 does not."""
_HOUR_MS: Final = 60 * 60 * 1000
_WEEK_MS: Final = 7 * 24 * _HOUR_MS


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

    segment_bytes: int = 1 << 30
    segment_ms: int = _WEEK_MS
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1024 * 1024 + 12
    retention_ms: int = _WEEK_MS
    retention_bytes: int = NO_LIMIT
    delete: bool = True
    file_delete_delay_ms: int = 60_000
    producer_id_expiration_ms: int = _WEEK_MS
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    compression_id: int | None = None
    is_log_append_time: bool = False
    timestamp_difference_max_ms: int = NEVER
    min_insync_replicas: int = 1
    leader_throttled: ThrottledReplicas = NONE_THROTTLED
    follower_throttled: ThrottledReplicas = NONE_THROTTLED


DEFAULT_LOG_CONFIG: Final = LogConfig()
