"""Blocks of rows of a history, stored as columns of numbers, and their conversion to JournalRow.

A row corresponds to a row of klamm's journal. Codes (event_schema.py) stand for strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from klamm.cluster.journal import SCHEMA_VERSION, JournalRow
from klamm.replay.event_schema import ELECTIONS, KINDS, STATE_CODES
from klamm.replay.generate.layout import Layout, cluster_name, run_name
from klamm.replay.generate.options import REPLICATION_FACTOR

Array = NDArray[Any]
NULL: Final = np.iinfo(np.int32).min
"""The number that stands for null in an integer column."""
NO_BROKER: Final = -1
"""The number that pads an ISR to WIDTH broker ids."""
WIDTH: Final = REPLICATION_FACTOR + 1
"""Maximum size of an ISR: a reassignment adds a replica before it removes another."""

WRITTEN: Final = 0
LOST: Final = 1
"""The row is not written, but its sequence number is used."""
REPEATED: Final = 2
"""A copy of the previous row."""
DAMAGED: Final = 3
"""An unreadable line instead of a row."""

COLUMNS: Final[dict[str, tuple[type, int]]] = {
    "fate": (np.int8, WRITTEN),
    "mark": (np.int32, -1),
    "run": (np.int16, 0),
    "t_ms": (np.int64, 0),
    "seq": (np.int64, 0),
    "controller": (np.int32, 0),
    "epoch": (np.int32, 0),
    "kind": (np.int8, 0),
    "topic": (np.int32, -1),
    "p": (np.int32, -1),
    "replica": (np.int32, -1),
    "from_state": (np.int8, 0),
    "to_state": (np.int8, 0),
    "since_ms": (np.int64, 0),
    "key_seq": (np.int64, 0),
    "leader": (np.int32, NULL),
    "prev_leader": (np.int32, NULL),
    "leader_epoch": (np.int32, NULL),
    "zk_version": (np.int32, NULL),
    "election": (np.int8, 0),
    "event_id": (np.int64, 0),
    "cause_id": (np.int64, 0),
    "reassignment": (np.int32, -1),
    "outcome": (np.int32, -1),
    "detail": (np.int32, -1),
}
"""Type and default value of each column.

- ``fate``: WRITTEN, LOST, REPEATED or DAMAGED.
- ``mark``: number of the anomaly to which the row belongs, -1 for none.
- ``run``: number of the run, which each restart of the cluster raises.
- ``p``, ``topic``: number of the partition (counted over all topics) and of the topic, -1 for none.
- ``reassignment``, ``outcome``, ``detail``: indexes in ``Block.texts``, -1 for none.
"""
OR_NULL: Final = ("leader", "prev_leader", "leader_epoch", "zk_version")
"""Columns that may be null."""
TEXTS: Final = ("reassignment", "outcome", "detail")
_ISRS: Final = {"isr": "leader", "prev_isr": "prev_leader"}
"""Columns of broker ids, WIDTH numbers per row, with NO_BROKER for empty places. The value is null
if the row has no leader (or no previous leader)."""
_NUMBERS: Final = (
    *("t_ms", "seq", "controller", "epoch", "replica", "since_ms", "key_seq"),
    *("event_id", "cause_id"),
)
_STATES: Final = {code: word for word, code in STATE_CODES.items()}
_STATE_WORDS: Final = pa.array([_STATES.get(code) for code in range(max(_STATES) + 1)])
_WORDS: Final = {
    "kind": pa.array(["", *map(str, KINDS)]),
    "from_state": _STATE_WORDS,
    "to_state": _STATE_WORDS,
    "election": pa.array([None, *ELECTIONS]),
}
_ROWS_AT_ONCE: Final = 50_000
"""Number of rows to convert at a time: as Python objects, rows take ten times as much memory."""


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Consecutive rows of a history, stored by column.

    - ``columns``: array of each column, keyed by column name.
    - ``texts``: strings; a column of strings contains their indexes.
    """

    columns: Mapping[str, Array]
    texts: list[str]

    @staticmethod
    def of(count: int, columns: dict[str, Array], texts: list[str]) -> RowBlock:
        """Create a block of ``count`` rows. Missing columns get their default value."""
        for name, (dtype, default) in COLUMNS.items():
            if name not in columns:
                columns[name] = np.full(count, default, dtype)
        return RowBlock(columns, texts)

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.columns["kind"])

    def part(self, rows: slice | Array) -> RowBlock:
        """Return a block with some of the rows."""
        return RowBlock({name: array[rows] for name, array in self.columns.items()}, self.texts)


