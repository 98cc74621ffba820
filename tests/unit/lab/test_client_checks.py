"""What is wrong between producers and consumers is found, and by its name."""

from __future__ import annotations

import pytest

from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.log_config import DEFAULT_LOG_CONFIG
from klamm.cluster.records import Interval, IntervalRecords, Stretch
from klamm.cluster.requests import Address
from klamm.cluster.types import TopicPartition
from klamm.lab.checks.clients import check_clients, check_leader, check_partition
from klamm.world.clients.batches import Counted
from klamm.world.clients.config import ConsumerConfig, ProducerConfig
from klamm.world.clients.consumer import Consumer
from klamm.world.clients.producer import Producer
from klamm.world.clients.ranges import Acknowledged
from klamm.world.views.replica_view import ReplicaView

T0 = TopicPartition("t", 0)


def stretches(*bounds: tuple[int, int, int]) -> list[Stretch]:
    return [Stretch(*one) for one in bounds]


@pytest.mark.parametrize(
    ("sent", "read", "in_doubt", "kinds"),
    [
        pytest.param([(0, 0, 0, 9)], [(0, 0, 9)], 0, [], id="all is well"),
        pytest.param([], [(0, 0, 9)], 0, [], id="nobody of ours"),
        pytest.param([(0, 0, 0, 9)], [(0, 0, 4)], 0, ["unseen"], id="not read so far"),
        pytest.param([(0, 0, 0, 9)], [(0, 0, 3), (0, 5, 9)], 0, ["lost-write"], id="left out"),
        pytest.param([(0, 0, 0, 4)], [(1, 4, 9)], 5, ["lost-write"], id="the beginning left out"),
        pytest.param(
            [(0, 0, 0, 9)], [(0, 0, 4), (1, 4, 9)], 0, ["inconsistent-offsets"], id="another's"
        ),
        pytest.param([(0, -1, 0, 9)], [(0, 0, 4), (1, 4, 9)], 0, [], id="the epoch is not known"),
        pytest.param(
            [(0, 0, 0, 5), (5, 1, 3, 8)],
            [(0, 0, 3), (1, 3, 8)],
            0,
            ["nonmonotonic-send", "inconsistent-offsets"],
            id="an offset acknowledged twice",
        ),
        pytest.param(
            [(3, 0, 0, 3), (0, 0, 3, 6)], [(0, 0, 6)], 0, ["nonmonotonic-send"], id="swap"
        ),
        pytest.param(
            [(0, 0, 0, 9)], [(0, 0, 9), (0, 4, 9)], 0, ["nonmonotonic-poll"], id="read again"
        ),
        pytest.param([(0, 0, 0, 9)], [(0, 0, 12)], 2, ["duplicate"], id="more than was sent"),
        pytest.param([(0, 0, 0, 9)], [(0, 0, 12)], 3, [], id="what was in doubt is stored"),
    ],
)
def test_lost_and_reordered_records_of_one_producer_and_one_consumer_are_found(
    sent: list[tuple[int, int, int, int]],
    read: list[tuple[int, int, int]],
    in_doubt: int,
    kinds: list[str],
) -> None:
    acknowledged = [Acknowledged(first, Stretch(*where)) for first, *where in sent]
    found = check_partition(T0, [acknowledged], [stretches(*read)], in_doubt)
    assert [one.kind for one in found] == kinds
    assert all(str(one).startswith(f"t-0: {one.kind}: ") for one in found)


def test_several_consumers_have_seen_what_any_of_them_has() -> None:
    acknowledged = [Acknowledged(0, Stretch(0, 0, 9))]
    reads = [stretches((0, 0, 3)), stretches((0, 3, 9))]
    assert check_partition(T0, [acknowledged], reads, 0) == []


def test_a_leader_has_every_acknowledged_record_that_retention_did_not_delete() -> None:
    log = IntervalLog(DEFAULT_LOG_CONFIG)
    log.append_as_follower(IntervalRecords((Interval(0, 0, 50, 500), Interval(1, 50, 100, 500))))
    log.increment_log_start_offset(20)

    def missing(*where: int) -> list[str]:
        acknowledged = [Acknowledged(0, Stretch(*where))]
        view = ReplicaView(T0, 7, log.intervals(), 100, start=log.log_start_offset)
        return [one.text for one in check_leader(acknowledged, view)]

    assert missing(0, 0, 50) == missing(1, 50, 100) == missing(0, 0, 20) == []
    lost = "were acknowledged, but are not in the log of leader 7"
    assert missing(0, 0, 60) == [f"offsets 50 to 59 {lost}"]
    assert missing(1, 40, 120) == [f"offsets 40 to 49 {lost}", f"offsets 100 to 119 {lost}"]


def test_a_short_stretch_hides_no_conflict_with_the_long_one_around_it() -> None:
    reads = [[Stretch(0, 0, 9)], [Stretch(0, 2, 4), Stretch(1, 6, 9)]]
    found = check_partition(TopicPartition("t", 0), [], reads, 0)
    assert [one.kind for one in found] == ["inconsistent-offsets"]


@pytest.mark.parametrize(("waiting", "kinds"), [(3, []), (2, ["duplicate"])])
def test_records_without_an_outcome_may_be_read(waiting: int, kinds: list[str]) -> None:
    producer = Producer(Address("client", 1), (0,), ProducerConfig())
    producer.acknowledged[T0] = [Acknowledged(0, Stretch(0, 0, 5))]
    producer.send(T0, Counted(waiting, 100 * waiting), 0.0)
    consumer = Consumer(Address("client", 2), (0,), ConsumerConfig())
    consumer.read[T0] = stretches((0, 0, 8))
    assert [one.kind for one in check_clients([producer], [consumer])] == kinds
