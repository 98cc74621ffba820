"""An in-memory (offset-only) log: stores offset intervals with epochs and sizes, but no records.

A record is identified by its leader epoch and offset, so the log shows exactly which records a
cluster loses. It needs little memory, so that a cluster can have 100,000 logs. It uses no files and
no clock. Mirrors the decisions of kafka.log.Log.

Three things are approximate:

- All records of a batch are treated as equally large.
- If records of the same size are appended to the same segment in the same epoch, all of them get
  the latest of their timestamps.
- After a truncation, the last five batches of a producer are not reconstructed from the remaining
  records. If no batch of a producer is known, its next batch may have any sequence number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from klamm.brokers.logs import leader_epoch_cache
from klamm.brokers.logs.errors import (
    OffsetOutOfRange,
    OffsetsOutOfOrder,
    RecordBatchTooLarge,
    RecordTooLarge,
    UnexpectedAppendOffset,
)
from klamm.brokers.logs.intervals import (
    NOTHING_HELD,
    Held,
    can_be_joined,
    fitting_end,
    join_adjacent,
    pack,
    per_epoch,
    unpack,
)
from klamm.brokers.logs.leader_epoch_cache import EpochEntries
from klamm.brokers.logs.log_config import DEFAULT_LOG_CONFIG, LogConfig
from klamm.brokers.logs.producer_state import ProducerStates
from klamm.brokers.logs.replica_log import Appended
from klamm.brokers.logs.retention import count_deletable, next_expiry_ms
from klamm.brokers.logs.validation import check_timestamp, counted_batch_of
from klamm.cluster.records import (
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    EpochEndOffset,
    Interval,
    IntervalRecords,
    Produced,
    ProducerBatch,
    Records,
    TimestampOffset,
    increment_sequence,
)

_NO_RECORDS: Final = IntervalRecords(())


class _Segment(NamedTuple):
    """A segment of the in-memory log, which corresponds to one ``.log`` file of a log on disk."""

    base_offset: int
    size_bytes: int
    largest_timestamp_ms: int


class IntervalLog(msgspec.Struct, gc=False):
    """A ReplicaLog that stores offset intervals instead of records.

    - ``epochs``: leader epochs and their start offsets, including epochs without records.
    - ``kept``: the offset intervals; while the log is idle, they are packed into bytes.
    - ``producers``: state of idempotent producers; None if no such producer has used the log.
    """

    config: LogConfig = DEFAULT_LOG_CONFIG
    topic_id: str | None = None
    log_start_offset: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    epochs: EpochEntries = ()
    kept: Held | bytes = NOTHING_HELD
    producers: ProducerStates | None = None

    @property
    def held(self) -> Held:
        """The offset intervals of the log, for reading only. A packed log remains packed."""
        kept = self.kept
        return unpack(kept) if isinstance(kept, bytes) else kept

    def _unpacked(self) -> Held:
        """Unpack the log, and return its offset intervals for the caller to change."""
        self.kept = held = self.held
        return held

    def pack(self) -> None:
        """Pack the intervals into bytes, to save memory until the next change."""
        if isinstance(self.kept, Held):
            self.kept = pack(self.kept)

    @property
    def size_bytes(self) -> int:
        """Total size of all segments in bytes."""
        return sum(interval.size_bytes for interval in self.held.intervals)

    @property
    def latest_epoch(self) -> int | None:
        """The latest leader epoch, even if it has no records; None before the first epoch."""
        return leader_epoch_cache.latest_epoch(self.epochs)

    def assign_topic_id(self, topic_id: str) -> None:
        """Store the id of the topic that the log belongs to."""
        self.topic_id = topic_id

    def append_as_leader(self, produced: Produced, leader_epoch: int, now_ms: int) -> Appended:
        """Append a producer's batch, given by its record count and size (see ReplicaLog)."""
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
        if timestamp_ms == NO_TIMESTAMP or self.config.is_log_append_time:
            timestamp_ms = now_ms
        check_timestamp(timestamp_ms, self.config, now_ms)
        if produced.producer_id != NO_PRODUCER_ID:
            batch = ProducerBatch(
                produced.producer_id,
                produced.producer_epoch,
                produced.base_sequence,
                increment_sequence(produced.base_sequence, produced.record_count - 1),
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
        """Append intervals fetched from the leader (see ReplicaLog)."""
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
        self._roll_for(size_bytes, max(one.max_timestamp_ms for one in intervals))
        for interval in intervals:
            self._append(interval)
        for batch in records.producer_batches:
            self._remember(batch)

    def append_analytically(
        self, leader_epoch: int, end: int, record_size_bytes: int, timestamp_ms: int
    ) -> None:
        """Append constant-rate records, which have no producer id, from the log end to ``end``.

        Has the same effect as ``append_as_follower``, but is faster.
        """
        kept, start = self.kept, self.log_end_offset
        size_bytes = (end - start) * record_size_bytes
        if (
            not isinstance(kept, Held)
            or not self._may_extend_last(kept, leader_epoch, record_size_bytes)
            or self._must_roll(kept, size_bytes, timestamp_ms)
        ):
            self._check_fits_segment(size_bytes)
            self._roll_for(size_bytes, timestamp_ms)
            self._append(Interval(leader_epoch, start, end, size_bytes, timestamp_ms))
            return
        # Nearly all appends extend the last interval.
        last = kept.intervals[-1]
        kept.intervals[-1] = Interval(
            leader_epoch,
            last.start,
            end,
            last.size_bytes + size_bytes,
            max(last.max_timestamp_ms, timestamp_ms),
        )
        kept.active_bytes += size_bytes
        self.log_end_offset = end
        if end - self.recovery_point >= self.config.flush_messages:
            self.flush()

    def _may_extend_last(self, held: Held, leader_epoch: int, record_size_bytes: int) -> bool:
        """Return True if records of this epoch and size may be added to the last interval.

        They may not if the last segment is empty, because an interval belongs to one segment.
        """
        epochs, intervals, rolled = self.epochs, held.intervals, held.rolled
        if not intervals or not epochs or epochs[-1].epoch != leader_epoch:
            return False
        if rolled and rolled[-1] == self.log_end_offset:
            return False
        last = intervals[-1]
        has_size = last.size_bytes == record_size_bytes * (last.end - last.start)
        return has_size and last.leader_epoch == leader_epoch

    def read(self, offset: int, max_bytes: int, end_offset: int | None = None) -> Records:
        """Read intervals from ``offset`` onward (see ReplicaLog).

        The result also lists the batches of idempotent producers whose last record is in these
        intervals. A read never splits such a batch.
        """
        self._check_may_read(offset)
        held = self.held
        next_segment = bisect_right(held.rolled, offset)
        limit = min([self.log_end_offset, *held.rolled[next_segment : next_segment + 1]])
        if end_offset is not None:
            limit = min(limit, end_offset)
        if offset >= limit:
            return _NO_RECORDS
        found = held.between(offset, limit)
        end = self._end_of_read(found, offset, limit, max_bytes)
        return self._records(found if end == limit else held.between(offset, end), offset, end)

    def size_between(self, offset: int, end_offset: int) -> int | None:
        """Return the size of the records between two offsets (see ReplicaLog)."""
        self._check_may_read(offset)
        held = self.held
        if offset >= end_offset:
            return 0
        rolled = held.rolled
        if rolled and bisect_right(rolled, offset) != bisect_left(rolled, end_offset):
            return None
        return sum(interval.size_bytes for interval in held.between(offset, end_offset))

    def read_all(self, offset: int) -> IntervalRecords:
        """Read all intervals from ``offset`` to the log end, across segments."""
        self._check_may_read(offset)
        end = self.log_end_offset
        return self._records(self.held.between(offset, end), offset, end)

    def start_epoch(self, leader_epoch: int) -> None:
        """Record that a new leader epoch starts at the log end."""
        self.epochs = leader_epoch_cache.assign(self.epochs, leader_epoch, self.log_end_offset)

    def end_offset_for(self, leader_epoch: int) -> EpochEndOffset:
        """Return the largest epoch up to ``leader_epoch`` and its end offset (see ReplicaLog)."""
        return leader_epoch_cache.end_offset_for(self.epochs, leader_epoch, self.log_end_offset)

    def offset_for_time(self, timestamp_ms: int) -> TimestampOffset | None:
        """Return the start of the first interval with a timestamp of at least ``timestamp_ms``.

        See ReplicaLog.
        """
        for interval in self.held.between(self.log_start_offset, self.log_end_offset):
            if interval.max_timestamp_ms >= timestamp_ms:
                return TimestampOffset(
                    interval.max_timestamp_ms, interval.start, interval.leader_epoch
                )
        return None

    def intervals(self) -> tuple[Interval, ...]:
        """Return all readable records as intervals, one for each leader epoch (see ReplicaLog)."""
        return per_epoch(self.held.between(self.log_start_offset, self.log_end_offset))

    def truncate_to(self, offset: int) -> int:
        """Truncate the log to ``offset`` (see ReplicaLog)."""
        lost = max(0, self.log_end_offset - offset)
        if lost:
            held = self.held
            self.kept = held.truncated(min(self._base_offset(held), offset), offset)
            self.log_start_offset = min(self.log_start_offset, offset)
            self.log_end_offset = offset
            self.recovery_point = min(self.recovery_point, offset)
            if self.producers is not None:
                self.producers.truncate_to(offset)
        self.epochs = leader_epoch_cache.truncate_from_end(self.epochs, self.log_end_offset)
        return lost

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records. The empty log then starts and ends at ``offset``."""
        self.log_start_offset = self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.epochs = ()
        self.kept = NOTHING_HELD
        self.producers = None

    def increment_log_start_offset(self, offset: int) -> bool:
        """Make records before ``offset`` unreadable (see ReplicaLog)."""
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

    def delete_old(self, now_ms: int, high_watermark: int) -> int | None:
        """Delete old segments (see ReplicaLog) and the state of idle producers."""
        if self.producers is not None:
            self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        held = self.held
        segments = self._segments(held)
        count = count_deletable(
            segments,
            self.config,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=high_watermark,
            now_ms=now_ms,
        )
        again_ms = next_expiry_ms(segments[count:], self.config, now_ms)
        if count:
            is_all = count == len(segments)
            base = self.log_end_offset if is_all else segments[count].base_offset
            self.kept = Held(
                list(held.between(base, self.log_end_offset)),
                [rolled for rolled in held.rolled if rolled > base],
                NO_TIMESTAMP if is_all else held.segment_start_ms,
                0 if is_all else held.active_bytes,
            )
            self.increment_log_start_offset(base)
        return again_ms

    def flush(self) -> None:
        """Advance the recovery point to the log end, so that all records count as flushed."""
        self.recovery_point = self.log_end_offset

    def crash(self, kept_end: int | None = None) -> int:
        """Simulate a crash that loses unflushed records; return the number of lost records.

        Records before the offset ``kept_end`` are not lost, even if they were not flushed, because
        the operating system had written them to disk. If only the broker process dies, pass the log
        end. Epochs without records are removed, as when Kafka loads a log.
        """
        kept = max(self.log_start_offset, self.recovery_point, kept_end or 0)
        lost = self.truncate_to(min(kept, self.log_end_offset))
        self.recovery_point = self.log_end_offset
        return lost

    def close(self) -> None:
        """Flush the log. There are no files to close."""
        self.flush()

    def _base_offset(self, held: Held) -> int:
        """Return the base offset of the first segment; it may be before the log start offset."""
        return held.intervals[0].start if held.intervals else self.log_end_offset

    def _check_fits_segment(self, size_bytes: int) -> None:
        if size_bytes > self.config.segment_bytes:
            raise RecordBatchTooLarge(
                f"Message batch size is {size_bytes} bytes in append, which exceeds the maximum "
                f"configured segment size of {self.config.segment_bytes}."
            )

    def _roll_for(self, size_bytes: int, max_timestamp_ms: int) -> None:
        """Start a new segment if the next batch does not fit, or if the last segment is too old.

        As in Kafka, all earlier records are flushed when a segment is started.
        """
        held, end = self._unpacked(), self.log_end_offset
        if not held.intervals or held.rolled[-1:] == [end]:
            held.segment_start_ms = max_timestamp_ms
            return
        if self._must_roll(held, size_bytes, max_timestamp_ms):
            self.recovery_point = end
            held.rolled.append(end)
            held.segment_start_ms, held.active_bytes = max_timestamp_ms, 0

    def _must_roll(self, held: Held, size_bytes: int, max_timestamp_ms: int) -> bool:
        config, start_ms = self.config, held.segment_start_ms
        is_full = held.active_bytes + size_bytes > config.segment_bytes
        return is_full or (start_ms >= 0 and max_timestamp_ms - start_ms > config.segment_ms)

    def _append(self, interval: Interval) -> None:
        self.epochs = leader_epoch_cache.assign(self.epochs, interval.leader_epoch, interval.start)
        held = self._unpacked()
        before = held.intervals
        is_first = not before or held.rolled[-1:] == [interval.start]
        if is_first or not can_be_joined(before[-1], interval):
            before.append(interval)
        else:
            before[-1] = join_adjacent(before[-1], interval)
        held.active_bytes += interval.size_bytes
        self.log_end_offset = interval.end
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()

    def _remember(self, batch: ProducerBatch) -> None:
        if self.producers is None:
            self.producers = ProducerStates()
        self.producers.update(batch)

    def _check_may_read(self, offset: int) -> None:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset}, but we only have log segments in the "
                f"range {self.log_start_offset} to {self.log_end_offset}."
            )

    def _records(self, intervals: tuple[Interval, ...], offset: int, end: int) -> IntervalRecords:
        if self.producers is None:
            return IntervalRecords(intervals)
        batches = (batch for batch in self.producers if offset <= batch.last_offset < end)
        return IntervalRecords(intervals, tuple(sorted(batches, key=attrgetter("last_offset"))))

    def _end_of_read(
        self, found: tuple[Interval, ...], offset: int, limit: int, max_bytes: int
    ) -> int:
        """Return the end offset of a read: ``limit``, or a smaller offset due to ``max_bytes``."""
        end = fitting_end(found, offset, max_bytes)
        if end == limit:
            return end
        end = max(end, offset + 1)
        for batch in self.producers or ():
            if batch.first_offset < end <= batch.last_offset:
                whole = batch.first_offset > offset
                return batch.first_offset if whole else min(batch.last_offset + 1, limit)
        return end

    def _segments(self, held: Held) -> list[_Segment]:
        bounds = pairwise((self._base_offset(held), *held.rolled, self.log_end_offset))
        return [_segment(held, base, end) for base, end in bounds]


def _segment(held: Held, base: int, end: int) -> _Segment:
    parts = held.between(base, end)
    return _Segment(
        base,
        sum(interval.size_bytes for interval in parts),
        max((interval.max_timestamp_ms for interval in parts), default=NO_TIMESTAMP),
    )
