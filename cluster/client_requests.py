"""Requests that only clients send, as plain values: what they ask before they produce or fetch.

Nothing here reads a metadata cache or a log. Mirrors the request schemas of 2.8: Metadata v11,
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
"""What ListOffsets takes for the end of what may be read, and for the log's start."""


class MetadataRequest(msgspec.Struct, frozen=True):
    """Which brokers live, and who leads the partitions of ``topics``, or of all if that is None.

    Any broker answers, from its cache, which may be behind. Nobody creates a topic for it.
    """

    topics: tuple[str, ...] | None = None


class PartitionMetadata(msgspec.Struct, frozen=True, gc=False):
    """One partition. ``leader`` is -1 with LEADER_NOT_AVAILABLE: there is none, or none that lives.

    ``offline_replicas``: those on brokers or in directories that are down.
    """

    error: Errors
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


class TopicMetadata(msgspec.Struct, frozen=True):
    """One topic; its partitions in the order of their ids."""

    error: Errors
    name: str
    topic_id: str | None = None
    partitions: tuple[PartitionMetadata, ...] = ()


class MetadataResponse(msgspec.Struct, frozen=True):
    """Live brokers, the controller's id (-1: unknown), and the topics in the order asked for."""

    brokers: tuple[Broker, ...]
    controller_id: int
    topics: tuple[TopicMetadata, ...]


class ListOffsetsPartition(msgspec.Struct, frozen=True, gc=False):
    """Which offset: the first of a record as late as ``timestamp_ms``, or one of the two above.

    ``current_leader_epoch``: what the client knows; -1 is not checked.
    """

    timestamp_ms: int
    current_leader_epoch: int = NO_EPOCH


class ListOffsetsRequest(msgspec.Struct, frozen=True):
    """A client's question to the leaders of partitions; it reads what is not committed, too."""

    partitions: Mapping[TopicPartition, ListOffsetsPartition]


class ListedOffset(msgspec.Struct, frozen=True, gc=False):
    """An offset, and the timestamp and leader epoch of its record; -1 where there is none."""

    error: Errors
    timestamp_ms: int = NO_TIMESTAMP
    offset: int = UNKNOWN_OFFSET
    leader_epoch: int = NO_EPOCH


class ListOffsetsResponse(msgspec.Struct, frozen=True):
    """An answer for every partition of the request."""

    partitions: Mapping[TopicPartition, ListedOffset]


class OffsetForLeaderPartition(msgspec.Struct, frozen=True, gc=False):
    """Where did ``leader_epoch`` end? ``current_leader_epoch``: what the client knows."""

    leader_epoch: int
    current_leader_epoch: int = NO_EPOCH


class OffsetsForLeaderEpochRequest(msgspec.Struct, frozen=True):
    """How a consumer learns whether the log was cut below its position (KIP-320)."""

    partitions: Mapping[TopicPartition, OffsetForLeaderPartition]


class LeaderEpochEnd(msgspec.Struct, frozen=True, gc=False):
    """The largest epoch up to the one asked for, and its end; (-1, -1) if the log knows none."""

    error: Errors
    end: EpochEndOffset = UNDEFINED_EPOCH_END


class OffsetsForLeaderEpochResponse(msgspec.Struct, frozen=True):
    """An answer for every partition of the request."""

    partitions: Mapping[TopicPartition, LeaderEpochEnd]


class InitProducerIdRequest(msgspec.Struct, frozen=True):
    """An id for an idempotent producer, from any broker. There are no transactions."""


class InitProducerIdResponse(msgspec.Struct, frozen=True):
    """An id that no other producer of the cluster has, and its first epoch."""

    error: Errors
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


ClientRequest = (
    MetadataRequest | ListOffsetsRequest | OffsetsForLeaderEpochRequest | InitProducerIdRequest
)
ClientResponse = (
    MetadataResponse | ListOffsetsResponse | OffsetsForLeaderEpochResponse | InitProducerIdResponse
)
