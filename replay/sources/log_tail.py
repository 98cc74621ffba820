"""Reads new lines of a growing log, including its rotated files.

Works for any log of lines. Line numbers are counted from the start of the oldest rotated file.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from klamm.cluster.errors import EnvironmentProblem
from klamm.cluster.rotated_names import RotatedName, rotated_names
from klamm.replay.event_schema import DamagedLine
from klamm.replay.sources.file_parts import (
    BLOCK_BYTES,
    PART_BYTES,
    FilePart,
    Lines,
    read_part,
)

_CHECKED_BYTES: Final = 4096
_SIZE_BYTES: Final = 4
_NO_FILE: Final = 0


class LogPosition(msgspec.Struct, frozen=True):
    """Read position in a log, at the end of a line.

    - ``file``: path of the log's newest file. ``inode``: its inode, 0 if it was not opened yet.
    - ``byte``: position in that file. ``base``: total size of the older (rotated) files.
    - ``lines``: number of lines before the position, in all files.
    - ``check``: CRC-32 of up to 4 KiB before the position, to detect that the file was truncated
      and rewritten.
    """

    file: str
    inode: int
    byte: int = 0
    lines: int = 0
    check: int = 0
    base: int = 0


class FollowedPart(NamedTuple):
    """Lines of a log in one of its files. ``begin`` and ``end``: bytes, counted over all files.

    The file may be renamed by a rotation before the part is read.
    """

    file: str
    begin: int
    end: int
    lines_before: int = 0


def beginning(path: Path) -> LogPosition:
    """Return the position of a log's first line. Raises EnvironmentProblem if there is no log."""
    file = str(path.absolute())
    if names := _rotated(file):
        return LogPosition(file, _NO_FILE, base=_begin_of(file, names, 0))
    try:
        return LogPosition(file, os.stat(file).st_ino)
    except FileNotFoundError:
        raise EnvironmentProblem(f"{file} no longer exists") from None


def last_line_end(place: LogPosition) -> LogPosition:
    """Return the position after the log's last complete line. ``place``: previous position.

    Raises EnvironmentProblem if the file was removed, replaced or truncated since ``place`` was
    determined, or if a rotated file with unread lines was deleted.
    """
    while True:
        names = _rotated(place.file)
        base = names[-1].end if names else 0
        is_rotated = base > place.base
        try:
            with open(place.file, "rb") as file:
                if _rotated(place.file) != names:
                    continue
                start = _after_rotation(place, base) if is_rotated else place
                return _last_line_end(file, start)
        except FileNotFoundError:
            if is_rotated:  # the next file has not been created yet
                return _after_rotation(place, base)
            raise EnvironmentProblem(f"{place.file} no longer exists") from None


def parts_between(
    start: LogPosition, end: LogPosition, part_bytes: int = PART_BYTES
) -> list[FollowedPart]:
    """Divide the lines between two positions into parts of at most ``part_bytes`` bytes."""
    parts = []
    lines = start.lines
    begin, last = start.base + start.byte, end.base + end.byte
    ends = [name.end for name in _rotated(start.file) if begin < name.end < last]
    for file_end in (*ends, last):
        while begin < file_end:
            part = FollowedPart(start.file, begin, min(begin + part_bytes, file_end), lines)
            parts.append(part)
            lines += count_lines(part)
            begin = part.end
    return parts


def count_lines(part: FollowedPart) -> int:
    """Return the number of lines that begin in a part."""
    blocks = read_log_part(part)
    return sum(block.data.count(b"\n") for block in blocks if not isinstance(block, DamagedLine))


def read_log_part(part: FollowedPart) -> list[Lines | DamagedLine]:
    """Read the lines of a part of a growing log; see ``read_part`` for files that do not grow.

    Raises EnvironmentProblem if the lines have been deleted.
    """
    while True:
        found = locate(part)
        try:
            blocks = _blocks(part, found)
        except (FileNotFoundError, EnvironmentProblem) as error:
            if locate(part) == found:
                raise EnvironmentProblem(str(error)) from error
        else:
            if locate(part) == found:
                return blocks
        # The file was rotated or compressed in the meantime, and has another name now.


