"""`klamm journal`: shows journal.jsonl of a running cluster, or of one that has ended."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from klamm.cli.client import ServerClient, find_server, server_variable
from klamm.cli.command_loading import command_group
from klamm.cli.journal_text import EventNames, row_text
from klamm.cli.options import DataDirectory, Server
from klamm.cluster.errors import KlammError
from klamm.server.data_dir import JOURNAL_FILE, default_data_dir
from klamm.server.journal_tail import JournalPage, JournalPart, last_rows, rows_after

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
    """The journal in a data directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def last(self, count: int) -> JournalPart:
        """Read the last rows of the file."""
        return last_rows(self._path, count)

    def after(self, place: int) -> JournalPart:
        """Read the rows that follow a position."""
        return rows_after(self._path, place)


class ServerSource:
    """The journal of a running cluster, over HTTP."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client

    def last(self, count: int) -> JournalPart:
        """Request the last rows."""
        return self._page(f"/journal?last={count}")

    def after(self, place: int) -> JournalPart:
        """Request the rows that follow a position."""
        return self._page(f"/journal?after={place}")

    def _page(self, path: str) -> JournalPart:
        page = msgspec.json.decode(self._client.request("GET", path), type=JournalPage)
        return JournalPart([bytes(row) for row in page.rows], page.next, page.damaged)


JournalSource = FileSource | ServerSource
"""A journal, read in parts."""


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
    """Print the last rows of the journal: from the server if --server is given, else from the
    file in the data directory, which is kept when the cluster ends."""
    source = journal_source(server, data_dir, os.environ)
    names = EventNames()
    warnings = DamageWarnings()
    part = source.last(count)
    while True:
        warnings.show(part)
        for line in part.lines:
            typer.echo(line.decode() if json else row_line(line, names))
        if not follow:
            return
        if not part.lines:
            time.sleep(FOLLOW_INTERVAL_S)
        part = source.after(part.next)


def journal_source(
    server: str | None, data_dir: Path | None, environ: Mapping[str, str]
) -> JournalSource:
    """Return the server or the file to read the journal from.

    A file in the data directory comes before a server that is not given explicitly. Raises
    EnvironmentProblem if neither is found.
    """
    path = (data_dir or default_data_dir(environ)) / JOURNAL_FILE
    if not server and not server_variable(data_dir, environ) and path.exists():
        return FileSource(path)
    return ServerSource(find_server(server, data_dir, environ))


class DamageWarnings:
    """Prints one warning per damaged line or file, up to a limit."""

    def __init__(self) -> None:
        self._shown: set[str] = set()

    def show(self, part: JournalPart) -> None:
        """Print warnings on standard error."""
        for damage in part.damaged:
            if damage not in self._shown and len(self._shown) <= WARNINGS_SHOWN:
                self._shown.add(damage)
                is_last = len(self._shown) > WARNINGS_SHOWN
                more = "; further damage is not shown" if is_last else ""
                typer.echo(f"warning: the journal is damaged: {damage}{more}", err=True)


def row_line(line: bytes, names: EventNames) -> str:
    """Format a line of the journal as text. Raises KlammError for a malformed line."""
    try:
        row = msgspec.json.decode(line, type=dict[str, Any])
        names.see(row)
        return row_text(row, names)
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise KlammError(f"not a row of a journal: {line[:60]!r}") from error
