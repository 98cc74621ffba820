"""The logs of one broker: made, found again, moved, deleted, and lost with a directory.

Every test runs with logs in memory and with files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest

from klamm.brokers.logs.checkpoints import MetaProperties, read_offsets
from klamm.brokers.logs.errors import LogStorageError, OffsetOutOfRange, ReplicaLogError
from klamm.brokers.logs.file_log_store import FileLogStore
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.log_dirs import LogDirs
from klamm.brokers.logs.log_manager import LogManager
from klamm.brokers.logs.log_store import LogStore, MemoryLogStore
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.brokers.storage.disk import LOCAL_DISK
from klamm.cluster.records import CountedBatch, Produced
from klamm.cluster.types import TopicPartition
from tests.conformance.replica_logs import NOW_MS, epochs_of, replicate
from tests.conformance.segment_logs import SegmentLogFactory
from tests.unit.brokers.log_dir_moves import KINDS, Mover

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
TOPIC_ID = "KCQ2jcUUQY2hcpS0zUO8Yg"
SMALL = LogConfig(segment_index_bytes=1200, file_delete_delay_ms=1000)


class Broker:
    """A broker's log directories, and its log manager, which may be started again."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.paths = tuple(str(folder / name) for name in ("d1", "d2"))
        self.store: LogStore = MemoryLogStore() if kind == "memory" else FileLogStore()
        self.batch: Produced = CountedBatch(5, 500)
        if kind == "files":
            maker = SegmentLogFactory()
            self.batch = maker.batch(5)
            maker.close()
        self.start()

    def start(self) -> None:
        """Start as a new process: only what the disk has is known."""
        self.manager = LogManager(LogDirs(self.paths), self.store, lambda topic: SMALL)
        self.report = self.manager.startup(MetaProperties("c", 1), NOW_MS)

    def stop(self) -> None:
        self.manager.shutdown()

    def kill(self) -> None:
        """The process is gone, what it wrote is there."""
        self.manager.abandon()

    def lead(self, partition: TopicPartition, *epochs: int) -> ReplicaLog:
        """Append a batch of five records in each epoch."""
        log = self.manager.get_or_create(partition, NOW_MS, is_new=True)
        for epoch in epochs:
            log.append_as_leader(self.batch, epoch, NOW_MS)
        return log

    def log(self, partition: TopicPartition) -> ReplicaLog:
        """The current log."""
        log = self.manager.dirs.current(partition)
        assert log is not None
        return log

    def path(self, partition: TopicPartition) -> str | None:
        """The directory of the current log."""
        return self.manager.dirs.path_of(partition)

    def restarted(self, *, is_clean: bool) -> LogManager:
        self.stop() if is_clean else self.kill()
        self.start()
        return self.manager


