"""Elections of leaders that were not in sync, and replicas that leave and join ISRs all the time.

Rows that carry the ISR before them tell it alone.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replay.questions.columns import (
    AT,
    PARTITION,
    REPLICA,
    is_unclean,
    isr_added,
    isr_removed,
    moves_isr,
)
from replay.questions.timeline import by_broker

FLAPS: Final = 3
"""A replica that left an ISR and came back this often flaps."""


def unclean_elections(events: DataFrame) -> DataFrame:
    """Leaders that were elected from outside the ISR, with the leader and the ISR before."""
    return events.where(is_unclean()).select(
        *PARTITION,
        *("prev_leader", "leader", "leader_epoch", "prev_isr", "isr", "election"),
        *AT,
    )


def flapping_replicas(events: DataFrame, flaps: int = FLAPS) -> DataFrame:
    """Replicas that left an ISR and joined it at least ``flaps`` times each."""
    moves = events.where(moves_isr()).select(
        *PARTITION, isr_removed().alias("left"), isr_added().alias("joined")
    )
    return (
        by_broker(moves, "topic", "partition")
        .groupBy(*PARTITION, F.col("broker").alias("replica"))
        .agg(
            F.count_if("has_left").alias("shrinks"),
            F.count_if(~F.col("has_left")).alias("expands"),
        )
        .where((F.col("shrinks") >= flaps) & (F.col("expands") >= flaps))
        .select(*REPLICA, "shrinks", "expands")
    )
