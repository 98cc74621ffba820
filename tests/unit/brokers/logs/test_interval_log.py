"""What is peculiar to logs that only count: shares of bytes, times, whole batches, memory."""

from __future__ import annotations

import tracemalloc

import pytest

from klamm.brokers.logs.errors import OffsetOutOfRange, RecordBatchTooLarge
from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.log_config import LogConfig
from klamm.cluster.records import (
    CountedBatch,
    Interval,
    IntervalRecords,
    ProducerBatch,
    TimestampOffset,
)

NOW_MS = 1_700_000_000_000
MIB = 1 << 20
IDLE_LOG_BYTES_MAX = 150


def idempotent(first: int, count: int) -> CountedBatch:
    return CountedBatch(count, count * 100, NOW_MS, 7, 0, first)


def test_appends_of_one_epoch_are_one_interval() -> None:
    log = IntervalLog()
    log.append_as_leader(CountedBatch(10, 1000, NOW_MS), 1, NOW_MS)
    log.append_as_leader(CountedBatch(10, 3000, NOW_MS + 1), 1, NOW_MS)
    log.append_as_leader(CountedBatch(1, 10, NOW_MS), 2, NOW_MS)
    assert log.intervals() == (
        Interval(1, 0, 20, 4000, NOW_MS + 1),
        Interval(2, 20, 21, 10, NOW_MS),
    )


@pytest.mark.parametrize("offset", [3, 11])
def test_only_offsets_of_the_log_are_read(offset: int) -> None:
    log = IntervalLog()
    log.truncate_fully_and_start_at(4)
    log.append_as_leader(CountedBatch(6, 600, NOW_MS), 1, NOW_MS)
    for read in (log.read_all, lambda at: log.read(at, MIB)):
        with pytest.raises(OffsetOutOfRange):
            read(offset)
    assert log.read_all(10) == IntervalRecords(())
    assert log.read_all(4).intervals == log.intervals()


def test_parts_of_an_interval_share_its_bytes() -> None:
    log = IntervalLog()
    log.append_as_leader(CountedBatch(3, 100, NOW_MS), 1, NOW_MS)
    parts = [log.read(offset, MIB, offset + 1) for offset in range(3)]
    assert [part.intervals[0].size_bytes for part in parts] == [33, 33, 34]
    assert log.read(0, 66) == IntervalRecords((Interval(1, 0, 1, 33, NOW_MS),))
    log.truncate_to(2)
    assert log.size_bytes == 66


def test_early_and_late_followers_have_the_same_sizes() -> None:
    leader, early, late = IntervalLog(), IntervalLog(), IntervalLog()
    for count, size_bytes in ((20, 100_000), (3, 900), (2, 600), (3, 100)):
        leader.append_as_leader(CountedBatch(count, size_bytes, NOW_MS), 1, NOW_MS)
        early.append_as_follower(leader.read_all(early.log_end_offset))
    for end in (7, 22, 28):
        late.append_as_follower(leader.read(late.log_end_offset, MIB, end))
    assert leader.size_bytes == early.size_bytes == late.size_bytes == 101_600
    assert len(leader.held.intervals) == 3
    assert late.truncate_to(21) == 7
    assert late.size_bytes == 100_300


@pytest.mark.parametrize("segment_bytes", [250, 1_000])
def test_a_log_that_was_folded_is_the_same_and_rolls_where_it_would_have(
    segment_bytes: int,
) -> None:
    packed, other = (IntervalLog(LogConfig(segment_bytes=segment_bytes)) for _ in range(2))
    for _ in range(4):
        for log in (packed, other):
            log.append_as_leader(CountedBatch(1, 100, NOW_MS), 1, NOW_MS)
        packed.pack()
        assert packed.held == other.held


def test_a_batch_without_a_time_has_that_of_its_append() -> None:
    log = IntervalLog()
    log.append_as_leader(CountedBatch(3, 100), 1, NOW_MS)
    assert log.offset_for_time(NOW_MS) == TimestampOffset(NOW_MS, 0, 1)
    assert log.offset_for_time(NOW_MS + 1) is None


