"""A log that only counts: which offsets have which leader epoch, and how many bytes they are.

Exact about what a cluster may lose, for a record is its leader epoch and its offset, and small: a
cluster has a hundred thousand of them. No file, no clock. Mirrors the decisions of kafka.log.Log.

What is not exact: records that were appended to one segment in one epoch count as equally large,
and as late as the latest of them. After a truncation the last five batches of a producer are not
looked for again in what is left, so one of which nothing is left may go on with any sequence.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from brokers.logs import leader_epoch_cache
from brokers.logs.errors import (
    OffsetOutOfRange,
    OffsetsOutOfOrder,
    RecordBatchTooLarge,
    RecordTooLarge,
    UnexpectedAppendOffset,
)
from brokers.logs.intervals import cut, fold, joined_intervals, unfold
from brokers.logs.leader_epoch_cache import EpochEntries
from brokers.logs.log_config import DEFAULT_LOG_CONFIG, LogConfig
from brokers.logs.producer_state import ProducerStates, last_sequence
from brokers.logs.replica_log import Appended, Deleted
from brokers.logs.retention import count_deletable, next_expiry_ms
from brokers.logs.validation import counted_batch_of
from cluster.records import (
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    EpochEndOffset,
    Interval,
    IntervalRecords,
    Produced,
    ProducerBatch,
    Records,
    TimestampOffset,
)

_NO_RECORDS: Final = IntervalRecords(())
_end_of: Final = attrgetter("end")


class _Segment(NamedTuple):
    """What would be one file."""

    base_offset: int
    size_bytes: int
    largest_timestamp_ms: int


class IntervalLog(msgspec.Struct, gc=False):
    """A ReplicaLog of counted batches.

    ``epochs``: where leader epochs begin, with or without records. ``kept``: what was appended,
    adjacent, one interval per epoch and segment. ``rolled``: where segments begin, but the first.
    ``segment_start_ms``: the timestamp that the last segment's age is counted from, -1 if it is
    empty. ``producers`` None: no idempotent producer was seen.
    """

    config: LogConfig = DEFAULT_LOG_CONFIG
    topic_id: str | None = None
    log_start_offset: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    epochs: EpochEntries = ()
    kept: tuple[Interval, ...] | bytes = ()
    rolled: tuple[int, ...] = ()
    segment_start_ms: int = NO_TIMESTAMP
    producers: ProducerStates | None = None

    @property
    def stored(self) -> tuple[Interval, ...]:
        """What was appended."""
        kept = self.kept
        if isinstance(kept, bytes):
            kept = self.kept = unfold(kept)
        return kept

    def fold(self) -> None:
        """Take less memory until somebody asks."""
        if self.stored:
            self.kept = fold(self.stored)

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(interval.size_bytes for interval in self.stored)

    @property
    def latest_epoch(self) -> int | None:
        """The latest leader epoch noted, with records or without; None before the first."""
        return leader_epoch_cache.latest_epoch(self.epochs)

    def assign_topic_id(self, topic_id: str) -> None:
        """Keep the id of the log's topic."""
        self.topic_id = topic_id

    def append_as_leader(self, produced: Produced, leader_epoch: int, now_ms: int) -> Appended:
        """Count a producer's batch at the next offsets, as ReplicaLog says."""
        produced = counted_batch_of(produced)
        if produced.size_bytes > self.config.max_message_bytes:
            raise RecordTooLarge(
                f"The record batch size in the append is {produced.size_bytes} bytes which exceeds "
                f"the maximum configured value of {self.config.max_message_bytes}."
            )
        self._check_fits_segment(produced.size_bytes)
        first = self.log_end_offset
        end = first + produced.record_count
        timestamp_ms = produced.max_timestamp_ms
        if timestamp_ms == NO_TIMESTAMP:
            timestamp_ms = now_ms
        if produced.producer_id != NO_PRODUCER_ID:
            batch = ProducerBatch(
                produced.producer_id,
                produced.producer_epoch,
                produced.base_sequence,
                last_sequence(produced.base_sequence, produced.record_count),
                first,
                end - 1,
                timestamp_ms,
            )
            known = None if self.producers is None else self.producers.check(batch)
            if known is not None:
                return Appended(known.first_offset, known.last_offset, is_duplicate=True)
            self._remember(batch)
        self._roll_for(produced.size_bytes, timestamp_ms)
        self._append(Interval(leader_epoch, first, end, produced.size_bytes, timestamp_ms))
        return Appended(first, end - 1)

    def append_as_follower(self, records: Records) -> None:
        """Count what the leader sent, as ReplicaLog says."""
        assert isinstance(records, IntervalRecords)
        intervals = records.intervals
        if not intervals:
            return
        if intervals[0].start != self.log_end_offset:
            raise UnexpectedAppendOffset(
                f"Unexpected offset in append. First offset {intervals[0].start} is not the next "
                f"offset {self.log_end_offset}. Log start offset = {self.log_start_offset}",
                first_offset=intervals[0].start,
                last_offset=intervals[-1].end - 1,
            )
        if any(left.end != right.start for left, right in pairwise(intervals)):
            raise OffsetsOutOfOrder(f"Out of order offsets found in append: {intervals}")
        size_bytes = sum(interval.size_bytes for interval in intervals)
        self._check_fits_segment(size_bytes)
        self._roll_for(size_bytes, max(interval.max_timestamp_ms for interval in intervals))
        for interval in intervals:
            self._append(interval)
        for batch in records.producer_batches:
            self._remember(batch)

    def grow(self, grown: Interval) -> None:
        """Count records that are known to follow, at the log's end, without an idempotent producer:
        as ``append_as_follower`` does, and quicker."""
        assert grown.start == self.log_end_offset, f"{grown} at {self.log_end_offset}"
        self._check_fits_segment(grown.size_bytes)
        self._roll_for(grown.size_bytes, grown.max_timestamp_ms)
        self._append(grown)

    def read(self, offset: int, max_bytes: int, end_offset: int | None = None) -> Records:
        """Records from ``offset`` on, as ReplicaLog says.

        Among them are the batches of idempotent producers that end there; none is cut in two.
        """
        self._check_may_read(offset)
        next_segment = bisect_right(self.rolled, offset)
        limit = min([self.log_end_offset, *self.rolled[next_segment : next_segment + 1]])
        if end_offset is not None:
            limit = min(limit, end_offset)
        if offset >= limit:
            return _NO_RECORDS
        end = self._end_of_read(offset, limit, max_bytes)
        return self._records(offset, end)

    def read_all(self, offset: int) -> IntervalRecords:
        """All records from ``offset`` on, of this segment and the next ones, else as ``read``."""
        self._check_may_read(offset)
        return self._records(offset, self.log_end_offset)

    def start_epoch(self, leader_epoch: int) -> None:
        """Note that a new leader epoch begins at the log's end."""
        self.epochs = leader_epoch_cache.assign(self.epochs, leader_epoch, self.log_end_offset)

    def end_offset_for(self, leader_epoch: int) -> EpochEndOffset:
        """The largest epoch at or below ``leader_epoch`` and its end; (-1, -1) if unknown."""
        return leader_epoch_cache.end_offset_for(self.epochs, leader_epoch, self.log_end_offset)

    def offset_for_time(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first offset of the first interval that is as late, as ReplicaLog says."""
        for interval in self._between(self.log_start_offset, self.log_end_offset):
            if interval.max_timestamp_ms >= timestamp_ms:
                return TimestampOffset(
                    interval.max_timestamp_ms, interval.start, interval.leader_epoch
                )
        return None

    def intervals(self) -> tuple[Interval, ...]:
        """All that may be read, one interval for each stretch of one leader epoch."""
        if not self.rolled and self.log_start_offset == self._base_offset:
            return self.stored
        joined: list[Interval] = []
        for interval in self._between(self.log_start_offset, self.log_end_offset):
            joined += joined_intervals(joined.pop(), interval) if joined else (interval,)
        return tuple(joined)

    def truncate_to(self, offset: int) -> int:
        """Cut records at ``offset`` and after it, as ReplicaLog says."""
        lost = max(0, self.log_end_offset - offset)
        if lost:
            self.kept = self._between(self._base_offset, offset)
            self.rolled = tuple(base for base in self.rolled if base <= offset)
            self.log_start_offset = min(self.log_start_offset, offset)
            self.log_end_offset = offset
            self.recovery_point = min(self.recovery_point, offset)
            self.segment_start_ms = min(
                (part.max_timestamp_ms for part in self._active), default=NO_TIMESTAMP
            )
            if self.producers is not None:
                self.producers.truncate_to(offset)
        self.epochs = leader_epoch_cache.truncate_from_end(self.epochs, self.log_end_offset)
        return lost

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything: an empty log that begins and ends at ``offset``."""
        self.log_start_offset = self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.epochs = ()
        self.kept = ()
        self.rolled = ()
        self.segment_start_ms = NO_TIMESTAMP
        self.producers = None

    def increment_log_start_offset(self, offset: int) -> bool:
        """Make what is before ``offset`` unreadable, as ReplicaLog says."""
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(
                f"Cannot increment the log start offset to {offset} since it is larger than the "
                f"log end offset {self.log_end_offset}"
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.recovery_point = max(self.recovery_point, offset)
        self.epochs = leader_epoch_cache.truncate_from_start(self.epochs, offset)
        return True

    def delete_old(self, now_ms: int, high_watermark: int) -> Deleted:
        """Delete whole segments, as ReplicaLog says; idle producers are forgotten, too."""
        if self.producers is not None:
            self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        segments = self._segments()
        count = count_deletable(
            segments,
            self.config,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=high_watermark,
            now_ms=now_ms,
        )
        again_ms = next_expiry_ms(segments[count:], self.config, now_ms)
        if not count:
            return Deleted(0, 0, again_ms)
        is_all = count == len(segments)
        base = self.log_end_offset if is_all else segments[count].base_offset
        self.kept = self._between(base, self.log_end_offset)
        self.rolled = tuple(rolled for rolled in self.rolled if rolled > base)
        if is_all:
            self.segment_start_ms = NO_TIMESTAMP
        self.increment_log_start_offset(base)
        return Deleted(count, sum(one.size_bytes for one in segments[:count]), again_ms)

    def flush(self) -> None:
        """Everything is on the disk."""
        self.recovery_point = self.log_end_offset

    def crash(self, kept_end: int | None = None) -> int:
        """Lose what was not flushed, and be there again; returns how many offsets were lost.

        ``kept_end``: how far the machine had written on its own account. All of it if only the
        broker's process died. Epochs without records are forgotten, as when Kafka loads a log.
        """
        kept = max(self.log_start_offset, self.recovery_point, kept_end or 0)
        lost = self.truncate_to(min(kept, self.log_end_offset))
        self.recovery_point = self.log_end_offset
        return lost

    def close(self) -> None:
        """Flush; there is no file to let go of."""
        self.flush()

    @property
    def _base_offset(self) -> int:
        """Where the first segment begins, which may be before the log's start."""
        return self.stored[0].start if self.stored else self.log_end_offset

    @property
    def _active(self) -> tuple[Interval, ...]:
        """What the last segment holds."""
        return self._between(self.rolled[-1], self.log_end_offset) if self.rolled else self.stored

    def _check_fits_segment(self, size_bytes: int) -> None:
        if size_bytes > self.config.segment_bytes:
            raise RecordBatchTooLarge(
                f"Message batch size is {size_bytes} bytes in append, which exceeds the maximum "
                f"configured segment size of {self.config.segment_bytes}."
            )

    def _roll_for(self, size_bytes: int, max_timestamp_ms: int) -> None:
        """Begin a new segment if the last one has no room or is too old; Kafka flushes it then."""
        active = self._active
        if not active:
            self.segment_start_ms = max_timestamp_ms
            return
        used = sum(interval.size_bytes for interval in active)
        age_ms = max_timestamp_ms - self.segment_start_ms
        if used + size_bytes > self.config.segment_bytes or (
            self.segment_start_ms >= 0 and age_ms > self.config.segment_ms
        ):
            self.rolled = (*self.rolled, self.log_end_offset)
            self.recovery_point = self.log_end_offset
            self.segment_start_ms = max_timestamp_ms

    def _append(self, interval: Interval) -> None:
        self.epochs = leader_epoch_cache.assign(self.epochs, interval.leader_epoch, interval.start)
        stored = self.stored
        if (self.rolled and self.rolled[-1] == interval.start) or not stored:
            self.kept = (*stored, interval)
        else:
            self.kept = (*stored[:-1], *joined_intervals(stored[-1], interval))
        self.log_end_offset = interval.end

    def _remember(self, batch: ProducerBatch) -> None:
        if self.producers is None:
            self.producers = ProducerStates()
        self.producers.update(batch)

    def _between(self, start: int, end: int) -> tuple[Interval, ...]:
        """What is stored from ``start`` to ``end`` (exclusive), cut at both."""
        first = bisect_right(self.stored, start, key=_end_of)
        found = []
        for interval in self.stored[first:]:
            if interval.start >= end:
                break
            found.append(cut(interval, max(start, interval.start), min(end, interval.end)))
        return tuple(found)

    def _check_may_read(self, offset: int) -> None:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset}, but we only have log segments in the "
                f"range {self.log_start_offset} to {self.log_end_offset}."
            )

    def _records(self, offset: int, end: int) -> IntervalRecords:
        batches = (batch for batch in self.producers or () if offset <= batch.last_offset < end)
        return IntervalRecords(
            self._between(offset, end), tuple(sorted(batches, key=attrgetter("last_offset")))
        )

    def _end_of_read(self, offset: int, limit: int, max_bytes: int) -> int:
        """Where a read ends: at ``limit``, or where ``max_bytes`` are full."""
        left_bytes = max_bytes
        end = offset
        for interval in self._between(offset, limit):
            if interval.size_bytes <= left_bytes:
                left_bytes -= interval.size_bytes
                end = interval.end
                continue
            end += max(0, left_bytes) * (interval.end - interval.start) // interval.size_bytes
            end = max(end, offset + 1)
            for batch in self.producers or ():
                if batch.first_offset < end <= batch.last_offset:
                    whole = batch.first_offset > offset
                    return batch.first_offset if whole else min(batch.last_offset + 1, limit)
            break
        return end

    def _segments(self) -> list[_Segment]:
        bounds = pairwise((self._base_offset, *self.rolled, self.log_end_offset))
        return [self._segment(base, end) for base, end in bounds]

    def _segment(self, base: int, end: int) -> _Segment:
        held = self._between(base, end)
        return _Segment(
            base,
            sum(interval.size_bytes for interval in held),
            max((interval.max_timestamp_ms for interval in held), default=NO_TIMESTAMP),
        )
