"""klamm explain says what a stuck partition waits for, under a second controller too."""

from __future__ import annotations

import pytest

from klamm.cli.explain import as_json, explained_lines
from klamm.cluster.types import TopicPartition
from klamm.world.explain.explain import Explained, explain_partition
from klamm.world.simulated.world import SimulatedWorld
from tests.held_followers import hold
from tests.sim.deletions import delete_topics
from tests.sim.reassignments import alter, brokers_up, reassign, with_topic

T0, GONE = TopicPartition("t", 0), TopicPartition("gone", 0)
TAKEN_UP = (
    "; controller {}, elected with epoch 2, resumed it and initialized the states of the"
    " partition and its replicas from ZooKeeper and the live brokers"
)


def explained(world: SimulatedWorld, tp: TopicPartition) -> Explained:
    return explain_partition(lambda: world.journal.rows, tp)


@pytest.fixture
def world() -> SimulatedWorld:
    """Broker 3 is dead; the topic ``gone`` is to be deleted, and t-0 to move to 2 and 3."""
    world = brokers_up()
    with_topic(world, (1, 3), topic="gone")
    with_topic(world, (1, 0))
    world.kill(3)
    world.run_for(10_000)
    delete_topics(world, "gone")
    reassign(world, {T0: (2, 3)})
    world.run_for(5_000)
    return world


def delete_again(world: SimulatedWorld) -> None:
    """Finish the deletion, and delete a new topic ``gone`` while broker 3 is dead again."""
    world.start(3)
    world.run_for(10_000)
    with_topic(world, (1, 3), topic="gone")
    world.kill(3)
    world.run_for(10_000)
    delete_topics(world, "gone")
    world.run_for(5_000)


def test_a_dead_broker_is_named(world: SimulatedWorld) -> None:
    assert explained(world, GONE).waits == (
        "the deletion of topic gone waits for broker 3, halted: offline replicas",
    )
    moving = explained(world, T0)
    assert moving.waits == (
        "the reassignment t-0->2,3 waits in phase A2 for broker 3 to join the ISR;"
        " broker 3 is not alive",
    )
    assert list(explained_lines(moving))[1] == f"  {moving.waits[0]}"
    assert as_json(moving)["waits"] == moving.waits
    world.start(3)
    world.run_for(10_000)
    assert explained(world, GONE).waits == explained(world, T0).waits == ()


def test_the_next_controller_took_it_up(world: SimulatedWorld) -> None:
    world.kill(0)
    world.run_for(20_000)
    stuck = explained(world, GONE)
    (change,) = stuck.changes
    taken_up = TAKEN_UP.format(change.key.controller)
    assert change.key.epoch == 2
    assert stuck.waits == (
        f"the deletion of topic gone waits for broker 3, halted: offline replicas{taken_up}",
        "the partition has no leader; the topic is queued for deletion, so none is elected",
    )
    assert [cause.relation for cause in change.causes] == [
        "done by",
        "because",
        "continues the deletion of topic gone begun by",
        "because",
    ]
    assert "partition_snapshot" in [step.row.kind for step in change.steps]
    assert explained(world, T0).waits[0].endswith(f"broker 3 is not alive{taken_up}")


def test_the_second_deletion_of_a_topic_is_not_taken_for_the_first(world: SimulatedWorld) -> None:
    delete_again(world)
    world.kill(0)
    world.run_for(20_000)
    (change,) = explained(world, GONE).changes
    begun = [cause.event_id for cause in change.causes if "begun by" in cause.relation]
    halted = [row for row in world.journal.rows if row.kind == "topic_deletion_halted"]
    *_, second = [row.event_id for row in halted if row.epoch == 1]
    assert begun == [second]


def test_why_the_first_deletion_of_a_topic_was_halted_is_not_said_of_the_second(
    world: SimulatedWorld,
) -> None:
    delete_again(world)
    rows = world.journal.rows
    *_, halted = (n for n, row in enumerate(rows) if row.kind == "topic_deletion_halted")
    # A journal may end within an event.
    assert explain_partition(lambda: rows[:halted], GONE).waits == (
        "the deletion of topic gone waits for broker 3",
    )


def test_before_the_work_began_nothing_is_waited_for(world: SimulatedWorld) -> None:
    first = explain_partition(lambda: world.journal.rows, T0, lambda _: 0)
    assert first.waits == ()


def test_a_deletion_waits_for_a_reassignment_that_is_then_cancelled() -> None:
    world = brokers_up()
    with_topic(world, (0, 1))
    hold(world, 2)
    reassign(world, {T0: (2,)})
    world.run_for(2_000)
    delete_topics(world, "t")
    world.run_for(1_000)
    assert explained(world, T0).waits == (
        "the deletion of topic t waits until the topic's reassignment completes",
        "the reassignment t-0->2 waits in phase A2 for broker 2 to join the ISR",
    )
    alter(world, {T0: None})
    world.run_for(5_000)
    assert explained(world, T0).waits == ()


def test_no_leader_is_waited_for_by_name() -> None:
    world = brokers_up()
    with_topic(world, (1,))
    world.kill(1)
    world.run_for(10_000)
    assert explained(world, T0).waits == (
        "the partition has no leader until a broker in its ISR is live again: broker 1",
    )
