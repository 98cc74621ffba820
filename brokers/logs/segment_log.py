"""A replica's log on disk in Kafka's layout: the files in ``TOPIC-PARTITION/``.

The log uses no clock and no background thread. Therefore an append that rolls a segment flushes the
old segment first; Kafka does this in the background. Mirrors kafka.log.Log, without transactions
and without the log cleaner.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from pathlib import Path
from typing import Final

from klamm.brokers.logs import leader_epoch_cache
from klamm.brokers.logs.batch_file import OFFSET_DELTA_MAX
from klamm.brokers.logs.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    read_topic_id,
    write_epochs,
    write_topic_id,
)
from klamm.brokers.logs.errors import (
    CorruptCheckpoint,
    OffsetOutOfRange,
    RecordBatchTooLarge,
    storage_errors,
)
from klamm.brokers.logs.intervals import per_epoch
from klamm.brokers.logs.leader_epoch_cache import EpochEntries
from klamm.brokers.logs.log_config import DEFAULT_LOG_CONFIG, LogConfig
from klamm.brokers.logs.log_inspection import inspect
from klamm.brokers.logs.record_batch import BatchHeader, place
from klamm.brokers.logs.recovery import NOTHING_KNOWN, Known, Repair, RepairKind, load_segments
from klamm.brokers.logs.replica_log import Appended
from klamm.brokers.logs.retention import count_deletable, next_expiry_ms
from klamm.brokers.logs.segment import LogSegment
from klamm.brokers.logs.segment_files import DELETED_SUFFIX, parse_log_dir_name
from klamm.brokers.logs.validation import batch_of, check_fetched, check_produced
from klamm.brokers.storage.disk import LOCAL_DISK, Disk
from klamm.cluster.records import (
    NO_TIMESTAMP,
    EpochEndOffset,
    Interval,
    Produced,
    Records,
    TimestampOffset,
)

_base_offset_of: Final = attrgetter("base_offset")


class SegmentLog:
    """The log in ``directory``, which is created if it does not exist.

    - ``known``: the offsets of this log in the checkpoint files of the log directory.
    - ``repairs``: the repairs that were made when the log was opened.
    - ``on_recovery_point_lowered``: called to checkpoint the recovery points.
    - ``now_ms``: the current time in milliseconds since the Unix epoch. Later calls with an
      argument ``now_ms`` update this time.

    Raises LogStorageError, or DamagedLog if the files cannot be trusted.
    """

    __slots__ = (
        "_disk",
        "_epochs",
        "_flush_error",
        "_marked",
        "_now_ms",
        "_producers",
        "_segments",
        "config",
        "directory",
        "log_end_offset",
        "log_start_offset",
        "name",
        "on_recovery_point_lowered",
        "recovery_point",
        "repairs",
        "topic_id",
    )

    def __init__(
        self,
        directory: Path,
        config: LogConfig = DEFAULT_LOG_CONFIG,
        *,
        now_ms: int,
        known: Known = NOTHING_KNOWN,
        disk: Disk = LOCAL_DISK,
    ) -> None:
        self._disk = disk
        self.directory = directory
        self.config = config
        self.name = str(parse_log_dir_name(directory.name).partition)
        self._now_ms = now_ms
        self._marked: list[tuple[int, LogSegment]] = []
        self.on_recovery_point_lowered: Callable[[], None] = lambda: None
        self._flush_error: OSError | None = None
        with self._storage_errors("loading {}"):
            disk.make_dirs(directory)
            self.topic_id, complaints = _topic_id(directory / PARTITION_METADATA, disk)
            loaded = load_segments(
                directory,
                self._segment,
                known,
                has_gaps=not config.delete,
                disk=disk,
            )
            self._segments = loaded.segments
            self.log_start_offset, self.log_end_offset = loaded.start_offset, loaded.end_offset
            if self._segments:
                self._active.become_active()
            else:
                self._add_segment(self.log_start_offset)
        self.repairs: tuple[Repair, ...] = (*complaints, *loaded.repairs)
        is_flushed = known.is_clean and not self.repairs
        point = self.log_end_offset if is_flushed else known.recovery_point or 0
        self.recovery_point = max(self.log_start_offset, point)
        self._epochs = loaded.recorded_epochs
        self._set_epochs(loaded.epochs)
        self._producers = loaded.producers

    @property
    def size_bytes(self) -> int:
        """Total size of all segments in bytes."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def latest_epoch(self) -> int | None:
        """The latest leader epoch, even if it has no records; None before the first epoch."""
        return leader_epoch_cache.latest_epoch(self._epochs)

    @property
    def base_offsets(self) -> tuple[int, ...]:
        """The first offset of each segment."""
        return tuple(segment.base_offset for segment in self._segments)

    def assign_topic_id(self, topic_id: str) -> None:
        """Write the topic id to partition.metadata (see ReplicaLog)."""
        write_topic_id(self.directory / PARTITION_METADATA, topic_id, self._disk)
        self.topic_id = topic_id

    def append_as_leader(self, produced: Produced, leader_epoch: int, now_ms: int) -> Appended:
        """Append a producer's batch, given as bytes (see ReplicaLog)."""
        self._now_ms = now_ms
        first = self.log_end_offset
        batch, header = check_produced(batch_of(produced), self.name, self.config, now_ms)
        header = header._replace(base_offset=first, leader_epoch=leader_epoch)
        duplicate = None
        if header.has_producer_id:
            duplicate = self._producers.check(header.producer_batch)
        append_time_ms = NO_TIMESTAMP
        if header.is_log_append_time:
            append_time_ms = duplicate.timestamp_ms if duplicate else header.max_timestamp_ms
        if duplicate is not None:
            return Appended(duplicate.first_offset, duplicate.last_offset, True, append_time_ms)
        self._append(place(batch, first, leader_epoch), [header])
        return Appended(first, header.last_offset, log_append_time_ms=append_time_ms)

    def append_as_follower(self, records: Records) -> None:
        """Append batches fetched from the leader, given as bytes (see ReplicaLog)."""
        assert isinstance(records, bytes), "a segment log accepts only batches as bytes"
        headers = check_fetched(records, self.name, self.log_start_offset, self.log_end_offset)
        if headers:
            self._append(records, headers)

    def read(self, offset: int, max_bytes: int, end_offset: int | None = None) -> bytes:
        """Read whole batches (see ReplicaLog). Raises CorruptRecord for a corrupt header."""
        self._check_may_read(offset)
        end = self.log_end_offset if end_offset is None else min(end_offset, self.log_end_offset)
        if offset >= end:
            return b""
        with self._storage_errors("reading from {}"):
            for segment in self._segments[self._floor(offset) :]:
                records = segment.read(offset, max_bytes, end)
                if records is not None:
                    return records
        return b""

    def size_between(self, offset: int, end_offset: int) -> int | None:
        """Return the size of the batches between two offsets (see ReplicaLog)."""
        self._check_may_read(offset)
        if offset >= end_offset:
            return 0
        first, last = self._floor(offset), self._floor(end_offset - 1)
        with self._storage_errors("reading from {}"):
            return self._segments[first].size_between(offset, end_offset) if first == last else None

    def _check_may_read(self, offset: int) -> None:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {self.name}, but we only have "
                f"log segments in the range {self.log_start_offset} to {self.log_end_offset}."
            )

    def start_epoch(self, leader_epoch: int) -> None:
        """Record that a new leader epoch starts at the log end (see ReplicaLog)."""
        self._assign_epoch(leader_epoch, self.log_end_offset)

    def end_offset_for(self, leader_epoch: int) -> EpochEndOffset:
        """Return the largest epoch up to ``leader_epoch`` and its end offset (see ReplicaLog)."""
        return leader_epoch_cache.end_offset_for(self._epochs, leader_epoch, self.log_end_offset)

    def offset_for_time(self, timestamp_ms: int) -> TimestampOffset | None:
        """Return the first record with a timestamp of at least ``timestamp_ms`` (see ReplicaLog).

        Raises CorruptRecord.
        """
        with self._storage_errors("fetching offset by timestamp for {}"):
            for segment in self._segments[self._floor(self.log_start_offset) :]:
                if segment.max_timestamp_ms >= timestamp_ms:
                    found = segment.find_offset_by_timestamp(timestamp_ms, self.log_start_offset)
                    if found is not None:
                        return found
        return None

    def intervals(self) -> tuple[Interval, ...]:
        """Return all readable records as intervals, one for each leader epoch (see ReplicaLog).

        Raises CorruptRecord.
        """
        start = self.log_start_offset
        with self._storage_errors("reading from {}"):
            return per_epoch(
                Interval(
                    header.leader_epoch,
                    max(header.base_offset, start),
                    header.next_offset,
                    header.size_bytes,
                    header.max_timestamp_ms,
                )
                for segment in self._segments[self._floor(start) :]
                for _, header in segment.log.batches()
                if header.last_offset >= start
            )

    def truncate_to(self, offset: int) -> int:
        """Truncate the log to ``offset`` (see ReplicaLog).

        If ``offset`` falls inside a batch, the whole batch is removed, including its records below
        ``offset``.
        """
        assert offset >= 0, f"cannot truncate {self.name} to {offset}"
        if offset >= self.log_end_offset:
            self._truncate_epochs(self.log_end_offset)
            return 0
        before = self.log_end_offset
        if offset < self._segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return before - self.log_end_offset
        with self._storage_errors(f"truncating log to offset {offset} for {{}}"):
            found = self._segments[self._floor(offset)].find(offset)
            self._lower_to(offset if found is None else found.header.base_offset)
            # In reverse order, so that a crash never leaves a gap.
            self._remove(self._segments[: self._floor(offset) : -1])
            end_offset = self._active.truncate_to(offset, self._now_ms)
        self._end_at(end_offset)
        return before - end_offset

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records, and delete their files immediately (see ReplicaLog)."""
        flushed_end = min(self.recovery_point, offset)
        self._lower_to(0)  # a crash may leave no file at all
        self._set_epochs(())
        with self._storage_errors("truncating the entire log for {}"):
            for segment in reversed(self._segments):
                segment.delete()
            self._segments = []
            self._add_segment(offset)
        self.log_start_offset = offset
        self._end_at(offset)
        self.recovery_point = flushed_end

    def increment_log_start_offset(self, offset: int) -> bool:
        """Make earlier records unreadable (see ReplicaLog). ``delete_old`` deletes their files."""
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(
                f"Cannot increment the log start offset to {offset} of partition {self.name} "
                f"since it is larger than the log end offset {self.log_end_offset}"
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.recovery_point = max(self.recovery_point, offset)
        self._set_epochs(leader_epoch_cache.truncate_from_start(self._epochs, offset))
        return True

    def delete_old(self, now_ms: int, high_watermark: int) -> int | None:
        """Delete old segments (see ReplicaLog).

        The files of the segments are only renamed. The first call after file.delete.delay.ms
        removes them.
        """
        self._now_ms = now_ms
        self._producers.expire(now_ms, self.config.producer_id_expiration_ms)
        count = count_deletable(
            self._segments,
            self.config,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=high_watermark,
            now_ms=now_ms,
        )
        deleted = self._segments[:count]
        with self._storage_errors("deleting segments for {}"):
            if count == len(self._segments):
                self._roll()
            # Update the start first: after a crash, the deleted files would count as missing.
            self.increment_log_start_offset(self._segments[count].base_offset)
            self._remove(deleted)
            self._delete_marked()
        due = [due_ms for due_ms, _ in self._marked]
        expiry_ms = next_expiry_ms(self._segments, self.config, now_ms)
        return min(due if expiry_ms is None else [*due, expiry_ms], default=None)

    def flush(self) -> None:
        """Write all records to disk (fsync)."""
        with self._storage_errors("flushing log for {}"):
            self._flush(self.log_end_offset)

    def close(self) -> None:
        """Trim the files to their contents and write them to disk (fsync)."""
        with self._storage_errors("closing {}"):
            self._active.become_inactive()
            self._flush(self.log_end_offset)

    def rename_dir(self, name: str) -> None:
        """Rename the folder of this log within its log directory."""
        with self._storage_errors("renaming dir for {}"):
            target = self.directory.with_name(name)
            self._disk.rename(self.directory, target)
        self.directory = target
        for segment in [*self._segments, *(segment for _, segment in self._marked)]:
            segment.move_to(str(target))

    def _assign_epoch(self, epoch: int, start_offset: int) -> None:
        self._set_epochs(leader_epoch_cache.assign(self._epochs, epoch, start_offset))

    def _truncate_epochs(self, end_offset: int) -> None:
        self._set_epochs(leader_epoch_cache.truncate_from_end(self._epochs, end_offset))

    def _set_epochs(self, entries: EpochEntries) -> None:
        """Replace the leader epochs, in memory and in leader-epoch-checkpoint."""
        if entries != self._epochs:
            self._epochs = entries
            write_epochs(self.directory / LEADER_EPOCH_CHECKPOINT, entries, self._disk)

    @property
    def _active(self) -> LogSegment:
        return self._segments[-1]

    def _storage_errors(self, doing: str) -> AbstractContextManager[None]:
        return storage_errors(doing.format(self.name), self.directory.parent)

    def _floor(self, offset: int) -> int:
        """Return the position in ``_segments`` of the segment that contains ``offset``.

        If no segment contains ``offset``, return the position of the segment that would.
        """
        return max(0, bisect_right(self._segments, offset, key=_base_offset_of) - 1)

    def _append(self, records: bytes, headers: Sequence[BatchHeader]) -> None:
        if len(records) > self.config.segment_bytes:
            raise RecordBatchTooLarge(
                f"Message batch size is {len(records)} bytes in append to partition {self.name}, "
                f"which exceeds the maximum configured segment size of {self.config.segment_bytes}."
            )
        # If the append fails, an epoch without records is left, which is harmless.
        for header in headers:
            self._assign_epoch(header.leader_epoch, header.base_offset)
        with self._storage_errors("appending records to {}"):
            if self._should_roll(len(records), headers):
                self._roll()
            self._active.append(records, headers, self._now_ms)
        self.log_end_offset = headers[-1].next_offset
        for header in headers:
            if header.has_producer_id:
                self._producers.update(header.producer_batch)
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()

    def _should_roll(self, size_bytes: int, headers: Sequence[BatchHeader]) -> bool:
        segment, config = self._active, self.config
        if not segment.size_bytes:
            return False
        timestamp_ms = max(header.max_timestamp_ms for header in headers)
        return (
            segment.size_bytes > config.segment_bytes - size_bytes
            or segment.time_waited_for_roll_ms(self._now_ms, timestamp_ms) > config.segment_ms
            or segment.is_index_full
            or headers[-1].last_offset - segment.base_offset > OFFSET_DELTA_MAX
        )

    def _roll(self) -> None:
        """Start a new segment at the log end, and flush all earlier segments."""
        self._active.become_inactive()
        self._add_segment(self.log_end_offset)
        self._flush(self.log_end_offset)

    def _segment(self, offset: int) -> LogSegment:
        return LogSegment(str(self.directory), offset, self.config, self._now_ms, self._disk)

    def _add_segment(self, base_offset: int) -> None:
        segment = self._segment(base_offset)
        segment.create()
        self._segments.append(segment)

    def _flush(self, offset: int) -> None:
        """Flush the segments that start before ``offset``.

        After a failed fsync, every later call raises the same error. Linux drops the unwritten data
        after the failure, so a later fsync could succeed although the data is missing on disk.
        """
        if self._flush_error is not None:
            raise self._flush_error
        if offset > self.recovery_point:
            try:
                for segment in self._segments[self._floor(self.recovery_point) :]:
                    if segment.base_offset < offset:
                        segment.flush()
            except OSError as error:
                self._flush_error = error
                raise
            self.recovery_point = offset

    def _lower_to(self, offset: int) -> None:
        """Lower the log start offset and the recovery point, before records are truncated.

        Their checkpoints are written. Otherwise a crash could leave a log that ends below them, and
        such a log is considered damaged.
        """
        self.log_start_offset = min(self.log_start_offset, offset)
        if offset < self.recovery_point:
            self.recovery_point = offset
            self.on_recovery_point_lowered()

    def _end_at(self, end_offset: int) -> None:
        """Update offsets, leader epochs and the producer state after a truncation."""
        self.log_end_offset = end_offset
        self.recovery_point = min(self.recovery_point, end_offset)
        self._truncate_epochs(end_offset)
        if any(batch.last_offset >= end_offset for batch in self._producers):
            with self._storage_errors("loading {}"):
                self._producers = inspect(self._segments, has_gaps=True).producers

    def _remove(self, segments: Sequence[LogSegment]) -> None:
        """Remove segments from the log. Their files are deleted after file.delete.delay.ms."""
        for segment in list(segments):
            self._segments.remove(segment)
            segment.mark_deleted()
            self._marked.append((self._now_ms + self.config.file_delete_delay_ms, segment))

    def _delete_marked(self) -> None:
        for due_ms, segment in self._marked:
            if due_ms <= self._now_ms:
                segment.delete(DELETED_SUFFIX)
        self._marked = [marked for marked in self._marked if marked[0] > self._now_ms]


def _topic_id(path: Path, disk: Disk) -> tuple[str | None, list[Repair]]:
    """Return the topic id in partition.metadata, or None and a repair if the file is corrupt.

    The next LeaderAndIsr request then provides the topic id.
    """
    try:
        return read_topic_id(path, disk), []
    except CorruptCheckpoint as error:
        return None, [Repair(RepairKind.TOPIC_ID_FORGOTTEN, 0, 0, error.message)]
