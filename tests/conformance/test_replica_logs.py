"""What every kind of replica log must do, as kafka.log.Log does it."""

from __future__ import annotations

import pytest

from klamm.brokers.logs.errors import (
    OffsetOutOfRange,
    OffsetsOutOfOrder,
    RecordBatchTooLarge,
    RecordTooLarge,
    UnexpectedAppendOffset,
)
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.replica_log import Appended, ReplicaLog
from klamm.cluster.records import EpochEndOffset, IntervalRecords, Records
from tests.conformance.replica_logs import (
    NOW_MS,
    LogFactory,
    deleted_bytes,
    epochs_of,
    lead,
    replicate,
    size_of,
    small_segments,
)

MIB = 1 << 20
UNKNOWN = EpochEndOffset(-1, -1)


def is_empty(records: Records) -> bool:
    return not (records.intervals if isinstance(records, IntervalRecords) else records)


def bytes_of(records: Records) -> int:
    if isinstance(records, bytes):
        return len(records)
    return sum(interval.size_bytes for interval in records.intervals)


def joined(parts: list[Records]) -> Records:
    """One set of records from several."""
    whole = b""
    intervals: tuple = ()
    for part in parts:
        if isinstance(part, bytes):
            whole += part
        else:
            intervals += part.intervals
    return whole or IntervalRecords(intervals)


# Appending and reading


def test_a_new_log_is_empty(log: ReplicaLog) -> None:
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (0, 0, 0)
    assert (log.latest_epoch, log.recovery_point) == (None, 0)
    assert log.end_offset_for(0) == UNKNOWN
    assert is_empty(log.read(0, MIB))
    assert log.offset_for_time(0) is None
    assert log.intervals() == ()


def test_a_leader_gives_offsets_and_its_epoch(log_factory: LogFactory, log: ReplicaLog) -> None:
    assert log.append_as_leader(log_factory.batch(3), 0, NOW_MS) == Appended(0, 2)
    assert log.append_as_leader(log_factory.batch(1), 0, NOW_MS) == Appended(3, 3)
    assert log.append_as_leader(log_factory.batch(2), 4, NOW_MS) == Appended(4, 5)
    assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (0, 6, 4)
    assert epochs_of(log) == [(0, 0, 4), (4, 4, 6)]
    assert log.size_bytes == sum(size_of(log_factory.batch(count)) for count in (3, 1, 2))


def test_a_follower_becomes_the_same(log_factory: LogFactory, log: ReplicaLog) -> None:
    lead(log_factory, log, (0, 3), (0, 7), (2, 1), (5, 4), (5, 4))
    follower = log_factory.create()
    replicate(log, follower)
    assert follower.intervals() == log.intervals()
    assert follower.size_bytes == log.size_bytes
    assert [follower.end_offset_for(epoch) for epoch in range(-1, 7)] == [
        log.end_offset_for(epoch) for epoch in range(-1, 7)
    ]


