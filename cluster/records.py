"""What producers, leaders and followers hand each other: records, as bytes or as mere numbers.

A cluster whose replicas are segment logs carries record batches as Kafka stores and sends them; one
whose replicas are interval logs carries how many records there are, of which leader epoch and how
many bytes. Values only: nothing here reads, writes or checks a log. A record is known by its leader
epoch and offset, for only one leader writes in an epoch. Mirrors the parts of
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
    """What a log remembers of one batch of an idempotent producer, to know it when it is sent again
    (kafka.log.BatchMetadata). Both ends are inclusive."""

    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int = NO_TIMESTAMP


class IntervalRecords(msgspec.Struct, frozen=True, gc=False):
    """Records that are only counted: contiguous intervals and what is known of their batches."""

    intervals: tuple[Interval, ...]
    producer_batches: tuple[ProducerBatch, ...] = ()


Records = IntervalRecords | bytes
"""Records with their offsets. ``bytes``: v2 batches one after the other, as Kafka stores and sends
them; ``b""`` or no interval if there are none."""


def size_of(records: Records) -> int:
    """How many bytes records are."""
    if isinstance(records, bytes):
        return len(records)
    return sum(interval.size_bytes for interval in records.intervals)


class CountedBatch(NamedTuple):
    """A batch from a producer to an interval log. ``max_timestamp_ms`` -1: the time of the append.

    ``base_sequence`` belongs to its first record; -1, as the producer's id and epoch, if the
    producer is not idempotent.
    """

    record_count: int
    size_bytes: int
    max_timestamp_ms: int = NO_TIMESTAMP
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE


Produced = CountedBatch | bytes
"""What a producer sends to one partition. ``bytes``: one v2 batch whose base offset is 0."""


class EpochEndOffset(NamedTuple):
    """The largest leader epoch at or below a requested one, and where it ends (exclusive)."""

    leader_epoch: int
    end_offset: int


UNDEFINED_EPOCH_END: Final = EpochEndOffset(-1, -1)
"""The answer to a question about an epoch of which a log knows nothing."""


class TimestampOffset(NamedTuple):
    """A record found by its time: timestamp in ms, offset, and its leader epoch."""

    timestamp_ms: int
    offset: int
    leader_epoch: int
