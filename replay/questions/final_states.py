"""Final states and leaderships of partitions and replicas, or those as of a moment.

The state as of a moment is the final state of the rows up to it. The pass over all events finds
only the place of a partition's last leadership; its content is joined when it is needed.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from klamm.replay.encode import state_word
from klamm.replay.questions.columns import (
    NO_PARTITION,
    NO_REPLICA,
    PARTITION,
    REPLICA,
    is_leadership,
)
from klamm.replay.questions.histories import by_partition, by_replica, histories

LEADERSHIP: Final = ("leader", "leader_epoch", "isr", "zk_version")


def as_of(
    events: DataFrame,
    time_ms: int | None = None,
    epoch: int | None = None,
    zxid: int | None = None,
) -> DataFrame:
    """Return the rows up to a time, a controller epoch or a transaction, all inclusive.

    With ``zxid``, rows of sources without zxids are dropped.
    """
    for name, last in (("t_ms", time_ms), ("epoch", epoch), ("zxid", zxid)):
        if last is not None:
            events = events.where(F.col(name) <= last)
    return events


def final_partitions(partitions: DataFrame, events: DataFrame) -> DataFrame:
    """Return state and leadership of each existing partition; ``partitions`` is ``by_partition``.

    ``state`` is 0 if the source has no states. Partitions with a deleted state znode are left out.
    """
    leaderships = events.where(is_leadership()).select(
        *PARTITION, F.col("place").alias("leadership_place"), *LEADERSHIP
    )
    # Two controllers of one epoch may both have a row at the same place.
    found = partitions.join(leaderships, [*PARTITION, "leadership_place"], "left").dropDuplicates(
        list(PARTITION)
    )
    is_there = F.coalesce(F.col("state") != NO_PARTITION, F.col("leader").isNotNull())
    return found.where(is_there).select(
        *PARTITION,
        F.coalesce("state", F.lit(0)).cast("byte").alias("state"),
        *LEADERSHIP,
        *("state_place", "leadership_place"),
    )


def final_replicas(replicas: DataFrame) -> DataFrame:
    """Return the state of each existing replica; ``replicas`` is the result of ``by_replica``."""
    return replicas.where((F.col("replica") >= 0) & (F.col("state") != NO_REPLICA)).select(
        *REPLICA, "state", "state_place"
    )


def final_tables(events: DataFrame, *cluster: str) -> tuple[DataFrame, DataFrame]:
    """Return the final partitions and replicas, with the names of their states.

    ``cluster``: columns that distinguish clusters; they come first in the result. Without them all
    runs are taken as one cluster.
    """
    if not cluster:
        events = events.withColumn("run", F.lit(0).cast("long"))
    replicas = by_replica(histories(events))
    partitions = final_partitions(by_partition(replicas), events)
    key, state = (*cluster, "topic", "partition"), state_word("state").alias("state")
    return (
        partitions.select(*key, state, *LEADERSHIP),
        final_replicas(replicas).select(*key, "replica", state),
    )
