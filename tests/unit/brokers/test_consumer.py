"""The requests of a consumer with assigned partitions, and its reaction to each response.

The tests write the responses of the brokers.

Source: Fetcher and SubscriptionState (org.apache.kafka.clients.consumer.internals).
"""

from __future__ import annotations

from typing import Any

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    LeaderEpochEnd,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetForLeaderPartition,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
    PartitionMetadata,
    TopicMetadata,
)
from klamm.cluster.data_requests import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from klamm.cluster.records import EpochEndOffset, Interval, IntervalRecords, Stretch
from klamm.cluster.requests import Address, Disconnected, Message, Response
from klamm.cluster.types import TopicPartition
from klamm.world.clients.config import ConsumerConfig
from klamm.world.clients.consumer import Consumer, LogTruncation, Position
from tests.unit.brokers.network import registered

CLIENT = Address("client", 1)
T0, T1 = (TopicPartition("t", n) for n in range(2))


def records(*bounds: tuple[int, int, int]) -> IntervalRecords:
    """Records of (leader epoch, start, end)."""
    return IntervalRecords(tuple(Interval(*one, one[2] - one[1]) for one in bounds))


class Reading:
    """A consumer, and the time. Partition N of topic t is led by the broker ``leaders[N]``."""

    def __init__(self, *partitions: TopicPartition, **settings: Any) -> None:
        config = ConsumerConfig(**{"auto_offset_reset": "earliest", **settings})
        self.consumer = Consumer(CLIENT, (1, 2), config)
        self.now_ms = 0.0
        self.lead({0: (1, 4), 1: (2, 6)})
        self.consumer.assign(partitions or (T0,))

    def lead(self, leaders: dict[int, tuple[int, int]]) -> None:
        """Tell the consumer the leaders and their epochs."""
        led = tuple(
            PartitionMetadata(Errors.NONE, n, leader, epoch, (1, 2), (1, 2))
            for n, (leader, epoch) in leaders.items()
        )
        topic = TopicMetadata(Errors.NONE, "t", None, led)
        response = MetadataResponse((registered(1), registered(2)), 1, (topic,))
        self.consumer.network.metadata.add_topic("t")
        self.consumer.network.metadata.update(response, self.now_ms)

    def sent(self, after_ms: float = 0.0) -> list[Message]:
        """What the consumer sends once this time has passed."""
        self.now_ms += after_ms
        self.consumer.on_timer(self.now_ms)
        return self.consumer.take_messages()

    def answer(self, asked: Message, body: Response) -> None:
        answered = Message(asked.destination, CLIENT, asked.correlation_id, body)
        self.consumer.receive(answered, self.now_ms)

    def listed(self, tp: TopicPartition = T0, **fields: Any) -> None:
        """Answer the lookup of an offset that is sent now."""
        (asked,) = self.sent()
        assert isinstance(asked.body, ListOffsetsRequest)
        found = ListedOffset(**{"error": Errors.NONE, "offset": 5, "leader_epoch": 3, **fields})
        self.answer(asked, ListOffsetsResponse({tp: found}))

    def fetched(self, *bounds: tuple[int, int, int], **fields: Any) -> None:
        """Answer the fetch of t-0 that is sent now."""
        (asked,) = self.sent()
        self.answer(asked, self.fetch_response(asked, *bounds, **fields))

    @staticmethod
    def fetch_response(asked: Message, *bounds: tuple[int, int, int], **fields: Any) -> Response:
        assert isinstance(asked.body, FetchRequest)
        at = asked.body.partitions[T0]
        given = {"error": Errors.NONE, "leader_epoch": 4, "fetch_offset": at.fetch_offset}
        if bounds:
            given["records"] = records(*bounds)
        return FetchResponse({T0: FetchedPartition(**{**given, **fields})})


def validating(**settings: Any) -> tuple[Reading, Message]:
    """A consumer at offset 6, after a record of epoch 4, that asks a new leader about it."""
    reading = Reading(**settings)
    reading.consumer.seek(T0, 5)
    reading.fetched((4, 5, 6))
    (pending,) = reading.consumer.take_messages()
    reading.lead({0: (2, 7)})
    assert reading.sent() == []
    reading.answer(pending, Reading.fetch_response(pending, (4, 6, 9)))
    assert reading.consumer.position(T0) == 6
    (asked,) = reading.consumer.take_messages()
    return reading, asked


