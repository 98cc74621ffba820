"""Collected rows in words: codes of published lists, and hashes that the table of names tells.

One question to the table of names for all the rows of an answer; knows no question's meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from replay.encode import PUBLISHED
from replay.event_schema import NAMED, STATE_CODES

_DOMAINS: Final = {
    **{name: name for name in NAMED},
    "after_file": "file",
    "before_file": "file",
    "copy_file": "file",
}
_STATES: Final = ("state", "from_state", "to_state", "last_phase")
_STATE_WORDS: Final = {code: word for word, code in STATE_CODES.items()}

Rows = tuple[dict[str, Any], ...]


def in_words(found: Mapping[str, Sequence[Row]], names: DataFrame) -> dict[str, Rows]:
    """Rows as dictionaries by the columns' names, with words instead of codes; None for none.

    A hash without a name, which a whole table has not, stays a number in words.
    """
    codes = {
        (_DOMAINS[column], row[column])
        for rows in found.values()
        for row in rows
        for column in row.__fields__
        if column in _DOMAINS and row[column] is not None
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
        if column in _DOMAINS:
            words[column] = told.get((_DOMAINS[column], value), str(value))
        elif column in _STATES:
            words[column] = _STATE_WORDS.get(value)
        elif column in PUBLISHED:
            words[column] = str(PUBLISHED[column][value - 1]) if value > 0 else None
    return words
