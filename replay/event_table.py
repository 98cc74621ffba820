"""The event table on disk: its directory layout and its manifest.

The subdirectories ``events``, ``names`` and ``damaged`` contain Parquet files. ``manifest.json`` is
written last; a directory without it is not a table. This module only opens tables.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from klamm.cluster.counting import counted
from klamm.cluster.errors import UsageError
from klamm.replay.encode import DOMAINS, WORDS, word_of
from klamm.replay.engines import Engine, Row, rows
from klamm.replay.event_schema import (
    CODED_SCHEMA,
    DAMAGED_SCHEMA,
    NAMES_SCHEMA,
    SCHEMA_VERSION,
)
from klamm.replay.locations import is_remote
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
    """A log file that was read. ``size``: in bytes. ``head_sha256``: hash of its first 64 KiB."""

    path: str
    size: int
    head_sha256: str


class OutOfOrder(msgspec.Struct, frozen=True):
    """The first place at which the rows of a journal are out of order.

    At ``line``, a row of controller epoch ``epoch`` follows a row of epoch ``after``. Both epochs
    are the same if rows within an epoch are out of order.
    """

    file: str
    line: int
    epoch: int
    after: int

    @property
    def words(self) -> str:
        """Message that names the rows out of order, and the order in which rows are replayed."""
        if self.epoch == self.after:
            what = f"rows of epoch {self.epoch} are out of order, from {self.file}:{self.line} on"
        else:
            what = f"epoch {self.epoch} follows epoch {self.after} at {self.file}:{self.line}"
        return f"{what}; replayed in order of sequence numbers"


class RunCoverage(msgspec.Struct, frozen=True):
    """What the logs of one kind contain about a run, and how many of its rows are lost.

    A run is a cluster, a log directory or a chroot. ``first_epoch`` and ``last_epoch`` are
    controller epochs, 0 if the logs do not contain any.

    - ``missing``: number of sequence numbers that are missing, from 1 to the last of each epoch;
      null if the rows have no sequence numbers.
    - ``repeated``: number of rows with the epoch and sequence number of an earlier row.
    - ``out_of_order``: first line of a journal that is out of order.
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
    """What was read from the logs of one kind.

    ``kinds``: number of events by kind. ``damaged``: number of damaged lines by problem. ``read_s``
    and ``predecessors_s``: seconds it took to read the files, and to add previous states.
    """

    source: str
    files: list[FileSummary]
    rows: int
    kinds: dict[str, int]
    damaged: dict[str, int]
    runs: list[RunCoverage]
    read_s: float
    predecessors_s: float | None = None

    @property
    def words(self) -> str:
        """Number of events, and of files unless the table was generated without files."""
        events = counted(self.rows, "event")
        return f"{events} from {counted(len(self.files), 'file')}" if self.files else events


class Manifest(msgspec.Struct, frozen=True):
    """The content of manifest.json: the schema version, and a summary for each kind of log."""

    schema_version: int
    sources: list[SourceSummary]

    @property
    def rows(self) -> int:
        """Total number of rows from all logs."""
        return sum(source.rows for source in self.sources)


@dataclass(frozen=True, slots=True)
class EventTable:
    """An open event table: a query engine, the names of three SQL relations, and the manifest.

    The relations are ``events`` (in CODED_SCHEMA), ``names`` (the string of each hash), and
    ``damaged`` (lines that could not be read).
    """

    engine: Engine
    events: str
    names: str
    damaged: str
    manifest: Manifest

    def in_words(self, sql: str) -> str:
        """Return SQL for the result of ``sql`` with strings instead of codes and hashes.

        Joins the names once per hashed column, which is too slow for all events of a large table.
        """
        columns = self.engine.columns(sql)
        shown, joins = [], []
        for number, name in enumerate(columns):
            if name in DOMAINS:
                shown.append(f"n{number}.name AS {name}")
                joins.append(
                    f"LEFT JOIN {self.names} AS n{number} ON n{number}.domain = '{DOMAINS[name]}' "
                    f"AND n{number}.code = r.{name}"
                )
            else:
                word = word_of(f"r.{name}", WORDS[name]) if name in WORDS else f"r.{name}"
                shown.append(f"{word} AS {name}")
        return f"SELECT {', '.join(shown)} FROM ({sql}) AS r {' '.join(joins)}"


def new_table_folder(folder: Path, *, overwrite: bool) -> AbstractContextManager[Path]:
    """Context manager that yields a directory for a table, renamed to ``folder`` on success."""
    target = folder if is_remote(folder) else Path(os.path.abspath(folder))
    return whole_folder(_KIND, target, overwrite=overwrite)


def open_table(engine: Engine, folder: Path) -> EventTable:
    """Open the table in a directory. Raises UsageError if it is missing or incomplete."""
    manifest = read_manifest(folder)
    return EventTable(
        engine,
        engine.files(folder / EVENTS, CODED_SCHEMA),
        engine.files(folder / NAMES, NAMES_SCHEMA),
        engine.files(folder / DAMAGED, DAMAGED_SCHEMA),
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


def some_damaged(engine: Engine, folder: Path, at_most: int) -> list[Row]:
    """Return the first ``at_most`` damaged lines of a table, ordered by file and line."""
    damaged = engine.files(folder / DAMAGED, DAMAGED_SCHEMA)
    columns = "file, line, problem, text"
    return rows(engine, f"SELECT {columns} FROM {damaged} ORDER BY file, line LIMIT {at_most}")
