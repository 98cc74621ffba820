"""How a log rolls, keeps and limits: the topic configs that a log looks at, with Kafka's defaults.

Values only; who reads configs hands them in. Mirrors kafka.log.LogConfig.
"""

from __future__ import annotations

from typing import Final

import msgspec

from brokers.bandwidth.throttled_replicas import NONE_THROTTLED, ThrottledReplicas

NO_LIMIT: Final = -1
_HOUR_MS: Final = 60 * 60 * 1000
_WEEK_MS: Final = 7 * 24 * _HOUR_MS


class LogConfig(msgspec.Struct, frozen=True, gc=False):
    """What all logs of a topic share. ``retention_ms`` and ``retention_bytes`` -1: no limit.

    ``delete``: cleanup.policy has "delete"; without it only what is before the log's start goes.
    ``producer_id_expiration_ms``: how long an idle producer is remembered
    (transactional.id.expiration.ms of the broker). ``min_insync_replicas``: how large the ISR must
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
    min_insync_replicas: int = 1
    leader_throttled: ThrottledReplicas = NONE_THROTTLED
    follower_throttled: ThrottledReplicas = NONE_THROTTLED


DEFAULT_LOG_CONFIG: Final = LogConfig()
