"""Encoding of raw events as integers: codes for words of fixed lists, hashes for all other words.

Works column by column in Arrow, in the process that has the rows. The table of names maps hashes
back to words. No I/O.
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
"""The columns with codes from a fixed list: the place in the list, counted from 1."""
DOMAINS: Final[dict[str, str]] = {
    **{name: name for name in NAMED},
    **dict.fromkeys(("after_file", "before_file", "copy_file"), "file"),
}
"""The columns that hold hashes, in events and answers, with the domain of their names."""
STATES: Final = ("from_state", "to_state")
ANSWER_STATES: Final = (*STATES, "state", "last_phase")
"""The columns of answers that hold codes of states."""
CODED_ARROW: Final[pa.Schema] = to_arrow_schema(CODED_SCHEMA)
"""CODED_SCHEMA in Arrow, as Python workers return it to Spark."""
NAMES_ARROW: Final[pa.Schema] = to_arrow_schema(NAMES_SCHEMA)
_WORDS: Final = {
    name: pa.array([str(word) for word in words], pa.string()) for name, words in PUBLISHED.items()
}
_STATE_WORDS: Final = pa.array(list(STATE_CODES), pa.string())
_STATES: Final = pa.array(list(STATE_CODES.values()), pa.int8())
_NOT_A_STATE: Final = pa.scalar(-1, pa.int8())
_NO_STATE: Final = pa.scalar(0, pa.int8())


class Encoded(NamedTuple):
    """Encoded events (CODED_SCHEMA) and names (NAMES_SCHEMA); neither is computed yet."""

    events: DataFrame
    names: DataFrame


def encode(raw: DataFrame) -> Encoded:
    """Encode raw events; return them with the names of their hashes."""
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
    """Return what Spark's F.xxhash64 gives for this string: with Spark's seed, as a signed number.

    Mirrors org.apache.spark.sql.catalyst.expressions.XXH64.
    """
    return int.from_bytes(xxhash.xxh64_digest(text.encode(), _SPARK_SEED), signed=True)


class Encoder:
    """Encodes raw events batch by batch, and collects the distinct words that it hashed."""

    def __init__(self) -> None:
        self._codes: dict[str, dict[str, int]] = {name: {} for name in NAMED}

    def code(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        """Encode a batch of raw events as CODED_ARROW; columns not in RAW_SCHEMA are dropped."""
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
        """Return the words hashed so far, as NAMES_SCHEMA."""
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
    """Return the word of a code in its list; null for code 0."""
    words = F.array(*(F.lit(str(word)) for word in published))
    return F.when(F.col(column) > 0, F.element_at(words, F.col(column).cast("int")))


def state_word(column: str) -> Column:
    """Return the name of a state's code; null for a code without a name."""
    pairs = [F.lit(part) for word, code in STATE_CODES.items() for part in (code, word)]
    return F.element_at(F.create_map(*pairs), F.col(column).cast("int"))
