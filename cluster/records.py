"""Records, and batches of them in requests: v2 batches as bytes, or only counts and sizes.

For segment logs, requests carry record batches as Kafka stores and sends them. For interval logs,
which are in memory and store no contents, requests carry only the number of records, the leader
epoch and the size. A record is identified by leader epoch and offset, because only one leader
appends in an epoch. Mirrors the parts of org.apache.kafka.common.record that requests need.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
SEQUENCE_MAX: Final = 2**31 - 1


def increment_sequence(sequence: int, increment: int) -> int:
    """Return a later sequence number of a producer. Numbers wrap from 2^31 - 1 to 0."""
    return (sequence + increment) % (SEQUENCE_MAX + 1)


class Header(NamedTuple):
    """One header of a record."""

    key: str
    value: bytes | None


class Record(NamedTuple):
    """A record to send. None stands for a null key or a null value (a tombstone)."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class StoredRecord(NamedTuple):
    """A record in a log, with its offset."""

    offset: int
    record: Record


class Stretch(NamedTuple):
    """Offset range, ``start`` to ``end`` (exclusive), of records in the same leader epoch."""

    leader_epoch: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"offsets {self.start} to {self.end - 1} of leader epoch {self.leader_epoch}"

    def is_within(self, other: Stretch) -> bool:
        """Return True if ``other`` has the same leader epoch and contains all these offsets."""
        return (
            self.leader_epoch == other.leader_epoch
            and other.start <= self.start
            and self.end <= other.end
        )


class Interval(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Range of records in an interval log, with the same leader epoch and the same record size.

    The offsets are ``start`` to ``end`` (exclusive). ``size_bytes`` is the total size.
    """

    leader_epoch: int
    start: int
    end: int
    size_bytes: int
    max_timestamp_ms: int = NO_TIMESTAMP


class ProducerBatch(NamedTuple):
    """Metadata of one batch of an idempotent producer, kept by the leader to detect duplicates.

    The last sequence number and last offset are inclusive. Mirrors kafka.log.BatchMetadata.
    """

    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int = NO_TIMESTAMP


class IntervalRecords(msgspec.Struct, frozen=True, gc=False):
    """Records of an interval log: contiguous intervals, and the idempotent producers' batches."""

    intervals: tuple[Interval, ...]
    producer_batches: tuple[ProducerBatch, ...] = ()


Records = IntervalRecords | bytes
"""Records with offsets; ``bytes`` are consecutive v2 batches, as Kafka stores and sends them.

There are no records in ``b""`` and in an IntervalRecords without intervals."""


def size_of(records: Records) -> int:
    """Return the size of records in bytes."""
    if isinstance(records, bytes):
        return len(records)
    return sum(interval.size_bytes for interval in records.intervals)


class CountedBatch(NamedTuple):
    """Batch that a producer sends to an interval log: a record count and size without contents.

    If ``max_timestamp_ms`` is -1, the leader uses the time of the append. ``base_sequence`` is the
    sequence number of the first record. Producer id, producer epoch and ``base_sequence`` are -1 if
    the producer is not idempotent.
    """

    record_count: int
    size_bytes: int
    max_timestamp_ms: int = NO_TIMESTAMP
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE


Produced = CountedBatch | bytes
"""Batch that a producer sends to one partition; ``bytes`` are one v2 batch with base offset 0."""


class EpochEndOffset(NamedTuple):
    """Result of looking up a leader epoch in a log, with an exclusive end offset.

    ``leader_epoch`` is the largest epoch in the log that is at or below the requested epoch.
    """

    leader_epoch: int
    end_offset: int


UNDEFINED_EPOCH_END: Final = EpochEndOffset(-1, -1)
"""Result of looking up a leader epoch that the log does not know."""


class TimestampOffset(NamedTuple):
    """Timestamp, offset and leader epoch of a record that was looked up by timestamp."""

    timestamp_ms: int
    offset: int
    leader_epoch: int
