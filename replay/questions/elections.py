"""Unclean elections, and flapping replicas, which leave and rejoin ISRs repeatedly.

Decided by rows that carry the previous ISR.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from klamm.replay.questions.columns import (
    AT,
    PARTITION,
    REPLICA,
    is_unclean,
    isr_added,
    isr_removed,
    moves_isr,
    partition_code,
)
from klamm.replay.questions.timeline import by_broker

FLAPS: Final = 5
FLAP_WINDOW_MS: Final = 300_000
"""A replica is flapping if it left and rejoined an ISR FLAPS times within this time.

A broker that repeatedly lags for 30 s (replica.lag.time.max.ms) is; a restarted broker is not.
"""
_BURST: Final = ("shrinks", "expands", "start_ms", "end_ms")


def unclean_elections(events: DataFrame) -> DataFrame:
    """Return the elections of leaders outside the ISR, with the previous leader and ISR."""
    return events.where(is_unclean()).select(
        *PARTITION,
        *("prev_leader", "leader", "leader_epoch", "prev_isr", "isr", "election"),
        *AT,
    )


def flap_suspects(
    events: DataFrame, flaps: int = FLAPS, window_ms: int = FLAP_WINDOW_MS
) -> DataFrame:
    """Return the ``code`` of each partition with a replica that may be flapping.

    Necessary condition: half of the needed departures are within half of a window. Rows are
    shuffled before they are counted: groups have one or two rows, so that a partial aggregation
    before the shuffle would save nothing.
    """
    left = events.where(moves_isr()).select(
        partition_code(), _half(window_ms), F.explode(isr_removed()).alias("replica")
    )
    return (
        left.repartition("code")
        .groupBy("code", "replica", "_half")
        .count()
        .where(F.col("count") >= -(-flaps // 2))
        .select("code")
        .distinct()
    )


def _half(window_ms: int) -> Column:
    return F.floor(F.col("t_ms") / (window_ms // 2)).alias("_half")


def flapping_replicas(
    events: DataFrame, flaps: int = FLAPS, window_ms: int = FLAP_WINDOW_MS
) -> DataFrame:
    """Return the replicas that left and joined an ISR at least ``flaps`` times in ``window_ms``.

    Windows overlap: one begins every ``window_ms`` / 2, counted from 1970. Each replica has one
    row, for the window with the most changes (the first of equal ones): ``shrinks`` and
    ``expands`` in it, and the times of the first and last change, ``start_ms`` and ``end_ms``.
    Only partitions that ``flap_suspects`` returns can have such a replica.
    """
    moves = (
        events.where(moves_isr())
        .withColumn("left", isr_removed())
        .select(*PARTITION, "t_ms", "left", isr_added(F.col("left")).alias("joined"))
    )
    by_half = (
        by_broker(moves, "topic", "partition", "t_ms")
        .withColumnRenamed("broker", "replica")
        .groupBy(*REPLICA, _half(window_ms))
        .agg(
            F.count_if("has_left").alias("shrinks"),
            F.count_if(~F.col("has_left")).alias("expands"),
            F.min("t_ms").alias("start_ms"),
            F.max("t_ms").alias("end_ms"),
        )
    )
    windows = F.explode(F.array(F.col("_half") - 1, F.col("_half")))
    changes = F.col("shrinks") + F.col("expands")
    return (
        by_half.withColumn("_window", windows)
        .groupBy(*REPLICA, "_window")
        .agg(
            *(F.sum(name).alias(name) for name in ("shrinks", "expands")),
            F.min("start_ms").alias("start_ms"),
            F.max("end_ms").alias("end_ms"),
        )
        .where((F.col("shrinks") >= flaps) & (F.col("expands") >= flaps))
        .groupBy(*REPLICA)
        .agg(F.max_by(F.struct(*_BURST), F.struct(changes, -F.col("_window"))).alias("_worst"))
        .select(*REPLICA, *(f"_worst.{name}" for name in _BURST))
    )
