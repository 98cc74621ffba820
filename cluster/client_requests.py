"""Requests that only clients send, except Fetch and Produce, as plain values.

Mirrors the request schemas of 2.8: Metadata v11,
ListOffsets v6, OffsetForLeaderEpoch v4, InitProducerId v4. Fetch and Produce are in
cluster/data_requests.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import UNKNOWN_OFFSET
from klamm.cluster.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    UNDEFINED_EPOCH_END,
    EpochEndOffset,
)
from klamm.cluster.types import NO_EPOCH, Broker, TopicPartition

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
"""Timestamps in ListOffsets that stand for the end of the readable log and for its start."""


class MetadataRequest(msgspec.Struct, frozen=True):
    """Request for the live brokers and the partition leaders of ``topics`` (None: of all topics).

    Any broker answers from its metadata cache, which may be stale. Missing topics are not created.
    """

    topics: tuple[str, ...] | None = None


class PartitionMetadata(msgspec.Struct, frozen=True, gc=False):
    """Metadata of one partition.

    ``leader`` is -1, with LEADER_NOT_AVAILABLE, if there is no live leader. ``offline_replicas``:
    replicas on dead brokers or failed log directories.
    """

    error: Errors
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


class TopicMetadata(msgspec.Struct, frozen=True):
    """Metadata of one topic; its partitions in the order of their ids."""

    error: Errors
    name: str
    topic_id: str | None = None
    partitions: tuple[PartitionMetadata, ...] = ()


class MetadataResponse(msgspec.Struct, frozen=True):
    """Live brokers, the controller's id (-1: unknown), and topics in the requested order."""

    brokers: tuple[Broker, ...]
    controller_id: int
    topics: tuple[TopicMetadata, ...]


class ListOffsetsPartition(msgspec.Struct, frozen=True, gc=False):
    """The offset to look up in one partition.

    ``timestamp_ms``: the first record with at least this timestamp, or LATEST_TIMESTAMP or
    EARLIEST_TIMESTAMP. ``current_leader_epoch``: leader epoch known to the client; -1 is not
    checked.
    """

    timestamp_ms: int
    current_leader_epoch: int = NO_EPOCH


class ListOffsetsRequest(msgspec.Struct, frozen=True):
    """Offset lookups sent to partition leaders; isolation level read_uncommitted."""

    partitions: Mapping[TopicPartition, ListOffsetsPartition]


class ListedOffset(msgspec.Struct, frozen=True, gc=False):
    """A found offset with the timestamp and leader epoch of its record; -1 for missing values."""

    error: Errors
    timestamp_ms: int = NO_TIMESTAMP
    offset: int = UNKNOWN_OFFSET
    leader_epoch: int = NO_EPOCH


class ListOffsetsResponse(msgspec.Struct, frozen=True):
    """A result for every partition of the request."""

    partitions: Mapping[TopicPartition, ListedOffset]


class OffsetForLeaderPartition(msgspec.Struct, frozen=True, gc=False):
    """Lookup of the end offset of ``leader_epoch`` in one partition.

    ``current_leader_epoch``: leader epoch known to the client; -1 is not checked.
    """

    leader_epoch: int
    current_leader_epoch: int = NO_EPOCH


class OffsetsForLeaderEpochRequest(msgspec.Struct, frozen=True):
    """End offsets of leader epochs, for a consumer to detect a truncated log (KIP-320)."""

    partitions: Mapping[TopicPartition, OffsetForLeaderPartition]


class LeaderEpochEnd(msgspec.Struct, frozen=True, gc=False):
    """The largest epoch up to the requested one, with its end; (-1, -1) if there is none."""

    error: Errors
    end: EpochEndOffset = UNDEFINED_EPOCH_END


class OffsetsForLeaderEpochResponse(msgspec.Struct, frozen=True):
    """A result for every partition of the request."""

    partitions: Mapping[TopicPartition, LeaderEpochEnd]


class InitProducerIdRequest(msgspec.Struct, frozen=True):
    """Request to any broker for the id of an idempotent producer; without transactions."""


class InitProducerIdResponse(msgspec.Struct, frozen=True):
    """A producer id that is unique in the cluster, and its first epoch."""

    error: Errors
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


ClientRequest = (
    MetadataRequest | ListOffsetsRequest | OffsetsForLeaderEpochRequest | InitProducerIdRequest
)
ClientResponse = (
    MetadataResponse | ListOffsetsResponse | OffsetsForLeaderEpochResponse | InitProducerIdResponse
)
