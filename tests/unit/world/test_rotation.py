"""Rotation of logs of lines: by size and time, compressed, with retention; a crash at any step."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from klamm.brokers.storage.disk import LocalDisk, StrPath
from klamm.cluster.errors import JournalUnwritable
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.rotated_names import UNFINISHED, rotated_name
from klamm.server.journal_tail import last_rows, rows_after
from klamm.world.clock import WallClock
from klamm.world.journal.archive import DEFAULT_ROTATION, Archive, Rotation
from klamm.world.journal.journal import FileJournal, read_journal
from klamm.world.journal.kafka_logs import KafkaLogs
from klamm.world.journal.line_file import LineFile
from klamm.world.journal.rotated_files import LogLines, opened_at, rotated
from tests.waiting import wait_until

SMALL = Rotation(segment_bytes=100)


class Crash(Exception):
    """The process is gone: nothing catches this."""


class CrashingDisk(LocalDisk):
    """A disk under a process that dies before its n-th change of a file or directory."""

    def __init__(self, changes: int) -> None:
        self.changes_left = changes

    def _change(self) -> None:
        self.changes_left -= 1
        if self.changes_left < 0:
            raise Crash

    def create(self, path: StrPath, size_bytes: int = 0) -> None:
        self._change()
        super().create(path, size_bytes)

    def write_at(self, path: StrPath, position: int, data: bytes) -> None:
        self._change()
        super().write_at(path, position, data)

    def rename(self, source: StrPath, target: StrPath) -> None:
        self._change()
        super().rename(source, target)

    def remove(self, path: StrPath) -> None:
        self._change()
        super().remove(path)


def a_row(seq: int) -> JournalRow:
    return JournalRow(1, "run", 1_000 + seq, seq, 1, 2, Kind.EVENT, detail="d" * 40)


def numbers(first: int, last: int) -> list[bytes]:
    return [b"line %06d" % number for number in range(first, last + 1)]


def write(file: LineFile, lines: list[bytes]) -> Iterator[bytes]:
    """Write lines one by one; yields those that are certainly written."""
    for line in lines:
        file.append(line + b"\n")
        file.flush()
        yield line


def run_until_crash(path: Path, changes: int) -> tuple[list[bytes], bool]:
    """Write 30 lines and tidy up twice: the lines that were written, and whether it crashed."""
    written: list[bytes] = []
    disk = CrashingDisk(changes)
    archive = Archive(SMALL, disk)
    archive.close()  # its thread: here the steps are done in order
    try:
        file = LineFile(path, archive=archive, disk=disk)
        worker = Archive(SMALL, disk)
        for lines in (numbers(1, 20), numbers(21, 30)):
            for line in write(file, lines):
                written.append(line)
            worker.tidy_now(path)
    except Crash:
        return written, True
    return written, False


def test_a_crash_at_any_step_loses_no_line_and_shows_none_twice(tmp_path: Path) -> None:
    changes, crashed = 0, True
    while crashed:
        folder = tmp_path / str(changes)
        folder.mkdir()
        path = folder / "some.log"
        written, crashed = run_until_crash(path, changes)
        found = list(LogLines(path))
        assert found == numbers(1, len(found)), changes
        assert len(written) <= len(found) <= len(written) + 1, changes
        file = LineFile(path)
        Archive(SMALL).tidy_now(path)
        (another,) = write(file, [b"another"])
        assert list(LogLines(path)) == [*found, another], changes
        names = [name for name in os.listdir(folder) if name != "some.log"]
        assert all(name.endswith(".gz") for name in names), names
        file.close()
        changes += 1
    assert changes > 40


def test_lines_are_read_once_while_the_log_is_rotated_and_compressed(tmp_path: Path) -> None:
    path = tmp_path / "some.log"
    lines = LogLines(path)
    assert list(lines) == []
    archive = Archive(SMALL)
    archive.close()
    file = LineFile(path, archive=archive)
    for first in (1, 31, 61, 91):
        assert list(write(file, numbers(first, first + 29))) == list(lines)
        if first == 61:
            archive.tidy_now(path)
    file.append(b"only a part")
    file.flush()
    assert list(lines) == []
    assert [*write(file, [b""])] == [b""]
    assert list(lines) == [b"only a part"]
    assert rotated(path)


def test_an_old_file_is_rotated_too_and_retention_deletes_by_size_and_age(tmp_path: Path) -> None:
    path = tmp_path / "some.log"
    now_ms = 1_000_000
    rotation = Rotation(segment_ms=5_000, retention_bytes=300)
    archive = Archive(rotation)
    archive.close()
    file = LineFile(path, archive=archive, now_ms=lambda: now_ms)
    for line in numbers(1, 100):
        (_,) = write(file, [line])
        now_ms += 2_500
    assert len(rotated(path)) == 49
    assert list(LogLines(path)) == numbers(1, 100)
    Archive(rotation).tidy_now(path)
    kept = rotated(path)
    assert sum((tmp_path / name.name).stat().st_size for name in kept) <= 300
    left = list(LogLines(path))
    assert left == numbers(101 - len(left), 100)
    assert kept[-1].end == len(numbers(1, 1)[0] + b"\n") * 99 or len(left) > 2
    Archive(Rotation(retention_bytes=-1, retention_ms=-1)).tidy_now(path)
    assert rotated(path) == kept
    Archive(Rotation(retention_ms=0)).tidy_now(path)
    assert rotated(path) == kept[-1:]  # its name has the offset at which the current file begins
    file.close()


def test_the_defaults_are_those_in_the_documentation() -> None:
    text = (Path(__file__).parents[3] / "docs" / "journal.md").read_text()
    found = re.findall(r"`--journal-([a-z-]+)` \| (\d+) (MiB|hours|days|day) \|", text)
    units = {"MiB": 1 << 20, "hours": 3_600_000, "day": 86_400_000, "days": 86_400_000}
    named = {name.replace("-", "_"): int(count) * units[unit] for name, count, unit in found}
    assert named == msgspec.structs.asdict(DEFAULT_ROTATION)


def test_a_log_that_is_opened_again_continues_at_its_position(tmp_path: Path) -> None:
    path = tmp_path / "some.log"
    for first in (1, 21):
        archive = Archive(SMALL)
        file = LineFile(path, archive=archive)
        list(write(file, numbers(first, first + 19)))
        file.close()
        archive.close()
    assert list(LogLines(path)) == numbers(1, 40)


@pytest.mark.parametrize(
    ("retention_bytes", "retention_ms", "left"), [(0, -1, 1), (-1, 0, 1), (-1, -1, 3)]
)
def test_a_retention_of_zero_keeps_the_newest_file(
    tmp_path: Path, retention_bytes: int, retention_ms: int, left: int
) -> None:
    path = tmp_path / "some.log"
    for end in (5, 10, 15):
        (tmp_path / rotated_name(path.name, end)).write_bytes(b"line\n")
    rotation = Rotation(retention_bytes=retention_bytes, retention_ms=retention_ms)
    Archive(rotation).tidy_now(path)
    assert [one.end for one in rotated(path)] == [5, 10, 15][-left:]


def test_no_more_files_are_deleted_than_the_size_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "some.log"
    for end in (5, 10, 15, 20):
        compressed = gzip.compress(b"line\n")
        (tmp_path / f"{rotated_name(path.name, end)}.gz").write_bytes(compressed)
    Archive(Rotation(retention_bytes=3 * len(compressed), retention_ms=-1)).tidy_now(path)
    assert [one.end for one in rotated(path)] == [10, 15, 20]


def test_only_files_of_the_log_itself_are_compressed_or_deleted(tmp_path: Path) -> None:
    path, other = tmp_path / "some.log", tmp_path / "some.log.1"
    plain = [rotated_name(log.name, 100) for log in (path, other)]
    drafts = [f"{name}{UNFINISHED}" for name in plain]
    drafts.append(f"{rotated_name(path.name, 50)}{UNFINISHED}")
    for name in (*plain, *drafts, f"{plain[1]}.gz", rotated_name(other.name, 50)):
        (tmp_path / name).write_bytes(gzip.compress(b"line\n"))
    Archive(Rotation(retention_bytes=0, retention_ms=0)).tidy_now(path)
    left = [plain[1], drafts[1], f"{plain[1]}.gz", rotated_name(other.name, 50), f"{plain[0]}.gz"]
    assert sorted(os.listdir(tmp_path)) == sorted(left)


class ClosingDisk(LocalDisk):
    """A disk on which an archive is closed as soon as it has begun to compress a file."""

    archive: Archive

    def create(self, path: StrPath, size_bytes: int = 0) -> None:
        super().create(path, size_bytes)
        self.archive.close()


def test_a_compression_that_is_interrupted_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    names = [rotated_name("some.log", end) for end in (5, 10)]
    for name in names:
        (tmp_path / name).write_bytes(b"line\n")
    disk = ClosingDisk()
    disk.archive = Archive(SMALL, disk)
    disk.archive.tidy_now(tmp_path / "some.log")
    assert sorted(os.listdir(tmp_path)) == names


def test_files_of_a_log_that_is_not_written_expire_too(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    archive = Archive(SMALL, recheck_s=0.02)
    file = LineFile(path, archive=archive)
    for _ in range(3):
        file.append(b"x" * 99 + b"\n")
        file.flush()
    # When the archive has come to the other log, only a recheck is left for this one.
    other = tmp_path / "other.log"
    other.with_name(rotated_name(other.name, 5)).write_bytes(b"line\n")
    archive.tidy(other)
    wait_until(lambda: [one.is_compressed for one in rotated(other)] == [True])
    assert [one.is_compressed for one in rotated(path)] == [True] * 3
    for one in rotated(path):
        os.utime(tmp_path / one.name, (0, 0))
    wait_until(lambda: len(rotated(path)) == 1)
    file.close()
    archive.close()


def test_a_place_in_the_journal_outlives_rotation_and_compression(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    archive = Archive(Rotation(segment_bytes=1_000))
    journal = FileJournal(path, archive=archive)
    place, seen = 0, []
    for seq in range(1, 200):
        journal.append([a_row(seq)])
        journal.flush()
        part = rows_after(path, place)
        place = part.next
        seen += part.lines
    archive.close()
    Archive(Rotation()).tidy_now(path)
    assert len(rotated(path)) > 10
    assert all(name.is_compressed for name in rotated(path))
    assert len(seen) == 199
    assert [row.seq for row in read_journal(path)] == list(range(1, 200))
    again, place = [], 0
    while (part := rows_after(path, place, max_bytes=300)).lines:
        again += part.lines
        place = part.next
    assert again == seen
    for count in (1, 5, 50, 199, 500):
        assert last_rows(path, count) == (seen[-count:], place, ())
    journal.close()


def test_a_damaged_rotated_file_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    archive = Archive(Rotation(segment_bytes=1_000))
    archive.close()
    journal = FileJournal(path, archive=archive)
    for seq in range(1, 31):
        journal.append([a_row(seq)])
        journal.flush()
    journal.close()
    Archive(Rotation()).tidy_now(path)
    second = tmp_path / rotated(path)[1].name
    rows_of_second = gzip.decompress(second.read_bytes()).count(b"\n")
    all_rows = last_rows(path, 100).lines
    second.write_bytes(second.read_bytes()[:-30])
    part, lines, damaged = rows_after(path, 0), [], []
    while part.lines:
        lines += part.lines
        damaged += part.damaged
        part = rows_after(path, part.next)
    assert 30 - rows_of_second <= len(lines) < 30
    readable = next(n for n, row in enumerate(all_rows) if lines[n] != row)
    first = sum(len(row) + 1 for row in all_rows[:readable])
    last = rotated(path)[1].end
    lost = f"damaged gzip: bytes {first} to {last} of the journal cannot be read"
    assert damaged == [f"{second.name}: {lost}"]
    assert last_rows(path, 100).damaged == tuple(damaged)


def test_rotation_that_the_disk_refuses_is_put_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "some.log"
    archive = Archive(SMALL)
    archive.close()

    class RefusesOneRename(LocalDisk):
        renames = 0

        def rename(self, source: StrPath, target: StrPath) -> None:
            self.renames += 1
            if self.renames == 1:
                raise OSError(5, "Input/output error", str(source))
            super().rename(source, target)

    file = LineFile(path, archive=archive, disk=RefusesOneRename())
    list(write(file, numbers(1, 9)))
    assert "some.log cannot be rotated" in caplog.text
    assert rotated(path) == []
    list(write(file, numbers(10, 20)))
    file.close()
    assert [name.name for name in rotated(path)] == ["some.log.00000000000000000216"]
    with opened_at(path, 0) as opened:
        assert opened is not None
        assert opened[0].end == 216
    assert list(LogLines(path)) == numbers(1, 20)


def test_kafka_logs_and_journal_share_an_archive_that_compresses(tmp_path: Path) -> None:
    archive = Archive(Rotation(segment_bytes=2_000))
    logs = KafkaLogs(tmp_path, WallClock(), "TRACE", archive=archive)
    log = logs.open(3)
    for number in range(100):
        log.info(f"message {number}")
        log.state_change("TRACE", [f"change {number}"])
    folder = tmp_path / "broker-3"
    wait_until(lambda: len(list(folder.glob("*.gz"))) > 6)
    logs.close()
    archive.close()
    for name in ("controller.log", "state-change.log"):
        lines = list(LogLines(folder / name))
        assert [int(line.split(b" (")[0].split()[-1]) for line in lines] == list(range(100))


def test_a_full_disk_in_the_middle_of_a_rotation_is_a_failure_until_there_is_room(
    tmp_path: Path,
) -> None:
    path = tmp_path / "some.log"
    archive = Archive(SMALL)
    archive.close()

    class NoNewFiles(LocalDisk):
        is_full = True

        def create(self, path: StrPath, size_bytes: int = 0) -> None:
            if self.is_full and os.path.exists(f"{path}.00000000000000000108"):
                raise OSError(28, "No space left on device", str(path))
            super().create(path, size_bytes)

    disk = NoNewFiles()
    file = LineFile(path, archive=archive, disk=disk)
    list(write(file, numbers(1, 9)))
    file.append(b"line 000010\n")
    with pytest.raises(JournalUnwritable):
        file.flush()
    assert not file.retry()
    disk.is_full = False
    assert file.retry()
    file.close()
    assert list(LogLines(path)) == numbers(1, 10)


class RecordingDisk(LocalDisk):
    """A disk that keeps what was done to the unfinished files of compression, and after it."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def sync(self, path: StrPath) -> None:
        if str(path).endswith(UNFINISHED):
            self.steps.append("sync")
        elif Path(path).is_dir():
            self.steps.append("sync folder")
        super().sync(path)

    def remove(self, path: StrPath) -> None:
        self.steps.append("remove")
        super().remove(path)

    def write_at(self, path: StrPath, position: int, data: bytes) -> None:
        if str(path).endswith(UNFINISHED):
            self.steps.append("write")
        super().write_at(path, position, data)

    def rename(self, source: StrPath, target: StrPath) -> None:
        if str(source).endswith(UNFINISHED):
            self.steps.append("rename")
        super().rename(source, target)