@pytest.fixture(params=["memory", "files"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    started = Broker(request.param, tmp_path)
    yield started
    started.stop()


def test_a_log_is_made_once(broker: Broker) -> None:
    log = broker.lead(T0, 1)
    assert broker.manager.get_or_create(T0, NOW_MS, is_new=False) is log
    broker.lead(T1)
    assert (broker.path(T0), broker.path(T1)) == broker.paths
    assert broker.manager.dirs.log_counts() == dict.fromkeys(broker.paths, 1)


@pytest.mark.parametrize("is_clean", [True, False])
def test_logs_are_found_again(broker: Broker, is_clean: bool) -> None:
    broker.lead(T0, 1, 1, 3)
    broker.lead(T1, 2).increment_log_start_offset(5)
    broker.log(T0).assign_topic_id(TOPIC_ID)
    broker.manager.checkpoint_high_watermarks({T0: 10, T1: 5})
    broker.manager.checkpoint_logs()
    found = broker.restarted(is_clean=is_clean)
    assert (broker.path(T0), broker.path(T1)) == broker.paths
    assert epochs_of(broker.log(T0)) == [(1, 0, 10), (3, 10, 15)]
    assert (broker.log(T1).log_start_offset, broker.log(T1).log_end_offset) == (5, 5)
    assert [found.take_high_watermark(tp) for tp in (T0, T1, T0)] == [10, 5, 0]
    assert (broker.log(T0).topic_id, broker.log(T1).topic_id) == (TOPIC_ID, None)
    assert found.dirs.log_counts() == dict.fromkeys(broker.paths, 1)
    assert (broker.report.repairs, broker.report.complaints, found.take_failures()) == ([], [], [])


def test_a_log_whose_last_batch_was_divided_is_whole_after_a_kill(broker: Broker) -> None:
    broker.lead(T0, 1, 1)
    broker.restarted(is_clean=True)
    broker.log(T0).truncate_to(7)
    end = broker.log(T0).log_end_offset
    assert end == (7 if broker.kind == "memory" else 5)
    broker.restarted(is_clean=False)
    assert broker.log(T0).log_end_offset == end
    assert (broker.report.damaged, broker.report.repairs) == ({}, [])


def test_an_epoch_that_wrote_nothing_is_not_found_again(broker: Broker) -> None:
    broker.lead(T0, 1).start_epoch(4)
    broker.restarted(is_clean=True)
    assert broker.log(T0).latest_epoch == 1


def test_a_clean_stop_brings_everything_to_the_disk(broker: Broker) -> None:
    broker.lead(T0, 1)
    broker.restarted(is_clean=True)
    assert broker.log(T0).recovery_point == 5


def test_a_deleted_log_is_not_found_again(broker: Broker) -> None:
    broker.lead(T0, 1)
    broker.manager.checkpoint_high_watermarks({T0: 5})
    broker.manager.delete(T0, NOW_MS)
    broker.manager.delete(T0, NOW_MS)
    assert (broker.path(T0), broker.manager.take_high_watermark(T0)) == (None, 0)
    assert broker.manager.dirs.log_counts() == dict.fromkeys(broker.paths, 0)
    assert broker.lead(T0).log_end_offset == 0
    broker.restarted(is_clean=False)
    assert broker.log(T0).log_end_offset == 0


def test_a_future_log_takes_the_place_of_the_current_one(broker: Broker) -> None:
    source = broker.lead(T0, 1, 2)
    broker.log(T0).assign_topic_id(TOPIC_ID)
    broker.manager.dirs.prefer(T0, broker.paths[1])
    future = broker.manager.create_future(T0, NOW_MS)
    assert broker.manager.dirs.future_path_of(T0) == broker.paths[1]
    replicate(source, future)
    manager = broker.restarted(is_clean=False)
    assert (broker.path(T0), manager.dirs.future_path_of(T0)) == broker.paths
    moved = manager.replace_current_with_future(T0, NOW_MS)
    assert broker.log(T0) is moved and not manager.dirs.has_futures
    assert moved.topic_id is None
    assert manager.dirs.log_counts() == {broker.paths[0]: 0, broker.paths[1]: 1}
    broker.restarted(is_clean=False)
    assert broker.path(T0) == broker.paths[1]
    assert epochs_of(broker.log(T0)) == [(1, 0, 5), (2, 5, 10)]


def test_a_move_that_is_given_up_leaves_nothing(broker: Broker) -> None:
    broker.lead(T0, 1)
    broker.manager.dirs.prefer(T0, broker.paths[1])
    broker.manager.create_future(T0, NOW_MS)
    broker.manager.delete_future(T0, NOW_MS)
    found = broker.restarted(is_clean=True)
    assert (broker.path(T0), found.dirs.has_futures) == (broker.paths[0], False)
    assert found.dirs.log_counts() == {broker.paths[0]: 1, broker.paths[1]: 0}


def test_a_directory_that_fails_takes_its_logs_with_it(broker: Broker) -> None:
    broker.lead(T0, 1)
    broker.lead(T1, 1)
    broker.manager.handle_log_dir_failure(broker.paths[0], LogStorageError("it is gone"))
    broker.manager.handle_log_dir_failure(broker.paths[0], LogStorageError("again"))
    assert broker.manager.take_failures() == [(broker.paths[0], "it is gone", (T0,))]
    assert broker.manager.take_failures() == []
    broker.lead(T2)
    assert [broker.path(tp) for tp in (T0, T1, T2)] == [None, broker.paths[1], broker.paths[1]]
    with pytest.raises(LogStorageError, match=f"Can not create log for t-0 .* {broker.paths[0]}"):
        broker.manager.get_or_create(T0, NOW_MS, is_new=False)
    broker.manager.dirs.prefer(T1, broker.paths[0])
    with pytest.raises(LogStorageError, match="Can not create log for t-1"):
        broker.manager.create_future(T1, NOW_MS)


def test_a_log_created_while_its_directory_is_offline_is_in_another_directory(
    broker: Broker,
) -> None:
    broker.lead(T0, 1)
    broker.manager.handle_log_dir_failure(broker.paths[0], LogStorageError("it is gone"))
    broker.lead(T0)
    assert broker.path(T0) == broker.paths[1]
    broker.stop()
    if broker.kind == "files":
        with pytest.raises(LogStorageError, match="Duplicate log directories for t-0"):
            broker.start()
        shutil.rmtree(Path(broker.paths[0], "t-0"))
    broker.start()
    assert broker.path(T0) == broker.paths[1]
    assert broker.manager.dirs.log_counts() == {broker.paths[0]: 0, broker.paths[1]: 1}


def test_two_future_logs_of_a_partition_are_refused(tmp_path: Path) -> None:
    broker = Broker("files", tmp_path)
    broker.lead(T0, 1)
    broker.manager.dirs.prefer(T0, broker.paths[1])
    broker.manager.create_future(T0, NOW_MS)
    broker.stop()
    [future] = Path(broker.paths[1]).glob("t-0.*-future")
    shutil.copytree(future, Path(broker.paths[0], future.name))
    with pytest.raises(LogStorageError, match="Duplicate log directories for t-0"):
        broker.start()


def test_retention_is_for_all_logs(broker: Broker) -> None:
    broker.lead(T0, 1)
    broker.lead(T1, 1)
    late_ms = NOW_MS + SMALL.retention_ms + 1
    broker.manager.delete_old(late_ms, {T0: 5, T1: 4})
    assert [broker.log(tp).log_start_offset for tp in (T0, T1)] == [5, 0]


def test_logs_are_flushed_when_flush_ms_is_over(broker: Broker) -> None:
    log, other = broker.lead(T0, 1), broker.lead(T1, 1)
    broker.manager.update_topic_config("t", msgspec.structs.replace(SMALL, flush_ms=1_000))
    assert broker.manager.flush_dirty(NOW_MS) is False
    assert (log.recovery_point, other.recovery_point) == (5, 5)
    broker.lead(T0, 1)
    assert broker.manager.flush_dirty(NOW_MS + 999) is True
    assert log.recovery_point == 5
    assert broker.manager.flush_dirty(NOW_MS + 1_000) is False
    assert (log.recovery_point, other.recovery_point) == (10, 5)


def test_logs_without_a_flush_time_are_not_flushed(broker: Broker) -> None:
    log = broker.lead(T0, 1)
    assert broker.manager.flush_dirty(NOW_MS) is False
    assert log.recovery_point == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("from_start", [False, True], ids=["in a batch", "from the start"])
def test_a_truncation_below_the_log_start_offset_survives_a_crash(
    kind: str, from_start: bool, tmp_path: Path
) -> None:
    """Truncating inside the first batch removes it, so the log ends below its log start offset."""
    mover = Mover(kind, tmp_path)
    mover.append(0, 4)
    mover.log.increment_log_start_offset(2)
    if from_start:
        mover.log.truncate_fully_and_start_at(1)
    else:
        mover.log.truncate_to(2)
    end = mover.log.log_end_offset
    mover.kill()
    mover.start()
    assert (mover.log.log_start_offset, mover.log.log_end_offset) == (end, end)
    mover.close()


def test_a_log_that_began_anew_and_lost_its_files_in_a_crash_is_not_damaged(tmp_path: Path) -> None:
    mover = Mover("segments", tmp_path)
    mover.log.truncate_fully_and_start_at(1)
    mover.append(0, 11, 20)
    mover.log.truncate_fully_and_start_at(13)
    mover.kill(Random(1).randint)
    mover.start()
    assert mover.log.log_start_offset == mover.log.log_end_offset
    mover.close()


def test_a_restored_log_is_whole_after_a_crash(tmp_path: Path) -> None:
    broker = Broker("files", tmp_path)
    broker.lead(T0, 1, 2)
    path = broker.path(T0)
    assert path is not None
    broker.stop()
    file = Path(path, "t-0", f"{0:020d}.log")
    os.truncate(file, file.stat().st_size - 1)
    broker.start()
    assert list(broker.report.damaged) == [T0]
    broker.manager.restore(T0, NOW_MS)
    assert broker.log(T0).log_start_offset == 0
    assert [tp for tp, _ in broker.manager.take_restored()] == [T0]
    assert broker.manager.take_restored() == []
    broker.kill()
    broker.start()
    assert broker.report.damaged == {}
    assert broker.log(T0).log_end_offset == 5


def offsets_in(path: str, name: str) -> dict[TopicPartition, int] | None:
    """The entries of a checkpoint."""
    return read_offsets(Path(path, name), LOCAL_DISK)


def test_each_directory_has_the_high_watermarks_of_its_logs(tmp_path: Path) -> None:
    broker = Broker("files", tmp_path)
    for tp in (T0, T1):
        broker.lead(tp, 1)
    broker.manager.checkpoint_high_watermarks({T0: 5, T1: 4})
    found = [offsets_in(path, "replication-offset-checkpoint") for path in broker.paths]
    assert found == [{T0: 5}, {T1: 4}]
    broker.restarted(is_clean=True).checkpoint_high_watermarks({T1: 5})
    found = [offsets_in(path, "replication-offset-checkpoint") for path in broker.paths]
    assert found == [{T0: 5}, {T1: 5}], "t-0 has not been used yet"
    broker.manager.delete(T0, NOW_MS)
    assert broker.manager.take_high_watermark(T0) == 0
    broker.stop()


def test_a_log_that_is_deleted_leaves_no_recovery_point(tmp_path: Path) -> None:
    broker = Broker("files", tmp_path)
    broker.lead(T0, 1).flush()
    broker.manager.checkpoint_logs()
    path = Path(broker.paths[0], "recovery-point-offset-checkpoint")
    before = path.read_text()
    broker.manager.delete(T0, NOW_MS)
    assert offsets_in(*os.path.split(path)) == {}
    # As after a crash between the two.
    path.write_text(before)
    broker.restarted(is_clean=False)
    assert broker.report.damaged == {}
    assert broker.manager.store.next_deletion_ms() == NOW_MS + 1000
    broker.manager.handle_log_dir_failure(broker.paths[0], LogStorageError("?"))
    assert broker.manager.store.next_deletion_ms() is None
    broker.stop()


def test_a_future_log_that_is_deleted_leaves_no_recovery_point(tmp_path: Path) -> None:
    broker = Broker("files", tmp_path)
    broker.lead(T0, 1)
    broker.manager.dirs.prefer(T0, broker.paths[1])
    future = broker.manager.create_future(T0, NOW_MS)
    future.append_as_leader(broker.batch, 1, NOW_MS)
    future.flush()
    broker.manager.checkpoint_logs()
    assert offsets_in(broker.paths[1], "recovery-point-offset-checkpoint") == {T0: 5}
    broker.manager.delete_future(T0, NOW_MS)
    assert offsets_in(broker.paths[1], "recovery-point-offset-checkpoint") == {}
    broker.stop()


@pytest.mark.parametrize("spoils", [False, True])
def test_a_log_whose_folder_is_gone_stays_offline(tmp_path: Path, spoils: bool) -> None:
    broker = Broker("files", tmp_path)
    broker.lead(T0, 1)
    broker.stop()
    shutil.rmtree(Path(broker.paths[0], "t-0"))
    if spoils:
        Path(broker.paths[0], "log-start-offset-checkpoint").write_text("9\n")
    for _ in range(2):
        broker.start()
        assert list(broker.report.damaged) == list(broker.manager.damaged) == [T0]
        with pytest.raises(LogStorageError, match="damaged and offline"):
            broker.manager.get_or_create(T0, NOW_MS, is_new=True)
        broker.stop()
    if spoils:
        broker.start()
        broker.manager.delete(T0, NOW_MS)
        broker.restarted(is_clean=False)
        assert broker.report.damaged == {}
    else:
        broker.start()
        broker.manager.handle_log_dir_failure(broker.paths[0], LogStorageError("?"))
    assert list(broker.manager.damaged) == []
    broker.stop()


def test_the_checkpoints_keep_the_offsets_of_a_damaged_log(tmp_path: Path) -> None:
    broker = Broker("files", tmp_path)
    broker.lead(T0, 1, 2).increment_log_start_offset(3)
    broker.manager.checkpoint_high_watermarks({T0: 9})
    broker.stop()
    file = Path(broker.paths[0], "t-0", f"{0:020d}.log")
    os.truncate(file, file.stat().st_size - 1)
    broker.start()
    broker.manager.checkpoint_logs()
    broker.manager.checkpoint_high_watermarks({})
    assert offsets_in(broker.paths[0], "replication-offset-checkpoint") == {T0: 9}
    assert offsets_in(broker.paths[0], "recovery-point-offset-checkpoint") == {T0: 10}
    assert offsets_in(broker.paths[0], "log-start-offset-checkpoint") == {T0: 3}
    broker.stop()


def test_a_damaged_future_log_is_cut(tmp_path: Path) -> None:
    broker = Broker("files", tmp_path)
    broker.lead(T0, 1)
    broker.manager.dirs.prefer(T0, broker.paths[1])
    future = broker.manager.create_future(T0, NOW_MS)
    for _ in range(2):
        future.append_as_leader(broker.batch, 1, NOW_MS)
    broker.stop()
    [file] = Path(broker.paths[1]).glob(f"t-0.*-future/{0:020d}.log")
    os.truncate(file, file.stat().st_size - 1)
    broker.start()
    assert broker.report.damaged == {}
    [cut] = broker.manager.dirs.logs(broker.paths[1]).futures.values()
    assert cut.log_end_offset == 5
    broker.stop()


@pytest.mark.parametrize(
    ("error", "is_offline"), [(LogStorageError("?"), True), (OffsetOutOfRange("?"), False)]
)
def test_only_a_storage_error_takes_the_directory_of_a_log_offline(
    broker: Broker, error: ReplicaLogError, is_offline: bool
) -> None:
    broker.lead(T0, 1)
    assert broker.manager.on_error(T0, error) is error.code
    assert broker.manager.dirs.offline == ((broker.paths[0],) if is_offline else ())
    assert [one.partitions for one in broker.manager.take_failures()] == [(T0,)] * is_offline
