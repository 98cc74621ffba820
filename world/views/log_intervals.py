"""Intervals of replicas' logs for checks that run after every event.

The intervals of an in-memory log are computed only from the first one that may have changed.
Intervals of different replicas that contain the same records are the same object, apart from the
last interval of a log, and logs that differ at most in their ends have the same shape: then long
logs are compared quickly.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.intervals import Held, join_adjacent
from klamm.cluster.records import Interval
from klamm.cluster.types import TopicPartition

_MAX_SHARED: Final = 100_000
_MAX_SHAPES: Final = 10_000
Shape = tuple[tuple[Interval, ...], int, int]
"""A log without its end: its closed intervals, and epoch and start of its last interval."""


class _Known:
    """What is known of one log: its ``closed`` intervals, which are those of ``held`` to ``at``.

    ``shape`` is the log's shape if the log starts at ``start``. ``is_simple``: while ``held`` has
    ``count`` intervals, the last of them is the log's last interval."""

    __slots__ = ("at", "closed", "count", "held", "is_simple", "shape", "start")

    def __init__(self, held: Held, start: int) -> None:
        self.held = held
        self.start = start
        self.closed: tuple[Interval, ...] = ()
        self.at = 0
        self.count = 0
        self.is_simple = False
        self.shape: Shape | None = None


class LogIntervals:
    """The intervals of the logs of one cluster, one for each leader epoch of a log."""

    def __init__(self) -> None:
        self._known: dict[tuple[TopicPartition, int], _Known] = {}
        self._shared: dict[tuple[int, int, int], Interval] = {}
        self._shapes: dict[Shape, Shape] = {}

    def of(
        self, tp: TopicPartition, broker_id: int, log: IntervalLog
    ) -> tuple[tuple[Interval, ...], Shape | None]:
        """Return the intervals of a replica's log, like ReplicaLog.intervals, and its shape.

        Sizes and timestamps may be those of another replica with the same records. The shape is the
        same object for all logs with this shape, or None if it is unknown."""
        held, known = log.kept, self._known.get((tp, broker_id))
        # A log only appends to ``held``, or changes its last interval; otherwise it replaces it.
        if (
            known is not None
            and known.held is held
            and known.is_simple
            and known.count == len(known.held.intervals)
            and known.start == log.log_start_offset
        ):
            return (*known.closed, known.held.intervals[-1]), known.shape
        start = log.log_start_offset
        if not isinstance(held, Held) or not held.intervals or held.intervals[0].start != start:
            return log.intervals(), None
        if known is None or known.held is not held:
            known = self._known[tp, broker_id] = _Known(held, start)
        return self._read(known)

    def _read(self, known: _Known) -> tuple[tuple[Interval, ...], Shape | None]:
        intervals = known.held.intervals
        last = intervals[known.at]
        for at, interval in enumerate(islice(intervals, known.at + 1, None), known.at + 1):
            if interval.leader_epoch == last.leader_epoch:
                last = join_adjacent(last, interval)
            else:
                known.closed = (*known.closed, self._share(last))
                known.at, last = at, interval
                known.shape = None
        if known.shape is None:
            known.shape = self._share_shape((known.closed, last.leader_epoch, last.start))
        known.count = len(intervals)
        known.is_simple = known.at == known.count - 1
        return (*known.closed, last), known.shape

    def _share(self, interval: Interval) -> Interval:
        if len(self._shared) > _MAX_SHARED:
            self._shared.clear()
        key = (interval.leader_epoch, interval.start, interval.end)
        return self._shared.setdefault(key, interval)

    def _share_shape(self, shape: Shape) -> Shape:
        if len(self._shapes) > _MAX_SHAPES:
            self._shapes.clear()
        return self._shapes.setdefault(shape, shape)
