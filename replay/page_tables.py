"""Listings as tables of a replay's page: which rows are shown, and how a row's cells read.

Draws and computes nothing; which tables there are is known to replay/page.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from replay.listings import Listing
from replay.run import Answers
from report.scales import duration_text, time_text
from report.values import Cell, Table

Column = tuple[str, str | Callable[[dict[str, Any]], Cell]]


def table_of(
    answers: Answers,
    name: str,
    title: str,
    *columns: Column,
    only: Callable[[dict[str, Any]], bool] = lambda _: True,
) -> Table:
    """A listing as a table: a column is a name and the row's field, or what is made of the row."""
    listing = answers.listings.get(name, Listing())
    rows = [
        tuple(row[how] if isinstance(how, str) else how(row) for _, how in columns)
        for row in listing.rows
        if only(row)
    ]
    total = answers.counts.get(_TOTALS.get(name, ""), len(rows))
    note = "" if listing.is_whole else "There are more than are listed."
    heads = [head for head, _ in columns]
    return Table(title, heads, rows, max(total, len(rows)), "" if total > len(rows) else note)


def longest(answers: Answers, name: str, title: str, *columns: Column) -> Table:
    """A listing of times as a table: long ones, and how many were short; all, if none was long."""
    listing = answers.listings.get(name, Listing())
    short = [row for row in listing.rows if _is_short(row)]
    if len(short) == len(listing.rows):
        return table_of(answers, name, title, *columns)
    table = table_of(answers, name, title, *columns, only=lambda row: not _is_short(row))
    if short:
        more = "" if listing.is_whole else "more than "
        table = replace(table, note=f"and {more}{len(short):,} shorter than {_SHORT_MS // 1_000} s")
    return table


def _is_short(row: Mapping[str, Any]) -> bool:
    return row["took_ms"] is not None and row["took_ms"] < _SHORT_MS


_SHORT_MS: Final = 1_000
_TOTALS: Final = {
    "illegal": "illegal",
    "failed": "failed",
    "unclean": "unclean",
    "late_writes": "late_writes",
    "shared_epochs": "shared_epochs",
}
"""Which count is the number of a listing's rows."""


def there(tables: Iterable[Table]) -> list[Table]:
    """Tables that have rows."""
    return [table for table in tables if table.rows]


def key_text(row: Mapping[str, Any]) -> str:
    """A partition, or a replica of it."""
    replica = row.get("replica", -1)
    on = f" on broker {replica}" if replica is not None and replica >= 0 else ""
    return f"{row['topic']}-{row['partition']}{on}"


def place_text(row: Mapping[str, Any]) -> str:
    """The file and line of a row."""
    return f"{row['file']}:{row['line']}"


def when_text(row: Mapping[str, Any]) -> str:
    """The time of a row."""
    return time_text(row["t_ms"])


def after_text(row: Mapping[str, Any]) -> str:
    """The place of the row before lost ones."""
    if row["after_file"] is None:
        return "the first are lost"
    return f"{row['after_file']}:{row['after_line']}"


def time_cell(t_ms: int | None) -> str:
    """A time, empty for none."""
    return "" if t_ms is None else time_text(t_ms)


def duration_cell(ms: int | None) -> str:
    """A duration, empty for none."""
    return "" if ms is None else duration_text(ms)


def took_text(row: Mapping[str, Any]) -> str:
    """How long something took, if it has ended."""
    return "not ended" if row["end_ms"] is None else duration_cell(row["took_ms"])


def ids_text(ids: Sequence[int] | None) -> str:
    """Broker ids."""
    return "" if ids is None else ",".join(map(str, ids))
