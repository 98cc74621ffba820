"""Blocks of rows of a history, stored as columns of numbers.

A row corresponds to a row of klamm's journal. Codes (event_schema.py) stand for strings.
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

    @staticmethod
    def of_rows(rows: Sequence[Mapping[str, Any]]) -> RowBlock:
        """Create a block from rows. Each row maps columns to numbers, texts or ISRs."""
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
