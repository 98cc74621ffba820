"""The outcome of a producer's batch, depending on the responses to it.

The tests write the responses of the brokers.

Source: Sender and RecordAccumulator (org.apache.kafka.clients.producer.internals).
"""

from __future__ import annotations

from typing import Any

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import InitProducerIdRequest, InitProducerIdResponse
from klamm.cluster.data_requests import ProducedPartition, ProduceRequest, ProduceResponse
from klamm.cluster.records import Record, Stretch
from klamm.cluster.requests import Address, Disconnected, Message
from klamm.cluster.types import TopicPartition
from klamm.world.clients.batches import Counted
from klamm.world.clients.config import ProducerConfig
from klamm.world.clients.producer import Producer
from klamm.world.clients.ranges import Acknowledged
from tests.unit.brokers.test_client_parts import CLIENT, T0, metadata


class Producing:
    """A producer of t-0, which broker 1 leads; the tests write the responses."""

    def __init__(self, **settings: Any) -> None:
        self.producer = Producer(CLIENT, (1, 2), ProducerConfig(**{"acks": -1, **settings}))
        self.producer.network.metadata.add_topic("t")
        self.producer.network.metadata.update(metadata(1, 4), 0.0)

    def send(self, count: int = 1, now_ms: float = 0.0) -> Message:
        """Send records; return the request."""
        self.producer.send(T0, Counted(count, 10 * count), now_ms)
        (asked,) = self.due(now_ms)
        return asked

    def due(self, now_ms: float) -> list[Message]:
        self.producer.on_timer(now_ms)
        return self.producer.take_messages()

    def answer(
        self, asked: Message, error: Errors, base_offset: int = -1, now_ms: float = 0.0
    ) -> None:
        body = ProduceResponse({T0: ProducedPartition(error, base_offset, 4)})
        self.producer.receive(
            Message(asked.destination, CLIENT, asked.correlation_id, body), now_ms
        )

    def outcome(self) -> str:
        """What became of the only batch."""
        producer = self.producer
        (found,) = [
            name for name in ("acknowledged", "failed", "indefinite") if getattr(producer, name)
        ] or [f"undecided {producer.undecided[T0].name}"]
        return found


@pytest.mark.parametrize(
    ("error", "base_offset", "outcome", "is_stale"),
    [
        (Errors.NONE, 7, "acknowledged", False),
        (Errors.DUPLICATE_SEQUENCE_NUMBER, 7, "acknowledged", False),
        (Errors.MESSAGE_TOO_LARGE, -1, "failed", False),
        (Errors.MESSAGE_TOO_LARGE, 7, "indefinite", False),
        (Errors.TOPIC_AUTHORIZATION_FAILED, -1, "failed", False),
        (Errors.NOT_LEADER_OR_FOLLOWER, -1, "undecided NOT_LEADER_OR_FOLLOWER", True),
        (Errors.KAFKA_STORAGE_ERROR, -1, "undecided KAFKA_STORAGE_ERROR", True),
        (Errors.NOT_ENOUGH_REPLICAS, -1, "undecided NOT_ENOUGH_REPLICAS", False),
        (Errors.CORRUPT_MESSAGE, -1, "undecided CORRUPT_MESSAGE", False),
        (Errors.UNKNOWN_SERVER_ERROR, -1, "failed", False),
    ],
)
def test_the_response_decides_the_outcome_of_a_batch(
    error: Errors, base_offset: int, outcome: str, is_stale: bool
) -> None:
    producing = Producing()
    producing.answer(producing.send(2), error, base_offset, now_ms=10.0)
    producer = producing.producer
    assert producing.outcome() == outcome
    assert (producer.network.metadata.next_update_ms() < 1_000) == is_stale
    assert producer.undecided_count == (2 if outcome.startswith("undecided") else 0)
    if outcome == "acknowledged":
        assert producer.acknowledged == {T0: [Acknowledged(0, Stretch(4, 7, 9))]}
    elif producer.undecided_count:
        producer.network.metadata.update(metadata(2, 5), 10.0)
        assert producing.due(109.0) == []
        (again,) = producing.due(110.0)
        assert again.destination == Address("broker", 2)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Errors.REQUEST_TIMED_OUT, "indefinite"),
        (Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "indefinite"),
        (Errors.NOT_ENOUGH_REPLICAS, "failed"),
        (None, "indefinite"),
    ],
)
def test_a_batch_that_may_be_stored_stays_in_doubt(error: Errors | None, outcome: str) -> None:
    producing = Producing(retries=1)
    asked = producing.send()
    if error is None:
        producing.producer.receive(Message(asked.destination, CLIENT, 0, Disconnected()), 0.0)
        producing.producer.network.metadata.update(metadata(1, 4), 0.0)
    else:
        producing.answer(asked, error)
    (again,) = producing.due(100.0)
    producing.answer(again, Errors.NOT_ENOUGH_REPLICAS, now_ms=100.0)
    assert producing.outcome() == outcome
    lost = (producing.producer.failed | producing.producer.indefinite)[T0]
    assert lost == [(0, 1, Errors.NOT_ENOUGH_REPLICAS, "")]


