"""Replicas on their way to another log directory: a future log copies the broker's own current one.

There is no thread: the broker calls ``on_timer`` for as long as something is due, and every call
copies one chunk for each of Kafka's threads, so that messages are handled in between. When both
logs end at the same offset the future one takes the current one's place. Nothing comes from another
broker, whoever leads.

The current log may be truncated, begin later, or be emptied between any two chunks, so before each
one the future log is cut to what both have in common: what has the same offset and leader epoch in
both is the same. (2.8.2 marks the future log for truncation when the current one is cut, and
compares epochs when a move begins.) Mirrors kafka.server.{ReplicaAlterLogDirsManager,
ReplicaAlterLogDirsThread} and kafka.cluster.Partition.maybeReplaceCurrentWithFutureReplica.
"""

from __future__ import annotations

import logging
import math
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from klamm.brokers.bandwidth.copying import CopyId, Copying, DirectoryMove
from klamm.brokers.bandwidth.replication_quotas import Place, directory_move_flow
from klamm.brokers.config import BrokerConfig
from klamm.brokers.followers.follower import append_fetched
from klamm.brokers.logs.errors import CorruptRecord, InvalidRecord, LogStorageError, ReplicaLogError
from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.log_manager import LogManager
from klamm.brokers.logs.record_parts import first_part
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.java_hash import string_hash
from klamm.cluster.quirks import Quirks
from klamm.cluster.records import Records, size_of
from klamm.cluster.types import TopicPartition

logger = logging.getLogger(__name__)


class _Thread:
    """What one of Kafka's threads copies: one replica at a time, so that it arrives the sooner.

    ``ready``: in the order in which they are begun. ``delayed``: when one may be tried again; all
    delays are alike, so the first is due first. ``in_progress``: goes on until it has arrived or is
    to wait. ``is_carried``: its chunk is on its way through the disks; ``taken_bytes`` of it were
    asked for early. ``arrived_bytes``: what has passed them and is to be copied.
    """

    __slots__ = ("arrived_bytes", "delayed", "in_progress", "is_carried", "ready", "taken_bytes")

    def __init__(self) -> None:
        self.ready: list[TopicPartition] = []
        self.delayed: dict[TopicPartition, float] = {}
        self.in_progress: TopicPartition | None = None
        self.forget_chunk()

    def forget_chunk(self) -> None:
        """The next chunk is to pass the disks."""
        self.is_carried = False
        self.arrived_bytes = self.taken_bytes = 0

    def add(self, partition: TopicPartition) -> None:
        """Copy it when its turn has come."""
        self.remove(partition)
        insort(self.ready, partition)

    def remove(self, partition: TopicPartition) -> bool:
        """Copy it no more; False if it was not to be copied."""
        if self.in_progress == partition:
            self.in_progress = None
            self.forget_chunk()
        if self.delayed.pop(partition, None) is not None:
            return True
        place = bisect_left(self.ready, partition)
        if self.ready[place : place + 1] != [partition]:
            return False
        del self.ready[place]
        return True

    def delay(self, partition: TopicPartition, until_ms: float) -> None:
        """Copy others until then."""
        self.remove(partition)
        self.delayed[partition] = until_ms

    def next_due_ms(self) -> float | None:
        """When there is something to copy, -inf: at once; None: never."""
        if self.is_carried:
            return None
        return -math.inf if self.ready else next(iter(self.delayed.values()), None)

    def select(self, now_ms: float) -> TopicPartition | None:
        """Whose chunk is copied next; None: nobody's."""
        if self.is_carried:
            return None
        for partition in [tp for tp, due_ms in self.delayed.items() if due_ms <= now_ms]:
            self.add(partition)
        if self.in_progress is None and self.ready:
            self.in_progress = self.ready[0]
        return self.in_progress


