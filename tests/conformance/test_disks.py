"""Conformance suite for the real disk, the disk in memory, and the disk with fault injection."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.recovery import Known
from klamm.brokers.logs.segment_log import SegmentLog
from klamm.brokers.storage.disk import LOCAL_DISK, Disk, read_whole, write_whole
from klamm.brokers.storage.faults import FaultyDisk
from klamm.brokers.storage.memory_disk import MemoryDisk
from tests.unit.brokers.logs.batches import NOW_MS, append, values_from

DISKS: dict[str, Callable[[], Disk]] = {
    "local": lambda: LOCAL_DISK,
    "memory": lambda: MemoryDisk(lambda: NOW_MS),
    "faulty": lambda: FaultyDisk(MemoryDisk(lambda: NOW_MS), random.Random(0)),
}


@pytest.fixture(params=DISKS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    disk = DISKS[request.param]()
    disk.make_dirs(tmp_path)
    return disk


def test_files_hold_what_is_written_at_any_place(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "file"
    disk.create(path, 4)
    assert (disk.stat(path).size_bytes, read_whole(disk, path)) == (4, bytes(4))
    disk.write_at(path, 2, b"abcd")
    assert disk.read_at(path, 0, 99) == b"\0\0abcd"
    disk.write_at(path, 8, b"z")
    disk.resize(path, 11)
    with disk.reading(path) as read_at:
        assert (read_at(5, 4), read_at(9, 9), read_at(50, 1)) == (b"d\0\0z", b"\0\0", b"")
    disk.resize(path, 3)
    disk.resize(path, 5)
    disk.sync(path)
    disk.drop_cache(path)
    assert read_whole(disk, path) == b"\0\0a\0\0"
    disk.create(path)
    assert read_whole(disk, path) == b""


def test_a_file_is_written_whole_in_place_of_another(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for text in (b"long, and before", b"new"):
        write_whole(disk, path, text)
        assert read_whole(disk, path) == text
    assert disk.names(tmp_path) == ["file"]


def test_directories_are_listed_renamed_and_removed(disk: Disk, tmp_path: Path) -> None:
    disk.make_dirs(tmp_path / "a" / "b")
    disk.make_dirs(tmp_path / "a" / "b")
    disk.create(tmp_path / "a" / "b" / "file")
    disk.create(tmp_path / "a" / "file")
    assert (disk.names(tmp_path / "a"), disk.folders(tmp_path / "a")) == (["b", "file"], ["b"])
    disk.rename(tmp_path / "a", tmp_path / "c")
    assert disk.names(tmp_path) == ["c"]
    assert disk.names(tmp_path / "c" / "b") == ["file"]
    disk.remove(tmp_path / "c" / "file")
    assert disk.names(tmp_path / "c") == ["b"]
    disk.remove_tree(tmp_path / "c")
    assert disk.names(tmp_path) == []


def test_what_does_not_exist_is_named(disk: Disk, tmp_path: Path) -> None:
    path = str(tmp_path / "nothing")
    for do in (
        lambda: disk.stat(path),
        lambda: disk.read_at(path, 0, 1),
        lambda: disk.write_at(path, 0, b"x"),
        lambda: disk.resize(path, 1),
        lambda: disk.remove(path),
        lambda: disk.rename(path, path + "2"),
        lambda: disk.remove_tree(path),
        lambda: disk.names(path),
        lambda: disk.create(path + "/file"),
    ):
        with pytest.raises(FileNotFoundError) as missing:
            do()
        assert str(missing.value.filename).startswith(path)


def test_a_lock_is_held_once(disk: Disk, tmp_path: Path) -> None:
    unlock = disk.lock(tmp_path / ".lock")
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(BlockingIOError):
        disk.lock(tmp_path / ".lock")
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files
    unlock()
    disk.lock(tmp_path / ".lock")()


def test_a_copy_of_a_disk_in_memory_is_another_disk() -> None:
    disk = MemoryDisk(lambda: NOW_MS)
    disk.create("/file")
    unlock = {"/lock": disk.lock("/lock")}
    other, unlock_other = copy.deepcopy((disk, unlock))
    disk.write_at("/file", 0, b"here")
    unlock_other["/lock"]()
    other.lock("/lock")
    assert read_whole(other, "/file") == b""
    with pytest.raises(BlockingIOError):
        disk.lock("/lock")


def test_a_segment_log_lives_on_each(disk: Disk, tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=200, index_interval_bytes=0)

    def log(known: Known) -> SegmentLog:
        return SegmentLog(tmp_path / "t-0", config, now_ms=NOW_MS, known=known, disk=disk)

    first = log(Known())
    values = [b"%d" % number for number in range(10)]
    for value in values:
        append(first, value)
    assert len(first.base_offsets) > 2
    first.truncate_to(8)
    first.close()
    again = log(Known(is_clean=True))
    assert again.repairs == ()
    assert values_from(again, 0) == values[:8]
