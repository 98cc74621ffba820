"""Idempotent producers: what a log accepts, refuses, and knows again."""

from __future__ import annotations

import pytest

from klamm.brokers.logs.errors import InvalidProducerEpoch, OutOfOrderSequence
from klamm.brokers.logs.producer_state import ProducerStates
from klamm.cluster.records import SEQUENCE_MAX, ProducerBatch, increment_sequence


def batch(
    first: int, last: int, *, epoch: int = 0, producer: int = 1, at: int = 0
) -> ProducerBatch:
    """One of ``producer``, whose first record is at the offset ``at``."""
    return ProducerBatch(producer, epoch, first, last, at, at + last - first, timestamp_ms=at)


def states(*batches: ProducerBatch) -> ProducerStates:
    """After these batches, each of which had to be acceptable."""
    made = ProducerStates()
    for appended in batches:
        assert made.check(appended) is None
        made.update(appended)
    return made


@pytest.mark.parametrize(
    ("base", "increment", "last"),
    [(0, 0, 0), (5, 2, 7), (SEQUENCE_MAX, 0, SEQUENCE_MAX), (SEQUENCE_MAX - 1, 3, 1)],
)
def test_sequences_begin_again_after_the_largest(base: int, increment: int, last: int) -> None:
    assert increment_sequence(base, increment) == last


def test_the_last_five_batches_are_known_again() -> None:
    sent = [batch(number, number, at=10 + number) for number in range(7)]
    known = states(*sent)
    assert [known.check(again._replace(first_offset=99)) for again in sent[2:]] == sent[2:]
    with pytest.raises(OutOfOrderSequence, match=r"1 \(incoming seq. number\), 6 \(current end"):
        known.check(sent[1])


def test_a_batch_with_other_ends_is_not_the_same() -> None:
    known = states(batch(0, 4), batch(5, 9))
    assert known.check(batch(5, 9)) is not None
    with pytest.raises(OutOfOrderSequence):
        known.check(batch(5, 8))


def test_a_gap_is_refused_and_nothing_is_remembered_of_it() -> None:
    known = states(batch(0, 4))
    with pytest.raises(OutOfOrderSequence):
        known.check(batch(6, 9))
    assert known.check(batch(5, 5)) is None


def test_the_sequence_after_the_largest_is_zero() -> None:
    known = states(batch(SEQUENCE_MAX - 1, SEQUENCE_MAX))
    with pytest.raises(OutOfOrderSequence):
        known.check(batch(1, 1))
    assert known.check(batch(0, 3)) is None


def test_a_new_epoch_begins_with_zero_and_fences_the_last_one() -> None:
    known = states(batch(0, 4))
    with pytest.raises(OutOfOrderSequence, match="Invalid sequence number for new epoch"):
        known.check(batch(5, 5, epoch=1))
    assert known.check(batch(0, 0, epoch=1)) is None
    known.update(batch(0, 0, epoch=1))
    with pytest.raises(InvalidProducerEpoch, match="smaller than the last seen epoch 1"):
        known.check(batch(5, 9))
    assert [kept.producer_epoch for kept in known] == [1]


def test_an_unknown_producer_begins_where_it_likes() -> None:
    assert states(batch(0, 4)).check(batch(100, 100, producer=2, epoch=3)) is None


def test_batches_that_a_truncation_cuts_may_be_sent_again() -> None:
    known = states(batch(0, 4, at=0), batch(5, 9, at=5), batch(0, 1, producer=2, at=10))
    known.truncate_to(9)
    assert list(known) == [batch(0, 4, at=0)]
    assert known.check(batch(5, 9, at=7)) is None
    assert known.check(batch(0, 1, producer=2, at=7)) is None


def test_an_idle_producer_is_forgotten() -> None:
    known = states(batch(0, 0, at=100), batch(0, 0, producer=2, at=200))
    known.expire(now_ms=700, expiration_ms=600)
    assert [kept.producer_id for kept in known] == [2]


def test_the_last_batch_decides_when_a_producer_expires() -> None:
    known = states(batch(0, 0, at=0), batch(1, 1, at=60))
    known.expire(100, 50)
    assert known.check(batch(1, 1, at=60)) is not None, "it was active 40 ms ago"
    known.expire(110, 50)
    assert known.check(batch(7, 7)) is None, "an unknown producer may start anywhere"
