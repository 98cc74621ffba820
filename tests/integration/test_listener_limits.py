"""Limits of listeners: connections, sizes, idle time; metrics; what kio does not accept."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import socket
import struct
from pathlib import Path

import confluent_kafka
import pytest

from klamm.cluster.api_errors import Errors
from klamm.server.cluster_server import ClusterServer
from klamm.server.metrics import metrics_text
from klamm.wire import connection
from klamm.wire.connection import FEW_ELEMENTS
from klamm.wire.frames import MAX_ELEMENTS
from klamm.world.network import CLIENTS, LinkFault, one_way
from klamm.world.real import listeners
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
from tests.waiting import wait_until

METADATA_V1 = struct.pack(">hhihi", 3, 1, 9, -1, -1)


def server_with(chroot: str, tmp_path: Path, **config: str) -> ClusterServer:
    names = {name.replace("_", "."): text for name, text in config.items()}
    return ClusterServer(config_of(chroot, tmp_path, str(free_ports(BROKERS)), config=names))


def is_closed(client: socket.socket) -> bool:
    with contextlib.suppress(ConnectionResetError):
        return client.recv(1) == b""
    return True


def connections(server: ClusterServer) -> int:
    """Return the number of connections to broker 0."""
    text = metrics_text(server.cluster, *server.collectors).decode()
    name = "kafka_server_socket_server_metrics_connection_count"
    found = re.search(rf'^{name}\{{broker="0"\}} (\d+)', text, re.MULTILINE)
    return 0 if found is None else int(found[1])


@pytest.mark.parametrize("name", ["max_connections", "max_connections_per_ip"])
def test_connections_beyond_the_limit_are_closed_at_once(
    chroot: str, tmp_path: Path, name: str
) -> None:
    with server_with(chroot, tmp_path, **{name: "2"}) as server:
        create(server, (0, 1, 2))
        at = place(server, 0)
        with socket.create_connection(at, 10) as first, socket.create_connection(at, 10) as second:
            for client in (first, second):
                client.sendall(struct.pack(">i", len(METADATA_V1)) + METADATA_V1)
                assert client.recv(4)
            with socket.create_connection(at, 10) as third:
                assert is_closed(third)
            socket.create_connection(place(server, 1), 10).close()
        wait_until(lambda: ask(server, 0, METADATA_V1) != b"")
        assert_serves(server)


def test_connections_are_counted_by_broker_and_by_the_address_of_the_client(
    chroot: str, tmp_path: Path
) -> None:
    def is_served(broker_id: int, host: str) -> bool:
        client = stack.enter_context(
            socket.create_connection(place(server, broker_id), 10, source_address=(host, 0))
        )
        with contextlib.suppress(ConnectionError):
            client.sendall(struct.pack(">i", len(METADATA_V1)) + METADATA_V1)
            return client.recv(4) != b""
        return False

    with server_with(chroot, tmp_path, max_connections_per_ip="1") as server:
        create(server, (0, 1, 2))
        for _ in range(2):  # a connection that ends allows another one, and no more
            with contextlib.ExitStack() as stack:
                assert is_served(0, "127.0.0.1")
                assert is_served(0, "127.0.0.2")
                assert is_served(1, "127.0.0.1")
                assert connections(server) == 2
                assert not is_served(0, "127.0.0.1")
                assert not is_served(0, "127.0.0.2")
            wait_until(lambda: connections(server) == 0)


def test_a_cut_between_clients_and_a_broker_ends_their_connections(
    chroot: str, tmp_path: Path
) -> None:
    with server_with(chroot, tmp_path) as server:
        create(server, (0, 1, 2))
        cut = LinkFault(links=one_way([CLIENTS], [0]), is_cut=True)
        server.cluster.transport.faults = (cut,)
        assert ask(server, 0, METADATA_V1) == b""
        server.cluster.transport.faults = ()
        assert_serves(server)


def test_a_broker_that_is_no_candidate_refuses_what_only_a_controller_does(
    chroot: str, tmp_path: Path
) -> None:
    config = config_of(chroot, tmp_path, str(free_ports(BROKERS)))
    config = dataclasses.replace(
        config, cluster=dataclasses.replace(config.cluster, candidates=(0,))
    )
    deletion = struct.pack(">hhih", 20, 1, 9, -1) + struct.pack(">ih1si", 1, 1, b"t", 1000)
    with ClusterServer(config) as server:
        answer = ask(server, 2, deletion)
    assert struct.unpack(">iiih1sh", answer) == (9, 0, 1, 1, b"t", Errors.NOT_CONTROLLER)


def test_oversized_requests_and_idle_connections_are_closed(chroot: str, tmp_path: Path) -> None:
    limits = {"socket_request_max_bytes": "1000", "connections_max_idle_ms": "300"}
    with server_with(chroot, tmp_path, **limits) as server:
        create(server, (0, 1, 2))
        for sent in (b"", struct.pack(">i", 1001), struct.pack(">i", 1000) + b"\0" * 900):
            with socket.create_connection(place(server, 0), 10) as client:
                client.sendall(sent)
                assert is_closed(client)
        assert_serves(server)


def test_a_request_that_arrives_byte_by_byte_is_idle(chroot: str, tmp_path: Path) -> None:
    with server_with(chroot, tmp_path, connections_max_idle_ms="500") as server:
        create(server, (0, 1, 2))
        with socket.create_connection(place(server, 0), 10) as client:
            client.sendall(struct.pack(">i", 1 << 20))
            client.settimeout(0.01)

            def is_closed_after_a_byte() -> bool:
                try:
                    client.sendall(b"\0")
                    return client.recv(1) == b""
                except TimeoutError:
                    return False
                except ConnectionError:
                    return True

            wait_until(is_closed_after_a_byte)
        assert_serves(server)


def test_a_client_that_does_not_read_loses_its_connection(
    chroot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "WRITE_S", 0.3)
    with server_with(chroot, tmp_path) as server:
        create(server, (0, 1, 2))
        producer = confluent_kafka.Producer({"bootstrap.servers": ",".join(bootstrap(server))})
        producer.produce("t", bytes(900_000))
        assert producer.flush(30) == 0
        frame = fetch_request(max_wait_ms=0)
        with socket.create_connection(place(server, 0), 10) as client:
            client.settimeout(0.1)
            wait_until(lambda: is_refused(client, frame))
        assert_serves(server)


def is_refused(client: socket.socket, frame: bytes) -> bool:
    """Send a request, and return whether the broker has closed the connection."""
    try:
        client.sendall(struct.pack(">i", len(frame)) + frame)
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return False


def fetch_request(max_wait_ms: int) -> bytes:
    """Return Fetch v0 of t-0 from the beginning."""
    request = struct.pack(">hhih", 1, 0, 9, -1) + struct.pack(">iii", -1, max_wait_ms, 1)
    return request + struct.pack(">ih1siiqi", 1, 1, b"t", 1, 0, 0, 1 << 20)


def test_a_client_that_hangs_up_while_it_waits_gives_back_its_connection(
    chroot: str, tmp_path: Path
) -> None:
    with server_with(chroot, tmp_path, max_connections="1") as server:
        create(server, (0, 1, 2))
        fetch = fetch_request(max_wait_ms=2**31 - 1)
        with socket.create_connection(place(server, 0), 10) as client:
            client.sendall(struct.pack(">i", len(fetch)) + fetch)
            wait_until(lambda: connections(server) == 1)
            assert ask(server, 0, METADATA_V1) == b""
        wait_until(lambda: ask(server, 0, METADATA_V1) != b"")


def test_a_request_of_many_elements_is_answered_and_one_of_too_many_is_not(
    chroot: str, tmp_path: Path
) -> None:
    with server_with(chroot, tmp_path) as server:
        create(server, (0, 1, 2))
        header = struct.pack(">hhih", 15, 0, 9, -1)
        many = FEW_ELEMENTS + 1
        answer = ask(server, 0, header + struct.pack(">i", many) + b"\0\0" * many)
        assert struct.unpack_from(">ii", answer) == (9, many)
        too_many = MAX_ELEMENTS + 1
        assert ask(server, 0, header + struct.pack(">i", too_many) + b"\0\0" * too_many) == b""
        assert_serves(server)


def test_malformed_requests_do_not_fill_the_log(
    chroot: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "WARNING_INTERVAL_S", 600.0)
    with server_with(chroot, tmp_path) as server:
        create(server, (0, 1, 2))
        for _ in range(5):
            assert ask(server, 0, b"\0" * 7) == b""
        assert_serves(server)
    assert caplog.text.count("broker 0 closed a connection") == 1


def test_metrics_have_requests_times_and_errors_of_each_api(chroot: str, tmp_path: Path) -> None:
    with server_with(chroot, tmp_path, auto_create_topics_enable="false") as server:
        create(server, (0, 1, 2))
        assert_serves(server)
        unknown = struct.pack(">hhihih1s", 3, 1, 9, -1, 1, 1, b"u")
        ask(server, 0, unknown)
        ask(server, 0, struct.pack(">hhih", 3, 1, 1, -1) + b"\x7f\xff\xff\xff")
        text = metrics_text(server.cluster, *server.collectors).decode()
    name = "kafka_network_RequestMetrics"
    labels = r'\{broker="0",request="Metadata"'
    assert re.search(rf"^{name}_TotalTimeMs_count{labels}\}} 2.0$", text, re.MULTILINE)
    for error in ("UNKNOWN_TOPIC_OR_PARTITION", "MALFORMED"):
        row = rf'^{name}_Errors_total\{{broker="0",error="{error}",request="Metadata"\}} 1.0$'
        assert re.search(row, text, re.MULTILINE)


def test_unknown_tagged_fields_are_ignored(chroot: str, tmp_path: Path) -> None:
    with server_with(chroot, tmp_path) as server:
        create(server, (0, 1, 2))
        tagged = b"\x02" + b"\x05\x03abc" + b"\xc8\x01\x80\x01" + b"x" * 128
        header = struct.pack(">hhih", 3, 9, 9, -1) + tagged
        topic = b"\x02" + b"\x02t" + tagged
        answer = ask(server, 0, header + topic + b"\0\0\0" + tagged)
        assert b"\0\0\x02t" in answer
        assert ask(server, 0, header + topic + b"\0\0\0" + b"\x01\x05\x7fabc") == b""


@pytest.mark.parametrize("version", [0, 3, 12])
def test_every_version_of_fetch_is_answered(chroot: str, tmp_path: Path, version: int) -> None:
    body = struct.pack(">iii", -1, 0, 0)
    body += struct.pack(">i", 1000) if version >= 3 else b""
    if version < 12:
        body += struct.pack(">ih1siiqi", 1, 1, b"t", 1, 0, 0, 1000)
        header = struct.pack(">hhih", 1, version, 9, -1)
    else:
        header = struct.pack(">hhih", 1, version, 9, -1) + b"\0"
        body += b"\0" + struct.pack(">ii", 0, 0) + b"\x02\x02t\x02"
        body += struct.pack(">iiqiqi", 0, -1, 0, -1, -1, 1000) + b"\0\0" + b"\x01\x01\0"
    with server_with(chroot, tmp_path) as server:
        create(server, (0, 1, 2))
        answer = ask(server, 0, header + body)
        assert b"\x02t" in answer if version == 12 else b"\0\x01t" in answer
