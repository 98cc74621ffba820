"""The checks of agreement: nothing to say of a cluster at rest, and a line for each planted lie."""

from __future__ import annotations

import re

import msgspec
import pytest

from klamm.brokers.broker import KafkaServer
from klamm.cluster.requests import UpdateMetadataRequest
from klamm.cluster.types import LeaderAndIsr, ReplicaAssignment, TopicPartition
from klamm.lab.checks.agreement import check_simulated_world
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.store import Delete, SetData
from klamm.zk.znodes import TopicPartitionStateZNode
from tests.sim.deletions import delete_topics, topic_znodes
from tests.sim.worlds import active_controller, create_topic, state_of, three_brokers

ASSIGNMENT = {0: (0, 1, 2), 1: (1, 2, 0)}
TP = TopicPartition("t", 0)
SINGLE = TopicPartition("single", 0)


@pytest.fixture
def world() -> SimulatedWorld:
    made = three_brokers()
    create_topic(made, "t", ASSIGNMENT)
    create_topic(made, "single", {0: (2,)})
    made.run_for(2_000)
    return made


def broker(world: SimulatedWorld, broker_id: int) -> KafkaServer:
    return world.nodes[broker_id].node.broker


def test_a_cluster_at_rest_agrees(world: SimulatedWorld) -> None:
    assert check_simulated_world(world) == []


def test_brokers_that_died_and_came_back_agree(world: SimulatedWorld) -> None:
    world.kill(2)
    world.run_for(10_000)
    assert state_of(world, "single", 0).leader == -1
    assert check_simulated_world(world) == []
    world.kill(0)
    world.run_for(10_000)
    assert check_simulated_world(world) == []
    world.start(0)
    world.start(2)
    world.run_for(10_000)
    assert check_simulated_world(world) == []
    assert sorted(state_of(world, "t", 0).isr) == [0, 1, 2]


def test_a_deletion_that_waits_for_a_dead_broker_is_no_disagreement(world: SimulatedWorld) -> None:
    world.kill(2)
    world.run_for(10_000)
    delete_topics(world, "t")
    world.run_for(10_000)
    assert topic_znodes(world, "t")
    assert TP not in broker(world, 0).metadata_cache
    assert check_simulated_world(world) == []


def test_a_state_znode_written_by_another_client_is_found_everywhere(world: SimulatedWorld) -> None:
    data = TopicPartitionStateZNode.encode(LeaderAndIsr(2, 5, (2,)), 1)
    world.open_store().write([[SetData(TopicPartitionStateZNode.path(TP), data)]])
    lines = check_simulated_world(world)
    assert [re.split(" has | applied ", line)[0] for line in lines] == [
        *(f"t-0: the metadata cache of broker {n}" for n in range(3)),
        *(f"t-0: broker {n}" for n in range(3)),
        "t-0: the controller",
    ]
    assert (
        "ZooKeeper has LeaderAndIsr(leader=2, leaderEpoch=5, isr=List(2), zkVersion=1)" in lines[0]
    )


def test_an_older_isr_is_a_lie_of_the_leader_but_not_of_a_follower(world: SimulatedWorld) -> None:
    for broker_id in (0, 1):
        partition = broker(world, broker_id).replica_manager.partitions[TP]
        assert partition.state is not None
        partition.state = msgspec.structs.replace(partition.state, isr=(0,), zk_version=7)
    (line,) = check_simulated_world(world)
    assert line.startswith(
        "t-0: broker 0 applied LeaderAndIsr(leader=0, leaderEpoch=0, isr=List(0)"
    )


def test_a_follower_of_another_leader_epoch_is_found(world: SimulatedWorld) -> None:
    partition = broker(world, 1).replica_manager.partitions[TP]
    assert partition.state is not None
    partition.state = msgspec.structs.replace(partition.state, leader_epoch=9)
    (line,) = check_simulated_world(world)
    assert line.startswith("t-0: broker 1 applied ")


def test_a_replica_that_was_lost_is_found(world: SimulatedWorld) -> None:
    del broker(world, 2).replica_manager.partitions[TP]
    assert check_simulated_world(world) == ["t-0: broker 2 has not applied any LeaderAndIsr"]


