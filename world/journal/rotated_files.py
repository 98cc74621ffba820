"""Reads a log across its rotated files, even while it is being written, rotated or compressed.

A position is a byte offset in the whole log, so a rotation does not change it.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from klamm.cluster.rotated_names import RotatedName, rotated_names

_BLOCK_BYTES: Final = 1 << 20


class LogFile(NamedTuple):
    """One file of a log, which contains the bytes from position ``begin`` to ``end``.

    ``end`` is None if the file is still being written. ``is_damaged``: the gzip data is damaged,
    and only the part before the damage can be read."""

    path: Path
    begin: int
    end: int | None
    is_damaged: bool = False


def rotated(path: Path) -> list[RotatedName]:
    """Return the names of a log's rotated files, oldest first."""
    try:
        return rotated_names(path.name, os.listdir(path.parent))
    except FileNotFoundError:
        return []


@contextmanager
def opened_at(path: Path, position: int) -> Iterator[tuple[LogFile, BinaryIO] | None]:
    """Open the file that contains, or will contain, the byte at ``position``.

    Yields None if the log does not exist. If retention has deleted that byte, the oldest file is
    opened. Raises OSError."""
    while True:
        names = rotated(path)
        at = next((n for n, name in enumerate(names) if name.end > position), len(names))
        begin = names[at - 1].end if at else 0
        is_last = at == len(names)
        try:
            opened = _open_last(path, begin) if is_last else _open_rotated(path, names[at], begin)
        except FileNotFoundError:
            opened = None
        # Between the two directory listings the file may have been rotated or compressed.
        if (is_last or opened is None) and rotated(path) != names:
            if opened is not None:
                opened[1].close()
            continue
        if opened is None and not names:
            yield None
            return
        if opened is None:  # a crash in the middle of a rotation
            opened = LogFile(path, names[-1].end, None), io.BytesIO()
        with opened[1]:
            yield opened
            return


class LogLines:
    """The complete lines of a log, without newlines; each iteration continues where the last ended.

    Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            with opened_at(self._path, self._position) as opened:
                if opened is None:
                    return
                log_file, file = opened
                self._position = max(self._position, log_file.begin)
                file.seek(self._position - log_file.begin)
                for line in file:
                    if line.endswith(b"\n"):
                        self._position += len(line)
                        yield line[:-1]
                if log_file.end is None:
                    return
                self._position = log_file.end


def line_number(file: BinaryIO, offset: int) -> int:
    """Return the line number (from 1) of the line that begins at a byte offset of a file."""
    count, left = 1, offset
    file.seek(0)
    while left > 0 and (data := file.read(min(left, _BLOCK_BYTES))):
        count += data.count(b"\n")
        left -= len(data)
    return count


def _open_last(path: Path, begin: int) -> tuple[LogFile, BinaryIO]:
    return LogFile(path, begin, None), path.open("rb")


def _open_rotated(path: Path, name: RotatedName, begin: int) -> tuple[LogFile, BinaryIO]:
    """Open a rotated file. A compressed file is read into memory; rotation keeps files small."""
    at = path.with_name(name.name)
    if not name.is_compressed:
        file = at.open("rb")
        size = os.fstat(file.fileno()).st_size
        return LogFile(at, max(begin, name.end - size), name.end), file
    data, is_damaged = _decompressed(at)
    begin = begin if is_damaged else name.end - len(data)
    return LogFile(at, begin, name.end, is_damaged), io.BytesIO(data)


def _decompressed(path: Path) -> tuple[bytes, bool]:
    """Return the data that can be decompressed, and whether the rest of the file is damaged."""
    member = zlib.decompressobj(zlib.MAX_WBITS | 16)
    found = []
    with path.open("rb") as file:
        try:
            while data := file.read(_BLOCK_BYTES):
                found.append(member.decompress(data))
        except zlib.error:
            return b"".join(found), True
    return b"".join(found), not member.eof
