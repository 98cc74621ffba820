"""Elections of leaders that were not in sync, and replicas that leave and join ISRs all the time.

Rows that carry the ISR before them tell it alone; which replica flaps is asked of the partitions
that histories flag.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replay.questions.columns import AT, PARTITION, REPLICA, is_unclean
from replay.questions.timeline import isr_changes

FLAPS: Final = 3
"""A replica that left an ISR and came back this often flaps."""


def unclean_elections(events: DataFrame) -> DataFrame:
    """Leaders that were elected from outside the ISR, with the leader and the ISR before."""
    return events.where(is_unclean()).select(
        *PARTITION,
        *("prev_leader", "leader", "leader_epoch", "prev_isr", "isr", "election"),
        *AT,
    )


def flapping_replicas(events: DataFrame, partitions: DataFrame, flaps: int = FLAPS) -> DataFrame:
    """Replicas that left an ISR and joined it at least ``flaps`` times each.

    ``partitions`` is histories' table: only partitions with so many changes are looked at.
    """
    flagged = partitions.where((F.col("shrinks") >= flaps) & (F.col("expands") >= flaps))
    return (
        isr_changes(
            events.join(flagged.select(*PARTITION), list(PARTITION), "left_semi"),
            "topic",
            "partition",
        )
        .groupBy(*PARTITION, F.col("broker").alias("replica"))
        .agg(F.count_if("left").alias("shrinks"), F.count_if(~F.col("left")).alias("expands"))
        .where((F.col("shrinks") >= flaps) & (F.col("expands") >= flaps))
        .select(*REPLICA, "shrinks", "expands")
    )
