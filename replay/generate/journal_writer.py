"""A history as klamm's own journal: one file of JSON lines.

The bytes are those that a controller's journal would have (runtime/journal.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from cluster.journal import JournalRow
from replay.generate.journal_rows import in_words
from replay.generate.rows import DAMAGED, LOST, Block
from replay.generate.world import World
from replay.generate.writers import Places

FILE_NAME: Final = "journal.jsonl"
GARBAGE: Final = b'{"v":1,"run_id":"\n'
"""Half a row."""
_ROWS_AT_ONCE: Final = 10_000


class JournalWriter:
    """Writes FOLDER/journal.jsonl."""

    def __init__(self, world: World, places: Places) -> None:
        self._world = world
        self._places = places
        self._path: Path = places.folder / FILE_NAME
        self._file = self._path.open("xb")
        self._encoder = msgspec.json.Encoder()
        self._line = 0

    def write(self, block: Block) -> None:
        """The next rows."""
        begun: list[JournalRow] = []
        for fate, mark, _, _, row, _ in in_words(self._world, block):
            if fate == LOST:
                continue
            self._line += 1
            if mark >= 0:
                self._places.tell(mark, self._path, self._line)
            if fate == DAMAGED:
                self._file.write(self._encoder.encode_lines(begun) + GARBAGE)
                begun.clear()
            else:
                begun.append(row)
                if len(begun) >= _ROWS_AT_ONCE:
                    self._file.write(self._encoder.encode_lines(begun))
                    begun.clear()
        self._file.write(self._encoder.encode_lines(begun))

    def close(self) -> None:
        """Close the file."""
        self._file.close()
