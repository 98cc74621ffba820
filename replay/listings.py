"""The first rows of each answer, in words: in which order, how many, and which are not looked for.

Collects; what the answers mean is known to the questions, and how they are shown to the pages. One
question to the table of names for all the rows of an answer.
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
    """Rows as dictionaries by the columns' names, with words instead of codes; None for none.

    A hash without a name, which a whole table has not, stays a number in words.
    """
    codes = {
        (DOMAINS[column], row[column])
        for rows in found.values()
        for row in rows
        for column in row.__fields__
        if column in DOMAINS and row[column] is not None
    }
    told = _names(codes, names)
    return {name: tuple(_in_words(row, told) for row in rows) for name, rows in found.items()}


def _names(codes: Iterable[tuple[str, int]], names: DataFrame) -> dict[tuple[str, int], str]:
    numbers = sorted({code for _, code in codes})
    if not numbers:
        return {}
    wanted = names.sparkSession.createDataFrame([(n,) for n in numbers], "code bigint")
    found = names.join(F.broadcast(wanted), "code", "left_semi").collect()
    return {(row.domain, row.code): row.name for row in found}


def _in_words(row: Row, told: Mapping[tuple[str, int], str]) -> dict[str, Any]:
    words = row.asDict()
    for column, value in words.items():
        if value is None:
            continue
        if column in DOMAINS:
            words[column] = told.get((DOMAINS[column], value), str(value))
        elif column in ANSWER_STATES:
            words[column] = _STATE_WORDS.get(value)
        elif column in PUBLISHED:
            words[column] = str(PUBLISHED[column][value - 1]) if value > 0 else None
    return words


MOST_LISTED: Final = 100
MOST_DRAWN: Final = 20_000


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of an answer in words, the first by its order; ``total``: how many there are in all."""

    rows: tuple[dict[str, Any], ...] = ()
    total: int = 0

    @property
    def is_whole(self) -> bool:
        """True if every row is here."""
        return len(self.rows) == self.total


# Behind a minus: the largest first, and what has none before all.
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
"""Which rows of an answer are worth a line."""
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
"""Which count says whether there is anything to list: rows are not read again for nothing."""


def first_listed(
    tables: Mapping[str, DataFrame], counts: Mapping[str, int], names: DataFrame
) -> dict[str, Listing]:
    """A listing of each table; an empty one where ``counts`` say that there is nothing."""
    listed = {
        name: _first_rows(_told(frame, name), name)
        for name, frame in tables.items()
        if name not in _COUNTED_BY or counts[_COUNTED_BY[name]]
    }
    totals = {
        name: _told(tables[name], name).count() if len(rows) > _most(name) else len(rows)
        for name, rows in listed.items()
    }
    words = in_words(listed, names)
    return {
        name: Listing(words.get(name, ())[: _most(name)], totals.get(name, 0)) for name in tables
    }


def _told(frame: DataFrame, name: str) -> DataFrame:
    return frame.where(_ONLY[name]) if name in _ONLY else frame


def _first_rows(frame: DataFrame, name: str) -> list[Row]:
    """One row more than are listed, where there are so many."""
    order = [
        F.desc_nulls_first(column[1:]) if column.startswith("-") else F.col(column)
        for column in _ORDERS[name]
    ]
    return frame.orderBy(*order).limit(_most(name) + 1).collect()


def _most(name: str) -> int:
    return MOST_DRAWN if name in _MANY else MOST_LISTED
