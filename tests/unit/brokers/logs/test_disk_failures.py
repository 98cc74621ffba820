"""A disk that refuses: one clear error that names the directory, and nothing of the append is in
the log."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from klamm.brokers.logs.errors import LogStorageError
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.segment_log import SegmentLog
from tests.disk_limits import files_limited_to
from tests.unit.brokers.logs.batches import NOW_MS, append, batch, open_log, values_from

ONE = len(batch(b"v"))
NOBODY = 65534


@pytest.mark.parametrize("room", [0, 1, ONE - 1])
def test_an_append_to_a_full_disk_leaves_nothing(tmp_path: Path, room: int) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=0, segment_index_bytes=120))
    for _ in range(3):
        append(log, b"v")
    with (
        files_limited_to(3 * ONE + room),
        pytest.raises(
            LogStorageError, match=f"Error while appending records to t-0 in dir {tmp_path}"
        ),
    ):
        append(log, b"v")
    assert (log.log_end_offset, log.size_bytes) == (3, 3 * ONE)
    assert os.path.getsize(log.directory / f"{0:020d}.log") == 3 * ONE
    assert append(log, b"w") == 3
    log.close()
    log = open_log(tmp_path, is_clean=True)
    assert log.repairs == ()
    assert values_from(log, 0) == [b"v", b"v", b"v", b"w"]


def test_an_index_that_finds_no_room_takes_the_append_back(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=0, segment_index_bytes=1200))
    append(log, b"v")
    os.truncate(log.directory / f"{0:020d}.timeindex", 0)
    (log.directory / f"{0:020d}.timeindex").rename(tmp_path / "elsewhere")
    with pytest.raises(LogStorageError, match=r"t-0.*No such file"):
        append(log, b"v", timestamp_ms=NOW_MS + 1)
    (tmp_path / "elsewhere").rename(log.directory / f"{0:020d}.timeindex")
    assert (log.log_end_offset, log.size_bytes) == (1, ONE)
    append(log, b"w", timestamp_ms=NOW_MS + 1)
    log.close()
    log = open_log(tmp_path, is_clean=True)
    assert (log.repairs, values_from(log, 0)) == ((), [b"v", b"w"])


def test_a_roll_that_finds_no_room_leaves_no_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * ONE, segment_index_bytes=1200))
    for _ in range(2):
        append(log, b"v")
    before = sorted(log.directory.iterdir())
    with files_limited_to(1000), pytest.raises(LogStorageError, match=r"t-0.*File too large"):
        append(log, b"v")
    assert sorted(log.directory.iterdir()) == before
    assert (log.log_end_offset, log.base_offsets) == (2, (0,))
    assert append(log, b"w") == 2
    log.close()
    log = open_log(tmp_path, is_clean=True)
    assert (log.base_offsets, values_from(log, 0)) == ((0, 2), [b"v", b"v", b"w"])


def test_a_directory_that_was_taken_away_is_noticed_at_once(tmp_path: Path) -> None:
    log = open_log(tmp_path / "disk")
    append(log)
    (tmp_path / "disk").rename(tmp_path / "gone")
    doings: list[tuple[str, Callable[[], object]]] = [
        ("appending records to", lambda: append(log)),
        ("reading from", lambda: log.read(0, 100)),
        ("flushing log for", log.flush),
        ("truncating log to offset 0 for", lambda: log.truncate_to(0)),
    ]
    for doing, do in doings:
        with pytest.raises(LogStorageError, match=f"Error while {doing} t-0 in dir .*No such file"):
            do()


def test_a_directory_that_cannot_be_made_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(
        LogStorageError, match=f"loading t-0 in dir {tmp_path}/file: Not a dir"
    ) as no:
        open_log(tmp_path / "file")
    assert no.value.hint is not None and "check permissions and free disk space" in no.value.hint


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder that may not be written to; root may write everywhere, so it is somebody else."""
    user = os.geteuid()
    tmp_path.chmod(0o555)
    if user == 0:
        os.seteuid(NOBODY)
    yield tmp_path
    os.seteuid(user)
    tmp_path.chmod(0o755)


def test_a_read_only_directory_is_named(read_only: Path) -> None:
    with pytest.raises(LogStorageError, match=f"in dir {read_only}: Permission denied"):
        SegmentLog(read_only / "t-0", now_ms=NOW_MS)
