"""The event table on disk: its directory layout and its manifest.

``events``, ``names`` and ``damaged`` are Parquet; ``manifest.json`` is written last, so that a
directory without it is not a table. Opens tables; computes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from klamm.cluster.errors import UsageError
from klamm.replay.encode import DOMAINS, PUBLISHED, STATES, state_word, word_of
from klamm.replay.event_schema import (
    CODED_SCHEMA,
    DAMAGED_SCHEMA,
    NAMES_SCHEMA,
    SCHEMA_VERSION,
)
from klamm.replay.whole_folder import FolderKind, whole_folder

EVENTS: Final = "events"
NAMES: Final = "names"
DAMAGED: Final = "damaged"
MANIFEST: Final = "manifest.json"

_KIND: Final = FolderKind(
    mark=MANIFEST,
    maker="ingest",
    if_there="--overwrite replaces an event table",
    if_other="is not an event table",
)


class FileSummary(msgspec.Struct, frozen=True):
    """A log file that was read; ``size`` in bytes, ``head_sha256`` of its first 64 KiB."""

    path: str
    size: int
    head_sha256: str


class OutOfOrder(msgspec.Struct, frozen=True):
    """The first place where the rows of a journal are not in the order they were written in.

    Rows of controller epoch ``epoch`` follow rows of epoch ``after`` there; both are equal if the
    rows inside one epoch are shuffled.
    """

    file: str
    line: int
    epoch: int
    after: int

    @property
    def words(self) -> str:
        """Describe the disorder, and that the replay is not affected by it."""
        if self.epoch == self.after:
            what = f"rows of epoch {self.epoch} are shuffled, from {self.file}:{self.line} on"
        else:
            what = f"epoch {self.epoch} follows epoch {self.after} at {self.file}:{self.line}"
        return f"{what}; replayed by sequence number"


class RunCoverage(msgspec.Struct, frozen=True):
    """How much of a run a source covers. Epochs are controller epochs, 0 if the source has none.

    ``missing``: number of ``seq`` values missing between the first and the last of each epoch;
    null if the source does not number its rows. ``repeated``: number of rows that have the epoch
    and seq of another row. ``out_of_order``: the first place where a journal is out of order.
    """

    run: str
    rows: int
    first_epoch: int
    last_epoch: int
    first_ms: int
    last_ms: int
    missing: int | None
    repeated: int | None
    out_of_order: OutOfOrder | None = None


class SourceSummary(msgspec.Struct, frozen=True):
    """What was read from one source. Durations are those of the Spark jobs, in seconds.

    ``kinds`` and ``damaged``: number of events by kind, and of damaged lines by problem.
    """

    source: str
    files: list[FileSummary]
    rows: int
    kinds: dict[str, int]
    damaged: dict[str, int]
    runs: list[RunCoverage]
    read_s: float
    predecessors_s: float | None = None


class Damaged(msgspec.Struct, frozen=True):
    """A line that could not be read: its place, the problem, and the start of its text."""

    file: str
    line: int
    problem: str
    text: str


class Manifest(msgspec.Struct, frozen=True):
    """The content of manifest.json: the schema version and a summary of each source."""

    schema_version: int
    sources: list[SourceSummary]

    @property
    def rows(self) -> int:
        """Number of rows of all sources."""
        return sum(source.rows for source in self.sources)


@dataclass(frozen=True, slots=True)
class EventTable:
    """Events (CODED_SCHEMA), the names behind their hashes, the damaged lines, the manifest."""

    events: DataFrame
    names: DataFrame
    damaged: DataFrame
    manifest: Manifest

    def in_words(self, rows: DataFrame, states: Sequence[str] = STATES) -> DataFrame:
        """Return rows with names instead of codes; ``states`` are the columns with state codes.

        Needs one join per hashed column: meant for results, not for all events.
        """
        for name in DOMAINS:
            if name in rows.columns:
                rows = _with_names(rows, self.names, name)
        words = {
            **{name: word_of(name, listed) for name, listed in PUBLISHED.items()},
            **{name: state_word(name) for name in states},
        }
        return rows.select(
            *(words[name].alias(name) if name in words else F.col(name) for name in rows.columns)
        )


def new_table_folder(folder: Path, *, overwrite: bool) -> AbstractContextManager[Path]:
    """Yield an empty directory that is renamed to ``folder`` on success; see ``whole_folder``."""
    return whole_folder(_KIND, Path(os.path.abspath(folder)), overwrite=overwrite)


def open_table(spark: SparkSession, folder: Path) -> EventTable:
    """Open the table in a directory. Raises UsageError if it is missing or incomplete."""
    manifest = read_manifest(folder)
    events = spark.read.schema(CODED_SCHEMA).parquet(str(folder / EVENTS))
    return EventTable(
        events.select(*CODED_SCHEMA.fieldNames()),
        spark.read.schema(NAMES_SCHEMA).parquet(str(folder / NAMES)),
        spark.read.schema(DAMAGED_SCHEMA).parquet(str(folder / DAMAGED)),
        manifest,
    )


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a table. Raises UsageError like ``open_table``."""
    path = folder / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise UsageError(
            f"{folder} is not an event table: it has no {MANIFEST}",
            hint="create one with klamm replay ingest; *.partial is an unfinished table",
        ) from None
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is damaged: {error}") from error
    if manifest.schema_version != SCHEMA_VERSION:
        raise UsageError(
            f"{folder} has schema version {manifest.schema_version}; this klamm reads version "
            f"{SCHEMA_VERSION}",
            hint="ingest the logs again",
        )
    return manifest


def is_table(folder: Path) -> bool:
    """Return whether a directory holds a complete table."""
    return (folder / MANIFEST).is_file()


def some_damaged(spark: SparkSession, folder: Path, at_most: int) -> list[Damaged]:
    """Return the first damaged lines of a table, by file and line."""
    rows = spark.read.schema(DAMAGED_SCHEMA).parquet(str(folder / DAMAGED))
    found = rows.orderBy("file", "line").limit(at_most).collect()
    return [Damaged(row.file, row.line, row.problem, row.text) for row in found]


def _with_names(rows: DataFrame, names: DataFrame, column: str) -> DataFrame:
    words = names.where(F.col("domain") == DOMAINS[column]).select(
        F.col("code").alias(column), F.col("name").alias("_word")
    )
    columns = [F.col("_word").alias(n) if n == column else F.col(n) for n in rows.columns]
    return rows.join(words, column, "left").select(*columns)
