"""What consumers get: committed records and no others, offsets, and an answer in their time.

Sources: ReplicaManager.{fetchMessages, readFromLocalLog}, DelayedFetch,
Partition.{fetchOffsetForTimestamp, lastOffsetForLeaderEpoch}.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from klamm.brokers.config import BrokerConfig, broker_config
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    LeaderEpochEnd,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderPartition,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
)
from klamm.cluster.data_requests import (
    MAX_BYTES,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
)
from klamm.cluster.records import CountedBatch, EpochEndOffset, IntervalRecords
from klamm.cluster.requests import Address
from klamm.cluster.types import TopicPartition
from tests.unit.brokers.network import (
    T0,
    T1,
    cached,
    leader_and_isr,
    state,
    stop_replica,
    update_metadata,
)
from tests.unit.brokers.replicas import Replicas

CONSUMER = Address("client", 8)
UNKNOWN = TopicPartition("unknown", 0)


class Consumed(Replicas):
    """Replicas of t-0, led by 1 at epoch 3, and a consumer."""

    def __init__(self, config: BrokerConfig | None = None) -> None:
        super().__init__(config)
        self.lead(1, 3)

    def send_fetch(
        self,
        offset: int,
        broker_id: int = 1,
        epoch: int = -1,
        partition_max_bytes: int = MAX_BYTES,
        **limits: int,
    ) -> int:
        """Send a fetch, deliver nothing else; returns its number."""
        limits = {"max_wait_ms": 500, "min_bytes": 1, **limits}
        asked = FetchPartition(offset, epoch, max_bytes=partition_max_bytes)
        return self.ask(broker_id, FetchRequest(-1, {T0: asked}, **limits), CONSUMER)

    def fetched(self, number: int) -> FetchedPartition | None:
        """The answer to a fetch; None if it waits."""
        answer = self.answer_to(number, CONSUMER)
        assert isinstance(answer, FetchResponse | None)
        return answer and answer.partitions[T0]

    def offset_at(self, timestamp_ms: int, broker_id: int = 1, epoch: int = -1) -> ListedOffset:
        """What ListOffsets answers."""
        asked = ListOffsetsRequest({T0: ListOffsetsPartition(timestamp_ms, epoch)})
        answer = self.request(broker_id, asked, CONSUMER)
        assert isinstance(answer, ListOffsetsResponse)
        return answer.partitions[T0]


@pytest.fixture
def replicas() -> Consumed:
    return Consumed()


def bounds(fetched: FetchedPartition | None) -> list[tuple[int, int, int]]:
    """(leader epoch, start, end) of what was fetched."""
    assert fetched is not None and fetched.error is Errors.NONE, fetched
    assert isinstance(fetched.records, IntervalRecords)
    return [(i.leader_epoch, i.start, i.end) for i in fetched.records.intervals]


def test_records_are_read_up_to_the_high_watermark_and_no_further(replicas: Consumed) -> None:
    replicas.replicate(1, 10)
    replicas.lost = (2,)
    replicas.replicate(1, 5)
    assert replicas.ends()[0] == (15, 10)
    fetched = replicas.fetched(replicas.send_fetch(4))
    assert bounds(fetched) == [(3, 4, 10)]
    assert fetched is not None and (fetched.high_watermark, fetched.log_start_offset) == (10, 0)
    waits = replicas.send_fetch(12)
    assert replicas.fetched(waits) is None, "it is in the log, and not committed"


def test_a_fetch_waits_for_records_and_is_answered_when_they_are_committed(
    replicas: Consumed,
) -> None:
    number = replicas.send_fetch(0)
    replicas.produce(1, 3)
    assert replicas.fetched(number) is None
    replicas.settle()
    assert bounds(replicas.fetched(number)) == [(3, 0, 3)]


def test_a_fetch_waits_for_min_bytes_and_no_longer_than_it_wants(replicas: Consumed) -> None:
    few, many = replicas.send_fetch(0, min_bytes=200), replicas.send_fetch(0, min_bytes=500)
    replicas.replicate(1, 1)
    assert (replicas.fetched(few), replicas.fetched(many)) == (None, None)
    replicas.replicate(1, 1)
    assert bounds(replicas.fetched(few)) == [(3, 0, 2)]
    replicas.pass_time(499)
    assert replicas.fetched(many) is None
    replicas.pass_time(1)
    assert bounds(replicas.fetched(many)) == [(3, 0, 2)]
    assert replicas.brokers[1].replica_manager.leaders.consumers.next_due_ms() is None


def test_a_fetch_waits_for_no_more_bytes_than_it_may_get(replicas: Consumed) -> None:
    replicas.replicate(1, 10)
    limited = replicas.send_fetch(0, min_bytes=500, max_bytes=250)
    assert bounds(replicas.fetched(limited)) == [(3, 0, 2)], "as in KafkaApis.handleFetchRequest"
    waits = replicas.send_fetch(0, min_bytes=500, partition_max_bytes=250)
    assert replicas.fetched(waits) is None
    replicas.replicate(1, 10)
    assert replicas.fetched(waits) is None, "no more of this partition is ever in the response"
    replicas.pass_time(500)
    assert bounds(replicas.fetched(waits)) == [(3, 0, 2)]


def test_a_fetch_that_may_get_few_bytes_does_not_wait_for_more() -> None:
    replicas = Consumed(broker_config({"fetch.max.bytes": "1024"}))
    replicas.replicate(1, 12)
    for offset, min_bytes, max_bytes, end in (
        (9, 500, 250, 11),
        (9, 500, 300, 12),
        (9, 500, 301, None),
        (0, 2000, 5000, 10),
        (1, 2000, 5000, 11),
        (2, 2000, 5000, None),
    ):
        number = replicas.send_fetch(offset, min_bytes=min_bytes, max_bytes=max_bytes)
        fetched = replicas.fetched(number)
        assert (fetched and bounds(fetched)) == (None if end is None else [(3, offset, end)])


def test_a_fetch_does_not_wait_if_the_log_continues_in_another_segment(replicas: Consumed) -> None:
    log = replicas.replica(1).log
    assert log is not None
    log.config = msgspec.structs.replace(log.config, segment_bytes=500)
    for _ in range(2):
        replicas.replicate(1, 3)
    assert bounds(replicas.fetched(replicas.send_fetch(0, min_bytes=10_000))) == [(3, 0, 3)]
    assert replicas.fetched(replicas.send_fetch(3, min_bytes=10_000)) is None


def test_a_fetch_without_a_wait_or_minimum_is_answered_at_once(replicas: Consumed) -> None:
    assert bounds(replicas.fetched(replicas.send_fetch(0, max_wait_ms=0))) == []
    assert bounds(replicas.fetched(replicas.send_fetch(0, min_bytes=0))) == []


def test_a_fetch_gets_no_more_bytes_than_it_wants_but_a_record_at_least(replicas: Consumed) -> None:
    replicas.replicate(1, 10)
    for limits, end in (
        ({"partition_max_bytes": 350}, 3),
        ({"max_bytes": 250}, 2),
        ({"max_bytes": 0}, 1),
        ({"partition_max_bytes": 1}, 1),
        ({}, 10),
    ):
        assert bounds(replicas.fetched(replicas.send_fetch(0, **limits))) == [(3, 0, end)]


@pytest.mark.parametrize(("max_bytes", "count"), [(100, 0), (199, 0), (200, 1), (350, 2)], ids=str)
def test_the_partitions_of_a_fetch_share_its_bytes(
    replicas: Consumed, max_bytes: int, count: int
) -> None:
    named = state(T1, leader=1, leader_epoch=3, isr=(1,), replicas=(1,))
    replicas.request(1, leader_and_isr(named))
    replicas.produce(1, 1)
    records = ProduceRequest(1, 1_000, {T1: CountedBatch(10, 1_000)})
    replicas.request(1, records, CONSUMER)
    replicas.settle()
    asked = {tp: FetchPartition(0, -1) for tp in (T0, T1)}
    answer = replicas.request(1, FetchRequest(-1, asked, 0, 1, max_bytes), CONSUMER)
    assert isinstance(answer, FetchResponse)
    assert bounds(answer.partitions[T0]) == [(3, 0, 1)]
    assert bounds(answer.partitions[T1]) == ([(3, 0, count)] if count else [])


def test_a_fetch_of_no_partition_does_not_wait(replicas: Consumed) -> None:
    assert replicas.request(1, FetchRequest(-1, {}, 500, 1), CONSUMER) == FetchResponse({})


@pytest.mark.parametrize(
    ("offset", "epoch", "broker_id", "expected"),
    [
        pytest.param(11, -1, 1, Errors.OFFSET_OUT_OF_RANGE, id="after the log's end"),
        pytest.param(0, 2, 1, Errors.FENCED_LEADER_EPOCH, id="the consumer is behind"),
        pytest.param(0, 4, 1, Errors.UNKNOWN_LEADER_EPOCH, id="the leader is behind"),
        pytest.param(0, -1, 2, Errors.NOT_LEADER_OR_FOLLOWER, id="a follower"),
        pytest.param(0, 3, 1, Errors.NONE, id="the epoch is known"),
    ],
)
def test_a_fetch_that_fails_is_answered_at_once(
    replicas: Consumed, offset: int, epoch: int, broker_id: int, expected: Errors
) -> None:
    replicas.replicate(1, 10)
    fetched = replicas.fetched(replicas.send_fetch(offset, broker_id, epoch, min_bytes=10_000_000))
    assert (fetched.error if fetched else Errors.NONE) is expected


@pytest.mark.parametrize("tps", [(T0, UNKNOWN), (UNKNOWN, T0)], ids=["last", "first"])
def test_a_partition_that_is_unknown_does_not_keep_others_waiting(
    replicas: Consumed, tps: tuple[TopicPartition, ...]
) -> None:
    asked = {tp: FetchPartition(0, -1) for tp in tps}
    answer = replicas.request(1, FetchRequest(-1, asked, 500, 1), CONSUMER)
    assert isinstance(answer, FetchResponse)
    codes = {tp: one.error for tp, one in answer.partitions.items()}
    assert codes == {T0: Errors.NONE, UNKNOWN: Errors.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_fetch_out_of_range_names_the_offsets_that_can_be_read(replicas: Consumed) -> None:
    replicas.replicate(1, 10)
    replicas.lost = (2,)
    replicas.produce(1, 5)
    fetched = replicas.fetched(replicas.send_fetch(16))
    assert fetched is not None and fetched.error is Errors.OFFSET_OUT_OF_RANGE
    assert (fetched.log_start_offset, fetched.log_end_offset) == (0, 10)


def test_waiting_clients_get_an_error_when_the_leader_changes(replicas: Consumed) -> None:
    number = replicas.send_fetch(0)
    replicas.lead(2, 4)
    fetched = replicas.fetched(number)
    assert fetched is not None and fetched.error is Errors.NOT_LEADER_OR_FOLLOWER
    number = replicas.send_fetch(0, 2)
    replicas.request(2, stop_replica())
    fetched = replicas.fetched(number)
    assert fetched is not None and fetched.error is Errors.NOT_LEADER_OR_FOLLOWER
    assert replicas.brokers[2].next_due_ms() is None


def test_a_log_ends_at_the_high_watermark_for_clients(replicas: Consumed) -> None:
    assert replicas.offset_at(LATEST_TIMESTAMP) == ListedOffset(Errors.NONE, -1, 0, 3)
    replicas.replicate(1, 10)
    replicas.lost = (2,)
    replicas.replicate(1, 5)
    assert replicas.offset_at(LATEST_TIMESTAMP) == ListedOffset(Errors.NONE, -1, 10, 3)
    assert replicas.offset_at(EARLIEST_TIMESTAMP).offset == 0
    assert replicas.offset_at(LATEST_TIMESTAMP, 3).error is Errors.NOT_LEADER_OR_FOLLOWER
    assert replicas.offset_at(LATEST_TIMESTAMP, 1, 2).error is Errors.FENCED_LEADER_EPOCH


def test_a_lookup_by_time_finds_the_first_committed_record_of_that_time_or_later(
    replicas: Consumed,
) -> None:
    begun_ms = replicas.clock.now_ms()
    replicas.replicate(1, 10)
    found = replicas.offset_at(begun_ms)
    assert found == ListedOffset(Errors.NONE, begun_ms, 0, 3)
    assert replicas.offset_at(begun_ms + 1) == ListedOffset(Errors.NONE)
    replicas.lead(2, 4)
    replicas.clock.time_ms += 1_000
    replicas.lost = (1,)
    replicas.replicate(2, 10)
    late = replicas.offset_at(begun_ms + 1, 2)
    assert late == ListedOffset(Errors.NONE), "it is there, and not committed"
    assert replicas.offset_at(EARLIEST_TIMESTAMP, 2) == ListedOffset(Errors.NONE, -1, 0, 3)


def test_a_new_leader_does_not_say_where_the_log_ends_before_it_knows(replicas: Consumed) -> None:
    """KIP-207: the high watermark of a new leader may be behind what consumers have read."""
    begun_ms = replicas.clock.now_ms()
    replicas.produce(1, 10)
    replicas.deliver()
    replicas.lost = (1, 3)
    replicas.replica(2).set_high_watermark(4, begun_ms)
    replicas.lead(2, 4, told=(2,))
    assert replicas.offset_at(LATEST_TIMESTAMP, 2).error is Errors.OFFSET_NOT_AVAILABLE
    assert replicas.offset_at(begun_ms + 1, 2).error is Errors.OFFSET_NOT_AVAILABLE
    assert replicas.offset_at(begun_ms, 2).offset == 0
    assert replicas.offset_at(EARLIEST_TIMESTAMP, 2).offset == 0
    replicas.lost = ()
    replicas.lead(2, 5)
    assert replicas.offset_at(LATEST_TIMESTAMP, 2) == ListedOffset(Errors.NONE, -1, 10, 5)


def test_an_epoch_ends_where_the_next_one_in_the_log_begins(replicas: Consumed) -> None:
    replicas.replicate(1, 10)
    replicas.lead(2, 5)
    replicas.replicate(2, 5)

    def ask(epoch: int, current: int = -1, tp: TopicPartition = T0) -> Any:
        asked = OffsetsForLeaderEpochRequest({tp: OffsetForLeaderPartition(epoch, current)})
        answer = replicas.request(2, asked, CONSUMER)
        assert isinstance(answer, OffsetsForLeaderEpochResponse)
        return answer.partitions[tp]

    for epoch, end in ((3, (3, 10)), (4, (3, 10)), (5, (5, 15)), (6, (-1, -1))):
        assert ask(epoch, 5) == LeaderEpochEnd(Errors.NONE, EpochEndOffset(*end))
    assert ask(3, 4) == LeaderEpochEnd(Errors.FENCED_LEADER_EPOCH)
    replicas.request(2, update_metadata(cached(T1)))
    assert ask(3, tp=T1) == LeaderEpochEnd(Errors.NOT_LEADER_OR_FOLLOWER)