def test_small_reads_come_to_the_same(log_factory: LogFactory, log: ReplicaLog) -> None:
    lead(log_factory, log, *((number // 3, 1) for number in range(12)))
    follower = log_factory.create()
    one = size_of(log_factory.batch(1))
    assert replicate(log, follower, max_bytes=2 * one) == 6
    assert (epochs_of(follower), follower.size_bytes) == (epochs_of(log), log.size_bytes)


def test_a_read_has_one_batch_at_least(log_factory: LogFactory, log: ReplicaLog) -> None:
    lead(log_factory, log, (0, 1), (0, 1), (1, 1))
    follower = log_factory.create()
    assert replicate(log, follower, max_bytes=0) == 3
    assert epochs_of(follower) == epochs_of(log)


def test_a_read_ends_at_its_limit(log_factory: LogFactory, log: ReplicaLog) -> None:
    lead(log_factory, log, (0, 4), (1, 4), (1, 4))
    follower = log_factory.create()
    follower.append_as_follower(log.read(0, MIB, 8))
    assert epochs_of(follower) == [(0, 0, 4), (1, 4, 8)]
    assert is_empty(log.read(8, MIB, 8))
    assert is_empty(log.read(12, MIB, 8))


def test_sizes_are_those_of_what_a_read_returns(log_factory: LogFactory) -> None:
    log = log_factory.create(small_segments(log_factory, batches=2))
    lead(log_factory, log, *[(0, 10)] * 3)
    for offset, end in ((0, 0), (0, 10), (0, 20), (10, 20), (20, 30), (30, 30), (30, 20)):
        assert log.size_between(offset, end) == bytes_of(log.read(offset, MIB, end))
    for end in (21, 30):
        assert log.size_between(0, end) is None, "they are in two segments"
    with pytest.raises(OffsetOutOfRange, match=r"offset 31\b.* range 0 to 30"):
        log.size_between(31, 31)


def test_a_read_outside_of_the_log_is_refused(log_factory: LogFactory, log: ReplicaLog) -> None:
    lead(log_factory, log, (0, 4), (0, 4))
    assert is_empty(log.read(8, MIB))
    with pytest.raises(OffsetOutOfRange, match=r"offset 9\b.* range 0 to 8"):
        log.read(9, MIB)
    log.increment_log_start_offset(4)
    with pytest.raises(OffsetOutOfRange, match=r"offset 3\b.* range 4 to 8"):
        log.read(3, MIB)


def test_a_read_stays_in_one_segment(log_factory: LogFactory) -> None:
    log = log_factory.create(small_segments(log_factory, batches=2))
    lead(log_factory, log, *[(0, 10)] * 5)
    follower = log_factory.create()
    follower.append_as_follower(log.read(0, MIB))
    assert follower.log_end_offset == 20
    assert replicate(log, follower) == 2
    assert epochs_of(follower) == [(0, 0, 50)]


def test_a_roll_brings_what_was_before_to_the_disk(log_factory: LogFactory) -> None:
    log = log_factory.create(small_segments(log_factory, batches=2))
    lead(log_factory, log, *[(0, 10)] * 2)
    assert log.recovery_point == 0
    lead(log_factory, log, (0, 10))
    assert log.recovery_point == 20


def test_records_that_do_not_begin_at_the_end_are_refused(
    log_factory: LogFactory, log: ReplicaLog
) -> None:
    lead(log_factory, log, (0, 4), (0, 4), (0, 4))
    follower = log_factory.create()
    with pytest.raises(UnexpectedAppendOffset) as ahead:
        follower.append_as_follower(log.read(4, MIB))
    assert (ahead.value.first_offset, ahead.value.last_offset) == (4, 11)
    replicate(log, follower)
    with pytest.raises(UnexpectedAppendOffset) as behind:
        follower.append_as_follower(log.read(8, MIB))
    assert (behind.value.first_offset, behind.value.last_offset) == (8, 11)
    assert epochs_of(follower) == [(0, 0, 12)]


def test_records_that_do_not_follow_each_other_are_refused(
    log_factory: LogFactory, log: ReplicaLog
) -> None:
    lead(log_factory, log, (0, 4), (0, 4), (0, 4))
    follower = log_factory.create()
    with pytest.raises(OffsetsOutOfOrder):
        follower.append_as_follower(joined([log.read(0, MIB, 4), log.read(8, MIB)]))
    assert follower.log_end_offset == 0


def test_a_batch_that_is_too_large_is_refused(log_factory: LogFactory) -> None:
    batch = log_factory.batch(10)
    limit = size_of(batch) - 1
    log = log_factory.create(LogConfig(max_message_bytes=limit))
    with pytest.raises(RecordTooLarge, match=rf"is {limit + 1} bytes .* {limit}\."):
        log.append_as_leader(batch, 0, NOW_MS)
    with pytest.raises(
        RecordBatchTooLarge, match=f"is {limit + 1} bytes .* segment size of {limit}"
    ):
        log_factory.create(LogConfig(segment_bytes=limit)).append_as_leader(batch, 0, NOW_MS)
    assert log.log_end_offset == 0


# Leader epochs


def test_an_epoch_begins_at_the_end_without_records(
    log_factory: LogFactory, log: ReplicaLog
) -> None:
    log.start_epoch(1)
    lead(log_factory, log, (1, 5))
    log.start_epoch(4)
    assert log.latest_epoch == 4
    assert log.end_offset_for(4) == EpochEndOffset(4, 5)
    assert log.end_offset_for(3) == log.end_offset_for(1) == EpochEndOffset(1, 5)
    assert log.end_offset_for(0) == EpochEndOffset(0, 0)
    assert log.end_offset_for(5) == UNKNOWN
    lead(log_factory, log, (4, 2))
    assert log.end_offset_for(4) == EpochEndOffset(4, 7)


def test_an_epoch_that_wrote_nothing_is_forgotten(log_factory: LogFactory, log: ReplicaLog) -> None:
    lead(log_factory, log, (1, 5))
    log.start_epoch(2)
    log.start_epoch(3)
    assert log.end_offset_for(2) == EpochEndOffset(1, 5)
    assert log.truncate_to(5) == 0
    assert log.latest_epoch == 1
    assert log.end_offset_for(2) == UNKNOWN


# Truncation


def test_a_truncation_takes_records_and_epochs(log_factory: LogFactory, log: ReplicaLog) -> None:
    lead(log_factory, log, (0, 4), (1, 4), (2, 4))
    log.flush()
    assert log.truncate_to(20) == 0
    assert log.truncate_to(4) == 8
    assert (log.log_end_offset, log.recovery_point, log.latest_epoch) == (4, 4, 0)
    assert log.size_bytes == size_of(log_factory.batch(4))
    assert log.append_as_leader(log_factory.batch(2), 3, NOW_MS) == Appended(4, 5)
    assert epochs_of(log) == [(0, 0, 4), (3, 4, 6)]
    assert log.end_offset_for(2) == EpochEndOffset(0, 4)


def test_a_truncation_goes_back_over_segments(log_factory: LogFactory) -> None:
    log = log_factory.create(small_segments(log_factory, batches=2))
    lead(log_factory, log, *((number, 10) for number in range(7)))
    assert log.truncate_to(30) == 40
    assert epochs_of(log) == [(0, 0, 10), (1, 10, 20), (2, 20, 30)]
    assert log.recovery_point == 30
    lead(log_factory, log, (8, 10), (8, 10))
    assert epochs_of(log)[-1] == (8, 30, 50)
    assert log.recovery_point == 40
    assert log.truncate_to(0) == 50
    assert (log.log_end_offset, log.size_bytes, log.latest_epoch) == (0, 0, None)


def test_a_truncation_before_the_start_moves_it(log_factory: LogFactory, log: ReplicaLog) -> None:
    lead(log_factory, log, (0, 4), (1, 4), (2, 4))
    log.increment_log_start_offset(8)
    assert log.truncate_to(4) == 8
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)


def test_a_log_that_is_truncated_fully_begins_at_the_given_offset(
    log_factory: LogFactory, log: ReplicaLog
) -> None:
    lead(log_factory, log, (0, 4), (1, 4))
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (100, 100, 0)
    assert log.latest_epoch is None
    assert is_empty(log.read(100, MIB))
    with pytest.raises(OffsetOutOfRange):
        log.read(99, MIB)
    assert log.append_as_leader(log_factory.batch(2), 3, NOW_MS) == Appended(100, 101)
    assert log.truncate_to(50) == 52
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)


@pytest.mark.parametrize("offset", [4, 100])
def test_a_log_that_begins_anew_has_flushed_what_it_had(
    log_factory: LogFactory, log: ReplicaLog, offset: int
) -> None:
    lead(log_factory, log, (0, 4), (1, 4))
    log.flush()
    log.truncate_fully_and_start_at(offset)
    assert log.recovery_point == min(8, offset)


# The log's start and retention


def test_the_log_start_offset_only_rises(log_factory: LogFactory, log: ReplicaLog) -> None:
    lead(log_factory, log, (0, 4), (1, 4), (2, 4))
    assert log.increment_log_start_offset(6)
    assert not log.increment_log_start_offset(6)
    assert not log.increment_log_start_offset(2)
    assert log.log_start_offset == 6
    assert log.end_offset_for(0) == EpochEndOffset(0, 6)
    assert log.end_offset_for(1) == EpochEndOffset(1, 8)
    with pytest.raises(OffsetOutOfRange, match="start offset to 13"):
        log.increment_log_start_offset(13)
    assert log.increment_log_start_offset(12)
    assert (log.log_end_offset, log.latest_epoch) == (12, 2)
    assert log.intervals() == ()


def test_too_much_is_deleted_in_whole_segments(log_factory: LogFactory) -> None:
    ten = size_of(log_factory.batch(10))
    config = small_segments(log_factory, batches=2, retention_bytes=5 * ten)
    log = log_factory.create(config)
    lead(log_factory, log, *((number, 10) for number in range(9)))
    assert deleted_bytes(log, NOW_MS, 90) == 4 * ten
    assert (log.log_start_offset, log.size_bytes) == (40, 5 * ten)
    assert log.end_offset_for(3) == EpochEndOffset(3, 40)
    assert deleted_bytes(log, NOW_MS, 90) == 0
    with pytest.raises(OffsetOutOfRange):
        log.read(39, MIB)


def test_no_size_is_too_much_where_the_limit_is_negative(log_factory: LogFactory) -> None:
    log = log_factory.create(small_segments(log_factory, batches=1, retention_bytes=-5))
    lead(log_factory, log, *[(0, 10)] * 4)
    assert deleted_bytes(log, NOW_MS, 40) == 0


def test_too_old_is_deleted_in_whole_segments(log_factory: LogFactory) -> None:
    log = log_factory.create(small_segments(log_factory, batches=2, retention_ms=1000))
    for number in range(5):
        log.append_as_leader(log_factory.batch(10, timestamp_ms=NOW_MS + number), 0, NOW_MS)
    assert deleted_bytes(log, NOW_MS + 1001, 50) == 0
    assert deleted_bytes(log, NOW_MS + 1002, 50) == 2 * size_of(log_factory.batch(10))
    assert (log.log_start_offset, log.log_end_offset) == (20, 50)


def test_nothing_above_the_high_watermark_is_deleted(log_factory: LogFactory) -> None:
    log = log_factory.create(small_segments(log_factory, batches=1, retention_ms=1000))
    lead(log_factory, log, *[(0, 10)] * 4)
    assert deleted_bytes(log, NOW_MS + 9999, 29) == 2 * size_of(log_factory.batch(10))
    assert log.log_start_offset == 20


def test_a_log_that_is_all_too_old_is_empty_at_its_end(log_factory: LogFactory) -> None:
    log = log_factory.create(small_segments(log_factory, batches=2, retention_ms=1000))
    lead(log_factory, log, *[(3, 10)] * 3)
    assert deleted_bytes(log, NOW_MS + 9999, 30) > 0
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (30, 30, 0)
    assert log.latest_epoch == 3
    assert deleted_bytes(log, NOW_MS + 9999, 30) == 0
    assert log.append_as_leader(log_factory.batch(2), 3, NOW_MS) == Appended(30, 31)


def test_without_delete_only_what_is_before_the_start_goes(log_factory: LogFactory) -> None:
    config = small_segments(log_factory, batches=1, retention_ms=0, retention_bytes=0)
    log = log_factory.create(
        LogConfig(config.segment_bytes, retention_ms=0, cleanup_policy=("compact",))
    )
    lead(log_factory, log, *[(0, 10)] * 4)
    assert deleted_bytes(log, NOW_MS + 9999, 40) == 0
    log.increment_log_start_offset(25)
    assert deleted_bytes(log, NOW_MS + 9999, 40) == 2 * size_of(log_factory.batch(10))
    assert (log.log_start_offset, log.log_end_offset) == (25, 40)


def test_a_segment_is_rolled_when_it_is_old(log_factory: LogFactory) -> None:
    log = log_factory.create(LogConfig(segment_ms=1000))
    for age_ms in (0, 1000, 1001):
        log.append_as_leader(log_factory.batch(5, timestamp_ms=NOW_MS + age_ms), 0, NOW_MS)
    assert log.recovery_point == 10


# Time


def test_a_time_is_found_and_never_too_late(log_factory: LogFactory) -> None:
    log = log_factory.create(small_segments(log_factory, batches=2))
    for number in range(6):
        log.append_as_leader(log_factory.batch(10, timestamp_ms=NOW_MS + number), 1, NOW_MS)
    for number in range(6):
        found = log.offset_for_time(NOW_MS + number)
        assert found is not None
        assert found.timestamp_ms >= NOW_MS + number
        assert 20 * (number // 2) <= found.offset <= 10 * number
        assert found.leader_epoch == 1
    assert log.offset_for_time(NOW_MS + 6) is None
    log.increment_log_start_offset(20)
    found = log.offset_for_time(NOW_MS)
    assert found is not None and found.offset == 20
