"""librdkafka (confluent-kafka) and kafka-python on klamm's listeners, while brokers fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import confluent_kafka
import kafka
import pytest

from klamm.cluster.requests import CreatableTopic, CreateTopicsRequest
from klamm.runtime.actions import Kill, MoveController, Start
from klamm.server.cluster_server import ClusterServer
from tests.listeners import BROKERS, bootstrap, config_of, free_ports

RECORDS = 600
PARTITIONS = {0: (1, 2, 0), 1: (2, 0, 1), 2: (0, 1, 2), 3: (1, 0, 2)}
PATIENCE_S = 60.0

pytestmark = pytest.mark.slow


class Member(Protocol):
    """A consumer that is a member of the group g, which reads the topic t."""

    def poll(self) -> list[bytes]:
        """Return the values that arrive within 100 ms, and commit their offsets."""

    def close(self) -> None:
        """Leave the group."""


class LibrdkafkaMember:
    def __init__(self, servers: list[str]) -> None:
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": ",".join(servers),
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe(["t"])

    def poll(self) -> list[bytes]:
        records = self._consumer.consume(RECORDS, 0.1)
        values = [record.value() for record in records if record.error() is None]
        if values:
            self._consumer.commit(asynchronous=True)
        return values

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonMember:
    def __init__(self, servers: list[str]) -> None:
        self._consumer = kafka.KafkaConsumer(
            "t",
            bootstrap_servers=servers,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    def poll(self) -> list[bytes]:
        polled = self._consumer.poll(100)
        if polled:
            self._consumer.commit_async()
        return [record.value for records in polled.values() for record in records]

    def close(self) -> None:
        self._consumer.close()


def librdkafka_produce(servers: list[str], halfway: Callable[[], None]) -> list[bytes]:
    """Produce RECORDS values, and return those that were acknowledged."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": ",".join(servers), "enable.idempotence": True, "linger.ms": 0}
    )
    acknowledged: list[bytes] = []

    def delivered(error: object, record: confluent_kafka.Message) -> None:
        if error is None:
            acknowledged.append(record.value())

    for number in range(RECORDS):
        producer.produce("t", b"%d" % number, partition=number % 4, on_delivery=delivered)
        producer.poll(0)
        if number == RECORDS // 2:
            halfway()
    assert producer.flush(PATIENCE_S) == 0
    return acknowledged


def kafka_python_produce(servers: list[str], halfway: Callable[[], None]) -> list[bytes]:
    """Produce RECORDS values, and return those that were acknowledged."""
    producer = kafka.KafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
    sent = {}
    for number in range(RECORDS):
        value = b"%d" % number
        sent[value] = producer.send("t", value, partition=number % 4)
        if number == RECORDS // 2:
            halfway()
    producer.flush(PATIENCE_S)
    producer.close()
    return [value for value, future in sent.items() if future.succeeded()]


@pytest.fixture
def server(chroot: str, tmp_path: Path) -> Iterator[ClusterServer]:
    config = config_of(chroot, tmp_path, str(free_ports(BROKERS)))
    with ClusterServer(config) as opened:
        topic = CreatableTopic("t", assignments=PARTITIONS)
        opened.admin.create_topics(CreateTopicsRequest((topic,), 10_000))
        yield opened


@pytest.mark.parametrize("member", [LibrdkafkaMember, KafkaPythonMember])
@pytest.mark.parametrize("produce", [librdkafka_produce, kafka_python_produce])
def test_no_acknowledged_record_is_lost_when_a_leader_dies_and_the_controller_moves(
    server: ClusterServer,
    produce: Callable[[list[str], Callable[[], None]], list[bytes]],
    member: Callable[[list[str]], Member],
) -> None:
    def fail() -> None:
        server.operations.perform(MoveController())
        server.operations.perform(Kill(1))

    acknowledged = produce(bootstrap(server), fail)
    assert len(acknowledged) == RECORDS
    # Without three live brokers, as in Kafka, __consumer_offsets cannot be created.
    server.operations.perform(Start(1))
    reader = member(bootstrap(server))
    try:
        values = read(reader, RECORDS)
    finally:
        reader.close()
    # The producers are idempotent: no record is there twice.
    assert sorted(values) == sorted(acknowledged)


def read(member: Member, count: int) -> list[bytes]:
    """Poll until ``count`` values have arrived."""
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < count:
        assert time.monotonic() < deadline, len(values)
        values += member.poll()
    return values
