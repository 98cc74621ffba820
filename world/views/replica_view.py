"""Snapshots of the replicas of a partition, and a quick comparison of their logs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import msgspec

from klamm.cluster.records import Interval
from klamm.cluster.types import NO_EPOCH, TopicPartition
from klamm.world.views.log_intervals import Shape

_START: Final = attrgetter("start")
_END: Final = attrgetter("end")


class ReplicaView(msgspec.Struct, frozen=True, gc=False):
    """Snapshot of a replica.

    ``leading_epoch``: the leader epoch at which the replica leads, or -1 if it is not the
    leader. ``applied_epoch``: the leader epoch of the last LeaderAndIsr that was applied, or -1
    if unknown. ``shape``: the same object for all logs that differ at most in their ends, or
    None if unknown."""

    partition: TopicPartition
    broker_id: int
    intervals: tuple[Interval, ...]
    high_watermark: int
    leading_epoch: int = NO_EPOCH
    applied_epoch: int = NO_EPOCH
    start: int = 0
    end: int = 0
    shape: Shape | None = None

    def is_shaped_like(self, other: ReplicaView) -> bool:
        """Return True if both logs certainly have the same records up to the end of the shorter."""
        return self.shape is other.shape and self.shape is not None and self.start == other.start

    def begins_like(self, other: ReplicaView, end: int) -> bool:
        """Quick check: return True if both replicas certainly have the same records below ``end``.

        False means unknown."""
        if self.is_shaped_like(other) and end <= self.end and end <= other.end:
            return True
        ones, others = self.intervals, other.intervals
        last = bisect_left(ones, end, key=_START) - 1
        return (
            self.start == other.start
            and 0 <= last < len(others)
            and end <= min(ones[last].end, others[last].end)
            and _begin_alike(ones, others, last)
        )


class PartitionViews(msgspec.Struct, frozen=True, gc=False):
    """All replicas of a partition.

    ``are_alike``: the logs certainly have the same records up to the end of the shorter log, for
    each two logs. False means unknown."""

    views: tuple[ReplicaView, ...]
    are_alike: bool


def views_of_partition(views: tuple[ReplicaView, ...]) -> PartitionViews:
    """Compare all replicas of a partition quickly."""
    if not views:
        return PartitionViews(views, True)
    longest = max(views, key=_END)
    for view in views:
        if not view.is_shaped_like(longest) and not (
            view.start == longest.start and _is_prefix(view.intervals, longest.intervals)
        ):
            return PartitionViews(views, False)
    return PartitionViews(views, True)


def _is_prefix(ones: Sequence[Interval], others: Sequence[Interval]) -> bool:
    """Return True if the log ``ones`` is certainly a prefix of the log ``others``."""
    last = len(ones) - 1
    if last < 0 or last >= len(others) or ones[last].end > others[last].end:
        return False
    return _begin_alike(ones, others, last)


def _begin_alike(ones: Sequence[Interval], others: Sequence[Interval], last: int) -> bool:
    """Return True if two logs have the same intervals up to ``last``, except for its end."""
    one, other = ones[last], others[last]
    if one.leader_epoch != other.leader_epoch or one.start != other.start:
        return False
    # Most logs have the same objects as intervals but for the last: Python compares them quickly.
    return ones[:last] == others[:last] or all(
        (one.leader_epoch, one.start, one.end) == (other.leader_epoch, other.start, other.end)
        for one, other in zip(ones[:last], others[:last], strict=True)
    )
