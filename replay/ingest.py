"""Logs of any kind into one event table: read, coded, completed, stored, counted.

Each file is read once. What the sources are is told by their registry; questions are asked
elsewhere.
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
from klamm.replay.spark_errors import told_in_one_line

_STAGED: Final = "staged"
_Read = tuple[SourceFiles, float, float | None]
"""Files of one kind, and how many seconds it took to read them and to find predecessors."""


def make_table(
    spark: SparkSession,
    paths: Sequence[Path],
    folder: Path,
    *,
    options: SourceOptions | None = None,
    overwrite: bool = False,
) -> Manifest:
    """Make the event table ``folder`` of the logs under ``paths``.

    Raises UsageError for paths and folders that will not do, KlammError if it cannot be made;
    nothing is left behind then.
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
    """Fill an empty directory with a table of the files that were found.

    Raises KlammError if Spark or the disk fails, and if there is no event in all the files.
    """
    with told_in_one_line(folder):
        stored = [_store(spark, files, folder, options, progress) for files in found]
        with progress.step(spark, "name the codes"):
            write_names(spark, folder / _STAGED / NAMES, folder / NAMES)
        with progress.step(spark, "count"):
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
        # What a source has kept to be read twice.
        spark.catalog.clearCache()
    read_s = progress.elapsed_s[title]
    if source.has_predecessors:
        return files, read_s, None
    title = f"find what came before in {source.name}"
    with progress.step(spark, title):
        before = add_predecessors(_stored_events(spark, folder / _STAGED, first))
        before.drop("source").write.option("compression", COMPRESSION).parquet(str(events))
    return files, read_s, progress.elapsed_s[title]


def _stored_events(spark: SparkSession, base: Path, folder: Path) -> DataFrame:
    """Events of one source as they are stored, ``source`` being the name of their directory."""
    reader = spark.read.schema(CODED_SCHEMA).option("basePath", str(base))
    return reader.parquet(str(folder)).select(*CODED_SCHEMA.fieldNames())


def describe(spark: SparkSession, folder: Path, read: Sequence[_Read]) -> Manifest:
    """The manifest of a table that is whole but for it."""
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
        f"no event in {files} files",
        hint=f"damaged lines: {said}" if said else "they hold nothing about partitions",
    )
