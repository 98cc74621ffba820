"""Brokers that fail because of a disk or a bug: shown as failed, with the reason, restarted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from klamm.brokers.logs.errors import LogStorageError
from klamm.cli.status import status_lines
from klamm.cluster.errors import ZooKeeperUnavailable
from klamm.cluster.journal import Kind
from klamm.cluster.requests import Address, CreatableTopic, CreateTopicsRequest
from klamm.cluster.status import RUNNING, BrokerStatus
from klamm.cluster.types import TopicPartition
from klamm.lab.actions.actions import Start, Stop
from klamm.server.broker_operations import ADDED, FAILED, FAILED_TO_START
from klamm.server.cluster_server import ClusterServer
from klamm.world.journal.journal import read_journal
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import SessionState
from tests.server_configs import server_config
from tests.waiting import wait_until

ON_1 = CreatableTopic("on-1", assignments={0: (1, 0)})


@pytest.fixture
def server(chroot: str, tmp_path: Path) -> Iterator[ClusterServer]:
    config = server_config(
        brokers=2, zookeeper=chroot, session_timeout_ms=2000, data_dir=tmp_path, segments=True
    )
    with ClusterServer(config) as opened:
        yield opened


def broker_1(server: ClusterServer) -> BrokerStatus:
    """What the status shows of it."""
    return server.status().brokers[1]


def test_a_broker_that_loses_its_disk_is_failed_and_says_why(
    server: ClusterServer, caplog: pytest.LogCaptureFixture
) -> None:
    disk = server.data_dir.brokers / "1"
    assert disk.exists(), list(server.data_dir.brokers.iterdir())
    shutil.rmtree(disk)
    disk.write_text("a file where the directory was")
    server.admin.create_topics(CreateTopicsRequest((ON_1,), 10_000))
    wait_until(lambda: broker_1(server).state == FAILED)
    assert "all log directories have failed: " in str(broker_1(server).reason)
    assert "Not a directory" in str(broker_1(server).reason)
    assert any(line.startswith("Broker 1 failed: ") for line in status_lines(server.status()))
    assert any("broker 1 failed: " in record.getMessage() for record in caplog.records)

    with pytest.raises(LogStorageError) as refused:
        server.operations.perform(Start(1))
    assert refused.value.hint is not None and "disk" not in refused.value.message
    assert broker_1(server).state == FAILED_TO_START
    assert refused.value.hint in str(broker_1(server).reason)

    disk.unlink()
    assert server.operations.perform(Start(1))["state"] == RUNNING
    assert (broker_1(server).state, broker_1(server).reason) == (RUNNING, None)


def test_a_broker_without_a_log_directory_is_named(chroot: str, tmp_path: Path) -> None:
    (tmp_path / "brokers").mkdir()
    (tmp_path / "brokers" / "1").write_text("a file where the directory will be")
    config = server_config(brokers=2, zookeeper=chroot, data_dir=tmp_path, segments=True)
    with pytest.raises(LogStorageError, match=r"^broker 1: Shutdown broker because"):
        ClusterServer(config).open()


def test_an_added_broker_that_does_not_start_exists_and_can_be_started(
    server: ClusterServer,
) -> None:
    disk = server.data_dir.brokers / "2"
    disk.write_text("a file where the directory will be")
    with pytest.raises(LogStorageError) as refused:
        server.operations.add(None, None)
    assert refused.value.hint is not None and not refused.value.definite
    assert refused.value.hint.endswith("broker 2 was added: klamm broker start 2 starts it")
    assert server.status().brokers[2].state == ADDED
    disk.unlink()
    assert server.operations.perform(Start(2))["state"] == RUNNING


def test_no_broker_is_added_without_zookeeper(server: ClusterServer) -> None:
    server.cluster.own_session.state = SessionState.DISCONNECTED
    with pytest.raises(ZooKeeperUnavailable) as refused:
        server.operations.add(None, None)
    server.cluster.own_session.state = SessionState.CONNECTED
    assert refused.value.definite and refused.value.retriable
    assert [broker.id for broker in server.status().brokers] == [0, 1]


def test_a_broker_that_fails_in_an_event_is_failed_and_can_be_started(
    server: ClusterServer,
) -> None:
    server.cluster._hub.post(Address("broker", 1), "nothing that a broker can handle")
    wait_until(lambda: broker_1(server).state == FAILED)
    assert str(broker_1(server).reason).startswith("AssertionError: ")
    assert len(server.status().errors) == 1
    assert server.operations.perform(Start(1))["state"] == RUNNING
    assert broker_1(server).reason is None


def test_every_failure_at_a_start_is_reported(server: ClusterServer) -> None:
    server.operations.perform(Stop(1))
    copying = server.cluster.copying
    copying.join = None  # type: ignore[assignment, method-assign]
    for wait in (True, False):
        with pytest.raises(TypeError):
            server.operations.perform(Start(1, wait=wait))
        assert broker_1(server).state == "stopped"
    del copying.join
    assert server.operations.perform(Start(1))["state"] == RUNNING


def test_a_broker_whose_znode_was_deleted_registers_again(
    server: ClusterServer, zookeeper_client: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    server.admin.create_topics(CreateTopicsRequest((ON_1,), 10_000))
    root = f"/{server.cluster.connect_string.rpartition('/')[2]}"
    before = broker_1(server).broker_epoch
    zookeeper_client.delete(f"{root}/brokers/ids/1")
    wait_until(lambda: broker_1(server).broker_epoch > before and broker_1(server).live)
    stat = zookeeper_client.exists(f"{root}/brokers/ids/1")
    assert stat.czxid == broker_1(server).broker_epoch
    said = "broker 1: its registration was deleted while its session was alive; registered again"
    assert any(said in record.getMessage() for record in caplog.records)
    rows = read_journal(server.data_dir.journal)
    assert [row.replica for row in rows if row.kind == Kind.BROKER_REGISTERED_AGAIN] == [1]
    client = KafkaZkClient(server.cluster.store)
    on_1_0 = TopicPartition("on-1", 0)

    def isr() -> set[int]:
        return set(client.get_partition_states([on_1_0]).values[on_1_0].leader_and_isr.isr)

    wait_until(lambda: isr() == {0, 1})