@pytest.mark.parametrize(
    ("reset", "timestamp_ms"), [("earliest", EARLIEST_TIMESTAMP), ("latest", LATEST_TIMESTAMP)]
)
def test_a_consumer_begins_where_the_reset_policy_says(reset: str, timestamp_ms: int) -> None:
    reading = Reading(auto_offset_reset=reset)
    assert reading.consumer.position(T0) is None
    (asked,) = reading.sent()
    assert asked.destination == Address("broker", 1)
    assert asked.body == ListOffsetsRequest({T0: ListOffsetsPartition(timestamp_ms, 4)})
    assert reading.sent() == []
    found = ListedOffset(Errors.NONE, offset=5, leader_epoch=3)
    reading.answer(asked, ListOffsetsResponse({T0: found}))
    assert reading.consumer.position(T0) == 5
    (asked,) = reading.consumer.take_messages()
    config = reading.consumer.config
    assert asked.body == FetchRequest(
        -1,
        {T0: FetchPartition(5, 4, max_bytes=config.max_partition_fetch_bytes)},
        500,
        1,
        52_428_800,
    )


def test_each_leader_is_asked_once_for_the_partitions_in_the_same_state() -> None:
    reading = Reading(T0, T1, TopicPartition("t", 2))
    reading.lead({0: (1, 4), 1: (1, 6), 2: (2, 1)})
    reading.consumer.seek(T1, 7)
    asked = {(m.destination.id, type(m.body)): m.body for m in reading.sent()}
    assert asked.keys() == {*((1, ListOffsetsRequest), (1, FetchRequest), (2, ListOffsetsRequest))}
    lookup, fetch = asked[1, ListOffsetsRequest], asked[1, FetchRequest]
    assert isinstance(lookup, ListOffsetsRequest) and list(lookup.partitions) == [T0]
    assert isinstance(fetch, FetchRequest) and list(fetch.partitions) == [T1]
    # A leader has at most one fetch of the consumer.
    reading.consumer.seek(T0, 1)
    assert reading.sent() == []
    assert reading.consumer.next_due_ms() == 30_000.0


def test_a_lookup_without_a_record_continues_at_the_end() -> None:
    reading = Reading()
    reading.consumer.seek_to_time(T0, 1_000)
    (asked,) = reading.sent()
    assert asked.body == ListOffsetsRequest({T0: ListOffsetsPartition(1_000, 4)})
    reading.answer(asked, ListOffsetsResponse({T0: ListedOffset(Errors.NONE)}))
    assert reading.consumer.position(T0) is None
    (asked,) = reading.consumer.take_messages()
    assert asked.body == ListOffsetsRequest({T0: ListOffsetsPartition(LATEST_TIMESTAMP, 4)})
    reading.answer(asked, ListOffsetsResponse({T0: ListedOffset(Errors.NONE, offset=0)}))
    assert reading.consumer.position(T0) == 0


@pytest.mark.parametrize(
    ("error", "is_stale"),
    [
        (Errors.NOT_LEADER_OR_FOLLOWER, True),
        (Errors.FENCED_LEADER_EPOCH, True),
        (Errors.UNKNOWN_TOPIC_OR_PARTITION, True),
        (Errors.OFFSET_NOT_AVAILABLE, True),
        (Errors.REQUEST_TIMED_OUT, False),
    ],
)
@pytest.mark.parametrize("what", ["lookup", "fetch", "validation"])
def test_a_refused_request_is_sent_again_after_the_backoff(
    what: str, error: Errors, is_stale: bool
) -> None:
    body: Response
    if what == "validation":
        reading, asked = validating()
        body = OffsetsForLeaderEpochResponse({T0: LeaderEpochEnd(error)})
    else:
        reading = Reading()
        if what == "fetch":
            reading.consumer.seek(T0, 5)
        (asked,) = reading.sent()
        body = ListOffsetsResponse({T0: ListedOffset(error)})
        if what == "fetch":
            body = Reading.fetch_response(asked, error=error)
    reading.answer(asked, body)
    assert reading.consumer.take_messages() == []
    assert (reading.consumer.last_errors, reading.consumer.errors) == ({T0: error}, {})
    metadata = reading.consumer.network.metadata
    assert (metadata.next_update_ms() < 1_000) == is_stale
    assert reading.consumer.next_due_ms() == 100.0
    reading.lead({0: (2, 9)})
    assert reading.sent(99.0) == []
    assert [type(message.body) for message in reading.sent(1.0)] == [type(asked.body)]


