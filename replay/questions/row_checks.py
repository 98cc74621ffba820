"""Gaps in the row numbers of partitions and replicas, and illegal or failed transitions.

A transition is judged by its row alone; see replay/questions/columns.py.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from klamm.replay.questions.columns import (
    AT,
    FAILURES,
    HISTORY,
    REPLICA,
    is_illegal,
    is_kind,
    replica_key,
)


def gap_places(events: DataFrame, replicas: DataFrame) -> DataFrame:
    """Return the gaps of some partitions and replicas, with their places and ``missing`` rows.

    ``replicas``: their keys. ``after_*``: the row before the gap, null if the first rows are lost.
    ``before_*``: the row after the gap.
    """
    rows = (
        events.where(F.col("key_seq").isNotNull() & F.col("topic").isNotNull())
        .withColumn("replica", replica_key())
        .join(replicas.select(*REPLICA), list(REPLICA), "left_semi")
        .select(*HISTORY, "key_seq", "file", "line", "t_ms")
    )
    order = Window.partitionBy(*HISTORY).orderBy("key_seq", "file", "line")
    before = {name: F.lag(name).over(order) for name in ("key_seq", "file", "line", "t_ms")}
    missing = F.col("key_seq") - F.coalesce("after_key_seq", F.lit(0)) - 1
    return (
        rows.select(
            *rows.columns, *(column.alias(f"after_{name}") for name, column in before.items())
        )
        .withColumn("missing", missing)
        .where("missing > 0")
        .select(
            *HISTORY,
            "missing",
            *("after_key_seq", "after_file", "after_line", "after_t_ms"),
            *(F.col(name).alias(f"before_{name}") for name in ("key_seq", "file", "line", "t_ms")),
        )
    )


def illegal_transitions(events: DataFrame) -> DataFrame:
    """Return the transitions that the state machines do not allow, with file and line."""
    return events.where(is_illegal()).select(*REPLICA, "from_state", "to_state", *AT)


def is_failure_or_illegal() -> Column:
    """Condition: the row is an illegal or a failed transition."""
    return is_illegal() | is_kind(*FAILURES)


def failed_transitions(events: DataFrame) -> DataFrame:
    """Return the transitions that failed; ``outcome`` is the reason."""
    return events.where(is_kind(*FAILURES)).select(
        *REPLICA, "from_state", "to_state", "election", "outcome", *AT
    )
