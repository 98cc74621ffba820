"""A broker that starts with a damaged log: the replica is offline until another one restores it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from klamm.cluster.journal import JournalRow, Kind
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.sim.replication import IDS, T0, Cluster

CONFIG = {
    "log.dirs": "d0",
    "log.segment.bytes": "4000",
    "log.index.size.max.bytes": "1200",
    "log.index.interval.bytes": "400",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """t-0 with three replicas of 160 records in several segments, led by broker 0."""
    cluster = Cluster(segments=tmp_path, config=CONFIG)
    for _ in range(8):
        cluster.produce(0, 20)
        cluster.world.run_for(500)
    cluster.world.run_for(70_000)
    yield cluster
    cluster.close()


def segments(tmp_path: Path, broker_id: int) -> list[Path]:
    return sorted((tmp_path / str(broker_id) / "d0" / "t-0").glob("*.log"))


def lose_first(paths: list[Path]) -> None:
    paths[0].unlink()


def lose_one(paths: list[Path]) -> None:
    paths[1].unlink()


def lose_last(paths: list[Path]) -> None:
    paths[-1].unlink()


def flip_magic(paths: list[Path]) -> None:
    data = bytearray(paths[1].read_bytes())
    data[16] ^= 3
    paths[1].write_bytes(data)


DAMAGES = (lose_first, lose_one, lose_last, flip_magic)


def rows(cluster: Cluster, broker_id: int) -> list[JournalRow]:
    found = [row for row in cluster.world.journal.rows if row.kind == Kind.LOG_REPAIRED]
    return [row for row in found if row.replica == broker_id]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_follower_is_restored_from_its_leader(
    cluster: Cluster, tmp_path: Path, damage: Callable[[list[Path]], None]
) -> None:
    cluster.world.stop(1)
    cluster.world.run_for(10_000)
    damage(segments(tmp_path, 1))
    cluster.world.start(1)
    cluster.heal()
    outcomes = [row.outcome for row in rows(cluster, 1)]
    assert outcomes[:2] == ["taken_offline", "cut_to_restore"]
    assert json.loads(rows(cluster, 1)[0].detail or "")["reason"].count(str(tmp_path))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_cluster_that_starts_again_does_not_let_it_lead(
    cluster: Cluster, tmp_path: Path, damage: Callable[[list[Path]], None]
) -> None:
    """All replicas are in the ISR then, and broker 0 would be the leader."""
    for broker_id in (1, 2, 0):
        cluster.world.kill(broker_id)
    cluster.world.run_for(20_000)
    damage(segments(tmp_path, 0))
    for broker_id in IDS:
        cluster.world.start(broker_id)
    cluster.heal()
    assert [row.outcome for row in rows(cluster, 0)][:2] == ["taken_offline", "cut_to_restore"]
    assert cluster.checker.violations == []


def test_the_only_replica_in_sync_stays_offline(cluster: Cluster, tmp_path: Path) -> None:
    for broker_id in (2, 1, 0):
        cluster.world.stop(broker_id)
        cluster.world.run_for(10_000)
    assert cluster.state().isr == (0,)
    lose_one(segments(tmp_path, 0))
    before = {path.name: path.read_bytes() for path in segments(tmp_path, 0)}
    for _ in range(2):
        for broker_id in IDS:
            cluster.world.start(broker_id)
        cluster.world.run_for(60_000)
        assert (cluster.state().leader, cluster.state().isr) == (-1, (0,))
        broker = cluster.world.nodes[0].node.broker
        assert list(broker.replica_manager.offline_partitions) == [T0]
        assert broker.log_manager.dirs.offline == ()
        for broker_id in IDS:
            cluster.world.stop(broker_id)
        cluster.world.run_for(10_000)
    assert {path.name: path.read_bytes() for path in segments(tmp_path, 0)} == before
    assert [row.outcome for row in rows(cluster, 0)] == ["taken_offline"] * 2


def test_a_damaged_log_of_a_deleted_topic_is_removed(cluster: Cluster, tmp_path: Path) -> None:
    cluster.world.stop(1)
    lose_one(segments(tmp_path, 1))
    store = cluster.world.open_store()
    zk = KafkaZkClient(store)
    zk.create_delete_topic_path("t")
    cluster.world.run_for(10_000)
    cluster.world.start(1)
    cluster.world.run_for(100_000)
    store.close()
    assert list((tmp_path / "1" / "d0").glob("t-0*")) == []


def ask_for_deletion(cluster: Cluster) -> None:
    store = cluster.world.open_store()
    KafkaZkClient(store).create_delete_topic_path("t")
    store.close()


def assert_deleted(cluster: Cluster, tmp_path: Path) -> None:
    store = cluster.world.open_store()
    assert KafkaZkClient(store).get_all_topics_in_cluster() == []
    assert KafkaZkClient(store).get_topic_deletions() == []
    store.close()
    assert list(tmp_path.glob("*/d0/t-0*")) == []
    for broker_id in IDS:
        assert not cluster.world.nodes[broker_id].node.broker.replica_manager.offline_partitions


@pytest.mark.parametrize("damaged", [IDS, (0,)], ids=["all", "the only one in sync"])
def test_a_topic_whose_damaged_replicas_are_offline_is_deleted(
    cluster: Cluster, tmp_path: Path, damaged: tuple[int, ...]
) -> None:
    for broker_id in (2, 1, 0):
        cluster.world.stop(broker_id)
        cluster.world.run_for(10_000)
    for broker_id in damaged:
        lose_one(segments(tmp_path, broker_id))
    for broker_id in IDS:
        cluster.world.start(broker_id)
    cluster.world.run_for(30_000)
    assert cluster.state().leader == -1
    ask_for_deletion(cluster)
    cluster.world.run_for(100_000)
    assert_deleted(cluster, tmp_path)


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_deletion_goes_on_although_a_replica_was_damaged_meanwhile(
    cluster: Cluster, tmp_path: Path, is_begun: bool
) -> None:
    """All brokers start again; the new controller has read the request before it is answered."""
    if is_begun:
        cluster.world.kill(1)
        ask_for_deletion(cluster)
        cluster.world.run_for(1_000)
    for broker_id in sorted(cluster.world.nodes):
        cluster.world.kill(broker_id)
    cluster.world.run_for(20_000)
    if not is_begun:
        ask_for_deletion(cluster)
    for broker_id in IDS:
        if segments(tmp_path, broker_id):
            lose_one(segments(tmp_path, broker_id))
    for broker_id in IDS:
        cluster.world.start(broker_id)
    cluster.world.run_for(100_000)
    assert_deleted(cluster, tmp_path)
