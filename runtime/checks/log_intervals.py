"""Intervals of replicas' logs for checks that run after every event.

The intervals of an in-memory log are computed only from the first one that may have changed.
Intervals of different replicas that contain the same records are the same object, apart from the
last interval of a log: then Python compares long logs quickly.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.intervals import Held, joined
from klamm.cluster.records import Interval
from klamm.cluster.types import TopicPartition

_MAX_SHARED: Final = 100_000


class _Known:
    """What is known of one log: its ``closed`` intervals, which are those of ``held`` to ``at``."""

    __slots__ = ("at", "closed", "held")

    def __init__(self, held: Held) -> None:
        self.held = held
        self.closed: list[Interval] = []
        self.at = 0


class LogIntervals:
    """The intervals of the logs of one cluster, one for each leader epoch of a log."""

    def __init__(self) -> None:
        self._known: dict[tuple[TopicPartition, int], _Known] = {}
        self._shared: dict[tuple[int, int, int], Interval] = {}

    def of(self, tp: TopicPartition, broker_id: int, log: IntervalLog) -> tuple[Interval, ...]:
        """Return the intervals of a replica's log, like ReplicaLog.intervals.

        Sizes and timestamps may be those of another replica with the same records."""
        held = log.kept
        if not isinstance(held, Held) or not held.intervals:
            return log.intervals()
        if held.intervals[0].start != log.log_start_offset:
            return log.intervals()
        known = self._known.get((tp, broker_id))
        # A log only appends to ``held``, or changes its last interval; otherwise it replaces it.
        if known is None or known.held is not held:
            known = self._known[tp, broker_id] = _Known(held)
        last = held.intervals[known.at]
        for at, interval in enumerate(islice(held.intervals, known.at + 1, None), known.at + 1):
            if interval.leader_epoch == last.leader_epoch:
                last = joined(last, interval)
            else:
                known.closed.append(self._share(last))
                known.at, last = at, interval
        return (*known.closed, last)

    def _share(self, interval: Interval) -> Interval:
        if len(self._shared) > _MAX_SHARED:
            self._shared.clear()
        key = (interval.leader_epoch, interval.start, interval.end)
        return self._shared.setdefault(key, interval)
