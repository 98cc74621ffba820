"""Where events come from: one file a kind of log, all of which yield the rows of one schema.

Says what a source is and helps it to make its rows; knows no kind of log.
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
"""What a source reads: an event, or a damaged line, which has ``problem`` and ``text``.

Of a damaged line only source, file and line mean something beside these.
"""
ARROW_SCHEMA: Final[pa.Schema] = to_arrow_schema(READ_SCHEMA)
"""READ_SCHEMA as Python workers hand it to Spark."""
TEXT_CHARACTERS: Final = 200
_DEFAULTS: Final[dict[str, Any]] = {
    "partition": -1,
    "replica": -1,
    "has_predecessors": False,
}


class SourceOptions(msgspec.Struct, frozen=True):
    """What the files do not say: ``timezone`` of local times, by its IANA name, and the name of
    the run where a source knows none (None: the folder's name, the chroot).

    Raises UsageError for a time zone that is none.
    """

    timezone: str | None = None
    run: str | None = None

    def __post_init__(self) -> None:
        if self.timezone is None:
            return
        try:
            ZoneInfo(self.timezone)
        # A name may also be that of a directory of zones, or lead out of theirs.
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise UsageError(
                f"there is no time zone {self.timezone!r}", hint="as Europe/Berlin, or UTC"
            ) from error


@dataclass(frozen=True, slots=True)
class Tasks:
    """Work that needs no other's: ``read`` yields the rows of a task, 0 <= n < ``count``, as Arrow
    by READ_SCHEMA, in whatever process it is called."""

    count: int
    read: Callable[[int], Iterator[pa.RecordBatch]]

    def run(
        self,
        spark: SparkSession,
        job: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: StructType | str,
    ) -> DataFrame:
        """What ``job`` makes of the rows, task by task, in Spark's Python workers."""

        def work(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            # What is imported stays: to look at it again and again is a fifth of the time.
            gc.freeze()
            taken = (n for batch in numbers for n in batch["id"].to_pylist())
            return job(batch for n in taken for batch in self.read(n))

        return spark.range(self.count, numPartitions=max(self.count, 1)).mapInArrow(work, schema)

    def rows(self, spark: SparkSession) -> DataFrame:
        """All rows by READ_SCHEMA, read when they are asked for."""
        return self.run(spark, iter, READ_SCHEMA)


Find = Callable[[SparkSession, Sequence[Path], SourceOptions], Tasks | DataFrame]


class Source(NamedTuple):
    """A kind of log.

    ``name`` is one of event_schema.SOURCES. ``recognizes``: is this file, whose first 64 KiB are
    given (as they stand in it), one of these logs? ``find``: lines of several such files by
    READ_SCHEMA, in one pass and with nothing computed yet; as tasks, unless rows of one file need
    those of others. ``has_predecessors``: its rows carry what came before them.
    ``unites_copies``: what several files hold is told once, so that equal ones may be given.
    """

    name: str
    has_predecessors: bool
    recognizes: Callable[[Path, bytes], bool]
    find: Find
    unites_copies: bool = False

    def read(self, spark: SparkSession, paths: Sequence[Path], options: SourceOptions) -> DataFrame:
        """The lines of several files by READ_SCHEMA."""
        found = self.find(spark, paths, options)
        return found.rows(spark) if isinstance(found, Tasks) else found


class SourceTables(NamedTuple):
    """Events by RAW_SCHEMA, damaged lines by DAMAGED_SCHEMA; asking both reads twice."""

    events: DataFrame
    damaged: DataFrame


def split(rows: DataFrame) -> SourceTables:
    """What a source read, events and damaged lines apart."""
    return SourceTables(
        rows.where(F.col("problem").isNull()).select(*RAW_SCHEMA.fieldNames()),
        rows.where(F.col("problem").isNotNull()).select(*DAMAGED_SCHEMA.fieldNames()),
    )


def event_batch(rows: int, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Events as Arrow: columns by name, each a list, an array or one value for all rows.

    Columns that are left out are null, or 0, "", -1 where READ_SCHEMA has no null.
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
    """Damaged lines of a file as Arrow."""
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
