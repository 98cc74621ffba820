"""librdkafka, kafka-python and Kafka's Java client on klamm's listeners, while brokers fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import confluent_kafka
import kafka
import pytest

from klamm.cluster.requests import CreatableTopic, CreateTopicsRequest
from klamm.lab.actions.actions import Kill, MoveController, Start
from klamm.server.cluster_server import ClusterServer
from tests.group_members import (
    PATIENCE_S,
    KafkaPythonMember,
    LibrdkafkaMember,
    Member,
    read,
)
from tests.java_clients import java_params
from tests.listeners import BROKERS, bootstrap, brokers_in_metadata, config_of, free_ports
from tests.waiting import wait_until

RECORDS = 600
PARTITIONS = {0: (1, 2, 0), 1: (2, 0, 1), 2: (0, 1, 2), 3: (1, 0, 2)}
PYTHON_CLIENTS = (pytest.mark.client("confluent-kafka"), pytest.mark.client("kafka-python"))

pytestmark = pytest.mark.slow


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
def server(has_segments: bool, chroot: str, tmp_path: Path) -> Iterator[ClusterServer]:
    config = config_of(chroot, tmp_path, str(free_ports(BROKERS)), has_segments=has_segments)
    with ClusterServer(config) as opened:
        topic = CreatableTopic("t", assignments=PARTITIONS)
        opened.admin.create_topics(CreateTopicsRequest((topic,), 10_000))
        yield opened


@pytest.mark.client(
    shows="an idempotent producer, while a leader is killed and the controller moves; a group "
    "reads every acknowledged record once"
)
@pytest.mark.parametrize(
    ("produce", "member"),
    [
        pytest.param(librdkafka_produce, KafkaPythonMember, marks=PYTHON_CLIENTS),
        pytest.param(kafka_python_produce, LibrdkafkaMember, marks=PYTHON_CLIENTS),
        *java_params(lambda client: (partial(client.produce, count=RECORDS), client.member)),
    ],
)
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
    # As in Kafka, a broker answers Metadata before its first UpdateMetadata, without brokers and
    # topics. librdkafka would ask again only after topic.metadata.refresh.interval.ms (300 s).
    wait_until(lambda: brokers_in_metadata(server, 1) == BROKERS, what="broker 1 knows the brokers")
    reader = member(bootstrap(server))
    try:
        values = read(reader, RECORDS)
    finally:
        reader.close()
    # The producers are idempotent: no record is there twice.
    assert sorted(values) == sorted(acknowledged)
