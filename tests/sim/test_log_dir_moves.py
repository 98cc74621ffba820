"""Replicas move between the log directories of their brokers while records are produced, leaders
change, brokers die and directories fail: nothing is lost, and every move ends.
"""

from __future__ import annotations

import random

import pytest

from klamm.cluster.requests import (
    Address,
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    Message,
    ReplicaInfo,
)
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.held_followers import hold
from tests.sim.log_dirs import CLIENT, DIRS, alter_dirs, ask_broker, dir_of, fail
from tests.sim.replication import IDS, T0, Cluster

# A chunk of a log that only counts is a segment: here ten batches of ten records.
CONFIG = {
    "log.dirs": ",".join(DIRS),
    "log.segment.bytes": "10000",
    "auto.leader.rebalance.enable": "false",
}


def on_three_dirs(**spec: object) -> Cluster:
    """t-0 with replicas on brokers 0, 1 and 2, on each in d0; 0 leads."""
    cluster = Cluster(config=CONFIG, **spec)
    assert [dir_of(cluster.world, broker_id, T0) for broker_id in IDS] == ["d0"] * 3
    return cluster


def fill(cluster: Cluster, batches: int = 50) -> None:
    """Have all replicas take batches of ten records."""
    for _ in range(batches):
        cluster.produce(cluster.state().leader, 10)
    cluster.world.run_for(1_000)
    assert cluster.world.nodes[0].node.broker.replica_manager.partitions[T0].high_watermark


def future_path(world: SimulatedWorld, broker_id: int) -> str | None:
    """Where a broker moves t-0 to."""
    return world.nodes[broker_id].node.broker.log_manager.dirs.future_path_of(T0)


def begin_move(world: SimulatedWorld, broker_id: int, path: str) -> None:
    """Ask a broker to move t-0, and stop before it copies anything."""
    request = AlterReplicaLogDirsRequest({T0: path})
    world.transport.send(Message(CLIENT, Address("broker", broker_id), 1, request))
    while future_path(world, broker_id) is None:
        world.step()


def found(world: SimulatedWorld, broker_id: int) -> dict[str, ReplicaInfo]:
    """What a broker says of its logs of t-0, by directory."""
    answer = ask_broker(world, broker_id, DescribeLogDirsRequest((T0,)))
    assert isinstance(answer, DescribeLogDirsResponse)
    return {one.path: log for one in answer.log_dirs for log in one.logs.values()}


@pytest.mark.parametrize("broker_id", [0, 1], ids=["of the leader", "of a follower"])
def test_a_replica_moves_while_records_are_produced(broker_id: int) -> None:
    cluster = on_three_dirs()
    fill(cluster)
    begin_move(cluster.world, broker_id, "d2")
    steps = 0
    while future_path(cluster.world, broker_id) is not None:
        cluster.produce(0, 10)
        cluster.world.step()
        steps += 1
    assert steps > 1
    cluster.heal()
    assert [dir_of(cluster.world, one, T0) for one in IDS].count("d2") == 1
    assert dir_of(cluster.world, broker_id, T0) == "d2"
    assert not any(error for error in (a.error for a in cluster.answers.values()))


def test_size_and_lag_are_shown_while_a_replica_moves() -> None:
    cluster = on_three_dirs()
    fill(cluster)
    world = cluster.world
    world.disks.slow(1, "d0", 10_000)
    alter_dirs(world, 1, p0="d1")
    assert found(world, 1) == {
        "d0": ReplicaInfo(50_000, 0, False),
        "d1": ReplicaInfo(0, 500, True),
    }
    lags = []
    while future_path(world, 1) is not None:
        moved = found(world, 1)["d1"]
        assert moved.size_bytes == 50_000 - 100 * moved.offset_lag
        lags.append(moved.offset_lag)
        world.run_for(1_000)
    assert lags == pytest.approx([500, 400, 300, 200, 100], abs=5)
    assert found(world, 1) == {"d1": ReplicaInfo(50_000, 0, False)}


