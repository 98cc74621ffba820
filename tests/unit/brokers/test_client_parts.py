"""Parts of clients by themselves: sequences of idempotent producers, connections, metadata.

Sources: TransactionManager, RecordAccumulator, NetworkClient, Metadata (org.apache.kafka.clients).
"""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
)
from klamm.cluster.data_requests import ProducedPartition, ProduceRequest, ProduceResponse
from klamm.cluster.errors import InvalidConfig
from klamm.cluster.records import SEQUENCE_MAX, Interval, IntervalRecords, Stretch
from klamm.cluster.requests import Address, Disconnected, Message
from klamm.cluster.types import TopicPartition
from klamm.world.clients.batches import Batch, Counted, PartitionBatches
from klamm.world.clients.config import ClientConfig, ProducerConfig
from klamm.world.clients.network_client import NetworkClient
from klamm.world.clients.producer import EPOCH_MAX, Idempotence, Producer
from klamm.world.clients.ranges import Acknowledged, add_acknowledged, readable_part
from tests.unit.brokers.network import registered

CLIENT = Address("client", 1)
T0 = TopicPartition("t", 0)
OUT_OF_ORDER = Errors.OUT_OF_ORDER_SEQUENCE_NUMBER


class Sent:
    """A producer with id 7 and three batches of ten records under way."""

    def __init__(self) -> None:
        self.identity = Idempotence()
        self.partition = PartitionBatches(T0)
        self.identity.begin(7, 0)
        self.batches = [self.send() for _ in range(3)]

    def send(self) -> Batch:
        """One more batch."""
        batch = Batch(0, 10, Counted(10, 1000), 0.0)
        assert self.identity.may_send(self.partition, batch)
        self.identity.assign_sequence(self.partition, batch)
        return batch

    def may_send_new(self) -> bool:
        return self.identity.may_send(self.partition, Batch(0, 1, Counted(1, 1), 0.0))

    def numbers(self) -> list[tuple[int, int]]:
        """(epoch, base sequence) of what is not decided."""
        return [(batch.producer.epoch, batch.base_sequence) for batch in self.partition.tracked]


@pytest.fixture
def sent() -> Sent:
    return Sent()


def test_nothing_is_sent_before_the_producer_has_an_id() -> None:
    identity = Idempotence()
    assert not identity.may_send(PartitionBatches(T0), Batch(0, 1, Counted(1, 1), 0.0))


def test_sequences_continue_and_restart_after_the_last(sent: Sent) -> None:
    assert sent.numbers() == [(0, 0), (0, 10), (0, 20)]
    sent.partition.next_sequence = SEQUENCE_MAX - 4
    last = sent.send()
    assert (last.base_sequence, last.next_sequence) == (SEQUENCE_MAX - 4, 5)


def test_retries_are_sent_one_by_one_in_order(sent: Sent) -> None:
    first, second, third = sent.batches
    for batch in (third, first, second):
        sent.partition.put_back(batch)
    assert list(sent.partition.waiting) == [first, second, third]
    assert [sent.identity.may_send(sent.partition, b) for b in sent.batches] == [True, False, False]
    sent.identity.on_acknowledged(sent.partition, first)
    assert sent.identity.may_send(sent.partition, second)


def test_a_gap_before_a_batch_that_is_not_the_next_fills_itself(sent: Sent) -> None:
    _, second, _ = sent.batches
    assert sent.identity.can_retry(sent.partition, second, OUT_OF_ORDER)
    sent.identity.bump_epoch_if_needed()
    assert sent.numbers() == [(0, 0), (0, 10), (0, 20)]


def test_a_gap_before_the_next_batch_resets_all_at_another_epoch(sent: Sent) -> None:
    first, second, third = sent.batches
    sent.identity.on_acknowledged(sent.partition, first)
    assert sent.identity.can_retry(sent.partition, second, OUT_OF_ORDER)
    sent.identity.bump_epoch_if_needed()
    assert sent.numbers() == [(1, 0), (1, 10)]
    assert third.is_reset
    assert sent.identity.can_retry(sent.partition, third, OUT_OF_ORDER)
    sent.identity.bump_epoch_if_needed()
    assert sent.identity.producer.epoch == 1, "it has another sequence already"


def test_a_batch_in_doubt_that_is_given_up_stops_new_ones_until_the_others_are_decided(
    sent: Sent,
) -> None:
    first, second, third = sent.batches
    first.is_in_doubt = True
    sent.identity.on_failed(sent.partition, first)
    assert not sent.may_send_new()
    sent.identity.on_acknowledged(sent.partition, second)
    assert not sent.may_send_new()
    sent.identity.on_acknowledged(sent.partition, third)
    assert sent.may_send_new(), "it was stored: what followed on it was taken"
    sent.identity.bump_epoch_if_needed()
    assert sent.identity.producer.epoch == 0


