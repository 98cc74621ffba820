"""The cluster over time, in buckets: offline partitions, leaders by broker, and ISR changes.

Rows that carry the previous value are differences; one hash aggregation sums them by bucket. Each
controller epoch starts again from its snapshot. The result has rows by bucket, epoch and broker,
is in one Spark partition, and is the input of all timelines.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from klamm.cluster.journal import Kind
from klamm.cluster.types import NO_LEADER
from klamm.replay.event_schema import LEADERSHIP_WRITTEN, STATE_CODES
from klamm.replay.questions.columns import (
    OFFLINE,
    RUN,
    goes_offline,
    is_illegal,
    is_kind,
    is_leadership,
    isr_added,
    isr_removed,
    moves_isr,
)
from klamm.statemachines.partition_state import PartitionState

BUCKETS: Final = 120
_NEW: Final = STATE_CODES[PartitionState.NEW.value]


def bucket(first_ms: int, width_ms: int) -> Column:
    """Return the start of a row's bucket; all rows before ``first_ms`` share one earlier bucket."""
    number = F.floor((F.col("t_ms") - first_ms) / width_ms)
    # The bucket before the first one sums up the initial values.
    return (F.greatest(number, F.lit(-1)) * width_ms + first_ms).alias("bucket_ms")


def width_of(first_ms: int, last_ms: int, buckets: int = BUCKETS) -> int:
    """Return the width in ms of each of ``buckets`` buckets from the first to the last time."""
    return max(1, -(-(last_ms - first_ms + 1) // buckets))


def differences(events: DataFrame, first_ms: int, width_ms: int) -> DataFrame:
    """Return the changes by bucket.

    A row for each combination of leader lost, leader gained, replicas that left the ISR and
    replicas that joined it, with the number of events in ``rows``. ``went_offline``, ``came_back``:
    number of partitions. In rows of a snapshot, which start from nothing, ``went_offline`` is the
    number of Offline partitions.
    """
    is_snapshot = is_kind(Kind.PARTITION_SNAPSHOT)
    gains = is_leadership() & (
        is_snapshot
        | F.coalesce(F.col("prev_leader") != F.col("leader"), F.lit(False))
        | (F.col("prev_leader").isNull() & _is_first_leadership())
    )
    back = (
        is_kind(Kind.PARTITION_TRANSITION)
        & (F.col("from_state") == OFFLINE)
        & (F.col("to_state") != OFFLINE)
        & ~is_illegal()
    )
    offline = (goes_offline() & ~is_illegal()) | (is_snapshot & (F.col("to_state") == OFFLINE))
    moves = moves_isr()
    return (
        events.where(gains | offline | back | moves)
        .withColumn("_left", F.when(moves, isr_removed()))
        .select(
            *RUN,
            "epoch",
            bucket(first_ms, width_ms),
            is_snapshot.alias("is_snapshot"),
            F.when(gains, F.col("prev_leader")).alias("lost"),
            F.when(gains, F.col("leader")).alias("gained"),
            F.col("_left").alias("left"),
            isr_added(F.col("_left")).alias("joined"),
            offline.alias("_offline"),
            back.alias("_back"),
        )
        .groupBy(*RUN, "epoch", "bucket_ms", "is_snapshot", "lost", "gained", "left", "joined")
        .agg(
            F.count("*").alias("rows"),
            F.count_if("_offline").alias("went_offline"),
            F.count_if("_back").alias("came_back"),
        )
        .coalesce(1)
    )


def offline_timeline(found: DataFrame) -> DataFrame:
    """Return the number of Offline partitions at the end of each bucket with a change.

    ``most``: the largest number that may have been Offline at once in the bucket. ``went_offline``
    includes partitions that lost their leader together with the controller; they count at the next
    snapshot. ``found`` is the result of ``differences``.
    """
    # In snapshots a leader other than -1 means newly Offline, as in is_found_offline().
    is_new = ~F.col("is_snapshot") | (F.col("gained") > NO_LEADER)
    by_bucket = found.groupBy(*RUN, "epoch", "bucket_ms").agg(
        F.sum(F.when(is_new, F.col("went_offline"))).alias("went_offline"),
        F.sum("came_back").alias("came_back"),
        F.sum(F.col("went_offline") - F.col("came_back")).alias("_change"),
        F.bool_or(F.col("is_snapshot") | (F.col("went_offline") + F.col("came_back") > 0)).alias(
            "_has_change"
        ),
    )
    until = Window.partitionBy(*RUN, "epoch").orderBy("bucket_ms")
    return (
        by_bucket.where("_has_change")
        .withColumn("offline", F.sum("_change").over(until))
        .groupBy(*RUN, "bucket_ms")
        .agg(
            F.max_by("offline", "epoch").alias("offline"),
            F.max(F.col("offline") + F.col("came_back")).alias("most"),
            F.coalesce(F.sum("went_offline"), F.lit(0)).alias("went_offline"),
            F.sum("came_back").alias("came_back"),
        )
    )


def leaders_over_time(found: DataFrame) -> DataFrame:
    """Return the number of partitions that each broker led at the end of each bucket with a change.

    Broker -1: partitions without a leader. ``found`` is the result of ``differences``.
    """
    at = (*RUN, "epoch", "bucket_ms")
    gained = found.where("gained IS NOT NULL").select(
        *at, F.col("gained").alias("broker"), F.col("rows").alias("_change")
    )
    lost = found.where("lost IS NOT NULL").select(
        *at, F.col("lost").alias("broker"), (-F.col("rows")).alias("_change")
    )
    changes = gained.unionByName(lost)
    # A broker that a snapshot does not name leads no partition from then on.
    without_partitions = (
        found.where("is_snapshot")
        .select(*at)
        .distinct()
        .join(changes.select(*RUN, "broker").distinct(), list(RUN))
        .withColumn("_change", F.lit(0).cast("long"))
    )
    until = Window.partitionBy(*RUN, "epoch", "broker").orderBy("bucket_ms")
    return (
        changes.unionByName(without_partitions)
        .groupBy(*at, "broker")
        .agg(F.sum("_change").alias("_change"))
        .withColumn("leaders", F.sum("_change").over(until))
        .groupBy(*RUN, "bucket_ms", "broker")
        .agg(F.max_by("leaders", "epoch").alias("leaders"))
    )


def isr_churn(found: DataFrame, first_ms: int) -> DataFrame:
    """Return how often replicas of each broker left and joined an ISR, by bucket.

    Counted from ``first_ms`` on. ``found`` is the result of ``differences``.
    """
    has_left = F.col("has_left")
    return (
        by_broker(found.where(F.col("bucket_ms") >= first_ms), "bucket_ms", "rows")
        .groupBy(*RUN, "bucket_ms", "broker")
        .agg(
            F.sum(F.when(has_left, F.col("rows")).otherwise(0)).alias("shrinks"),
            F.sum(F.when(has_left, 0).otherwise(F.col("rows"))).alias("expands"),
        )
    )


def by_broker(found: DataFrame, *columns: str) -> DataFrame:
    """Return a row for each broker in ``left`` and ``joined``; ``has_left``: it is in ``left``."""
    return found.select(
        *RUN,
        *columns,
        F.size("left").alias("_left"),
        F.posexplode(F.concat("left", "joined")).alias("_at", "broker"),
    ).withColumn("has_left", F.col("_at") < F.col("_left"))


def _is_first_leadership() -> Column:
    return (is_kind(Kind.PARTITION_TRANSITION) & (F.col("from_state") == _NEW)) | (
        is_kind(LEADERSHIP_WRITTEN) & (F.col("zk_version") == 0)
    )
