"""Options common to all commands on a running cluster, and printing of JSON and tables."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Concatenate

import msgspec
import typer

from klamm.cli.client import SERVER_VARIABLE, ServerClient, find_server
from klamm.cluster.plain_text import harmless_line

Server = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help=f"Address of klamm's API. [default: {SERVER_VARIABLE}, data dir]"
    ),
]
DataDirectory = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Data directory of klamm up."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_SERVER_OPTIONS = tuple(
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
    for name, kind, default in (
        ("server", Server, None),
        ("data_dir", DataDirectory, None),
        ("json", AsJson, False),
    )
)
Answered = tuple[Any, str]
"""The server's answer as plain values, and the same as text."""


def asks_server(ask: Callable[Concatenate[ServerClient, ...], Answered]) -> Callable[..., None]:
    """Turn a function that sends a request to a running cluster into a command.

    The command also takes --server, --data-dir and --json, and prints the text that ``ask``
    returns, or the answer with --json.
    """

    @wraps(ask)
    def command(server: str | None, data_dir: Path | None, json: bool, **given: Any) -> None:
        answer, text = ask(find_server(server, data_dir), **given)
        if json:
            print_json(answer)
        else:
            typer.echo(text)

    _, *own = inspect.signature(ask, eval_str=True).parameters.values()
    keyword_only = [one.replace(kind=one.KEYWORD_ONLY) for one in (*own, *_SERVER_OPTIONS)]
    command.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
    return command


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    typer.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


def table_lines(rows: Sequence[Sequence[object]]) -> list[str]:
    """Return rows as lines of aligned columns; the first row is the heading."""
    cells = [[harmless_line(str(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
