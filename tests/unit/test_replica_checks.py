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
from klamm.runtime.checks.log_intervals import LogIntervals
from klamm.runtime.checks.replicas import ReplicationChecker, ReplicaView

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
    checker.check([view])
    assert checker.acknowledged == {T0: [Stretch(1, 0, count)]}
    return checker


def test_a_new_leader_without_an_acknowledged_record_is_reported() -> None:
    checker = acknowledged(replica(1, 5, leading_epoch=1), 5)
    checker.check([replica(1, 5), replica(2, 4, leading_epoch=2)])
    assert checker.violations == [
        "t-0: the records at offsets 0 to 4 of leader epoch 1 were acknowledged, but are not in "
        "the log of leader 2"
    ]


def test_a_deposed_leader_that_does_not_know_it_need_not_have_all() -> None:
    checker = acknowledged(replica(1, 5, leading_epoch=1), 5)
    checker.check([replica(1, 5), replica(0, 0, leading_epoch=0)])
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
        checker.check([leader])
        assert checker.violations == []
    checker.check([msgspec.structs.replace(leader, intervals=(Interval(1, 0, 4, 0, 0), *held[1:]))])
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
    checker.check([before, leader])
    produce = ProduceRequest(-1, 1_000, {T0: CountedBatch(3, 3)})
    again = ProduceResponse({T0: ProducedPartition(Errors.NONE, 2, 1)})
    checker.on_message(Message(CLIENT, LEADER, 8, produce), ())
    checker.on_message(Message(LEADER, CLIENT, 8, again), [before])
    checker.check([before, leader])
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
