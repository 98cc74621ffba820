"""Clusters on whose listeners the tests' clients connect."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from klamm.cluster.requests import CreatableTopic, CreateTopicsRequest
from klamm.server.cluster_server import ClusterServer
from klamm.server.config import ServerConfig
from tests.server_configs import server_config
from tests.waiting import wait_until

BROKERS = 3
_METADATA_V1 = struct.pack(">hhihi", 3, 1, 9, -1, -1)


def free_ports(count: int) -> int:
    """Return the first of ``count`` consecutive ports that are free.

    They are drawn, because tests run in several processes, and none of them is in FREE_PORTS.
    """
    for first in random.sample(range(10_000, 19_000), 100):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first
    raise AssertionError("no free ports")


def config_of(
    chroot: str,
    data_dir: Path,
    listen: str | None,
    advertised_listener: str | None = None,
    *,
    has_segments: bool = True,
    config: Mapping[str, str] = MappingProxyType({}),
) -> ServerConfig:
    """Return the configuration of a cluster that listens from ``[HOST:]PORT`` on.

    Its controller does not rebalance leaders, so that they move only when a test moves them.
    """
    return server_config(
        brokers=BROKERS,
        zookeeper=chroot,
        session_timeout_ms=2000,
        data_dir=data_dir,
        segments=has_segments,
        config={"auto.leader.rebalance.enable": "false", **config},
        listen=listen,
        advertised_listener=advertised_listener,
    )


def place(server: ClusterServer, broker_id: int) -> tuple[str, int]:
    """Return the host and port on which a broker listens."""
    end_point = server.cluster.spec.broker_info(broker_id).end_points[0]
    return end_point.host, end_point.port


def bootstrap(server: ClusterServer) -> list[str]:
    """Return HOST:PORT of every broker."""
    places = (place(server, broker_id) for broker_id in range(BROKERS))
    return [f"{host}:{port}" for host, port in places]


def create_everywhere(admin: AdminClient, partitions: int, patience_s: float) -> None:
    """Create the topic t with replicas on all brokers, and wait until all are in sync."""
    new = NewTopic("t", partitions, BROKERS)
    admin.create_topics([new], operation_timeout=30)["t"].result(patience_s)

    # Any broker may be asked, also one that UpdateMetadata has not reached yet.
    def isrs() -> list[list[int]]:
        found = admin.list_topics("t").topics["t"].partitions
        return [sorted(one.isrs) for one in found.values()]

    wait_until(lambda: isrs() == [[0, 1, 2]] * partitions, patience_s)


def create(server: ClusterServer, replicas: tuple[int, ...]) -> None:
    """Create the topic t with one partition."""
    topic = CreatableTopic("t", assignments={0: replicas})
    server.admin.create_topics(CreateTopicsRequest((topic,), 10_000))


def ask(server: ClusterServer, broker_id: int, frame: bytes) -> bytes:
    """Send a request, and return the response without its size; b"" if the broker hangs up."""
    with socket.create_connection(place(server, broker_id), 10) as client:
        client.sendall(struct.pack(">i", len(frame)) + frame)
        stream = client.makefile("rb")
        try:
            size = stream.read(4)
            return stream.read(struct.unpack(">i", size)[0]) if size else b""
        except ConnectionResetError:
            return b""


def coordinator(server: ClusterServer, broker_id: int) -> int:
    """Return the coordinator of the group g, as a broker knows it."""
    request = struct.pack(">hhih", 10, 0, 1, -1) + struct.pack(">h1s", 1, b"g")

    def found() -> tuple[int] | None:
        _, error, coordinator_id = struct.unpack_from(">ihi", ask(server, broker_id, request))
        return None if error else (coordinator_id,)

    return wait_until(found, 60.0, f"broker {broker_id} knows a coordinator")[0]


def brokers_in_metadata(server: ClusterServer, broker_id: int) -> int:
    """Return the number of live brokers, as a broker knows it."""
    return int(struct.unpack_from(">i", ask(server, broker_id, _METADATA_V1), 4)[0])


def assert_serves(server: ClusterServer) -> None:
    """Assert that broker 0 answers Metadata v1 for all topics, among them t."""
    assert b"\0\x01t" in ask(server, 0, _METADATA_V1)
