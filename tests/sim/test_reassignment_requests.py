"""Reassignments that are asked for, by request and by znode: answers, cancels, what is refused."""

from __future__ import annotations

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from klamm.cluster.types import LeaderAndIsr, ReplicaAssignment, TopicPartition
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import LostReply
from klamm.zk.store import ReadOp, SetData, Transaction
from klamm.zk.znodes import TopicPartitionStateZNode
from tests.held_followers import hold, release
from tests.sim.reassignments import (
    alter,
    ask,
    assert_settled,
    brokers_up,
    hosts,
    phases,
    reassign,
    reassignment_znode,
    reassignments,
    stored,
    with_topic,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MOVE_ZNODE = {T0: (2, 3)}


# By request


def test_alter_answers_for_every_partition() -> None:
    world = brokers_up()
    with_topic(world, (0, 1), (0, 1))
    world.stop(3)
    world.run_for(2_000)
    answers = {
        target: alter(world, {T0: target})[T0]
        for target in (None, (), (1, 1), (-1, 1), (3, 1), (1, 0))
    }
    invalid = Errors.INVALID_REPLICA_ASSIGNMENT
    assert {target: answer.error for target, answer in answers.items()} == {
        None: Errors.NO_REASSIGNMENT_IN_PROGRESS,
        (): invalid,
        (1, 1): invalid,
        (-1, 1): invalid,
        (3, 1): invalid,
        (1, 0): Errors.NONE,
    }
    assert answers[(1, 1)].message == (
        "Duplicate replica ids in partition reassignment replica list: ArrayBuffer(1, 1)"
    )
    assert answers[(3, 1)].message == (
        "Replica assignment has brokers that are not alive. Replica list: ArrayBuffer(3), "
        "live broker list: Set(0, 1, 2)"
    )
    stranger = TopicPartition("no", 0)
    both = alter(world, {stranger: (0, 1), T1: (2, 1)})
    assert both[stranger].error is Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert both[stranger].message == "The partition does not exist."
    assert both[T1].error is Errors.NONE
    assert_settled(world, T1, (2, 1))


def test_list_shows_what_is_moving() -> None:
    world = brokers_up()
    with_topic(world, (0, 1), (0, 1))
    hold(world, 2)
    alter(world, {T1: (1, 2)})
    world.run_for(1_000)
    moving = {T1: ReplicaAssignment((1, 2, 0), (2,), (0,))}
    assert reassignments(world) == moving
    named = ask(world, ListPartitionReassignmentsRequest((T0, T1)))
    assert isinstance(named, ListPartitionReassignmentsResponse)
    assert named.partitions == moving
    release(world, 2)
    assert_settled(world, T1, (1, 2))
    assert reassignments(world) == {}


def test_a_cancel_writes_the_topic_znode_twice_alike() -> None:
    world = brokers_up()
    with_topic(world, (0, 1))
    hold(world, 2)
    alter(world, {T0: (1, 2)})
    world.run_for(1_000)
    version = stored(world, T0).topic_version
    alter(world, {T0: None})
    assert_settled(world, T0, (1, 0))
    assert stored(world, T0).topic_version == version + 2
    assert phases(world, T0)[4:] == ["U1", "U2", "U3", "B1", "B2", "B3", "B6", "B7", "B8"]


def test_an_override_drops_what_is_not_wanted_any_more() -> None:
    world = brokers_up()
    with_topic(world, (0, 1))
    hold(world, 2)
    alter(world, {T0: (1, 2)})
    world.run_for(1_000)
    assert hosts(world, T0) == [0, 1, 2]
    alter(world, {T0: (1, 3)})
    assert_settled(world, T0, (1, 3))


# /admin/reassign_partitions


def write_raw(world: SimulatedWorld, data: bytes) -> None:
    store = world.open_store()
    assert KafkaZkClient(store).create("/admin/reassign_partitions", data)
    store.close()
    world.run_for(3_000)


ENTRY = '{"topic":"t","partition":0,"replicas":%s}'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no json",
        b'{"version":1,"partitions":[]}',
        b'{"version":1}',
        b'{"version":1,"partitions":[{"topic":"t","partition":0}]}',
        b'{"version":1,"partitions":[{"topic":"t","partition":"x","replicas":[1]}]}',
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":[]}]}',
        b'{"version":1,"partitions":[{"topic":"no","partition":0,"replicas":[1]}]}',
        b'{"version":1,"partitions":[{"topic":"t","partition":9,"replicas":[1]}]}',
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[]}]}',
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[-1]}]}',
    ],
)
def test_what_cannot_be_done_changes_nothing_and_the_next_plan_is_served(data: bytes) -> None:
    world = brokers_up()
    with_topic(world, (0, 1))
    before = stored(world, T0)
    write_raw(world, data)
    assert reassignment_znode(world) is None
    assert stored(world, T0) == before
    reassign(world, MOVE_ZNODE)
    assert_settled(world, T0, (2, 3))


