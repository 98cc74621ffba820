"""Replicas that move between a broker's directories, chunk by chunk, with both kinds of log.

Sources: ReplicaAlterLogDirsThread, Partition.maybeReplaceCurrentWithFutureReplica,
ReplicaManager.{maybeAddLogDirFetchers, handleLogDirFailure}.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from klamm.brokers.bandwidth.copying import Copying
from klamm.brokers.config import broker_config
from klamm.brokers.followers.replica_alter_log_dirs import ReplicaAlterLogDirsManager
from klamm.brokers.logs.checkpoints import MetaProperties
from klamm.brokers.logs.log_dirs import LogDirs
from klamm.brokers.logs.log_manager import LogManager
from klamm.brokers.logs.log_store import MemoryLogStore
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.errors import InvalidConfig
from klamm.cluster.quirks import NO_QUIRKS
from klamm.cluster.records import CountedBatch
from klamm.cluster.types import TopicPartition
from tests.conformance.replica_logs import NOW_MS
from tests.unit.brokers.log_dir_moves import DIRS, KINDS, SMALL, T0, Mover, content
from tests.unit.brokers.network import ManualClock


@pytest.fixture(params=KINDS)
def mover(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mover]:
    made = Mover(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Mover]:
    made = Mover("segments", tmp_path)
    yield made
    made.close()


def copy_all(mover: Mover) -> int:
    """Copy until nothing is due; in how many chunks."""
    chunks = 0
    while mover.work():
        chunks += 1
        assert chunks < 100
    return chunks


def test_a_future_log_replaces_the_current_log(mover: Mover) -> None:
    mover.append(0, *[10] * 7)
    mover.append(2, 10)
    before = content(mover.log)
    mover.move_to("d1")
    assert mover.paths == ("d0", "d1")
    assert copy_all(mover) > 1
    assert mover.paths == ("d1", None)
    assert content(mover.log) == before
    assert mover.moves.next_due_ms() is None


def test_records_appended_during_a_move_are_copied_too(mover: Mover) -> None:
    mover.append(0, *[10] * 9)
    mover.move_to("d1")
    copied = []
    while mover.paths[1] is not None:
        mover.append(0, 1)
        mover.work()
        copied.append(mover.log.log_end_offset)
    assert len(copied) > 1 and copied[-1] == 90 + len(copied)
    assert content(mover.log)[4] == [(0, 0, copied[-1])]


def test_an_empty_replica_moves_at_once(mover: Mover) -> None:
    mover.move_to("d2")
    assert copy_all(mover) == 1
    assert mover.paths == ("d2", None)


def test_a_log_that_does_not_begin_at_zero_is_copied_from_its_start(mover: Mover) -> None:
    mover.append(0, *[10] * 6)
    mover.log.increment_log_start_offset(35)
    before = content(mover.log)
    mover.move_to("d1")
    copy_all(mover)
    assert content(mover.log) == before


def test_a_log_start_that_moves_during_a_move_is_copied(mover: Mover) -> None:
    mover.append(0, *[10] * 9)
    mover.move_to("d1")
    mover.work()
    mover.log.increment_log_start_offset(mover.future.log_end_offset + 5)
    before = content(mover.log)
    copy_all(mover)
    assert mover.paths == ("d1", None) and content(mover.log) == before


def test_a_truncation_of_the_current_log_truncates_the_future_one(mover: Mover) -> None:
    """A follower is told by the next leader that its tail was never committed."""
    mover.append(0, *[10] * 3)
    mover.append(1, *[10] * 6)
    mover.move_to("d1")
    while mover.future.log_end_offset < 40:
        mover.work()
    mover.log.truncate_to(30)
    mover.append(4, *[10] * 6)
    before = content(mover.log)
    copy_all(mover)
    assert content(mover.log) == before and before[4] == [(0, 0, 30), (4, 30, 90)]


def test_a_log_that_restarts_elsewhere_is_copied_from_there(mover: Mover) -> None:
    mover.append(0, *[10] * 9)
    mover.move_to("d1")
    mover.work()
    mover.log.truncate_fully_and_start_at(10)
    mover.append(3, 10, 10)
    copy_all(mover)
    assert mover.paths == ("d1", None)
    assert content(mover.log)[4] == [(3, 10, 30)]


def test_an_epoch_without_records_moves_with_the_log(mover: Mover) -> None:
    mover.append(0, 10)
    mover.log.start_epoch(3)
    mover.move_to("d1")
    copy_all(mover)
    assert mover.log.latest_epoch == 3
    assert mover.log.end_offset_for(1) == (0, 10)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_move_continues_after_the_broker_has_restarted(mover: Mover, is_clean: bool) -> None:
    mover.append(0, *[10] * 9)
    before = content(mover.log)
    mover.move_to("d1")
    mover.work()
    copied = mover.future.log_end_offset
    mover.manager.shutdown() if is_clean else mover.kill()
    mover.start()
    assert mover.paths == ("d0", "d1") and 0 < mover.future.log_end_offset == copied
    copy_all(mover)
    assert mover.paths == ("d1", None) and content(mover.log) == before


def test_a_future_log_beside_a_new_current_log_is_deleted(mover: Mover) -> None:
    """The disk of the current log was changed for an empty one."""
    mover.append(0, 10)
    mover.move_to("d1")
    mover.moves.remove(T0)
    mover.manager.dirs.logs("d0").current.pop(T0)
    mover.manager.dirs.prefer(T0, "d1")
    mover.partition.log = mover.manager.get_or_create(T0, NOW_MS, is_new=True)
    assert mover.paths == ("d1", "d1")
    mover.moves.resume(T0, mover.partition, NOW_MS)
    assert mover.paths == ("d1", None)


# Directories that refuse


@pytest.mark.parametrize(("lost", "paths"), [("d0", (None, "d1")), ("d1", ("d0", None))])
def test_a_move_ends_when_one_of_its_directories_is_lost(
    files: Mover, tmp_path: Path, lost: str, paths: tuple[str | None, str | None]
) -> None:
    """What is left of a move whose source is lost is of no use, and stays."""
    files.append(0, *[10] * 9)
    files.move_to("d1")
    files.work()
    shutil.rmtree(tmp_path / lost)
    (tmp_path / lost).write_text("no directory")
    files.work()
    assert files.paths == paths
    assert [failure.path for failure in files.manager.take_failures()] == [lost]
    assert (files.moves.next_due_ms(), files.moves.failed) == (None, {})


def test_a_replica_lives_on_in_its_new_directory_if_the_old_log_cannot_be_deleted(
    files: Mover, tmp_path: Path
) -> None:
    """The replica is in its new directory already, and lives on."""
    files.append(0, 10)
    before = content(files.log)
    files.move_to("d1")
    while files.future.log_end_offset < before[1]:
        future = files.future
        future.append_as_follower(files.log.read(future.log_end_offset, 1_000))
    manager = files.manager
    (tmp_path / "d0" / "t-0").rename(tmp_path / "d0" / "gone")
    assert manager.replace_current_with_future(T0, NOW_MS) is manager.dirs.current(T0)
    assert [(f.path, f.partitions) for f in manager.take_failures()] == [("d0", ())]
    files.partition.log = manager.dirs.current(T0)
    assert files.paths == ("d1", None) and content(files.log) == before


def test_damaged_records_are_read_again_later(
    files: Mover, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files.append(0, *[10] * 9)
    files.move_to("d1")
    path = tmp_path / "d0" / "t-0" / f"{0:020d}.log"
    sound = path.read_bytes()
    path.write_bytes(sound[:100] + b"\xff" + sound[101:])
    assert files.work() == 1
    assert "Found invalid messages during fetch for partition t-0: " in caplog.text
    assert files.moves.next_due_ms() == 1_000.0
    assert files.work(now_ms=999.0) == 0
    path.write_bytes(sound)
    assert files.work(20, now_ms=1_000.0) > 1
    assert files.paths == ("d1", None)


# Threads


class Queue:
    """Replicas that are to move from d0 to d1, each with a log that takes two chunks."""

    def __init__(self, *partitions: TopicPartition, threads: int | None) -> None:
        self.log_manager = LogManager(LogDirs(DIRS), MemoryLogStore(), lambda topic: SMALL)
        self.log_manager.startup(MetaProperties("c", 1), NOW_MS)
        hosted: dict[TopicPartition, Partition] = {}
        config = msgspec.structs.replace(
            broker_config({"log.dirs": ",".join(DIRS)}), num_replica_alter_log_dirs_threads=threads
        )
        self.moves = ReplicaAlterLogDirsManager(
            1, config, hosted, self.log_manager, NO_QUIRKS, Copying(ManualClock(), [].append)
        )
        for tp in partitions:
            self.log_manager.dirs.prefer(tp, "d0")
            log = self.log_manager.get_or_create(tp, NOW_MS, is_new=True)
            for _ in range(5):
                log.append_as_leader(CountedBatch(10, 1_000), 0, NOW_MS)
            hosted[tp] = Partition(log=log)
            self.log_manager.dirs.prefer(tp, "d1")
            self.log_manager.create_future(tp, NOW_MS)
            self.moves.add(tp)

    def ends(self) -> dict[TopicPartition, int]:
        """How far the future logs have come that are left."""
        futures = self.log_manager.dirs.logs("d1").futures
        return {tp: log.log_end_offset for tp, log in futures.items()}

    def work(self) -> list[TopicPartition]:
        """Copy a chunk for each thread; of which replicas."""
        before = self.ends()
        self.moves.on_timer(0.0, NOW_MS)
        after = self.ends()
        return [tp for tp in before if after.get(tp) != before[tp]]


def test_a_thread_copies_one_replica_to_its_end_then_the_next_in_order() -> None:
    b1, b0, a7 = TopicPartition("b", 1), TopicPartition("b", 0), TopicPartition("a", 7)
    queue = Queue(b1, b0, a7, threads=1)
    order = []
    while queue.moves.next_due_ms() is not None:
        order += queue.work()
        if len(order) == 1:
            queue.moves.remove(b0)
            queue.moves.add(b0)
    assert order == [a7, a7, b0, b0, b1, b1]


def test_threads_copy_side_by_side() -> None:
    """There is one for each directory. Which one takes a replica hangs on its topic's name: 31
    times its hash, which is 116 for t, and the number of the partition, modulo 3."""
    replicas = [TopicPartition("t", number) for number in range(5)]
    assert [tp.partition for tp in Queue(*replicas, threads=None).work()] == [0, 1, 2]
    assert [tp.partition for tp in Queue(*replicas[1:], threads=None).work()] == [1, 2, 3]
    assert [tp.partition for tp in Queue(*replicas, threads=2).work()] == [0, 1]
    # The hash of a is 97, and both 31 * 97 + 1 and 31 * 116 are divisible by 4.
    assert Queue(replicas[0], TopicPartition("a", 1), threads=4).work() == [TopicPartition("a", 1)]


def test_the_number_of_threads_is_a_config() -> None:
    name = "num.replica.alter.log.dirs.threads"
    assert broker_config({name: "4"}).num_replica_alter_log_dirs_threads == 4
    assert broker_config({}).num_replica_alter_log_dirs_threads is None
    with pytest.raises(InvalidConfig, match=f"Invalid value 0 for configuration {name}"):
        broker_config({name: "0"})


# Quirks


def test_kafka_9087_never_begins_with_an_empty_future_log(tmp_path: Path) -> None:
    mover = Mover("intervals", tmp_path, kafka_9087=True)
    mover.append(0, 10)
    mover.partition.high_watermark = 10
    mover.move_to("d1")
    mover.moves.resume(T0, mover.partition, NOW_MS)
    assert (mover.work(), mover.moves.failed) == (0, {T0: None})
    mover.moves.add(T0)
    assert mover.moves.failed == {}
    mover.moves.resume(T0, mover.partition, NOW_MS)
    mover.moves.remove(T0)
    assert mover.moves.failed == {}


def test_kafka_15608_forgets_an_epoch_without_records(tmp_path: Path) -> None:
    mover = Mover("intervals", tmp_path, kafka_15608=True)
    mover.append(0, 10)
    mover.log.start_epoch(3)
    mover.move_to("d1")
    copy_all(mover)
    assert mover.log.latest_epoch == 0
