"""Reading journal.jsonl while it is written: its last rows, and what came after a place in it.

A place is a byte offset behind a complete line. Rows are handed on as the bytes they are.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

_BLOCK: Final = 1 << 16
MAX_BYTES: Final = 1 << 22


class JournalPart(NamedTuple):
    """Complete lines of the journal, without newlines, and the place behind the last of them."""

    lines: list[bytes]
    next: int


def last_rows(path: Path, count: int) -> JournalPart:
    """The last ``count`` complete rows; none if there is no journal. Raises OSError."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return JournalPart([], 0)
    with file:
        end = _end_of_lines(file, file.seek(0, os.SEEK_END))
        if count <= 0:
            return JournalPart([], end)
        start, newlines = end, 0
        # The newline at the very end closes the last row, so one more is looked for.
        while start > 0 and newlines <= count:
            size = min(_BLOCK, start)
            start -= size
            file.seek(start)
            newlines += file.read(size).count(b"\n")
        file.seek(start)
        lines = file.read(end - start).split(b"\n")[:-1]
        return JournalPart(lines[-count:], end)


def rows_after(path: Path, place: int, max_bytes: int = MAX_BYTES) -> JournalPart:
    """Complete rows from ``place`` on, about ``max_bytes`` of them. Raises OSError."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return JournalPart([], place)
    with file:
        file.seek(place)
        data = file.read(max_bytes)
        if data and b"\n" not in data:
            data += file.readline()
        complete = data[: data.rfind(b"\n") + 1]
        return JournalPart(complete.split(b"\n")[:-1], place + len(complete))


def _end_of_lines(file: BinaryIO, size: int) -> int:
    """Where the last complete line ends."""
    end = size
    while end > 0:
        block = min(_BLOCK, end)
        file.seek(end - block)
        newline = file.read(block).rfind(b"\n")
        if newline >= 0:
            return end - block + newline + 1
        end -= block
    return 0
