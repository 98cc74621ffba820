"""Conversion of a history's rows to journal rows, and the writer of a klamm journal.

The bytes equal those of a controller's journal (runtime/journal.py). Writers of other formats are
in the sibling modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np

from klamm.cluster.journal import SCHEMA_VERSION, JournalRow
from klamm.replay.event_schema import ELECTIONS, KINDS, STATE_CODES
from klamm.replay.generate.planting import Anomaly
from klamm.replay.generate.rows import DAMAGED, LOST, NO_BROKER, NULL, OR_NULL, Array, Block
from klamm.replay.generate.tiling import Layout, run_name, topic_name

FILE_NAME: Final = "journal.jsonl"
GARBAGE: Final = b'{"v":1,"run_id":"\n'
"""The start of a row, written as a damaged line."""
CLUSTER_ID: Final = "generated"
_ROWS_AT_ONCE: Final = 50_000
"""Rows converted at a time: Python integers take ten times the memory of array elements."""
KIND_WORDS: Final = np.array(["", *map(str, KINDS)], object)
ELECTION_WORDS: Final = np.array([None, *ELECTIONS], object)
STATE_WORDS: Final = np.full(max(STATE_CODES.values()) + 1, None, object)
STATE_WORDS[list(STATE_CODES.values())] = list(STATE_CODES)


class InWords(NamedTuple):
    """A row with names instead of codes.

    ``fate`` and ``mark`` as in rows.COLUMNS; ``p`` and ``topic`` are numbers of the layout, -1 for
    none.
    """

    fate: int
    mark: int
    p: int
    topic: int
    row: JournalRow


def in_words(layout: Layout, block: Block) -> Iterator[InWords]:
    """Yield the rows of a block, including lost and damaged rows."""
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
        "run_id": repeat(run_name(layout.options.seed)),
        "cluster_id": repeat(CLUSTER_ID),
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
    """Yield ISRs without their empty places; None for a row without a leadership."""
    for isr, is_null in zip(isrs.tolist(), (leader == NULL).tolist(), strict=True):
        yield None if is_null else tuple(broker for broker in isr if broker != NO_BROKER)


class Places:
    """Records where the rows of planted anomalies were written, relative to a directory."""

    def __init__(self, folder: Path, found: Sequence[Anomaly]) -> None:
        self.folder = folder
        self._found = found

    def record(self, mark: int, file: Path, line: int) -> None:
        """Record the place of a row of the anomaly with this mark."""
        self._found[mark].places.append((str(file.relative_to(self.folder)), line))


Write = Callable[[Layout, Places, Iterable[Block]], None]
"""A function that writes a history in one format. Raises OSError if writing fails."""


def write_journal(layout: Layout, places: Places, blocks: Iterable[Block]) -> None:
    """Write FOLDER/journal.jsonl."""
    path = places.folder / FILE_NAME
    encoder = msgspec.json.Encoder()
    written = (words for block in blocks for words in in_words(layout, block) if words.fate != LOST)
    with path.open("xb") as file:
        for line, (fate, mark, _, _, row) in enumerate(written, 1):
            if mark >= 0:
                places.record(mark, path, line)
            file.write(GARBAGE if fate == DAMAGED else encoder.encode(row) + b"\n")
