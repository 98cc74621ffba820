"""What every log of a replica can do, whether it has files or only counts.

The protocol and the values that only a log's owner sees; what travels is in cluster/records.py.
A log knows no broker, no other log, no high watermark but one handed in, and no clock: times are
handed in. Mirrors the face of kafka.log.Log.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from klamm.brokers.logs.log_config import LogConfig
from klamm.cluster.records import EpochEndOffset, Interval, Produced, Records, TimestampOffset


class Appended(NamedTuple):
    """Where a batch is, both ends inclusive. ``is_duplicate``: it had been there before."""

    first_offset: int
    last_offset: int
    is_duplicate: bool = False


class Deleted(NamedTuple):
    """What retention took away: whole segments. ``again_ms``: when there will be something to do
    again if nothing changes, since the epoch; None: never."""

    segments: int
    size_bytes: int
    again_ms: int | None = None


class ReplicaLog(Protocol):
    """A log: records at offsets from ``log_start_offset`` to ``log_end_offset`` (exclusive).

    Every method raises LogStorageError if the disk refuses. ``config`` may be changed at any time.
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
        """The id of the topic that the log is of; None if it was not told."""
        ...

    def assign_topic_id(self, topic_id: str) -> None:
        """Keep the id of the log's topic."""
        ...

    @property
    def recovery_point(self) -> int:
        """The end (exclusive) of what certainly is on the disk."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        ...

    @property
    def latest_epoch(self) -> int | None:
        """The latest leader epoch noted, with records or without; None before the first."""
        ...

    def append_as_leader(self, produced: Produced, leader_epoch: int, now_ms: int) -> Appended:
        """Give a producer's batch the next offsets and this leader epoch, and append it.

        A batch that an idempotent producer sends again is not appended: the answer is where it was.
        Raises CorruptRecord, InvalidRecord, RecordTooLarge, RecordBatchTooLarge,
        OutOfOrderSequence, InvalidProducerEpoch.
        """
        ...

    def append_as_follower(self, records: Records) -> None:
        """Append what the leader sent, offsets, epochs and all; no records: nothing.

        Raises UnexpectedAppendOffset if they do not begin at the log's end, OffsetsOutOfOrder if
        they do not follow each other, CorruptRecord, RecordBatchTooLarge.
        """
        ...

    def read(self, offset: int, max_bytes: int, end_offset: int | None = None) -> Records:
        """Records from ``offset`` on and before ``end_offset`` (the log's end), of one segment.

        At most ``max_bytes``, but at least one batch (an interval log: one record); none if
        ``offset`` is not before the end. A segment log begins with the batch that holds
        ``offset``, which may begin before it. Raises OffsetOutOfRange if ``offset`` is before the
        log's start or after its end.
        """
        ...

    def start_epoch(self, leader_epoch: int) -> None:
        """Note that a new leader epoch begins at the log's end: what a new leader does first."""
        ...

    def end_offset_for(self, leader_epoch: int) -> EpochEndOffset:
        """The largest epoch at or below ``leader_epoch`` and its end; (-1, -1) if unknown."""
        ...

    def offset_for_time(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record whose timestamp is ``timestamp_ms`` or later; None if there is none.

        A segment log finds that very record. An interval log knows only the latest timestamp of
        an interval: it answers with the interval's first offset, which is never too late.
        """
        ...

    def intervals(self) -> tuple[Interval, ...]:
        """All that may be read, as adjacent intervals: for checkers and tests, which walk a log."""
        ...

    def truncate_to(self, offset: int) -> int:
        """Cut records at ``offset`` and after it; returns how many offsets were cut.

        Epochs that begin at the new end, or would begin after it, are forgotten even if nothing
        was cut: a leader had noted them and then written nothing.
        """
        ...

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything: an empty log that begins and ends at ``offset``."""
        ...

    def increment_log_start_offset(self, offset: int) -> bool:
        """Make what is before ``offset`` unreadable; False if the log begins there or later.

        Raises OffsetOutOfRange if ``offset`` is after the log's end.
        """
        ...

    def delete_old(self, now_ms: int, high_watermark: int) -> Deleted:
        """Delete segments that are too old, too much, or before the log's start.

        Only segments that end at or before ``high_watermark``; the log then begins with the first
        segment that is left, an empty one if all others went.
        """
        ...

    def flush(self) -> None:
        """Bring everything to the disk: the recovery point is the log's end."""
        ...

    def close(self) -> None:
        """Flush and let go of every file. Nothing else may be called afterwards."""
        ...