def test_if_the_last_batch_is_in_doubt_the_next_one_has_another_epoch(sent: Sent) -> None:
    first, second, third = sent.batches
    sent.identity.on_acknowledged(sent.partition, first)
    sent.identity.on_acknowledged(sent.partition, second)
    third.is_in_doubt = True
    sent.identity.on_failed(sent.partition, third)
    sent.identity.bump_epoch_if_needed()
    batch = sent.send()
    assert (batch.producer.epoch, batch.base_sequence) == (1, 0)


def test_a_batch_that_is_certainly_not_stored_leaves_a_gap_at_once(sent: Sent) -> None:
    first, _, _ = sent.batches
    sent.identity.on_failed(sent.partition, first)
    sent.identity.bump_epoch_if_needed()
    assert sent.numbers() == [(1, 0), (1, 10)]


def test_other_partitions_take_the_next_epoch_once_nothing_is_under_way(sent: Sent) -> None:
    other = PartitionBatches(T0)
    batch, after = (Batch(0, 5, Counted(5, 500), 0.0) for _ in range(2))
    sent.identity.assign_sequence(other, batch)
    sent.identity.on_failed(sent.partition, sent.batches[0])
    sent.identity.bump_epoch_if_needed()
    assert not sent.identity.may_send(other, after)
    sent.identity.on_acknowledged(other, batch)
    sent.identity.assign_sequence(other, after)
    assert (batch.producer.epoch, after.producer.epoch, after.base_sequence) == (0, 1, 0)


def test_after_the_last_epoch_comes_another_id(sent: Sent) -> None:
    sent.identity.begin(7, EPOCH_MAX)
    sent.identity.on_failed(sent.partition, sent.batches[0])
    sent.identity.bump_epoch_if_needed()
    assert not sent.may_send_new()
    sent.identity.begin(8, 0)
    sent.identity.bump_epoch_if_needed()
    assert {batch.producer.producer_id for batch in sent.partition.tracked} == {8}


@pytest.mark.parametrize(
    "settings",
    [
        {"acks": 1, "enable_idempotence": True},
        {"acks": -1, "enable_idempotence": True, "retries": 0},
        {"acks": -1, "enable_idempotence": True, "max_in_flight_requests_per_connection": 6},
        {"max_in_flight_requests_per_connection": 0},
        {"delivery_timeout_ms": 1_000},
        {"compression_type": "brotli"},
    ],
)
def test_contradictory_producer_configs_are_refused(settings: dict[str, int | str]) -> None:
    with pytest.raises(InvalidConfig):
        ProducerConfig(**settings)  # type: ignore[arg-type]


# -- connections


def network() -> NetworkClient:
    return NetworkClient(CLIENT, ClientConfig(request_timeout_ms=1_000), (1, 2))


def metadata(leader: int, epoch: int, error: Errors = Errors.NONE) -> MetadataResponse:
    partition = PartitionMetadata(error, 0, leader, epoch, (1, 2), (1, 2))
    topic = TopicMetadata(Errors.NONE, "t", None, (partition,))
    return MetadataResponse((registered(1), registered(2)), 1, (topic,))


def test_a_request_without_an_answer_ends_with_its_connection_and_all_others_there() -> None:
    client = network()
    first, second = (client.send(1, InitProducerIdRequest(), at) for at in (0.0, 500.0))
    other = client.send(2, InitProducerIdRequest(), 500.0)
    assert client.on_timer(999.0) == []
    assert [ended.correlation_id for ended in client.on_timer(1_000.0)] == [first, second]
    assert client.ready_ms(1) == 1_050.0
    assert [ended.correlation_id for ended in client.on_timer(1_500.0)] == [other]
    for backoff_ms in (100.0, 200.0, 400.0, 800.0, 1_000.0, 1_000.0):
        assert client.on_disconnected(1, 2_000.0) == []
        assert client.ready_ms(1) == 2_000.0 + backoff_ms


