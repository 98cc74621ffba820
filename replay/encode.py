"""Raw events in whole numbers: codes of published lists, hashes of all other words.

Column by column in Arrow, wherever the rows are; no word is lost, as the table of names tells the
hashes again. Reads nothing, stores nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from klamm.replay.event_schema import (
    CODED_SCHEMA,
    ELECTIONS,
    KINDS,
    NAMED,
    NAMES_SCHEMA,
    SOURCES,
    STATE_CODES,
)

_SPARK_SEED: Final = 42
PUBLISHED: Final[dict[str, Sequence[str]]] = {
    "source": SOURCES,
    "kind": KINDS,
    "election": ELECTIONS,
}
"""The columns whose codes are places in a list, counted from 1."""
DOMAINS: Final[dict[str, str]] = {
    **{name: name for name in NAMED},
    **dict.fromkeys(("after_file", "before_file", "copy_file"), "file"),
}
"""The columns that hold hashes, in events and in answers, and in which domain their names are."""
STATES: Final = ("from_state", "to_state")
ANSWER_STATES: Final = (*STATES, "state", "last_phase")
"""The columns of answers that hold codes of states."""
CODED_ARROW: Final[pa.Schema] = to_arrow_schema(CODED_SCHEMA)
"""CODED_SCHEMA as Python workers hand it to Spark."""
NAMES_ARROW: Final[pa.Schema] = to_arrow_schema(NAMES_SCHEMA)
_WORDS: Final = {
    name: pa.array([str(word) for word in words], pa.string()) for name, words in PUBLISHED.items()
}
_STATE_WORDS: Final = pa.array(list(STATE_CODES), pa.string())
_STATES: Final = pa.array(list(STATE_CODES.values()), pa.int8())
_NOT_A_STATE: Final = pa.scalar(-1, pa.int8())
_NO_STATE: Final = pa.scalar(0, pa.int8())


class Encoded(NamedTuple):
    """``events`` by CODED_SCHEMA, ``names`` by NAMES_SCHEMA; neither is computed yet."""

    events: DataFrame
    names: DataFrame


def encode(raw: DataFrame) -> Encoded:
    """Raw events in whole numbers, and the words that these stand for."""
    return Encoded(
        raw.mapInArrow(_coded, CODED_SCHEMA), raw.mapInArrow(_named, NAMES_SCHEMA).distinct()
    )


def _coded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    encoder = Encoder()
    return map(encoder.code, batches)


def _named(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    encoder = Encoder()
    for batch in batches:
        encoder.code(batch)
    yield from encoder.names().to_batches()


def xxhash64(text: str) -> int:
    """What F.xxhash64 says of a column with this string alone: Spark's seed, and a signed number.

    Mirrors org.apache.spark.sql.catalyst.expressions.XXH64.
    """
    return int.from_bytes(xxhash.xxh64_digest(text.encode(), _SPARK_SEED), signed=True)


class Encoder:
    """Codes raw events, batch by batch, and keeps the words that it hashed, each once."""

    def __init__(self) -> None:
        self._codes: dict[str, dict[str, int]] = {name: {} for name in NAMED}

    def code(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of raw events by CODED_ARROW; columns beside those of RAW_SCHEMA are dropped."""
        arrays = []
        for field in CODED_ARROW:
            column = raw.column(field.name)
            if field.name in self._codes:
                column = self._hashed(field.name, column)
            elif field.name in _WORDS:
                places = pc.index_in(column, value_set=_WORDS[field.name])
                column = pc.fill_null(pc.add(places, 1), 0)
            elif field.name in ("from_state", "to_state"):
                column = _state_codes(column)
            arrays.append(column if column.type == field.type else column.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=CODED_ARROW)

    def names(self) -> pa.Table:
        """The words of all that was coded, by NAMES_SCHEMA."""
        rows = [
            (domain, code, word)
            for domain, codes in self._codes.items()
            for word, code in codes.items()
        ]
        columns = zip(*rows, strict=True) if rows else ((), (), ())
        types = NAMES_ARROW.types
        return pa.table(
            [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)],
            schema=NAMES_ARROW,
        )

    def _hashed(self, name: str, column: pa.Array) -> pa.Array:
        codes = self._codes[name]
        found = column.dictionary_encode()
        words = found.dictionary.to_pylist()
        for word in words:
            if word not in codes:
                codes[word] = xxhash64(word)
        return pa.array([codes[word] for word in words], pa.int64()).take(found.indices)


def _state_codes(column: pa.Array) -> pa.Array:
    codes = _STATES.take(pc.index_in(column, value_set=_STATE_WORDS))
    return pc.if_else(pc.is_null(column), _NO_STATE, pc.fill_null(codes, _NOT_A_STATE))


def word_of(column: str, published: Sequence[str]) -> Column:
    """The word of a code by its list; null for none."""
    words = F.array(*(F.lit(str(word)) for word in published))
    return F.when(F.col(column) > 0, F.element_at(words, F.col(column).cast("int")))


def state_word(column: str) -> Column:
    """The name of a state's code; null for none."""
    pairs = [F.lit(part) for word, code in STATE_CODES.items() for part in (code, word)]
    return F.element_at(F.create_map(*pairs), F.col(column).cast("int"))
