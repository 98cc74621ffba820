"""Rows that are there twice, by (source, run, controller, epoch, seq): listed, and left out.

Only journals number their rows. Epochs that have no row twice are not looked into. Of several rows
the one that stands first by (file, line) is kept.
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
"""A stretch has as many numbers as a long has bits."""


def duplicates(events: DataFrame) -> DataFrame:
    """A row for each number that is there more than once: ``copies``, the place of the first, and
    that of the last as ``copy_file`` and ``copy_line``.

    ``is_contradiction``: the copies do not say the same.
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
    """Epochs of journals that have a number twice: in stretches of 64 numbers, of which bits tell
    which are there."""
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
    """Events of which each number is there once; ``repeated`` is what ``duplicates`` found."""
    kept = repeated.select(*_IDENTITY, F.col("file").alias("_file"), F.col("line").alias("_line"))
    is_kept = F.col("_file").isNull() | (
        (F.col("_file") == F.col("file")) & (F.col("_line") == F.col("line"))
    )
    return events.join(kept, list(_IDENTITY), "left").where(is_kept).select(*events.columns)
