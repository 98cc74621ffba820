"""Parts of files: whichever way a file is cut, each line is read once and has its number."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from klamm.cluster.errors import EnvironmentProblem
from klamm.replay.event_schema import REST_UNREAD, DamagedLine
from klamm.replay.sources.file_parts import (
    FilePart,
    count_newlines,
    cut_file,
    decompressed_head,
    number,
    read_part,
)

CONTENTS = {
    "lines": b"".join(b"x" * (n % 7) + b"\n" for n in range(50)),
    "no newline at the end": b"aa\nb\n\nccc",
    "one long line": b"y" * 100 + b"\nz\n",
    "newlines": b"\n" * 20,
}


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


COMPRESS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd}


def lines_of(parts: list[FilePart]) -> list[tuple[int, bytes]]:
    found = []
    for part in parts:
        for block in read_part(part):
            assert not isinstance(block, DamagedLine)
            lines = block.data.removesuffix(b"\n").split(b"\n")
            found += list(enumerate(lines, block.first_line))
    return found


def parts_of(path: Path, part_bytes: int) -> list[FilePart]:
    parts = list(cut_file(path, part_bytes))
    return number(parts, [count_newlines(part) for part in parts])


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("part_bytes", [1, 2, 3, 7, 64, 1000])
def test_each_line_is_read_once(content: str, part_bytes: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENTS[content])
    parts = parts_of(path, part_bytes)
    assert len(parts) == -(-len(CONTENTS[content]) // part_bytes)
    expected = CONTENTS[content].removesuffix(b"\n").split(b"\n")
    assert lines_of(parts) == list(enumerate(expected, 1))


def test_lines_added_after_the_cut_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a\nb")
    parts = parts_of(path, 10)
    path.write_bytes(b"a\nbb\nc\n")
    assert lines_of(parts) == [(1, b"a"), (2, b"bb")]


@pytest.mark.parametrize("how", COMPRESS)
def test_compressed_files_are_one_part(how: str, tmp_path: Path) -> None:
    data = b"".join(b"line %d %s\n" % (n, os.urandom(20).hex().encode()) for n in range(200_000))
    path = tmp_path / "file"
    path.write_bytes(COMPRESS[how](data[:5_000_003]) + COMPRESS[how](data[5_000_003:]))
    (part,) = parts_of(path, 1000)
    assert part.compression == how
    assert lines_of([part]) == list(enumerate(data.removesuffix(b"\n").split(b"\n"), 1))
    head = decompressed_head(path.read_bytes()[: 64 << 10])
    assert len(head) > 1000 and data.startswith(head)


@pytest.mark.parametrize("how", COMPRESS)
def test_a_truncated_gzip_file_gives_the_lines_before_its_end(how: str, tmp_path: Path) -> None:
    lines = [b"line %d %s\n" % (n, os.urandom(20).hex().encode()) for n in range(100_000)]
    whole = COMPRESS[how](b"".join(lines))
    path = tmp_path / "file"
    path.write_bytes(whole[: len(whole) // 2])
    *blocks, end = read_part(next(cut_file(path, 1)))
    assert isinstance(end, DamagedLine) and end.problem == f"truncated {how}, {REST_UNREAD}"
    read = b"".join(block.data for block in blocks if not isinstance(block, DamagedLine))
    assert b"".join(lines).startswith(read)
    assert end.line == read.count(b"\n") + 1 and 40_000 < end.line < 60_000


@pytest.mark.parametrize(("how", "place"), [("gzip", 5000), ("zstd", 5)])
def test_a_damaged_file_is_reported(how: str, place: int, tmp_path: Path) -> None:
    whole = bytearray(COMPRESS[how](os.urandom(100_000).hex().encode()))
    whole[place : place + 50] = b"\xff" * 50
    path = tmp_path / "file"
    path.write_bytes(whole)
    end = list(read_part(next(cut_file(path, 1))))[-1]
    assert isinstance(end, DamagedLine) and end.problem == f"damaged {how}, {REST_UNREAD}"


def test_zeros_behind_a_gzip_file_are_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(b"a\n") + b"\0" * 512)
    assert lines_of(parts_of(path, 1)) == [(1, b"a")]


def test_a_file_that_is_truncated_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\n")
    (part,) = cut_file(path, 100)
    path.write_bytes(b"one\n")
    with pytest.raises(EnvironmentProblem, match="log was truncated while klamm read it"):
        for _ in zip(range(9), read_part(part), strict=False):
            pass
