"""What the checks of replicas call broken, and what not."""

from __future__ import annotations

import random

import msgspec
import pytest

from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.log_config import LogConfig
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProducedPartition, ProduceRequest, ProduceResponse
from klamm.cluster.records import CountedBatch, Interval, Stretch
from klamm.cluster.requests import Address, Message
from klamm.cluster.types import TopicPartition
from klamm.lab.checks.replicas import ReplicationChecker, records_between
from klamm.world.views.log_intervals import LogIntervals
from klamm.world.views.replica_view import ReplicaView, views_of_partition
from tests.replica_checks import check_views

T0 = TopicPartition("t", 0)
CLIENT, LEADER = Address("client", 0), Address("broker", 1)


def replica(broker_id: int, end: int, *, epoch: int = 1, leading_epoch: int = -1) -> ReplicaView:
    """One that holds records of ``epoch`` up to ``end``, all below its high watermark."""
    held = (Interval(epoch, 0, end, end, 0),) if end else ()
    return ReplicaView(T0, broker_id, held, end, leading_epoch)


def acknowledged(view: ReplicaView, count: int) -> ReplicationChecker:
    """After this leader has acknowledged its first records to a producer with acks -1."""
    checker = ReplicationChecker()
    produce = ProduceRequest(-1, 1_000, {T0: CountedBatch(count, count)})
    answer = ProduceResponse({T0: ProducedPartition(Errors.NONE, 0, view.leading_epoch)})
    checker.on_message(Message(CLIENT, LEADER, 7, produce), ())
    checker.on_message(Message(LEADER, CLIENT, 7, answer), [view])
    check_views(checker, [view])
    assert checker.acknowledged == {T0: [Stretch(1, 0, count)]}
    return checker


def test_a_new_leader_without_an_acknowledged_record_is_reported() -> None:
    checker = acknowledged(replica(1, 5, leading_epoch=1), 5)
    check_views(checker, [replica(1, 5), replica(2, 4, leading_epoch=2)])
    assert checker.violations == [
        "t-0: the records at offsets 0 to 4 of leader epoch 1 were acknowledged, but are not in "
        "the log of leader 2"
    ]


def test_a_deposed_leader_that_does_not_know_it_need_not_have_all() -> None:
    checker = acknowledged(replica(1, 5, leading_epoch=1), 5)
    check_views(checker, [replica(1, 5), replica(0, 0, leading_epoch=0)])
    assert checker.violations == []


def test_records_lost_by_a_leader_that_had_them_are_reported() -> None:
    """What was found in a log once is compared again, not forgotten."""
    checker = ReplicationChecker()
    checker.acknowledged[T0] = [Stretch(1, 0, 5), Stretch(2, 5, 9), Stretch(3, 9, 12)]
    held = tuple(
        Interval(epoch, start, end, 0, 0) for epoch, start, end in checker.acknowledged[T0]
    )
    leader = ReplicaView(T0, 1, held, 12, 3)
    for _ in range(2):
        check_views(checker, [leader])
        assert checker.violations == []
    check_views(
        checker, [msgspec.structs.replace(leader, intervals=(Interval(1, 0, 4, 0, 0), *held[1:]))]
    )
    assert checker.violations == [
        "t-0: the records at offsets 0 to 4 of leader epoch 1 were acknowledged, but are not in "
        "the log of leader 1"
    ]


def test_records_that_a_deposed_leader_acknowledges_again_are_not_lost() -> None:
    before = replica(1, 5, leading_epoch=1)
    checker = acknowledged(before, 5)
    held = (*before.intervals, Interval(2, 5, 9, 4, 0))
    leader = ReplicaView(T0, 2, held, 9, 2)
    checker.acknowledged[T0] = [*checker.acknowledged[T0], Stretch(2, 5, 9)]
    check_views(checker, [before, leader])
    produce = ProduceRequest(-1, 1_000, {T0: CountedBatch(3, 3)})
    again = ProduceResponse({T0: ProducedPartition(Errors.NONE, 2, 1)})
    checker.on_message(Message(CLIENT, LEADER, 8, produce), ())
    checker.on_message(Message(LEADER, CLIENT, 8, again), [before])
    check_views(checker, [before, leader])
    assert checker.violations == []


