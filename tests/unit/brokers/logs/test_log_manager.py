"""The logs of one broker: made, found again, moved, deleted, and lost with a directory.

Every test runs with logs in memory and with files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.log_dirs import LogDirs
from brokers.logs.checkpoints import MetaProperties
from brokers.logs.errors import LogStorageError
from brokers.logs.file_log_store import FileLogStore
from brokers.logs.log_config import LogConfig
from brokers.logs.log_manager import HeldLog, LogManager
from brokers.logs.log_store import LogStore, MemoryLogStore
from cluster.records import CountedBatch, Produced
from cluster.types import TopicPartition
from tests.conformance.replica_logs import NOW_MS, epochs_of, replicate
from tests.conformance.segment_logs import SegmentLogFactory

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
TOPIC_ID = "KCQ2jcUUQY2hcpS0zUO8Yg"
SMALL = LogConfig(segment_index_bytes=1200, file_delete_delay_ms=1000)


class Broker:
    """A broker's log directories, and its log manager, which may be started again."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.paths = tuple(str(folder / name) for name in ("d1", "d2"))
        self.memory = MemoryLogStore(lambda topic: SMALL)
        self.batch: Produced = CountedBatch(5, 500)
        if kind == "files":
            maker = SegmentLogFactory()
            self.batch = maker.batch(5)
            maker.close()
        self.start()

    def start(self) -> None:
        """Start as a new process: only what the disk has is known."""
        self.store: LogStore = self.memory
        if self.kind == "files":
            self.store = FileLogStore(MetaProperties("c", 1), lambda topic: SMALL)
        self.manager = LogManager(LogDirs(self.paths), self.store)
        self.report = self.manager.startup(NOW_MS)

    def stop(self) -> None:
        self.manager.shutdown()

    def kill(self) -> None:
        """The process is gone, what it wrote is there."""
        for path in self.paths:
            self.store.close_dir(path, is_clean=False)
        self.memory.crash(lambda log: log.log_end_offset)

    def lead(self, partition: TopicPartition, *epochs: int) -> HeldLog:
        """Append a batch of five records in each epoch."""
        held = self.manager.get_or_create(partition, NOW_MS, is_new=True)
        for epoch in epochs:
            held.log.append_as_leader(self.batch, epoch, NOW_MS)
        return held

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
    held = broker.lead(T0, 1)
    assert broker.manager.get_or_create(T0, NOW_MS, is_new=False) == held
    assert held.path == broker.paths[0]
    assert broker.lead(T1).path == broker.paths[1]
    assert broker.manager.dirs.log_counts() == dict.fromkeys(broker.paths, 1)


@pytest.mark.parametrize("is_clean", [True, False])
def test_logs_are_found_again(broker: Broker, is_clean: bool) -> None:
    broker.lead(T0, 1, 1, 3)
    broker.lead(T1, 2).log.increment_log_start_offset(5)
    broker.manager.assign_topic_id(T0, TOPIC_ID)
    broker.manager.checkpoint_high_watermarks({T0: 10, T1: 5})
    broker.manager.checkpoint_logs()
    found = broker.restarted(is_clean=is_clean)
    assert {tp: held.path for tp, held in found.current.items()} == dict(
        zip((T0, T1), broker.paths, strict=True)
    )
    assert epochs_of(found.current[T0].log) == [(1, 0, 10), (3, 10, 15)]
    assert (found.current[T1].log.log_start_offset, found.current[T1].log.log_end_offset) == (5, 5)
    assert (found.high_watermark(T0), found.high_watermark(T1)) == (10, 5)
    assert (found.topic_id(T0), found.topic_id(T1)) == (TOPIC_ID, None)
    assert found.dirs.log_counts() == dict.fromkeys(broker.paths, 1)
    assert (broker.report.repairs, broker.report.complaints, found.take_failures()) == ([], [], [])


