"""A crash before and after every ZooKeeper operation of a deletion: the next controller ends it.

The crash takes the controller alone or its broker too; where that broker has replicas of the
topics, the deletion waits until it is back.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from klamm.admin.topics import TopicAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import DeleteTopicsRequest, DeleteTopicsResponse
from klamm.placement.draws import JavaRandom
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.znodes import TopicZNode
from tests.sim.crash_points import (
    GROUP_SIZES,
    Case,
    Record,
    Stored,
    crash_at,
    crash_everywhere,
    sizes,
    stored_in,
)
from tests.sim.deletions import assert_gone, delete_topics, topic_id
from tests.sim.reassignments import ask_until_answered
from tests.sim.snapshots import Snapshot
from tests.sim.worlds import active_controller, create_topic, state_of, three_brokers

TOPICS = ("t", "u")
EVERYWHERE = {0: (0, 1, 2), 1: (1, 2, 0)}
NOT_ON_0 = {0: (1, 2), 1: (2, 1)}
ANSWERS = (Errors.NONE, Errors.REQUEST_TIMED_OUT, Errors.UNKNOWN_TOPIC_OR_PARTITION)
OPERATIONS_LEAST = 12
CONFIG = {"auto.leader.rebalance.enable": "false"}


def topics_on(
    assignment: dict[int, tuple[int, ...]],
) -> Callable[[int | None], SimulatedWorld]:
    """Two topics to be deleted and one to be kept, each with a config; broker 0 is the
    controller."""

    def begin(group_size: int | None) -> SimulatedWorld:
        world = three_brokers(config=CONFIG, **sizes(group_size))
        store = world.open_store()
        admin = TopicAdmin(KafkaZkClient(store), JavaRandom(0))
        for topic in (*TOPICS, "kept"):
            admin.create_topic_with_assignment(topic, {"retention.ms": "1000"}, assignment)
        store.close()
        world.run_for(5_000)
        return world

    return begin


def by_znode(world: SimulatedWorld) -> None:
    """As kafka-topics does with --zookeeper."""
    delete_topics(world, *TOPICS)
    world.run_for(20_000)


def by_request(world: SimulatedWorld) -> None:
    """As a client that asks until it is answered. A topic that an earlier try has deleted is
    unknown to a later one."""
    answer = ask_until_answered(world, DeleteTopicsRequest(TOPICS, 1_000))
    assert isinstance(answer, DeleteTopicsResponse)
    errors = [result.error for result in answer.topics]
    assert all(error in ANSWERS for error in errors), errors
    world.run_for(20_000)


CASES = {
    "deletion by znode": Case(topics_on(EVERYWHERE), by_znode, OPERATIONS_LEAST),
    "deletion by request": Case(topics_on(EVERYWHERE), by_request, OPERATIONS_LEAST),
    "deletion by znode, without the broker": Case(
        topics_on(NOT_ON_0), by_znode, OPERATIONS_LEAST, with_broker=True
    ),
}


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("group_size", GROUP_SIZES)
@pytest.mark.parametrize("name", CASES)
def test_the_next_controller_ends_a_deletion(
    name: str, group_size: int | None, before: bool, record_property: Record
) -> None:
    count = 0
    for world, start in crash_everywhere(CASES[name], group_size, before):
        assert_gone(world, *TOPICS)
        make_again(world, start)
        count += 1
    record_property(f"crash points: {name}", count)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("group_size", GROUP_SIZES)
def test_a_deletion_goes_on_when_the_broker_that_crashed_too_is_back(
    group_size: int | None, before: bool, record_property: Record
) -> None:
    """Its replicas of the topics have to be deleted as well."""
    world = topics_on(EVERYWHERE)(group_size)
    start, snapshot = stored_in(world), Snapshot(world)
    counted = crash_at(world, None, before)
    by_znode(world)
    assert counted.operations >= OPERATIONS_LEAST
    for number in range(counted.operations):
        world = snapshot.restore()
        crash = crash_at(world, number, before, with_broker=True)
        by_znode(world)
        assert crash.has_happened, f"operation {number} was never reached"
        assert active_controller(world).config.broker_id != 0
        world.start(0)
        world.run_for(20_000)
        assert_gone(world, *TOPICS)
        assert sorted(state_of(world, "kept", 0).isr) == sorted(EVERYWHERE[0])
        make_again(world, start)
    record_property("crash points: deletion by znode, the broker returns", counted.operations)


def make_again(world: SimulatedWorld, start: Stored) -> None:
    """A topic of the same name is a new topic for everybody."""
    for topic in TOPICS:
        create_topic(world, topic, {0: (2, 1)})
    world.run_for(5_000)
    for topic in TOPICS:
        before = TopicZNode.decode(topic, start.tree[TopicZNode.path(topic)]).topic_id
        assert topic_id(world, topic) not in (None, before)
        state = state_of(world, topic, 0)
        assert (state.leader, state.leader_epoch, sorted(state.isr)) == (2, 0, [1, 2])
    assert not world.errors
