"""Duplicate rows, with equal (source, run, controller, epoch, seq): listing and removal.

Only journals number their rows. Epochs without duplicates are not searched. Of several copies, the
first by (file, line) is kept.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from klamm.replay.event_schema import CODED_SCHEMA
from klamm.replay.questions.controllers import EPOCH, IS_JOURNAL

_IDENTITY: Final = (*EPOCH, "seq")
_SAID: Final = tuple(
    name for name in CODED_SCHEMA.fieldNames() if name not in ("file", "line", *_IDENTITY)
)
_STRETCH_BITS: Final = 6
"""log2 of the numbers in a stretch: a long has a bit for each."""


def duplicates(events: DataFrame) -> DataFrame:
    """Return a row for each sequence number that occurs more than once.

    ``copies``: number of rows. ``file`` and ``line``: place of the first copy; ``copy_file`` and
    ``copy_line``: of the last. ``is_contradiction``: the copies differ.
    """
    place = F.struct("file", "line")
    said = F.xxhash64(*_SAID)
    return (
        events.join(F.broadcast(_doubtful(events)), list(EPOCH), "left_semi")
        .withColumn("_said", said)
        .groupBy(*_IDENTITY)
        .agg(
            F.count("*").alias("copies"),
            (F.min("_said") != F.max("_said")).alias("is_contradiction"),
        )
        .where("copies > 1")
        .select(*_IDENTITY, "copies", "is_contradiction")
        .join(events.select(*_IDENTITY, "file", "line"), list(_IDENTITY))
        .groupBy(*_IDENTITY, "copies", "is_contradiction")
        .agg(F.min(place).alias("_first"), F.max(place).alias("_last"))
        .select(
            *(*_IDENTITY, "copies", "is_contradiction", "_first.file", "_first.line"),
            F.col("_last.file").alias("copy_file"),
            F.col("_last.line").alias("copy_line"),
        )
    )


def _doubtful(events: DataFrame) -> DataFrame:
    """Return the epochs of journals that have duplicate numbers.

    For each stretch of 64 numbers, a bit set of the numbers present is compared with the row count.
    """
    seen = F.bit_or(F.expr("shiftleft(1L, CAST(seq & 63 AS INT))"))
    return (
        events.where(IS_JOURNAL)
        .groupBy(*EPOCH, F.shiftright("seq", _STRETCH_BITS).alias("_stretch"))
        .agg((F.count("*") - F.bit_count(seen)).alias("_repeated"))
        .where("_repeated > 0")
        .select(*EPOCH)
        .distinct()
    )


def without(events: DataFrame, repeated: DataFrame) -> DataFrame:
    """Return the events without duplicates; ``repeated`` is the result of ``duplicates``."""
    kept = repeated.select(*_IDENTITY, F.col("file").alias("_file"), F.col("line").alias("_line"))
    is_kept = F.col("_file").isNull() | (
        (F.col("_file") == F.col("file")) & (F.col("_line") == F.col("line"))
    )
    return events.join(kept, list(_IDENTITY), "left").where(is_kept).select(*events.columns)
