"""A file that grows: places in it, and the parts between two of them."""

from __future__ import annotations

import gzip
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.cluster.errors import EnvironmentProblem
from klamm.replay.event_schema import DamagedLine
from klamm.replay.sources.log_tail import (
    FollowedPart,
    LogPosition,
    beginning,
    last_line_end,
    parts_between,
    read_log_part,
)


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def lines_between(start: LogPosition, end: LogPosition, part_bytes: int) -> list[tuple[int, bytes]]:
    return lines_of(parts_between(start, end, part_bytes))


def lines_of(parts: list[FollowedPart]) -> list[tuple[int, bytes]]:
    found = []
    for part in parts:
        for block in read_log_part(part):
            assert not isinstance(block, DamagedLine)
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
        places.append(last_line_end(places[-1]))
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
        (lambda path: path.rename(path.with_name("old")), "no longer exists"),
        (lambda path: path.with_name("new").replace(path), "was replaced by another file"),
    ],
    ids=["shorter", "written anew", "gone", "another"],
)
def test_a_file_that_is_truncated_or_replaced_is_an_error(
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


def rotate(path: Path, *, packed: bool) -> None:
    """What klamm up does: a name with the bytes so far, perhaps compressed, and a new file."""
    ends = [int(other.name.split(".")[-1]) for other in path.parent.glob("journal.0*[0-9]")]
    ends += [int(other.name.split(".")[-2]) for other in path.parent.glob("journal.0*.gz")]
    rotated = path.with_name(f"journal.{max(ends, default=0) + path.stat().st_size:020d}")
    path.rename(rotated)
    if packed:
        pack(rotated)
    path.touch()


def pack(rotated: Path) -> None:
    rotated.with_name(f"{rotated.name}.gz").write_bytes(gzip.compress(rotated.read_bytes()))
    rotated.unlink()


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("part_bytes", [1, 7, 1000])
def test_each_line_is_read_once_over_rotations(
    part_bytes: int, packed: bool, tmp_path: Path
) -> None:
    path = tmp_path / "journal"
    path.touch()
    places = [beginning(path)]
    lines = [b"line %d" % number for number in range(1, 41)]
    for number, line in enumerate(lines, 1):
        append(path, line + b"\n")
        if number in (3, 4, 17, 30, 39):
            rotate(path, packed=packed)
        if number in (1, 3, 10, 18, 40):
            places.append(last_line_end(places[-1]))
    read = [lines_between(*pair, part_bytes) for pair in itertools.pairwise(places)]
    assert [len(part) for part in read] == [1, 2, 7, 8, 22]
    assert list(itertools.chain(*read)) == list(enumerate(lines, 1))
    late = beginning(path)
    assert lines_between(late, last_line_end(late), part_bytes) == list(enumerate(lines, 1))
    parts = parts_between(late, places[-1], part_bytes)
    for rotated in path.parent.glob("journal.0*[0-9]"):
        pack(rotated)  # between the plan and the reading of its parts
    assert lines_of(parts) == list(enumerate(lines, 1))


def test_a_file_that_retention_deletes_unread_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    append(path, b"one\n")
    place = last_line_end(beginning(path))
    append(path, b"two\n")
    rotate(path, packed=False)
    append(path, b"three\n")
    rotate(path, packed=True)
    (tmp_path / "journal.00000000000000000008").unlink()
    with pytest.raises(EnvironmentProblem, match="the lines to read were rotated"):
        last_line_end(place)
