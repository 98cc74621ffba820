"""A controller crashes before and after every ZooKeeper operation by which it answers the failure
of a log directory, at several group sizes: the next one comes to the same end.
"""

from __future__ import annotations

import pytest

from klamm.world.simulated.world import SimulatedWorld
from tests.sim.crash_points import GROUP_SIZES, Case, Record, count_cases, sizes
from tests.sim.log_dirs import CONFIG, T0, T1, T2, dir_of, fail, notices
from tests.sim.worlds import create_topic, state_of, three_brokers


def led(group_size: int | None) -> SimulatedWorld:
    """Broker 1 leads all of t, and with it u; each is in another directory."""
    return _with_topics(1, 0, 2, group_size=group_size)


def followed(group_size: int | None) -> SimulatedWorld:
    """Broker 1 follows in all of t and u."""
    return _with_topics(2, 1, 0, group_size=group_size)


def followed_without_0(group_size: int | None) -> SimulatedWorld:
    """Broker 1 follows broker 2 in all of t and u; broker 0 has no replica."""
    return _with_topics(2, 1, group_size=group_size)


def _with_topics(*replicas: int, group_size: int | None) -> SimulatedWorld:
    world = three_brokers(config=CONFIG, **sizes(group_size))
    for topic in ("t", "u"):
        create_topic(world, topic, dict.fromkeys(range(3), replicas))
        world.run_for(3_000)
    assert [dir_of(world, 1, tp) for tp in (T0, T1, T2)] == ["d0", "d1", "d2"]
    return world


def lose_one(world: SimulatedWorld) -> None:
    """A directory of broker 1 fails."""
    fail(world, 1, "d0", within_ms=15_000)
    assert_lost(world, 1)


def lose_two(world: SimulatedWorld) -> None:
    """Two directories of broker 1 fail at once."""
    world.fail_log_dir(1, "d0")
    fail(world, 1, "d1", within_ms=15_000)
    assert_lost(world, 2)


def assert_lost(world: SimulatedWorld, count: int) -> None:
    """Replicas of broker 1 in the first directories are out of the ISR, the others in it."""
    assert notices(world) == []
    for number in range(3):
        for topic in ("t", "u"):
            state = state_of(world, topic, number)
            assert (1 in state.isr) is (number >= count), (topic, number)
            assert state.leader in state.isr


CASES = {
    "of leaders": Case(led, lose_one, 5),
    "of followers": Case(followed, lose_one, 5),
    "of two": Case(led, lose_two, 5),
    "with the broker": Case(followed_without_0, lose_one, 5, with_broker=True),
}


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("group_size", GROUP_SIZES)
@pytest.mark.parametrize("name", CASES)
def test_the_next_controller_comes_to_the_same_end(
    name: str, group_size: int | None, before: bool, record_property: Record
) -> None:
    what = f"log directory, {name}"
    assert count_cases(CASES[name], group_size, before, record_property, what) >= 5
