"""What a follower does with each response of its leader.

Source: AbstractFetcherThread: processFetchRequest, getOffsetTruncationState,
fetchOffsetAndTruncate.
"""

from __future__ import annotations

import pytest

from klamm.brokers.followers.follower import (
    NextFetch,
    append_fetched,
    fetch_position,
    take_fetched,
    truncation_offset,
)
from klamm.brokers.logs.errors import UnexpectedAppendOffset
from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import FetchedPartition, FetchPartition
from klamm.cluster.records import CountedBatch, EpochEndOffset, Interval, IntervalRecords
from tests.unit.brokers.network import state

AT_ONCE, LATER = NextFetch.AT_ONCE, NextFetch.ON_NOTIFICATION
RETRY, NEVER = NextFetch.DELAYED, NextFetch.NEVER


def log_of(*epochs: tuple[int, int]) -> IntervalLog:
    """A log with these leader epochs and their numbers of records."""
    log = IntervalLog()
    for epoch, count in epochs:
        log.append_as_leader(CountedBatch(count, count), epoch, 0)
    return log


@pytest.fixture
def partition() -> Partition:
    """A follower at leader epoch 5. Its log has the offsets 2 to 9, and epoch 3 from offset 4."""
    log = log_of((1, 4), (3, 6))
    log.increment_log_start_offset(2)
    partition = Partition(log=log, high_watermark=6)
    partition.make_follower(state(leader=2, leader_epoch=5))
    return partition


def answer(
    offset: int = 10,
    epoch: int = 3,
    *,
    error: Errors = Errors.NONE,
    records: tuple[int, int] | None = None,
    high_watermark: int = 6,
    log_start: int = 2,
    log_end: int = -1,
    diverging: tuple[int, int] | None = None,
) -> FetchedPartition:
    """A response; ``records``: start and end."""
    return FetchedPartition(
        error,
        5,
        offset,
        epoch,
        None if records is None else taken(*records),
        high_watermark,
        log_start,
        log_end,
        None if diverging is None else EpochEndOffset(*diverging),
    )


def taken(start: int, end: int) -> IntervalRecords:
    return IntervalRecords((Interval(5, start, end, end - start, 0),))


def test_the_position_is_the_end_of_the_log(partition: Partition) -> None:
    assert fetch_position(partition) == FetchPartition(10, 5, 3, 2)
    for log, epoch in ((log_of((0, 1)), 0), (IntervalLog(), -1)):
        partition.log = log
        assert fetch_position(partition) == FetchPartition(log.log_end_offset, 5, epoch, 0)


@pytest.mark.parametrize(
    ("got", "next_fetch", "offsets"),
    [
        pytest.param(answer(), LATER, (2, 10, 6), id="nothing new"),
        pytest.param(answer(high_watermark=9), LATER, (2, 10, 9), id="a high watermark"),
        pytest.param(answer(high_watermark=11), LATER, (2, 10, 10), id="one beyond the log end"),
        pytest.param(answer(high_watermark=5), LATER, (2, 10, 5), id="one of a new leader"),
        pytest.param(
            answer(records=(10, 12), high_watermark=11), AT_ONCE, (2, 12, 11), id="records"
        ),
        pytest.param(
            answer(records=(10, 12), high_watermark=13), AT_ONCE, (2, 12, 12), id="some records"
        ),
        pytest.param(answer(log_start=5), AT_ONCE, (5, 10, 6), id="a log start"),
        pytest.param(answer(log_start=1), LATER, (2, 10, 6), id="an earlier log start"),
        pytest.param(answer(9, records=(9, 12)), AT_ONCE, (2, 10, 6), id="records from before"),
        pytest.param(answer(11, high_watermark=9), AT_ONCE, (2, 10, 6), id="from after the end"),
        pytest.param(answer(10, 1, high_watermark=9), AT_ONCE, (2, 10, 6), id="another epoch"),
        pytest.param(answer(diverging=(3, 8)), AT_ONCE, (2, 8, 6), id="an end"),
        pytest.param(answer(diverging=(1, 4)), AT_ONCE, (2, 4, 4), id="below the high watermark"),
        pytest.param(answer(diverging=(1, 9)), AT_ONCE, (2, 4, 4), id="of an epoch shorter here"),
        pytest.param(answer(9, diverging=(3, 8)), AT_ONCE, (2, 10, 6), id="an end that is late"),
    ],
)
def test_a_response_is_taken_at_the_end_of_the_log(
    partition: Partition,
    got: FetchedPartition,
    next_fetch: NextFetch,
    offsets: tuple[int, int, int],
) -> None:
    assert take_fetched(partition, got, 0.0) is next_fetch
    log = partition.log
    assert log is not None
    assert (log.log_start_offset, log.log_end_offset, partition.high_watermark) == offsets


