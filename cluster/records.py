"""Records as brokers send and keep them: counted intervals, or the bytes of record batches.

Only values; what a log does with them is the brokers' business. A record is identified by its
leader epoch and its offset: in one epoch only one leader writes. Mirrors what
org.apache.kafka.common.record.{Records, RecordBatch} tell a broker, and kafka.log.LogAppendInfo.
"""

from __future__ import annotations

from typing import Final, NamedTuple

UNDEFINED_EPOCH: Final = -1
UNDEFINED_EPOCH_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1


class Interval(NamedTuple):
    """Records that one leader wrote, from ``start`` to before ``end``."""

    leader_epoch: int
    start: int
    end: int
    size_bytes: int


class ProducerBatch(NamedTuple):
    """What a batch of an idempotent producer was, to know it again when it is sent twice."""

    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int


class IntervalRecords(NamedTuple):
    """Records that are only counted, ascending and without a gap."""

    intervals: tuple[Interval, ...]
    producer_batches: tuple[ProducerBatch, ...] = ()


Records = IntervalRecords | bytes
"""What is fetched; bytes: record batches one after the other, as Kafka stores and sends them."""


class CountedBatch(NamedTuple):
    """A batch of a producer, of which only the numbers are kept."""

    record_count: int
    size_bytes: int
    max_timestamp_ms: int = NO_TIMESTAMP
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = -1


Produced = CountedBatch | bytes
"""What is produced; bytes: one record batch with base offset 0."""


class EpochEndOffset(NamedTuple):
    """Where the records of a leader epoch, the largest up to the one asked for, end in a log."""

    leader_epoch: int = UNDEFINED_EPOCH
    end_offset: int = UNDEFINED_EPOCH_OFFSET
