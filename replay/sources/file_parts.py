"""Division of large text files into parts for Spark's tasks, with the line number of each part.

A line belongs to the part in which it begins. Plain files are cut at equal distances; a compressed
file is one part. Independent of the meaning of the lines.
"""

from __future__ import annotations

import filecmp
import gzip
import hashlib
import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from klamm.cluster.errors import EnvironmentProblem
from klamm.replay.event_schema import REST_UNREAD

PART_BYTES: Final = 64 << 20
_LEAST_PART_BYTES: Final = 4 << 20
_LEAST_ROUNDS: Final = 2
BLOCK_BYTES: Final = 4 << 20
GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_NEWLINE: Final = b"\n"
_INPUT_BYTES: Final = 64 << 10
_HEAD_BYTES: Final = 64 << 10
_TEXT_BYTES: Final = 800


class FilePart(NamedTuple):
    """The lines of a file that begin at ``begin`` <= byte < ``end``; ``lines_before`` precede them.

    The part of a compressed file is the whole file; ``end`` is then its compressed size.
    """

    file: str
    begin: int
    end: int
    compression: str | None
    lines_before: int = 0


class Lines(NamedTuple):
    """A block of complete lines; only the last line of a file may lack its newline."""

    data: bytes
    first_line: int


class CutShort(NamedTuple):
    """A truncated or damaged compressed file: it is unreadable from ``line`` on."""

    line: int
    problem: str
    text: str


def part_size(spark: SparkSession, paths: Sequence[Path]) -> int:
    """Return the bytes per part that let all processors finish at about the same time."""
    size = sum(path.stat().st_size for path in paths)
    at_once = spark.sparkContext.defaultParallelism
    rounds = max(_LEAST_ROUNDS, -(-size // (PART_BYTES * at_once)))
    return max(_LEAST_PART_BYTES, -(-size // (rounds * at_once)))


def cut(spark: SparkSession, paths: Sequence[Path], part_bytes: int) -> list[FilePart]:
    """Cut files into parts, in order. A Spark job counts the lines of each part."""
    files = [list(cut_file(path, part_bytes)) for path in paths]
    uncounted = [part for parts in files if len(parts) > 1 for part in parts]
    counts: dict[FilePart, int] = {}
    if uncounted:
        tasks = spark.sparkContext.parallelize(uncounted, len(uncounted))
        counts.update(zip(uncounted, tasks.map(count_lines).collect(), strict=True))
    return [
        part for parts in files for part in number(parts, [counts.get(part, 0) for part in parts])
    ]


def number(parts: Sequence[FilePart], counts: Sequence[int]) -> list[FilePart]:
    """Set ``lines_before`` of the parts of one file, from the line count of each part."""
    before = itertools.accumulate(counts, initial=0)
    return [part._replace(lines_before=lines) for part, lines in zip(parts, before, strict=False)]


def read_part(part: FilePart) -> Iterator[Lines | CutShort]:
    """Yield the lines of a part in blocks.

    Raises EnvironmentProblem if the file has become shorter since it was cut into parts.
    """
    if part.compression is not None:
        yield from _read_compressed(part)
        return
    with open(part.file, "rb") as file:
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
    """Return the compression of a file with these first bytes: "gzip", "zstd" or None."""
    if head.startswith(GZIP_MAGIC):
        return "gzip"
    return "zstd" if head.startswith(ZSTD_MAGIC) else None


def decompressed_head(head: bytes) -> bytes:
    """Decompress the first bytes of a file, up to 64 KiB; plain bytes are returned unchanged."""
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


def hold_the_same(one: Path, other: Path) -> bool:
    """Return whether two files have equal contents, ignoring compression.

    An unreadable compressed file equals only a file with the same bytes.
    """
    if filecmp.cmp(one, other, shallow=False):
        return True
    compressions = [_compression(path) for path in (one, other)]
    if compressions == [None, None]:
        return False
    hashes = [_sha256(path, how) for path, how in zip((one, other), compressions, strict=True)]
    return None not in hashes and hashes[0] == hashes[1]


def cut_file(path: Path, part_bytes: int) -> Iterator[FilePart]:
    """Cut one file into parts without counting lines."""
    file = str(path.absolute())
    compression = _compression(path)
    size = path.stat().st_size
    if compression is not None:
        yield FilePart(file, 0, size, compression)
        return
    for begin in range(0, size, part_bytes):
        yield FilePart(file, begin, min(begin + part_bytes, size), None)


def count_lines(part: FilePart) -> int:
    """Count the newlines between the points at which this part and the next start reading."""
    begin, end = max(part.begin - 1, 0), part.end - 1
    count = 0
    with open(part.file, "rb") as file:
        file.seek(begin)
        while (left := end - file.tell()) > 0 and (data := file.read(min(BLOCK_BYTES, left))):
            count += data.count(_NEWLINE)
    return count


def _compression(path: Path) -> str | None:
    with path.open("rb") as file:
        return compression_of(file.read(4))


def _sha256(path: Path, compression: str | None) -> bytes | None:
    """Return the hash of a file's decompressed content; None if it cannot be read completely."""
    if compression is None:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    digest = hashlib.sha256()
    try:
        for block in _BLOCKS[compression](str(path)):
            digest.update(block)
    except _Damage:
        return None
    return digest.digest()


def _read_compressed(part: FilePart) -> Iterator[Lines | CutShort]:
    blocks = _BLOCKS[str(part.compression)]
    begun = b""
    line = part.lines_before + 1
    try:
        for block in _gathered(blocks, part.file):
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
        yield CutShort(line, f"{damage} {part.compression}, {REST_UNREAD}", text)
        return
    if begun:
        yield Lines(begun, line)


class _Damage(Exception):
    """Damage of a compressed file; its text is "truncated" or "damaged"."""


def _gathered(blocks: Callable[[str], Iterator[bytes]], file: str) -> Iterator[bytes]:
    """Join small blocks; at damage, yield the data before it and then raise."""
    gathered: list[bytes] = []
    size = 0
    try:
        for block in blocks(file):
            gathered.append(block)
            size += len(block)
            if size >= BLOCK_BYTES:
                yield b"".join(gathered)
                gathered, size = [], 0
    except _Damage:
        yield b"".join(gathered)
        raise
    yield b"".join(gathered)


def _gzip_blocks(name: str) -> Iterator[bytes]:
    """Yield the content of a gzip file with one or more members and optional zero padding."""
    with gzip.open(name) as file:
        try:
            while block := file.read1(_INPUT_BYTES):
                yield block
        except EOFError as error:
            raise _Damage("truncated") from error
        except (zlib.error, gzip.BadGzipFile) as error:
            raise _Damage("damaged") from error


def _zstd_blocks(name: str) -> Iterator[bytes]:
    with open(name, "rb") as file, pa.CompressedInputStream(file, "zstd") as stream:
        try:
            while block := stream.read(_INPUT_BYTES):
                yield block
        except OSError as error:
            raise _Damage("truncated" if "runcated" in str(error) else "damaged") from error


_BLOCKS: Final = {"gzip": _gzip_blocks, "zstd": _zstd_blocks}
