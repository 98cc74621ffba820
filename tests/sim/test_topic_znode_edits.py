"""What others write into topic znodes: partitions are added, all else is put back as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.lab.checks.agreement import check_simulated_world
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.memory_store import LostReply
from klamm.zk.store import GetData, ReadOp, ReadResult, SetData, Transaction, TxnResult
from klamm.zk.znodes import TopicZNode
from tests.sim.deletions import topic_id
from tests.sim.reassignments import brokers_up, stored, with_topic
from tests.sim.worlds import active_controller

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
PATH = TopicZNode.path("t")
HERE, THERE, TWO = ReplicaAssignment((1, 2)), ReplicaAssignment((3, 0)), ReplicaAssignment((2, 1))


def world_with_topic() -> SimulatedWorld:
    world = brokers_up(4)
    with_topic(world, (1, 2))
    return world


def edit(world: SimulatedWorld, id_: str | None, *assignments: ReplicaAssignment) -> None:
    """Write the znode as a tool does that looks at no version."""
    partitions = {TopicPartition("t", n): a for n, a in enumerate(assignments)}
    store = world.open_store()
    store.write([[SetData(PATH, TopicZNode.encode(id_, partitions))]])
    store.close()


def restored(op: ReadOp | Transaction) -> bool:
    """Whether the controller is about to write the znode."""
    return isinstance(op, list | tuple) and len(op) > 1 and any(part.path == PATH for part in op)


def read_again(op: ReadOp | Transaction) -> bool:
    """Whether the controller is about to read the znode's version, before it writes the znode."""
    return isinstance(op, GetData) and op.path == PATH and not op.watch


def assert_as_it_was(world: SimulatedWorld, id_: str | None, *partitions: TopicPartition) -> None:
    """The topic has its id, its first partition its replicas, and the others are served."""
    world.run_for(5_000)
    assert topic_id(world, "t") == id_
    assert stored(world, T0).assignment == HERE
    for tp in partitions:
        assert stored(world, tp).state.leader == 2
    assert list(active_controller(world).context.assignments) == [T0, *partitions]
    assert check_simulated_world(world) == []
    assert not world.errors


@pytest.mark.parametrize("first", [HERE, THERE], ids=["id", "replicas"])
def test_what_only_the_controller_changes_is_put_back(first: ReplicaAssignment) -> None:
    world = world_with_topic()
    id_ = topic_id(world, "t")
    edit(world, id_ if first is THERE else None, first, TWO)
    assert_as_it_was(world, id_, T1)


@pytest.mark.parametrize("is_awaited", [read_again, restored], ids=["read again", "write"])
def test_what_is_added_while_it_is_put_back_is_not_lost(
    is_awaited: Callable[[ReadOp | Transaction], bool],
) -> None:
    world = world_with_topic()
    id_ = topic_id(world, "t")

    def before_op(_: int, op: ReadOp | Transaction) -> None:
        if is_awaited(op):
            world.server.before_op = None
            edit(world, id_, HERE, TWO, TWO)

    world.server.before_op = before_op
    edit(world, None, HERE, TWO)
    world.run_for(1_000)
    assert world.server.before_op is None
    assert_as_it_was(world, id_, T1, T2)


def test_a_lost_reply_to_what_is_put_back_changes_nothing() -> None:
    world = world_with_topic()
    id_ = topic_id(world, "t")
    version = stored(world, T0).topic_version

    def after_op(_: int, op: ReadOp | Transaction, __: ReadResult | TxnResult) -> None:
        if restored(op):
            world.server.after_op = None
            raise LostReply

    world.server.after_op = after_op
    edit(world, None, HERE)
    world.run_for(1_000)
    assert world.server.after_op is None
    assert_as_it_was(world, id_)
    assert stored(world, T0).topic_version == version + 2
