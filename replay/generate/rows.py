"""Rows of a history as columns of numbers: what is recorded at once, and blocks of it.

A row is one occurrence as the journal would have it, in the published codes. Knows nothing of what
may follow what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
NULL: Final = np.iinfo(np.int32).min
"""What a column of whole numbers has where the row has no value."""
NOBODY: Final = -1
"""No broker in this place of an ISR."""

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
    "reassignment": (np.int32, -1),
    "outcome": (np.int32, -1),
    "detail": (np.int32, -1),
}
"""Type and value by default. ``p`` numbers all partitions of the history, ``topic`` all topics;
``reassignment``, ``outcome`` and ``detail`` are places in ``Block.texts``; ``mark`` names what is
planted there."""
ISRS: Final = ("isr", "prev_isr")
"""Columns of broker ids, a fixed number a row, NOBODY in between. None where there is no leader
(or no previous one)."""


@dataclass(frozen=True, slots=True)
class Block:
    """Rows one after the other: columns of COLUMNS and ISRS by name."""

    columns: Mapping[str, Array]
    texts: list[object]

    @property
    def count(self) -> int:
        """How many rows."""
        return len(self.columns["kind"])

    def first(self, count: int) -> Block:
        """The first rows alone."""
        return Block({name: array[:count] for name, array in self.columns.items()}, self.texts)


class RowBuffer:
    """Gathers rows until they are taken as a block."""

    def __init__(self, width: int) -> None:
        self.count = 0
        self.texts: list[object] = []
        self._width = width
        self._parts: list[tuple[int, dict[str, Any]]] = []

    def add(self, count: int, columns: dict[str, Any]) -> None:
        """Some rows: columns are arrays of that length, or one value for all."""
        self._parts.append((count, columns))
        self.count += count

    def repeat(self, mark: int, fate: int) -> None:
        """The last row, which was added alone, once more."""
        count, columns = self._parts[-1]
        assert count == 1, "one row is repeated"
        self.add(1, {**columns, "mark": mark, "fate": fate})

    def text(self, value: object) -> int:
        """The place of a text in the block's list."""
        self.texts.append(value)
        return len(self.texts) - 1

    def take(self) -> Block:
        """All there is, and nothing is left."""
        parts, total = self._parts, self.count
        columns: dict[str, Array] = {
            name: np.full(total, default, dtype) for name, (dtype, default) in COLUMNS.items()
        }
        for name in ISRS:
            columns[name] = np.full((total, self._width), NOBODY, np.int16)
        at = 0
        for count, given in parts:
            for name, values in given.items():
                columns[name][at : at + count] = values
            at += count
        block = Block(columns, self.texts)
        self._parts, self.count, self.texts = [], 0, []
        return block
