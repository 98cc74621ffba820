"""What every partition and replica ended with, or had at a moment.

A state as of a moment is the final state of the rows up to it. Of leaderships the pass over all
rows finds the place of the last row that says one; what it says is looked up when it is asked.
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
    leaderships = events.where(is_leadership()).select(
        *PARTITION, F.col("place").alias("leadership_place"), *LEADERSHIP
    )
    # Two controllers of one epoch may both have a row at a place.
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
    """State of each replica that is there; ``replicas`` is ``by_replica``."""
    return replicas.where((F.col("replica") >= 0) & (F.col("state") != NO_REPLICA)).select(
        *REPLICA, "state", "state_place"
    )


def final_tables(events: DataFrame, *cluster: str) -> tuple[DataFrame, DataFrame]:
    """What partitions and replicas end with, their states in words.

    ``cluster`` are columns that tell clusters apart, if there may be several; they come first.
    Without them the events are those of one cluster, in as many runs as there are.
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
