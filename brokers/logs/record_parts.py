"""Splits records by size, for example into those that a copy has transferred and the rest.

Records of a log on disk can be split only at batch boundaries. Records of an in-memory log can be
split between any two records, except within a batch of an idempotent producer. The functions
are pure. Kafka has no equivalent.
"""

from __future__ import annotations

from collections.abc import Iterator

from klamm.brokers.logs.intervals import fitting_end, split_between
from klamm.brokers.logs.record_batch import walk
from klamm.cluster.records import EpochEndOffset, IntervalRecords, Records


def first_part(records: Records, size_bytes: int) -> Records | None:
    """Return the longest prefix of ``records`` that fits into ``size_bytes``, or None if empty."""
    if isinstance(records, bytes):
        end = 0
        for position, header in walk(records):
            if position + header.size_bytes > size_bytes:
                break
            end = position + header.size_bytes
        return records[:end] or None
    return _first(records, size_bytes)


def rest_after(records: Records, part: Records) -> Records | None:
    """Return the records after the prefix ``part``, or None if there are none."""
    if isinstance(records, bytes):
        assert isinstance(part, bytes)
        return records[len(part) :] or None
    assert isinstance(part, IntervalRecords)
    return _rest(records, part)


def end_of(records: Records) -> EpochEndOffset:
    """Return the leader epoch of the last record, and the offset after it."""
    if not isinstance(records, bytes):
        last = records.intervals[-1]
        return EpochEndOffset(last.leader_epoch, last.end)
    *_, (_, header) = walk(records)
    return EpochEndOffset(header.leader_epoch, header.next_offset)


def pieces(records: IntervalRecords, size_bytes: int) -> Iterator[IntervalRecords]:
    """Split ``records`` and yield parts of at most ``size_bytes``.

    A part that cannot be split further may be larger.
    """
    for interval in records.intervals:
        rest: IntervalRecords | None = _between(records, interval.start, interval.end)
        while rest is not None:
            piece = _first(rest, size_bytes) or rest
            yield piece
            rest = _rest(rest, piece)


def _first(records: IntervalRecords, size_bytes: int) -> IntervalRecords | None:
    start = records.intervals[0].start
    end = fitting_end(records.intervals, start, size_bytes)
    for batch in records.producer_batches:
        if batch.first_offset < end <= batch.last_offset:
            end = batch.first_offset
    return _between(records, start, end) if end > start else None


def _rest(records: IntervalRecords, part: IntervalRecords) -> IntervalRecords | None:
    begin, end = part.intervals[-1].end, records.intervals[-1].end
    return _between(records, begin, end) if begin < end else None


def _between(records: IntervalRecords, start: int, end: int) -> IntervalRecords:
    """Return the records from ``start`` to ``end`` (exclusive)."""
    batches = (batch for batch in records.producer_batches if start <= batch.last_offset < end)
    return IntervalRecords(split_between(records.intervals, start, end), tuple(batches))
