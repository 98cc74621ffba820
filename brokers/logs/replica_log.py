"""The interface of a replica's log, on disk or in memory.

This module also contains the values that a log returns to its owner; cluster/records.py contains
the values that are sent in messages. A log does not depend on brokers, other logs or clocks: times
and the high watermark are arguments. Mirrors the public methods of kafka.log.Log.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from klamm.brokers.logs.log_config import LogConfig
from klamm.cluster.records import (
    NO_TIMESTAMP,
    EpochEndOffset,
    Interval,
    Produced,
    Records,
    TimestampOffset,
)


class Appended(NamedTuple):
    """First and last offset of an appended batch.

    ``is_duplicate`` is True if the batch was already in the log. ``log_append_time_ms`` is -1
    unless the topic's timestamps are of type LogAppendTime.
    """

    first_offset: int
    last_offset: int
    is_duplicate: bool = False
    log_append_time_ms: int = NO_TIMESTAMP


class ReplicaLog(Protocol):
    """A log: records at offsets from ``log_start_offset`` to ``log_end_offset`` (exclusive).

    Every method raises LogStorageError if the disk fails. The owner may change ``config`` at any
    time.
    """

    config: LogConfig

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        ...

    @property
    def topic_id(self) -> str | None:
        """The id of the topic that the log belongs to; None if it is unknown."""
        ...

    def assign_topic_id(self, topic_id: str) -> None:
        """Store the id of the topic that the log belongs to."""
        ...

    @property
    def recovery_point(self) -> int:
        """An offset before which all records have certainly been flushed to disk."""
        ...

    @property
    def size_bytes(self) -> int:
        """Total size of all segments in bytes."""
        ...

    @property
    def latest_epoch(self) -> int | None:
        """The latest leader epoch, even if it has no records; None before the first epoch."""
        ...

    def append_as_leader(self, produced: Produced, leader_epoch: int, now_ms: int) -> Appended:
        """Append a producer's batch at the log end, in the leader epoch ``leader_epoch``.

        A duplicate batch of an idempotent producer is not appended; the result then contains the
        offsets of the original batch. ``now_ms`` is in milliseconds since the Unix epoch. Raises
        CorruptRecord, InvalidRecord, InvalidTimestamp, RecordTooLarge, RecordBatchTooLarge,
        OutOfOrderSequence, InvalidProducerEpoch.
        """
        ...

    def append_as_follower(self, records: Records) -> None:
        """Append records fetched from the leader, with their offsets and leader epochs.

        ``records`` may be empty. Raises UnexpectedAppendOffset if the records do not start at the
        log end, OffsetsOutOfOrder if their offsets are not contiguous, CorruptRecord, or
        RecordBatchTooLarge.
        """
        ...

    def read(self, offset: int, max_bytes: int, end_offset: int | None = None) -> Records:
        """Read records of one segment from ``offset`` to ``end_offset`` (default: the log end).

        The result has at most ``max_bytes``, but at least one batch (in an interval log, one
        record). The result is empty if ``offset`` is at or after ``end_offset``. A segment log
        returns whole batches, so the result may start before ``offset``. Raises OffsetOutOfRange
        if ``offset`` is before the log start or after the log end.
        """
        ...

    def size_between(self, offset: int, end_offset: int) -> int | None:
        """Return the size of the records from ``offset`` to ``end_offset``, without reading them.

        Return None if they are not all in one segment. A segment log counts whole batches. Raises
        OffsetOutOfRange like ``read``, and CorruptRecord for a corrupt header.
        """
        ...

    def start_epoch(self, leader_epoch: int) -> None:
        """Record that a new leader epoch starts at the log end.

        A new leader calls this method before it appends.
        """
        ...

    def end_offset_for(self, leader_epoch: int) -> EpochEndOffset:
        """Return the largest epoch up to ``leader_epoch``, and its end offset.

        Return (-1, -1) if ``leader_epoch`` is -1 or larger than the latest epoch of the log.
        """
        ...

    def offset_for_time(self, timestamp_ms: int) -> TimestampOffset | None:
        """Return the first record with a timestamp of at least ``timestamp_ms``, or None.

        A segment log finds the exact record. An interval log knows only the latest timestamp of
        each interval, and returns the start of the first interval that may contain the record.
        """
        ...

    def intervals(self) -> tuple[Interval, ...]:
        """Return all readable records as intervals, one for each leader epoch.

        Only checkers and tests use this method.
        """
        ...

    def truncate_to(self, offset: int) -> int:
        """Remove records from ``offset`` onward; return the number of removed records.

        Leader epochs that start at the new log end or later are also removed. Such an epoch may
        exist even if no record is removed, because a leader may have appended no record in it.
        """
        ...

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records. The empty log then starts and ends at ``offset``."""
        ...

    def increment_log_start_offset(self, offset: int) -> bool:
        """Make records before ``offset`` unreadable; return False if they are already unreadable.

        Raises OffsetOutOfRange if ``offset`` is after the log end.
        """
        ...

    def delete_old(self, now_ms: int, high_watermark: int) -> int | None:
        """Delete segments because of their age or size, or because the log starts after them.

        Segments that extend beyond ``high_watermark`` are kept. If all segments are deleted, a new,
        empty segment is created. The log then starts in the first remaining segment. ``now_ms`` is
        in milliseconds since the Unix epoch.

        Return when to call this again if the log does not change; None if no segment will expire.
        """
        ...

    def flush(self) -> None:
        """Write all records to disk (fsync). The recovery point is then the log end."""
        ...

    def close(self) -> None:
        """Flush and close all files. No other method may be called afterwards."""
        ...
