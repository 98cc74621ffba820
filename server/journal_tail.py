"""Reads journal.jsonl while it is written: its last rows, and the rows after a position.

A position is a byte offset in the whole journal, including rotated files, after a complete line.
Rows are returned as raw bytes; a line that is not a row is skipped and listed as damaged.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from klamm.cluster.journal import line_problem
from klamm.runtime.rotated_files import Segment, line_number, opened_at, rotated

_BLOCK: Final = 1 << 16
MAX_BYTES: Final = 1 << 22


class JournalPart(NamedTuple):
    """Rows of the journal, without newlines, and the position after the last one.

    ``damaged`` lists the lines between them that are not rows: file, line, and reason.
    """

    lines: list[bytes]
    next: int
    damaged: tuple[str, ...] = ()


class JournalPage(msgspec.Struct, frozen=True):
    """Answer of GET /journal: rows of the file, unchanged, and the position after the last one.

    ``damaged`` lists the lines between them that are not rows: file, line, and reason.
    """

    rows: list[msgspec.Raw]
    next: int
    damaged: tuple[str, ...] = ()


def last_rows(path: Path, count: int) -> JournalPart:
    """Return the last ``count`` complete rows; none if there is no journal. Raises OSError."""
    lines: list[bytes] = []
    damaged: tuple[str, ...] = ()
    place: int | None = None
    ends = [name.end for name in rotated(path)]
    # A position after all others finds the last file.
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
    """Return complete rows from ``place`` on, about ``max_bytes`` of them. Raises OSError.

    The result is empty only at the end of the journal.
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
        # The rest of a rotated file without a newline, or after damage, can never be read.
        if not data:
            damaged += _unread(segment, max(place, segment.begin))
        place = part.next if data or segment.end is None else segment.end
        if part.lines:
            return JournalPart(part.lines, place, damaged)


def _unread(segment: Segment, place: int) -> tuple[str, ...]:
    """Return the bytes of a damaged file that cannot be read, from a position on; else nothing."""
    if not segment.is_damaged or segment.end is None:
        return ()
    lost = f"bytes {place} to {segment.end} of the journal cannot be read"
    return (f"{segment.path.name}: damaged gzip: {lost}",)


def _lines_at(file: BinaryIO, offset: int, max_bytes: int) -> bytes:
    """Return the complete lines from a byte on."""
    file.seek(offset)
    data = file.read(max_bytes)
    if data and b"\n" not in data:
        data += file.readline()
    return data[: data.rfind(b"\n") + 1]


def _last_lines(file: BinaryIO, count: int) -> tuple[bytes, int]:
    """Return about ``count`` last complete lines of a file, and the byte where they begin."""
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
    return data[begin:], start + begin


def _rows(segment: Segment, file: BinaryIO, offset: int, data: bytes) -> JournalPart:
    """Return the rows among lines that begin at a byte of a file."""
    lines = data.split(b"\n")[:-1]
    problems = [line_problem(line) for line in lines]
    good = [line for line, problem in zip(lines, problems, strict=True) if problem is None]
    damaged: tuple[str, ...] = ()
    if len(good) < len(lines):
        first = line_number(file, offset)
        damaged = tuple(
            f"{segment.path.name}:{first + n}: {problem}"
            for n, problem in enumerate(problems)
            if problem is not None
        )
    return JournalPart(good, segment.begin + offset + len(data), damaged)


def _end_of_lines(file: BinaryIO, size: int) -> int:
    """Return the byte after the last complete line."""
    end = size
    while end > 0:
        block = min(_BLOCK, end)
        file.seek(end - block)
        newline = file.read(block).rfind(b"\n")
        if newline >= 0:
            return end - block + newline + 1
        end -= block
    return 0
