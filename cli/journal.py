"""`klamm journal`: shows the journal of a cluster that is running or has ended."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from klamm.cli.client import ServerClient, find_server, server_variable
from klamm.cli.command_loading import command_group
from klamm.cli.options import print_lines
from klamm.cli.server_options import DataDirectory, Server
from klamm.cluster.errors import KlammError
from klamm.cluster.journal import JOURNAL_FILE, JournalRow, parse_row
from klamm.server.data_dir import default_data_dir, is_held, read_address
from klamm.server.journal_tail import JournalPage, JournalPart, last_rows, rows_after, torn_line
from klamm.world.explain.journal_text import EventNames, row_text

FOLLOW_INTERVAL_S = 0.3
WARNINGS_SHOWN = 10

app = command_group(
    help="Show the journal of a cluster.",
    epilog="""
\b
Examples:
  klamm journal tail -n 50
  klamm journal tail -f --json --data-dir ./rehearsal
""",
)


class FileSource:
    """The journal in a data directory, read from its file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def last(self, count: int) -> JournalPart:
        """Read the last rows of the file."""
        return last_rows(self.path, count)

    def after(self, place: int) -> JournalPart:
        """Read the rows after ``place``, the position that the previous read returned."""
        return rows_after(self.path, place)


class ServerSource:
    """The journal of a running cluster, read over HTTP."""

    def __init__(self, client: ServerClient) -> None:
        self.client = client

    def last(self, count: int) -> JournalPart:
        """Request the last rows from the server."""
        return self._page(f"/journal?last={count}")

    def after(self, place: int) -> JournalPart:
        """Request the rows after ``place``, the position that the previous request returned."""
        return self._page(f"/journal?after={place}")

    def _page(self, path: str) -> JournalPart:
        page = msgspec.json.decode(self.client.request("GET", path), type=JournalPage)
        return JournalPart([bytes(row) for row in page.rows], page.next, page.damaged)


JournalSource = FileSource | ServerSource
"""A source from which a journal is read in parts."""


@app.command()
def tail(
    count: Annotated[
        int, typer.Option("-n", "--lines", min=0, max=10_000, help="Number of rows.")
    ] = 20,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Print new rows as they are written.")
    ] = False,
    server: Server = None,
    data_dir: DataDirectory = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the rows as JSON, unchanged.")
    ] = False,
) -> None:
    """Print the last rows of the journal.

    The rows come from the server if --server is given, otherwise from the file in the data
    directory, which remains when the cluster has ended. Times are local.
    """
    source = journal_source(server, data_dir, os.environ)
    torn: tuple[str, ...] = ()
    if isinstance(source, FileSource) and not writer_of(source.path).is_running:
        ended = f"warning: the cluster of {source.path} has ended: these are its last rows"
        typer.echo(ended, err=True)
        torn = torn_line(source.path)
    names = EventNames()
    warnings = DamageWarnings()
    part = source.last(count)
    while True:
        warnings.show((*part.damaged, *torn))
        print_lines(line.decode() if json else row_line(line, names) for line in part.lines)
        if not follow:
            return
        if not part.lines:
            time.sleep(FOLLOW_INTERVAL_S)
        part = source.after(part.next)


def journal_source(
    server: str | None, data_dir: Path | None, environ: Mapping[str, str]
) -> JournalSource:
    """Return the source of the journal: a file or a server.

    The journal file in the data directory is used unless a server is given explicitly. Raises
    EnvironmentProblem if there is neither.
    """
    path = (data_dir or default_data_dir(environ)) / JOURNAL_FILE
    if server is None and server_variable(data_dir, environ) is None and path.exists():
        return FileSource(path)
    return ServerSource(find_server(server, data_dir, environ))


class Writer(NamedTuple):
    """Whether a running klamm writes a journal, and the URL of its HTTP API if it has one."""

    is_running: bool
    url: str | None


def writer_of(path: Path) -> Writer:
    """Return who writes a journal.

    Ask the server itself: server.json is left behind if klamm is killed, and the process id in it
    may be reused.
    """
    folder = path.parent.absolute()
    is_own = path.name == JOURNAL_FILE
    try:
        if is_own and read_address(folder) is not None:
            status = find_server(None, folder, {}).status()
            if status.data_dir == str(folder):
                return Writer(True, status.url)
    except KlammError:
        pass  # it does not respond; the lock says whether it runs
    return Writer(is_own and is_held(folder), None)


class DamageWarnings:
    """Prints one warning per damaged line or file, up to a limit."""

    def __init__(self) -> None:
        self._shown: set[str] = set()

    def show(self, damaged: Iterable[str]) -> None:
        """Print the warnings about damaged lines and files to standard error."""
        for damage in damaged:
            if damage not in self._shown and len(self._shown) <= WARNINGS_SHOWN:
                self._shown.add(damage)
                is_last = len(self._shown) > WARNINGS_SHOWN
                more = "; further damage is not shown" if is_last else ""
                typer.echo(f"warning: the journal is damaged: {damage}{more}", err=True)


def valid_row(line: bytes) -> JournalRow:
    """Return the row in a line from a source, which has skipped damaged lines.

    Raises KlammError if the source is a server that sent something else.
    """
    row = parse_row(line)
    if isinstance(row, str):
        raise KlammError(f"not a journal row: {line[:60]!r}")
    return row


def row_line(line: bytes, names: EventNames) -> str:
    """Format a line of the journal as text. Raises KlammError for a malformed line."""
    row = msgspec.to_builtins(valid_row(line))
    names.see(row)
    return row_text(row, names)
