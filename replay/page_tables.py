"""Turns listings into tables: chooses the rows to show, and formats their cells.

replay/page.py decides which tables the page contains.
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
    """Return a listing as a table of at most ``most`` rows (None: all listed rows).

    A column is a pair: its title, and the name of a field or a function that returns the cell of a
    row. If there are several logs, columns with the source and the run are added.
    """
    listing = answers.listings.get(name, Listing())
    shown = (*log_columns(answers), *columns)
    rows = [
        tuple(row[how] if isinstance(how, str) else how(row) for _, how in shown)
        for row in listing.rows[:most]
    ]
    return Table(title, [head for head, _ in shown], rows, listing.total)


def longest(answers: Answers, name: str, title: str, *columns: Column) -> Table:
    """Return a listing of intervals as a table: those of at least a second, or the ten longest.

    A note gives the number of intervals that are left out.
    """
    rows = answers.listings.get(name, Listing()).rows
    long = sum(row["took_ms"] is None or row["took_ms"] >= _SHORT_MS for row in rows)
    table = table_of(answers, name, title, *columns, most=max(long, _LEAST_SHOWN))
    rest = (table.total or 0) - len(table.rows)
    if not rest or long == len(rows):
        return table
    note = f"and {rest:,} shorter than {_SHORT_MS // 1_000} s"
    return replace(table, total=len(table.rows), note=note)


def log_columns(answers: Answers) -> Iterator[Column]:
    """Yield the columns that distinguish several logs: source, run, both or neither."""
    sources = {source for source, _ in answers.logs}
    if len(sources) > 1:
        yield "source", "source"
    if len(answers.logs) > len(sources):
        yield "run", "run"


def paths_within(folder: str, answers: Answers) -> Answers:
    """Return the answers with file names relative to ``folder``, which the page shows only once."""
    loss = answers.data_loss
    return replace(
        answers,
        listings={name: _within(folder, at) for name, at in answers.listings.items()},
        data_loss=replace(
            loss, damaged=_within(folder, loss.damaged), lost=_within(folder, loss.lost)
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


UNKNOWN: Final = "unknown"
"""Text of a cell whose value is not in the log."""
_SHORT_MS: Final = 1_000
_LEAST_SHOWN: Final = 10


def there(tables: Iterable[Table]) -> list[Table]:
    """Return only those tables that have rows."""
    return [table for table in tables if table.rows]


def key_text(row: Mapping[str, Any]) -> str:
    """Return the partition that a row is about, with the broker if it is about a replica."""
    replica = row.get("replica", -1)
    on = f" on broker {replica}" if replica is not None and replica >= 0 else ""
    return f"{row['topic']}-{row['partition']}{on}"


def place_text(row: Mapping[str, Any]) -> str:
    """Return the file and line of a row, as FILE:LINE."""
    return f"{row['file']}:{row['line']}"


def when_text(row: Mapping[str, Any]) -> str:
    """Return the time of a row as text."""
    return time_text(row["t_ms"])


def after_text(row: Mapping[str, Any]) -> str:
    """Return the file and line of the last row before lost rows."""
    if row["after_file"] is None:
        return "start of the epoch"
    return f"{row['after_file']}:{row['after_line']}"


PLACED: Final[tuple[Column, ...]] = (
    ("place", place_text),
    ("time (UTC)", when_text),
    ("partition", key_text),
)
"""Columns for any event of a partition or replica: place in the log, time, partition and broker."""


def time_cell(t_ms: int | None) -> str:
    """Return a time as text; empty text for None."""
    return "" if t_ms is None else time_text(t_ms)


def duration_cell(ms: int | None) -> str:
    """Return a duration as text; empty text for None."""
    return "" if ms is None else duration_text(ms)


def or_unknown(cell: Cell) -> Cell:
    """Return a cell, or UNKNOWN if it is empty."""
    return UNKNOWN if cell is None or cell == "" else cell


def at_least(text: Cell, total: int, undated: int) -> Cell:
    """Return the text of a total to which ``undated`` intervals with an unknown start belong."""
    if not undated:
        return text
    return f"at least {text}" if total else UNKNOWN


def took_text(row: Mapping[str, Any]) -> str:
    """Return the duration of an interval, or "not ended"."""
    return "not ended" if row["end_ms"] is None else duration_cell(row["took_ms"])


def ids_text(ids: Sequence[int] | None) -> str:
    """Return broker ids separated by commas; empty text for None."""
    return "" if ids is None else ",".join(map(str, ids))