def test_a_compressed_file_is_on_disk_before_it_replaces_the_plain_one(tmp_path: Path) -> None:
    path, disk, idle = tmp_path / "some.log", RecordingDisk(), Archive(SMALL)
    idle.close()
    file = LineFile(path, archive=idle)
    for line in numbers(1, 40):
        (_,) = write(file, [line])
    file.close()
    Archive(SMALL, disk).tidy_now(path)
    renames = [at for at, step in enumerate(disk.steps) if step == "rename"]
    around = {(disk.steps[at - 1], *disk.steps[at + 1 : at + 3]) for at in renames}
    assert around == {("sync", "sync folder", "remove")}


@pytest.mark.parametrize("is_compressed", [True, False])
def test_places_are_right_after_retention_has_deleted_the_oldest_files(
    tmp_path: Path, is_compressed: bool
) -> None:
    path = tmp_path / "journal.jsonl"
    archive = Archive(Rotation(segment_bytes=1_000))
    archive.close()
    journal = FileJournal(path, archive=archive)
    for seq in range(1, 100):
        journal.append([a_row(seq)])
        journal.flush()
    if is_compressed:
        Archive(Rotation()).tidy_now(path)
    first, second, *_ = rotated(path)
    rest = rows_after(path, first.end).lines
    (tmp_path / first.name).unlink()
    assert second.is_compressed is is_compressed
    part = rows_after(path, first.end)
    assert (part.lines, part.damaged) == (rest, ())
    middle = first.end + len(part.lines[0]) + 1
    assert rows_after(path, middle, max_bytes=1).lines == rest[1:2]
    journal.close()
