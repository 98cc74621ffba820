"""Splits records by size, for example into those that a copy has transferred and the rest.

Records of a log on disk can be split only at batch boundaries. Records of an in-memory log can be
split between any two records, except within a batch of an idempotent producer. The functions
are pure. Kafka has no equivalent.
"""

from __future__ import annotations

from collections.abc import Iterator

from klamm.brokers.logs.intervals import cut
from klamm.brokers.logs.record_batch import walk
from klamm.cluster.records import EpochEndOffset, Interval, IntervalRecords, ProducerBatch, Records


def first_part(records: Records, size_bytes: int) -> Records | None:
    """Return the longest prefix of ``records`` that fits into ``size_bytes``, or None if empty."""
    if isinstance(records, bytes):
        end = 0
        for position, header in walk(records):
            if position + header.size_bytes > size_bytes:
                break
            end = position + header.size_bytes
        return records[:end] or None
    end_offset = _end_offset(records, size_bytes)
    return None if end_offset is None else _between(records, None, end_offset)


def rest_after(records: Records, part: Records) -> Records | None:
    """Return the records after the prefix ``part``, or None if there are none."""
    if isinstance(records, bytes):
        assert isinstance(part, bytes)
        return records[len(part) :] or None
    assert isinstance(part, IntervalRecords)
    rest = _between(records, part.intervals[-1].end, None)
    return rest if rest.intervals else None


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
    batches = iter(records.producer_batches)
    batch = next(batches, None)
    for interval in records.intervals:
        own = []
        while batch is not None and batch.last_offset < interval.end:
            own.append(batch)
            batch = next(batches, None)
        whole = IntervalRecords((interval,), tuple(own))
        if interval.size_bytes <= size_bytes:
            yield whole
            continue
        rest: Records | None = whole
        while rest is not None:
            assert isinstance(rest, IntervalRecords)
            piece = first_part(rest, size_bytes) or rest
            assert isinstance(piece, IntervalRecords)
            yield piece
            rest = rest_after(rest, piece)


def _end_offset(records: IntervalRecords, size_bytes: int) -> int | None:
    """Return the end offset of the records that fit into ``size_bytes``, or None if none fit."""
    start = end = records.intervals[0].start
    left_bytes = size_bytes
    for interval in records.intervals:
        if interval.size_bytes > left_bytes:
            end += left_bytes * (interval.end - interval.start) // interval.size_bytes
            break
        left_bytes -= interval.size_bytes
        end = interval.end
    for batch in records.producer_batches:
        if batch.first_offset < end <= batch.last_offset:
            end = batch.first_offset
    return end if end > start else None


def _between(records: IntervalRecords, start: int | None, end: int | None) -> IntervalRecords:
    """Return the records from ``start`` to ``end`` (exclusive); None means no limit."""
    intervals: list[Interval] = []
    for interval in records.intervals:
        first = interval.start if start is None else max(start, interval.start)
        last = interval.end if end is None else min(end, interval.end)
        if first < last:
            intervals.append(cut(interval, first, last))
    return IntervalRecords(
        tuple(intervals), tuple(b for b in records.producer_batches if _is_within(b, start, end))
    )


def _is_within(batch: ProducerBatch, start: int | None, end: int | None) -> bool:
    return (start is None or batch.last_offset >= start) and (
        end is None or batch.last_offset < end
    )
