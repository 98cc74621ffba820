"""Simulated brokers with real files: what a failover cuts, what restarts find, bad disks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import astuple

from klamm.admin.configs.changes import alter_configs
from klamm.admin.configs.config_resource import ConfigResource
from klamm.brokers.logs.records import encode_batch
from klamm.cli.explain import explained_lines
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProducedPartition, ProduceRequest, ProduceResponse
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.records import CountedBatch, Record
from klamm.cluster.requests import Address, Message
from klamm.world.explain.explain import explain_partition
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.replica_checks import check_views
from tests.sim.faults import cut_off
from tests.sim.replication import IDS, T0, Cluster, replica_views

CONFIG = {
    "log.dirs": "d0,d1",
    "log.segment.bytes": "4000",
    "log.index.size.max.bytes": "1200",
    "log.index.interval.bytes": "400",
    "replica.lag.time.max.ms": "5000",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """t-0 on three brokers, led by 0; their log directories are ``tmp_path``/ID/d0 and d1."""
    cluster = Cluster(segments=tmp_path, config=CONFIG)
    yield cluster
    cluster.close()


def fail_over(cluster: Cluster) -> None:
    """Let the others go on without broker 0, which has written records that nobody else has."""
    world = cluster.world
    for count in (10, 30, 20):
        cluster.produce(0, count)
        world.run_for(500)
    world.transport.faults = (cut_off(world, 0),)
    for count in (3, 25, 12):
        cluster.produce(0, count, acks=1)
    world.run_for(100)
    world.kill(0)
    world.run_for(10_000)
    leader = cluster.state().leader
    assert leader in (1, 2)
    for count in (5, 15):
        cluster.produce(leader, count)
        world.run_for(500)
    cluster.heal()


def epochs(cluster: Cluster) -> list[list[tuple[int, int, int]]]:
    """(leader epoch, start, end) of the log of each broker."""
    return [
        [astuple(interval)[:3] for interval in view.intervals]
        for view in replica_views(cluster.world)
    ]


def test_what_only_the_old_leader_has_is_cut(cluster: Cluster) -> None:
    fail_over(cluster)
    (one, *others) = epochs(cluster)
    assert others == [one, one]
    assert one[0] == (0, 0, 60) and one[-1][2] == 80


def test_what_a_follower_cuts_is_in_the_journal(cluster: Cluster) -> None:
    fail_over(cluster)
    (row,) = [row for row in cluster.world.journal.rows if row.kind == Kind.LOG_TRUNCATED]
    assert (row.topic, row.partition, row.replica, row.controller, row.seq) == ("t", 0, 0, -1, 1)
    assert (row.leader, row.leader_epoch) == (cluster.state().leader, cluster.state().leader_epoch)
    detail = json.loads(row.detail or "")
    assert (detail["from_offset"], detail["to_offset"]) == (100, 60)
    assert detail["size_bytes"] > 40 * 90
    explained = explain_partition(lambda: cluster.world.journal.rows, T0, show_all=True)
    assert explained.logs == (row,)
    assert all(change.key.event_id for change in explained.changes)
    text = list(explained_lines(explained))
    assert any("log truncated t-0 on 0" in line and '"to_offset":60' in line for line in text)


def test_a_cut_of_what_was_acknowledged_is_a_warning(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.produce(0, 20)
    cluster.world.run_for(6_000)
    for broker_id in (1, 2):
        cluster.world.stop(broker_id)
    cluster.world.run_for(10_000)
    cluster.world.nodes[0].node.broker.log_manager.store.crash(lambda low, _: low)
    cluster.world.kill(0)
    cluster.world.run_for(10_000)
    for broker_id in IDS:
        cluster.world.start(broker_id)
        cluster.world.run_for(10_000)
    assert "broker 1: Truncating t-0 to offset 0 below high watermark 20" in caplog.messages


def test_restarts_find_logs_epochs_and_topic_ids(cluster: Cluster) -> None:
    fail_over(cluster)
    before = epochs(cluster)
    ids = [topic_id(cluster, broker_id) for broker_id in IDS]
    assert len(set(ids)) == 1 and ids[0] is not None
    for broker_id in IDS:
        (cluster.world.stop if broker_id else cluster.world.kill)(broker_id)
    for broker_id in IDS:
        cluster.world.start(broker_id)
    cluster.heal()
    assert epochs(cluster) == before
    assert [topic_id(cluster, broker_id) for broker_id in IDS] == ids
    assert repairs(cluster) == []


@pytest.mark.parametrize("is_length_kept", [0, 1])
def test_a_machine_that_stops_has_torn_files_which_are_repaired(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, is_length_kept: int
) -> None:
    for _ in range(6):
        cluster.produce(0, 20)
        cluster.world.run_for(500)
    log = cluster.world.nodes[1].node.broker.log_manager.dirs.current(T0)
    assert log is not None
    recovery_point = log.recovery_point
    draws = iter([recovery_point + 5, is_length_kept])
    cluster.world.nodes[1].node.broker.log_manager.store.crash(lambda low, high: next(draws))
    cluster.world.kill(1)
    cluster.world.run_for(10_000)
    cluster.world.start(1)
    cluster.heal()
    (row,) = repairs(cluster)
    assert "broker 1: log t-0: truncated the segment at offset 100 by " in caplog.text
    assert (row.replica, row.outcome, row.partition) == (1, "tail_cut", 0)
    assert json.loads(row.detail or "")["size_bytes"] > 0
    assert {one[-1][2] for one in epochs(cluster)} == {120}


def test_losses_of_in_memory_logs_are_reported_alike() -> None:
    cluster = Cluster()
    cluster.produce(0, 1_000)
    cluster.world.run_for(500)
    cluster.world.kill(1, loses_unflushed=True)
    cluster.world.run_for(10_000)
    cluster.world.start(1)
    cluster.heal()
    (row,) = repairs(cluster)
    detail = json.loads(row.detail or "")
    assert (row.replica, row.outcome) == (1, "unflushed_lost")
    assert detail["size_bytes"] == (1_000 - detail["base_offset"]) * 100


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_disk_that_refuses_takes_the_directory_offline(
    cluster: Cluster, tmp_path: Path, role: str
) -> None:
    cluster.produce(0, 10)
    cluster.world.run_for(500)
    broker_id = 0 if role == "leader" else 1
    shutil.rmtree(tmp_path / str(broker_id) / "d0" / "t-0")
    number = cluster.produce(0, 10)
    cluster.world.run_for(10_000)
    broker = cluster.world.nodes[broker_id].node.broker
    assert broker.log_manager.dirs.offline == ("d0",)
    assert list(broker.replica_manager.offline_partitions) == [T0]
    assert sorted(cluster.state().isr) == [other for other in IDS if other != broker_id]
    assert cluster.state().leader != broker_id
    error = cluster.answers[number].error
    assert error is (Errors.KAFKA_STORAGE_ERROR if role == "leader" else Errors.NONE)
    assert cluster.world.errors == []
    cluster.produce(cluster.state().leader, 10)
    cluster.world.run_for(500)
    check_views(cluster.checker, replica_views(cluster.world))
    assert cluster.checker.violations == []


def test_a_broker_whose_last_directory_refuses_halts(cluster: Cluster, tmp_path: Path) -> None:
    cluster.world.fail_log_dir(0, "d1")
    cluster.world.run_for(100)
    shutil.rmtree(tmp_path / "0" / "d0" / "t-0")
    cluster.produce(0, 10)
    cluster.world.run_for(10_000)
    assert 0 not in cluster.world.nodes
    assert cluster.state().leader in (1, 2)
    assert cluster.world.errors == []


def test_checkpoints_are_written_when_due_and_idle_brokers_do_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.produce(0, 10)
    cluster.world.run_for(7_000)
    written = tmp_path / "1" / "d0" / "replication-offset-checkpoint"
    assert written.read_text() == "0\n1\nt 0 10\n"
    cluster.world.run_for(70_000)
    assert (tmp_path / "1" / "d0" / "recovery-point-offset-checkpoint").read_text() == (
        "0\n1\nt 0 0\n"
    )
    cluster.world.run_for(600_000)
    broker = cluster.world.nodes[1].node.broker
    week_ms = 7 * 24 * 3_600_000
    assert broker.log_maintenance.next_due_ms() == pytest.approx(week_ms, rel=0.01)


def test_a_deleted_topic_is_removed_later(cluster: Cluster, tmp_path: Path) -> None:
    store = cluster.world.open_store()
    KafkaZkClient(store).create_delete_topic_path("t")
    store.close()
    cluster.world.run_for(10_000)
    assert [path.name[-7:] for path in (tmp_path / "1" / "d0").glob("t-0*")] == ["-delete"]
    cluster.world.run_for(60_000)
    assert list((tmp_path / "1" / "d0").glob("t-0*")) == []


def test_a_topics_config_reaches_its_logs_and_retention_goes_by_it(cluster: Cluster) -> None:
    for _ in range(6):
        cluster.produce(0, 20)
        cluster.world.run_for(500)
    cluster.world.run_for(700_000)  # The cluster is idle: the next retention check is in a week.
    store = cluster.world.open_store()
    resource = ConfigResource("topics", "t")
    alter_configs(KafkaZkClient(store), resource, {"retention.ms": "60000"}, lambda topic: True)
    store.close()
    cluster.world.run_for(1_000)
    logs = [node.node.broker.log_manager.dirs.current(T0) for node in cluster.world.nodes.values()]
    assert [log.config.retention_ms for log in logs if log is not None] == [60_000] * 3
    cluster.world.run_for(700_000)
    assert [log.log_start_offset for log in logs if log is not None] == [120] * 3


def test_records_of_the_other_kind_are_refused(cluster: Cluster) -> None:
    counted = Cluster()
    batch = encode_batch([Record(0, None, b"v")])
    for world, wrong in ((cluster.world, CountedBatch(1, 100)), (counted.world, batch)):
        answers: list[Message] = []
        client = Address("client", 7)
        world.transport.register(client, answers.append)
        request = ProduceRequest(1, 30_000, {T0: wrong})
        world.transport.send(Message(client, Address("broker", 0), 1, request))
        world.run_for(500)
        assert [answer.body for answer in answers] == [
            ProduceResponse({T0: ProducedPartition(Errors.INVALID_RECORD, log_start_offset=0)})
        ]
        assert world.errors == []


def test_a_damaged_batch_is_reported_to_the_producer(cluster: Cluster) -> None:
    batch = bytearray(encode_batch([Record(0, None, b"v" * 50)]))
    batch[-1] ^= 1
    answers: list[Message] = []
    client = Address("client", 7)
    cluster.world.transport.register(client, answers.append)
    request = ProduceRequest(1, 30_000, {T0: bytes(batch)})
    cluster.world.transport.send(Message(client, Address("broker", 0), 1, request))
    cluster.world.run_for(500)
    (answer,) = answers
    assert answer.body == ProduceResponse({T0: ProducedPartition(Errors.CORRUPT_MESSAGE)})


@pytest.mark.parametrize(
    "name", ["replication-offset-checkpoint", "recovery-point-offset-checkpoint"]
)
def test_a_checkpoint_of_another_version_costs_no_record(
    cluster: Cluster, tmp_path: Path, name: str
) -> None:
    cluster.produce(0, 10)
    cluster.world.run_for(500)
    cluster.world.stop(1)
    (tmp_path / "1" / "d0" / name).write_text("9\n0\n")
    cluster.world.start(1)
    cluster.heal()
    assert epochs(cluster)[1][-1][2] == 10


def topic_id(cluster: Cluster, broker_id: int) -> str | None:
    """What a broker's log says of its topic."""
    log = cluster.world.nodes[broker_id].node.broker.log_manager.dirs.current(T0)
    return None if log is None else log.topic_id


def repairs(cluster: Cluster) -> list[JournalRow]:
    """What brokers found not in order when they started."""
    return [row for row in cluster.world.journal.rows if row.kind == Kind.LOG_REPAIRED]