def isr_column(isrs: Iterable[Iterable[int]]) -> Array:
    """Return a column of ISRs. Each ISR is sorted, so that equal ISRs are equal arrays."""
    listed = [sorted(isr) for isr in isrs]
    return np.array([[*isr, *[NO_BROKER] * (WIDTH - len(isr))] for isr in listed], np.int16)


def word_columns(layout: Layout, block: RowBlock) -> dict[str, pa.Array]:
    """Return most columns of a block as in event_schema.READ_SCHEMA, with strings, not codes."""
    columns, texts = block.columns, pa.array(block.texts, pa.string())
    p = columns["p"]
    topic = np.where(p >= 0, layout.topic[p], columns["topic"])
    return {
        "topic": _taken(layout.topic_names, topic),
        "partition": pa.array(np.where(p >= 0, layout.number[p], -1)),
        **{name: _lists(columns[name], columns[leader]) for name, leader in _ISRS.items()},
        **{name: _taken(words, columns[name]) for name, words in _WORDS.items()},
        **{name: _taken(texts, columns[name]) for name in TEXTS},
        **{name: pa.array(columns[name]) for name in _NUMBERS},
        **{name: pa.array(columns[name], mask=columns[name] == NULL) for name in OR_NULL},
    }


def _taken(words: pa.Array, places: Array) -> pa.Array:
    """Return the strings at the given indexes, and null for a negative index."""
    return words.take(pa.array(places, mask=places < 0))


def _lists(brokers: Array, leader: Array) -> pa.Array:
    """Return the ISRs as an Arrow array of lists, with null for rows without a leader."""
    is_there = leader != NULL
    member = (brokers != NO_BROKER) & is_there[:, None]
    ends = np.cumsum(member.sum(axis=1), dtype=np.int32)
    offsets = np.concatenate((np.zeros(1, np.int32), ends))
    values = pa.array(brokers[member].astype(np.int32))
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(~is_there))


class InWords(NamedTuple):
    """A row of a history as a JournalRow, with strings instead of codes.

    ``fate``, ``mark``, ``p`` and ``topic`` are the columns described at COLUMNS.
    """

    fate: int
    mark: int
    p: int
    topic: int
    row: JournalRow


def in_words(layout: Layout, block: RowBlock) -> Iterator[InWords]:
    """Convert the rows of a block, including lost and damaged rows."""
    for first in range(0, block.count, _ROWS_AT_ONCE):
        some = block.part(slice(first, first + _ROWS_AT_ONCE))
        known = (some.columns[name].tolist() for name in ("fate", "mark", "p", "topic"))
        yield from map(InWords, *known, _rows(layout, some))


def _rows(layout: Layout, block: RowBlock) -> Iterator[JournalRow]:
    seed = layout.options.seed
    words = {name: array.to_pylist() for name, array in word_columns(layout, block).items()}
    words |= {
        "v": repeat(SCHEMA_VERSION),
        "run_id": [run_name(seed, run) for run in block.columns["run"].tolist()],
        "cluster_id": repeat(cluster_name(seed)),
        "zxid": repeat(None),
        "from_": words["from_state"],
        "to": words["to_state"],
        "reassignment_id": words["reassignment"],
        **{name: [None if isr is None else tuple(isr) for isr in words[name]] for name in _ISRS},
    }
    return map(JournalRow, *(words[name] for name in JournalRow.__struct_fields__))
