"""Moves of replicas to another log directory: the current log is copied to a future log.

There are no threads: the broker calls ``on_timer`` while something is due, and every call copies
one chunk for each thread that Kafka would have, so that messages are handled between chunks. When
both logs end at the same offset, the future log replaces the current one. No data comes from
another broker.

Between two chunks the current log may be truncated, emptied, or lose its oldest segments. Before
each chunk the future log is therefore truncated to the part that both logs have in common: records
with the same offset and leader epoch in both logs are the same. (2.8.2 marks the future log for
truncation when the current log is truncated, and compares epochs when a move begins.) Mirrors
kafka.server.{ReplicaAlterLogDirsManager, ReplicaAlterLogDirsThread} and
kafka.cluster.Partition.maybeReplaceCurrentWithFutureReplica.
"""

from __future__ import annotations

import logging
import math
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from klamm.brokers.bandwidth.copying import CopyId, Copying, DirectoryMove
from klamm.brokers.bandwidth.replication_quotas import LogPlace, directory_move_flow
from klamm.brokers.config import BrokerConfig
from klamm.brokers.followers.follower import append_fetched
from klamm.brokers.logs.errors import CorruptRecord, InvalidRecord, LogStorageError, ReplicaLogError
from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.log_manager import LogManager
from klamm.brokers.logs.record_parts import first_part
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.jvm.java_hash import absolute, string_hash
from klamm.cluster.quirks import Quirks
from klamm.cluster.records import Records, size_of
from klamm.cluster.timers import earliest
from klamm.cluster.types import TopicPartition

logger = logging.getLogger(__name__)


class _Thread:
    """The log directory moves that one ReplicaAlterLogDirsThread of Kafka would handle.

    Replicas are moved one at a time, so that each move finishes sooner.

    - ``ready``: queued partitions in copying order.
    - ``delayed``: partitions to be retried later, each with the time of the retry. All delays are
      equal, so the first entry is due first.
    - ``in_progress``: the partition that is being copied; None between two moves.
    - ``is_carried``: True while the bandwidth model transfers a chunk of ``in_progress``.
    - ``taken_bytes``: bytes of the chunk that were copied while the rest was being transferred.
    - ``arrived_bytes``: bytes of the chunk that were transferred but are not copied yet.
    """

    __slots__ = ("arrived_bytes", "delayed", "in_progress", "is_carried", "ready", "taken_bytes")

    def __init__(self) -> None:
        self.ready: list[TopicPartition] = []
        self.delayed: dict[TopicPartition, float] = {}
        self.in_progress: TopicPartition | None = None
        self.forget_chunk()

    def forget_chunk(self) -> None:
        """Reset the transfer state of the current chunk."""
        self.is_carried = False
        self.arrived_bytes = self.taken_bytes = 0

    def add(self, partition: TopicPartition) -> None:
        """Queue a partition for copying."""
        self.remove(partition)
        insort(self.ready, partition)

    def remove(self, partition: TopicPartition) -> None:
        """Stop copying a partition, if it is queued or copied."""
        if self.in_progress == partition:
            self.in_progress = None
            self.forget_chunk()
        self.delayed.pop(partition, None)
        place = bisect_left(self.ready, partition)
        if self.ready[place : place + 1] == [partition]:
            del self.ready[place]

    def delay(self, partition: TopicPartition, until_ms: float) -> None:
        """Retry a partition at ``until_ms``, and copy other partitions until then."""
        self.remove(partition)
        self.delayed[partition] = until_ms

    def next_due_ms(self) -> float | None:
        """Return the time at which this thread has something to copy, in monotonic milliseconds.

        Return -inf if there is something to copy now, and None if there is nothing to copy.
        """
        if self.is_carried:
            return None
        return -math.inf if self.ready else next(iter(self.delayed.values()), None)

    def select(self, now_ms: float) -> TopicPartition | None:
        """Return the partition whose next chunk is to be copied, or None if there is none."""
        if self.is_carried:
            return None
        for partition in [tp for tp, due_ms in self.delayed.items() if due_ms <= now_ms]:
            self.add(partition)
        if self.in_progress is None and self.ready:
            self.in_progress = self.ready[0]
        return self.in_progress


