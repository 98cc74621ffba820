"""Errors after which a client retries, and errors that show that its metadata is stale.

Mirrors RetriableException and InvalidMetadataException of org.apache.kafka.common.errors.
"""

from __future__ import annotations

from typing import Final

from klamm.cluster.api_errors import Errors

INVALID_METADATA: Final = (
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.LEADER_NOT_AVAILABLE,
    Errors.NOT_LEADER_OR_FOLLOWER,
    Errors.REPLICA_NOT_AVAILABLE,
    Errors.NETWORK_EXCEPTION,
    Errors.KAFKA_STORAGE_ERROR,
    Errors.FENCED_LEADER_EPOCH,
    Errors.UNKNOWN_LEADER_EPOCH,
)
RETRIABLE: Final = (
    *INVALID_METADATA,
    Errors.CORRUPT_MESSAGE,
    Errors.REQUEST_TIMED_OUT,
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Errors.OFFSET_NOT_AVAILABLE,
)
