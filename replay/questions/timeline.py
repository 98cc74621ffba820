"""The cluster over time: offline partitions, leaders by broker, and changes of ISRs, in buckets.

Rows that carry what came before them are differences, summed by bucket in one hash aggregation;
each epoch's snapshot is where counting begins anew. Its result has rows by buckets, epochs and
brokers, is in one piece, and is what all timelines are asked of.
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
    """The bucket of a row: its time, rounded down to ``width_ms`` from ``first_ms``; before, -1."""
    number = F.floor((F.col("t_ms") - first_ms) / width_ms)
    # All that was before is one bucket: where counting begins.
    return (F.greatest(number, F.lit(-1)) * width_ms + first_ms).alias("bucket_ms")


def width_of(first_ms: int, last_ms: int, buckets: int = BUCKETS) -> int:
    """How wide a bucket is, in ms, where there are ``buckets`` of them."""
    return max(1, -(-(last_ms - first_ms + 1) // buckets))


def differences(events: DataFrame, first_ms: int, width_ms: int) -> DataFrame:
    """What changed by bucket: a row for each (leader lost, leader gained, replicas that left the
    ISR, replicas that joined it) and how often.

    ``went_offline``, ``came_back``: partitions; in rows of a snapshot, which count from nothing,
    ``went_offline`` is how many are Offline.
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
    """How many partitions were Offline at the end of each bucket in which that changed, the most
    that may have been so at once (``most``), and how many went Offline and came back in it.

    Those that a snapshot found to have lost their leader with their controller went Offline by it.
    ``found`` is what ``differences`` gives.
    """
    # Rows of a snapshot are told apart by their leader, as is_found_offline() does.
    is_new = ~F.col("is_snapshot") | (F.col("gained") > NO_LEADER)
    by_bucket = found.groupBy(*RUN, "epoch", "bucket_ms").agg(
        F.sum(F.when(is_new, F.col("went_offline"))).alias("went_offline"),
        F.sum("came_back").alias("came_back"),
        F.sum(F.col("went_offline") - F.col("came_back")).alias("_change"),
        F.bool_or(F.col("is_snapshot") | (F.col("went_offline") + F.col("came_back") > 0)).alias(
            "_tells"
        ),
    )
    until = Window.partitionBy(*RUN, "epoch").orderBy("bucket_ms")
    return (
        by_bucket.where("_tells")
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
    """How many partitions each broker led at the end of each bucket in which that changed.

    Broker -1: partitions that have no leader. ``found`` is what ``differences`` gives.
    """
    at = (*RUN, "epoch", "bucket_ms")
    gained = found.where("gained IS NOT NULL").select(
        *at, F.col("gained").alias("broker"), F.col("rows").alias("_change")
    )
    lost = found.where("lost IS NOT NULL").select(
        *at, F.col("lost").alias("broker"), (-F.col("rows")).alias("_change")
    )
    changes = gained.unionByName(lost)
    # Whom a snapshot does not name leads nothing from then on.
    nobody = (
        found.where("is_snapshot")
        .select(*at)
        .distinct()
        .join(changes.select(*RUN, "broker").distinct(), list(RUN))
        .withColumn("_change", F.lit(0).cast("long"))
    )
    until = Window.partitionBy(*RUN, "epoch", "broker").orderBy("bucket_ms")
    return (
        changes.unionByName(nobody)
        .groupBy(*at, "broker")
        .agg(F.sum("_change").alias("_change"))
        .withColumn("leaders", F.sum("_change").over(until))
        .groupBy(*RUN, "bucket_ms", "broker")
        .agg(F.max_by("leaders", "epoch").alias("leaders"))
    )


def isr_churn(found: DataFrame, first_ms: int) -> DataFrame:
    """How often each broker left an ISR and joined one, by bucket, from ``first_ms`` on.

    ``found`` is what ``differences`` gives.
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
    """A row for each broker of ``left`` and ``joined``; ``has_left`` if it is one of ``left``."""
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