def test_a_failed_log_directory_without_a_notification_is_found(world: SimulatedWorld) -> None:
    manager = broker(world, 2).replica_manager
    del manager.partitions[TP]
    manager.offline_partitions[TP] = None
    assert check_simulated_world(world) == [
        "t-0: broker 2 is in the ISR, but its log directory failed",
        "t-0: the log directory of broker 2 is offline, but the controller considers it online",
    ]


def test_a_failed_log_directory_counts_for_the_replicas_of_its_broker_alone(
    world: SimulatedWorld,
) -> None:
    broker(world, 0).replica_manager.offline_partitions[SINGLE] = None
    broker(world, 0).replica_manager.offline_partitions[TopicPartition("gone", 0)] = None
    assert check_simulated_world(world) == []


def test_a_log_directory_that_did_not_fail_is_found(world: SimulatedWorld) -> None:
    active_controller(world).context.replicas_on_offline_dirs[1] = {TP}
    assert check_simulated_world(world) == [
        "t-0: the log directory of broker 1 is online, but the controller considers it offline"
    ]


def test_a_log_directory_move_that_failed_is_found(world: SimulatedWorld) -> None:
    broker(world, 1).replica_manager.replica_alter_log_dirs_manager.failed[TP] = None
    assert check_simulated_world(world) == [
        "t-0: broker 1 has given up moving its log to another log directory"
    ]


@pytest.mark.parametrize("field", ["leader", "leader_epoch", "isr", "zk_version"])
def test_each_field_of_a_metadata_cache_counts(world: SimulatedWorld, field: str) -> None:
    cache = broker(world, 1).metadata_cache
    state = cache.get(TP)
    assert state is not None
    other = (1,) if field == "isr" else getattr(state, field) + 1
    told = msgspec.structs.replace(state, **{field: other})
    alive = tuple(cache.alive_brokers.values())
    cache.update(UpdateMetadataRequest(0, 1, -1, (told,), alive, {}))
    (line,) = check_simulated_world(world)
    assert line.startswith("t-0: the metadata cache of broker 1 has ")


def test_a_cache_of_what_is_no_more_is_found(world: SimulatedWorld) -> None:
    path = TopicPartitionStateZNode.path(SINGLE)
    world.open_store().write([[Delete(path)]])
    lines = check_simulated_world(world)
    assert len(lines) == 4
    assert lines[0].startswith("single-0: the metadata cache of broker 0 has ")
    assert lines[0].endswith(", but ZooKeeper has no state")


def test_live_sets_and_broker_epochs_are_compared(world: SimulatedWorld) -> None:
    del broker(world, 1).metadata_cache.alive_brokers[2]
    broker(world, 2).broker_epoch += 1
    active_controller(world).context.remove_live_brokers([1])
    epoch = broker(world, 2).broker_epoch
    lines = check_simulated_world(world)
    assert "broker 1 considers brokers 0,1 alive, but 0,1,2 are in /brokers/ids" in lines
    assert f"broker 2 has broker epoch {epoch}, but its registration has {epoch - 1}" in lines
    assert any(line.startswith("the controller's live brokers (id:epoch) are 0:") for line in lines)
    assert len(lines) == 3


def test_a_killed_broker_whose_session_lives_is_a_difference(world: SimulatedWorld) -> None:
    world.kill(1)
    assert "brokers 0,2 are running, but 0,1,2 are in /brokers/ids" in check_simulated_world(world)


def test_the_controllers_own_view_is_compared(world: SimulatedWorld) -> None:
    context = active_controller(world).context
    context.offline_partition_count += 1
    context.preferred_replica_imbalance_count += 2
    context.assignments[TP] = ReplicaAssignment((0, 1))
    context.epoch += 1
    lines = check_simulated_world(world)
    assert lines[0] == "the controller has epoch 2, but /controller_epoch is 1"
    assert lines[1].startswith("t-0: the controller has assignment ReplicaAssignment(replicas=0,1")
    assert lines[2:] == [
        "the controller's offline_partition_count is 1, but a recount gives 0",
        "the controller's preferred_replica_imbalance_count is 2, but a recount gives 0",
        "the controller's replicas_per_broker is {0: 2, 1: 2, 2: 3}, "
        "but a recount gives {0: 2, 1: 2, 2: 2}",
    ]


def test_without_a_controller_there_is_no_agreement() -> None:
    world = three_brokers()
    world.kill(0)
    for broker_id in (1, 2):
        world.kill(broker_id)
    world.run_for(20_000)
    assert check_simulated_world(world) == ["no controller is active"]