class ReplicaAlterLogDirsManager:
    """All moves of replicas between the log directories of one broker.

    - ``partitions``: all partitions that the broker hosts.
    - ``failed``: partitions whose move stopped because the future log rejected an append. Copying
      resumes after the next LeaderAndIsr request for the partition, or when the partition is moved
      to another directory.
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
        """Start copying the current log of a partition to its future log."""
        self.failed.pop(partition, None)
        self._thread_of(partition).add(partition)

    def resume(self, tp: TopicPartition, partition: Partition, wall_ms: int) -> None:
        """Resume copying after a LeaderAndIsr request for a partition with a current log.

        If the partition has a future log, copying continues from the end of that log. However, if
        the future log is in the same directory as the current log, the future log is deleted. This
        occurs if the current log was lost with another disk and was then created again. ``wall_ms``
        is in milliseconds since the Unix epoch.
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
        """Stop copying to the future log of a partition, if there is one."""
        self._remove(self._thread_of(partition), partition)
        self.failed.pop(partition, None)

    def _remove(self, thread: _Thread, partition: TopicPartition) -> None:
        if thread.is_carried and thread.in_progress == partition:
            self._copying.end(DirectoryMove(partition, self._broker_id))
        thread.remove(partition)

    def on_arrived(self, copy_id: DirectoryMove, size_bytes: int) -> None:
        """Record that a whole chunk was transferred. Ignore transfers that were ended early."""
        thread = self._thread_of(copy_id.topic_partition)
        if thread.is_carried and thread.in_progress == copy_id.topic_partition:
            thread.is_carried = False
            thread.arrived_bytes += size_bytes - thread.taken_bytes
            thread.taken_bytes = 0

    def take_arrived(self, now_ms: float) -> None:
        """Copy what has been transferred so far of every chunk that is being transferred."""
        for thread in self._threads:
            tp = thread.in_progress
            if tp is not None and thread.is_carried:
                arrived = self._copying.take(DirectoryMove(tp, self._broker_id))
                if arrived is not None:
                    self.take(DirectoryMove(tp, self._broker_id), arrived.size_bytes, now_ms)

    def take(self, copy_id: DirectoryMove, size_bytes: int, now_ms: float) -> None:
        """Copy the transferred part of a chunk. The rest is transferred later, or is lost."""
        tp = copy_id.topic_partition
        thread = self._thread_of(tp)
        if thread.is_carried and thread.in_progress == tp:
            thread.taken_bytes += size_bytes
            thread.arrived_bytes += size_bytes
            with self._handling_errors(thread, tp, now_ms):
                self._copy(thread, tp)

    def on_log_dir_failure(self) -> None:
        """Stop copying the partitions whose current or future log went offline."""
        dirs = self._log_manager.dirs
        for thread in self._threads:
            for tp in (*thread.ready, *thread.delayed):
                if dirs.path_of(tp) is None or dirs.future_path_of(tp) is None:
                    self._remove(thread, tp)

    def next_due_ms(self) -> float | None:
        """Return when to call ``on_timer`` next, in monotonic milliseconds.

        Return None if there is nothing to copy.
        """
        return earliest([thread.next_due_ms() for thread in self._threads])

    def on_timer(self, now_ms: float, wall_ms: int) -> bool:
        """Copy a chunk for each thread; return False if there was nothing to copy."""
        was_due = False
        for thread in self._threads:
            tp = thread.select(now_ms)
            if tp is not None:
                was_due = True
                self._do_work(thread, tp, now_ms, wall_ms)
        return was_due

    def _do_work(self, thread: _Thread, tp: TopicPartition, now_ms: float, wall_ms: int) -> None:
        """Copy a chunk. If the future log is then complete, it replaces the current log."""
        with self._handling_errors(thread, tp, now_ms):
            if self._copy(thread, tp):
                self._replace_current_with_future(tp, wall_ms)
                self._remove(thread, tp)

    @contextmanager
    def _handling_errors(
        self, thread: _Thread, tp: TopicPartition, now_ms: float
    ) -> Iterator[None]:
        """Context manager: handle log errors that its body raises, as a follower does.

        - Corrupt records are read again later.
        - If the future log rejects an append, the move fails.
        - If a disk fails, all moves from and to its log directory stop.
        """
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
        """Copy a chunk; if bandwidth is limited, copy only the part transferred so far.

        Return True if the future log is complete.
        """
        manager = self._log_manager
        source, target = manager.dirs.path_of(tp), manager.dirs.future_path_of(tp)
        current, future = self._partitions[tp].log, manager.dirs.future(tp)
        assert current is not None and source is not None, "a replica without a log cannot move"
        assert future is not None and target is not None, "no future log to copy to"
        with manager.in_dir(target):
            truncate_to_common(future, current)
        with manager.in_dir(source):
            records = self._read(current, future.log_end_offset)
        part: Records | None = records
        if size_bytes := size_of(records):
            if not thread.is_carried and not thread.arrived_bytes:
                copy_id: CopyId = DirectoryMove(tp, self._broker_id)
                flow = directory_move_flow(copy_id, LogPlace(self._broker_id, source), target)
                thread.is_carried = self._copying.begin(flow, size_bytes)
            if thread.is_carried or thread.arrived_bytes:
                part = _take_chunk(thread, records)
        if part is None:
            return False
        with manager.in_dir(target):
            return append_chunk(future, current, part)

    def _read(self, current: ReplicaLog, offset: int) -> Records:
        """Return the next chunk of the current log.

        A chunk of an offset-only log is one segment. If bandwidth is limited, the chunk contains
        all remaining records, so that one transfer replaces many.
        """
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
        """Return the thread that Kafka's AbstractFetcherManager.getFetcherId selects."""
        code = absolute(31 * string_hash(partition.topic) + partition.partition)
        return self._threads[code % len(self._threads)]


