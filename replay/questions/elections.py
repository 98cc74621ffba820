"""Elections of leaders that were not in sync, and replicas that leave and join ISRs all the time.

Rows that carry the ISR before them tell it alone.
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
"""A replica that left an ISR and came back so often in this time flaps: a broker that lags for the
30 s of replica.lag.time.max.ms again and again does, one that is started anew does not."""
_BURST: Final = ("shrinks", "expands", "start_ms", "end_ms")


def unclean_elections(events: DataFrame) -> DataFrame:
    """Leaders that were elected from outside the ISR, with the leader and the ISR before."""
    return events.where(is_unclean()).select(
        *PARTITION,
        *("prev_leader", "leader", "leader_epoch", "prev_isr", "isr", "election"),
        *AT,
    )


def flap_suspects(
    events: DataFrame, flaps: int = FLAPS, window_ms: int = FLAP_WINDOW_MS
) -> DataFrame:
    """``code`` of each partition of which a replica may flap: half of the replica's departures are
    in half of a window.

    A group is three numbers and moved before it is counted, as it has one row or two: all rows are
    looked through at little cost.
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
    """Replicas that left an ISR and joined it at least ``flaps`` times each within ``window_ms``.

    Windows begin every half of their length, from 1970 on: what fits into half of one is whole in
    another. A row for each replica, of the window with most changes, the first of several:
    ``shrinks`` and ``expands`` in it, ``start_ms`` and ``end_ms`` of the first and last of them.
    Only partitions that ``flap_suspects`` names can have one.
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
