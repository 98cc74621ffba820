"""A crash before and after every ZooKeeper operation of a topic creation: the next controller
completes it. And the half-made trees that a real Kafka leaves behind (C3 and C4 in
docs/deviations.md).
"""

from __future__ import annotations

import pytest

from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.cluster.types import TopicPartition
from klamm.lab.crash_points import CRASHES, POINTS_PER_OPERATION, Point, plan_crash
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.statemachines.partition_state import PartitionState
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.memory_store import LostReply
from klamm.zk.store import Create, ReadOp, ReadResult, Transaction, TxnResult
from klamm.zk.znodes import (
    ControllerEpochZNode,
    TopicPartitionStateZNode,
    TopicPartitionsZNode,
    TopicPartitionZNode,
)
from tests.sim.crash_points import crash_at
from tests.sim.snapshots import Snapshot
from tests.sim.worlds import active_controller, create_topic, state_of, three_brokers

ASSIGNMENT = {0: (0, 1, 2), 1: (1, 2, 0), 2: (2, 0, 1)}
TOPIC = "t"
GROUP_SIZES = (1, 2, None)


def world_before(group_size: int | None, quirks: Quirks = NO_QUIRKS) -> Snapshot:
    """Three brokers; broker 0 is the controller."""
    sizes = {} if group_size is None else {"write_group_size": group_size}
    return Snapshot(three_brokers(quirks=quirks, **sizes))


def operations_of_a_creation(snapshot: Snapshot) -> int:
    world = snapshot.restore()
    crash = crash_at(world, None, before=True)
    create_topic(world, TOPIC, ASSIGNMENT)
    world.run_for(5_000)
    assert_online(world)
    return crash.operations


def assert_online(world: SimulatedWorld) -> None:
    """Every partition is Online with all its replicas in sync, in ZooKeeper and in memory."""
    context = active_controller(world).context
    for partition, replicas in ASSIGNMENT.items():
        tp = TopicPartition(TOPIC, partition)
        state = state_of(world, TOPIC, partition)
        assert context.partition_states[tp] is PartitionState.ONLINE
        assert sorted(state.isr) == sorted(replicas)
        assert state.leader in state.isr
        for running in world.nodes.values():
            assert running.node.broker.metadata_cache.leader_of(tp) == state.leader
    assert not world.errors


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("group_size", GROUP_SIZES)
def test_the_next_controller_completes_a_creation(group_size: int | None, before: bool) -> None:
    snapshot = world_before(group_size)
    count = operations_of_a_creation(snapshot)
    assert count >= 7
    for number in range(count):
        world = snapshot.restore()
        crash = crash_at(world, number, before, with_broker=True)
        create_topic(world, TOPIC, ASSIGNMENT)
        world.run_for(20_000)
        assert crash.has_happened, f"operation {number} was never reached"
        assert active_controller(world).config.broker_id != 0
        world.start(0)
        world.run_for(20_000)
        assert_online(world)


@pytest.mark.parametrize(
    "paths",
    [
        [TopicPartitionsZNode.path(TOPIC)],
        [TopicPartitionsZNode.path(TOPIC), TopicPartitionZNode.path(TopicPartition(TOPIC, 0))],
        [
            TopicPartitionsZNode.path(TOPIC),
            *(TopicPartitionZNode.path(TopicPartition(TOPIC, n)) for n in ASSIGNMENT),
        ],
    ],
    ids=["partitions", "one partition", "every partition"],
)
def test_a_half_made_tree_is_completed(paths: list[str]) -> None:
    world = world_before(None).restore()
    for broker_id in tuple(world.nodes):
        world.stop(broker_id)
    create_topic(world, TOPIC, ASSIGNMENT)
    store = world.open_store()
    store.write([[Create(path, None)] for path in paths])
    for broker_id in world.spec.broker_ids:
        world.start(broker_id)
    world.run_for(20_000)
    assert_online(world)


def test_a_suspended_controller_does_not_make_the_write_of_its_crash_point() -> None:
    """The write is fenced when the controller continues: the next one has created the states."""
    snapshot = world_before(None)
    undisturbed = SimulatedDriver(snapshot.restore())
    operations = undisturbed.breakpoints.record()
    create_topic(undisturbed.cluster, TOPIC, ASSIGNMENT)
    undisturbed.run_for(5_000)
    (at,) = (n for n, op in enumerate(operations) if "/state" in op.text)
    driver = SimulatedDriver(snapshot.restore())
    point = Point(at * POINTS_PER_OPERATION + 1 + tuple(CRASHES).index("resume"))
    is_reached = plan_crash(driver, point, operations[at].broker_id)
    world = driver.cluster
    create_topic(world, TOPIC, ASSIGNMENT)
    driver.run_for(20_000)
    assert is_reached()
    assert (point.moment, point.crash) == ("before", "resume")
    assert_online(world)
    nodes = world.server.tree.nodes
    created = nodes[TopicPartitionStateZNode.path(TopicPartition(TOPIC, 0))].czxid
    assert created > nodes[ControllerEpochZNode.path].mzxid


def lose_the_reply_to_a_state(world: SimulatedWorld) -> None:
    """The first creation of state znodes takes place, and its reply is lost."""
    path = TopicPartitionStateZNode.path(TopicPartition(TOPIC, 0))

    def after_op(_: int, op: ReadOp | Transaction, __: ReadResult | TxnResult) -> None:
        if isinstance(op, list | tuple) and any(part.path == path for part in op):
            world.server.after_op = None
            raise LostReply

    world.server.after_op = after_op


def test_a_state_whose_reply_was_lost_is_adopted() -> None:
    world = world_before(None).restore()
    lose_the_reply_to_a_state(world)
    create_topic(world, TOPIC, ASSIGNMENT)
    world.run_for(10_000)
    assert world.server.after_op is None
    assert_online(world)


def test_with_quirk_c4_the_partition_is_stuck() -> None:
    world = world_before(1, Quirks(lost_reply_leaves_the_partition_stuck=True)).restore()
    lose_the_reply_to_a_state(world)
    create_topic(world, TOPIC, ASSIGNMENT)
    world.run_for(10_000)
    context = active_controller(world).context
    assert context.partition_states[TopicPartition(TOPIC, 0)] is PartitionState.NEW
