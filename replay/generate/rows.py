"""Rows of a history as columns of numbers, in blocks.

A row is one occurrence as the journal would have it, in the published codes. Knows nothing of what
may follow what.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from klamm.replay.generate.options import REPLICATION_FACTOR

Array = NDArray[Any]
NULL: Final = np.iinfo(np.int32).min
"""What a column of whole numbers has where the row has no value."""
NOBODY: Final = -1
"""No broker in this place of an ISR."""
WIDTH: Final = REPLICATION_FACTOR + 1
"""Replicas in an ISR at most: one is added before another one leaves."""

WRITTEN: Final = 0
LOST: Final = 1
"""The row never reached the log; its number is taken all the same."""
REPEATED: Final = 2
"""The row before, once more."""
DAMAGED: Final = 3
"""No row: something that cannot be read."""

COLUMNS: Final[dict[str, tuple[type, int]]] = {
    "fate": (np.int8, WRITTEN),
    "mark": (np.int32, -1),
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
"""Type and value by default. ``p`` numbers all partitions of the history, ``topic`` all topics;
``reassignment``, ``outcome`` and ``detail`` are places in ``Block.texts``; ``mark`` names what is
planted there."""
OR_NULL: Final = ("leader", "prev_leader", "leader_epoch", "zk_version")
"""Columns that have NULL where the row has no value."""
TEXTS: Final = ("reassignment", "outcome", "detail")
ISRS: Final = ("isr", "prev_isr")
"""Columns of broker ids, WIDTH numbers a row, NOBODY in between. None where there is no leader
(or no previous one)."""


@dataclass(frozen=True, slots=True)
class Block:
    """Rows one after the other: columns of COLUMNS and ISRS by name."""

    columns: Mapping[str, Array]
    texts: list[str]

    @staticmethod
    def of(count: int, columns: dict[str, Array], texts: list[str]) -> Block:
        """So many rows; a column that is not given has its value by default."""
        for name, (dtype, default) in COLUMNS.items():
            if name not in columns:
                columns[name] = np.full(count, default, dtype)
        return Block(columns, texts)

    @staticmethod
    def of_rows(rows: Sequence[Mapping[str, Any]]) -> Block:
        """Rows that are values by column, texts and ISRs as they are."""
        texts = [str(row[name]) for name in TEXTS for row in rows if name in row]
        columns: dict[str, Array] = {
            name: np.array([row.get(name, default) for row in rows], dtype)
            for name, (dtype, default) in COLUMNS.items()
            if name not in TEXTS
        }
        columns |= {name: isr_column(row.get(name, ()) for row in rows) for name in ISRS}
        place = iter(range(len(texts)))
        for name in TEXTS:
            places = [next(place) if name in row else -1 for row in rows]
            columns[name] = np.array(places, np.int32)
        return Block(columns, texts)

    @property
    def count(self) -> int:
        """How many rows."""
        return len(self.columns["kind"])

    def first(self, count: int) -> Block:
        """The first rows alone."""
        return Block({name: array[:count] for name, array in self.columns.items()}, self.texts)


def isr_column(isrs: Iterable[Iterable[int]]) -> Array:
    """ISRs in ascending order: parts of a history that follow each other agree about it."""
    listed = [sorted(isr) for isr in isrs]
    return np.array([[*isr, *[NOBODY] * (WIDTH - len(isr))] for isr in listed], np.int16)