def test_queued_batches_expire_in_order_and_sent_ones_are_in_doubt() -> None:
    config = {"request_timeout_ms": 1_000, "delivery_timeout_ms": 1_000}
    producing = Producing(max_in_flight_requests_per_connection=1, **config)
    producer = producing.producer
    producing.send(1)
    for count, now_ms in ((2, 10.0), (3, 20.0)):
        producer.send(T0, Counted(count, 10), now_ms)
        assert producing.due(now_ms) == []
    assert producer.next_due_ms() == 1_000.0
    producer.on_timer(1_015.0)
    assert [one[:2] for one in producer.indefinite[T0]] == [(0, 1)]
    assert producer.failed[T0] == [
        (1, 2, Errors.NONE, "Expiring 2 record(s) for t-0:1005 ms has passed since batch creation")
    ]
    assert (producer.undecided_count, producer.undecided_in(T0), producer.sent_count) == (3, 3, 6)
    assert producer.undecided_in(TopicPartition("t", 1)) == 0
    producer.give_up()
    assert producer.undecided_count == 0
    assert [one[:2] + one[3:] for one in producer.failed[T0][1:]] == [
        (3, 3, "The producer is closed forcefully.")
    ]


def test_keys_and_values_without_an_outcome_are_counted_in_bytes() -> None:
    producing = Producing(max_in_flight_requests_per_connection=1)
    producing.producer.send(T0, (Record(0, b"key", b"value"), Record(0, None, b"v")), 0.0)
    (asked,) = producing.due(0.0)
    producing.producer.send(T0, (Record(0, b"k", None),), 0.0)
    producing.producer.send(T0, Counted(5, 50), 0.0)
    assert producing.due(0.0) == []
    assert sorted(producing.producer.undecided_batch_sizes()) == [0, 1, 9]
    producing.answer(asked, Errors.NONE, 0)
    assert sorted(producing.producer.undecided_batch_sizes()) == [0, 1]


def test_sent_batches_are_in_doubt_when_the_producer_is_closed() -> None:
    producing = Producing()
    producing.send(1)
    producing.producer.give_up()
    assert producing.outcome() == "indefinite"


def test_no_more_requests_are_sent_than_may_be_in_flight() -> None:
    producing = Producing(max_in_flight_requests_per_connection=2)
    asked = [producing.send(), producing.send()]
    producing.producer.send(T0, Counted(1, 10), 0.0)
    assert producing.due(0.0) == []
    producing.answer(asked[0], Errors.NONE, 0)
    assert len(producing.producer.take_messages()) == 1


def test_a_response_without_the_partition_is_a_lost_connection() -> None:
    producing = Producing()
    asked = producing.send()
    body = ProduceResponse({})
    producing.producer.receive(Message(asked.destination, CLIENT, asked.correlation_id, body), 0.0)
    assert producing.producer.undecided == {T0: Errors.NETWORK_EXCEPTION}


def test_the_id_is_asked_for_again_after_the_backoff() -> None:
    producing = Producing(enable_idempotence=True)
    assert producing.due(0.0) == [], "without records it needs no id"
    asked = producing.send()
    assert asked.body == InitProducerIdRequest()
    refused = InitProducerIdResponse(Errors.COORDINATOR_NOT_AVAILABLE, -1, -1)
    producing.producer.receive(
        Message(asked.destination, CLIENT, asked.correlation_id, refused), 5.0
    )
    assert producing.producer.next_due_ms() == 100.0
    assert producing.due(99.0) == []
    (asked,) = producing.due(100.0)
    granted = InitProducerIdResponse(Errors.NONE, 7, 3)
    producing.producer.receive(
        Message(asked.destination, CLIENT, asked.correlation_id, granted), 100.0
    )
    (message,) = producing.producer.take_messages()
    assert isinstance(message.body, ProduceRequest)
    produced = message.body.partitions[T0]
    assert (produced.producer_id, produced.producer_epoch, produced.base_sequence) == (7, 3, 0)
    producing.answer(message, Errors.UNKNOWN_PRODUCER_ID, now_ms=100.0)
    assert producing.outcome() == "undecided UNKNOWN_PRODUCER_ID"
    assert producing.due(199.0) == []
    (again,) = producing.due(200.0)
    assert again.body.partitions == {T0: produced._replace(producer_epoch=4)}