def test_a_bad_entry_does_not_hold_up_a_good_one() -> None:
    world = brokers_up()
    with_topic(world, (0, 1), (0, 1))
    reassign(world, {TopicPartition("no", 0): (1,), T0: (2, 2, 3), T1: (3,)})
    assert_settled(world, T0, (2, 3))
    assert_settled(world, T1, (3,))


def test_entries_leave_the_znode_as_they_finish() -> None:
    world = brokers_up()
    with_topic(world, (0, 1), (0, 1))
    hold(world, 3)
    reassign(world, {T0: (1, 2), T1: (3, 1)})
    world.run_for(3_000)
    assert reassignment_znode(world) == {T1: (3, 1)}
    release(world, 3)
    assert_settled(world, T0, (1, 2))
    assert_settled(world, T1, (3, 1))


def test_a_znode_deleted_by_hand_leaves_its_watch_armed() -> None:
    world = brokers_up()
    with_topic(world, (0, 1), (0, 1))
    hold(world, 3)
    reassign(world, {T0: (1, 3)})
    world.run_for(2_000)
    store = world.open_store()
    KafkaZkClient(store).delete("/admin/reassign_partitions", -1)
    store.close()
    world.run_for(1_000)
    reassign(world, {T1: (1, 2)})
    assert_settled(world, T1, (1, 2))
    release(world, 3)
    assert_settled(world, T0, (1, 3))


def test_a_lost_reply_to_the_topic_znode_is_no_failure() -> None:
    world = brokers_up()
    with_topic(world, (0, 1))
    lost: list[int] = []

    def after_op(session_id: int, op: ReadOp | Transaction, _: object) -> None:
        is_topic = isinstance(op, list | tuple) and any(o.path == "/brokers/topics/t" for o in op)
        if is_topic and len(lost) < 2:
            lost.append(session_id)
            raise LostReply

    world.server.after_op = after_op
    reassign(world, MOVE_ZNODE)
    assert_settled(world, T0, (2, 3))
    assert len(lost) == 2


# ISRs that leaders write themselves


def test_an_isr_that_its_leader_wrote_completes_a_reassignment() -> None:
    """Before AlterIsr the controller watched the states of what it reassigned."""
    world = brokers_up(config={"inter.broker.protocol.version": "2.6"})
    with_topic(world, (0, 1))
    hold(world, 2, 3)
    reassign(world, MOVE_ZNODE)
    world.run_for(2_000)
    state = stored(world, T0).state
    for isr in ((0, 1, 3), (0, 1, 3, 2)):
        data = TopicPartitionStateZNode.encode(LeaderAndIsr(0, state.leader_epoch, isr), 1)
        world.open_store().write([[SetData(TopicPartitionStateZNode.path(T0), data)]])
        world.run_for(1_000)
    assert_settled(world, T0, (2, 3))


def test_isrs_written_together_complete_their_reassignments_together() -> None:
    world = brokers_up(config={"inter.broker.protocol.version": "2.6"})
    with_topic(world, (0, 1), (0, 1), (0, 1))
    moved = [TopicPartition("t", number) for number in range(3)]
    hold(world, 2, 3)
    reassign(world, dict.fromkeys(moved, (2, 3)))
    world.run_for(2_000)
    before = stored(world, T0).topic_version
    states = {tp: stored(world, tp).state for tp in moved}
    isrs = {
        tp: TopicPartitionStateZNode.encode(LeaderAndIsr(0, state.leader_epoch, (0, 1, 3, 2)), 1)
        for tp, state in states.items()
    }
    world.open_store().write(
        [[SetData(TopicPartitionStateZNode.path(tp), data) for tp, data in isrs.items()]]
    )
    world.run_for(1_000)
    for tp in moved:
        assert_settled(world, tp, (2, 3))
    assert stored(world, T0).topic_version == before + 1