def test_a_lost_connection_is_a_refusal() -> None:
    reading = Reading()
    (asked,) = reading.sent()
    reading.consumer.receive(Message(asked.destination, CLIENT, 0, Disconnected()), 0.0)
    assert reading.consumer.last_errors == {T0: Errors.NETWORK_EXCEPTION}
    reading.lead({0: (1, 4)})
    assert reading.sent(99.0) == []
    (again,) = reading.sent(1.0)
    assert again.body == asked.body


def test_a_fetch_moves_the_position_and_gives_the_high_watermark() -> None:
    reading = Reading()
    reading.consumer.seek(T0, 5)
    reading.fetched(high_watermark=8)
    assert reading.consumer.position(T0) == 5
    assert reading.consumer.high_watermarks == {T0: 8}
    (asked,) = reading.consumer.take_messages()
    reading.answer(asked, Reading.fetch_response(asked, (2, 3, 6), (4, 6, 9), high_watermark=9))
    assert reading.consumer.position(T0) == 9
    assert reading.consumer.read == {T0: [Stretch(2, 5, 6), Stretch(4, 6, 9)]}
    assert reading.consumer.high_watermarks == {T0: 9}
    assert not reading.consumer.has_records


def test_a_success_ends_the_last_error() -> None:
    reading = Reading()
    reading.consumer.seek(T0, 5)
    reading.fetched(error=Errors.REQUEST_TIMED_OUT)
    (asked,) = reading.sent(100.0)
    reading.answer(asked, Reading.fetch_response(asked))
    assert reading.consumer.last_errors == {}


def test_an_answer_about_another_offset_is_not_taken() -> None:
    reading = Reading()
    reading.consumer.seek(T0, 5)
    reading.fetched((4, 7, 9), fetch_offset=7)
    assert (reading.consumer.position(T0), reading.consumer.read) == (5, {})
    (again,) = reading.consumer.take_messages()
    assert isinstance(again.body, FetchRequest) and again.body.partitions[T0].fetch_offset == 5


def test_a_seek_ignores_earlier_requests() -> None:
    reading = Reading()
    reading.consumer.seek(T0, 5)
    (old,) = reading.sent()
    reading.consumer.seek_to_beginning(T0)
    (lookup,) = reading.sent()
    reading.answer(old, Reading.fetch_response(old, (4, 5, 9)))
    assert (reading.consumer.position(T0), reading.consumer.read) == (None, {})
    found = ListedOffset(Errors.NONE, offset=2, leader_epoch=0)
    reading.answer(lookup, ListOffsetsResponse({T0: found}))
    assert reading.consumer.position(T0) == 2


def test_a_new_leader_is_asked_about_the_position_first() -> None:
    reading, asked = validating()
    assert asked.destination == Address("broker", 2)
    assert asked.body == OffsetsForLeaderEpochRequest({T0: OffsetForLeaderPartition(4, 7)})
    assert reading.consumer.read == {T0: [Stretch(4, 5, 6)]}
    end = LeaderEpochEnd(Errors.NONE, EpochEndOffset(4, 6))
    reading.answer(asked, OffsetsForLeaderEpochResponse({T0: end}))
    assert (reading.consumer.truncations, reading.consumer.position(T0)) == ([], 6)
    (fetch,) = reading.consumer.take_messages()
    assert isinstance(fetch.body, FetchRequest)
    # The same leader is not asked again; a newer epoch is.
    reading.lead({0: (2, 7)})
    reading.answer(fetch, Reading.fetch_response(fetch))
    (fetch,) = reading.consumer.take_messages()
    assert isinstance(fetch.body, FetchRequest)
    reading.lead({0: (2, 8)})
    reading.consumer.on_timer(0.0)
    reading.answer(fetch, Reading.fetch_response(fetch))
    (again,) = reading.consumer.take_messages()
    assert again.body == OffsetsForLeaderEpochRequest({T0: OffsetForLeaderPartition(4, 8)})


def test_a_position_without_an_epoch_needs_no_validation() -> None:
    reading = Reading()
    reading.consumer.seek(T0, 5)
    reading.lead({0: (2, 9)})
    (asked,) = reading.sent()
    assert asked.destination == Address("broker", 2) and isinstance(asked.body, FetchRequest)