def _take_chunk(thread: _Thread, records: Records) -> Records | None:
    """Return the batches of a chunk that were completely transferred, or None if there are none."""
    part = first_part(records, thread.arrived_bytes)
    if part is not None:
        thread.arrived_bytes -= size_of(part)
    if not thread.is_carried:
        thread.arrived_bytes = 0
    return part


def truncate_to_common(future: ReplicaLog, current: ReplicaLog) -> None:
    """Truncate the future log to a prefix of the current log.

    If the logs have nothing in common, all records of the future log are removed, and its start
    offset becomes that of the current log.
    """
    if not _truncate_by_epochs(future, current) or not (
        future.log_start_offset <= current.log_start_offset
        and current.log_start_offset <= future.log_end_offset <= current.log_end_offset
    ):
        future.truncate_fully_and_start_at(current.log_start_offset)


def _truncate_by_epochs(future: ReplicaLog, current: ReplicaLog) -> bool:
    """Truncate the future log where its leader epochs begin to differ from the current log's.

    Return False if the logs have no leader epoch in common.
    """
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
    """Append records read from the current log to the future log.

    Also raise the start offset of the future log to that of the current log. Return True if both
    logs now end at the same offset.
    """
    append_fetched(future, records)
    if future.log_start_offset < current.log_start_offset:
        future.increment_log_start_offset(current.log_start_offset)
    return future.log_end_offset == current.log_end_offset


def take_over_epoch(future: ReplicaLog, current: ReplicaLog) -> None:
    """Copy the current leader epoch to the future log, even if the epoch has no records.

    Chunks do not contain an epoch without records. If the future log lacked the epoch, the leader
    would reject followers whose last epoch is later than its last epoch with records (KAFKA-15608).
    """
    epoch = current.latest_epoch
    if epoch is not None:
        future.start_epoch(epoch)
