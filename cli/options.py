"""Options that several commands have; functions that print or format values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
import typer

from klamm.cluster.plain_text import harmless_line

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


def print_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print lines to standard output, or to standard error if ``err``."""
    for line in lines:
        typer.echo(line, err=err)


def print_result(as_json: bool, value: object, lines: Iterable[str]) -> None:
    """Print the result of a command: as indented JSON, or as escaped lines of text."""
    if as_json:
        print_json(value)
    else:
        print_lines(map(harmless_line, lines))


def table_lines(rows: Sequence[Sequence[object]]) -> list[str]:
    """Return rows as lines of aligned columns; the first row is the heading."""
    cells = [[harmless_line(str(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
