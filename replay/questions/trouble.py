"""Topics and brokers ranked by their number of problems, from the counts of other questions."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from klamm.replay.questions.columns import RUN

_COUNTED: Final = (
    "rows",
    "missing",
    "illegal",
    "failed",
    "unclean",
    "shrinks",
    "offlines",
    "offline_ms",
)
_TROUBLE: Final = ("missing", "illegal", "failed", "unclean", "shrinks", "offlines")


def topics_by_trouble(partitions: DataFrame) -> DataFrame:
    """Return the counts of each topic; ``trouble`` is the sum of the counts that are problems."""
    return (
        partitions.groupBy(*RUN, "topic")
        .agg(*(F.sum(name).alias(name) for name in _COUNTED))
        .withColumn("trouble", _sum(_TROUBLE))
    )


def brokers_by_trouble(replicas: DataFrame, churn: DataFrame) -> DataFrame:
    """Return the counts of each broker's replicas and their ISR shrinks; ``trouble``: the sum."""
    own = ("missing", "illegal", "failed")
    none = F.lit(0).cast("long")
    of_replicas = replicas.select(
        *RUN, F.col("replica").alias("broker"), *own, none.alias("shrinks")
    )
    left = churn.select(*RUN, "broker", *(none.alias(name) for name in own), "shrinks")
    return (
        of_replicas.unionByName(left)
        .groupBy(*RUN, "broker")
        .agg(*(F.sum(name).alias(name) for name in (*own, "shrinks")))
        .withColumn("trouble", _sum((*own, "shrinks")))
    )


def _sum(names: tuple[str, ...]) -> Column:
    total = F.lit(0)
    for name in names:
        total = total + F.col(name)
    return total
