"""Divides large text files into parts that can be read in parallel, with line numbers.

Parts have equal sizes in bytes, so that most begin within a line; a line belongs to the part in
which it begins. A compressed file is not divided.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow as pa

from klamm.cluster.errors import EnvironmentProblem
from klamm.replay.engines import Engine
from klamm.replay.event_schema import REST_UNREAD, DamagedLine
from klamm.replay.locations import location
from klamm.zk.snapshot_file import GZIP_MAGIC

PART_BYTES: Final = 64 << 20
_LEAST_PART_BYTES: Final = 4 << 20
_LEAST_ROUNDS: Final = 2
BLOCK_BYTES: Final = 4 << 20
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_NEWLINE: Final = b"\n"
_INPUT_BYTES: Final = 64 << 10
_HEAD_BYTES: Final = 64 << 10
_TEXT_BYTES: Final = 800


class FilePart(NamedTuple):
    """A part of a file: the lines whose first byte is at ``begin`` or later, and before ``end``.

    ``lines_before``: number of lines in the file before the part. A compressed file has one part,
    whose ``end`` is the compressed size.
    """

    file: str
    begin: int
    end: int
    compression: str | None
    lines_before: int = 0


class Lines(NamedTuple):
    """A block of lines. All lines end with a newline, except perhaps the last one of the file."""

    data: bytes
    first_line: int


def total_size_bytes(paths: Sequence[Path]) -> int:
    """Return the total size of the files in bytes."""
    return sum(path.stat().st_size for path in paths)


def part_size(engine: Engine, paths: Sequence[Path]) -> int:
    """Return a part size in bytes that gives each processor an equal number of parts."""
    size, at_once = total_size_bytes(paths), engine.cores
    rounds = max(_LEAST_ROUNDS, -(-size // (PART_BYTES * at_once)))
    return max(_LEAST_PART_BYTES, -(-size // (rounds * at_once)))


def cut_into_parts(engine: Engine, paths: Sequence[Path], part_bytes: int) -> list[FilePart]:
    """Divide files into parts, in order, and count the lines of each part."""
    files = [list(cut_file(path, part_bytes)) for path in paths]
    uncounted = [part for parts in files if len(parts) > 1 for part in parts]
    counts: dict[FilePart, int] = {}
    if uncounted:
        counts.update(zip(uncounted, engine.map(count_newlines, uncounted), strict=True))
    return [
        part for parts in files for part in number(parts, [counts.get(part, 0) for part in parts])
    ]


def number(parts: Sequence[FilePart], counts: Sequence[int]) -> list[FilePart]:
    """Set ``lines_before`` in the parts of a file. ``counts``: number of lines in each part."""
    before = itertools.accumulate(counts, initial=0)
    return [part._replace(lines_before=lines) for part, lines in zip(parts, before, strict=False)]


def read_part(part: FilePart) -> Iterator[Lines | DamagedLine]:
    """Yield the lines of a part in blocks.

    Raises EnvironmentProblem if the file has become shorter since it was divided.
    """
    if part.compression is not None:
        yield from _read_compressed(part)
        return
    with location(part.file).open("rb") as file:
        file.seek(max(part.begin - 1, 0))
        line = part.lines_before + 1
        if part.begin:
            # A line that begins in the previous part belongs to that part.
            file.readline()
            line += 1
        while file.tell() < part.end:
            data = file.read(min(BLOCK_BYTES, part.end - file.tell()))
            if not data.endswith(_NEWLINE):
                data += file.readline()
            if not data:
                raise EnvironmentProblem(f"{part.file} was truncated while klamm read it")
            yield Lines(data, line)
            line += data.count(_NEWLINE)


def compression_of(head: bytes) -> str | None:
    """Return how a file that starts with these bytes is compressed: "gzip", "zstd" or None."""
    if head.startswith(GZIP_MAGIC):
        return "gzip"
    return "zstd" if head.startswith(ZSTD_MAGIC) else None


def decompressed_head(head: bytes) -> bytes:
    """Decompress the first bytes of a compressed file, and return up to 64 KiB.

    The bytes of an uncompressed file are returned unchanged.
    """
    match compression_of(head):
        case "gzip":
            try:
                return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, _HEAD_BYTES)
            except zlib.error:
                return b""
        case "zstd":
            try:
                return pa.CompressedInputStream(pa.BufferReader(head), "zstd").read(_HEAD_BYTES)
            except (OSError, pa.ArrowInvalid):
                return b""
    return head


def have_equal_contents(one: Path, other: Path) -> bool:
    """Return whether two files have equal contents, after decompression.

    A damaged compressed file is equal only to a file with the same bytes.
    """
    if _have_equal_bytes(one, other):
        return True
    compressions = [_compression(path) for path in (one, other)]
    if compressions == [None, None]:
        return False
    hashes = [_sha256(path, how) for path, how in zip((one, other), compressions, strict=True)]
    return None not in hashes and hashes[0] == hashes[1]


def _have_equal_bytes(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as left, other.open("rb") as right:
        while (block := left.read(BLOCK_BYTES)) == right.read(BLOCK_BYTES):
            if not block:
                return True
    return False


def cut_file(path: Path, part_bytes: int) -> Iterator[FilePart]:
    """Divide a file into parts, without counting lines (``lines_before`` is 0)."""
    whole = whole_file(path)
    if whole.compression is not None:
        yield whole
        return
    for begin in range(0, whole.end, part_bytes):
        yield whole._replace(begin=begin, end=min(begin + part_bytes, whole.end))


def whole_file(path: Path) -> FilePart:
    """Return a file as a single part."""
    return FilePart(str(path.absolute()), 0, path.stat().st_size, _compression(path))


def count_newlines(part: FilePart) -> int:
    """Count the newlines in a part, shifted towards the start of the file by one byte.

    ``read_part`` shifts the part in the same way, because the part begins with a whole line only if
    the byte before it is a newline.
    """
    begin, end = max(part.begin - 1, 0), part.end - 1
    count = 0
    with location(part.file).open("rb") as file:
        file.seek(begin)
        while (left := end - file.tell()) > 0 and (data := file.read(min(BLOCK_BYTES, left))):
            count += data.count(_NEWLINE)
    return count


def _compression(path: Path) -> str | None:
    with path.open("rb") as file:
        return compression_of(file.read(4))


def _sha256(path: Path, compression: str | None) -> bytes | None:
    """Return the SHA-256 of a file's decompressed content, or None if the file is damaged."""
    if compression is None:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    digest = hashlib.sha256()
    try:
        for block in _decompressed(str(path), compression):
            digest.update(block)
    except _Damage:
        return None
    return digest.digest()


