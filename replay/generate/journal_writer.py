"""Writes a history as a klamm journal, and converts its rows for the writers of other formats.

The rows are encoded exactly as in the journal of a controller (runtime/journal.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np

from klamm.cluster.journal import JOURNAL_FILE, SCHEMA_VERSION, JournalRow
from klamm.replay.event_schema import ELECTIONS, KINDS, STATE_CODES
from klamm.replay.generate.planting import Anomaly
from klamm.replay.generate.rows import DAMAGED, LOST, NO_BROKER, NULL, OR_NULL, Array, RowBlock
from klamm.replay.generate.tiling import Layout, cluster_name, run_name, topic_name

GARBAGE: Final = b'{"v":1,"run_id":"\n'
"""A damaged line: the start of a row."""
_ROWS_AT_ONCE: Final = 50_000
"""Number of rows to convert at a time: as Python objects, rows take ten times as much memory."""
KIND_WORDS: Final = np.array(["", *map(str, KINDS)], object)
ELECTION_WORDS: Final = np.array([None, *ELECTIONS], object)
STATE_WORDS: Final = np.full(max(STATE_CODES.values()) + 1, None, object)
STATE_WORDS[list(STATE_CODES.values())] = list(STATE_CODES)


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


class Places:
    """Records in which file and line each row of a planted anomaly was written.

    Files are relative to ``folder``.
    """

    def __init__(self, folder: Path, found: Sequence[Anomaly]) -> None:
        self.folder = folder
        self._found = found

    def record(self, mark: int, file: Path, line: int) -> None:
        """Record where a row of an anomaly was written. ``mark``: index of the anomaly."""
        place: dict[str, str | int] = {"file": str(file.relative_to(self.folder)), "line": line}
        self._found[mark].places.append(place)


Write = Callable[[Layout, Places, Iterable[RowBlock]], None]
"""A function that writes a history in one format. Raises OSError if writing fails."""


def write_journal(layout: Layout, places: Places, blocks: Iterable[RowBlock]) -> None:
    """Write FOLDER/journal.jsonl."""
    path = places.folder / JOURNAL_FILE
    encoder = msgspec.json.Encoder()
    written = (words for block in blocks for words in in_words(layout, block) if words.fate != LOST)
    with path.open("xb") as file:
        for line, (fate, mark, _, _, row) in enumerate(written, 1):
            if mark >= 0:
                places.record(mark, path, line)
            file.write(GARBAGE if fate == DAMAGED else encoder.encode(row) + b"\n")
