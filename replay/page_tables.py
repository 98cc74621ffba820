"""Listings as tables of a replay's page: which rows are shown, and how a row's cells read.

Draws and computes nothing; which tables there are is known to replay/page.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from klamm.replay.encode import DOMAINS
from klamm.replay.listings import Listing
from klamm.replay.run import Answers
from klamm.report.scales import duration_text, time_text
from klamm.report.values import Cell, Table

Column = tuple[str, str | Callable[[dict[str, Any]], Cell]]


def table_of(
    answers: Answers, name: str, title: str, *columns: Column, most: int | None = None
) -> Table:
    """A listing as a table: a column is a name and the row's field, or what is made of the row.
    Where there are several logs, each row says whose it is."""
    listing = answers.listings.get(name, Listing())
    told = (*log_columns(answers), *columns)
    rows = [
        tuple(row[how] if isinstance(how, str) else how(row) for _, how in told)
        for row in listing.rows[:most]
    ]
    return Table(title, [head for head, _ in told], rows, listing.total)


def longest(answers: Answers, name: str, title: str, *columns: Column) -> Table:
    """A listing of times as a table: long ones, and how many were short; some of these, if few
    were long."""
    rows = answers.listings.get(name, Listing()).rows
    long = sum(row["took_ms"] is None or row["took_ms"] >= _SHORT_MS for row in rows)
    table = table_of(answers, name, title, *columns, most=max(long, _LEAST_SHOWN))
    rest = (table.total or 0) - len(table.rows)
    if not rest or long == len(rows):
        return table
    note = f"and {rest:,} shorter than {_SHORT_MS // 1_000} s"
    return replace(table, total=len(table.rows), note=note)


def log_columns(answers: Answers) -> Iterator[Column]:
    """The columns that tell logs apart: none where there is one."""
    sources = {source for source, _ in answers.logs}
    if len(sources) > 1:
        yield "source", "source"
    if len(answers.logs) > len(sources):
        yield "run", "run"


def within(folder: str, answers: Answers) -> Answers:
    """The same with files named as from ``folder``, which is told once."""
    unread = answers.unread
    return replace(
        answers,
        listings={name: _within(folder, at) for name, at in answers.listings.items()},
        unread=replace(
            unread, damaged=_within(folder, unread.damaged), lost=_within(folder, unread.lost)
        ),
    )


def _within(folder: str, listing: Listing) -> Listing:
    start = folder.rstrip("/") + "/"
    rows = tuple(
        {
            name: value.removeprefix(start) if value and DOMAINS.get(name) == "file" else value
            for name, value in row.items()
        }
        for row in listing.rows
    )
    return replace(listing, rows=rows)


_SHORT_MS: Final = 1_000
_LEAST_SHOWN: Final = 10


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


PLACED: Final[tuple[Column, ...]] = (
    ("where", place_text),
    ("when", when_text),
    ("whose", key_text),
)
"""The columns of a row that a log has about a partition or replica."""


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
