"""Line files on a disk that fails on demand: nothing is torn, doubled or believed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from klamm.brokers.storage.disk import LOCAL_DISK
from klamm.brokers.storage.faults import FaultyDisk
from klamm.cluster.disk_faults import DiskFault, FaultKind
from klamm.cluster.errors import JournalUnwritable
from klamm.world.journal.line_file import LineFile


@pytest.mark.parametrize("kind", list(FaultKind))
def test_a_line_file_writes_again_what_a_failing_disk_may_have_lost(
    tmp_path: Path, kind: FaultKind
) -> None:
    path = tmp_path / "lines"
    for seed in range(20):
        disk = FaultyDisk(LOCAL_DISK, random.Random(seed))
        file = LineFile(path, is_fsynced=True, disk=disk)
        file.append(b"one\n")
        file.flush()
        disk.arm(path, DiskFault(kind, times=1))
        file.append(b"two\nthree\n")
        with pytest.raises(JournalUnwritable, match="lines cannot be written"):
            file.flush()
        with pytest.raises(JournalUnwritable):
            file.append(b"four\n")
        assert file.retry()
        file.append(b"five\n")
        file.close()
        assert path.read_bytes() == b"one\ntwo\nthree\nfour\nfive\n"
        path.unlink()


def test_a_removed_file_is_created_again(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    file = LineFile(path)
    file.append(b"one\n")
    file.flush()
    path.unlink()
    file.append(b"two\n")
    with pytest.raises(JournalUnwritable, match="No such file"):
        file.flush()
    assert file.retry()
    assert path.read_bytes() == b"two\n"


def test_a_disk_that_refuses_the_file_is_named_at_once(tmp_path: Path) -> None:
    disk = FaultyDisk(LOCAL_DISK, random.Random(1))
    disk.arm(tmp_path, DiskFault(FaultKind.ENOSPC))
    with pytest.raises(JournalUnwritable, match="No space left on device"):
        LineFile(tmp_path / "lines", disk=disk)
