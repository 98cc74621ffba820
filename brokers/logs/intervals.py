"""Offset intervals of an in-memory log: split, join and pack them.

brokers/logs/interval_log.py contains the log, and explains in what ways intervals are approximate.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from klamm.cluster.records import NO_TIMESTAMP, Interval

_start_of: Final = attrgetter("start")
_end_of: Final = attrgetter("end")


class Held(msgspec.Struct, gc=False, array_like=True):
    """The offset intervals of one log. Only the log itself may change them.

    - ``intervals``: contiguous ranges of offsets. All records in a range have the same size, and
      belong to the same leader epoch and segment.
    - ``rolled``: base offsets of all segments except the first.
    - ``segment_start_ms``: timestamp from which the age of the last segment is measured; -1 if the
      segment is empty.
    - ``active_bytes``: size of the last segment.
    """

    intervals: list[Interval]
    rolled: list[int]
    segment_start_ms: int = NO_TIMESTAMP
    active_bytes: int = 0

    def between(self, start: int, end: int) -> tuple[Interval, ...]:
        """Return the intervals from ``start`` to ``end`` (exclusive), split at these offsets."""
        return split_between(self.intervals, start, end)

    def truncated(self, start: int, end: int) -> Held:
        """Return a copy with only the intervals from ``start`` to ``end``.

        ``start`` is the base offset of a segment.
        """
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
    """Pack intervals into bytes, which need only a quarter of the memory.

    The bytes do not contain ``active_bytes``, because ``unpack`` can compute this value.
    """
    return _encode((held.intervals, held.rolled, held.segment_start_ms))


def unpack(packed: bytes) -> Held:
    """Return the intervals that ``pack`` has packed."""
    held = _decode(packed)
    base = held.rolled[-1] if held.rolled else 0
    held.active_bytes = sum(part.size_bytes for part in held.intervals if part.start >= base)
    return held


NOTHING_HELD: Final = pack(Held([], []))


def split_between(intervals: Sequence[Interval], start: int, end: int) -> tuple[Interval, ...]:
    """Return the contiguous intervals from ``start`` to ``end``, split at these offsets."""
    if intervals and start <= intervals[0].start and intervals[-1].end <= end:
        return tuple(intervals)
    first = bisect_right(intervals, start, key=_end_of)
    found = list(intervals[first : bisect_left(intervals, end, lo=first, key=_start_of)])
    if found and found[0].start < start:
        found[0] = cut(found[0], start, min(end, found[0].end))
    if found and found[-1].end > end:
        found[-1] = cut(found[-1], found[-1].start, end)
    return tuple(found)


def fitting_end(intervals: Iterable[Interval], start: int, size_bytes: int) -> int:
    """Return the end offset of the records from ``start`` onward that fit into ``size_bytes``."""
    end = start
    for interval in intervals:
        if interval.size_bytes > size_bytes:
            count = interval.end - interval.start
            return end + max(0, size_bytes) * count // interval.size_bytes
        size_bytes -= interval.size_bytes
        end = interval.end
    return end


def cut(interval: Interval, start: int, end: int) -> Interval:
    """Return the part of an interval from ``start`` to ``end``, with a proportional size."""
    if start == interval.start and end == interval.end:
        return interval
    count = interval.end - interval.start
    before = interval.size_bytes * (start - interval.start) // count
    until = interval.size_bytes * (end - interval.start) // count
    return Interval(interval.leader_epoch, start, end, until - before, interval.max_timestamp_ms)


def can_be_joined(last: Interval, interval: Interval) -> bool:
    """Return True if two adjacent intervals have the same leader epoch and record size.

    After they are joined, ``cut`` can restore the two intervals, except for their timestamps.
    """
    if last.leader_epoch != interval.leader_epoch:
        return False
    of_last = last.size_bytes * (interval.end - interval.start)
    return of_last == interval.size_bytes * (last.end - last.start)


def join_adjacent(last: Interval, interval: Interval) -> Interval:
    """Join two adjacent intervals of the same leader epoch."""
    return Interval(
        last.leader_epoch,
        last.start,
        interval.end,
        last.size_bytes + interval.size_bytes,
        max(last.max_timestamp_ms, interval.max_timestamp_ms),
    )


def per_epoch(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Join adjacent intervals of the same leader epoch."""
    found: list[Interval] = []
    for interval in intervals:
        if found and found[-1].leader_epoch == interval.leader_epoch:
            found[-1] = join_adjacent(found[-1], interval)
        else:
            found.append(interval)
    return tuple(found)
