"""What the checks of replicas call broken, and what not."""

from __future__ import annotations

from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProducedPartition, ProduceRequest, ProduceResponse
from klamm.cluster.records import CountedBatch, Interval, Stretch
from klamm.cluster.requests import Address, Message
from klamm.cluster.types import TopicPartition
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


def test_a_new_leader_without_an_acknowledged_record_is_told() -> None:
    checker = acknowledged(replica(1, 5, leading_epoch=1), 5)
    checker.check([replica(1, 5), replica(2, 4, leading_epoch=2)])
    assert checker.violations == [f"t-0: broker 2 lacks {Stretch(1, 0, 5)}, which was acknowledged"]


def test_a_deposed_leader_that_does_not_know_it_need_not_have_all() -> None:
    checker = acknowledged(replica(1, 5, leading_epoch=1), 5)
    checker.check([replica(1, 5), replica(0, 0, leading_epoch=0)])
    assert checker.violations == []
