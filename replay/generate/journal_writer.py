"""Writes a history as a klamm journal.

The rows are encoded exactly as in the journal of a controller (world/journal/journal.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from klamm.cluster.journal import JOURNAL_FILE, JournalRow
from klamm.replay.generate.layout import Layout
from klamm.replay.generate.planting import Anomaly
from klamm.replay.generate.rows import DAMAGED, LOST, RowBlock, in_words

_CUT_AT: Final = b',"kind":'


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


def damaged_line(row: JournalRow) -> bytes:
    """Return the line of a row, cut off after the controller epoch."""
    return msgspec.json.encode(row).partition(_CUT_AT)[0]


def write_journal(layout: Layout, places: Places, blocks: Iterable[RowBlock]) -> None:
    """Write FOLDER/journal.jsonl."""
    path = places.folder / JOURNAL_FILE
    encoder = msgspec.json.Encoder()
    written = (words for block in blocks for words in in_words(layout, block) if words.fate != LOST)
    with path.open("xb") as file:
        for line, (fate, mark, _, _, row) in enumerate(written, 1):
            if mark >= 0:
                places.record(mark, path, line)
            file.write((damaged_line(row) if fate == DAMAGED else encoder.encode(row)) + b"\n")
