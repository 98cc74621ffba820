"""What `klamm status` says of work that is under way, in the simulated world."""

from __future__ import annotations

from typing import Any

from klamm.cli.status import work_lines
from klamm.cluster.types import TopicPartition
from klamm.runtime.simulated.world import SimulatedWorld
from klamm.server.status import DEAD_LEADERS_LISTED, simulated_status
from tests.sim.deletions import delete_topics
from tests.sim.reassignments import brokers_up, hold, reassign, release, with_topic
from tests.sim.worlds import active_controller, create_topic

T0 = TopicPartition("t", 0)


def shown(world: SimulatedWorld) -> tuple[dict[str, Any], list[str]]:
    status = active_controller(world).status()
    return status, work_lines(status)


def test_nothing_is_under_way() -> None:
    world = brokers_up()
    with_topic(world, (0, 1))
    assert shown(world)[1] == []


def test_a_deletion_and_a_reassignment_wait_for_a_dead_broker() -> None:
    world = brokers_up()
    with_topic(world, (0, 3), topic="gone")
    with_topic(world, (0, 1))
    with_topic(world, (0, 1), topic="s")
    world.kill(3)
    world.run_for(10_000)
    delete_topics(world, "gone")
    hold(world, 2)
    reassign(world, {T0: (2, 3), TopicPartition("s", 0): (0, 2)})
    world.run_for(5_000)
    status, lines = shown(world)
    assert lines == [
        "Deleting:    topic gone waits for broker 3",
        "Reassigning: t-0 from 0,1 to 2,3 waits for broker 3",
        "             s-0 from 0,1 to 0,2 is under way",
    ]
    assert status["deletions"] == [
        {
            "topic": "gone",
            "waits_for_brokers": [3],
            "waits_for_log_dirs_of": [],
            "waits_for_reassignment": False,
        }
    ]
    assert status["reassignments"][0]["target"] == [2, 3]
    release(world, 2)
    world.start(3)
    world.run_for(10_000)
    assert shown(world)[1] == []


def test_a_deletion_waits_for_a_reassignment_and_of_many_some_are_shown() -> None:
    world = brokers_up()
    create_topic(world, "t", {n: (0, 1) for n in range(7)})
    world.run_for(3_000)
    hold(world, 2)
    reassign(world, {TopicPartition("t", n): (0, 2) for n in range(7)})
    world.run_for(2_000)
    delete_topics(world, "t")
    world.run_for(1_000)
    status, lines = shown(world)
    assert lines[:2] == [
        "Deleting:    topic t waits for its reassignment",
        "Reassigning: t-0 from 0,1 to 0,2 is under way",
    ]
    assert lines[-1] == "             and 2 more"
    assert status["partitions_being_reassigned"] == len(status["reassignments"]) == 7


def test_a_broker_that_shuts_down() -> None:
    world = brokers_up()
    active_controller(world).context.add_shutting_down_broker(2)
    assert shown(world)[1] == ["Stopping:    broker 2"]


def test_all_partitions_of_a_dead_leader_count_though_some_are_not_listed() -> None:
    world = brokers_up()
    count = DEAD_LEADERS_LISTED + 1
    create_topic(world, "t", {n: (3, 1) for n in range(count)})
    world.run_for(3_000)
    world.kill(3)
    store = world.open_store()
    status = simulated_status(world, store)
    store.close()
    [dead] = status["dead_leaders"]
    assert (dead["broker"], dead["partition_count"]) == (3, count)
    assert len(dead["partitions"]) == DEAD_LEADERS_LISTED
    assert status["partitions_without_live_leader"] == count
