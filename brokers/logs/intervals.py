"""Intervals of records: splitting, joining, and the packed form of a log's intervals.

Values only; brokers/logs/interval_log.py has the log, and explains what intervals leave out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import Final

import msgspec

from klamm.brokers.logs.record_batch import BatchHeader
from klamm.cluster.records import NO_TIMESTAMP, Interval

_start_of: Final = attrgetter("start")
_end_of: Final = attrgetter("end")


class Held(msgspec.Struct, gc=False, array_like=True):
    """The intervals of one log, changed in place only by that log, because there may be many.

    ``intervals``: adjacent, one per epoch, segment and record size. ``rolled``: base offsets of all
    segments but the first. ``segment_start_ms``: timestamp from which the last segment's age is
    measured, -1 if it is empty. ``active_bytes``: size of the last segment.
    """

    intervals: list[Interval]
    rolled: list[int]
    segment_start_ms: int = NO_TIMESTAMP
    active_bytes: int = 0

    def between(self, start: int, end: int) -> tuple[Interval, ...]:
        """Return the intervals from ``start`` to ``end`` (exclusive), cut at both."""
        intervals = self.intervals
        if intervals and start <= intervals[0].start and intervals[-1].end <= end:
            return tuple(intervals)
        first = bisect_right(intervals, start, key=_end_of)
        found = intervals[first : bisect_left(intervals, end, lo=first, key=_start_of)]
        for index in (0, -1) if found else ():
            interval = found[index]
            found[index] = cut(interval, max(start, interval.start), min(end, interval.end))
        return tuple(found)

    def truncated(self, start: int, end: int) -> Held:
        """Return the intervals from ``start``, the base of a segment, to ``end``."""
        rolled = [base for base in self.rolled if start < base <= end]
        active = self.between(rolled[-1] if rolled else start, end)
        return Held(
            list(self.between(start, end)),
            rolled,
            min((part.max_timestamp_ms for part in active), default=NO_TIMESTAMP),
            sum(part.size_bytes for part in active),
        )


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Held).decode


def pack(held: Held) -> bytes:
    """Pack intervals into bytes, a quarter of the memory, while they do not change.

    The size of the last segment is left out, because it follows from the rest."""
    return _encode((held.intervals, held.rolled, held.segment_start_ms))


def unpack(packed: bytes) -> Held:
    """Return the packed intervals; the inverse of ``pack``."""
    held = _decode(packed)
    base = held.rolled[-1] if held.rolled else 0
    held.active_bytes = sum(part.size_bytes for part in held.intervals if part.start >= base)
    return held


NOTHING_HELD: Final = pack(Held([], []))


def cut(interval: Interval, start: int, end: int) -> Interval:
    """Return the part of an interval from ``start`` to ``end``, with its share of the bytes."""
    if start == interval.start and end == interval.end:
        return interval
    count = interval.end - interval.start
    before = interval.size_bytes * (start - interval.start) // count
    until = interval.size_bytes * (end - interval.start) // count
    return Interval(interval.leader_epoch, start, end, until - before, interval.max_timestamp_ms)


def can_be_joined(last: Interval, interval: Interval) -> bool:
    """Return True if the records of two adjacent intervals have one epoch and one size.

    Joining these loses nothing: they can be cut as before."""
    if last.leader_epoch != interval.leader_epoch:
        return False
    of_last = last.size_bytes * (interval.end - interval.start)
    return of_last == interval.size_bytes * (last.end - last.start)


def joined(last: Interval, interval: Interval) -> Interval:
    """Join two adjacent intervals of one epoch."""
    return Interval(
        last.leader_epoch,
        last.start,
        interval.end,
        last.size_bytes + interval.size_bytes,
        max(last.max_timestamp_ms, interval.max_timestamp_ms),
    )


def add_batch(found: list[Interval], header: BatchHeader, log_start_offset: int) -> None:
    """Add a batch, extending the last interval if it has the same leader epoch."""
    start = max(header.base_offset, log_start_offset)
    size, latest_ms = header.size_bytes, header.max_timestamp_ms
    if found and found[-1].leader_epoch == header.leader_epoch:
        last = found.pop()
        start, size = last.start, last.size_bytes + size
        latest_ms = max(latest_ms, last.max_timestamp_ms)
    found.append(Interval(header.leader_epoch, start, header.next_offset, size, latest_ms))
