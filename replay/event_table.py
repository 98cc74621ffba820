"""A stored event table: what is in its directory, and how a whole one is told from a partial one.

``events``, ``names`` and ``damaged`` are Parquet; ``manifest.json`` is written last, so that a
directory without one is not a table. Opens and describes; computes nothing.
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
    if_other="is no event table",
)


class FileSummary(msgspec.Struct, frozen=True):
    """A file that was read: ``head_sha256`` is that of its first 64 KiB."""

    path: str
    size: int
    head_sha256: str


class OutOfOrder(msgspec.Struct, frozen=True):
    """Where a journal's rows begin that belong before others: those of ``epoch`` stand after one
    of the epoch ``after``, which is the same where an epoch's own rows are mixed up."""

    file: str
    line: int
    epoch: int
    after: int

    @property
    def words(self) -> str:
        """What is wrong, and that it does no harm."""
        if self.epoch == self.after:
            what = f"rows of epoch {self.epoch} are mixed up, from {self.file}:{self.line} on"
        else:
            what = f"epoch {self.epoch} stands after epoch {self.after} at {self.file}:{self.line}"
        return f"{what}; read in the order of their numbers"


class RunCoverage(msgspec.Struct, frozen=True):
    """How much of a run a source tells. Epochs are those of controllers, 0 where none is told.

    ``missing``: how many numbers of ``seq`` are not there between the first and the last of each
    epoch; null where a source counts nothing. ``repeated``: rows with an epoch and seq that
    another row has. ``out_of_order``: the first place where a journal is not in order.
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
    """What one source gave. Durations are those of the Spark jobs."""

    source: str
    files: list[FileSummary]
    rows: int
    kinds: dict[str, int]
    damaged: dict[str, int]
    runs: list[RunCoverage]
    read_s: float
    predecessors_s: float | None = None


class Damaged(msgspec.Struct, frozen=True):
    """A line that could not be read: where, why, and how it begins."""

    file: str
    line: int
    problem: str
    text: str


class Manifest(msgspec.Struct, frozen=True):
    """manifest.json."""

    schema_version: int
    sources: list[SourceSummary]

    @property
    def rows(self) -> int:
        """Rows of all sources."""
        return sum(source.rows for source in self.sources)


@dataclass(frozen=True, slots=True)
class EventTable:
    """Events by CODED_SCHEMA, the words of their hashes, and the lines that could not be read."""

    events: DataFrame
    names: DataFrame
    damaged: DataFrame
    manifest: Manifest

    def in_words(self, rows: DataFrame, states: Sequence[str] = STATES) -> DataFrame:
        """Rows with words instead of codes; ``states`` are the columns with codes of states.

        A join with the names for each hashed column: meant for results, not for all events.
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
    """An empty directory that becomes ``folder``; see ``whole_folder``."""
    return whole_folder(_KIND, Path(os.path.abspath(folder)), overwrite=overwrite)


def open_table(spark: SparkSession, folder: Path) -> EventTable:
    """The table in a directory. Raises UsageError if there is none, or only a part of one."""
    manifest = read_manifest(folder)
    events = spark.read.schema(CODED_SCHEMA).parquet(str(folder / EVENTS))
    return EventTable(
        events.select(*CODED_SCHEMA.fieldNames()),
        spark.read.schema(NAMES_SCHEMA).parquet(str(folder / NAMES)),
        spark.read.schema(DAMAGED_SCHEMA).parquet(str(folder / DAMAGED)),
        manifest,
    )


def read_manifest(folder: Path) -> Manifest:
    """A table's manifest. Raises UsageError as ``open_table`` does."""
    path = folder / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise UsageError(
            f"{folder} is no event table: it has no {MANIFEST}",
            hint="klamm replay ingest makes one; a directory *.partial is what was not finished",
        ) from None
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is damaged: {error}") from error
    if manifest.schema_version != SCHEMA_VERSION:
        raise UsageError(
            f"{folder} has schema version {manifest.schema_version}, this klamm reads "
            f"{SCHEMA_VERSION}",
            hint="ingest the logs again",
        )
    return manifest


def is_table(folder: Path) -> bool:
    """True for a directory that a whole table is in."""
    return (folder / MANIFEST).is_file()


def some_damaged(spark: SparkSession, folder: Path, at_most: int) -> list[Damaged]:
    """The first damaged lines of a table, by file and line."""
    rows = spark.read.schema(DAMAGED_SCHEMA).parquet(str(folder / DAMAGED))
    found = rows.orderBy("file", "line").limit(at_most).collect()
    return [Damaged(row.file, row.line, row.problem, row.text) for row in found]


def _with_names(rows: DataFrame, names: DataFrame, column: str) -> DataFrame:
    words = names.where(F.col("domain") == DOMAINS[column]).select(
        F.col("code").alias(column), F.col("name").alias("_word")
    )
    columns = [F.col("_word").alias(n) if n == column else F.col(n) for n in rows.columns]
    return rows.join(words, column, "left").select(*columns)
