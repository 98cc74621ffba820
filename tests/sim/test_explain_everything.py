"""klamm explain on an eventful journal: everything in it has an explanation, and every write of a
state znode is told, once, with the version that ZooKeeper gave it."""

from __future__ import annotations

from collections import Counter

import pytest

from klamm.cluster.journal import Kind
from klamm.cluster.requests import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest
from klamm.cluster.types import TopicPartition
from klamm.controller.events import ControllerEvent
from klamm.world.explain.explain import explain_event, explain_partition
from klamm.world.explain.rows import NOT_IN_THE_JOURNAL, event_meaning, event_name
from klamm.world.simulated.world import SimulatedWorld
from tests.held_followers import hold, release
from tests.sim.reassignments import alter, ask, brokers_up, reassign, stored, with_topic

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(scope="module")
def world() -> SimulatedWorld:
    """Deaths, returns, failovers, moves, a cancel, creations, a deletion, a controlled shutdown."""
    world = brokers_up(config={}, journal_messages=True)
    with_topic(world, (1, 2), (2, 3), (3, 0), (0, 1))
    world.kill(1)
    world.run_for(10_000)
    reassign(world, {T0: (0, 2), T1: (1, 3)})
    world.run_for(10_000)
    world.start(1)
    world.run_for(10_000)
    hold(world, 3)
    alter(world, {TopicPartition("t", 3): (3,)})
    world.run_for(2_000)
    alter(world, {TopicPartition("t", 3): None})
    release(world, 3)
    ask(world, CreateTopicsRequest((CreatableTopic("u", 3, 2), CreatableTopic("v", 2, 1)), 9_000))
    world.kill(0)
    world.run_for(20_000)
    world.start(0)
    world.shut_down(2)
    world.run_for(20_000)
    world.start(2)
    world.run_for(10_000)
    ask(world, DeleteTopicsRequest(("u",), 20_000), timeout_ms=20_000)
    world.run_for(320_000)
    assert not world.errors
    return world


def partitions(world: SimulatedWorld) -> list[TopicPartition]:
    found = {
        TopicPartition(row.topic, row.partition)
        for row in world.journal.rows
        if row.topic is not None and row.partition >= 0
    }
    return sorted(found)


def test_every_row_of_every_partition_has_rules(world: SimulatedWorld) -> None:
    explained = 0
    for tp in partitions(world):
        found = explain_partition(lambda: world.journal.rows, tp, show_all=True)
        rows = [r for r in world.journal.rows if (r.topic, r.partition) == tuple(tp)]
        steps = [step for change in found.changes for step in change.steps]
        assert [step.row for step in steps] == rows
        assert all(NOT_IN_THE_JOURNAL not in step.rules for step in steps)
        assert all(change.causes for change in found.changes)
        explained += len(steps)
    kinds = Counter(row.kind for row in world.journal.rows)
    assert explained > 100
    assert {Kind.LEADER_EPOCH_BUMPED, Kind.TOPIC_DELETED, Kind.PARTITION_SNAPSHOT} <= set(kinds)


def test_every_write_of_a_state_znode_is_reported_once(world: SimulatedWorld) -> None:
    for tp in partitions(world):
        found = explain_partition(lambda: world.journal.rows, tp, show_all=True)
        path = f"/brokers/topics/{tp.topic}/partitions/{tp.partition}/state"
        versions = [
            write.version
            for change in found.changes
            for step in change.steps
            for write in step.znodes
            if write.path == path
        ]
        assert versions == list(range(len(versions)))
        if tp.topic != "u":
            assert len(versions) == stored(world, tp).state.zk_version + 1


def test_every_event_is_explained(world: SimulatedWorld) -> None:
    keys = {(row.epoch, row.event_id) for row in world.journal.rows if row.event_id}
    for epoch, event_id in sorted(keys)[::7]:
        (change,) = explain_event(lambda: world.journal.rows, event_id, epoch).changes
        assert (change.key.epoch, change.key.event_id) == (epoch, event_id)
        assert change.causes[0].event_id == event_id
        assert [cause.event_id for cause in change.causes if cause.event_id] == sorted(
            {cause.event_id for cause in change.causes if cause.event_id}, reverse=True
        )


def test_every_event_has_a_meaning(world: SimulatedWorld) -> None:
    names = {event_name(row) for row in world.journal.rows if row.kind == Kind.EVENT}
    assert len(names) > 8
    for name in names | {kind.__name__ for kind in ControllerEvent.__subclasses__()}:
        meaning = event_meaning(name)
        assert meaning is not None
        assert meaning.endswith(".")
    assert event_meaning("NoSuchEvent") is None