def test_a_fast_disk_moves_one_segment_in_each_step() -> None:
    cluster = on_three_dirs()
    fill(cluster)
    world = cluster.world
    begin_move(world, 1, "d1")
    lags = []
    while (future := world.nodes[1].node.broker.log_manager.dirs.future(T0)) is not None:
        lags.append(500 - future.log_end_offset)
        world.step()
    assert sorted(set(lags), reverse=True) == [500, 400, 300, 200, 100]


def test_the_leader_dies_while_its_replica_moves_and_goes_on_later() -> None:
    cluster = on_three_dirs()
    fill(cluster)
    world = cluster.world
    world.disks.slow(0, None, 1)
    alter_dirs(world, 0, p0="d1")
    world.kill(0)
    world.run_for(10_000)
    fill_from = cluster.state().leader
    assert fill_from != 0
    cluster.produce(fill_from, 10)
    world.disks.heal()
    world.start(0)
    cluster.heal()
    assert (dir_of(world, 0, T0), future_path(world, 0)) == ("d1", None)


@pytest.mark.parametrize(("lost", "left"), [("d0", None), ("d1", "d0")])
def test_a_directory_fails_while_a_replica_moves(lost: str, left: str | None) -> None:
    """After a start the directories are sound again: a move whose source was lost goes on."""
    cluster = on_three_dirs()
    fill(cluster)
    world = cluster.world
    world.disks.slow(1, None, 1)
    alter_dirs(world, 1, p0="d1")
    fail(world, 1, lost)
    world.disks.heal()
    cluster.produce(0, 10)
    world.run_for(5_000)
    assert dir_of(world, 1, T0) == left
    assert (1 in cluster.state().isr) is (left is not None)
    world.stop(1)
    world.start(1)
    world.run_for(10_000)
    cluster.heal()
    assert (dir_of(world, 1, T0), future_path(world, 1)) == ("d1", None)


def test_a_topic_is_deleted_while_its_replicas_move() -> None:
    cluster = on_three_dirs()
    fill(cluster)
    world = cluster.world
    for broker_id in IDS:
        world.disks.slow(broker_id, None, 1)
        alter_dirs(world, broker_id, p0="d2")
    store = world.open_store()
    KafkaZkClient(store).create_delete_topic_path("t")
    assert world.run_until(lambda: not KafkaZkClient(store).get_all_topics_in_cluster())
    store.close()
    world.disks.heal()
    world.run_for(1_000)
    for broker_id in IDS:
        broker = world.nodes[broker_id].node.broker
        assert broker.log_manager.dirs.log_counts() == dict.fromkeys(DIRS, 0)
    assert world.errors == []


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_nothing_is_lost_and_every_move_ends(seed: int) -> None:
    dice = random.Random(seed)
    cluster = on_three_dirs()
    world = cluster.world
    for _ in range(60):
        broker_id = dice.choice(IDS)
        running = world.nodes.get(broker_id)
        match dice.randrange(8):
            case 0 | 1 if running is not None:
                alter_dirs(world, broker_id, p0=dice.choice(DIRS))
            case 2 if running is not None and len(world.nodes) == len(IDS):
                dice.choice((world.kill, world.stop))(broker_id)
            case 3 if running is None:
                world.start(broker_id)
            case 4:
                world.disks.slow(broker_id, None, 1)
                hold(world, broker_id)
            case 5:
                world.disks.heal()
                world.transport.heal()
            case _:
                leader = cluster.state().leader
                for _ in range(dice.randrange(8)):
                    cluster.produce(max(leader, 0), dice.randrange(1, 50))
        world.run_for(dice.choice((0, 1, 10, 300, 4_000, 20_000)))
        cluster.check()
    world.disks.heal()
    cluster.heal()
    assert world.run_until(lambda: all(future_path(world, one) is None for one in IDS))
    cluster.check()
