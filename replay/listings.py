"""Listings: the first rows of each answer, in order, with names instead of codes.

Collects rows from Spark. The meaning of answers is in replay/questions, their layout in
replay/page.py. Names of all listings are looked up in one query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from klamm.replay.encode import ANSWER_STATES, DOMAINS, PUBLISHED
from klamm.replay.event_schema import STATE_CODES

_STATE_WORDS: Final = {code: word for word, code in STATE_CODES.items()}

Rows = tuple[dict[str, Any], ...]


def in_words(found: Mapping[str, Sequence[Row]], names: DataFrame) -> dict[str, Rows]:
    """Return rows as dictionaries by column, with names instead of codes; None for no value.

    A hash without a name (impossible in a complete table) becomes its number as text.
    """
    codes = {
        (DOMAINS[column], row[column])
        for rows in found.values()
        for row in rows
        for column in row.__fields__
        if column in DOMAINS and row[column] is not None
    }
    known = _names(codes, names)
    return {name: tuple(_in_words(row, known) for row in rows) for name, rows in found.items()}


def _names(codes: Iterable[tuple[str, int]], names: DataFrame) -> dict[tuple[str, int], str]:
    numbers = sorted({code for _, code in codes})
    if not numbers:
        return {}
    wanted = names.sparkSession.createDataFrame([(n,) for n in numbers], "code bigint")
    found = names.join(F.broadcast(wanted), "code", "left_semi").collect()
    return {(row.domain, row.code): row.name for row in found}


def _in_words(row: Row, known: Mapping[tuple[str, int], str]) -> dict[str, Any]:
    words = row.asDict()
    for column, value in words.items():
        if value is None:
            continue
        if column in DOMAINS:
            words[column] = known.get((DOMAINS[column], value), str(value))
        elif column in ANSWER_STATES:
            words[column] = _STATE_WORDS.get(value)
        elif column in PUBLISHED:
            words[column] = str(PUBLISHED[column][value - 1]) if value > 0 else None
    return words


MOST_LISTED: Final = 100
MOST_DRAWN: Final = 20_000


@dataclass(frozen=True, slots=True)
class Listing:
    """The first rows of an answer, with names for codes; ``total``: number of all its rows."""

    rows: tuple[dict[str, Any], ...] = ()
    total: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the listing has every row of the answer."""
        return len(self.rows) == self.total


# A minus sorts in descending order, null first: intervals that have not ended come first.
_LONGEST: Final = ("-took_ms", "start_ms", "topic", "partition")
_WORST: Final = ("-trouble", "source", "run")
_FIRST: Final = ("t_ms", "place", "file", "line")
_DRAWN: Final = ("source", "run", "bucket_ms")
_ORDERS: Final[dict[str, tuple[str, ...]]] = {
    "epochs": ("source", "run", "epoch", "controller"),
    "failovers": ("elected_ms", "source", "run", "epoch", "controller"),
    "shared_epochs": ("source", "run", "epoch"),
    "late_writes": _FIRST,
    "duplicates": ("file", "line"),
    "illegal": _FIRST,
    "failed": _FIRST,
    "gaps": ("before_t_ms", "before_file", "before_line"),
    "unclean": _FIRST,
    "offline_intervals": _LONGEST,
    "leaderless_intervals": _LONGEST,
    "offline_timeline": _DRAWN,
    "leaders_over_time": (*_DRAWN, "broker"),
    "isr_churn": (*_DRAWN, "broker"),
    "flapping": ("-shrinks", "topic", "partition", "replica"),
    "reassignments": _LONGEST,
    "topics": (*_WORST, "topic"),
    "brokers": (*_WORST, "broker"),
}
_MANY: Final = ("epochs", "failovers", "offline_timeline", "leaders_over_time", "isr_churn")
_ONLY: Final = {"topics": "trouble > 0", "brokers": "trouble > 0"}
"""Conditions on the rows that are listed."""
_COUNTED_BY: Final = {
    "late_writes": "late_writes",
    "shared_epochs": "shared_epochs",
    "duplicates": "repeated",
    "illegal": "illegal",
    "failed": "failed",
    "gaps": "gaps",
    "unclean": "unclean",
    "flapping": "flapping_partitions",
}
"""The count of each answer; if it is 0, its rows are not read at all."""


def first_listed(
    tables: Mapping[str, DataFrame], counts: Mapping[str, int], names: DataFrame
) -> dict[str, Listing]:
    """Return a listing of each table, empty without a query if its entry in ``counts`` is 0."""
    listed = {
        name: _first_rows(_worth_listing(frame, name), name)
        for name, frame in tables.items()
        if name not in _COUNTED_BY or counts[_COUNTED_BY[name]]
    }
    totals = {
        name: _worth_listing(tables[name], name).count() if len(rows) > _most(name) else len(rows)
        for name, rows in listed.items()
    }
    words = in_words(listed, names)
    return {
        name: Listing(words.get(name, ())[: _most(name)], totals.get(name, 0)) for name in tables
    }


def _worth_listing(frame: DataFrame, name: str) -> DataFrame:
    return frame.where(_ONLY[name]) if name in _ONLY else frame


def _first_rows(frame: DataFrame, name: str) -> list[Row]:
    """Collect the rows to list and one more, which shows that the listing is incomplete."""
    order = [
        F.desc_nulls_first(column[1:]) if column.startswith("-") else F.col(column)
        for column in _ORDERS[name]
    ]
    return frame.orderBy(*order).limit(_most(name) + 1).collect()


def _most(name: str) -> int:
    return MOST_DRAWN if name in _MANY else MOST_LISTED
