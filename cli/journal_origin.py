"""The journal that a command reads: its file, its rows, and the cluster that writes it.

A journal outlives its cluster, so a reader must be able to tell old rows from current rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from klamm.cli.journal import (
    DamageWarnings,
    FileSource,
    JournalSource,
    ServerSource,
    journal_source,
    valid_row,
    writer_of,
)
from klamm.cluster.counting import counted
from klamm.cluster.errors import UsageError
from klamm.cluster.journal import JOURNAL_FILE, JournalRow
from klamm.server.journal_tail import torn_line
from klamm.world.explain.journal_text import time_zone

JournalFile = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="journal.jsonl or its directory. [default: the cluster's journal]",
    ),
]


class JournalOrigin(msgspec.Struct, frozen=True):
    """A journal and the rows that were read from it: their number, and the range of their times.

    ``is_written``: a running klamm writes the journal. If not, its cluster has ended, or the file
    is a copy. ``cluster`` is the URL of that klamm, or None if it has no HTTP API.
    """

    path: str
    cluster: str | None
    is_written: bool
    row_count: int
    first_ms: int | None
    last_ms: int | None

    @property
    def text(self) -> str:
        """The origin as one line of text."""
        rows = counted(self.row_count, "row")
        if self.first_ms is not None and self.last_ms is not None:
            rows += f" from {_time(self.first_ms)} to {_time(self.last_ms)} {time_zone()}"
        if self.cluster is not None:
            return f"Journal: {self.path}, {rows}; its cluster runs at {self.cluster}"
        who = "a" if self.is_written else "no"
        return f"Journal: {self.path}, {rows}; {who} running klamm writes to this file"


class CountedRows:
    """The rows of a journal, counted while they are read.

    ``is_written`` means the same as in JournalOrigin. ``origin`` describes the rows of the
    last complete pass through the journal.
    """

    def __init__(self, source: JournalSource) -> None:
        self.path, self._cluster, self.is_written = _origin_of(source)
        self._source = source
        self._warnings = DamageWarnings()
        self._count = 0
        self._first_ms: int | None = None
        self._last_ms: int | None = None

    def rows(self) -> Iterator[JournalRow]:
        """Yield the rows from first to last; print warnings about damaged lines.

        Raises UsageError at the end if the journal has no rows.
        """
        count, first_ms, last_ms = 0, None, None
        part = self._source.after(0)
        while part.lines:
            self._warnings.show(part.damaged)
            count += len(part.lines)
            for line in part.lines:
                row = valid_row(line)
                first_ms = row.t_ms if first_ms is None else min(first_ms, row.t_ms)
                last_ms = row.t_ms if last_ms is None else max(last_ms, row.t_ms)
                yield row
            part = self._source.after(part.next)
        if not count:
            raise UsageError(
                f"{self.path} has no journal rows",
                hint="klamm up writes the journal to journal.jsonl in its data directory",
            )
        self._warnings.show(part.damaged)
        if isinstance(self._source, FileSource) and not self.is_written:
            self._warnings.show(torn_line(self._source.path))
        self._count, self._first_ms, self._last_ms = count, first_ms, last_ms

    @property
    def origin(self) -> JournalOrigin:
        """The journal, and which of its rows were read."""
        times = self._first_ms, self._last_ms
        return JournalOrigin(self.path, self._cluster, self.is_written, self._count, *times)


def chosen_source(journal: Path | None, server: str | None, data_dir: Path | None) -> JournalSource:
    """Return the source for a command's options: a given file, or the cluster's journal."""
    if journal is None:
        return journal_source(server, data_dir, os.environ)
    if server is not None or data_dir is not None:
        raise UsageError("give either --journal, or --server or --data-dir, but not both")
    if journal.suffix in (".gz", ".zst"):
        raise UsageError(
            f"--journal does not read compressed files: {journal}",
            hint="give journal.jsonl or its directory, to read its rotated files too",
        )
    if journal.is_dir():
        journal /= JOURNAL_FILE
    if not journal.is_file():
        what = f"not a file: {journal}" if journal.exists() else f"no such journal: {journal}"
        raise UsageError(what, hint="klamm up writes journal.jsonl")
    return FileSource(journal)


def _origin_of(source: JournalSource) -> tuple[str, str | None, bool]:
    """Return ``path``, ``cluster`` and ``is_written`` of the JournalOrigin.

    Raises KlammError if the journal is read from a server that does not respond.
    """
    if isinstance(source, ServerSource):
        status = source.client.status()
        return f"{status.data_dir}/{JOURNAL_FILE}", status.url, True
    writer = writer_of(source.path)
    return str(source.path), writer.url, writer.is_running


def _time(t_ms: int) -> str:
    return datetime.fromtimestamp(t_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
