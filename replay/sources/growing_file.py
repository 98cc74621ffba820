"""A file that grows by lines: how far it is read, and whether it is still the same file.

Values and reads of single blocks; knows neither Spark nor what the lines mean.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from cluster.errors import EnvironmentProblem
from replay.sources.file_parts import BLOCK_BYTES, PART_BYTES, FilePart, count_lines, number

_CHECKED_BYTES: Final = 4096


class Place(msgspec.Struct, frozen=True):
    """How far a file is read: ``byte`` is the one after the last complete line.

    ``inode`` tells a file from another of its name; ``lines`` end before ``byte``; ``check`` is a
    CRC-32 of up to 4 KiB before it, as a file may be cut and written anew.
    """

    file: str
    inode: int
    byte: int = 0
    lines: int = 0
    check: int = 0

    def as_offset(self) -> dict[str, Any]:
        """As Spark keeps it."""
        return msgspec.structs.asdict(self)


def place_of(offset: dict[str, Any]) -> Place:
    """What ``as_offset`` made."""
    return msgspec.convert(offset, Place)


def beginning(path: Path) -> Place:
    """Before the first line of a file. Raises EnvironmentProblem if there is none."""
    with _opened(str(path.absolute())) as file:
        return Place(file.name, os.fstat(file.fileno()).st_ino)


def last_line_end(place: Place) -> Place:
    """After the last complete line that is there now: a half one waits.

    Raises EnvironmentProblem if the file was removed, replaced or truncated since ``place``.
    """
    with _opened(place.file) as file:
        status = os.fstat(file.fileno())
        if status.st_ino != place.inode:
            raise EnvironmentProblem(f"{place.file} was replaced by another file")
        if status.st_size < place.byte or _check(file, place.byte) != place.check:
            raise EnvironmentProblem(f"{place.file} was truncated")
        end, lines = place.byte, place.lines
        file.seek(end)
        while data := file.read(BLOCK_BYTES):
            begun_at = file.tell() - len(data)
            if count := data.count(b"\n"):
                lines += count
                end = begun_at + data.rindex(b"\n") + 1
        return Place(place.file, place.inode, end, lines, _check(file, end))


def parts_between(start: Place, end: Place, part_bytes: int = PART_BYTES) -> list[FilePart]:
    """The lines between two places, in parts that can be read at once."""
    begins = range(start.byte, end.byte, part_bytes)
    parts = [FilePart(end.file, begin, min(begin + part_bytes, end.byte), None) for begin in begins]
    # A part that does not begin the file counts from the newline before it.
    before = start.lines - 1 if start.byte else 0
    return [
        part._replace(lines_before=before + part.lines_before)
        for part in number(parts, list(map(count_lines, parts)))
    ]


def _opened(file: str) -> BinaryIO:
    try:
        return open(file, "rb")
    except FileNotFoundError:
        raise EnvironmentProblem(f"{file} is not there any more") from None


def _check(file: BinaryIO, byte: int) -> int:
    file.seek(max(byte - _CHECKED_BYTES, 0))
    return zlib.crc32(file.read(byte - file.tell()))
