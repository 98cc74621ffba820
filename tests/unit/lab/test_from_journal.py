"""A journal of a few rows as a drill: which rows become steps, and when."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from klamm.cluster.errors import UsageError
from klamm.cluster.journal import SCHEMA_VERSION, JournalRow, Kind
from klamm.lab.drills.from_journal import drill_from_journal

T0_MS = 1_000_000


def row(t_ms: int, kind: str, **fields: Any) -> JournalRow:
    given = {"controller": 0, "epoch": 1, "run_id": "r", **fields}
    return JournalRow(v=SCHEMA_VERSION, t_ms=T0_MS + t_ms, seq=1, kind=kind, **given)


def elected(t_ms: int, controller: int, epoch: int) -> JournalRow:
    return row(t_ms, Kind.CONTROLLER_ELECTED, controller=controller, epoch=epoch)


def replica(t_ms: int, topic: str, broker: int, partition: int = 0, **more: Any) -> JournalRow:
    key = {"topic": topic, "partition": partition, "replica": broker}
    return row(t_ms, Kind.REPLICA_TRANSITION, to="NewReplica", **key, **more)


def online(t_ms: int, topic: str, *isr: int, partition: int = 0) -> JournalRow:
    states = {"from_": "NewPartition", "to": "OnlinePartition"}
    leadership = {"leader": isr[0], "isr": isr}
    key = {"topic": topic, "partition": partition}
    return row(t_ms, Kind.PARTITION_TRANSITION, **key, **states, **leadership)


def steps(*rows: JournalRow) -> list[str]:
    lines = drill_from_journal(rows, "d").splitlines()
    return lines[lines.index("steps:") + 1 : -1]


def test_a_cluster_in_which_nothing_happens_waits() -> None:
    text = drill_from_journal([elected(0, 2, 1), row(5, Kind.EVENT, controller=2)], "name")
    assert text == (
        "drill: name\nabout: What a journal recorded.\ncluster:\n  brokers: [2]\nsteps:\n"
        "  - wait: 1s\neventually: {healthy: true}\n"
    )


def test_a_journal_without_a_controller_is_refused() -> None:
    with pytest.raises(UsageError, match="no rows of a controller"):
        drill_from_journal([row(0, Kind.RUN_START, controller=-1, replica=3)], "d")


def test_only_the_last_run_counts() -> None:
    first = [elected(0, 7, 1), row(5, Kind.BROKER_OFFLINE, controller=7, replica=8)]
    second = [elected(9, 1, 2), row(10, Kind.EVENT, replica=2)]
    renamed = [msgspec.structs.replace(one, run_id="s") for one in second]
    text = drill_from_journal([*first, *renamed], "d")
    assert "  brokers: [0, 1, 2]\n" in text and "kill" not in text


def test_topics_that_are_there_first_belong_to_the_cluster() -> None:
    rows = [
        elected(0, 0, 1),
        *(row(1, Kind.TOPIC_CREATED, topic=name) for name in ("t.a-b", "true", "1", "null", "a b")),
        *(replica(2, name, 0) for name in ("true", "1", "null", "a b")),
        *(replica(2, "t.a-b", broker) for broker in (1, 2)),
        replica(2, "t.a-b", 2, partition=1),
        online(3, "t.a-b", 2, 1),
        row(4, Kind.REASSIGNMENT_FAILED, topic="t.a-b", partition=7),
    ]
    lines = drill_from_journal(rows, "d").splitlines()
    topics = lines[lines.index("  topics:") + 1 : lines.index("steps:")]
    assert topics == [
        "    t.a-b: [[2, 1], [2]]",
        '    "true": [[0]]',
        '    "1": [[0]]',
        '    "null": [[0]]',
        '    "a b": [[0]]',
    ]


def test_a_broker_died_a_while_before_it_was_noticed() -> None:
    found = steps(
        elected(0, 0, 1),
        row(1_000, Kind.EVENT, detail="ControlledShutdown(2,5)"),
        row(1_004, Kind.BROKER_OFFLINE, replica=2),
        row(1_005, Kind.BROKER_OFFLINE, replica=2),
        row(9_000, Kind.BROKER_OFFLINE, replica=1),
        row(9_500, Kind.BROKER_ONLINE, replica=1),
        row(9_600, Kind.BROKER_ONLINE, replica=1),
        row(11_000, Kind.BROKER_OFFLINE, replica=1),
        # The shutdown of another run of the broker is none of its next one.
        row(20_000, Kind.BROKER_ONLINE, replica=2),
        row(29_000, Kind.BROKER_OFFLINE, replica=2),
    )
    assert found == [
        "  - stop: 2",
        "    until: {unregistered: 2}",
        "  - wait: 4996ms",
        "  - kill: 1",
        "    until: {unregistered: 1}",
        "  - wait: 500ms",
        "  - start: 1",
        "    until: {exists: /brokers/ids/1}",
        "  - kill: 1",
        "    until: {unregistered: 1}",
        "  - wait: 9000ms",
        "  - start: 2",
        "    until: {exists: /brokers/ids/2}",
        "  - wait: 6000ms",
        "  - kill: 2",
        "    until: {unregistered: 2}",
    ]


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (Kind.CONTROLLER_RESIGNED, ["  - move_controller:", "    until: {exists: [/controller]}"]),
        (Kind.CONTROLLER_MOVED, ["  - move_controller:", "    until: {exists: [/controller]}"]),
        (Kind.EVENT, ["  - kill: 0", "    until: {unregistered: 0, exists: [/controller]}"]),
    ],
)
def test_a_controller_that_does_not_write_its_end_has_died(last: Kind, found: list[str]) -> None:
    rows = [elected(0, 0, 1), row(5_000, last), elected(5_001, 1, 2)]
    assert steps(*rows) == found


def test_a_controller_that_is_elected_again_has_moved() -> None:
    rows = [elected(0, 0, 1), elected(5_000, 0, 2)]
    assert steps(*rows)[0] == "  - move_controller:"
    # One that is known to be dead has no other end.
    rows = [elected(0, 0, 1), row(9, Kind.BROKER_OFFLINE, replica=0), elected(5_000, 1, 2)]
    assert [line for line in steps(*rows) if line.startswith("  - ")] == ["  - kill: 0"]


def test_topics_come_go_and_move() -> None:
    moved = {"topic": "t", "partition": 0, "reassignment_id": "t-0->0,2"}
    rows = [
        elected(0, 0, 1),
        row(1, Kind.BROKER_OFFLINE, replica=3),
        row(10, Kind.TOPIC_CREATED, topic="t"),
        *(replica(10, "t", broker, n) for broker, n in ((1, 0), (2, 0), (1, 1))),
        online(11, "t", 2, 1),
        *(row(20, Kind.REASSIGNMENT_PHASE, to=phase, **moved) for phase in ("U1", "U2")),
        replica(21, "t", 0),
        row(30, Kind.TOPIC_DELETION_STARTED, topic="t"),
        row(35, Kind.TOPIC_DELETION_STARTED, topic="t"),
        row(50, Kind.TOPIC_CREATED, topic="t"),
        replica(50, "t", 0),
        row(60, Kind.TOPIC_DELETION_STARTED, topic="t"),
    ]
    assert [line for line in steps(*rows) if "wait" not in line][2:] == [
        "  - run: topics --zookeeper {zk} --create --topic t --replica-assignment 2:1,1",
        "  - reassign: {t-0: [0, 2]}",
        "  - run: topics --zookeeper {zk} --delete --topic t",
        "  - until: {deleted: t}",
        "  - run: topics --zookeeper {zk} --create --topic t --replica-assignment 0",
        "  - run: topics --zookeeper {zk} --delete --topic t",
    ]


def test_a_request_for_many_partitions_is_one_step() -> None:
    def begun(event_id: int, partition: int) -> JournalRow:
        target = {"topic": "t", "partition": partition, "reassignment_id": f"t-{partition}->0,2"}
        return row(20, Kind.REASSIGNMENT_PHASE, to="U1", event_id=event_id, **target)

    rows = [
        elected(0, 0, 1),
        row(10, Kind.TOPIC_CREATED, topic="t"),
        *(online(11, "t", 2, 1, partition=n) for n in range(4)),
        *(begun(*one) for one in ((7, 0), (7, 1), (8, 2), (0, 3), (0, 0))),
    ]
    assert [line for line in steps(*rows) if "wait" not in line] == [
        "  - reassign:",
        "      t-0: [0, 2]",
        "      t-1: [0, 2]",
        "  - reassign: {t-2: [0, 2]}",
        "  - reassign: {t-3: [0, 2]}",
        "  - reassign: {t-0: [0, 2]}",
    ]


def test_short_times_are_not_waited_for() -> None:
    rows = [elected(0, 0, 1), row(1, Kind.BROKER_OFFLINE, replica=3)]
    rows += [row(n, Kind.TOPIC_DELETION_STARTED, topic=f"t{n}") for n in (20, 29, 39, 50)]
    waits = [line.strip() for line in steps(*rows) if "wait" in line]
    assert waits == ["- wait: 19ms", "- wait: 10ms", "- wait: 11ms"]
