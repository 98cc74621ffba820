"""Reassignments in a simulated cluster: phases, pending ones, failovers, many partitions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import Kind
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.zk.store import Delete, GetData, ReadOp, ReadResult, SetData, Transaction, TxnResult
from klamm.zk.znodes import ReassignPartitionsZNode
from tests.held_followers import hold, release
from tests.sim.reassignments import (
    alter,
    assert_settled,
    brokers_up,
    hosts,
    phases,
    reassign,
    reassignment_znode,
    reassignments,
    rows,
    stored,
    with_topic,
)
from tests.sim.worlds import active_controller

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
WHOLE = ["U1", "U2", "A1", "A2", "B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8"]
MOVE_ZNODE = {T0: (2, 3)}


# The phases


def test_every_phase_is_in_the_journal_under_one_id() -> None:
    world = brokers_up()
    with_topic(world, (0, 1))
    reassign(world, MOVE_ZNODE)
    assert_settled(world, T0, (2, 3))
    assert phases(world, T0) == WHOLE
    kinds = (Kind.REASSIGNMENT_PHASE, Kind.LEADER_EPOCH_BUMPED)
    ids = {row.reassignment_id for kind in kinds for row in rows(world, kind, T0)}
    assert ids == {"t-0->2,3"}


@pytest.mark.parametrize(
    ("before", "target", "without"),
    [
        ((0,), (0, 1, 2), ("B4", "B5")),
        ((0, 1, 2), (2,), ("A1", "A2")),
        ((0, 1, 2), (2, 1, 0), ("A1", "A2", "B4", "B5")),
        ((0, 1), (1, 2), ()),
        ((0, 1), (0, 1), ("U1", "U2", "A1", "A2", "B4", "B5")),
    ],
    ids=["rf up", "rf down", "order only", "overlap", "nothing new"],
)
def test_phases_that_have_nothing_to_do_are_left_out(
    before: tuple[int, ...], target: tuple[int, ...], without: tuple[str, ...]
) -> None:
    world = brokers_up()
    with_topic(world, before)
    reassign(world, {T0: target})
    assert_settled(world, T0, target)
    assert phases(world, T0) == [phase for phase in WHOLE if phase not in without]


# The three cases of the leader


def test_a_leader_outside_of_the_target_is_moved_into_it() -> None:
    world = brokers_up()
    with_topic(world, (0, 1))
    reassign(world, {T0: (2, 1)})
    assert_settled(world, T0, (2, 1))
    assert stored(world, T0).state.leader == 2
    (moved,) = [r for r in rows(world, Kind.PARTITION_TRANSITION, T0) if r.prev_leader == 0]
    assert (moved.election, moved.leader) == ("ReassignPartitionLeaderElectionStrategy", 2)


def test_a_leader_inside_of_the_target_stays_with_another_epoch() -> None:
    world = brokers_up()
    with_topic(world, (0, 1))
    reassign(world, {T0: (2, 0)})
    assert_settled(world, T0, (2, 0))
    assert stored(world, T0).state.leader == 0
    start, end = rows(world, Kind.LEADER_EPOCH_BUMPED, T0)
    assert (start.leader_epoch, end.leader_epoch) == (1, 2)
    assert end.detail == str(ReplicaAssignment((2, 0)))


def test_a_leader_inside_of_the_target_that_is_dead_gives_way() -> None:
    """A broker that is shutting down still leads, but counts as dead."""
    world = brokers_up()
    with_topic(world, (1, 2, 3))
    active_controller(world).context.add_shutting_down_broker(1)
    reassign(world, {T0: (1, 2)})
    assert_settled(world, T0, (1, 2))
    assert stored(world, T0).state.leader == 2
    last = rows(world, Kind.PARTITION_TRANSITION, T0)[-1]
    assert (last.election, last.prev_leader) == ("ReassignPartitionLeaderElectionStrategy", 1)


# Pending reassignments


def test_a_reassignment_waits_for_a_dead_target_and_goes_on_with_its_return() -> None:
    world = brokers_up()
    with_topic(world, (0, 1))
    world.stop(3)
    world.run_for(2_000)
    reassign(world, MOVE_ZNODE)
    world.run_for(5_000)
    assert stored(world, T0).assignment == ReplicaAssignment((2, 3, 0, 1), (2, 3), (0, 1))
    assert reassignment_znode(world) == MOVE_ZNODE
    world.start(3)
    assert_settled(world, T0, (2, 3))


def test_a_broker_that_never_was_is_waited_for_until_a_cancel() -> None:
    world = brokers_up()
    with_topic(world, (0, 1))
    reassign(world, {T0: (0, 77)})
    world.run_for(20_000)
    assert reassignments(world)[T0].adding_replicas == (77,)
    world.open_store().write([[Delete(ReassignPartitionsZNode.path)]])
    world.kill(0)
    world.run_for(20_000)
    assert reassignments(world)[T0].adding_replicas == (77,), "the next controller resumes it"
    assert alter(world, {T0: None})[T0].error is Errors.NONE
    world.run_for(5_000)
    assert reassignments(world) == {}
    assert stored(world, T0).assignment == ReplicaAssignment((0, 1))


def test_a_target_replica_that_dies_holds_the_completion_up() -> None:
    world = brokers_up()
    with_topic(world, (1, 2))
    hold(world, 3)
    reassign(world, {T0: (1, 3)})
    world.run_for(2_000)
    world.kill(1)
    world.run_for(10_000)
    release(world, 3)
    world.run_for(2_000)
    assert stored(world, T0).state.leader == 2
    assert stored(world, T0).assignment.is_being_reassigned
    world.start(1)
    assert_settled(world, T0, (1, 3))


@pytest.mark.parametrize("is_znode_left", [True, False], ids=["znode", "topic znode alone"])
def test_the_next_controller_goes_on(is_znode_left: bool) -> None:
    world = brokers_up()
    with_topic(world, (1, 2))
    hold(world, 3)
    if is_znode_left:
        reassign(world, {T0: (2, 3)})
    else:
        assert alter(world, {T0: (2, 3)})[T0].error is Errors.NONE
    world.run_for(2_000)
    world.stop(0)
    world.run_for(5_000)
    assert T0 in active_controller(world).context.partitions_being_reassigned
    release(world, 3)
    assert_settled(world, T0, (2, 3))


def test_an_entry_that_a_tool_changes_at_the_completion_is_kept_and_followed() -> None:
    """The tool overwrites the znode just before the controller removes the completed entry."""
    world = brokers_up()
    with_topic(world, (1, 2))
    path = ReassignPartitionsZNode.path

    def before_op(_: int, op: ReadOp | Transaction) -> None:
        is_read = isinstance(op, GetData) and op.path == path
        if is_read and not stored(world, T0).assignment.is_being_reassigned:
            world.server.before_op = None
            store = world.open_store()
            store.write([[SetData(path, ReassignPartitionsZNode.encode({T0: (3, 0)}))]])
            store.close()

    hold(world, 3)
    reassign(world, MOVE_ZNODE)
    world.run_for(2_000)
    world.server.before_op = before_op
    release(world, 3)
    world.run_for(10_000)
    assert world.server.before_op is None
    assert_settled(world, T0, (3, 0))


def test_an_api_reassignment_does_not_revert_at_a_failover() -> None:
    """What was asked for last by request is not undone by an older znode (KAFKA-9089)."""
    world = brokers_up()
    with_topic(world, (1, 2))
    hold(world, 3)
    reassign(world, {T0: (2, 3)})
    world.run_for(2_000)
    assert alter(world, {T0: (3, 1)})[T0].error is Errors.NONE
    assert reassignment_znode(world) is None
    world.stop(0)
    world.run_for(5_000)
    release(world, 3)
    assert_settled(world, T0, (3, 1))


def test_completion_waits_until_a_target_replica_can_lead() -> None:
    """The only replica that is to stay died as the last one in sync."""
    world = brokers_up()
    with_topic(world, (1, 2))
    world.kill(2)
    world.run_for(10_000)
    world.kill(1)
    world.run_for(10_000)
    assert stored(world, T0).state.isr == (1,)
    world.start(2)
    world.run_for(3_000)
    reassign(world, {T0: (1,)})
    world.run_for(5_000)
    assert stored(world, T0).assignment.removing_replicas == (2,)
    assert hosts(world, T0) == [2]
    world.start(1)
    assert_settled(world, T0, (1,))


# Many at once


def test_many_partitions_of_many_topics() -> None:
    world = brokers_up()
    targets = {}
    for topic in ("t", "u", "v"):
        with_topic(world, *[(0, 1), (1, 2), (2, 0), (3, 1)] * 3, topic=topic)
        for partition in range(12):
            targets[TopicPartition(topic, partition)] = ((2, 3), (3, 0), (1,))[partition % 3]
    reassign(world, targets)
    world.run_for(5_000)
    for tp, replicas in targets.items():
        assert_settled(world, tp, replicas)


def batches_of_a_plan(partitions: int, topics: int = 1) -> tuple[int, int]:
    """ZooKeeper batches of the controller until all is started, and from then to the end, when
    every follower catches up at once."""
    world = brokers_up()
    names = [f"t{number}" for number in range(topics)]
    for topic in names:
        with_topic(world, *[(0, 1)] * partitions, topic=topic)
    hold(world, 2, 3)
    store = world.nodes[0].store
    batches = [0]
    read, write = store.read, store.write

    def counted_read(ops: Sequence[ReadOp]) -> list[ReadResult]:
        batches[0] += 1
        return read(ops)

    def counted_write(transactions: Sequence[Transaction]) -> list[TxnResult]:
        batches[0] += 1
        return write(transactions)

    store.read, store.write = counted_read, counted_write  # type: ignore[method-assign]
    reassign(world, {TopicPartition(t, n): (2, 3) for t in names for n in range(partitions)})
    world.run_for(3_000)
    started, batches[0] = batches[0], 0
    release(world, 2, 3)
    world.run_for(10_000)
    assert reassignment_znode(world) is None
    return started, batches[0]


def test_batches_do_not_grow_with_the_partitions() -> None:
    few, many = batches_of_a_plan(3), batches_of_a_plan(60)
    assert few == many, f"3 partitions: {few}, 60 partitions: {many}"


def test_batches_do_not_grow_with_the_topics() -> None:
    few, many = batches_of_a_plan(1, topics=3), batches_of_a_plan(1, topics=60)
    # What comes between the changes of topic znodes in the queue does not depend on their number.
    assert sum(many) <= sum(few) + 4, f"3 topics: {few}, 60 topics: {many}"


def test_one_topic_znode_is_written_twice_for_all_its_partitions() -> None:
    world = brokers_up()
    with_topic(world, *[(0, 1)] * 6)
    before = stored(world, T0).topic_version
    hold(world, 2, 3)
    reassign(world, {TopicPartition("t", n): (2, 3) for n in range(6)})
    world.run_for(2_000)
    assert stored(world, T0).topic_version == before + 1