class ReplicaAlterLogDirsManager:
    """The moves of one broker between its own directories, ``partitions`` with a future log.

    ``failed``: those that are not copied any more because a log refused, until the controller names
    them again or they are sent elsewhere.
    """

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        partitions: Mapping[TopicPartition, Partition],
        log_manager: LogManager,
        quirks: Quirks,
        copying: Copying,
    ) -> None:
        self._broker_id = broker_id
        self._copying = copying
        self._config = config
        self._partitions = partitions
        self._log_manager = log_manager
        self._quirks = quirks
        count = config.num_replica_alter_log_dirs_threads or len(config.log_dirs)
        self._threads = tuple(_Thread() for _ in range(count))
        self.failed: dict[TopicPartition, None] = {}

    def add(self, partition: TopicPartition) -> None:
        """Copy to the future log that was made for this partition."""
        self.failed.pop(partition, None)
        self._thread_of(partition).add(partition)

    def resume(self, tp: TopicPartition, partition: Partition, wall_ms: int) -> None:
        """The controller has named a replica that has a current log: copy to its future log, if it
        has one, from where that ends. ``wall_ms``: since the epoch.

        A future log in the directory of the current one cannot take its place and is deleted: the
        current one was lost with another disk, and made anew.
        """
        dirs = self._log_manager.dirs
        future = dirs.future(tp)
        if future is None:
            return
        if dirs.future_path_of(tp) == dirs.path_of(tp):
            with suppress(LogStorageError):
                self._log_manager.delete_future(tp, wall_ms)
            return
        self.add(tp)
        fetched, end = partition.high_watermark, future.log_end_offset
        if self._quirks.kafka_9087 and future.latest_epoch is None and fetched != end:
            words = "Offset mismatch for the future replica %s: fetched offset = %d, "
            logger.error(words + "log end offset = %d.", tp, fetched, end)
            self._fail(tp)

    def remove(self, partition: TopicPartition) -> None:
        """Copy no more to its future log, if there is one."""
        self._remove(self._thread_of(partition), partition)
        self.failed.pop(partition, None)

    def _remove(self, thread: _Thread, partition: TopicPartition) -> None:
        if thread.is_carried and thread.in_progress == partition:
            self._copying.end(DirectoryMove(partition, self._broker_id))
        thread.remove(partition)

    def on_arrived(self, copy_id: DirectoryMove, size_bytes: int) -> None:
        """A chunk has passed the disks. Of one that was ended nobody wants to hear."""
        thread = self._thread_of(copy_id.topic_partition)
        is_over = copy_id not in self._copying.of_owner(self._broker_id)
        if thread.is_carried and thread.in_progress == copy_id.topic_partition and is_over:
            thread.is_carried = False
            thread.arrived_bytes += size_bytes - thread.taken_bytes
            thread.taken_bytes = 0

    def take_arrived(self, now_ms: float) -> None:
        """Copy what has passed the disks until now of chunks that are on their way."""
        for thread in self._threads:
            tp = thread.in_progress
            if tp is not None and thread.is_carried:
                arrived = self._copying.take(DirectoryMove(tp, self._broker_id))
                if arrived is not None:
                    self.take(DirectoryMove(tp, self._broker_id), arrived.size_bytes, now_ms)

    def take(self, copy_id: DirectoryMove, size_bytes: int, now_ms: float) -> None:
        """Copy so much of a chunk, of which the rest is still to come, or never will."""
        tp = copy_id.topic_partition
        thread = self._thread_of(tp)
        if thread.is_carried and thread.in_progress == tp:
            thread.taken_bytes += size_bytes
            thread.arrived_bytes += size_bytes
            with self._handling_errors(thread, tp, now_ms):
                self._copy(thread, tp)

    def on_log_dir_failure(self) -> None:
        """Current logs have gone offline, or future ones: there is nothing to copy any more."""
        dirs = self._log_manager.dirs
        for thread in self._threads:
            for tp in (*thread.ready, *thread.delayed):
                if dirs.path_of(tp) is None or dirs.future_path_of(tp) is None:
                    self._remove(thread, tp)

    def next_due_ms(self) -> float | None:
        """When ``on_timer`` is to be called next, in monotonic milliseconds."""
        due = (thread.next_due_ms() for thread in self._threads)
        return min((due_ms for due_ms in due if due_ms is not None), default=None)

    def on_timer(self, now_ms: float, wall_ms: int) -> bool:
        """Copy a chunk for each thread; False if there was nothing to copy."""
        was_due = False
        for thread in self._threads:
            tp = thread.select(now_ms)
            if tp is not None:
                was_due = True
                self._do_work(thread, tp, now_ms, wall_ms)
        return was_due

    def _do_work(self, thread: _Thread, tp: TopicPartition, now_ms: float, wall_ms: int) -> None:
        """Copy a chunk, and let the future log take the current one's place if it holds all."""
        with self._handling_errors(thread, tp, now_ms):
            if self._copy(thread, tp):
                self._replace_current_with_future(tp, wall_ms)
                self._remove(thread, tp)

    @contextmanager
    def _handling_errors(
        self, thread: _Thread, tp: TopicPartition, now_ms: float
    ) -> Iterator[None]:
        """As with a follower: damaged records are read again later, and a log that refuses has
        failed. If it is a disk that refuses, the directory is offline, with what moves from it or
        to it."""
        try:
            yield
        except (CorruptRecord, InvalidRecord) as error:
            logger.error("Found invalid messages during fetch for partition %s: %s", tp, error)
            self._remove(thread, tp)
            thread.delay(tp, now_ms + self._config.replica_fetch_backoff_ms)
        except LogStorageError:
            self.on_log_dir_failure()
        except ReplicaLogError as error:
            logger.error("Error while processing data for partition %s: %s", tp, error)
            self._fail(tp)

    def _copy(self, thread: _Thread, tp: TopicPartition) -> bool:
        """Copy a chunk, or let it pass the disks first if they take their time; True if the future
        log holds everything."""
        manager = self._log_manager
        source, target = manager.dirs.path_of(tp), manager.dirs.future_path_of(tp)
        current, future = self._partitions[tp].log, manager.dirs.future(tp)
        assert current is not None and source is not None, "only a replica with a log moves"
        assert future is not None and target is not None, "only a replica with a future log moves"
        with manager.in_dir(target):
            truncate_to_common(future, current)
        with manager.in_dir(source):
            records = self._read(current, future.log_end_offset)
        part: Records | None = records
        if size_bytes := size_of(records):
            if not thread.is_carried and not thread.arrived_bytes:
                copy_id: CopyId = DirectoryMove(tp, self._broker_id)
                flow = directory_move_flow(copy_id, Place(self._broker_id, source), target)
                thread.is_carried = self._copying.begin(flow, size_bytes)
            if thread.is_carried or thread.arrived_bytes:
                part = _take_part(thread, records)
        if part is None:
            return False
        with manager.in_dir(target):
            return append_chunk(future, current, part)

    def _read(self, current: ReplicaLog, offset: int) -> Records:
        """A chunk; of a log that only counts all that is left if that takes time, for then it
        stands for many, else a segment."""
        if not isinstance(current, IntervalLog):
            return current.read(offset, self._config.replica_fetch_max_bytes)
        if self._copying.is_limited:
            return current.read_all(offset)
        return current.read(offset, current.config.segment_bytes)

    def _replace_current_with_future(self, tp: TopicPartition, wall_ms: int) -> None:
        manager, partition = self._log_manager, self._partitions[tp]
        future, target = manager.dirs.future(tp), manager.dirs.future_path_of(tp)
        assert future is not None and target is not None and partition.log is not None
        if not self._quirks.kafka_15608:
            with manager.in_dir(target):
                take_over_epoch(future, partition.log)
        partition.log = manager.replace_current_with_future(tp, wall_ms)

    def _fail(self, partition: TopicPartition) -> None:
        self.remove(partition)
        self.failed[partition] = None

    def _thread_of(self, partition: TopicPartition) -> _Thread:
        """As AbstractFetcherManager.getFetcherId chooses it, in Java's numbers of 32 bits."""
        number = (31 * string_hash(partition.topic) + partition.partition) & 0xFFFFFFFF
        absolute = min(number, (1 << 32) - number) & 0x7FFFFFFF
        return self._threads[absolute % len(self._threads)]


