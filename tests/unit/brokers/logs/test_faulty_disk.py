"""Segment logs and checkpoints on a disk with fault injection."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from klamm.brokers.logs.checkpoints import read_offsets, write_offsets
from klamm.brokers.logs.errors import LogStorageError
from klamm.brokers.logs.recovery import Known, RepairKind
from klamm.brokers.logs.segment_log import SegmentLog
from klamm.brokers.storage.disk import LOCAL_DISK
from klamm.brokers.storage.faults import FaultyDisk
from klamm.cluster.disk_faults import DiskFault, FaultKind
from klamm.cluster.errors import UsageError
from klamm.cluster.types import TopicPartition
from tests.unit.brokers.logs.batches import NOW_MS, append, batch, values_from

ONE = len(batch(b"v"))
FULL = "No space left on device"
BROKEN = "Input/output error"


def faulty(seed: int = 7) -> FaultyDisk:
    return FaultyDisk(LOCAL_DISK, random.Random(seed))


def opened(tmp_path: Path, disk: FaultyDisk, recovery_point: int = 0) -> SegmentLog:
    known = Known(0, recovery_point)
    return SegmentLog(tmp_path / "t-0", now_ms=NOW_MS, known=known, disk=disk)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(FaultKind.ENOSPC, FULL), (FaultKind.EIO, BROKEN), (FaultKind.SHORT_WRITE, FULL)],
)
def test_a_failed_append_leaves_nothing_in_the_log(
    tmp_path: Path, kind: FaultKind, reason: str
) -> None:
    disk = faulty()
    log = opened(tmp_path, disk)
    append(log, b"v")
    disk.arm(tmp_path, DiskFault(kind))
    with pytest.raises(LogStorageError, match=f"appending records to t-0.*{reason}"):
        append(log, b"w")
    assert (log.log_end_offset, log.size_bytes) == (1, ONE)
    disk.heal(tmp_path)
    assert append(log, b"x") == 1
    assert values_from(log, 0) == [b"v", b"x"]


def test_only_the_bytes_before_the_fault_are_written(tmp_path: Path) -> None:
    disk = faulty()
    log = opened(tmp_path, disk)
    disk.arm(tmp_path, DiskFault(FaultKind.ENOSPC, after_bytes=2 * ONE + 10))
    append(log, b"1")
    append(log, b"2")
    with pytest.raises(LogStorageError, match=FULL):
        append(log, b"3")
    assert values_from(log, 0) == [b"1", b"2"]


def test_a_fault_of_one_folder_leaves_the_others_alone(tmp_path: Path) -> None:
    disk = faulty()
    disk.arm(tmp_path / "d1", DiskFault(FaultKind.EIO))
    log = opened(tmp_path / "d10", disk)
    assert append(log, b"v") == 0
    with pytest.raises(LogStorageError, match=BROKEN):
        opened(tmp_path / "d1", disk)


def test_a_temporary_fault_strikes_the_given_number_of_times(tmp_path: Path) -> None:
    disk = faulty()
    path = tmp_path / "file"
    disk.create(path)
    disk.arm(path, DiskFault(FaultKind.EIO, times=2))
    for _ in range(2):
        with pytest.raises(OSError, match=BROKEN) as failed:
            disk.read_at(path, 0, 1)
        assert (failed.value.errno, failed.value.filename) == (errno.EIO, str(path))
    assert disk.read_at(path, 0, 1) == b""


def test_reads_and_removals_work_on_a_full_disk(tmp_path: Path) -> None:
    disk = faulty()
    disk.create(tmp_path / "file")
    disk.write_at(tmp_path / "file", 0, b"data")
    disk.arm(tmp_path, DiskFault(FaultKind.ENOSPC))
    disk.resize(tmp_path / "file", 2)
    assert disk.read_at(tmp_path / "file", 0, 9) == b"da"
    for grows in (
        lambda: disk.resize(tmp_path / "file", 9),
        lambda: disk.create(tmp_path / "more"),
        lambda: disk.make_dirs(tmp_path / "folder"),
    ):
        with pytest.raises(OSError, match=FULL):
            grows()
    disk.remove(tmp_path / "file")
    assert disk.names(tmp_path) == []


def test_a_flush_after_a_failed_one_is_not_believed(tmp_path: Path) -> None:
    """PostgreSQL's fsync problem of 2018: the second fsync succeeds, but the bytes are gone."""
    disk = faulty()
    log = opened(tmp_path, disk)
    append(log, b"flushed")
    log.flush()
    assert log.recovery_point == 1
    disk.arm(tmp_path, DiskFault(FaultKind.FSYNC, times=1))
    for _ in range(3):
        append(log, b"lost")
    for _ in range(2):
        with pytest.raises(LogStorageError, match=f"flushing log for t-0.*{BROKEN}"):
            log.flush()
    with pytest.raises(LogStorageError, match=BROKEN):
        log.close()
    assert log.recovery_point == 1

    again = opened(tmp_path, disk, recovery_point=1)
    assert 1 <= again.log_end_offset < 4
    assert values_from(again, 0)[0] == b"flushed"
    assert [repair.kind for repair in again.repairs] == [RepairKind.TAIL_CUT]
    append(again, b"new")
    again.flush()
    assert again.recovery_point == again.log_end_offset


def test_synced_bytes_survive_a_failed_sync(tmp_path: Path) -> None:
    for seed in range(50):
        disk, path = faulty(seed), tmp_path / f"file{seed}"
        disk.create(path)
        disk.arm(path, DiskFault(FaultKind.FSYNC, times=1))
        disk.write_at(path, 0, b"x" * 10)
        with pytest.raises(OSError, match=BROKEN):
            disk.sync(path)
        disk.write_at(path, 10, b"y" * 10)
        disk.sync(path)
        data = disk.read_at(path, 0, 20)
        assert len(data) == 20 and data[10:] == b"y" * 10 and data[9] == 0
        disk.arm(path.with_suffix(".other"), DiskFault(FaultKind.FSYNC))
        disk.arm(path, DiskFault(FaultKind.FSYNC, times=1))
        disk.write_at(path, 20, b"z" * 10)
        with pytest.raises(OSError, match=BROKEN):
            disk.sync(path)
        assert disk.read_at(path, 0, 20) == data
        disk.write_at(path, 30, b"u" * 10)
        disk.heal(tmp_path)
        disk.sync(path)
        data = disk.read_at(path, 0, 40)
        disk.arm(path, DiskFault(FaultKind.FSYNC, times=1))
        disk.write_at(path, 40, b"v" * 10)
        with pytest.raises(OSError, match=BROKEN):
            disk.sync(path)
        assert disk.read_at(path, 0, 40) == data


@pytest.mark.parametrize("kind", list(FaultKind))
def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, kind: FaultKind
) -> None:
    disk, path = faulty(), tmp_path / "recovery-point-offset-checkpoint"
    before = {TopicPartition("t", 0): 5}
    write_offsets(path, before, disk)
    disk.arm(tmp_path, DiskFault(kind))
    with pytest.raises(LogStorageError, match="writing to checkpoint file"):
        write_offsets(path, {TopicPartition("t", 0): 9}, disk)
    disk.heal(tmp_path)
    assert read_offsets(path, disk) == before


def test_a_fault_must_make_sense() -> None:
    with pytest.raises(UsageError):
        DiskFault(FaultKind.EIO, times=0)
    with pytest.raises(UsageError):
        DiskFault(FaultKind.EIO, after_bytes=-1)