def test_the_reconnect_backoff_begins_again_after_a_response() -> None:
    client = network()
    for _ in range(3):
        client.on_disconnected(1, 0.0)
    number = client.send(1, InitProducerIdRequest(), 0.0)
    body = InitProducerIdResponse(Errors.NONE, 7, 0)
    client.receive(Message(Address("broker", 1), CLIENT, number, body), 1.0)
    client.on_disconnected(1, 1_000.0)
    assert client.ready_ms(1) == 1_050.0


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_refused_batch_is_sent_again_as_often_as_retries_says(retries: int) -> None:
    producer = Producer(CLIENT, (1,), ProducerConfig(acks=-1, retries=retries))
    producer.network.metadata.update(metadata(1, 0), 0.0)
    producer.send(T0, Counted(1, 10), 0.0)
    attempts = 0
    for now_ms in range(0, 2_000, 100):
        producer.on_timer(now_ms)
        for message in producer.take_messages():
            body: MetadataResponse | ProduceResponse = metadata(1, 0)
            if isinstance(message.body, ProduceRequest):
                attempts += 1
                body = ProduceResponse({T0: ProducedPartition(Errors.NOT_LEADER_OR_FOLLOWER)})
            answered = Message(message.destination, CLIENT, message.correlation_id, body)
            producer.receive(answered, now_ms)
    assert attempts == retries + 1
    assert list(producer.failed) == [T0]


@pytest.mark.parametrize(
    ("added", "merged"),
    [
        (Acknowledged(5, Stretch(0, 25, 27)), [Acknowledged(0, Stretch(0, 20, 27))]),
        (Acknowledged(6, Stretch(0, 25, 27)), None),
        (Acknowledged(5, Stretch(0, 26, 28)), None),
        (Acknowledged(5, Stretch(1, 25, 27)), None),
    ],
)
def test_acknowledged_records_that_follow_each_other_are_one_entry(
    added: Acknowledged, merged: list[Acknowledged] | None
) -> None:
    first = Acknowledged(0, Stretch(0, 20, 25))
    known = [first]
    add_acknowledged(known, added)
    assert known == (merged or [first, added])


@pytest.mark.parametrize(
    ("offset", "read"),
    [
        (10, [Stretch(1, 10, 15), Stretch(2, 15, 30)]),
        (12, [Stretch(1, 12, 15), Stretch(2, 15, 30)]),
        (15, [Stretch(2, 15, 30)]),
        (20, [Stretch(2, 20, 30)]),
        (29, [Stretch(2, 29, 30)]),
        (30, []),
    ],
)
def test_records_before_the_position_are_not_read(offset: int, read: list[Stretch]) -> None:
    """The first of the fetched records may come before the offset that was asked for."""
    bounds = ((1, 10, 15), (2, 15, 20), (2, 20, 30))
    records = IntervalRecords(tuple(Interval(*one, one[2] - one[1]) for one in bounds))
    assert readable_part(records, offset).stretches == read


def test_a_repeated_or_foreign_response_is_ignored() -> None:
    client = network()
    number = client.send(1, InitProducerIdRequest(), 0.0)
    body = metadata(1, 0)
    assert client.receive(Message(Address("broker", 1), CLIENT, number + 1, body), 1.0) == []
    assert client.receive(Message(Address("broker", 2), CLIENT, number, body), 1.0) == []
    assert client.metadata.update_count == 0
    client.receive(Message(Address("broker", 1), CLIENT, number, body), 1.0)
    assert client.receive(Message(Address("broker", 1), CLIENT, number, body), 1.0) == []
    assert client.metadata.update_count == 1


def test_metadata_is_requested_from_broker_after_broker_until_it_is_complete() -> None:
    client = network()
    client.metadata.add_topic("t")
    asked: list[int] = []
    now_ms = 0.0
    for _ in range(4):
        assert client.on_timer(now_ms) == []
        [message] = client.take_messages()
        assert message.body == MetadataRequest(("t",))
        asked.append(message.destination.id)
        unknown = metadata(-1, 0, Errors.LEADER_NOT_AVAILABLE)
        answer = Message(message.destination, CLIENT, message.correlation_id, unknown)
        client.receive(answer, now_ms)
        assert client.next_due_ms() == now_ms + 100.0
        now_ms += 100.0
    assert asked == [2, 1, 2, 1]
    client.metadata.update(metadata(2, 3), now_ms)
    assert client.next_due_ms() == now_ms + 300_000.0


def test_brokers_that_metadata_names_are_asked_before_the_first_ones() -> None:
    client = network()
    named = MetadataResponse((registered(7), registered(2)), 1, ())
    client.metadata.update(named, 0.0)
    assert client.metadata.brokers == (7, 2, 1)
    assert sorted(client.any_broker() for _ in range(3)) == [1, 2, 7]


def test_metadata_of_an_older_leader_epoch_is_not_taken() -> None:
    client = network()
    client.metadata.update(metadata(2, 3), 0.0)
    client.metadata.update(metadata(1, 2), 0.0)
    assert client.metadata.leader_of(T0) == (2, 3)
    client.metadata.update(metadata(1, 4), 0.0)
    assert client.metadata.leader_of(T0) == (1, 4)


