"""`klamm replay sql`: runs an SQL query on an event table. Only parses options and prints."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from klamm.cli.options import AsJson, print_json, table_lines
from klamm.cli.replay_input import (
    MEMORY_MB,
    Cores,
    EngineName,
    Master,
    Memory,
    Paths,
    Timezone,
    open_tables,
    read_resources,
)
from klamm.report.scales import time_text

MOST_ROWS = 100
EXAMPLES = """
\b
Examples:
  klamm replay sql "SELECT kind, count(*) FROM events GROUP BY 1 ORDER BY 2 DESC" ./events
  klamm replay sql "SELECT * FROM partitions WHERE leader = -1" ./journal.jsonl --json
  klamm replay sql "DESCRIBE events" ./events
  klamm replay sql "SELECT problem, count(*) FROM damaged GROUP BY 1" ./events
\b
Views: events (one row per event), partitions and replicas (their final states in each source and
run), names (the names behind the event table's hash codes), damaged (unreadable lines).
"""


def sql(
    query: Annotated[
        str, typer.Argument(metavar="SELECT", help="SELECT or DESCRIBE, in DuckDB's SQL.")
    ],
    paths: Paths,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Maximum number of rows.")
    ] = MOST_ROWS,
    json: AsJson = False,
    master: Master = None,
    timezone: Timezone = None,
    engine: EngineName = "auto",
    cores: Cores = None,
    memory_mb: Memory = MEMORY_MB,
) -> None:
    """Run a read-only SQL query on the events in logs or in an event table."""
    resources = read_resources(engine, master, cores, memory_mb, timezone)
    from klamm.replay.locations import given_location
    from klamm.replay.opening import inspect_paths
    from klamm.replay.views import ask, check_first_word, make_views

    check_first_word(query)
    given = inspect_paths(list(map(given_location, paths)))
    with (
        open_tables([given], resources, Path(tempfile.gettempdir()), query) as opened,
        opened.progress.step("query"),
    ):
        make_views(opened.tables[0], query)
        opened.engine.confine()
        columns, rows = ask(opened.engine, query, limit)
    more = len(rows) > limit
    if json:
        print_json({"columns": columns, "rows": _values(rows[:limit]), "more": more})
        return
    for line in table_lines([columns, *([_text(value) for value in row] for row in rows[:limit])]):
        typer.echo(line)
    if more:
        typer.echo(f"more rows exist: --limit {limit} reached")


def _values(rows: Sequence[Sequence[object]]) -> list[list[object]]:
    return [[_plain(value) for value in row] for row in rows]


def _plain(value: object) -> object:
    """Convert a value of a query result for JSON: a time becomes a string in UTC."""
    if isinstance(value, datetime):
        return _utc(value)
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    return value


def _utc(value: datetime) -> str:
    # The engines return naive times, which are in UTC.
    return time_text(round(value.replace(tzinfo=UTC).timestamp() * 1000))


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return _utc(value)
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return "" if value is None else " ".join(str(value).split())
