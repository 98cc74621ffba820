"""What every partition and replica ended with, or had at a moment.

A state as of a moment is the final state of the rows up to it. Leaderships come from the last row
that says a leader; an ISR does not fit a hash aggregation's fixed-width buffer, which has its hash:
there are few different ones, and a dictionary of them tells them again.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replay.questions.columns import (
    NO_PARTITION,
    NO_REPLICA,
    PARTITION,
    REPLICA,
    is_leadership,
)


def as_of(
    events: DataFrame,
    time_ms: int | None = None,
    epoch: int | None = None,
    zxid: int | None = None,
) -> DataFrame:
    """Rows up to a time, to the end of a controller epoch, or to a transaction, itself included.

    Rows whose source tells no zxid are not among those up to one.
    """
    for name, last in (("t_ms", time_ms), ("epoch", epoch), ("zxid", zxid)):
        if last is not None:
            events = events.where(F.col(name) <= last)
    return events


def final_partitions(partitions: DataFrame, events: DataFrame) -> DataFrame:
    """State and leadership of each partition that is there; ``partitions`` is ``by_partition``.

    ``state`` is 0 where the source tells no states; a partition whose state znode was last seen
    deleted is left out.
    """
    last = partitions.where(F.coalesce(F.col("state") != NO_PARTITION, F.col("leader").isNotNull()))
    isrs = (
        events.where(is_leadership() & F.col("isr").isNotNull())
        .select(F.xxhash64("isr").alias("isr_code"), "isr")
        .distinct()
    )
    return last.join(isrs, "isr_code", "left").select(
        *PARTITION,
        F.coalesce("state", F.lit(0)).cast("byte").alias("state"),
        *("leader", "leader_epoch", "isr", "zk_version"),
        *("state_place", "leadership_place"),
    )


def final_replicas(replicas: DataFrame) -> DataFrame:
    """State of each replica that is there; ``replicas`` is ``by_replica``."""
    return replicas.where((F.col("replica") >= 0) & (F.col("state") != NO_REPLICA)).select(
        *REPLICA, "state", "state_place"
    )