def test_the_leaders_of_a_deleted_topic_are_forgotten() -> None:
    client = network()
    client.metadata.update(metadata(2, 3), 0.0)
    deleted = TopicMetadata(Errors.UNKNOWN_TOPIC_OR_PARTITION, "t", None, ())
    client.metadata.update(MetadataResponse((registered(1),), 1, (deleted,)), 0.0)
    assert client.metadata.leader_of(T0) == (-1, -1)
    assert client.metadata.topic_errors == {"t": Errors.UNKNOWN_TOPIC_OR_PARTITION}
    client.metadata.update(metadata(1, 0), 0.0)
    assert client.metadata.topic_errors == {}
    assert client.metadata.leader_of(T0) == (1, 0), "a new topic of that name starts at epoch 0"


def test_a_batch_expires_at_the_time_at_which_it_is_due() -> None:
    sent_ms = 412_565.7219311279
    producer = Producer(CLIENT, (1,), ProducerConfig(acks=-1))
    producer.send(T0, Counted(1, 10), sent_ms)
    assert sent_ms + 120_000 - 120_000 < sent_ms, "floats round, or this test proves nothing"
    producer.on_timer(sent_ms + 120_000)
    assert not producer.undecided_count
    assert list(producer.failed) == [T0]


# -- what a producer costs


def answer(producer: Producer, partitions: int) -> None:
    """Say to all that a producer asks what it wants to hear, until it asks no more."""
    while messages := producer.take_messages():
        for message in messages:
            body: MetadataResponse | ProduceResponse
            if isinstance(message.body, ProduceRequest):
                stored = ProducedPartition(Errors.NONE, 0, 0)
                body = ProduceResponse(dict.fromkeys(message.body.partitions, stored))
            else:
                led = (
                    PartitionMetadata(Errors.NONE, n, 1, 0, (1,), (1,)) for n in range(partitions)
                )
                topic = TopicMetadata(Errors.NONE, "t", None, tuple(led))
                body = MetadataResponse((registered(1),), 1, (topic,))
            source = message.destination
            producer.receive(Message(source, CLIENT, message.correlation_id, body), 0.0)


def calls_a_record(partitions: int) -> int:
    """Calls of functions for one more record, after one was stored in each partition."""
    producer = Producer(CLIENT, (1,), ProducerConfig(acks=-1))
    for number in range(partitions):
        producer.send(TopicPartition("t", number), Counted(1, 10), 0.0)
    producer.on_timer(0.0)
    answer(producer, partitions)
    assert sum(map(len, producer.acknowledged.values())) == partitions
    calls = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        producer.send(T0, Counted(1, 10), 0.0)
        assert producer.next_due_ms() == 0.0
        producer.on_timer(0.0)
        answer(producer, partitions)
        assert producer.next_due_ms() == 300_000.0
    finally:
        sys.setprofile(None)
    assert not producer.undecided_count
    return calls


def test_a_new_leader_gets_no_later_batch_before_the_first_one() -> None:
    """KAFKA-14359: a new leader would accept any sequence as first, then refuse the real one."""
    config = ProducerConfig(acks=-1, enable_idempotence=True)
    producer = Producer(CLIENT, (1, 2), config)

    def produced_to() -> list[tuple[int, int]]:
        """Broker and base sequence of the batches sent since; other questions are answered."""
        found = []
        while messages := producer.take_messages():
            for message in messages:
                body = message.body
                if isinstance(body, ProduceRequest):
                    found.append((message.destination.id, body.partitions[T0].base_sequence))
                elif isinstance(body, InitProducerIdRequest):
                    reply(message, InitProducerIdResponse(Errors.NONE, 7, 0))
                else:
                    reply(message, metadata(*leader))
        return found

    def reply(message: Message, body: MetadataResponse | InitProducerIdResponse) -> None:
        producer.receive(
            Message(message.destination, CLIENT, message.correlation_id, body), now_ms=0.0
        )

    leader = (1, 0)
    producer.send(T0, Counted(10, 10), 0.0)
    producer.on_timer(0.0)
    assert produced_to() == [(1, 0)]
    leader = (2, 1)
    producer.network.metadata.update(metadata(*leader), 0.0)
    producer.send(T0, Counted(10, 10), 0.0)
    producer.on_timer(0.0)
    assert produced_to() == [], "the first batch is still under way to the former leader"
    gone = Message(Address("broker", 1), CLIENT, 0, Disconnected())
    producer.receive(gone, now_ms=0.0)
    producer.on_timer(1_000.0)
    assert produced_to() == [(2, 0)]


def test_a_record_costs_a_producer_of_many_partitions_no_more_than_one_of_few() -> None:
    assert calls_a_record(partitions=1_000) == calls_a_record(partitions=2)