@pytest.mark.parametrize(
    ("fetched", "start", "end", "next_fetch", "offsets"),
    [
        pytest.param(10, 0, 8, AT_ONCE, (2, 8, 6), id="the leader's log ends earlier"),
        pytest.param(10, 0, 5, AT_ONCE, (2, 5, 5), id="below the high watermark"),
        pytest.param(10, 12, 20, AT_ONCE, (12, 12, 12), id="it starts later"),
        pytest.param(10, 10, 20, RETRY, (2, 10, 6), id="it starts at the end"),
        pytest.param(10, 0, 10, RETRY, (2, 10, 6), id="it ends at the end"),
        pytest.param(9, 12, 20, AT_ONCE, (2, 10, 6), id="late"),
    ],
)
def test_a_log_out_of_range_is_truncated_or_restarted(
    partition: Partition,
    fetched: int,
    start: int,
    end: int,
    next_fetch: NextFetch,
    offsets: tuple[int, int, int],
) -> None:
    got = answer(fetched, error=Errors.OFFSET_OUT_OF_RANGE, log_start=start, log_end=end)
    assert take_fetched(partition, got, 0.0) is next_fetch
    log = partition.log
    assert log is not None
    assert (log.log_start_offset, log.log_end_offset, partition.high_watermark) == offsets


def test_an_error_is_retried_unless_the_follower_is_fenced(partition: Partition) -> None:
    for error in set(Errors) - {Errors.NONE, Errors.OFFSET_OUT_OF_RANGE}:
        expected = NEVER if error is Errors.FENCED_LEADER_EPOCH else RETRY
        assert take_fetched(partition, answer(error=error, high_watermark=9), 0.0) is expected
    assert (fetch_position(partition).fetch_offset, partition.high_watermark) == (10, 6)


def test_an_empty_log_takes_records_of_any_epoch_and_may_begin_earlier(
    partition: Partition,
) -> None:
    assert partition.log is not None
    for first, is_taken in ((10, True), (8, True), (11, False)):
        partition.log.truncate_fully_and_start_at(10)
        got = answer(epoch=4, records=(first, 11), log_start=first, high_watermark=11)
        if is_taken:
            assert take_fetched(partition, got, 0.0) is AT_ONCE
            assert (partition.log.log_start_offset, partition.high_watermark) == (first, 11)
        else:
            with pytest.raises(UnexpectedAppendOffset):
                take_fetched(partition, answer(epoch=4, records=(11, 12)), 0.0)
    partition.log.truncate_fully_and_start_at(11)
    with pytest.raises(UnexpectedAppendOffset):
        take_fetched(partition, answer(11, records=(9, 11)), 0.0)


def test_a_log_with_records_takes_none_that_begin_earlier(partition: Partition) -> None:
    with pytest.raises(UnexpectedAppendOffset):
        take_fetched(partition, answer(records=(8, 12)), 0.0)
    assert fetch_position(partition) == FetchPartition(10, 5, 3, 2)


def test_more_records_than_a_segment_holds_are_appended_in_parts() -> None:
    log = IntervalLog(config=LogConfig(segment_bytes=4))
    append_fetched(log, taken(0, 10))
    assert (log.log_end_offset, log.held.rolled) == (10, [4, 8])


@pytest.mark.parametrize(
    ("diverging", "offset"),
    [
        pytest.param((3, 8), 8, id="the leader's epoch ends earlier"),
        pytest.param((3, 12), 10, id="the leader's epoch ends later"),
        pytest.param((1, 3), 3, id="an earlier epoch"),
        pytest.param((1, 9), 4, id="an earlier epoch that is shorter here"),
        pytest.param((2, 8), 4, id="an epoch that is missing here"),
        pytest.param((2, 3), 4, id="a missing epoch that ends before the last known one"),
        pytest.param((0, 1), 0, id="an epoch before the first one"),
        pytest.param((4, 7), 7, id="an epoch after the last one"),
        pytest.param((4, 12), 10, id="an epoch after the last one that ends later"),
    ],
)
def test_a_diverging_log_is_cut_where_kafka_cuts_it(
    diverging: tuple[int, int], offset: int
) -> None:
    assert truncation_offset(log_of((1, 4), (3, 6)), EpochEndOffset(*diverging)) == offset


def test_a_log_that_diverges_is_cut_where_epoch_0_ends() -> None:
    assert truncation_offset(log_of((0, 4), (3, 6)), EpochEndOffset(2, 8)) == 4
