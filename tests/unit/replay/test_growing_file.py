"""A file that grows: places in it, and the parts between two of them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.errors import EnvironmentProblem
from replay.sources.file_parts import CutShort, read_part
from replay.sources.growing_file import (
    Place,
    beginning,
    last_line_end,
    parts_between,
    place_of,
)


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def lines_between(start: Place, end: Place, part_bytes: int) -> list[tuple[int, bytes]]:
    found = []
    for part in parts_between(start, end, part_bytes):
        for block in read_part(part):
            assert not isinstance(block, CutShort)
            lines = block.data.removesuffix(b"\n").split(b"\n")
            found += list(enumerate(lines, block.first_line))
    return found


@pytest.mark.parametrize("part_bytes", [1, 3, 10, 1000])
def test_each_line_is_read_once_when_it_is_whole(part_bytes: int, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.touch()
    places = [beginning(path)]
    for data in (b"half", b" a line\n\nthird\nfour", b"th\n", b"", b"fifth\n"):
        append(path, data)
        places.append(place_of(last_line_end(places[-1]).as_offset()))
    read = [lines_between(*pair, part_bytes) for pair in itertools.pairwise(places)]
    assert read == [
        [],
        [(1, b"half a line"), (2, b""), (3, b"third")],
        [(4, b"fourth")],
        [],
        [(5, b"fifth")],
    ]
    assert (places[-1].byte, places[-1].lines) == (path.stat().st_size, 5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: os.truncate(path, 3), "was truncated"),
        (lambda path: path.write_bytes(b"b" * 9 + b"\n" + b"c\n"), "was truncated"),
        (lambda path: path.rename(path.with_name("old")), "is not there any more"),
        (lambda path: path.with_name("new").replace(path), "was replaced by another file"),
    ],
    ids=["shorter", "written anew", "gone", "another"],
)
def test_it_must_stay_the_same_file(
    change: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "journal"
    for name in ("journal", "new"):
        (tmp_path / name).write_bytes(b"a" * 9 + b"\n")
    place = last_line_end(beginning(path))
    assert place.byte == 10
    change(path)
    with pytest.raises(EnvironmentProblem, match=message):
        last_line_end(place)
