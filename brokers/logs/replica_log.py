"""The interface of a replica's log, on disk or in memory.

The protocol and the values that only a log's owner uses; cluster/records.py has the values in
messages. A log knows no broker, no other log and no clock: times and the high watermark are
arguments. Mirrors the public methods of kafka.log.Log.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from klamm.brokers.logs.log_config import LogConfig
from klamm.cluster.records import EpochEndOffset, Interval, Produced, Records, TimestampOffset


class Appended(NamedTuple):
    """Offsets of an appended batch, inclusive. ``is_duplicate``: it was in the log already."""

    first_offset: int
    last_offset: int
    is_duplicate: bool = False


class Deleted(NamedTuple):
    """Whole segments deleted by retention.

    ``again_ms``: when the next segment expires if nothing changes, since the epoch; None: never."""

    segments: int
    size_bytes: int
    again_ms: int | None = None


class ReplicaLog(Protocol):
    """A log: records at offsets from ``log_start_offset`` to ``log_end_offset`` (exclusive).

    Every method raises LogStorageError if the disk fails. ``config`` may be changed at any time.
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
        """The id of the log's topic; None if it is unknown."""
        ...

    def assign_topic_id(self, topic_id: str) -> None:
        """Store the id of the log's topic."""
        ...

    @property
    def recovery_point(self) -> int:
        """The offset up to which (exclusive) all records are certainly on disk."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        ...

    @property
    def latest_epoch(self) -> int | None:
        """The latest leader epoch, with or without records; None before the first."""
        ...

    def append_as_leader(self, produced: Produced, leader_epoch: int, now_ms: int) -> Appended:
        """Assign the next offsets and this leader epoch to a producer's batch, and append it.

        A duplicate of an idempotent producer is not appended; its earlier offsets are returned.
        Raises CorruptRecord, InvalidRecord, RecordTooLarge, RecordBatchTooLarge,
        OutOfOrderSequence, InvalidProducerEpoch.
        """
        ...

    def append_as_follower(self, records: Records) -> None:
        """Append records from the leader with their offsets and epochs; may be empty.

        Raises UnexpectedAppendOffset if they do not start at the log end, OffsetsOutOfOrder if
        they do not follow each other, CorruptRecord, RecordBatchTooLarge.
        """
        ...

    def read(self, offset: int, max_bytes: int, end_offset: int | None = None) -> Records:
        """Read records of one segment from ``offset`` to ``end_offset`` (default: the log end).

        At most ``max_bytes``, but at least one batch (an interval log: one record); none if
        ``offset`` is not before the end. A segment log starts with the batch that contains
        ``offset``, and may start before it. Raises OffsetOutOfRange if ``offset`` is before the
        log start or after the log end.
        """
        ...

    def start_epoch(self, leader_epoch: int) -> None:
        """Record that a new leader epoch starts at the log end: a new leader's first action."""
        ...

    def end_offset_for(self, leader_epoch: int) -> EpochEndOffset:
        """Return the largest epoch at or below this one, and its end; (-1, -1) if unknown."""
        ...

    def offset_for_time(self, timestamp_ms: int) -> TimestampOffset | None:
        """Return the first record with a timestamp at or after ``timestamp_ms``; None without one.

        A segment log finds the exact record. An interval log knows only the latest timestamp of
        an interval and returns the interval's first offset, which is never too late.
        """
        ...

    def intervals(self) -> tuple[Interval, ...]:
        """Return all readable records as adjacent intervals, for checkers and tests."""
        ...

    def truncate_to(self, offset: int) -> int:
        """Remove records from ``offset`` on; return the number of removed offsets.

        Epochs that start at or after the new end are removed even if no record is: a leader had
        recorded them without writing any record.
        """
        ...

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything: the log is empty and starts and ends at ``offset``."""
        ...

    def increment_log_start_offset(self, offset: int) -> bool:
        """Make records before ``offset`` unreadable; return False if they already are.

        Raises OffsetOutOfRange if ``offset`` is after the log end.
        """
        ...

    def delete_old(self, now_ms: int, high_watermark: int) -> Deleted:
        """Delete segments by age, by size, or before the log start offset.

        Only segments that end at or before ``high_watermark``. The log then starts with the first
        remaining segment, an empty one if all others were deleted.
        """
        ...

    def flush(self) -> None:
        """Write everything to disk: the recovery point is the log end."""
        ...

    def close(self) -> None:
        """Flush and close all files. No other method may be called afterwards."""
        ...
