"""Options that every command on a running cluster takes, and how it prints values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from cli.client import SERVER_VARIABLE
from cluster.plain_text import harmless_line

Server = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help=f"Address of klamm's API. [default: {SERVER_VARIABLE}, data dir]"
    ),
]
DataDirectory = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Data directory of klamm up, where its address file is."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def print_json(value: object) -> None:
    """One JSON document, on lines of its own."""
    typer.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


def table_lines(rows: Sequence[Sequence[object]]) -> list[str]:
    """Rows as text in columns; the first row is the heading."""
    cells = [[harmless_line(str(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