@pytest.mark.parametrize(
    ("reset", "end", "position", "error"),
    [
        ("earliest", (4, 5), 5, None),
        ("latest", (2, 3), 3, None),
        ("earliest", (-1, -1), None, None),
        (
            "none",
            (4, 5),
            None,
            "Detected log truncation of partition t-0: the consumer was at offset 6 of epoch 4, "
            "but the leader's epoch 4 ends at offset 5",
        ),
        (
            "none",
            (-1, -1),
            None,
            "Detected log truncation of partition t-0: the consumer was at offset 6 of epoch 4",
        ),
    ],
)
def test_a_log_that_ends_below_the_position_was_truncated(
    reset: str, end: tuple[int, int], position: int | None, error: str | None
) -> None:
    reading, asked = validating(auto_offset_reset=reset)
    answer = LeaderEpochEnd(Errors.NONE, EpochEndOffset(*end))
    reading.answer(asked, OffsetsForLeaderEpochResponse({T0: answer}))
    consumer = reading.consumer
    assert consumer.truncations == [LogTruncation(T0, Position(6, 4, 4), end[1])]
    assert consumer.position(T0) == position
    assert consumer.errors == ({} if error is None else {T0: error})
    types = [type(message.body) for message in consumer.take_messages()]
    if error is not None:
        assert (types, consumer.next_due_ms()) == ([], 300_000.0)
    else:
        assert types == [ListOffsetsRequest if position is None else FetchRequest]


def test_an_offset_out_of_range_is_reset_or_an_error() -> None:
    out = {"error": Errors.OFFSET_OUT_OF_RANGE, "log_start_offset": 7, "log_end_offset": 9}
    reading = Reading()
    reading.consumer.seek(T0, 5)
    reading.fetched(**out)
    (asked,) = reading.consumer.take_messages()
    assert asked.body == ListOffsetsRequest({T0: ListOffsetsPartition(EARLIEST_TIMESTAMP, 4)})
    reading = Reading(auto_offset_reset="none")
    reading.consumer.seek(T0, 5)
    assert reading.consumer.errors == {}
    reading.fetched(**out)
    assert reading.consumer.errors == {
        T0: "Fetch position 5 is out of range for partition t-0: the log start offset is 7 and "
        "the high watermark is 9"
    }
    assert reading.sent(1_000.0) == []
    reading.consumer.seek_to_end(T0)
    assert reading.consumer.errors == {} and len(reading.sent()) == 1


def test_a_paused_consumer_looks_up_offsets_but_fetches_nothing() -> None:
    reading = Reading()
    reading.consumer.is_paused = True
    reading.listed()
    assert (reading.consumer.position(T0), reading.sent(1_000.0)) == (5, [])
    assert reading.consumer.next_due_ms() == 300_000.0
    reading.consumer.is_paused = False
    assert reading.consumer.next_due_ms() == 0.0
    assert [type(message.body) for message in reading.sent()] == [FetchRequest]


def test_a_partition_that_is_assigned_again_keeps_its_position() -> None:
    reading = Reading(T0, T1)
    reading.consumer.seek(T0, 5)
    reading.consumer.assign([T0])
    assert (reading.consumer.partitions, reading.consumer.position(T0)) == ((T0,), 5)
    (asked,) = reading.sent()
    reading.consumer.assign([])
    reading.answer(asked, Reading.fetch_response(asked, (4, 5, 9)))
    assert (reading.consumer.read, reading.sent(1_000.0)) == ({}, [])


def test_without_a_leader_metadata_is_asked_for() -> None:
    reading = Reading()
    reading.lead({0: (-1, 4)})
    assert reading.sent() == []
    assert reading.consumer.network.metadata.next_update_ms() == 100.0
    assert [message.body.__class__.__name__ for message in reading.sent(100.0)] == [
        "MetadataRequest"
    ]


def test_kept_records_stop_the_fetching_until_they_are_taken() -> None:
    consumer = Consumer(CLIENT, (1, 2), ConsumerConfig(), keeps_records=True)
    reading = Reading()
    reading.consumer = consumer
    reading.lead({0: (1, 4)})
    consumer.assign([T0])
    consumer.seek(T0, 5)
    reading.fetched((4, 3, 6))
    assert consumer.has_records and reading.sent(1_000.0) == []
    (read,) = consumer.take_records()
    assert (read.topic_partition, read.offset, read.stretches) == (T0, 5, (Stretch(4, 5, 6),))
    assert not consumer.has_records and consumer.take_records() == []
    reading.fetched((4, 6, 7))
    consumer.take_messages()
    consumer.seek(T0, 0)
    assert not consumer.has_records
