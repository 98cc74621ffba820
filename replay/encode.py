"""Raw events in whole numbers: codes of published lists, hashes of all other words.

One projection a row, in Spark; no word is lost, as the table of names tells the hashes again.
Reads nothing, stores nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cluster.errors import KlammError
from replay.event_schema import (
    CODED_SCHEMA,
    ELECTIONS,
    KINDS,
    NAMED,
    NAMES_SCHEMA,
    SOURCES,
    STATE_CODES,
)

PUBLISHED: Final[dict[str, Sequence[str]]] = {
    "source": SOURCES,
    "kind": KINDS,
    "election": ELECTIONS,
}
"""The columns whose codes are places in a list, counted from 1."""
_STATES: Final = ("from_state", "to_state")
_WORD: Final = "{}_word"
_NOT_A_STATE: Final = -1


class Encoded(NamedTuple):
    """``events`` by CODED_SCHEMA, ``names`` by NAMES_SCHEMA; neither is computed yet."""

    events: DataFrame
    names: DataFrame


def encode(raw: DataFrame) -> Encoded:
    """Raw events in whole numbers, and the words that these stand for."""
    both = with_words(raw)
    return Encoded(both.select(*CODED_SCHEMA.fieldNames()), names_of(both))


def with_words(raw: DataFrame) -> DataFrame:
    """The columns of CODED_SCHEMA and, behind them, the words that were hashed: ``run_word``.

    To be stored once and read twice, where reading the source a second time costs more.
    """
    coded = {
        **{name: _place_in(name, words) for name, words in PUBLISHED.items()},
        **{name: _state_code(name) for name in _STATES},
        **{name: _hash(name) for name in NAMED},
    }
    return raw.select(
        *(
            coded.get(field.name, F.col(field.name)).cast(field.dataType).alias(field.name)
            for field in CODED_SCHEMA
        ),
        *(F.col(name).alias(_WORD.format(name)) for name in NAMED),
    )


def names_of(coded_with_words: DataFrame) -> DataFrame:
    """Each hash of each column beside its word, once. A hash aggregation a column."""
    tables = [
        coded_with_words.where(F.col(name).isNotNull())
        .select(
            F.lit(name).alias("domain"),
            F.col(name).alias("code"),
            F.col(_WORD.format(name)).alias("name"),
        )
        .distinct()
        for name in NAMED
    ]
    names = tables[0]
    for table in tables[1:]:
        names = names.unionByName(table)
    return names.select(*NAMES_SCHEMA.fieldNames())


def check_names(names: DataFrame) -> None:
    """Raises KlammError if two words of a column have one hash."""
    twice = (
        names.groupBy("domain", "code")
        .agg(F.count("*").alias("words"), F.min("name").alias("one"), F.max("name").alias("other"))
        .where("words > 1")
        .limit(1)
        .collect()
    )
    if twice:
        found = twice[0]
        raise KlammError(
            f"{found.domain} {found.one} and {found.domain} {found.other} have the same code",
            hint="ingest what they come from into two tables",
        )


def word_of(column: str, published: Sequence[str]) -> Column:
    """The word of a code by its list; null for none."""
    words = F.array(*(F.lit(str(word)) for word in published))
    return F.when(F.col(column) > 0, F.element_at(words, F.col(column).cast("int")))


def state_word(column: str) -> Column:
    """The name of a state's code; null for none."""
    pairs = [F.lit(part) for word, code in STATE_CODES.items() for part in (code, word)]
    return F.element_at(F.create_map(*pairs), F.col(column).cast("int"))


def _place_in(column: str, published: Sequence[str]) -> Column:
    words = F.array(*(F.lit(str(word)) for word in published))
    return F.coalesce(F.array_position(words, F.col(column)), F.lit(0))


def _state_code(column: str) -> Column:
    pairs = [F.lit(part) for word, code in STATE_CODES.items() for part in (word, code)]
    code = F.coalesce(F.element_at(F.create_map(*pairs), F.col(column)), F.lit(_NOT_A_STATE))
    return F.when(F.col(column).isNull(), 0).otherwise(code)


def _hash(column: str) -> Column:
    return F.when(F.col(column).isNotNull(), F.xxhash64(column))
