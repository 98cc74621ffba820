"""What a table's events cover: how many of each kind, and how much of each run.

Whole-number aggregations over stored events; results are one row a run.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from replay.event_schema import JOURNAL, KINDS, SOURCES, code_of
from replay.event_table import RunCoverage

_EPOCH: Final = ("source", "run", "controller", "epoch")


def kinds_of(events: DataFrame) -> dict[str, dict[str, int]]:
    """How many events of each kind there are, by source and kind, in the published order."""
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for row in events.groupBy("source", "kind").count().orderBy("source", "kind").collect():
        counts[SOURCES[row.source - 1]][str(KINDS[row.kind - 1])] = row["count"]
    return counts


def runs_of(events: DataFrame, names: DataFrame) -> dict[str, list[RunCoverage]]:
    """The runs of each source. Rows are counted by their epochs' ``seq`` in journals."""
    seq = F.when(F.col("source") == code_of(JOURNAL, SOURCES), F.col("seq"))
    epochs = events.groupBy(*_EPOCH).agg(
        F.count("*").alias("rows"),
        F.min("t_ms").alias("first_ms"),
        F.max("t_ms").alias("last_ms"),
        F.min(seq).alias("first"),
        F.max(seq).alias("last"),
        F.sum(seq).alias("sum"),
        F.bit_xor(seq).alias("xor"),
    )
    numbers = F.col("last") - F.col("first") + 1
    is_plain = (
        (F.col("rows") == numbers)
        & (F.col("sum") == (F.col("first") + F.col("last")) * numbers / 2)
        & (F.col("xor") == _xor_up_to(F.col("last")).bitwiseXOR(_xor_up_to(F.col("first") - 1)))
    )
    epochs = epochs.withColumn("is_plain", is_plain).persist()
    try:
        # Which numbers are there twice is only asked where they do not add up.
        doubtful = epochs.where(~F.col("is_plain")).select(*_EPOCH)
        distinct = (
            events.join(F.broadcast(doubtful), list(_EPOCH), "left_semi")
            .groupBy(*_EPOCH)
            .agg(F.count_distinct("seq").alias("distinct"))
        )
        different = F.coalesce("distinct", "rows")
        runs = (
            epochs.join(distinct, list(_EPOCH), "left")
            .groupBy("source", "run")
            .agg(
                F.sum("rows").alias("rows"),
                F.coalesce(F.min(F.when(F.col("epoch") > 0, F.col("epoch"))), F.lit(0)).alias(
                    "first_epoch"
                ),
                F.max("epoch").alias("last_epoch"),
                F.min("first_ms").alias("first_ms"),
                F.max("last_ms").alias("last_ms"),
                F.sum(numbers - different).alias("missing"),
                F.sum(F.when(F.col("last").isNotNull(), F.col("rows") - different)).alias(
                    "repeated"
                ),
            )
        )
        return _told(runs, names)
    finally:
        epochs.unpersist()


def _xor_up_to(number: Column) -> Column:
    """1 xor 2 xor ... xor number, of which only the last two bits need a look."""
    rest = number.bitwiseAND(F.lit(3))
    return (
        F.when(rest == 0, number)
        .when(rest == 1, F.lit(1))
        .when(rest == 2, number + 1)
        .otherwise(F.lit(0))
    )


def _told(runs: DataFrame, names: DataFrame) -> dict[str, list[RunCoverage]]:
    words = names.where("domain = 'run'").select(F.col("code").alias("run"), "name")
    told: dict[str, list[RunCoverage]] = defaultdict(list)
    for row in runs.join(words, "run", "left").orderBy("source", "first_ms", "name").collect():
        fields = row.asDict()
        source, _, name = SOURCES[fields.pop("source") - 1], fields.pop("run"), fields.pop("name")
        told[source].append(RunCoverage(run=name, **fields))
    return told
