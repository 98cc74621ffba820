"""Large files of lines in parts for Spark's tasks, each of which knows its first line's number.

A part has the lines that begin in it. Plain files are cut at equal distances; a compressed one is
a part. Reads bytes; what the lines mean is a source's business.
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
    """Lines of a file that begin at ``begin`` <= byte < ``end``; ``lines_before`` precede them.

    Of a compressed file it is all, and ``end`` is the number of its own bytes.
    """

    file: str
    begin: int
    end: int
    compression: str | None
    lines_before: int = 0


class Lines(NamedTuple):
    """Whole lines one after another; only the last of a file may lack its newline."""

    data: bytes
    first_line: int


class CutShort(NamedTuple):
    """A compressed file that ends too early or is damaged: what follows ``line`` is not known."""

    line: int
    problem: str
    text: str


def part_size(spark: SparkSession, paths: Sequence[Path]) -> int:
    """Bytes a part, such that all processors are done at about the same time."""
    size = sum(path.stat().st_size for path in paths)
    at_once = spark.sparkContext.defaultParallelism
    rounds = max(_LEAST_ROUNDS, -(-size // (PART_BYTES * at_once)))
    return max(_LEAST_PART_BYTES, -(-size // (rounds * at_once)))


def cut(spark: SparkSession, paths: Sequence[Path], part_bytes: int) -> list[FilePart]:
    """The parts of files, in their order. Counts the lines of each part in a Spark job."""
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
    """The parts of one file with their lines' numbers, by what ``count_lines`` says of each."""
    before = itertools.accumulate(counts, initial=0)
    return [part._replace(lines_before=lines) for part, lines in zip(parts, before, strict=False)]


def read_part(part: FilePart) -> Iterator[Lines | CutShort]:
    """The lines of a part, some thousands at once.

    Raises EnvironmentProblem if the file is shorter than it was when it was cut.
    """
    if part.compression is not None:
        yield from _read_compressed(part)
        return
    with open(part.file, "rb") as file:
        file.seek(max(part.begin - 1, 0))
        line = part.lines_before + 1
        if part.begin:
            # The line that a part begins in belongs to the part before.
            file.readline()
            line += 1
        while file.tell() < part.end:
            data = file.read(min(BLOCK_BYTES, part.end - file.tell()))
            if not data.endswith(_NEWLINE):
                data += file.readline()
            if not data:
                raise EnvironmentProblem(f"{part.file} was truncated while it was read")
            yield Lines(data, line)
            line += data.count(_NEWLINE)


def compression_of(head: bytes) -> str | None:
    """How a file with these first bytes is compressed: "gzip", "zstd" or not at all."""
    if head.startswith(GZIP_MAGIC):
        return "gzip"
    return "zstd" if head.startswith(ZSTD_MAGIC) else None


def decompressed_head(head: bytes) -> bytes:
    """The first bytes of a file without its compression: of a compressed one at most 64 KiB."""
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
    """Whether two files are equal without their compression. What cannot be read is like nothing
    but an equal file."""
    if filecmp.cmp(one, other, shallow=False):
        return True
    compressions = [_compression(path) for path in (one, other)]
    if compressions == [None, None]:
        return False
    hashes = [_sha256(path, how) for path, how in zip((one, other), compressions, strict=True)]
    return None not in hashes and hashes[0] == hashes[1]


def cut_file(path: Path, part_bytes: int) -> Iterator[FilePart]:
    """The parts of one file, their lines not counted yet."""
    file = str(path.absolute())
    compression = _compression(path)
    size = path.stat().st_size
    if compression is not None:
        yield FilePart(file, 0, size, compression)
        return
    for begin in range(0, size, part_bytes):
        yield FilePart(file, begin, min(begin + part_bytes, size), None)


def count_lines(part: FilePart) -> int:
    """How many lines end between where two parts begin to look for their first."""
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
    """Of what a file holds; None if that cannot be read to its end."""
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
    """ "truncated" or "damaged"."""


def _gathered(blocks: Callable[[str], Iterator[bytes]], file: str) -> Iterator[bytes]:
    """Small blocks brought together; what came before damage is not lost."""
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
    """What is in a gzip file of one or more members; zeros may follow one."""
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
