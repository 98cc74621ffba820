"""Parts of records: whole, in order, and together all of them."""

from __future__ import annotations

import pytest

from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.record_batch import place
from klamm.brokers.logs.record_parts import end_of, first_part, pieces, rest_after
from klamm.cluster.records import EpochEndOffset, Interval, IntervalRecords, ProducerBatch, size_of
from tests.unit.brokers.logs.batches import batch

TWO_EPOCHS = IntervalRecords((Interval(0, 10, 20, 1_000), Interval(1, 20, 25, 2_000)))
BATCHES = (ProducerBatch(7, 0, 0, 3, 11, 14), ProducerBatch(7, 0, 4, 8, 16, 20))
IDEMPOTENT = IntervalRecords((Interval(0, 10, 25, 1_500),), BATCHES)


@pytest.mark.parametrize(
    ("size_bytes", "end"),
    [(0, None), (99, None), (100, 11), (999, 19), (1_000, 20), (1_399, 20), (1_400, 21)],
)
def test_a_part_has_the_whole_records_that_fit_into_its_bytes(
    size_bytes: int, end: int | None
) -> None:
    part = first_part(TWO_EPOCHS, size_bytes)
    assert (None if part is None else end_of(part).end_offset) == end
    if part is not None:
        assert size_of(part) <= size_bytes


@pytest.mark.parametrize(("size_bytes", "end"), [(300, 11), (500, 15), (900, 16), (1_100, 21)])
def test_a_producers_batch_is_never_cut_in_two(size_bytes: int, end: int) -> None:
    part = first_part(IDEMPOTENT, size_bytes)
    assert isinstance(part, IntervalRecords)
    rest = rest_after(IDEMPOTENT, part)
    assert isinstance(rest, IntervalRecords)
    assert end_of(part).end_offset == end == rest.intervals[0].start
    assert part.producer_batches + rest.producer_batches == BATCHES
    assert all(batch.last_offset < end for batch in part.producer_batches)


def test_a_part_and_the_rest_are_all() -> None:
    part = first_part(TWO_EPOCHS, 1_400)
    assert part == IntervalRecords((Interval(0, 10, 20, 1_000), Interval(1, 20, 21, 400)))
    assert rest_after(TWO_EPOCHS, part) == IntervalRecords((Interval(1, 21, 25, 1_600),))
    assert rest_after(TWO_EPOCHS, TWO_EPOCHS) is None
    assert end_of(TWO_EPOCHS) == EpochEndOffset(1, 25)


def test_pieces_fill_a_log_as_the_whole_does() -> None:
    found = list(pieces(TWO_EPOCHS, 700))
    assert [size_of(piece) for piece in found] == [700, 300, 400, 400, 400, 400, 400]
    log = IntervalLog(log_start_offset=10, log_end_offset=10)
    for piece in found:
        log.append_as_follower(piece)
    assert log.intervals() == TWO_EPOCHS.intervals


def test_whole_batches_are_the_parts_of_bytes() -> None:
    first, second = (place(batch(b"x" * 100), offset, 3) for offset in (5, 6))
    records = first + second
    for size_bytes in range(len(records) + 1):
        wanted = (
            (first if size_bytes < len(records) else records) if size_bytes >= len(first) else None
        )
        assert first_part(records, size_bytes) == wanted
    assert rest_after(records, first) == second
    assert rest_after(records, records) is None
    assert end_of(first) == EpochEndOffset(3, 6)


def test_records_that_are_too_large_stay_together() -> None:
    assert [size_of(piece) for piece in pieces(TWO_EPOCHS, 50)] == [3_000 - 2_000, 2_000]
