"""Records that producers, leaders and followers exchange: batches as bytes, or only their numbers.

With segment logs, requests carry record batches as Kafka stores and sends them. With interval logs,
they carry the number of records, their leader epoch and their size. A record is identified by its
leader epoch and offset, because only one leader appends in an epoch. Mirrors the parts of
org.apache.kafka.common.record that requests need.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
SEQUENCE_MAX: Final = 2**31 - 1


class Stretch(NamedTuple):
    """Records of one leader epoch at offsets ``start`` to ``end`` (exclusive)."""

    leader_epoch: int
    start: int
    end: int


class Interval(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Records of one leader epoch at offsets ``start`` to ``end`` (exclusive), of equal size."""

    leader_epoch: int
    start: int
    end: int
    size_bytes: int
    max_timestamp_ms: int = NO_TIMESTAMP


class ProducerBatch(NamedTuple):
    """Metadata of one batch of an idempotent producer, to detect duplicates.

    Both ends are inclusive. Mirrors kafka.log.BatchMetadata.
    """

    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int = NO_TIMESTAMP


class IntervalRecords(msgspec.Struct, frozen=True, gc=False):
    """Offset-only records: contiguous intervals, and metadata of their producer batches."""

    intervals: tuple[Interval, ...]
    producer_batches: tuple[ProducerBatch, ...] = ()


Records = IntervalRecords | bytes
"""Records with their offsets. ``bytes``: consecutive v2 batches as Kafka stores and sends them.
Without records: ``b""``, or no interval."""


def size_of(records: Records) -> int:
    """Return the size of records in bytes."""
    if isinstance(records, bytes):
        return len(records)
    return sum(interval.size_bytes for interval in records.intervals)


class CountedBatch(NamedTuple):
    """A batch that a producer appends to an interval log.

    ``max_timestamp_ms`` -1: the time of the append. ``base_sequence``: sequence number of the first
    record. It is -1, like the producer's id and epoch, if the producer is not idempotent.
    """

    record_count: int
    size_bytes: int
    max_timestamp_ms: int = NO_TIMESTAMP
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE


Produced = CountedBatch | bytes
"""A batch sent by a producer to one partition. ``bytes``: one v2 batch with base offset 0."""


class EpochEndOffset(NamedTuple):
    """The largest leader epoch at or below a requested one, and its end offset (exclusive)."""

    leader_epoch: int
    end_offset: int


UNDEFINED_EPOCH_END: Final = EpochEndOffset(-1, -1)
"""Result of a lookup of an epoch that is unknown to the log."""


class TimestampOffset(NamedTuple):
    """Timestamp, offset and leader epoch of a record found by timestamp."""

    timestamp_ms: int
    offset: int
    leader_epoch: int
