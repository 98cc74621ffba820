"""A controller crashes before and after every ZooKeeper operation of an election batch or of a
controlled shutdown, at several group sizes: the next one comes to the same end.
"""

from __future__ import annotations

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import ElectLeadersRequest, ElectLeadersResponse
from klamm.cluster.types import ElectionType, TopicPartition
from klamm.world.simulated.world import SimulatedWorld
from tests.sim.crash_points import GROUP_SIZES, Case, Record, count_cases, sizes
from tests.sim.elections import (
    T0,
    T1,
    U0,
    ask_for_preferred,
    leaders,
    leaders_moved_away,
    request_is_there,
)
from tests.sim.reassignments import ask_until_answered
from tests.sim.worlds import create_topic, state_of, three_brokers

LED_ELSEWHERE = (T0, T1, U0)
W0 = TopicPartition("w", 0)
CONFIG = {
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.retry.backoff.ms": "1000",
}
WELL = (Errors.NONE, Errors.ELECTION_NOT_NEEDED)


# Preferred leaders


def moved_away(group_size: int | None) -> SimulatedWorld:
    return leaders_moved_away(**sizes(group_size))


def preferred_by_znode(world: SimulatedWorld) -> None:
    ask_for_preferred(world, *LED_ELSEWHERE)
    world.run_for(10_000)
    assert not request_is_there(world)
    assert leaders(world, LED_ELSEWHERE) == [1, 1, 1]


def preferred_by_request(world: SimulatedWorld) -> None:
    elect(world, ElectionType.PREFERRED, LED_ELSEWHERE)
    assert leaders(world, LED_ELSEWHERE) == [1, 1, 1]


def with_rebalance(group_size: int | None) -> SimulatedWorld:
    """The clock alone will move the leaders: 5 s after a failover, and every 10 s."""
    config = {"leader.imbalance.check.interval.seconds": "10"}
    return leaders_moved_away(config=config, **sizes(group_size))


def rebalance(world: SimulatedWorld) -> None:
    world.run_for(30_000)
    assert leaders(world, LED_ELSEWHERE) == [1, 1, 1]


def elect(
    world: SimulatedWorld, election_type: ElectionType, partitions: tuple[TopicPartition, ...]
) -> None:
    """ElectLeaders by a client that asks until it is answered. What an earlier try has elected
    needs no election later."""
    answer = ask_until_answered(world, ElectLeadersRequest(election_type, partitions, 1_000))
    assert isinstance(answer, ElectLeadersResponse)
    assert answer.error is Errors.NONE
    assert {error.error for error in answer.partitions.values()} <= set(WELL)
    world.run_for(10_000)


# Unclean leaders


def without_leaders(group_size: int | None) -> SimulatedWorld:
    """t-0, t-1 and u-0 have no leader: broker 1, alone in sync, is dead, and the others live."""
    world = three_brokers(config=CONFIG, **sizes(group_size))
    create_topic(world, "t", {0: (1, 2), 1: (2, 1)})
    create_topic(world, "u", {0: (1, 2)})
    world.run_for(1_000)
    world.stop(2)
    world.run_for(500)
    world.stop(1)
    world.run_for(500)
    world.start(2)
    world.run_for(2_000)
    for tp in LED_ELSEWHERE:
        state = state_of(world, *tp)
        assert (state.leader, state.isr) == (-1, (1,))
    return world


def unclean(world: SimulatedWorld) -> None:
    elect(world, ElectionType.UNCLEAN, LED_ELSEWHERE)
    assert leaders(world, LED_ELSEWHERE) == [2, 2, 2]


# Controlled shutdown


def led_and_followed(group_size: int | None) -> SimulatedWorld:
    """Broker 2 leads t-0 and t-1 and follows u-0 and u-1; of w-0 it has the only replica."""
    world = three_brokers(config=CONFIG, **sizes(group_size))
    create_topic(world, "t", {0: (2, 1), 1: (2, 0)})
    create_topic(world, "u", {0: (0, 2, 1), 1: (1, 0, 2)})
    create_topic(world, "w", {0: (2,)})
    world.run_for(3_000)
    return world


def shutdown(world: SimulatedWorld) -> None:
    world.shut_down(2)
    world.run_for(130_000)
    assert 2 not in world.nodes
    assert state_of(world, *W0).leader == -1


def shutdown_of_the_controller(world: SimulatedWorld) -> None:
    """Broker 0 leads u-0 and follows t-1 and u-1; whoever is the controller relieves it."""
    world.shut_down(0)
    world.run_for(130_000)
    assert 0 not in world.nodes


CASES = {
    "preferred election by znode": Case(moved_away, preferred_by_znode, 5),
    "preferred election by request": Case(moved_away, preferred_by_request, 1),
    "automatic rebalance": Case(with_rebalance, rebalance, 1),
    # A failover takes dead replicas out of the ISRs, which raises the epoch though the last one
    # in sync stays.
    "unclean election by request": Case(
        without_leaders, unclean, 1, dict.fromkeys(LED_ELSEWHERE, 1)
    ),
    "controlled shutdown": Case(led_and_followed, shutdown, 7, {W0: 1}),
    "controlled shutdown of the controller": Case(led_and_followed, shutdown_of_the_controller, 2),
}


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("group_size", GROUP_SIZES)
@pytest.mark.parametrize("name", CASES)
def test_the_next_controller_comes_to_the_same_end(
    name: str, group_size: int | None, before: bool, record_property: Record
) -> None:
    assert count_cases(CASES[name], group_size, before, record_property, name) > 0
