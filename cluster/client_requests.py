"""Requests that only clients send, and their responses, as plain values.

Mirrors the request schemas of Kafka 2.8: Metadata v11, ListOffsets v6, OffsetForLeaderEpoch v4,
InitProducerId v4, DeleteRecords v2. Fetch and Produce are in cluster/data_requests.py.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
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
from klamm.cluster.types import NO_EPOCH, NO_LEADER, Broker, TopicPartition

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
"""Special timestamps in ListOffsets, which look up the high watermark or the log start offset."""


class MetadataRequest(msgspec.Struct, frozen=True):
    """Request for the live brokers and for the partition leaders of ``topics``.

    If ``topics`` is None, all topics are returned. Any broker responds from its metadata cache,
    which may be stale. With ``allow_auto_topic_creation``, the broker has missing ``topics``
    created, unless its auto.create.topics.enable is false. A listener answers with the authorized
    operations.
    """

    topics: tuple[str, ...] | None = None
    allow_auto_topic_creation: bool = False
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


class PartitionMetadata(msgspec.Struct, frozen=True, gc=False):
    """Metadata of one partition in a MetadataResponse.

    If the partition has no live leader, ``leader`` is -1 and ``error`` is LEADER_NOT_AVAILABLE.
    ``offline_replicas`` are the replicas on dead brokers or failed log directories.
    """

    error: Errors
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        alive: Container[int],
        partition: int,
        leader: int,
        leader_epoch: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        offline_replicas: tuple[int, ...] = (),
    ) -> PartitionMetadata:
        """Return the metadata of a partition. ``alive`` contains the ids of the live brokers."""
        is_alive = leader in alive
        return cls(
            Errors.NONE if is_alive else Errors.LEADER_NOT_AVAILABLE,
            partition,
            leader if is_alive else NO_LEADER,
            leader_epoch,
            replicas,
            isr,
            offline_replicas,
        )


class TopicMetadata(msgspec.Struct, frozen=True):
    """Metadata of one topic in a MetadataResponse. Partitions are sorted by number."""

    error: Errors
    name: str
    topic_id: str | None = None
    partitions: tuple[PartitionMetadata, ...] = ()


class MetadataResponse(msgspec.Struct, frozen=True):
    """Response to Metadata: live brokers, controller and topics.

    The topics are in the order of the request. ``controller_id`` is -1 if the controller is
    unknown.
    """

    brokers: tuple[Broker, ...]
    controller_id: int
    topics: tuple[TopicMetadata, ...]


class ListOffsetsPartition(msgspec.Struct, frozen=True, gc=False):
    """Lookup of an offset by timestamp in one partition.

    - ``timestamp_ms``: the result is the first record with at least this timestamp. The values
      LATEST_TIMESTAMP and EARLIEST_TIMESTAMP look up the high watermark and the log start offset.
    - ``current_leader_epoch``: the client's cached leader epoch. A value of -1 is not checked.
    """

    timestamp_ms: int
    current_leader_epoch: int = NO_EPOCH


class ListOffsetsRequest(msgspec.Struct, frozen=True):
    """Request to look up offsets in partitions that the receiving broker leads.

    The isolation level is read_uncommitted.
    """

    partitions: Mapping[TopicPartition, ListOffsetsPartition]


class ListedOffset(msgspec.Struct, frozen=True, gc=False):
    """Result of an offset lookup: the offset, timestamp and leader epoch of a record.

    All three are -1 if no record was found.
    """

    error: Errors
    timestamp_ms: int = NO_TIMESTAMP
    offset: int = UNKNOWN_OFFSET
    leader_epoch: int = NO_EPOCH


class ListOffsetsResponse(msgspec.Struct, frozen=True):
    """Response to ListOffsets, with a result for every partition of the request."""

    partitions: Mapping[TopicPartition, ListedOffset]


class OffsetForLeaderPartition(msgspec.Struct, frozen=True, gc=False):
    """Lookup of the end offset of ``leader_epoch`` in one partition.

    ``current_leader_epoch`` is the client's cached leader epoch. A value of -1 is not checked.
    """

    leader_epoch: int
    current_leader_epoch: int = NO_EPOCH


class OffsetsForLeaderEpochRequest(msgspec.Struct, frozen=True):
    """Request for the end offsets of leader epochs.

    A consumer uses the response to detect that a log was truncated (KIP-320).
    """

    partitions: Mapping[TopicPartition, OffsetForLeaderPartition]


class LeaderEpochEnd(msgspec.Struct, frozen=True, gc=False):
    """Largest leader epoch at or below the requested epoch, with the end offset of that epoch.

    ``end`` is (-1, -1) if the log has no such epoch.
    """

    error: Errors
    end: EpochEndOffset = UNDEFINED_EPOCH_END


class OffsetsForLeaderEpochResponse(msgspec.Struct, frozen=True):
    """Response to OffsetsForLeaderEpoch, with a result for every partition of the request."""

    partitions: Mapping[TopicPartition, LeaderEpochEnd]


class InitProducerIdRequest(msgspec.Struct, frozen=True):
    """Request to any broker for a producer id for an idempotent, non-transactional producer."""


class InitProducerIdResponse(msgspec.Struct, frozen=True):
    """Response to InitProducerId: a producer id that is unique in the cluster, and an epoch."""

    error: Errors
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class DeleteRecordsRequest(msgspec.Struct, frozen=True):
    """Request to make the records before an offset of each partition unreadable.

    The offset -1 stands for the high watermark. The leader responds once the logs of all live
    replicas start at the offset, after ``timeout_ms`` at the latest.
    """

    offsets: Mapping[TopicPartition, int]
    timeout_ms: int


class DeletedRecords(msgspec.Struct, frozen=True, gc=False):
    """Result of DeleteRecords for one partition.

    ``low_watermark`` is the smallest log start offset of the live replicas, or -1 after an error.
    """

    error: Errors
    low_watermark: int = UNKNOWN_OFFSET


class DeleteRecordsResponse(msgspec.Struct, frozen=True):
    """Response to DeleteRecords, with a result for every partition."""

    partitions: Mapping[TopicPartition, DeletedRecords]


ClientRequest = (
    MetadataRequest
    | ListOffsetsRequest
    | OffsetsForLeaderEpochRequest
    | InitProducerIdRequest
    | DeleteRecordsRequest
)
ClientResponse = (
    MetadataResponse
    | ListOffsetsResponse
    | OffsetsForLeaderEpochResponse
    | InitProducerIdResponse
    | DeleteRecordsResponse
)
