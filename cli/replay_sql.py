"""`klamm replay sql`: run an SQL query on an event table. Parses options and prints."""

from __future__ import annotations

import tempfile
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from klamm.cli.options import AsJson, print_json, table_lines
from klamm.cli.replay_input import (
    MEMORY_MB,
    Cores,
    Master,
    Memory,
    Paths,
    SparkOptions,
    Timezone,
    open_tables,
)
from klamm.report.scales import time_text

if TYPE_CHECKING:
    from klamm.replay.spark import Row

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
    query: Annotated[str, typer.Argument(metavar="SELECT", help="A Spark SQL query, or DESCRIBE.")],
    paths: Paths,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Maximum number of rows.")
    ] = MOST_ROWS,
    master: Master = None,
    timezone: Timezone = None,
    cores: Cores = None,
    memory_mb: Memory = MEMORY_MB,
    json: AsJson = False,
) -> None:
    """Query the events of logs or of an event table in SQL (read-only)."""
    from klamm.replay.opening import look_at
    from klamm.replay.views import ask, check_first_word, check_query, make_views

    check_first_word(query)
    given = look_at(paths)
    options = SparkOptions(master, cores, memory_mb, timezone)
    folder = Path(tempfile.gettempdir())
    with open_tables([given], options, folder, lambda spark: check_query(spark, query)) as opened:
        make_views(opened.tables[0])
        found = ask(opened.spark, query)
        with opened.progress.step(opened.spark, "query"):
            rows = found.limit(limit + 1).collect()
        columns = found.columns
    more = len(rows) > limit
    if json:
        print_json({"columns": columns, "rows": _values(rows[:limit]), "more": more})
        return
    for line in table_lines([columns, *([_text(value) for value in row] for row in rows[:limit])]):
        typer.echo(line)
    if more:
        typer.echo(f"more rows exist: --limit {limit} reached")


def _values(rows: list[Row]) -> list[list[Any]]:
    return [[_plain(value) for value in row] for row in rows]


def _plain(value: Any) -> Any:
    """Return a value that JSON can express: a Spark row as an object, a time as a UTC string."""
    if isinstance(value, datetime):
        return _utc(value)
    if hasattr(value, "asDict"):
        return {name: _plain(inner) for name, inner in value.asDict().items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    return value


def _utc(value: datetime) -> str:
    # Spark returns naive datetimes in this machine's local time zone.
    return time_text(round(value.timestamp() * 1000))


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return _utc(value)
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return "" if value is None else " ".join(str(value).split())
