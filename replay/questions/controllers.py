"""Controllers over time: epochs, failovers, epochs with two controllers, late writes.

One hash aggregation over all events gives a row for each epoch and controller. The other queries
use that result, which is small and in one Spark partition, so that they need no shuffle.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from klamm.cluster.journal import Kind
from klamm.replay.event_schema import (
    JOURNAL,
    LEADERSHIP_WRITTEN,
    SOURCES,
    ZOOKEEPER_LOG,
    code_of,
)
from klamm.replay.questions.columns import AT, PARTITION, RUN, is_kind, is_leadership

EPOCH: Final = (*RUN, "controller", "epoch")
_MARKS: Final = {
    "snapshot_ms": Kind.PARTITION_SNAPSHOT,
    "elected_ms": Kind.CONTROLLER_ELECTED,
    "ready_ms": Kind.CONTROLLER_READY,
    "resigned_ms": Kind.CONTROLLER_RESIGNED,
    "moved_ms": Kind.CONTROLLER_MOVED,
}
"""The time of each event in an epoch's life is that of its first row of this kind."""
IS_LATE: Final = "last_write_at > newer_at"
"""Condition: an epoch that wrote after a newer epoch began."""
IS_JOURNAL: Final = f"source = {code_of(JOURNAL, SOURCES)}"
_IS_ZOOKEEPER: Final = f"source = {code_of(ZOOKEEPER_LOG, SOURCES)}"


def epochs(events: DataFrame, from_ms: int | None = None) -> DataFrame:
    """Return a row for each epoch of each controller, with the times of election, readiness etc.

    ``rows``: number of rows at or after ``from_ms``; all other columns consider every row.
    ``last_write_at`` and ``newer_at`` (the first row of a newer epoch) are places in ZooKeeper's
    logs, which have a total order, and times in other logs. ``next_snapshot_ms``: the first
    snapshot of a newer epoch, which ends all states of this epoch.
    """
    at = F.when(F.expr(_IS_ZOOKEEPER), F.col("place")).otherwise(F.col("t_ms"))
    seq = F.when(F.expr(IS_JOURNAL), F.col("seq"))
    newer = Window.partitionBy(*RUN).orderBy("epoch").rangeBetween(1, Window.unboundedFollowing)
    return (
        events.groupBy(*EPOCH)
        .agg(
            F.count_if(F.lit(True) if from_ms is None else F.col("t_ms") >= from_ms).alias("rows"),
            F.min("t_ms").alias("first_ms"),
            F.max("t_ms").alias("last_ms"),
            F.min(at).alias("first_at"),
            F.max(F.when(is_write(), at)).alias("last_write_at"),
            *(
                F.min(F.when(is_kind(kind), F.col("t_ms"))).alias(name)
                for name, kind in _MARKS.items()
            ),
            F.min(seq).alias("first_seq"),
            F.max(seq).alias("last_seq"),
        )
        .coalesce(1)
        .select(
            *EPOCH,
            "rows",
            "first_ms",
            "last_ms",
            *_MARKS,
            *("first_seq", "last_seq"),
            "last_write_at",
            F.min("first_at").over(newer).alias("newer_at"),
            F.first("snapshot_ms", ignorenulls=True).over(newer).alias("next_snapshot_ms"),
            F.max("last_ms").over(Window.partitionBy(*RUN)).alias("run_last_ms"),
        )
    )


def failovers(found: DataFrame) -> DataFrame:
    """Return a row for each elected controller.

    ``silent_ms``: from the last row of any older epoch to the election; null if an older epoch has
    later rows, and for a second controller of an epoch. ``ready_after_ms``: from the election until
    the controller was ready. Null if the log does not have the row.
    """
    before = Window.partitionBy(*RUN).orderBy("epoch").rangeBetween(Window.unboundedPreceding, -1)
    silent_ms = F.col("elected_ms") - F.max("last_ms").over(before)
    is_first = F.col("elected_ms") == F.min("elected_ms").over(Window.partitionBy(*RUN, "epoch"))
    return found.where("epoch > 0 AND elected_ms IS NOT NULL").select(
        *EPOCH,
        "elected_ms",
        "ready_ms",
        (F.col("ready_ms") - F.col("elected_ms")).alias("ready_after_ms"),
        F.when(is_first & (silent_ms >= 0), silent_ms).alias("silent_ms"),
        "last_ms",
    )


def shared_epochs(found: DataFrame) -> DataFrame:
    """Return the epochs in which more than one controller acted."""
    return (
        found.where("epoch > 0 AND controller >= 0")
        .groupBy(*RUN, "epoch")
        .agg(
            F.sort_array(F.collect_set("controller")).alias("controllers"),
            F.min("first_ms").alias("first_ms"),
            F.max("last_ms").alias("last_ms"),
        )
        .where(F.size("controllers") > 1)
    )


def late_writes(events: DataFrame, found: DataFrame) -> DataFrame:
    """Return the writes of an epoch after a newer epoch began.

    "After" is ZooKeeper's order in its own logs, else the clocks of the two controllers. Only
    epochs that have late writes are searched.
    """
    late = found.where(IS_LATE).select(*EPOCH, "newer_at")
    at = F.when(F.expr(_IS_ZOOKEEPER), F.col("place")).otherwise(F.col("t_ms"))
    return (
        events.where(is_write())
        .join(F.broadcast(late), list(EPOCH))
        .where(at > F.col("newer_at"))
        .select(*PARTITION, "replica", "kind", "leader", "isr", *AT)
    )


def is_write() -> Column:
    """Condition: the row records a write of a state znode."""
    is_first = is_kind(Kind.PARTITION_TRANSITION)
    return is_kind(LEADERSHIP_WRITTEN) | (
        is_leadership()
        & ~is_kind(Kind.PARTITION_SNAPSHOT)
        & (is_first | F.col("prev_isr").isNotNull())
    )
