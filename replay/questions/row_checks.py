"""Rows that are missing by the numbers of their key, and rows of illegal or failed transitions.

Whether a row is illegal is decided by what it says alone: replay/questions/columns.py.
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
    """Each gap of some partitions and replicas: between which rows, and how many it swallowed.

    ``replicas`` has their keys. ``after_*`` is the row before the gap, null where the first rows
    are lost.
    """
    rows = (
        events.where(F.col("key_seq").isNotNull() & F.col("topic").isNotNull())
        .withColumn("replica", replica_key())
        .join(replicas.select(*REPLICA), list(REPLICA), "left_semi")
        .select(*HISTORY, "key_seq", "file", "line", "t_ms")
    )
    order = Window.partitionBy(*HISTORY).orderBy("key_seq", "file", "line")
    before = {name: F.lag(name).over(order) for name in ("key_seq", "file", "line", "t_ms")}
    swallowed = F.col("key_seq") - F.coalesce("after_key_seq", F.lit(0)) - 1
    return (
        rows.select(
            *rows.columns, *(column.alias(f"after_{name}") for name, column in before.items())
        )
        .withColumn("missing", swallowed)
        .where("missing > 0")
        .select(
            *HISTORY,
            "missing",
            *("after_key_seq", "after_file", "after_line", "after_t_ms"),
            *(F.col(name).alias(f"before_{name}") for name in ("key_seq", "file", "line", "t_ms")),
        )
    )


def illegal_transitions(events: DataFrame) -> DataFrame:
    """Transitions that the product's state machines do not have, with their file and line."""
    return events.where(is_illegal()).select(*REPLICA, "from_state", "to_state", *AT)


def tells_legality() -> Column:
    """True for rows that are listed here."""
    return is_illegal() | is_kind(*FAILURES)


def failed_transitions(events: DataFrame) -> DataFrame:
    """Transitions that were tried and refused; ``outcome`` tells why."""
    return events.where(is_kind(*FAILURES)).select(
        *REPLICA, "from_state", "to_state", "election", "outcome", *AT
    )
