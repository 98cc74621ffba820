"""A replica of each kind of log that moves between the three log directories of one broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from klamm.brokers.bandwidth.copying import Copying
from klamm.brokers.config import broker_config
from klamm.brokers.followers.replica_alter_log_dirs import ReplicaAlterLogDirsManager
from klamm.brokers.logs.checkpoints import MetaProperties
from klamm.brokers.logs.file_log_store import FileLogStore
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.log_dirs import LogDirs
from klamm.brokers.logs.log_manager import LogManager
from klamm.brokers.logs.log_store import DrawInteger, LogStore, MemoryLogStore
from klamm.brokers.logs.record_batch import walk
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.brokers.logs.segment_log import SegmentLog
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.quirks import NO_QUIRKS
from klamm.cluster.records import Produced
from klamm.cluster.types import TopicPartition
from tests.conformance.replica_logs import NOW_MS, IntervalLogFactory, LogFactory, epochs_of
from tests.conformance.segment_logs import SegmentLogFactory
from tests.unit.brokers.network import ManualClock

T0 = TopicPartition("t", 0)
DIRS = ("d0", "d1", "d2")
SMALL = LogConfig(segment_bytes=3_000, segment_index_bytes=1_200, file_delete_delay_ms=1_000)
CHUNK = broker_config({"log.dirs": ",".join(DIRS), "replica.fetch.max.bytes": "1000"})
KINDS = ("intervals", "segments")


class Mover:
    """The log directories of a broker below ``folder``, t-0 in one of them, and what moves it.

    Memory is copied a segment at a time, files a batch of ten records at a time.
    """

    def __init__(self, kind: str, folder: Path, **quirks: bool) -> None:
        self.store: LogStore = MemoryLogStore() if kind == "intervals" else FileLogStore(folder)
        self.factory: LogFactory = (
            IntervalLogFactory() if kind == "intervals" else SegmentLogFactory()
        )
        self._quirks = msgspec.structs.replace(NO_QUIRKS, **quirks)
        self.start()

    def start(self) -> None:
        """Start as a new process that the controller tells of t-0."""
        self.manager = LogManager(LogDirs(DIRS), self.store, lambda topic: SMALL)
        self.manager.startup(MetaProperties("c", 1), NOW_MS)
        log = self.manager.get_or_create(T0, NOW_MS, is_new=True)
        mark = self.manager.take_high_watermark(T0)
        self.partition = Partition(log=log, high_watermark=min(mark, log.log_end_offset))
        self.partitions = {T0: self.partition}
        self.moves = ReplicaAlterLogDirsManager(
            1, CHUNK, self.partitions, self.manager, self._quirks, Copying(ManualClock(), [].append)
        )
        self.moves.resume(T0, self.partition, NOW_MS)

    def kill(self, draw: DrawInteger | None = None) -> None:
        """The process ends, or with ``draw`` the machine stops."""
        if draw is not None:
            self.store.crash(draw)
        self.manager.abandon()

    def close(self) -> None:
        self.manager.shutdown()
        self.factory.close()

    @property
    def log(self) -> ReplicaLog:
        """The current log."""
        log = self.partition.log
        assert log is not None and log is self.manager.dirs.current(T0)
        return log

    @property
    def future(self) -> ReplicaLog:
        """The future log."""
        log = self.manager.dirs.future(T0)
        assert log is not None
        return log

    @property
    def paths(self) -> tuple[str | None, str | None]:
        """The directories of the current log and of the future one."""
        return self.manager.dirs.path_of(T0), self.manager.dirs.future_path_of(T0)

    def batch(self, count: int = 10) -> Produced:
        return self.factory.batch(count)

    def append(self, epoch: int, *counts: int) -> None:
        """Append batches of so many records as a leader of this epoch."""
        for count in counts:
            self.log.append_as_leader(self.batch(count), epoch, NOW_MS)

    def move_to(self, path: str) -> None:
        """Make a future log in a directory, and begin to copy."""
        self.manager.dirs.prefer(T0, path)
        self.manager.create_future(T0, NOW_MS)
        self.moves.add(T0)

    def work(self, chunks: int = 1, now_ms: float = 0.0) -> int:
        """Copy so many chunks, if there are as many; how many there were."""
        return sum(self.moves.on_timer(now_ms, NOW_MS) for _ in range(chunks))


def content(log: ReplicaLog) -> tuple[Any, ...]:
    """All that anybody can find out of a log: its bounds, its epochs, its records."""
    start, end, latest = log.log_start_offset, log.log_end_offset, log.latest_epoch
    epochs = epochs_of(log)
    ends = {epoch: log.end_offset_for(epoch) for epoch, *_ in epochs}
    batches = b""
    offset = start
    while isinstance(log, SegmentLog) and offset < end:
        found = log.read(offset, 1 << 20)
        assert isinstance(found, bytes)
        batches += found
        offset = max(header.next_offset for _, header in walk(found))
    return start, end, latest, ends, epochs, batches
