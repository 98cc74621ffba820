"""Parquet files of an event table, one per task, written by Spark's Python workers as they read.

A worker encodes and writes its rows at once, so that no row passes through the JVM. A file is
created atomically and named by its task number, so that a repeated task replaces its own file.
Independent of the kind of log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from klamm.cluster.errors import KlammError
from klamm.replay.encode import CODED_ARROW, NAMES_ARROW, Encoder
from klamm.replay.event_schema import DAMAGED_SCHEMA, NAMES_SCHEMA
from klamm.replay.sources import Tasks

DAMAGED_ARROW: Final[pa.Schema] = to_arrow_schema(DAMAGED_SCHEMA)
COMPRESSION: Final = "zstd"
_SOURCE: Final = "source"
_EVENTS_ARROW: Final = CODED_ARROW.remove(CODED_ARROW.get_field_index(_SOURCE))
_GROUP_ROWS: Final = 1 << 17
_COUNTS: Final = "rows long, damaged long"
_FILE: Final = "{}-{:05d}.zstd.parquet"


class Folders(NamedTuple):
    """Output directories of one job; ``label`` is the prefix of its file names, since several jobs
    may share the directories."""

    label: str
    events: Path
    names: Path
    damaged: Path


class Written(NamedTuple):
    """The numbers of events and damaged lines written by one job."""

    rows: int
    damaged: int


def write_files(spark: SparkSession, found: Tasks | DataFrame, folders: Folders) -> Written:
    """Encode and store the rows of a source (READ_SCHEMA) in Spark's Python workers."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        name = _FILE.format(folders.label, context.partitionId())
        yield pa.RecordBatch.from_pylist([write_parts(batches, folders, name)._asdict()])

    if isinstance(found, Tasks):
        counts = found.run(spark, write, _COUNTS).collect()
    else:
        counts = found.mapInArrow(write, _COUNTS).collect()
    return Written(sum(at.rows for at in counts), sum(at.damaged for at in counts))


def write_parts(batches: Iterable[pa.RecordBatch], folders: Folders, name: str) -> Written:
    """Encode rows (READ_SCHEMA) and store them in files called ``name`` in the three directories.

    A file without rows is not created.
    """
    for folder in (folders.events, folders.names, folders.damaged):
        folder.mkdir(parents=True, exist_ok=True)
    encoder = Encoder()
    with (
        _File(folders.events / name, _EVENTS_ARROW) as events,
        _File(folders.damaged / name, DAMAGED_ARROW) as damaged,
        _File(folders.names / name, NAMES_ARROW) as names,
    ):
        for batch in batches:
            is_event = batch.column("problem").is_null()
            good = batch if is_event.true_count == batch.num_rows else batch.filter(is_event)
            if good.num_rows:
                events.write(encoder.code(good).drop_columns([_SOURCE]))
            if good.num_rows < batch.num_rows:
                bad = batch.filter(pc.invert(is_event))
                damaged.write(bad.select(DAMAGED_ARROW.names).cast(DAMAGED_ARROW))
        for batch in encoder.names().to_batches():
            names.write(batch)
    return Written(events.rows, damaged.rows)


class _File:
    """A Parquet file that is created with its first row, and gets its name when the block ends."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.rows = 0
        self._path = path
        self._schema = schema
        # Spark ignores files with names that start with an underscore.
        self._made = path.with_name(f"_{path.name}.{os.getpid()}")
        self._writer: pq.ParquetWriter | None = None
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._write_group()
        finally:
            if self._writer is not None:
                self._end(kind is None)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append some rows."""
        self._gathered.append(batch)
        self._gathered_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._gathered_rows >= _GROUP_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        if not self._gathered:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._made, self._schema, compression=COMPRESSION)
        self._writer.write_table(pa.Table.from_batches(self._gathered, self._schema))
        self._gathered, self._gathered_rows = [], 0

    def _end(self, is_whole: bool) -> None:
        assert self._writer is not None
        try:
            self._writer.close()
            if is_whole:
                self._made.replace(self._path)
        finally:
            self._made.unlink(missing_ok=True)


def write_names(spark: SparkSession, parts: Path, folder: Path) -> None:
    """Write the distinct names in ``parts`` to ``folder``, with one hash aggregation.

    Raises KlammError if two words of a column have the same hash.
    """
    united = (
        spark.read.schema(NAMES_SCHEMA)
        .parquet(str(parts))
        .groupBy("domain", "code")
        .agg(F.min("name").alias("name"), F.max("name").alias("other"))
    )
    seen = Observation()
    differ = F.when(F.col("name") != F.col("other"), F.struct("domain", "name", "other"))
    observed = united.observe(seen, F.max(differ).alias("twice"))
    observed.select(*NAMES_SCHEMA.fieldNames()).write.parquet(str(folder))
    twice = seen.get["twice"]
    if twice is not None:
        domain, one, other = twice
        raise KlammError(
            f"{domain} {one} and {domain} {other} have the same hash code",
            hint="ingest their logs into two separate event tables",
        )
