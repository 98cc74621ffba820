"""Intervals in which partitions were Offline or had no leader.

A transition out of Offline carries the time since when the partition was Offline. States that are
still Offline at the end of a controller epoch are closed by the next epoch's snapshot, which lists
every state again. Leaders are stored in ZooKeeper: a missing leader outlives an epoch, so its
interval is paired from the rows where it begins and ends; only these rows are sorted.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from klamm.cluster.journal import Kind
from klamm.cluster.types import NO_LEADER
from klamm.replay.event_schema import LEADERSHIP_DELETED, LEADERSHIP_WRITTEN
from klamm.replay.questions.columns import (
    NO_PARTITION,
    OFFLINE,
    PARTITION,
    RUN,
    ends_offline_piece,
    is_illegal,
    is_kind,
    is_leadership,
)
from klamm.replay.questions.controllers import EPOCH

BY_TRANSITION: Final = "transition"
BY_SNAPSHOT: Final = "snapshot"
_HELD: Final = (*PARTITION, "controller", "epoch")


def offline_intervals(events: DataFrame, ends: DataFrame, epochs: DataFrame) -> DataFrame:
    """Return the intervals in OfflinePartition, with ``start_ms`` and ``end_ms``.

    Null: start not known, or not ended. ``ends``: histories, or only those with ``held`` 1.
    ``ended_by``: transition, snapshot (of the next epoch, in which the state may continue as a
    separate interval) or null. A state that a snapshot found starts with the snapshot.
    """
    return _left(events).unionByName(_held(ends, epochs))


def with_held(histories: DataFrame, epochs: DataFrame, from_ms: int | None = None) -> DataFrame:
    """Add to ``offline_ms`` the Offline state that a history ends with.

    It lasts until the next epoch's snapshot, else until the end of the run.
    """
    end_ms = F.coalesce("next_snapshot_ms", "run_last_ms").alias("_end_ms")
    ends = epochs.select(*RUN, "controller", F.col("epoch").alias("_ended"), end_ms)
    start, end = F.col("state_ms"), F.col("_end_ms")
    if from_ms is not None:
        start, end = F.greatest(start, F.lit(from_ms)), F.greatest(end, F.lit(from_ms))
    held_ms = F.coalesce(F.when(F.col("held") == 1, end - start), F.lit(0))
    # A null key finds nothing: the join costs little, because few histories end in Offline.
    return (
        histories.withColumn("_ended", F.when(F.col("held") == 1, F.col("epoch")))
        .join(F.broadcast(ends), [*RUN, "controller", "_ended"], "left")
        .withColumn("offline_ms", F.col("offline_ms") + held_ms)
        .select(*histories.columns)
    )


def is_partition_state() -> Column:
    """Condition: the row sets a partition's state, by a transition or a snapshot."""
    return is_kind(Kind.PARTITION_SNAPSHOT, Kind.PARTITION_TRANSITION)


def _left(events: DataFrame) -> DataFrame:
    """Return the intervals that ended with a transition.

    A transition from Offline to Offline starts a new piece; consecutive pieces are joined.
    """
    pieces = events.where(ends_offline_piece() & ~is_illegal()).select(
        *_HELD,
        F.col("since_ms").alias("start_ms"),
        F.col("t_ms").alias("end_ms"),
        (F.col("to_state") == OFFLINE).alias("_goes_on"),
        "place",
    )
    order = Window.partitionBy(*_HELD).orderBy("place")
    follows = F.lag("_goes_on").over(order) & (F.lag("end_ms").over(order) == F.col("start_ms"))
    return (
        pieces.withColumn("_is_first", ~F.coalesce(follows, F.lit(False)))
        .withColumn("_number", F.count_if("_is_first").over(order))
        .groupBy(*_HELD, "_number")
        .agg(
            F.min_by("start_ms", "place").alias("start_ms"),
            F.max_by("end_ms", "place").alias("end_ms"),
            F.max_by("_goes_on", "place").alias("_goes_on"),
        )
        .where("NOT _goes_on")
        .select(*_HELD, "start_ms", "end_ms", F.lit(BY_TRANSITION).alias("ended_by"))
    )


