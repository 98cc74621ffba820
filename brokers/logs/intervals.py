"""Intervals of records: cut, joined, and what a log holds of them, also as bytes. Values only; the
log is in brokers/logs/interval_log.py, which says what they leave out.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import Final

import msgspec

from cluster.records import NO_TIMESTAMP, Interval

_end_of: Final = attrgetter("end")


class Held(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The records of a log.

    ``intervals``: adjacent, one per epoch, segment and size of a record. ``rolled``: where segments
    begin, but the first. ``segment_start_ms``: the timestamp that the last segment's age is counted
    from, -1 if it is empty.
    """

    intervals: tuple[Interval, ...] = ()
    rolled: tuple[int, ...] = ()
    segment_start_ms: int = NO_TIMESTAMP

    def between(self, start: int, end: int) -> tuple[Interval, ...]:
        """What is held from ``start`` to ``end`` (exclusive), cut at both."""
        intervals = self.intervals
        if intervals and start <= intervals[0].start and intervals[-1].end <= end:
            return intervals
        first = bisect_right(intervals, start, key=_end_of)
        found = []
        for interval in intervals[first:]:
            if interval.start >= end:
                break
            found.append(cut(interval, max(start, interval.start), min(end, interval.end)))
        return tuple(found)

    def active(self, end: int) -> tuple[Interval, ...]:
        """What the last segment of a log that ends at ``end`` holds."""
        return self.between(self.rolled[-1], end) if self.rolled else self.intervals


NOTHING_HELD: Final = Held()

fold: Final = msgspec.msgpack.Encoder().encode
unfold: Final = msgspec.msgpack.Decoder(Held).decode
"""As bytes they take a quarter of the memory: for while nothing changes."""


def cut(interval: Interval, start: int, end: int) -> Interval:
    """The part of an interval from ``start`` to ``end``, with its share of the bytes."""
    if start == interval.start and end == interval.end:
        return interval
    count = interval.end - interval.start
    before = interval.size_bytes * (start - interval.start) // count
    until = interval.size_bytes * (end - interval.start) // count
    return Interval(interval.leader_epoch, start, end, until - before, interval.max_timestamp_ms)


def can_be_joined(last: Interval, interval: Interval) -> bool:
    """True if the records of two adjacent intervals are of one epoch and equally large: joined,
    they are cut as before."""
    if last.leader_epoch != interval.leader_epoch:
        return False
    of_last = last.size_bytes * (interval.end - interval.start)
    return of_last == interval.size_bytes * (last.end - last.start)


def joined(last: Interval, interval: Interval) -> Interval:
    """Two adjacent intervals of one epoch as one."""
    return Interval(
        last.leader_epoch,
        last.start,
        interval.end,
        last.size_bytes + interval.size_bytes,
        max(last.max_timestamp_ms, interval.max_timestamp_ms),
    )