def test_an_epoch_that_wrote_nothing_is_not_found_again(broker: Broker) -> None:
    broker.lead(T0, 1).log.start_epoch(4)
    assert broker.restarted(is_clean=True).current[T0].log.latest_epoch == 1


def test_a_clean_stop_brings_everything_to_the_disk(broker: Broker) -> None:
    broker.lead(T0, 1)
    found = broker.restarted(is_clean=True)
    assert found.current[T0].log.recovery_point == 5


def test_a_deleted_log_is_not_found_again(broker: Broker) -> None:
    broker.lead(T0, 1)
    broker.manager.checkpoint_high_watermarks({T0: 5})
    broker.manager.delete(T0, NOW_MS)
    broker.manager.delete(T0, NOW_MS)
    assert (T0 in broker.manager.current, broker.manager.high_watermark(T0)) == (False, 0)
    assert broker.manager.dirs.log_counts() == dict.fromkeys(broker.paths, 0)
    assert broker.lead(T0).log.log_end_offset == 0
    assert broker.restarted(is_clean=False).current[T0].log.log_end_offset == 0


def test_a_future_log_takes_the_place_of_the_current_one(broker: Broker) -> None:
    source = broker.lead(T0, 1, 2)
    broker.manager.assign_topic_id(T0, TOPIC_ID)
    broker.manager.dirs.prefer(T0, broker.paths[1])
    future = broker.manager.create_future(T0, NOW_MS)
    assert future.path == broker.paths[1]
    replicate(source.log, future.log)
    manager = broker.restarted(is_clean=False)
    assert dict(manager.dirs.futures) == {T0: broker.paths[1]}
    moved = manager.replace_current_with_future(T0, NOW_MS)
    assert manager.current == {T0: moved} and not manager.futures
    assert manager.topic_id(T0) is None
    assert manager.dirs.log_counts() == {broker.paths[0]: 0, broker.paths[1]: 1}
    manager = broker.restarted(is_clean=False)
    assert manager.current[T0].path == broker.paths[1]
    assert epochs_of(manager.current[T0].log) == [(1, 0, 5), (2, 5, 10)]


def test_a_move_that_is_given_up_leaves_nothing(broker: Broker) -> None:
    broker.lead(T0, 1)
    broker.manager.dirs.prefer(T0, broker.paths[1])
    broker.manager.create_future(T0, NOW_MS)
    broker.manager.delete_future(T0, NOW_MS)
    found = broker.restarted(is_clean=True)
    assert (list(found.current), dict(found.futures)) == ([T0], {})
    assert found.dirs.log_counts() == {broker.paths[0]: 1, broker.paths[1]: 0}


def test_a_directory_that_fails_takes_its_logs_with_it(broker: Broker) -> None:
    broker.lead(T0, 1)
    broker.lead(T1, 1)
    broker.manager.handle_log_dir_failure(broker.paths[0], LogStorageError("it is gone"))
    broker.manager.handle_log_dir_failure(broker.paths[0], LogStorageError("again"))
    assert broker.manager.take_failures() == [(broker.paths[0], "it is gone", (T0,))]
    assert broker.manager.take_failures() == []
    assert list(broker.manager.current) == [T1]
    assert broker.lead(T2).path == broker.paths[1]
    with pytest.raises(LogStorageError, match=f"Can not create log for t-0 .* {broker.paths[0]}"):
        broker.manager.get_or_create(T0, NOW_MS, is_new=False)
    broker.manager.dirs.prefer(T1, broker.paths[0])
    with pytest.raises(LogStorageError, match="Can not create log for t-1"):
        broker.manager.create_future(T1, NOW_MS)


def test_retention_is_for_all_logs(broker: Broker) -> None:
    broker.lead(T0, 1)
    broker.lead(T1, 1)
    late_ms = NOW_MS + SMALL.retention_ms + 1
    deleted = broker.manager.delete_old(late_ms, {T0: 5, T1: 4})
    assert [(tp, went.segments) for tp, went in deleted.items()] == [(T0, 1)]
    assert broker.manager.current[T0].log.log_start_offset == 5