def _held(ends: DataFrame, epochs: DataFrame) -> DataFrame:
    closing = epochs.select(*EPOCH, "next_snapshot_ms")
    closed = F.when(F.col("next_snapshot_ms").isNotNull(), F.lit(BY_SNAPSHOT))
    return (
        ends.where("held = 1")
        .join(F.broadcast(closing), list(EPOCH))
        .select(
            *_HELD,
            F.col("entered_ms").alias("start_ms"),
            F.col("next_snapshot_ms").alias("end_ms"),
            closed.alias("ended_by"),
        )
    )


def leaderless_intervals(events: DataFrame) -> DataFrame:
    """Return the intervals in which a state znode had leader -1, with ``start_ms`` and ``end_ms``.

    ``lost``: the previous leader, null if unknown. ``end_ms`` null: not ended. The deletion of a
    partition ends its interval; writes to a partition that is being deleted start none.
    """
    none = F.col("leader") == NO_LEADER
    had_none = F.col("prev_leader") == NO_LEADER
    is_moved = is_kind(Kind.PARTITION_TRANSITION) & ~is_illegal()
    is_deleted = is_kind(LEADERSHIP_DELETED) | (is_moved & (F.col("to_state") == NO_PARTITION))
    is_born = (is_moved & (F.col("from_state") == NO_PARTITION)) | _is_first_write()
    starts = is_leadership() & none & ~F.coalesce(had_none, F.lit(False))
    ends = is_leadership() & ~none & had_none
    lives = is_born | ends | (starts & is_kind(Kind.PARTITION_SNAPSHOT))
    rows = events.where(starts | ends | is_deleted | is_born).select(
        *PARTITION,
        "t_ms",
        "place",
        "epoch",
        F.when(is_deleted, F.lit(True)).when(lives, F.lit(False)).alias("_gone"),
        F.coalesce(starts, F.lit(False)).alias("_starts"),
        F.coalesce(ends | is_deleted, F.lit(False)).alias("_ends"),
        F.col("prev_leader").alias("lost"),
    )
    order = Window.partitionBy(*PARTITION).orderBy("place")
    until_now = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    is_gone = F.coalesce(F.last("_gone", ignorenulls=True).over(until_now), F.lit(False))
    # Snapshots repeat that there is no leader: only the first such row starts an interval.
    changes = (
        rows.withColumn("_is_gone", is_gone)
        .where("_ends OR (_starts AND NOT _is_gone)")
        .withColumn("_before", F.lag("_starts").over(order))
        .where(~(F.col("_starts") & F.coalesce("_before", F.lit(False))))
    )
    return (
        changes.withColumn("end_ms", F.lead("t_ms").over(order))
        .where("_starts")
        .select(*PARTITION, "epoch", "lost", F.col("t_ms").alias("start_ms"), "end_ms")
    )


def is_availability_change() -> Column:
    """Condition for all rows that start or end an interval here, and for a few others.

    States that are still Offline at the end of an epoch are not included; see ``with_held``.
    """
    is_moved = is_kind(Kind.PARTITION_TRANSITION)
    comes_or_goes = (F.col("from_state") == NO_PARTITION) | (F.col("to_state") == NO_PARTITION)
    return (
        ends_offline_piece()
        | (F.col("leader") == NO_LEADER)
        | (F.col("prev_leader") == NO_LEADER)
        | (is_moved & comes_or_goes)
        | is_kind(LEADERSHIP_DELETED)
        | _is_first_write()
    )


def _is_first_write() -> Column:
    return is_kind(LEADERSHIP_WRITTEN) & (F.col("zk_version") == 0)
