"""Kafka's own clients on klamm's listeners."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as ClientPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.admin.configs.config_resource import ConfigResource
from klamm.brokers.logs.record_batch import COMPRESSIONS
from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.lab.actions.actions import Kill, Start
from klamm.server.cluster_server import ClusterServer
from klamm.wire.apis import APIS
from klamm.world.real.listeners import Listener, check_ports
from tests.listeners import (
    BROKERS,
    ask,
    assert_serves,
    bootstrap,
    config_of,
    create,
    free_ports,
    place,
)

KEYS = sorted({key for key, _ in APIS})
RECORDS = 300


@pytest.fixture
def server(chroot: str, tmp_path: Path) -> Iterator[ClusterServer]:
    with ClusterServer(config_of(chroot, tmp_path, str(free_ports(BROKERS)))) as opened:
        yield opened


async def consumed(server: ClusterServer, count: int) -> list[bytes]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap(server), auto_offset_reset="earliest", group_id=None
    )
    await consumer.start()
    try:
        consumer.assign([ClientPartition("t", 0)])
        return [(await asyncio.wait_for(consumer.getone(), 30)).value for _ in range(count)]
    finally:
        await consumer.stop()


@pytest.mark.client("aiokafka", shows="all compression types")
@pytest.mark.parametrize(
    "compression",
    [None, *(pytest.param(name, marks=pytest.mark.slow) for name in COMPRESSIONS[1:])],
)
def test_a_client_creates_a_topic_produces_and_consumes(
    server: ClusterServer, compression: str | None
) -> None:
    async def work() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap(server))
        await admin.start()
        try:
            created = await admin.create_topics([NewTopic("t", 1, 3)])
            assert [error for _, error, *_ in created.topic_errors] == [0]
            again = await admin.create_topics([NewTopic("t", 1, 3)])
            assert [error for _, error, *_ in again.topic_errors] == [36]
        finally:
            await admin.close()
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap(server), acks="all", compression_type=compression
        )
        await producer.start()
        try:
            sent = [await producer.send("t", b"%d" % number) for number in range(RECORDS)]
            offsets = [(await one).offset for one in sent]
        finally:
            await producer.stop()
        assert offsets == list(range(RECORDS))
        assert await consumed(server, RECORDS) == [b"%d" % number for number in range(RECORDS)]

    asyncio.run(work())


def test_a_producer_to_a_missing_topic_creates_it(server: ClusterServer) -> None:
    async def work() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap(server), acks="all")
        await producer.start()
        try:
            assert (await producer.send_and_wait("t", b"0")).offset == 0
            assert await producer.partitions_for("t") == {0}
        finally:
            await producer.stop()

    asyncio.run(work())


@pytest.mark.client(
    "aiokafka", shows="an idempotent producer, while a leader is killed; no record is lost"
)
@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_leader_is_killed(server: ClusterServer) -> None:
    create(server, (1, 2, 0))
    acknowledged: list[bytes] = []

    async def produce(halfway: asyncio.Event) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap(server), acks="all", enable_idempotence=True
        )
        await producer.start()
        try:
            for number in range(RECORDS):
                await producer.send_and_wait("t", b"%d" % number)
                acknowledged.append(b"%d" % number)
                if number == RECORDS // 2:
                    halfway.set()
        finally:
            await producer.stop()

    async def kill(halfway: asyncio.Event) -> None:
        await halfway.wait()
        await asyncio.to_thread(server.operations.perform, Kill(1))

    async def work() -> list[bytes]:
        halfway = asyncio.Event()
        await asyncio.gather(produce(halfway), kill(halfway))
        return await consumed(server, RECORDS)

    assert asyncio.run(work()) == acknowledged
    assert len(acknowledged) == RECORDS


def test_a_killed_brokers_port_closes_with_its_connections(server: ClusterServer) -> None:
    with socket.create_connection(place(server, 1), 10) as client:
        server.operations.perform(Kill(1))
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(place(server, 1), 10)
    server.operations.perform(Start(1))
    socket.create_connection(place(server, 1), 10).close()


def test_a_broker_that_is_not_the_controller_says_so(server: ClusterServer) -> None:
    other = next(id_ for id_ in range(BROKERS) if id_ != server.cluster.active_controller)
    # CreateTopics v0 of no topic: header, empty array, timeout.
    frame = struct.pack(">hhih", 19, 0, 7, -1) + struct.pack(">i", 1)
    frame += struct.pack(">h1sihii", 1, b"t", 1, 1, 0, 0) + struct.pack(">i", 1000)
    assert ask(server, other, frame) == struct.pack(">ii", 7, 1) + struct.pack(">h1sh", 1, b"t", 41)


def test_an_unknown_version_of_api_versions_is_answered_with_the_known_ones(
    server: ClusterServer,
) -> None:
    response = ask(server, 0, struct.pack(">hhih", 18, 99, 5, -1))
    correlation_id, error, count = struct.unpack_from(">ihi", response)
    assert (correlation_id, error) == (5, 35)
    assert len(response) == 10 + 6 * count


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\0" * 7, id="no header"),
        pytest.param(struct.pack(">hhih", 4, 0, 1, -1), id="a request of the controller"),
        pytest.param(struct.pack(">hhih", 3, 12, 1, -1), id="a version of a later Kafka"),
        pytest.param(struct.pack(">hhih", 3, 1, 1, -1) + b"\x7f\xff\xff\xff", id="cut off"),
    ],
)
def test_a_malformed_request_costs_its_own_connection(server: ClusterServer, frame: bytes) -> None:
    create(server, (0, 1, 2))
    assert ask(server, 0, frame) == b""
    assert_serves(server)


@pytest.mark.slow
def test_no_frame_ends_the_listener(server: ClusterServer) -> None:
    create(server, (0, 1, 2))

    @settings(max_examples=200)
    @given(
        key=st.sampled_from(KEYS),
        version=st.integers(0, 12),
        rest=st.binary(max_size=200),
    )
    def send(key: int, version: int, rest: bytes) -> None:
        with socket.create_connection(place(server, 0), 10) as client:
            frame = struct.pack(">hhi", key, version, 1) + rest
            client.sendall(struct.pack(">i", len(frame)) + frame)

    send()
    assert_serves(server)


def test_a_port_in_use_is_refused_before_a_broker_starts(chroot: str, tmp_path: Path) -> None:
    first = free_ports(BROKERS)
    with socket.create_server(("127.0.0.1", first + 2)):
        config = config_of(chroot, tmp_path, f"127.0.0.1:{first}")
        with pytest.raises(EnvironmentProblem) as caught:
            ClusterServer(config).open()
    said = f"broker 2 cannot listen on 127.0.0.1:{first + 2}: Address already in use"
    assert (caught.value.message, caught.value.hint) == (said, "choose another port")


def test_a_host_of_another_machine_is_refused() -> None:
    elsewhere = Listener("PLAINTEXT", lambda _: ("192.0.2.1", 9092))  # of no machine (RFC 5737)
    with pytest.raises(
        EnvironmentProblem, match=r"broker 3 cannot listen on 192\.0\.2\.1:"
    ) as caught:
        check_ports([elsewhere], [3])
    hint = "192.0.2.1 is no address of this machine: choose another host"
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("listen", "message"),
    [
        ("", "not a valid port"),
        ("localhost", "not a valid port"),
        ("0", "not a valid port"),
        ("65534", "the port of broker 2 would be 65536"),
        ("0.0.0.0:9092", "clients cannot connect to 0.0.0.0"),
    ],
)
def test_a_bad_place_to_listen_is_refused(tmp_path: Path, listen: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        config_of("z:1", tmp_path, listen)


def test_clients_find_brokers_at_the_advertised_listener(chroot: str, tmp_path: Path) -> None:
    listening, advertised = free_ports(BROKERS), free_ports(BROKERS)
    config = config_of(chroot, tmp_path, f"0.0.0.0:{listening}", f"klamm.example:{advertised}")
    with ClusterServer(config) as server:
        assert place(server, 1) == ("klamm.example", advertised + 1)
        with socket.create_connection(("127.0.0.1", listening + 1), 10) as client:
            # Metadata v1 of no topics.
            client.sendall(struct.pack(">ihhihi", 14, 3, 1, 9, -1, 0))
            assert b"klamm.example" + struct.pack(">i", advertised + 1) in client.recv(4096)
        entries = server.admin.describe_configs(ConfigResource("brokers", "1"))
        configs = {entry.name: entry.value for entry in entries}
        assert configs["advertised.listeners"] == f"PLAINTEXT://klamm.example:{advertised + 1}"


@pytest.mark.parametrize(
    ("advertised", "found"),
    [
        ("h", ("h", 9094)),
        ("h:19092", ("h", 19094)),
        ("[::1]", ("::1", 9094)),
        ("[::1]:19092", ("::1", 19094)),
    ],
)
def test_an_advertised_listener_has_a_host_and_perhaps_a_port(
    tmp_path: Path, advertised: str, found: tuple[str, int]
) -> None:
    config = config_of("z:1", tmp_path, "0.0.0.0:9092", advertised)
    spec = config.spec("run", None)
    end_point = spec.broker_info(2).end_points[0]
    assert (end_point.host, end_point.port) == found
    added = spec.with_broker(BROKERS, None).broker_info(BROKERS).end_points[0]
    assert (added.host, added.port) == (found[0], found[1] + 1)


@pytest.mark.parametrize(
    ("listen", "advertised", "message"),
    [
        (None, "h", "--advertised-listener requires --listen"),
        ("9092", "h:0", "--advertised-listener h:0: not a valid port"),
        ("9092", "h:65534", "the port of broker 2 would be 65536"),
        ("9092", "0.0.0.0", "clients cannot connect to 0.0.0.0"),
    ],
)
def test_a_bad_advertised_listener_is_refused(
    tmp_path: Path, listen: str | None, advertised: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        config_of("z:1", tmp_path, listen, advertised)


def test_transactions_are_refused(server: ClusterServer) -> None:
    create(server, (0, 1, 2))
    coordinator = struct.pack(">hhihh1sb", 10, 1, 9, -1, 1, b"x", 1)
    # The error follows the correlation id and the throttle time.
    assert struct.unpack_from(">h", ask(server, 0, coordinator), 8) == (35,)
    producer_id = struct.pack(">hhihh1si", 22, 0, 9, -1, 1, b"x", 60_000)
    assert struct.unpack_from(">h", ask(server, 0, producer_id), 8) == (35,)
    end = struct.pack(">hhihh1sqhb", 26, 0, 9, -1, 1, b"x", 1, 0, 1)
    assert ask(server, 0, end) == b""
    assert_serves(server)


def test_without_segments_records_do_not_outlive_the_cluster(chroot: str, tmp_path: Path) -> None:
    async def produce(server: ClusterServer, value: bytes) -> int:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap(server), acks="all")
        await producer.start()
        try:
            return int((await producer.send_and_wait("t", value)).offset)
        finally:
            await producer.stop()

    config = config_of(chroot, tmp_path, str(free_ports(BROKERS)), has_segments=False)
    with ClusterServer(config) as server:
        create(server, (0, 1, 2))
        assert asyncio.run(produce(server, b"a")) == 0
        assert asyncio.run(consumed(server, 1)) == [b"a"]
        assert list(tmp_path.rglob("*.log"))
    assert not list(tmp_path.rglob("0*.log"))
    leftover = tmp_path / "temporary-segments" / "0" / "kafka-logs"
    leftover.mkdir(parents=True)
    (leftover / "meta.properties").write_text("junk")
    with ClusterServer(config) as server:
        assert asyncio.run(produce(server, b"b")) == 0


@pytest.mark.client("aiokafka", shows="a group whose coordinator is killed")
@pytest.mark.slow
def test_a_group_goes_on_after_its_coordinator_is_killed(server: ClusterServer) -> None:
    create(server, (1, 2, 0))

    async def produce(first: int) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap(server), acks="all")
        await producer.start()
        try:
            for number in range(first, first + 10):
                await producer.send_and_wait("t", b"%d" % number)
        finally:
            await producer.stop()

    async def read(count: int) -> list[bytes]:
        consumer = AIOKafkaConsumer(
            "t",
            bootstrap_servers=bootstrap(server),
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            values = [(await asyncio.wait_for(consumer.getone(), 30)).value for _ in range(count)]
            await consumer.commit()
            return values
        finally:
            await consumer.stop()

    async def work() -> None:
        await produce(0)
        assert await read(10) == [b"%d" % number for number in range(10)]
        found = ask(server, 0, struct.pack(">hhih", 10, 0, 1, -1) + struct.pack(">h1s", 1, b"g"))
        _, error, coordinator = struct.unpack_from(">ihi", found)
        assert error == 0
        await asyncio.to_thread(server.operations.perform, Kill(coordinator))
        await produce(10)
        assert await read(10) == [b"%d" % number for number in range(10, 20)]

    asyncio.run(work())
