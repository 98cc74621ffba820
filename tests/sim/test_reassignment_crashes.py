"""A controller crashes before and after every ZooKeeper operation of a reassignment, a cancel and
an override, at several group sizes: the next one comes to the same end, and the brokers with it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.types import TopicPartition
from klamm.world.simulated.world import SimulatedWorld
from tests.held_followers import hold, release
from tests.sim.crash_points import GROUP_SIZES, Case, Record, count_cases, sizes
from tests.sim.reassignments import alter, brokers_up, reassign, stored, with_topic

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
U0, U1 = TopicPartition("u", 0), TopicPartition("u", 1)
PLAN = {T0: (2, 3), T1: (1, 2), U0: (2,), U1: (2, 1, 0)}
"""All replicas move; one moves; fewer replicas; another order."""


def two_topics(group_size: int | None) -> SimulatedWorld:
    world = brokers_up(**sizes(group_size))
    with_topic(world, (0, 1), (1, 0))
    with_topic(world, (0, 1, 2), (0, 1, 2), topic="u")
    return world


def pending(group_size: int | None) -> SimulatedWorld:
    """Of each partition's new replicas one has caught up and one has not."""
    world = two_topics(group_size)
    hold(world, 3)
    reassign(world, {T0: (2, 3), T1: (3, 2)})
    world.run_for(2_000)
    assert 2 in stored(world, T0).state.isr
    return world


def to_the_end(ask: Callable[[SimulatedWorld], None]) -> Callable[[SimulatedWorld], None]:
    def act(world: SimulatedWorld) -> None:
        ask(world)
        world.run_for(8_000)
        release(world, 3)
        world.run_for(8_000)

    return act


def by_znode(world: SimulatedWorld) -> None:
    reassign(world, PLAN)


def by_request(world: SimulatedWorld) -> None:
    assert {answer.error for answer in alter(world, PLAN).values()} == {Errors.NONE}


def cancel(world: SimulatedWorld) -> None:
    answers = alter(world, {T0: None, T1: None})
    for answer in answers.values():
        assert answer.error in (Errors.NONE, Errors.NO_REASSIGNMENT_IN_PROGRESS)


def override(world: SimulatedWorld) -> None:
    answers = alter(world, {T0: (1, 2), T1: (1, 3)})
    assert {answer.error for answer in answers.values()} == {Errors.NONE}


ONCE = dict.fromkeys(PLAN, 1)
"""The next controller begins phase A or B anew, which raises the leader epoch."""
TWICE = {T0: 2, T1: 2}
"""So does the next controller for a client that asks again for what it has gone on with; and a
cancel that is asked for again raises the epoch before it drops replicas."""
CASES = {
    "reassignment by znode": Case(two_topics, to_the_end(by_znode), 38, ONCE),
    "reassignment by request": Case(
        two_topics, to_the_end(by_request), 25, {**ONCE, **TWICE, U0: 2}
    ),
    "cancel": Case(pending, to_the_end(cancel), 11, TWICE),
    "override": Case(pending, to_the_end(override), 19, TWICE),
}


@pytest.mark.slow
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("group_size", GROUP_SIZES)
@pytest.mark.parametrize("name", CASES)
def test_the_next_controller_comes_to_the_same_end(
    name: str, group_size: int | None, before: bool, record_property: Record
) -> None:
    assert count_cases(CASES[name], group_size, before, record_property, name) > 0