@pytest.mark.parametrize(
    ("offset", "max_bytes", "end"),
    [(0, 899, 5), (0, 900, 9), (0, 499, 5), (0, 1, 5), (5, 100, 9), (7, 100, 9)],
)
def test_a_batch_of_an_idempotent_producer_is_read_whole(
    offset: int, max_bytes: int, end: int
) -> None:
    log = IntervalLog()
    log.append_as_leader(idempotent(0, 5), 1, NOW_MS)
    log.append_as_leader(idempotent(5, 4), 1, NOW_MS)
    log.append_as_leader(idempotent(9, 4), 1, NOW_MS)
    records = log.read(offset, max_bytes)
    assert records.intervals[-1].end == end


def test_a_read_names_the_batches_that_end_in_it() -> None:
    log = IntervalLog()
    log.append_as_leader(idempotent(0, 5), 1, NOW_MS)
    log.append_as_leader(CountedBatch(5, 500, NOW_MS, 8, 3, 0), 1, NOW_MS)
    log.append_as_leader(idempotent(5, 5), 1, NOW_MS)
    records = log.read(5, MIB)
    assert records.producer_batches == (
        ProducerBatch(8, 3, 0, 4, 5, 9, NOW_MS),
        ProducerBatch(7, 0, 5, 9, 10, 14, NOW_MS),
    )


def test_constant_rates_append_as_a_fetch_would() -> None:
    config = LogConfig(segment_bytes=100, segment_ms=50, flush_messages=4)
    fetched, scheduled = IntervalLog(config), IntervalLog(config)
    rows = (
        (1, 2, 1),
        (1, 4, 2),
        (1, 6, 3),
        (1, 8, 1),
        (2, 9, 5),
        (2, 13, 9),
        (2, 14, 70),
        (2, 18, 71),
    )
    for epoch, end, timestamp_ms in rows:
        start = fetched.log_end_offset
        one = Interval(epoch, start, end, 10 * (end - start), timestamp_ms)
        fetched.append_as_follower(IntervalRecords((one,)))
        scheduled.append_analytically(epoch, end, 10, timestamp_ms)
        assert scheduled == fetched
    assert (fetched.held.rolled, fetched.recovery_point) == ([9, 13], 18)


def test_a_follower_refuses_a_batch_that_fits_no_segment() -> None:
    log = IntervalLog(LogConfig(segment_bytes=999))
    with pytest.raises(RecordBatchTooLarge):
        log.append_as_follower(IntervalRecords((Interval(0, 0, 5, 500), Interval(1, 5, 9, 500))))
    assert log == IntervalLog(LogConfig(segment_bytes=999))


def test_a_crash_leaves_all_that_is_left_on_the_disk() -> None:
    log = IntervalLog()
    for epoch in range(3):
        log.append_as_leader(CountedBatch(5, 500), epoch, NOW_MS)
    assert log.crash(kept_end=12) == 3
    assert (log.log_end_offset, log.recovery_point) == (12, 12)
    assert log.crash() == 0


def test_records_before_the_log_start_need_no_recovery() -> None:
    log = IntervalLog()
    log.append_as_leader(CountedBatch(5, 500), 0, NOW_MS)
    log.increment_log_start_offset(3)
    assert (log.recovery_point, log.crash(), log.log_end_offset) == (3, 2, 3)


def test_an_idle_log_is_small() -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        logs = [IntervalLog() for _ in range(1000)]
        for log in logs:
            log.start_epoch(3)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / len(logs) < IDLE_LOG_BYTES_MAX


def test_many_segments_and_batches_of_many_sizes_are_added_in_place() -> None:
    log = IntervalLog(LogConfig(segment_bytes=1_000))
    log.append_as_leader(CountedBatch(1, 10), 0, NOW_MS)
    held = log.held
    for number in range(1, 1_000):
        log.append_as_leader(CountedBatch(1, 10 + number % 900), 0, NOW_MS)
    assert log.held is held
    assert len(held.rolled) > 400 and log.intervals()[-1].end == 1_000
    assert held.active_bytes == sum(one.size_bytes for one in held.between(held.rolled[-1], 1_000))