def _read_compressed(part: FilePart) -> Iterator[Lines | DamagedLine]:
    begun = b""
    line = part.lines_before + 1
    try:
        for block in _decompressed(part.file, str(part.compression)):
            whole, newline, rest = block.rpartition(_NEWLINE)
            if not newline:
                begun += block
                continue
            data = begun + whole + newline
            begun = rest
            yield Lines(data, line)
            line += data.count(_NEWLINE)
    except _Damage as damage:
        text = begun[:_TEXT_BYTES].decode(errors="replace")
        yield DamagedLine(line, f"{damage} {part.compression}, {REST_UNREAD}", text)
        return
    if begun:
        yield Lines(begun, line)


class _Damage(Exception):
    """Raised for a damaged compressed file; the message is "truncated" or "damaged"."""


def _decompressed(file: str, compression: str) -> Iterator[bytes]:
    """Yield the decompressed content of a file in blocks of some 4 MiB, the last one smaller.

    A gzip file may have several members and padding. If the file is damaged, yields the data before
    the damage, then raises _Damage.
    """
    open_stream, errors = _STREAMS[compression]
    gathered = bytearray()
    with location(file).open("rb") as compressed, open_stream(compressed) as stream:
        try:
            while block := stream.read1(_INPUT_BYTES):
                gathered += block
                if len(gathered) >= BLOCK_BYTES:
                    yield bytes(gathered)
                    gathered.clear()
        except errors as error:
            yield bytes(gathered)
            is_cut = isinstance(error, EOFError) or "runcated" in str(error)
            raise _Damage("truncated" if is_cut else "damaged") from error
    yield bytes(gathered)


_STREAMS: Final[dict[str, tuple[Callable[[BinaryIO], Any], tuple[type[Exception], ...]]]] = {
    "gzip": (gzip.open, (EOFError, zlib.error, gzip.BadGzipFile)),
    "zstd": (partial(pa.CompressedInputStream, compression="zstd"), (OSError,)),
}
"""For each compression: how to open a stream, and what it raises for a damaged file."""
