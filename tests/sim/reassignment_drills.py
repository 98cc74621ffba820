"""Drills of the quirks that lie in reassignments, for test_quirks.py: what each does and what it
says where it fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from klamm.cluster.quirks import Quirks
from klamm.cluster.types import NO_LEADER, ReplicaAssignment, TopicPartition
from klamm.lab.checks.agreement import check_simulated_world
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.memory_store import Crashed
from klamm.zk.store import ReadOp, ReadResult, SetData, Transaction, TxnResult
from klamm.zk.znodes import ReassignPartitionsZNode, TopicZNode
from tests.held_followers import hold, release
from tests.sim.deletions import topic_id
from tests.sim.reassignments import (
    alter,
    brokers_up,
    hosts,
    reassign,
    reassignment_znode,
    stored,
    with_topic,
)
from tests.sim.worlds import active_controller

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Drills = dict[str, tuple[Callable[[Quirks], None], str]]


def pending(quirks: Quirks) -> SimulatedWorld:
    """T0 goes from 1 and 2 to 3 and 4; 3 is in sync, 4 does not catch up. 0 is the controller."""
    world = brokers_up(5, quirks=quirks)
    with_topic(world, (1, 2), (1, 2))
    hold(world, 4)
    reassign(world, {T0: (3, 4)})
    world.run_for(3_000)
    assert sorted(stored(world, T0).state.isr) == [1, 2, 3]
    return world


def kill(world: SimulatedWorld, *broker_ids: int) -> None:
    """Kill brokers, and wait until their sessions are over."""
    for broker_id in broker_ids:
        world.kill(broker_id)
    world.run_for(10_000)


def entry_is_put_into_the_znode(quirks: Quirks) -> None:
    """A second entry in /admin/reassign_partitions, beside one that waits, is acted on."""
    world = pending(quirks)
    data = ReassignPartitionsZNode.encode({T0: (3, 4), T1: (2, 3)})
    world.open_store().write([[SetData(ReassignPartitionsZNode.path, data)]])
    world.run_for(3_000)
    release(world, 4)
    world.run_for(5_000)
    assert reassignment_znode(world) is None, "the znode stays for ever"
    assert stored(world, T1).assignment.replicas == (2, 3)


def replica_that_was_added_is_dropped(quirks: Quirks) -> None:
    """A cancel leaves nothing on a broker that was to get a replica and is not in sync."""
    world = brokers_up(5, quirks=quirks)
    with_topic(world, (1, 2))
    hold(world, 4)
    reassign(world, {T0: (1, 2, 4)})
    world.run_for(3_000)
    assert hosts(world, T0) == [1, 2, 4]
    alter(world, {T0: None})
    world.run_for(3_000)
    assert hosts(world, T0) == [1, 2], "a replica is left behind"


def cancel_goes_back_to_dead_replicas(quirks: Quirks) -> None:
    """The replica that leads since the old ones died is not taken away."""
    world = pending(quirks)
    kill(world, 1, 2)
    assert stored(world, T0).state.leader == 3
    alter(world, {T0: None})
    world.run_for(3_000)
    assert stored(world, T0).state.leader != NO_LEADER, "nobody leads"
    assert stored(world, T0).assignment.adding_replicas == (3, 4)


def override_drops_the_leader(quirks: Quirks) -> None:
    """The leader is moved to a replica that stays."""
    world = pending(quirks)
    kill(world, 1)
    assert stored(world, T0).state.leader == 3
    alter(world, {T0: (4, 2)})
    world.run_for(3_000)
    assert stored(world, T0).state.leader == 2, "nobody leads"
    release(world, 4)
    world.run_for(3_000)
    assert stored(world, T0).assignment.replicas == (4, 2)


def topic_znode_is_edited(quirks: Quirks) -> None:
    """Replicas that are written into a topic znode by hand are the same before a failover as after
    it: those that hold the data."""
    world = brokers_up(5, quirks=quirks)
    with_topic(world, (1, 2))
    data = TopicZNode.encode(topic_id(world, "t"), {T0: ReplicaAssignment((3, 4))})
    world.open_store().write([[SetData(TopicZNode.path("t"), data)]])
    world.run_for(2_000)
    assert active_controller(world).context.partition_replica_assignment(T0) == (1, 2)
    world.stop(0)
    world.run_for(5_000)
    replicas = active_controller(world).context.partition_replica_assignment(T0)
    assert replicas == (1, 2), "the edit was taken over by a failover"


def topic_znode_is_written_by_an_old_tool(quirks: Quirks) -> None:
    """A topic keeps its id, though a tool that adds a partition knows nothing of ids."""
    world = brokers_up(3, quirks=quirks)
    with_topic(world, (1, 2))
    before = topic_id(world, "t")
    data = TopicZNode.encode(None, {T0: ReplicaAssignment((1, 2)), T1: ReplicaAssignment((2, 1))})
    world.open_store().write([[SetData(TopicZNode.path("t"), data)]])
    world.run_for(2_000)
    assert stored(world, T1).state.leader == 2
    world.stop(0)
    world.run_for(5_000)
    assert topic_id(world, "t") == before, "the topic has another id"
    assert stored(world, T1).assignment.replicas == (2, 1)
    assert check_simulated_world(world) == []


def cancel_is_cut_short(quirks: Quirks) -> None:
    """The controller crashes just after it has stored that a reassignment is cancelled."""
    world = pending(quirks)
    crash_at_the_cancel(world)
    alter(world, {T0: None})
    world.run_for(5_000)
    assert stored(world, T0).assignment.replicas == (1, 2)
    assert sorted(stored(world, T0).state.isr) == [1, 2], "a replica without a place is in sync"


def crash_at_the_cancel(world: SimulatedWorld, and_then: Callable[[], None] = lambda: None) -> None:
    """The controller will crash just after it has stored a reassignment's cancellation."""
    path, session_id = TopicZNode.path("t"), world.nodes[0].store.session_id

    def after_op(session: int, op: ReadOp | Transaction, _: ReadResult | TxnResult) -> None:
        if session != session_id or not isinstance(op, list | tuple):
            return
        if any(isinstance(part, SetData) and part.path == path for part in op):
            world.server.after_op = None
            raise Crashed

    def on_crash(broker_id: int) -> None:
        world.crash_controller(broker_id)
        and_then()

    world.on_crash = on_crash
    world.server.after_op = after_op


def entry_has_no_replicas(quirks: Quirks) -> None:
    """An entry without replicas leaves the topic as it was."""
    world = brokers_up(3, quirks=quirks)
    with_topic(world, (1, 2))
    reassign(world, {T0: ()})
    world.run_for(3_000)
    assert reassignment_znode(world) is None
    assert stored(world, T0).assignment == ReplicaAssignment((1, 2)), "all replicas are to go"


REASSIGNMENT_DRILLS: Final[Drills] = {
    "kafka_9478": (entry_is_put_into_the_znode, "the znode stays for ever"),
    "kafka_12493": (topic_znode_is_edited, "the edit was taken over by a failover"),
    "kafka_13972": (replica_that_was_added_is_dropped, "a replica is left behind"),
    "kafka_14424": (cancel_goes_back_to_dead_replicas, "nobody leads"),
    "kafka_14808": (override_drops_the_leader, "nobody leads"),
    "cmak_878": (topic_znode_is_written_by_an_old_tool, "the topic has another id"),
    "empty_reassignment_is_started": (entry_has_no_replicas, "all replicas are to go"),
    "crash_leaves_stray_replicas": (cancel_is_cut_short, "a replica without a place is in sync"),
}