def _take_part(thread: _Thread, records: Records) -> Records | None:
    """What of a chunk has passed the disks, in whole batches; None: nothing."""
    part = first_part(records, thread.arrived_bytes)
    if part is not None:
        thread.arrived_bytes -= size_of(part)
    if not thread.is_carried:
        thread.arrived_bytes = 0
    return part


def truncate_to_common(future: ReplicaLog, current: ReplicaLog) -> None:
    """Cut the future log to a beginning of the current one; with nothing in common it is emptied,
    and begins where the current one does."""
    if not _truncate_by_epochs(future, current) or not (
        future.log_start_offset <= current.log_start_offset
        and current.log_start_offset <= future.log_end_offset <= current.log_end_offset
    ):
        future.truncate_fully_and_start_at(current.log_start_offset)


def _truncate_by_epochs(future: ReplicaLog, current: ReplicaLog) -> bool:
    """Cut what is of another leader epoch in the current log; False if there is no common epoch."""
    while (epoch := future.latest_epoch) is not None:
        theirs = current.end_offset_for(epoch)
        mine = future.end_offset_for(theirs.leader_epoch)
        if mine.leader_epoch < 0:
            return False
        is_common = mine.leader_epoch == theirs.leader_epoch
        end = min(mine.end_offset, theirs.end_offset) if is_common else mine.end_offset
        if end < future.log_end_offset or mine.leader_epoch < epoch:
            future.truncate_to(end)
        if is_common:
            break
    return True


def append_chunk(future: ReplicaLog, current: ReplicaLog, records: Records) -> bool:
    """Append what was read from the current log at the future one's end; True if it holds
    everything now, and begins where the current one does."""
    append_fetched(future, records)
    if future.log_start_offset < current.log_start_offset:
        future.increment_log_start_offset(current.log_start_offset)
    return future.log_end_offset == current.log_end_offset


def take_over_epoch(future: ReplicaLog, current: ReplicaLog) -> None:
    """Note the leader epoch that has no records yet, which no chunk brings.

    Without it a leader could not tell a follower of that epoch where the epochs before it end.
    """
    epoch = current.latest_epoch
    if epoch is not None and epoch != future.latest_epoch:
        future.start_epoch(epoch)
