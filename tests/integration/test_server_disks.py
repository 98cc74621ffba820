"""Disk faults of a running cluster over HTTP, one after the other: no record is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from klamm.cli.status import status_lines
from klamm.server.api import create_app
from klamm.server.cluster_server import ClusterServer
from klamm.server.states import Status
from tests.asgi import AsgiClient
from tests.server_configs import server_config
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

WHOLE = [[0, 1, 2], [0, 1, 2]]


@pytest.fixture
def server(chroot: str, tmp_path: Path) -> Iterator[ClusterServer]:
    """Three brokers with files; t-0 and t-1, led by 1, are in different directories."""
    config = server_config(
        brokers=3,
        zookeeper=chroot,
        data_dir=tmp_path,
        segments=True,
        config={
            "log.dirs": "d0,d1",
            "auto.leader.rebalance.enable": "false",
            "log.flush.interval.messages": "10",
            "min.insync.replicas": "2",
        },
        session_timeout_ms=3000,
    )
    with ClusterServer(config) as running:
        yield running


class Client:
    """HTTP client of this test."""

    def __init__(self, server: ClusterServer) -> None:
        self.api = AsgiClient(create_app(server))

    def post(self, path: str, **body: Any) -> Any:
        answer = self.api.post(path, json=body)
        assert answer.status_code == 200, answer.json()
        return answer.json()

    @property
    def status(self) -> Status:
        return msgspec.json.decode(self.api.get("/status").content, type=Status)

    def partitions(self) -> list[tuple[int, list[int]]]:
        """Leaders and ISRs."""
        found = self.api.get("/topics/t").json()["partitions"]
        return [(one["leader"], sorted(one["isr"])) for one in found]

    def isrs(self) -> list[list[int]]:
        return [isr for _, isr in self.partitions()]

    def restart(self, broker_id: int) -> None:
        self.post("/disks/heal")
        self.post(f"/brokers/{broker_id}/stop")
        self.post(f"/brokers/{broker_id}/start")
        wait_until(lambda: self.isrs() == WHOLE)


def ends(server: ClusterServer) -> list[set[int]]:
    """Where the logs of t-0 and t-1 end on all brokers."""
    with server.cluster.broker_thread_paused():
        brokers = [running.node.broker for running in server.cluster.nodes.values()]
        logs: list[set[int]] = [set(), set()]
        for broker in brokers:
            for tp, partition in broker.replica_manager.partitions.items():
                assert partition.log is not None
                logs[tp.partition].add(partition.log.log_end_offset)
        return logs


def test_disks_fail_one_after_the_other(server: ClusterServer) -> None:
    client = Client(server)
    topic = {"name": "t", "assignments": {"0": [1, 2, 0], "1": [1, 0, 2]}}
    client.post("/topics", topics=[topic], timeout_ms=20_000)
    wait_until(lambda: client.isrs() == WHOLE)
    producers = [
        client.post("/producers", topic="t", partition=number, enable_idempotence=True)["id"]
        for number in (0, 1)
    ]

    def produce(count: int) -> None:
        for producer in producers:
            client.post(f"/producers/{producer}/records", record_count=count // 2)

    produce(100)
    answer = client.post("/disks/fail", broker=1, log_dir="d0", kind="short-write")
    assert answer == {"disk_faults": [{"broker": 1, "log_dir": "d0", "kind": "short-write"}]}
    assert "  broker 1, log directory d0: short-write" in status_lines(client.status)
    produce(100)
    wait_until(lambda: (2, [0, 2]) in client.partitions() and (1, [0, 1, 2]) in client.partitions())
    client.restart(1)

    client.post("/disks/fail", broker=2, log_dir="d1", kind="fsync", times=1)
    produce(100)
    wait_until(lambda: [0, 1] in client.isrs() and [0, 1, 2] in client.isrs())
    client.restart(2)

    client.post("/disks/fail", journal=True, kind="enospc")
    client.post("/brokers/0/fail-log-dir", log_dir="d0")
    wait_until(lambda: client.status.controller is None)
    assert "No space left on device" in str(client.status.journal.failure)
    produce(100)
    client.post("/disks/heal")
    wait_until(lambda: client.status.controller is not None)
    client.restart(0)

    client.post("/disks/slow", broker=2, bytes_per_s=1_000_000)
    assert "  broker 2, log directory d1: slow, 1000000 bytes/s" in status_lines(client.status)
    produce(100)
    client.post("/disks/heal")
    assert client.status.disk_faults == []
    wait_until(lambda: client.isrs() == WHOLE)
    wait_until(lambda: ends(server) == [{250}, {250}])
