"""Log directories on the disk: marks, locks, names, and what is done when they are not in order."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from klamm.brokers.logs.checkpoints import MetaProperties
from klamm.brokers.logs.errors import LogStorageError
from klamm.brokers.logs.file_log_store import FileLogStore
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.log_dirs import LogDirs
from klamm.brokers.logs.log_manager import LogManager
from klamm.cluster.errors import EnvironmentProblem
from klamm.cluster.types import TopicPartition
from tests.conformance.replica_logs import NOW_MS
from tests.conformance.segment_logs import SegmentLogFactory

T0 = TopicPartition("t", 0)
DELAY_MS = 1000


@pytest.fixture
def batch() -> bytes:
    maker = SegmentLogFactory()
    maker.close()
    return maker.batch(5)


class Brokers:
    """Starts log managers on folders. ``report``: what the last one found."""

    def __init__(self) -> None:
        self.started: list[LogManager] = []

    def start(self, *folders: Path, cluster_id: str = "c1", broker_id: int = 1) -> LogManager:
        config = LogConfig(segment_index_bytes=1200, file_delete_delay_ms=DELAY_MS)
        numbers = count()
        store = FileLogStore(new_id=lambda: f"{next(numbers):032x}")
        manager = LogManager(LogDirs([str(path) for path in folders]), store, lambda topic: config)
        self.report = manager.startup(MetaProperties(cluster_id, broker_id), NOW_MS)
        self.started.append(manager)
        return manager


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    """All that were started are shut down at the end."""
    brokers = Brokers()
    yield brokers
    for manager in brokers.started:
        manager.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "logs"


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def end_of(manager: LogManager) -> int:
    """Where the log of t-0 ends."""
    log = manager.dirs.current(T0)
    assert log is not None
    return log.log_end_offset


def test_a_clean_stop_is_marked_until_the_next_start(brokers: Brokers, folder: Path) -> None:
    manager = brokers.start(folder)
    manager.get_or_create(T0, NOW_MS, is_new=True)
    manager.checkpoint_high_watermarks({T0: 0})
    manager.shutdown()
    assert names(folder) == [
        ".kafka_cleanshutdown",
        ".lock",
        "log-start-offset-checkpoint",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "t-0",
    ]
    brokers.start(folder)
    assert ".kafka_cleanshutdown" not in names(folder)


def test_a_stopped_broker_touches_no_file(brokers: Brokers, folder: Path) -> None:
    first = brokers.start(folder)
    first.get_or_create(T0, NOW_MS, is_new=True)
    first.shutdown()
    second = brokers.start(folder)
    before = names(folder)
    first.shutdown()
    first.checkpoint_logs()
    assert names(folder) == before
    assert second.dirs.current(T0) is not None


def test_a_directory_belongs_to_one_broker(brokers: Brokers, folder: Path) -> None:
    brokers.start(folder)
    with pytest.raises(EnvironmentProblem, match=f"{folder}. A Kafka instance in another process"):
        brokers.start(folder)
    brokers.started.pop().shutdown()
    assert brokers.start(folder).dirs.offline == ()


@pytest.mark.parametrize(
    ("cluster_id", "broker_id", "message"),
    [
        ("c2", 1, r"The Cluster ID c2 doesn't match stored clusterId Some\(c1\)"),
        ("c1", 2, r"Configured broker.id 2 doesn't match stored broker.id Some\(1\)"),
    ],
)
def test_the_directory_of_another_broker_or_cluster_is_refused(
    brokers: Brokers, folder: Path, cluster_id: str, broker_id: int, message: str
) -> None:
    brokers.start(folder).shutdown()
    with pytest.raises(EnvironmentProblem, match=message):
        brokers.start(folder, cluster_id=cluster_id, broker_id=broker_id)
    assert brokers.start(folder).dirs.offline == ()


def test_the_files_of_a_deleted_log_are_removed_after_the_delay(
    brokers: Brokers, folder: Path, batch: bytes
) -> None:
    manager = brokers.start(folder)
    manager.get_or_create(T0, NOW_MS, is_new=True).append_as_leader(batch, 0, NOW_MS)
    manager.delete(T0, NOW_MS)
    marked = f"t-0.{0:032x}-delete"
    assert marked in names(folder)
    manager.delete_marked(NOW_MS + DELAY_MS - 1)
    assert marked in names(folder)
    manager.shutdown()
    manager = brokers.start(folder)
    assert manager.dirs.current(T0) is None
    manager.delete_marked(NOW_MS + DELAY_MS)
    assert marked not in names(folder)


def test_a_future_log_has_a_name_of_its_own(brokers: Brokers, tmp_path: Path) -> None:
    manager = brokers.start(tmp_path / "a", tmp_path / "b")
    manager.get_or_create(T0, NOW_MS, is_new=True)
    manager.dirs.prefer(T0, str(tmp_path / "b"))
    manager.create_future(T0, NOW_MS)
    assert f"t-0.{0:032x}-future" in names(tmp_path / "b")
    manager.replace_current_with_future(T0, NOW_MS)
    assert "t-0" in names(tmp_path / "b")
    assert f"t-0.{1:032x}-delete" in names(tmp_path / "a")
    written = tmp_path / "a" / "recovery-point-offset-checkpoint"
    assert written.read_text() == "0\n0\n"


def test_checkpoints_that_cannot_be_read_cost_only_time(
    brokers: Brokers, folder: Path, batch: bytes
) -> None:
    manager = brokers.start(folder)
    manager.get_or_create(T0, NOW_MS, is_new=True).append_as_leader(batch, 0, NOW_MS)
    manager.shutdown()
    (folder / "recovery-point-offset-checkpoint").write_text("9\n")
    (folder / ".kafka_cleanshutdown").unlink()
    manager = brokers.start(folder)
    assert end_of(manager) == 5
    (complaint,) = brokers.report.complaints
    assert "Unrecognized version" in complaint and "recovery-point" in complaint


def test_repairs_are_reported(brokers: Brokers, folder: Path, batch: bytes) -> None:
    manager = brokers.start(folder)
    log = manager.get_or_create(T0, NOW_MS, is_new=True)
    log.append_as_leader(batch, 0, NOW_MS)
    log.append_as_leader(batch, 0, NOW_MS)
    manager.shutdown()
    (folder / ".kafka_cleanshutdown").unlink()
    (folder / "recovery-point-offset-checkpoint").unlink()
    os.truncate(folder / "t-0" / f"{0:020}.log", len(batch) + 7)
    manager = brokers.start(folder)
    assert end_of(manager) == 5
    ((partition, repair), *_) = brokers.report.repairs
    assert (partition, repair.size_bytes) == (T0, 7)


def test_a_directory_that_cannot_be_used_is_offline(brokers: Brokers, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    manager = brokers.start(tmp_path / "a", tmp_path / "b")
    (failure,) = manager.take_failures()
    assert (failure.path, failure.partitions) == (str(tmp_path / "a"), ())
    assert str(tmp_path / "a") in failure.reason
    manager.get_or_create(T0, NOW_MS, is_new=True)
    assert manager.dirs.path_of(T0) == str(tmp_path / "b")


def test_two_future_logs_in_a_directory_are_refused(brokers: Brokers, folder: Path) -> None:
    for digit in "ab":
        (folder / f"t-0.{digit * 32}-future").mkdir(parents=True)
    with pytest.raises(LogStorageError) as raised:
        brokers.start(folder)
    assert raised.value.hint is not None
    assert f"Duplicate log directories for t-0 are found in {folder}" in raised.value.hint


def test_a_checkpoint_that_cannot_be_opened_takes_the_directory_offline(
    brokers: Brokers, tmp_path: Path
) -> None:
    (tmp_path / "a" / "recovery-point-offset-checkpoint").mkdir(parents=True)
    manager = brokers.start(tmp_path / "a", tmp_path / "b")
    (failure,) = manager.take_failures()
    assert failure.path == str(tmp_path / "a")
    assert "Error while reading checkpoint file" in failure.reason


def test_a_broker_without_a_usable_directory_does_not_start(
    brokers: Brokers, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("a file")
    with pytest.raises(LogStorageError, match="none of the specified log dirs"):
        brokers.start(tmp_path / "a")


def test_a_folder_that_is_no_log_takes_the_directory_offline(
    brokers: Brokers, tmp_path: Path
) -> None:
    (tmp_path / "a" / "photos").mkdir(parents=True)
    manager = brokers.start(tmp_path / "a", tmp_path / "b")
    (failure,) = manager.take_failures()
    assert "Found directory photos" in failure.reason


@pytest.mark.parametrize("is_new", [True, False])
def test_a_log_that_cannot_be_created_goes_to_another_directory(
    brokers: Brokers, tmp_path: Path, is_new: bool
) -> None:
    manager = brokers.start(tmp_path / "a", tmp_path / "b")
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "a").write_text("a file")
    manager.get_or_create(T0, NOW_MS, is_new=is_new)
    assert manager.dirs.path_of(T0) == str(tmp_path / "b")
    assert [failure.path for failure in manager.take_failures()] == [str(tmp_path / "a")]


def test_a_replica_in_two_directories_is_refused(brokers: Brokers, tmp_path: Path) -> None:
    manager = brokers.start(tmp_path / "a")
    manager.get_or_create(T0, NOW_MS, is_new=True)
    manager.shutdown()
    shutil.copytree(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0")
    with pytest.raises(LogStorageError, match="Duplicate log directories for t-0"):
        brokers.start(tmp_path / "a", tmp_path / "b")
    assert brokers.start(tmp_path / "a").dirs.current(T0) is not None