def locate(part: FollowedPart) -> FilePart:
    """Find out which file contains a part now: the newest one or a rotated one.

    Returns the part's bytes in that file. For a compressed file, ``begin`` and ``end`` count
    uncompressed bytes. Raises EnvironmentProblem if the file was deleted.
    """
    names = _rotated(part.file)
    at = next((n for n, name in enumerate(names) if name.end > part.begin), len(names))
    is_newest = at == len(names)
    base = _begin_of(part.file, names, at)
    begin, end = part.begin - base, part.end - base
    if begin < 0:
        raise EnvironmentProblem(f"{part.file}: the lines to read were rotated and deleted")
    # read_part itself counts the line that ends just before the part.
    before = part.lines_before - 1 if begin else part.lines_before
    if is_newest:
        return FilePart(part.file, begin, end, None, before)
    file = os.path.join(os.path.dirname(part.file), names[at].name)
    if names[at].is_compressed:
        return FilePart(file, begin, end, "gzip", part.lines_before)
    return FilePart(file, begin, end, None, before)


def _blocks(part: FollowedPart, found: FilePart) -> list[Lines | DamagedLine]:
    blocks = list(read_part(found._replace(lines_before=0) if found.compression else found))
    if found.compression is None:
        return blocks
    data = b"".join(block.data for block in blocks if isinstance(block, Lines))
    begin, end = (_line_after(data, byte) for byte in (found.begin, found.end))
    damages = [block for block in blocks if isinstance(block, DamagedLine) and end == len(data)]
    return [Lines(data[begin:end], part.lines_before + 1)] * (begin < end) + damages


def _line_after(data: bytes, byte: int) -> int:
    """Return the byte at which the first line at or after ``byte`` begins."""
    if not byte:
        return 0
    newline = data.find(b"\n", byte - 1)
    return len(data) if newline < 0 else newline + 1


def _after_rotation(place: LogPosition, base: int) -> LogPosition:
    """Return the position at the start of the newest file, including its number of lines so far.

    ``place``: an earlier position, in a file that has since been rotated. Lines are counted from
    there.
    """
    end = LogPosition(place.file, _NO_FILE, base=base)
    parts = parts_between(place, end)
    lines = parts[-1].lines_before + count_lines(parts[-1]) if parts else place.lines
    return msgspec.structs.replace(end, lines=lines)


def _last_line_end(file: BinaryIO, place: LogPosition) -> LogPosition:
    status = os.fstat(file.fileno())
    if place.inode not in (_NO_FILE, status.st_ino):
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
    return LogPosition(place.file, status.st_ino, end, lines, _check(file, end), place.base)


def _rotated(file: str) -> list[RotatedName]:
    """Return the rotated files of a log, oldest first."""
    folder, name = os.path.split(file)
    try:
        return rotated_names(name, os.listdir(folder))
    except FileNotFoundError:
        return []


def _begin_of(file: str, names: list[RotatedName], at: int) -> int:
    """Return how many bytes of a log precede its file ``names[at]``.

    A file name contains the position at which the file ends. The oldest file begins at this
    position minus its uncompressed size; a compressed file has this size in the gzip trailer.
    """
    if at or not names:
        return names[at - 1].end if names else 0
    path = os.path.join(os.path.dirname(file), names[at].name)
    with open(path, "rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        if names[at].is_compressed:
            opened.seek(max(size - _SIZE_BYTES, 0))
            size = int.from_bytes(opened.read(_SIZE_BYTES), "little")
    return max(names[at].end - size, 0)


def _check(file: BinaryIO, byte: int) -> int:
    file.seek(max(byte - _CHECKED_BYTES, 0))
    return zlib.crc32(file.read(byte - file.tell()))
