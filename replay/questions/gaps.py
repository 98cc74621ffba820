"""Rows that are missing: numbers of ``key_seq`` that no row of a key has in an epoch.

That some are missing is arithmetic on histories; where they are is asked of the keys that miss
some, whose rows alone are put in order. A lost tail of a history leaves no trace here.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from replay.questions.columns import HISTORY, REPLICA, replica_key


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
