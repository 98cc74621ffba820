"""Sources of events: one module per kind of log; all yield rows of READ_SCHEMA.

Defines what a source is, and helpers to build its rows; independent of the kind of log.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from klamm.cluster.errors import UsageError
from klamm.replay.event_schema import DAMAGED_SCHEMA, RAW_SCHEMA

READ_SCHEMA: Final = StructType(
    [
        *RAW_SCHEMA,
        StructField("problem", StringType(), nullable=True),
        StructField("text", StringType(), nullable=True),
    ]
)
"""The rows that a source reads: events, and damaged lines, which have ``problem`` and ``text``.

The other columns of a damaged line are meaningless, except source, file and line.
"""
ARROW_SCHEMA: Final[pa.Schema] = to_arrow_schema(READ_SCHEMA)
"""READ_SCHEMA in Arrow, as Python workers return it to Spark."""
TEXT_CHARACTERS: Final = 200
_DEFAULTS: Final[dict[str, Any]] = {
    "partition": -1,
    "replica": -1,
    "has_predecessors": False,
}


class SourceOptions(msgspec.Struct, frozen=True):
    """Information that log files do not contain.

    ``timezone``: IANA name of the zone of local times. ``run``: name of the run for sources that do
    not name one (None: the directory or the chroot). Raises UsageError for an unknown time zone.
    """

    timezone: str | None = None
    run: str | None = None

    def __post_init__(self) -> None:
        if self.timezone is None:
            return
        try:
            ZoneInfo(self.timezone)
        # The name may also be a directory of zones (ValueError, OSError) or a path outside.
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise UsageError(
                f"unknown time zone {self.timezone!r}", hint="for example Europe/Berlin or UTC"
            ) from error


@dataclass(frozen=True, slots=True)
class Tasks:
    """Independent read tasks, 0 <= n < ``count``.

    ``read`` yields the rows of task n as Arrow batches (READ_SCHEMA); it runs in any process.
    """

    count: int
    read: Callable[[int], Iterator[pa.RecordBatch]]

    def run(
        self,
        spark: SparkSession,
        job: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: StructType | str,
    ) -> DataFrame:
        """Apply ``job`` to the rows of each task in Spark's Python workers."""

        def work(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            # Exempt imported modules from garbage collection: scanning them takes a fifth of the
            # time.
            gc.freeze()
            taken = (n for batch in numbers for n in batch["id"].to_pylist())
            return job(batch for n in taken for batch in self.read(n))

        return spark.range(self.count, numPartitions=max(self.count, 1)).mapInArrow(work, schema)

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return all rows (READ_SCHEMA), read lazily."""
        return self.run(spark, iter, READ_SCHEMA)


Find = Callable[[SparkSession, Sequence[Path], SourceOptions], Tasks | DataFrame]


class Source(NamedTuple):
    """A kind of log.

    - ``name``: one of event_schema.SOURCES.
    - ``recognizes``: returns whether a file is such a log; takes its path and first 64 KiB.
    - ``find``: returns the lines of several files (READ_SCHEMA), read lazily in one pass; as tasks,
      unless rows of one file depend on those of others.
    - ``has_predecessors``: its rows carry the previous state and leadership.
    - ``unites_copies``: events that are in several files count once, so that copies are allowed.
    """

    name: str
    has_predecessors: bool
    recognizes: Callable[[Path, bytes], bool]
    find: Find
    unites_copies: bool = False

    def read(self, spark: SparkSession, paths: Sequence[Path], options: SourceOptions) -> DataFrame:
        """Return the lines of several files (READ_SCHEMA), read lazily."""
        found = self.find(spark, paths, options)
        return found.rows(spark) if isinstance(found, Tasks) else found


class SourceTables(NamedTuple):
    """Events (RAW_SCHEMA) and damaged lines (DAMAGED_SCHEMA); each of them reads the files."""

    events: DataFrame
    damaged: DataFrame


def split(rows: DataFrame) -> SourceTables:
    """Split the rows of a source into events and damaged lines."""
    return SourceTables(
        rows.where(F.col("problem").isNull()).select(*RAW_SCHEMA.fieldNames()),
        rows.where(F.col("problem").isNotNull()).select(*DAMAGED_SCHEMA.fieldNames()),
    )


def event_batch(rows: int, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Build an Arrow batch of events; each column is a list, an array or one value for all rows.

    Missing columns are null, or 0, "" or -1 if READ_SCHEMA does not allow null.
    """
    arrays = []
    for field in ARROW_SCHEMA:
        values = columns.get(field.name, _default(field))
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if isinstance(values, pa.Array):
            arrays.append(values if values.type == field.type else values.cast(field.type))
        elif isinstance(values, list):
            arrays.append(pa.array(values, field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(values, field.type), rows))
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


class Damaged(NamedTuple):
    """A line that could not be read."""

    line: int
    problem: str
    text: str


def damaged_batch(source: str, file: str, lines: Sequence[Damaged]) -> pa.RecordBatch:
    """Build an Arrow batch of the damaged lines of a file."""
    columns = {
        "source": source,
        "file": file,
        "line": [at.line for at in lines],
        "problem": [at.problem for at in lines],
        "text": [at.text[:TEXT_CHARACTERS] for at in lines],
    }
    return event_batch(len(lines), columns)


def _default(field: pa.Field) -> Any:
    if field.nullable:
        return None
    return _DEFAULTS.get(field.name, "" if pa.types.is_string(field.type) else 0)