@pytest.mark.parametrize("seed", range(20))
def test_intervals_of_a_changing_log_are_those_of_the_log(seed: int) -> None:
    rng = random.Random(seed)
    log, known, epoch = IntervalLog(LogConfig(segment_bytes=200)), LogIntervals(), 0
    for _ in range(200):
        match rng.randrange(8):
            case 0:
                epoch += 1
            case 1 if log.log_end_offset:
                log.truncate_to(rng.randrange(log.log_start_offset, log.log_end_offset + 1))
            case 2:
                log.pack()
            case 3 if rng.random() < 0.1:
                log.increment_log_start_offset(
                    rng.randint(log.log_start_offset, log.log_end_offset)
                )
            case _:
                log.append_as_leader(
                    CountedBatch(rng.randint(1, 3), rng.choice((30, 60))), epoch, 0
                )
        found, shape = known.of(T0, 1, log)
        if shape is not None:
            assert shape == (found[:-1], found[-1].leader_epoch, found[-1].start)
        assert [(one.leader_epoch, one.start, one.end) for one in found] == [
            (one.leader_epoch, one.start, one.end) for one in log.intervals()
        ]


def held(*intervals: tuple[int, int, int]) -> tuple[Interval, ...]:
    """Intervals of these leader epochs, starts and ends."""
    return tuple(Interval(epoch, start, end, end - start, 0) for epoch, start, end in intervals)


def view(broker_id: int, *intervals: tuple[int, int, int], high_watermark: int = 9) -> ReplicaView:
    start, end = (intervals[0][1], intervals[-1][2]) if intervals else (0, 0)
    return ReplicaView(T0, broker_id, held(*intervals), high_watermark, start=start, end=end)


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ([(1, 0, 5)], [(1, 0, 9)], False),
        ([(1, 0, 5), (2, 5, 9)], [(1, 0, 5), (3, 5, 9)], False),
        ([(1, 0, 1), (3, 1, 9)], [(2, 0, 1), (3, 1, 9)], True),
        ([(1, 0, 4), (2, 4, 9)], [(1, 0, 5), (2, 5, 9)], True),
        ([(1, 0, 5)], [], True),
        ([], [], False),
    ],
)
def test_logs_that_differ_below_both_high_watermarks_are_reported(
    one: list[tuple[int, int, int]], other: list[tuple[int, int, int]], differ: bool
) -> None:
    views = [view(1, *one, high_watermark=5), view(2, *other, high_watermark=9)]
    for replicas in (views, views[::-1]):
        checker = ReplicationChecker()
        check_views(checker, [*replicas, view(3, *one, high_watermark=0)])
        assert bool(checker.violations) == differ
        assert set(checker.names.values()) == ({"log-matching"} if differ else set())
    checker = ReplicationChecker()
    check_views(checker, [msgspec.structs.replace(one, high_watermark=0) for one in views])
    assert checker.violations == []


@pytest.mark.parametrize("seed", range(30))
def test_logs_that_certainly_begin_alike_do(seed: int) -> None:
    rng = random.Random(seed)

    def drawn(number: int) -> ReplicaView:
        at = [0, 0, 2][rng.randrange(3)]
        found = []
        for epoch in range(1, rng.randint(2, 4)):
            end = at + rng.randint(1, 2)
            found.append((epoch + rng.randrange(2) * 5, at, end))
            at = end
        return view(number, *found)

    alike = 0
    for _ in range(200):
        one, other = drawn(1), drawn(2)
        for end in range(8):
            are_equal = records_between(one.intervals, 0, end) == records_between(
                other.intervals, 0, end
            )
            reached = end <= min(one.end, other.end)
            if one.begins_like(other, end):
                alike += 1
                assert are_equal and reached
        shorter = min(one.end, other.end)
        if views_of_partition((one, other)).are_alike:
            assert one.start == other.start
            assert records_between(one.intervals, 0, shorter) == records_between(
                other.intervals, 0, shorter
            )
    assert alike


def test_logs_of_one_shape_are_alike_up_to_the_end_of_the_shorter() -> None:
    shape = (held((1, 0, 5)), 2, 5)
    one, other, unknown, later = (
        msgspec.structs.replace(view(n, (1, 0, 5), (2, 5, end)), **fields)
        for n, end, fields in (
            (1, 9, {"shape": shape}),
            (2, 7, {"shape": shape}),
            (3, 9, {}),
            (4, 9, {"shape": shape, "start": 3}),
        )
    )
    assert one.is_shaped_like(other)
    assert not one.is_shaped_like(unknown)
    assert not unknown.is_shaped_like(unknown)
    assert not one.is_shaped_like(later)
    assert [end for end in range(12) if one.begins_like(other, end)] == list(range(8))


