"""Opening the input of a command: an event table, or logs ingested into a temporary one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from klamm.cluster.errors import UsageError
from klamm.replay.event_table import EventTable, is_table, open_table, read_manifest
from klamm.replay.follow import check_followed
from klamm.replay.ingest import ingest
from klamm.replay.progress import Progress
from klamm.replay.sources import SourceOptions
from klamm.replay.sources.registry import SourceFiles, find_files
from klamm.replay.spark_cluster import is_local, is_loopback

_PREFIX: Final = "klamm-replay-"
_NAMED: Final = 3
SMALL_BYTES: Final = 32 << 20
SMALL_ROWS: Final = 100_000
"""Limits of a small input, for which Spark skips compilation: ``spark_session(is_small=True)``."""


class Input(NamedTuple):
    """What to read: the directory of an event table, or log files.

    ``name``: the absolute paths, as in the places of answers. ``is_small``: so few rows that
    generating and compiling code for them costs more than it saves.
    """

    name: str
    table: Path | None
    found: Sequence[SourceFiles]
    is_small: bool


def are_small(found: Sequence[SourceFiles]) -> bool:
    """Return whether logs are so short that compiling code for them costs more than it saves."""
    return sum(files.size for files in found) <= SMALL_BYTES


def look_at(paths: Sequence[Path]) -> Input:
    """Determine what the paths contain, without Spark. Raises UsageError for unusable paths."""
    named = ", ".join(str(path.absolute()) for path in paths[:_NAMED])
    name = named + (", .." if len(paths) > _NAMED else "")
    tables = [path for path in paths if is_table(path)]
    if not tables:
        for path in paths:
            check_followed(path)
        found = find_files(paths)
        return Input(name, None, found, are_small(found))
    if len(paths) > 1:
        raise UsageError(
            f"{tables[0]} is an event table; it cannot be combined with other paths",
            hint="ingest all logs into one event table",
        )
    return Input(name, tables[0], (), read_manifest(tables[0]).rows <= SMALL_ROWS)


@contextmanager
def opened(
    spark: SparkSession, given: Input, options: SourceOptions, progress: Progress
) -> Iterator[EventTable]:
    """Open the event table, or ingest the logs into a temporary one that ends with the block.

    Raises UsageError for logs with a remote Spark master, KlammError like ``ingest``.
    """
    if given.table is not None:
        yield open_table(spark, given.table)
        return
    master = str(spark.sparkContext.master)
    if not is_local(master) and not is_loopback(master):
        raise UsageError(
            f"{given.name} is not an event table, and workers of {master} cannot read a temporary "
            "one on this machine",
            hint="run klamm replay ingest with --out on storage that all workers share",
        )
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        ingest(spark, given.found, Path(folder), options, progress)
        yield open_table(spark, Path(folder))
