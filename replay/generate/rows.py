"""Blocks of rows of a history, stored as columns of numbers, and their conversion to JournalRow.

A row corresponds to a row of klamm's journal. Codes (event_schema.py) stand for strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from klamm.cluster.journal import SCHEMA_VERSION, JournalRow
from klamm.replay.event_schema import ELECTIONS, KINDS, STATE_CODES
from klamm.replay.generate.layout import Layout, cluster_name, run_name, topic_name
from klamm.replay.generate.options import REPLICATION_FACTOR

Array = NDArray[Any]
NULL: Final = np.iinfo(np.int32).min
"""The number that stands for null in an integer column."""
NO_BROKER: Final = -1
"""The number that pads an ISR to WIDTH broker ids."""
WIDTH: Final = REPLICATION_FACTOR + 1
"""Maximum size of an ISR: a reassignment adds a replica before it removes another."""

_ROWS_AT_ONCE: Final = 50_000
"""Number of rows to convert at a time: as Python objects, rows take ten times as much memory."""
KIND_WORDS: Final = np.array(["", *map(str, KINDS)], object)
ELECTION_WORDS: Final = np.array([None, *ELECTIONS], object)
STATE_WORDS: Final = np.full(max(STATE_CODES.values()) + 1, None, object)
STATE_WORDS[list(STATE_CODES.values())] = list(STATE_CODES)

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
ISRS: Final = ("isr", "prev_isr")
"""Columns of broker ids, WIDTH numbers per row, with NO_BROKER for empty places. The value is null
if the row has no leader (or no previous leader)."""


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

    def first(self, count: int) -> RowBlock:
        """Return a block with only the first ``count`` rows."""
        return RowBlock({name: array[:count] for name, array in self.columns.items()}, self.texts)


def isr_column(isrs: Iterable[Iterable[int]]) -> Array:
    """Return a column of ISRs. Each ISR is sorted, so that equal ISRs are equal arrays."""
    listed = [sorted(isr) for isr in isrs]
    return np.array([[*isr, *[NO_BROKER] * (WIDTH - len(isr))] for isr in listed], np.int16)


class InWords(NamedTuple):
    """A row of a history as a JournalRow, with strings instead of codes.

    ``fate``, ``mark``, ``p`` and ``topic`` are the columns described at rows.COLUMNS.
    """

    fate: int
    mark: int
    p: int
    topic: int
    row: JournalRow


def in_words(layout: Layout, block: RowBlock) -> Iterator[InWords]:
    """Convert the rows of a block, including lost and damaged rows."""
    texts = np.array([*block.texts, None], object)
    for first in range(0, block.count, _ROWS_AT_ONCE):
        columns = {
            name: array[first : first + _ROWS_AT_ONCE] for name, array in block.columns.items()
        }
        known = (columns[name].tolist() for name in ("fate", "mark", "p", "topic"))
        yield from map(InWords, *known, _rows(layout, columns, texts))


def _rows(layout: Layout, columns: dict[str, Array], texts: Array) -> Iterator[JournalRow]:
    p, topic = columns["p"], columns["topic"]
    topics = np.where(p >= 0, layout.topic[p], topic).tolist()
    words: dict[str, Iterable[object]] = {
        "v": repeat(SCHEMA_VERSION),
        "run_id": (run_name(layout.options.seed, run) for run in columns["run"].tolist()),
        "cluster_id": repeat(cluster_name(layout.options.seed)),
        "zxid": repeat(None),
        "kind": KIND_WORDS[columns["kind"]],
        "topic": (None if number < 0 else topic_name(number) for number in topics),
        "partition": np.where(p >= 0, layout.number[p], -1).tolist(),
        "from_": STATE_WORDS[columns["from_state"]],
        "to": STATE_WORDS[columns["to_state"]],
        "election": ELECTION_WORDS[columns["election"]],
        "reassignment_id": texts[columns["reassignment"]],
        "outcome": texts[columns["outcome"]],
        "detail": texts[columns["detail"]],
        "isr": _isrs(columns["isr"], columns["leader"]),
        "prev_isr": _isrs(columns["prev_isr"], columns["prev_leader"]),
    }
    for name in OR_NULL:
        words[name] = [None if number == NULL else number for number in columns[name].tolist()]
    fields = JournalRow.__struct_fields__
    return map(
        JournalRow, *(words[name] if name in words else columns[name].tolist() for name in fields)
    )


def _isrs(isrs: Array, leader: Array) -> Iterator[tuple[int, ...] | None]:
    """Yield the ISR of each row without padding; None for a row without a leader."""
    for isr, is_null in zip(isrs.tolist(), (leader == NULL).tolist(), strict=True):
        yield None if is_null else tuple(broker for broker in isr if broker != NO_BROKER)
