"""Reads journal.jsonl while it is being written: the last rows, or the rows after a position.

A position is the byte offset after a complete line, counted over the whole journal including its
rotated files. Rows are returned as raw bytes. A line that is not a valid row is skipped and listed
as damaged. A valid row at the end that lacks only its newline is complete, as for `klamm up` and
replay; the position after it counts the newline, which the writer adds.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from klamm.cluster.journal import parse_row
from klamm.world.journal.rotated_files import LogFile, line_number, opened_at, rotated

_BLOCK: Final = 1 << 16
MAX_BYTES: Final = 1 << 22


class JournalPart(NamedTuple):
    """Rows of the journal, without newlines, and the position after the last row.

    ``damaged`` describes the lines that were skipped, each with file, line number and reason.
    """

    lines: list[bytes]
    next: int
    damaged: tuple[str, ...] = ()


class JournalPage(msgspec.Struct, frozen=True):
    """Response to GET /journal: rows in the journal's format, and the position after the last row.

    ``damaged`` describes the lines that were skipped, each with file, line number and reason.
    """

    rows: list[msgspec.Raw]
    next: int
    damaged: tuple[str, ...] = ()


def last_rows(path: Path, count: int) -> JournalPart:
    """Return the last ``count`` complete rows.

    The result is empty if there is no journal. Raises OSError.
    """
    lines: list[bytes] = []
    damaged: tuple[str, ...] = ()
    place: int | None = None
    ends = [name.end for name in rotated(path)]
    # A position at the end of all rotated files selects the current file.
    before = ends[-1] if ends else 0
    while True:
        with opened_at(path, before) as opened:
            if opened is None:
                return JournalPart(lines, before if place is None else place, damaged)
            segment, file = opened
            data, offset = _last_lines(file, count - len(lines))
            part = _rows(segment, file, offset, data)
        place = part.next if place is None else place
        lines[:0] = part.lines
        damaged = (*part.damaged, *_unread(segment, part.next), *damaged)
        ends = [end for end in ends if end <= segment.begin]
        if len(lines) >= count or not ends:
            return JournalPart(lines[len(lines) - min(count, len(lines)) :], place, damaged)
        before = ends.pop() - 1


def rows_after(path: Path, place: int, max_bytes: int = MAX_BYTES) -> JournalPart:
    """Return the complete rows that follow position ``place``, about ``max_bytes`` in total.

    The result is empty only at the end of the journal. Raises OSError.
    """
    damaged: tuple[str, ...] = ()
    while True:
        with opened_at(path, place) as opened:
            if opened is None:
                return JournalPart([], place, damaged)
            segment, file = opened
            offset = max(place - segment.begin, 0)
            data = _lines_at(file, offset, max_bytes)
            part = _rows(segment, file, offset, data)
        damaged += part.damaged
        if not data and segment.end is None:
            return JournalPart([], place, damaged)
        # In a rotated file, bytes after the last newline or after damage can never be read.
        if not data:
            damaged += _unread(segment, max(place, segment.begin))
        place = part.next if data or segment.end is None else segment.end
        if part.lines:
            return JournalPart(part.lines, place, damaged)


def torn_line(path: Path) -> tuple[str, ...]:
    """Describe the last line as damaged if it is incomplete; otherwise return ().

    Only for a journal that no klamm is writing. Raises OSError.
    """
    with opened_at(path, sys.maxsize) as opened:
        if opened is None:
            return ()
        segment, file = opened
        size = file.seek(0, os.SEEK_END)
        end = _end_of_lines(file, size)
        if end == size or _last_row(file, end):
            return ()
        return (f"{segment.path.name}:{line_number(file, end)}: torn",)


def _unread(segment: LogFile, place: int) -> tuple[str, ...]:
    """Return a tuple with one message if the bytes after a position cannot be read, else ()."""
    if not segment.is_damaged:
        return ()
    lost = f"bytes {place} to {segment.end} of the journal cannot be read"
    return (f"{segment.path.name}: damaged gzip: {lost}",)


def _lines_at(file: BinaryIO, offset: int, max_bytes: int) -> bytes:
    """Return the complete lines that begin at ``offset``, about ``max_bytes`` in total."""
    file.seek(offset)
    data = file.read(max_bytes)
    if data and b"\n" not in data:
        data += file.readline()
    end = data.rfind(b"\n") + 1
    return data[:end] + _whole(data[end:])


def _last_lines(file: BinaryIO, count: int) -> tuple[bytes, int]:
    """Return at least the last ``count`` complete lines of a file, and the first line's offset."""
    end = start = _end_of_lines(file, file.seek(0, os.SEEK_END))
    newlines = 0
    # The newline at the very end belongs to the last row, so search for one more.
    while start > 0 and newlines <= count and count > 0:
        size = min(_BLOCK, start)
        start -= size
        file.seek(start)
        newlines += file.read(size).count(b"\n")
    file.seek(start)
    data = file.read(end - start)
    begin = data.find(b"\n") + 1 if start > 0 else 0
    return data[begin:] + _last_row(file, end), start + begin


def _last_row(file: BinaryIO, end: int) -> bytes:
    """Return the row after the last complete line, with its newline; empty if there is none."""
    file.seek(end)
    return _whole(file.read(MAX_BYTES))


def _whole(line: bytes) -> bytes:
    """Return a line without a newline with one if it is a valid row, otherwise nothing."""
    return b"" if not line or isinstance(parse_row(line), str) else line + b"\n"


def _rows(segment: LogFile, file: BinaryIO, offset: int, data: bytes) -> JournalPart:
    """Return the valid rows in ``data``, which begins at ``offset`` in the file."""
    lines = data.split(b"\n")[:-1]
    found = [parse_row(line) for line in lines]
    good = [line for line, row in zip(lines, found, strict=True) if not isinstance(row, str)]
    damaged: tuple[str, ...] = ()
    if len(good) < len(lines):
        first = line_number(file, offset)
        damaged = tuple(
            f"{segment.path.name}:{first + n}: {problem}"
            for n, problem in enumerate(found)
            if isinstance(problem, str)
        )
    return JournalPart(good, segment.begin + offset + len(data), damaged)


def _end_of_lines(file: BinaryIO, size: int) -> int:
    """Return the byte offset after the last complete line."""
    end = size
    while end > 0:
        block = min(_BLOCK, end)
        file.seek(end - block)
        newline = file.read(block).rfind(b"\n")
        if newline >= 0:
            return end - block + newline + 1
        end -= block
    return 0
