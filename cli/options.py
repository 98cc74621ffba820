"""Options shared by all commands for a running cluster; functions that print or format values."""

from __future__ import annotations

import inspect
import math
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
        metavar="HOST[:PORT]",
        help=f"Address of klamm's API. [default: {SERVER_VARIABLE}, or from --data-dir]",
    ),
]
DataDirectory = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Data directory of klamm up."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
QuirkNames = Annotated[
    str | None,
    typer.Option(
        metavar="2.8.2|KAFKA-N,..",
        help="Reproduce known bugs of Kafka 2.8.2: all of them, or those listed "
        "(see klamm drill list --bugs).",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed of the simulation.")]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="Number of processes. [default: one per core]")
]
_SERVER_OPTIONS = tuple(
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
    for name, kind, default in (
        ("server", Server, None),
        ("data_dir", DataDirectory, None),
        ("json", AsJson, False),
    )
)
Answered = tuple[Any, str]
"""Two forms of a server's response: the plain values, and the text to print."""


def asks_server(ask: Callable[Concatenate[ServerClient, ...], Answered]) -> Callable[..., None]:
    """Decorator that turns ``ask``, which sends a request to a running cluster, into a command.

    The command also takes --server, --data-dir and --json. It prints the text that ``ask`` returns;
    with --json it prints the response.
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


def finite(number: float | None) -> float | None:
    """Return the value of an option. Raises typer.BadParameter for nan and infinity.

    No comparison with nan is true, so that typer's ``min`` and ``max`` let it pass.
    """
    if number is not None and not math.isfinite(number):
        raise typer.BadParameter(f"'{number}' is not a finite number")
    return number


def comma_separated(text: str | None) -> list[str]:
    """Return the words of an option's value such as ``1,2``; none if the option is not given."""
    return [] if text is None else [word.strip() for word in text.split(",")]


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
