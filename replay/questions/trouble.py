"""Which topics and brokers had the most trouble, by what histories and timelines have counted."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from replay.questions.columns import RUN

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
    """Topics and what happened to them; ``trouble`` is the sum of all that should not happen."""
    return (
        partitions.groupBy(*RUN, "topic")
        .agg(*(F.sum(name).alias(name) for name in _COUNTED))
        .withColumn("trouble", _sum(_TROUBLE))
    )


def brokers_by_trouble(replicas: DataFrame, churn: DataFrame) -> DataFrame:
    """Brokers, what happened to their replicas, and how often these left an ISR."""
    left = churn.groupBy(*RUN, "broker").agg(F.sum("shrinks").alias("shrinks"))
    own = replicas.groupBy(*RUN, F.col("replica").alias("broker")).agg(
        *(F.sum(name).alias(name) for name in ("missing", "illegal", "failed"))
    )
    names = ("missing", "illegal", "failed", "shrinks")
    return (
        own.join(left, [*RUN, "broker"], "full_outer")
        .na.fill(0, list(names))
        .withColumn("trouble", _sum(names))
        .select(*RUN, "broker", *names, "trouble")
    )


def _sum(names: tuple[str, ...]) -> Column:
    total = F.lit(0)
    for name in names:
        total = total + F.col(name)
    return total
