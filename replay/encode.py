"""Encodes the strings of events as integers, which are faster to query.

A string from a fixed list, such as a state, becomes its position in the list. Any other string,
such as a topic name, becomes its hash; the table of names maps hashes back to strings. Arrow
functions encode a whole column at a time. This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

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
"""The fixed list of strings of each column. A code is a position in the list, counted from 1."""
DOMAINS: Final[dict[str, str]] = {
    **{name: name for name in NAMED},
    **dict.fromkeys(("after_file", "before_file", "copy_file"), "file"),
}
"""For each column of hashes in events and answers: the ``domain`` of its strings in the table of
names."""
STATES: Final = ("from_state", "to_state")
ANSWER_STATES: Final = (*STATES, "state", "last_phase")
"""The columns of answers that hold codes of states or of reassignment phases."""
_WORDS: Final = {
    name: pa.array([str(word) for word in words], pa.string()) for name, words in PUBLISHED.items()
}
_STATE_WORDS: Final = pa.array(list(STATE_CODES), pa.string())
_STATES: Final = pa.array(list(STATE_CODES.values()), pa.int8())
_NOT_A_STATE: Final = pa.scalar(-1, pa.int8())
_NO_STATE: Final = pa.scalar(0, pa.int8())


def xxhash64(text: str) -> int:
    """Return the hash that Spark's SQL function xxhash64 returns for a string.

    Mirrors org.apache.spark.sql.catalyst.expressions.XXH64.
    """
    return int.from_bytes(xxhash.xxh64_digest(text.encode(), _SPARK_SEED), signed=True)


class Encoder:
    """Encodes batches of events, and collects the distinct strings that it has hashed."""

    def __init__(self, schema: pa.Schema = CODED_SCHEMA, kinds: Sequence[str] = KINDS) -> None:
        self.schema = schema
        self._codes: dict[str, dict[str, int]] = {name: {} for name in NAMED}
        self._words = {**_WORDS, "kind": pa.array(list(map(str, kinds)), pa.string())}

    def code(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        """Encode a batch of raw events; columns that are not in the schema are dropped."""
        arrays = []
        for field in self.schema:
            column = raw.column(field.name)
            if field.name in self._codes:
                column = self._hashed(field.name, column)
            elif field.name in self._words:
                places = pc.index_in(column, value_set=self._words[field.name])
                column = pc.fill_null(pc.add(places, 1), 0)
            elif field.name in STATES:
                column = _state_codes(column)
            arrays.append(column if column.type == field.type else column.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def names(self) -> pa.Table:
        """Return the strings hashed so far and their hashes, as a table in NAMES_SCHEMA."""
        names = [
            {"domain": domain, "code": code, "name": word}
            for domain, codes in self._codes.items()
            for word, code in codes.items()
        ]
        return pa.Table.from_pylist(names, NAMES_SCHEMA)

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


def word_of(column: str, codes: Mapping[int, str]) -> str:
    """Return SQL that decodes a column. Codes that are not in ``codes`` become null."""
    cases = " ".join(f"WHEN {code} THEN '{word}'" for code, word in codes.items())
    return f"CASE {column} {cases} END"


WORDS: Final[dict[str, dict[int, str]]] = {
    **{name: dict(enumerate(map(str, words), 1)) for name, words in PUBLISHED.items()},
    **{name: {code: word for word, code in STATE_CODES.items()} for name in ANSWER_STATES},
}
"""For each column of codes in events and answers: the string that each code stands for."""
