"""Ingest: read logs of any kind into one event table (`klamm replay ingest`).

Rows are read, coded, given their predecessors, stored and counted; each file is read once. The
kinds of logs are those of sources/registry.py.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from pyspark.sql import DataFrame, SparkSession

from klamm.cluster.errors import KlammError
from klamm.replay.coverage import coverage_of
from klamm.replay.event_files import COMPRESSION, Folders, write_files, write_names
from klamm.replay.event_schema import (
    CODED_SCHEMA,
    DAMAGED_SCHEMA,
    SCHEMA_VERSION,
    SOURCES,
    code_of,
)
from klamm.replay.event_table import (
    DAMAGED,
    EVENTS,
    MANIFEST,
    NAMES,
    Manifest,
    SourceSummary,
    new_table_folder,
)
from klamm.replay.predecessors import add_predecessors
from klamm.replay.progress import Progress
from klamm.replay.sources import SourceOptions
from klamm.replay.sources.registry import SourceFiles, find_files
from klamm.replay.spark_errors import one_line_errors

_STAGED: Final = "staged"
_Read = tuple[SourceFiles, float, float | None]
"""Files of one kind, and the seconds it took to read them and to find predecessors."""


def make_table(
    spark: SparkSession,
    paths: Sequence[Path],
    folder: Path,
    *,
    options: SourceOptions | None = None,
    overwrite: bool = False,
) -> Manifest:
    """Create the event table ``folder`` from the logs under ``paths``.

    Raises UsageError for unusable paths or an unusable folder, KlammError if the table cannot be
    created; ``folder`` is unchanged then.
    """
    found = find_files(paths)
    with new_table_folder(folder, overwrite=overwrite) as partial:
        return ingest(spark, found, partial, options or SourceOptions(), Progress(quiet=True))


def ingest(
    spark: SparkSession,
    found: Sequence[SourceFiles],
    folder: Path,
    options: SourceOptions,
    progress: Progress,
) -> Manifest:
    """Fill an empty directory with the event table of the given files.

    Raises KlammError if Spark or the disk fails, and if the files contain no event.
    """
    with one_line_errors(folder):
        stored = [_store(spark, files, folder, options, progress) for files in found]
        with progress.step(spark, "write names"):
            write_names(spark, folder / _STAGED / NAMES, folder / NAMES)
        with progress.step(spark, "count events"):
            manifest = describe(spark, folder, stored)
    if not manifest.rows:
        raise _nothing_read(manifest)
    shutil.rmtree(folder / _STAGED, ignore_errors=True)
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    return manifest


def _store(
    spark: SparkSession,
    files: SourceFiles,
    folder: Path,
    options: SourceOptions,
    progress: Progress,
) -> _Read:
    source, paths, _ = files
    partition = f"source={code_of(source.name, SOURCES)}"
    events = folder / EVENTS / partition
    first = events if source.has_predecessors else folder / _STAGED / partition
    folders = Folders(source.name, first, folder / _STAGED / NAMES, folder / DAMAGED)
    title = f"read {source.name}"
    with progress.step(spark, title):
        write_files(spark, source.find(spark, paths, options), folders)
        # Sources may cache rows that they read twice.
        spark.catalog.clearCache()
    read_s = progress.elapsed_s[title]
    if source.has_predecessors:
        return files, read_s, None
    title = f"find predecessors in {source.name}"
    with progress.step(spark, title):
        before = add_predecessors(_stored_events(spark, folder / _STAGED, first))
        before.drop("source").write.option("compression", COMPRESSION).parquet(str(events))
    return files, read_s, progress.elapsed_s[title]


def _stored_events(spark: SparkSession, base: Path, folder: Path) -> DataFrame:
    """Return the stored events of one source; the column ``source`` is a partition directory."""
    reader = spark.read.schema(CODED_SCHEMA).option("basePath", str(base))
    return reader.parquet(str(folder)).select(*CODED_SCHEMA.fieldNames())


def describe(spark: SparkSession, folder: Path, read: Sequence[_Read]) -> Manifest:
    """Return the manifest of a table that is complete except for its manifest."""
    events = spark.read.schema(CODED_SCHEMA).parquet(str(folder / EVENTS))
    covered = coverage_of(events, folder / NAMES)
    damaged = spark.read.schema(DAMAGED_SCHEMA).parquet(str(folder / DAMAGED))
    problems = damaged.groupBy("source", "problem").count().orderBy("problem").collect()
    return Manifest(
        SCHEMA_VERSION,
        [
            SourceSummary(
                source=(name := files.source.name),
                files=files.summaries,
                rows=sum(covered.kinds.get(name, {}).values()),
                kinds=covered.kinds.get(name, {}),
                damaged={row.problem: row["count"] for row in problems if row.source == name},
                runs=covered.runs.get(name, []),
                read_s=round(read_s, 3),
                predecessors_s=None if predecessors_s is None else round(predecessors_s, 3),
            )
            for files, read_s, predecessors_s in read
        ],
    )


def _nothing_read(manifest: Manifest) -> KlammError:
    files = sum(len(source.files) for source in manifest.sources)
    problems = Counter[str]()
    for source in manifest.sources:
        problems.update(source.damaged)
    said = ", ".join(f"{problem}: {count}" for problem, count in problems.most_common(5))
    return KlammError(
        f"no events found in {files} files",
        hint=f"damaged lines: {said}" if said else "the files say nothing about partitions",
    )
