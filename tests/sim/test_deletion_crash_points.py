"""A crash before and after every ZooKeeper operation of a deletion: the next controller ends it.

Both where the crashed controller's broker has replicas of the topics, so that the deletion waits
for it, and where it has none.
"""

from __future__ import annotations

import pytest

from runtime.simulated_world import SimulatedWorld, Snapshot
from tests.sim.deletions import assert_gone, delete_topics, topic_id, topic_znodes
from tests.sim.test_crash_points import Crash
from tests.sim.worlds import active_controller, create_topic, state_of, three_brokers

GROUP_SIZES = (1, 2, None)
TOPICS = ("t", "u")
ASSIGNMENTS = {
    "everywhere": {0: (0, 1, 2), 1: (1, 2, 0)},
    "not on the crashed broker": {0: (1, 2), 1: (2, 1)},
}
OPERATIONS_LEAST = 12


def world_before(group_size: int | None, assignment: dict[int, tuple[int, ...]]) -> Snapshot:
    """Two topics to be deleted and one to be kept; broker 0 is the controller."""
    sizes = {} if group_size is None else {"write_group_size": group_size}
    world = three_brokers(**sizes)
    for topic in (*TOPICS, "kept"):
        create_topic(world, topic, assignment)
    world.run_for(5_000)
    return world.snapshot()


def operations_of_a_deletion(snapshot: Snapshot) -> int:
    world = snapshot.restore()
    crash = Crash(world, None, before=True)
    delete_topics(world, *TOPICS)
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
@pytest.mark.parametrize("where", ASSIGNMENTS)
def test_the_next_controller_ends_a_deletion(
    where: str, group_size: int | None, before: bool, record_property: pytest.RecordProperty
) -> None:
    snapshot = world_before(group_size, ASSIGNMENTS[where])
    ids = {topic: topic_id(snapshot.restore(), topic) for topic in TOPICS}
    count = operations_of_a_deletion(snapshot)
    assert count >= OPERATIONS_LEAST
    record_property("cases", count)
    for number in range(count):
        world = snapshot.restore()
        crash = Crash(world, number, before)
        delete_topics(world, *TOPICS)
        world.run_for(20_000)
        assert crash.happened, f"operation {number} was never reached"
        assert active_controller(world).config.broker_id != 0
        if where != "everywhere":
            assert [topic_znodes(world, topic) for topic in TOPICS] == [[], []]
        world.start(0)
        world.run_for(20_000)
        assert_gone(world, *TOPICS)
        assert sorted(state_of(world, "kept", 0).isr) == sorted(ASSIGNMENTS[where][0])
        make_again(world, ids)
