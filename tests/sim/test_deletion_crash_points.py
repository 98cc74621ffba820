"""A crash before and after every ZooKeeper operation of a deletion: the next controller ends it.

The crash takes the controller alone or its broker too; where that broker has replicas of the
topics, the deletion waits until it is back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from cluster.api_errors import Errors
from cluster.requests import DeleteTopicsRequest, DeleteTopicsResponse
from runtime.simulated_world import SimulatedWorld, Snapshot
from tests.sim.deletions import assert_gone, delete_topics, topic_id, topic_znodes
from tests.sim.reassignments import ask
from tests.sim.test_crash_points import Crash as CrashOfNode
from tests.sim.test_reassignment_crashes import Crash as CrashOfController
from tests.sim.worlds import active_controller, create_topic, state_of, three_brokers

GROUP_SIZES = (1, None)
TOPICS = ("t", "u")
EVERYWHERE = {0: (0, 1, 2), 1: (1, 2, 0)}
NOT_ON_0 = {0: (1, 2), 1: (2, 1)}
OPERATIONS_LEAST = 12
ANSWERS = (Errors.NONE, Errors.REQUEST_TIMED_OUT, Errors.UNKNOWN_TOPIC_OR_PARTITION)


class Case(NamedTuple):
    """Where the topics are, who crashes, and how the deletion is asked for."""

    assignment: dict[int, tuple[int, ...]]
    crash: type[CrashOfNode] | type[CrashOfController]
    delete: Callable[[SimulatedWorld], None]

    @property
    def waits_for_broker_0(self) -> bool:
        """True if replicas are on the broker that dies."""
        return self.crash is CrashOfNode and self.assignment is EVERYWHERE


def by_znode(world: SimulatedWorld) -> None:
    """As kafka-topics does with --zookeeper."""
    delete_topics(world, *TOPICS)


def by_request(world: SimulatedWorld) -> None:
    """As a client that asks again when nobody answers, or another than the controller. A topic
    that an earlier try has deleted is unknown to a later one."""
    for _ in range(20):
        answer = ask(world, DeleteTopicsRequest(TOPICS, 1_000))
        if isinstance(answer, DeleteTopicsResponse):
            errors = [result.error for result in answer.topics]
            if Errors.NOT_CONTROLLER not in errors:
                assert all(error in ANSWERS for error in errors), errors
                return
    raise AssertionError("no controller has answered")


CASES = {
    "the controller": Case(EVERYWHERE, CrashOfController, by_znode),
    "the controller, asked by request": Case(EVERYWHERE, CrashOfController, by_request),
    "its broker too": Case(EVERYWHERE, CrashOfNode, by_znode),
    "its broker too, without replicas": Case(NOT_ON_0, CrashOfNode, by_znode),
}


def world_before(case: Case, group_size: int | None) -> Snapshot:
    """Two topics to be deleted and one to be kept; broker 0 is the controller."""
    sizes = {} if group_size is None else {"write_group_size": group_size}
    world = three_brokers(**sizes)
    for topic in (*TOPICS, "kept"):
        create_topic(world, topic, case.assignment)
    world.run_for(5_000)
    return world.snapshot()


def operations_of_a_deletion(snapshot: Snapshot, case: Case) -> int:
    world = snapshot.restore()
    crash = case.crash(world, None, True)
    case.delete(world)
    world.run_for(5_000)
    assert_gone(world, *TOPICS)
    return crash.count


def make_again(world: SimulatedWorld, before: dict[str, str | None]) -> None:
    """A topic of the same name is a new topic for everybody."""
    for topic in TOPICS:
        create_topic(world, topic, {0: (2, 0, 1)})
    world.run_for(5_000)
    for topic in TOPICS:
        assert topic_id(world, topic) not in (None, before[topic])
        state = state_of(world, topic, 0)
        assert (state.leader, state.leader_epoch, sorted(state.isr)) == (2, 0, [0, 1, 2])
    assert not world.errors


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("group_size", GROUP_SIZES)
@pytest.mark.parametrize("name", CASES)
def test_the_next_controller_ends_a_deletion(
    name: str, group_size: int | None, before: bool
) -> None:
    case = CASES[name]
    snapshot = world_before(case, group_size)
    ids = {topic: topic_id(snapshot.restore(), topic) for topic in TOPICS}
    count = operations_of_a_deletion(snapshot, case)
    assert count >= OPERATIONS_LEAST
    for number in range(count):
        world = snapshot.restore()
        crash = case.crash(world, number, before)
        case.delete(world)
        world.run_for(20_000)
        assert crash.happened, f"operation {number} was never reached"
        assert active_controller(world).config.broker_id != 0
        if not case.waits_for_broker_0:
            assert [topic_znodes(world, topic) for topic in TOPICS] == [[], []]
        if 0 not in world.nodes:
            world.start(0)
            world.run_for(20_000)
        assert_gone(world, *TOPICS)
        assert sorted(state_of(world, "kept", 0).isr) == sorted(case.assignment[0])
        make_again(world, ids)
    print(f"{name}: {count} crashes")
