"""Listings: the first rows of each answer, sorted, as shown on the page and in the text output.

replay/questions defines the answers, replay/page.py their layout. Hashes are replaced with names,
which are looked up for all listings together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from klamm.replay.encode import DOMAINS, WORDS
from klamm.replay.engines import Engine, Row, row, rows
from klamm.replay.event_table import EventTable


def in_strings(found: Mapping[str, Sequence[Row]], table: EventTable) -> dict[str, tuple[Row, ...]]:
    """Replace the codes and hashes in some rows with strings. Null values become None.

    The rows of a name have the same columns. A hash without a name, which a complete table does not
    contain, is shown as a number.
    """
    codes = {
        at[column]
        for listed in filter(None, found.values())
        for column in DOMAINS.keys() & listed[0].keys()
        for at in listed
        if at[column] is not None
    }
    known = _names(sorted(codes), table)
    return {name: tuple(_in_words(listed, known)) for name, listed in found.items()}


def _names(codes: Sequence[int], table: EventTable) -> dict[tuple[str, int], str]:
    known = {}
    for begin in range(0, len(codes), _LOOKED_UP):
        wanted = ", ".join(map(str, codes[begin : begin + _LOOKED_UP]))
        found = rows(table.engine, f"SELECT * FROM {table.names} WHERE code IN ({wanted})")
        known.update({(at["domain"], at["code"]): at["name"] for at in found})
    return known


def _in_words(listed: Sequence[Row], known: Mapping[tuple[str, int], str]) -> Iterator[Row]:
    if not listed:
        return
    hashed = [(column, DOMAINS[column]) for column in listed[0] if column in DOMAINS]
    coded = [(column, WORDS[column]) for column in listed[0] if column in WORDS]
    for at in listed:
        words = dict(at)
        for column, domain in hashed:
            if (value := at[column]) is not None:
                words[column] = known.get((domain, value), str(value))
        for column, names in coded:
            words[column] = names.get(at[column])
        yield words


_LOOKED_UP: Final = 10_000
MOST_LISTED: Final = 100
MOST_DRAWN: Final = 20_000


@dataclass(frozen=True, slots=True)
class Listing:
    """The first rows of an answer, with strings instead of codes. ``total``: number of all rows."""

    rows: tuple[Row, ...] = ()
    total: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the listing contains all rows of the answer."""
        return len(self.rows) == self.total


# A minus means descending order with nulls first: intervals that have not ended come first.
_LONGEST: Final = ("-took_ms", "start_ms", "topic", "partition", "source", "run")
_WORST: Final = ("-trouble", "source", "run")
_WORST_TOPICS: Final = ("-trouble", "-leaderless_ms", "source", "run", "topic")
_FIRST: Final = ("t_ms", "place", "file", "line")
_DRAWN: Final = ("source", "run", "bucket_ms")
_ORDERS: Final[dict[str, tuple[str, ...]]] = {
    "logs": ("source", "run"),
    "epochs": ("source", "run", "epoch", "controller"),
    "failovers": ("elected_ms", "source", "run", "epoch", "controller"),
    "starts": ("t_ms", "source", "run"),
    "shared_epochs": ("source", "run", "epoch"),
    "late_writes": _FIRST,
    "duplicates": ("file", "line"),
    "illegal": _FIRST,
    "failed": _FIRST,
    "lost_tails": ("t_ms", "source", "run"),
    "lost_rows": ("before_t_ms", "before_file", "before_line"),
    "gaps": ("before_t_ms", "before_file", "before_line"),
    "unclean": _FIRST,
    "offline_intervals": _LONGEST,
    "leaderless_intervals": _LONGEST,
    "offline_timeline": _DRAWN,
    "leaders_over_time": (*_DRAWN, "broker"),
    "isr_churn": (*_DRAWN, "broker"),
    "marks": ("source", "run", "t_ms", "what"),
    "flapping": ("-shrinks", "topic", "partition", "replica", "source", "run"),
    "reassignments": _LONGEST,
    "topics": _WORST_TOPICS,
    "brokers": (*_WORST, "broker"),
}
_MANY: Final = (
    "epochs",
    "failovers",
    "offline_timeline",
    "leaders_over_time",
    "isr_churn",
    "marks",
)
_ONLY: Final = {"topics": "trouble > 0 OR leaderless_ms > 0", "brokers": "trouble > 0"}
"""SQL conditions on the rows to list; without a condition, all rows of an answer are listed."""


def first_listed(
    table: EventTable, engine: Engine, tables: Mapping[str, str], known: Mapping[str, int]
) -> dict[str, Listing]:
    """Run the queries in ``tables`` in an engine, and return a listing of each result.

    ``known``: numbers of rows that are already known. Queries without rows are not run. ``table``
    has the names that codes stand for.
    """
    listed: dict[str, list[Row]] = {}
    totals = dict(known)
    for name, sql in tables.items():
        if known.get(name) == 0:
            continue
        most = MOST_DRAWN if name in _MANY else MOST_LISTED
        worth = f"SELECT * FROM ({sql}) WHERE {_ONLY.get(name, 'true')}"
        # Fetch one more row than is listed, to find out whether the listing is complete.
        found = rows(engine, f"{worth} ORDER BY {_order(name)} LIMIT {most + 1}")
        listed[name] = found[:most]
        if name not in known:
            totals[name] = len(found)
            if len(found) > most:
                totals[name] = row(engine, f"SELECT count(*) AS n FROM ({worth})")["n"]
    words = in_strings(listed, table)
    return {name: Listing(words.get(name, ()), totals[name]) for name in tables}


def number_listed(name: str) -> str:
    """Return SQL for the number of rows of an answer's query that are worth listing."""
    return f"count(*) FILTER (WHERE {_ONLY.get(name, 'true')})"


def first_rows(tables: Mapping[str, str], most: int) -> dict[str, str]:
    """Return queries for the first ``most`` rows of answers, in the order of the listings."""
    return {
        name: f"SELECT * FROM ({sql}) ORDER BY {_order(name)} LIMIT {most}"
        for name, sql in tables.items()
    }


def _order(name: str) -> str:
    return ", ".join(
        f"{column[1:]} DESC NULLS FIRST" if column.startswith("-") else column
        for column in _ORDERS[name]
    )