def test_an_epoch_has_one_leader_and_its_high_watermark_does_not_fall() -> None:
    checker = ReplicationChecker()
    check_views(checker, [replica(1, 5, leading_epoch=1)])
    check_views(checker, [replica(1, 5, leading_epoch=2), replica(2, 5, leading_epoch=1)])
    check_views(checker, [replica(1, 4, leading_epoch=2)])
    assert checker.names == {
        "t-0: brokers 1 and 2 both lead at leader epoch 1": "one-broker-leads-an-epoch",
        "t-0: the high watermark of leader 1 fell from 5 to 4": "high-watermark-does-not-decrease",
    }


def test_a_deleted_topic_and_a_restarted_broker_are_forgotten() -> None:
    checker = acknowledged(replica(1, 5, leading_epoch=1), 5)
    checker.on_restart(1)
    lower = msgspec.structs.replace(replica(1, 5, leading_epoch=1), high_watermark=3)
    check_views(checker, [lower])
    assert checker.violations == []
    checker.on_restart(2)
    check_views(checker, [msgspec.structs.replace(lower, high_watermark=2)])
    assert len(checker.violations) == 1
    checker.names.clear()
    checker.forget("other")
    assert checker.acknowledged
    checker.forget("t")
    check_views(checker, [replica(2, 1, leading_epoch=1)])
    assert checker.violations == []
    check_views(checker, [replica(2, 0, leading_epoch=1)])
    assert len(checker.violations) == 1
    checker.on_restart(2)
    check_views(checker, [replica(2, 0, leading_epoch=1)])
    assert len(checker.violations) == 1


def test_only_records_acknowledged_by_all_replicas_count() -> None:
    leader = replica(1, 5, leading_epoch=1)
    checker = ReplicationChecker()
    for number, (acks, error) in enumerate(
        [(1, Errors.NONE), (0, Errors.NONE), (-1, Errors.NOT_ENOUGH_REPLICAS)]
    ):
        request = ProduceRequest(acks, 1_000, {T0: CountedBatch(5, 5)})
        answer = ProduceResponse({T0: ProducedPartition(error, 0, 1)})
        checker.on_message(Message(CLIENT, LEADER, number, request), ())
        checker.on_message(Message(LEADER, CLIENT, number, answer), [leader])
        # Only an answer to a request that was seen counts.
        checker.on_message(Message(LEADER, CLIENT, number, answer), [leader])
    assert checker.acknowledged == {}


def test_records_that_are_acknowledged_but_in_no_log_are_reported() -> None:
    checker = ReplicationChecker()
    request = ProduceRequest(-1, 1_000, {T0: CountedBatch(5, 5)})
    answer = ProduceResponse({T0: ProducedPartition(Errors.NONE, 2, 1)})
    checker.on_message(Message(CLIENT, LEADER, 7, request), ())
    other = replica(2, 9, leading_epoch=1)
    checker.on_message(Message(LEADER, CLIENT, 7, answer), [other, replica(1, 6, leading_epoch=1)])
    assert checker.violations == [
        "t-0: broker 1 acknowledged offsets 2 to 6, but they are not all in its log"
    ]
    assert checker.acknowledged == {T0: [Stretch(1, 2, 6)]}


def test_acknowledged_stretches_are_joined_and_sorted() -> None:
    leader = ReplicaView(T0, 1, held((1, 0, 4), (2, 4, 9)), 9, 2)
    checker = ReplicationChecker()
    for number, (base, count) in enumerate([(2, 2), (6, 3), (0, 2), (4, 2), (6, 1)]):
        request = ProduceRequest(-1, 1_000, {T0: CountedBatch(count, count)})
        answer = ProduceResponse({T0: ProducedPartition(Errors.NONE, base, 2)})
        checker.on_message(Message(CLIENT, LEADER, number, request), ())
        checker.on_message(Message(LEADER, CLIENT, number, answer), [leader])
    stretches = checker.acknowledged[T0]
    assert stretches == sorted(stretches, key=lambda one: one.start)
    covered = [offset for _, start, end in stretches for offset in range(start, end)]
    assert covered == list(range(9))


def test_acknowledged_records_below_the_log_start_are_not_missed() -> None:
    checker = ReplicationChecker()
    checker.acknowledged[T0] = [Stretch(1, 0, 5), Stretch(2, 5, 9), Stretch(3, 9, 12)]
    leader = ReplicaView(T0, 1, held((2, 6, 9), (3, 9, 12)), 12, 3, start=6, end=12)
    check_views(checker, [leader])
    assert checker.violations == []
    check_views(checker, [msgspec.structs.replace(leader, intervals=held((2, 6, 8)), end=8)])
    assert [text.split(" were")[0] for text in checker.violations] == [
        "t-0: the records at offsets 5 to 8 of leader epoch 2",
        "t-0: the records at offsets 9 to 11 of leader epoch 3",
    ]
