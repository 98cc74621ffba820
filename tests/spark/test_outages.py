"""Intervals without a live leader, of a few rows each."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.replay.engines import Engine
from klamm.replay.questions.isrs import moves
from klamm.replay.questions.lives import lives
from klamm.replay.questions.outages import (
    Planned,
    deaths,
    deletions,
    leaderless_intervals,
    shutdowns,
    unplanned_shrinks,
    while_reassigned,
)
from klamm.replay.questions.reassignments import reassignments
from tests.spark.conftest import Coded, rows_of
from tests.spark.test_questions import NEW, NONE, OFFLINE, ONLINE, move, on, snapshot


@pytest.fixture
def leaderless(engine: Engine, coded: Coded) -> Coded:
    """The intervals without a live leader in some events."""

    def ask(*rows: dict[str, Any]) -> str:
        events = coded(*rows)
        dead, deleted = engine.keep(deaths(events)), engine.keep(deletions(events))
        return leaderless_intervals(engine.keep(lives(events)), dead, deleted)

    return ask


def died(broker: int, **fields: Any) -> dict[str, Any]:
    return {"kind": "broker_offline", "replica": broker, **fields}


def came_back(broker: int, **fields: Any) -> dict[str, Any]:
    return {"kind": "broker_online", "replica": broker, **fields}


def test_no_leader_is_missed_while_a_topic_is_deleted(engine: Engine, leaderless: Coded) -> None:
    def lost(source: str, partition: int = 0, **fields: Any) -> dict[str, Any]:
        row = {"source": source, "kind": "isr_removed", "replica": 1, "isr": [1], **fields}
        return on(partition, **row, leader=-1, prev_leader=1)

    found = leaderless(
        {"source": "controller.log", "kind": "topic_deletion_started", "topic": "t"},
        {"source": "zookeeper", "kind": "topic_deletion_started", "topic": "t"},
        lost("zookeeper"),
        lost("state-change.log"),
        on(source="zookeeper", kind="leadership_deleted"),
        {"source": "controller.log", "kind": "topic_created", "topic": "t"},
        {"source": "zookeeper", "kind": "topic_created", "topic": "t"},
        lost("zookeeper", 1),
        lost("state-change.log", 1),
        lost("state-change.log", 2, run="another", t_ms=30),
        # In another log, the deletion lasts from its first millisecond up to that of the creation.
        lost("state-change.log", 3, t_ms=9),
        lost("state-change.log", 4, t_ms=10),
        lost("state-change.log", 5, t_ms=70),
    )
    counted = [(1, 80), (1, 90), (2, 30), (3, 9), (5, 70)]
    assert rows_of(engine, found, "partition", "start_ms") == counted


def test_a_partition_that_is_deleted_is_not_without_a_leader(
    engine: Engine, leaderless: Coded
) -> None:
    lost = on(kind="isr_removed", replica=1, leader=-1, prev_leader=1, isr=[1], prev_isr=[1])
    found = leaderless(
        lost,
        move(OFFLINE, NONE),
        lost,
        move(NONE, NEW),
        lost,
        move(OFFLINE, ONLINE, leader=1, prev_leader=-1, isr=[1], prev_isr=[1]),
        move(OFFLINE, NONE),
        snapshot(OFFLINE, epoch=2, seq=1, leader=-1, isr=[1]),
    )
    assert rows_of(engine, found, "start_ms", "end_ms") == [(50, 60), (80, -1)]


def test_an_interval_begins_with_the_death_of_the_leader(engine: Engine, leaderless: Coded) -> None:
    led = {"leader": 1, "isr": [1, 2]}
    found = leaderless(
        move(NEW, ONLINE, **led),
        move(NEW, ONLINE, partition=1, **led),
        move(NEW, ONLINE, partition=2, leader=3, isr=[3]),
        died(1),
        move(ONLINE, OFFLINE),
        move(OFFLINE, ONLINE, leader=2, prev_leader=1, isr=[2]),
        move(ONLINE, OFFLINE, partition=1),
        on(1, kind="isr_removed", replica=1, leader=-1, prev_leader=1, isr=[1]),
        came_back(1),
        move(OFFLINE, ONLINE, partition=1, leader=1, prev_leader=-1, isr=[1]),
        died(3),
    )
    assert rows_of(engine, found, "partition", "lost", "start_ms", "end_ms") == [
        (0, 1, 40, 60),
        (1, 1, 40, 100),
        (2, 3, 110, -1),
    ]


def test_the_first_row_of_a_partition_tells_which_leader_was_lost(
    engine: Engine, leaderless: Coded
) -> None:
    found = leaderless(
        on(kind="isr_removed", replica=1, leader=-1, prev_leader=1, isr=[1]),
        on(1, kind="isr_removed", replica=2, leader=-1, isr=[2]),
    )
    assert rows_of(engine, found, "partition", "lost", "start_ms") == [(0, 1, 10), (1, -1, 20)]


def test_the_next_controller_knows_who_came_back(engine: Engine, leaderless: Coded) -> None:
    led = {"leader": 1, "isr": [1, 2]}
    found = leaderless(
        move(NEW, ONLINE, **led),
        move(NEW, ONLINE, partition=1, leader=2, isr=[2]),
        died(1),
        died(2),
        snapshot(ONLINE, epoch=2, **led),
        snapshot(OFFLINE, epoch=2, partition=1, leader=2, isr=[2]),
        {"kind": "controller_ready", "epoch": 2},
        move(OFFLINE, ONLINE, partition=1, epoch=2, leader=2, prev_leader=2, isr=[2]),
    )
    assert rows_of(engine, found, "partition", "epoch", "start_ms", "end_ms") == [
        (0, 1, 30, 70),
        (1, 1, 40, 80),
    ]


def test_a_moved_leader_and_a_deleted_topic_are_no_outage(
    engine: Engine, leaderless: Coded
) -> None:
    lost = {"kind": "leadership_written", "leader": -1, "prev_leader": 1, "isr": [1]}
    found = leaderless(
        on(source="zookeeper", kind="leadership_written", leader=1, isr=[1]),
        {
            "source": "zookeeper",
            "kind": "admin_request",
            "topic": "t",
            "detail": "delete_topics",
        },
        on(source="zookeeper", **lost),
        on(source="zookeeper", kind="leadership_deleted"),
        move(NEW, ONLINE, leader=1, isr=[1, 2]),
        on(kind="isr_changed", leader=2, prev_leader=1, isr=[2]),
        died(1),
        on(1, kind="isr_removed", replica=1, leader=-1, prev_leader=1, isr=[1]),
        move(ONLINE, OFFLINE, partition=1),
        move(OFFLINE, NONE, partition=1),
    )
    assert rows_of(engine, found, "source", "partition") == []


def test_a_shrink_that_was_requested_is_no_problem(engine: Engine, coded: Coded) -> None:
    def left(replica: int, topic: str = "t", **fields: Any) -> dict[str, Any]:
        lost = {"leader": 9, "isr": [9], "prev_isr": [9, replica], "replica": replica}
        return {"kind": "isr_removed", "topic": topic, "partition": 0, **lost, **fields}

    def phase(to: str) -> dict[str, Any]:
        text = "ReplicaAssignment(replicas=9,4,5, addingReplicas=, removingReplicas=4,5)"
        moved = {"topic": "moved", "partition": 0, "reassignment": "moved-0->9"}
        return {"kind": "reassignment_phase", "to_state": to, "detail": text, **moved}

    events = coded(
        left(1),
        {"kind": "event", "detail": "ControlledShutdown(2,29)"},
        left(2),
        died(2),
        left(2),
        came_back(2),
        left(2),
        {"kind": "topic_deletion_started", "topic": "gone"},
        left(3, "gone"),
        phase("U1"),
        left(4, "moved"),
        died(5),
        left(5, "moved"),
        phase("B8"),
        left(4, "moved"),
        {"kind": "event", "detail": "Shutting down broker 6"},
        left(6),
    )
    assert unplanned(engine, events) == [(10, 1), (70, 2), (130, 5), (150, 4)]


def test_a_shrink_belongs_to_a_reassignment_from_its_first_time_to_its_last(
    engine: Engine, coded: Coded
) -> None:
    moved = {"topic": "t", "partition": 0}
    text = "ReplicaAssignment(replicas=9,4, addingReplicas=, removingReplicas=4)"

    def phase(to: str, t_ms: int) -> dict[str, Any]:
        about = {"reassignment": "t-0->9", "detail": text, "to_state": to}
        return {"kind": "reassignment_phase", "t_ms": t_ms, **about, **moved}

    def left(t_ms: int) -> dict[str, Any]:
        lost = {"leader": 9, "isr": [9], "prev_isr": [9, 4], "replica": 4}
        return {"kind": "isr_removed", "t_ms": t_ms, **lost, **moved}

    events = coded(
        left(19), phase("U1", 20), left(20), left(21), phase("B8", 50), left(50), left(51)
    )
    changes = while_reassigned(engine.keep(moves(events)), engine.keep(reassignments(events)))
    found = rows_of(engine, changes, "t_ms", "is_reassigned")
    assert found == [(19, False), (20, True), (21, True), (50, True), (51, False)]


def test_a_broker_that_closes_its_session_had_left_isrs_on_purpose(
    engine: Engine, coded: Coded
) -> None:
    def left(replica: int, **fields: Any) -> dict[str, Any]:
        written = {"kind": "leadership_written", "topic": "t", "partition": 0, "leader": 9}
        lost = {"isr": [9], "prev_isr": [9, replica], "source": "zookeeper"}
        return {**written, **lost, **fields}

    def on_zookeeper(row: dict[str, Any], **fields: Any) -> dict[str, Any]:
        return {**row, "source": "zookeeper", **fields}

    events = coded(
        on_zookeeper(came_back(1)),
        on_zookeeper(came_back(2)),
        left(1),
        left(1, t_ms=40_039),
        left(1, t_ms=40_040),  # a minute before
        on_zookeeper(died(1), t_ms=100_040, detail="session closed"),
        left(1, t_ms=100_050),
        on_zookeeper(came_back(1), t_ms=100_060),
        left(1, t_ms=100_070),
        left(2, t_ms=100_080),
        on_zookeeper(died(2), t_ms=100_090, detail="session expired"),
        left(2, t_ms=100_100),
        {**left(3, source="state-change.log"), "kind": "isr_removed", "replica": 3},
    )
    assert unplanned(engine, events) == [
        (30, 1),
        (40_039, 1),
        (100_070, 1),
        (100_080, 2),
        (100_100, 2),
    ]


def unplanned(engine: Engine, events: str) -> list[tuple[Any, ...]]:
    reassigned = engine.keep(reassignments(events))
    moved = engine.keep(while_reassigned(f"({moves(events)})", reassigned))
    dead = engine.keep(deaths(events))
    planned = Planned(engine.keep(deletions(events)), engine.keep(shutdowns(events)))
    found = unplanned_shrinks(moved, dead, planned)
    return rows_of(engine, found, "t_ms", "replica")
