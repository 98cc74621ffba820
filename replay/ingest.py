"""Logs of any kind into one event table: read, coded, completed, stored, counted.

Each file is read once. What the sources are is told by their registry; questions are asked
elsewhere.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from cluster.errors import KlammError
from replay.coverage import kinds_of, runs_of
from replay.encode import check_names, names_of, with_words
from replay.event_schema import (
    CODED_SCHEMA,
    DAMAGED_SCHEMA,
    NAMES_SCHEMA,
    SCHEMA_VERSION,
    SOURCES,
    code_of,
)
from replay.event_table import DAMAGED, EVENTS, MANIFEST, NAMES, Manifest, SourceSummary
from replay.predecessors import add_predecessors
from replay.progress import Progress
from replay.sources import SourceOptions, split
from replay.sources.registry import SourceFiles, find_files
from replay.spark_errors import told_in_one_line
from replay.table_folder import new_table_folder

_STAGED: Final = "staged"
_COMPRESSION: Final = "zstd"
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
        _empty(spark, DAMAGED_SCHEMA).write.parquet(str(folder / DAMAGED))
        stored = [_store(spark, files, folder, options, progress) for files in found]
        with progress.step(spark, "name the codes"):
            store_names(spark, [at.with_words for at in stored], folder)
        with progress.step(spark, "count"):
            read = [(at.files, at.read_s, at.predecessors_s) for at in stored]
            manifest = describe(spark, folder, read)
    if not manifest.rows:
        raise _nothing_read(manifest)
    shutil.rmtree(folder / _STAGED, ignore_errors=True)
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    return manifest


class _Stored(NamedTuple):
    """What is on disk of one source, and the durations of its jobs."""

    files: SourceFiles
    with_words: Path
    read_s: float
    predecessors_s: float | None


def _store(
    spark: SparkSession,
    files: SourceFiles,
    folder: Path,
    options: SourceOptions,
    progress: Progress,
) -> _Stored:
    source, paths, _ = files
    partition = f"source={code_of(source.name, SOURCES)}"
    events = folder / EVENTS / partition
    first = events if source.has_predecessors else folder / _STAGED / partition
    title = f"read {source.name}"
    with progress.step(spark, title):
        rows = source.read(spark, paths, options)
        damaged = store_events(rows, first).damaged_files
        if damaged:
            if source.is_by_file:
                again = [path for path in paths if str(path) in damaged]
                rows = source.read(spark, again, options)
            split(rows).damaged.write.mode("append").parquet(str(folder / DAMAGED))
        # What a source has kept to be read twice.
        spark.catalog.clearCache()
    read_s = progress.elapsed_s[title]
    if source.has_predecessors:
        return _Stored(files, first, read_s, None)
    title = f"find what came before in {source.name}"
    with progress.step(spark, title):
        staged = _stored_events(spark, folder / _STAGED, first)
        _write(add_predecessors(staged), events)
    return _Stored(files, first, read_s, progress.elapsed_s[title])


class StoredRows(NamedTuple):
    """How many events were stored, and in which files lines are damaged."""

    rows: int
    damaged_files: set[str]


def store_events(rows: DataFrame, folder: Path) -> StoredRows:
    """Write the events among what a source has read, with the words of their hashes; one pass."""
    seen = Observation()
    is_damaged = F.col("problem").isNotNull()
    observed = rows.observe(
        seen,
        F.count_if(~is_damaged).alias("rows"),
        F.collect_set(F.when(is_damaged, F.col("file"))).alias("files"),
    )
    _write(with_words(split(observed).events), folder)
    return StoredRows(seen.get["rows"], set(seen.get["files"]))


def _write(events: DataFrame, folder: Path) -> None:
    events.drop("source").write.option("compression", _COMPRESSION).parquet(str(folder))


def _stored_events(spark: SparkSession, base: Path, folder: Path) -> DataFrame:
    """Events of one source as they are stored, ``source`` being the name of their directory."""
    reader = spark.read.schema(CODED_SCHEMA).option("basePath", str(base))
    return reader.parquet(str(folder)).select(*CODED_SCHEMA.fieldNames())


def store_names(spark: SparkSession, folders: Sequence[Path], folder: Path) -> None:
    """Write the names of what is stored with its words. Raises KlammError for two of one code."""
    stored = spark.read.parquet(*map(str, folders))
    names_of(stored).write.parquet(str(folder / NAMES))
    check_names(spark.read.schema(NAMES_SCHEMA).parquet(str(folder / NAMES)))


def describe(spark: SparkSession, folder: Path, read: Sequence[_Read]) -> Manifest:
    """The manifest of a table that is whole but for it."""
    events = spark.read.schema(CODED_SCHEMA).parquet(str(folder / EVENTS))
    names = spark.read.schema(NAMES_SCHEMA).parquet(str(folder / NAMES))
    damaged = spark.read.schema(DAMAGED_SCHEMA).parquet(str(folder / DAMAGED))
    kinds, runs = kinds_of(events), runs_of(events, names)
    problems = damaged.groupBy("source", "problem").count().orderBy("problem").collect()
    return Manifest(
        SCHEMA_VERSION,
        [
            SourceSummary(
                source=(name := files.source.name),
                files=files.summaries,
                rows=sum(kinds.get(name, {}).values()),
                kinds=kinds.get(name, {}),
                damaged={row.problem: row["count"] for row in problems if row.source == name},
                runs=runs.get(name, []),
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


def _empty(spark: SparkSession, schema: StructType) -> DataFrame:
    return spark.createDataFrame([], schema)
