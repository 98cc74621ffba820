"""Questions one by one, of a few rows each: what is said, and what is not guessed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from pyspark.sql import DataFrame

from klamm.replay.encode import encode
from klamm.replay.event_schema import DAMAGED_SCHEMA, SCHEMA_VERSION, STATE_CODES
from klamm.replay.event_table import EventTable, Manifest
from klamm.replay.filters import Filters, narrow
from klamm.replay.listings import in_words
from klamm.replay.questions.availability import leaderless_intervals
from klamm.replay.questions.columns import legal_bits
from klamm.replay.questions.controllers import epochs, failovers, late_writes, shared_epochs
from klamm.replay.questions.duplicates import duplicates, without
from klamm.replay.questions.final_states import final_partitions
from klamm.replay.questions.histories import by_partition, histories
from klamm.replay.questions.reassignments import reassignments
from klamm.replay.questions.row_checks import gap_places, illegal_transitions
from klamm.replay.questions.timeline import differences, leaders_over_time, offline_timeline
from klamm.statemachines import partition_state, replica_state

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

Raw = Callable[..., DataFrame]
ONLINE, OFFLINE, NEW, NONE = (
    f"{word}Partition" for word in ("Online", "Offline", "New", "NonExistent")
)


def on(partition: int = 0, **fields: Any) -> dict[str, Any]:
    return {"topic": "t", "partition": partition, **fields}


def move(before: str | None, to: str, **fields: Any) -> dict[str, Any]:
    return on(kind="partition_transition", from_state=before, to_state=to, **fields)


def snapshot(to: str, **fields: Any) -> dict[str, Any]:
    return on(kind="partition_snapshot", to_state=to, **fields)


@pytest.fixture(scope="module")
def coded(raw_events: Raw) -> Raw:
    """Coded events; seq counts up and t_ms = 10 seq unless they are given."""

    def make(*rows: dict[str, Any]) -> DataFrame:
        return encode(
            raw_events(
                *({"seq": n, "t_ms": 10 * n, "line": n, **row} for n, row in enumerate(rows, 1))
            )
        ).events.persist()

    return make


def rows_of(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in columns) for row in frame.collect())


@pytest.mark.parametrize(
    ("machine", "first"), [(partition_state, 1), (replica_state, 11)], ids=["partition", "replica"]
)
def test_the_bits_are_the_state_machines(machine: Any, first: int) -> None:
    before = machine.VALID_PREVIOUS
    bits = legal_bits(before, first)
    count = len(before)
    for source, target in product(before, repeat=2):
        place = (STATE_CODES[source.value] - first) * count + STATE_CODES[target.value] - first
        assert bool(bits >> place & 1) == (source in before[target])
    assert bits < 1 << count * count < 1 << 63


def test_what_is_no_state_is_illegal_and_what_is_not_said_is_not_judged(coded: Raw) -> None:
    events = coded(
        move(None, ONLINE),
        move(ONLINE, "OnlineReplica"),
        move("Lost", ONLINE),
        move(NONE, ONLINE),
        move(OFFLINE, NONE),
        on(kind="replica_transition", replica=1, from_state="NewReplica", to_state="OnlineReplica"),
        on(kind="replica_transition", replica=1, from_state=NEW, to_state=ONLINE),
        on(kind="partition_failed", from_state=NONE, to_state=ONLINE),
    )
    assert rows_of(illegal_transitions(events), "line") == [(2,), (3,), (4,), (7,)]


def test_a_lost_first_row_and_a_lost_row_between_are_gaps(coded: Raw) -> None:
    events = coded(
        *(on(kind="isr_changed", key_seq=n) for n in (1, 2, 5, 6, 8)),
        *(on(kind="isr_changed", partition=1, key_seq=n) for n in (3, 4)),
        *(on(kind="isr_changed", partition=2, key_seq=n) for n in (1, 2)),
        *(on(kind="isr_removed", replica=7, key_seq=n) for n in (1, 3)),
        on(kind="isr_changed", epoch=2, seq=1, key_seq=1),
    )
    found = histories(events).where("missing > 0")
    assert rows_of(found, "partition", "replica", "epoch", "missing") == [
        (0, -1, 1, 3),
        (0, 7, 1, 1),
        (1, -1, 1, 2),
    ]
    places = gap_places(events, found).na.fill(0)
    assert rows_of(places, "after_key_seq", "before_key_seq", "after_line", "before_line") == [
        (0, 3, 0, 6),
        (1, 3, 10, 11),
        (2, 5, 2, 3),
        (6, 8, 4, 5),
    ]


def test_copies_are_left_out_and_contradictions_told(coded: Raw) -> None:
    events = coded(
        on(kind="isr_changed", seq=1, leader=1),
        on(kind="isr_changed", seq=2, leader=1),
        on(kind="isr_changed", seq=1, leader=1, t_ms=10),
        on(kind="isr_changed", seq=2, leader=7, t_ms=20),
        on(kind="isr_changed", seq=2, leader=1, controller=5),
        on(kind="isr_changed", seq=3, leader=1, run="another"),
    )
    found = duplicates(events)
    assert rows_of(found, "seq", "copies", "is_contradiction", "line", "copy_line") == [
        (1, 2, False, 1, 3),
        (2, 2, True, 2, 4),
    ]
    assert rows_of(without(events, found), "line") == [(1,), (2,), (5,), (6,)]


def test_two_controllers_and_late_writes(coded: Raw) -> None:
    write = on(kind="isr_changed", leader=1, isr=[1], prev_isr=[1, 2], zk_version=3)
    events = coded(
        {"kind": "controller_elected", "t_ms": 100, "seq": 1},
        {"kind": "controller_ready", "t_ms": 130, "seq": 2},
        {**write, "t_ms": 140, "seq": 3},
        {"kind": "controller_elected", "epoch": 2, "controller": 1, "t_ms": 200, "seq": 1},
        {**write, "t_ms": 200, "seq": 4},
        {**write, "t_ms": 201, "seq": 5},
        {"kind": "event", "t_ms": 300, "seq": 6},
        {"kind": "controller_elected", "epoch": 2, "controller": 2, "t_ms": 320, "seq": 2},
        {"kind": "controller_elected", "epoch": 3, "t_ms": 345, "seq": 1},
    )
    found = epochs(events)
    assert rows_of(late_writes(events, found), "line") == [(6,)]
    assert rows_of(shared_epochs(found), "epoch", "controllers") == [(2, [1, 2])]
    columns = ("epoch", "controller", "ready_after_ms", "silent_ms")
    assert rows_of(failovers(found).na.fill(-1), *columns) == [
        (1, 0, 30, -1),
        (2, 1, -1, -1),
        (2, 2, -1, -1),
        (3, 0, -1, 25),
    ]


def test_zookeeper_knows_who_was_late_by_its_order(coded: Raw) -> None:
    write = on(source="zookeeper", kind="leadership_written", leader=1, isr=[1], seq=0, t_ms=5)
    events = coded(
        {**write, "place": 1},
        {**write, "place": 2, "epoch": 2},
        {**write, "place": 3, "epoch": 2},
        {**write, "place": 4, "epoch": 1},
    )
    assert rows_of(late_writes(events, epochs(events)), "place") == [(4,)]


PHASE = {"kind": "reassignment_phase"}


def test_reassignments_end_are_replaced_or_stay_open(coded: Raw) -> None:
    def phases(partition: int, name: str, *to: str) -> list[dict[str, Any]]:
        return [on(partition, **PHASE, reassignment=name, to_state=phase) for phase in to]

    events = coded(
        *phases(0, "a", "U1", "U2", "A1", "B7", "B8"),
        *phases(0, "b", "U1", "U2", "A1"),
        *phases(0, "a", "U1", "U2"),
        *phases(1, "c", "U1"),
        on(1, **PHASE, reassignment="c", to_state="A1", epoch=2, seq=1),
    )
    columns = ("partition", "start_ms", "end_ms", "took_ms", "status", "epochs")
    assert rows_of(reassignments(events).na.fill(-1), *columns) == [
        (0, 10, 50, 40, "done", 1),
        (0, 60, 90, 30, "replaced", 1),
        (0, 90, -1, -1, "open", 1),
        (1, 110, -1, -1, "open", 2),
    ]


def test_reassignments_by_what_topic_znodes_hold(coded: Raw) -> None:
    def wrote(name: str | None, *replicas: str) -> dict[str, Any]:
        text = "ReplicaAssignment(replicas={}, addingReplicas={}, removingReplicas={})"
        row = {"source": "zookeeper", "kind": "assignment_written", "reassignment": name}
        return on(**row, detail=text.format(*replicas, *[""] * (3 - len(replicas))))

    events = coded(
        wrote(None, "1,2"),
        wrote("a", "3,1,2", "3", "1"),
        wrote("a", "3,1,2", "3", "1"),
        wrote(None, "3,2"),
        wrote("b", "1,3,2", "1", "3"),
        wrote("c", "4,3,2", "4", "3"),
        wrote(None, "3,2"),
        wrote("d", "4,3,2", "4", "3"),
    )
    columns = ("start_ms", "end_ms", "status", "last_phase")
    assert rows_of(reassignments(events).na.fill(-1), *columns) == [
        (20, 40, "done", 0),
        (50, 60, "replaced", 0),
        (60, 70, "replaced", 0),
        (80, -1, "open", 0),
    ]


def test_each_snapshot_is_where_the_timeline_begins_anew(coded: Raw) -> None:
    lead = {"leader": 1, "isr": [1]}
    events = coded(
        move(NONE, NEW),
        move(NEW, ONLINE, **lead),
        move(NONE, NEW, partition=1),
        move(NEW, ONLINE, partition=1, leader=2, isr=[2]),
        move(ONLINE, OFFLINE, t_ms=110),
        move(ONLINE, OFFLINE, partition=1, t_ms=120),
        move(OFFLINE, ONLINE, partition=1, t_ms=130, leader=1, prev_leader=2, isr=[1, 2]),
        snapshot(ONLINE, epoch=2, seq=1, t_ms=210, **lead),
        snapshot(OFFLINE, epoch=2, seq=2, t_ms=210, partition=1, leader=-1, isr=[1]),
    )
    found = differences(events, 0, 100)
    columns = ("bucket_ms", "offline", "went_offline", "came_back")
    assert rows_of(offline_timeline(found), *columns) == [(100, 1, 2, 1), (200, 1, 0, 0)]
    assert rows_of(leaders_over_time(found), "bucket_ms", "broker", "leaders") == [
        (0, 1, 1),
        (0, 2, 1),
        (100, 1, 2),
        (100, 2, 0),
        (200, -1, 1),
        (200, 1, 1),
        (200, 2, 0),
    ]


def test_a_leader_that_dies_with_the_controller_takes_its_partitions_offline(coded: Raw) -> None:
    led = {"leader": 1, "isr": [1, 2], "epoch": 2}
    lost = {"leader": -1, "isr": [3], "epoch": 2}
    back = {"leader": 2, "isr": [2], "epoch": 2, "t_ms": 250}
    events = coded(
        move(ONLINE, OFFLINE, partition=2, since_ms=0, leader=3, isr=[3]),
        snapshot(OFFLINE, seq=1, t_ms=210, **led),
        snapshot(OFFLINE, seq=2, t_ms=210, partition=1, **led),
        snapshot(OFFLINE, seq=3, t_ms=210, partition=2, **lost),
        move(OFFLINE, ONLINE, seq=4, since_ms=210, prev_leader=1, **back),
        move(OFFLINE, ONLINE, seq=5, partition=1, since_ms=210, prev_leader=1, **back),
    )
    columns = ("bucket_ms", "offline", "most", "went_offline", "came_back")
    timeline = rows_of(offline_timeline(differences(events, 0, 100)), *columns)
    assert timeline == [(0, 1, 1, 1, 0), (200, 1, 3, 2, 2)]
    found = by_partition(histories(events))
    assert rows_of(found, "partition", "offlines", "offline_ms") == [
        (0, 1, 40),
        (1, 1, 40),
        (2, 1, 0),
    ]
    assert rows_of(by_partition(histories(events, 211)), "partition", "offlines") == [
        (partition, 0) for partition in range(3)
    ]


def test_a_deleted_state_znode_ends_what_was_known(coded: Raw) -> None:
    def wrote(partition: int, **fields: Any) -> dict[str, Any]:
        row = {"source": "zookeeper", "kind": "leadership_written", "isr": [1], "zk_version": 1}
        return on(partition, **row, **fields)

    events = coded(
        wrote(0, leader=1),
        wrote(1, leader=-1, prev_leader=1),
        on(1, source="zookeeper", kind="leadership_deleted"),
    )
    last = final_partitions(by_partition(histories(events)), events)
    assert rows_of(last, "partition", "leader", "isr", "state") == [(0, 1, [1], 0)]
    assert rows_of(leaderless_intervals(events), "lost", "start_ms", "end_ms") == [(1, 20, 30)]


def test_a_partition_that_is_deleted_is_not_without_a_leader(coded: Raw) -> None:
    lost = on(kind="isr_removed", replica=1, leader=-1, prev_leader=1, isr=[1], prev_isr=[1])
    events = coded(
        lost,
        move(OFFLINE, NONE),
        lost,
        move(NONE, NEW),
        lost,
        move(OFFLINE, ONLINE, leader=1, prev_leader=-1, isr=[1], prev_isr=[1]),
        move(OFFLINE, NONE),
        snapshot(OFFLINE, epoch=2, seq=1, leader=-1, isr=[1]),
    )
    found = leaderless_intervals(events).na.fill(-1)
    assert rows_of(found, "start_ms", "end_ms") == [(10, 20), (50, 60), (80, -1)]


def test_filters_take_whole_histories(raw_events: Raw) -> None:
    rows: tuple[dict[str, Any], ...] = (
        {"kind": "controller_elected"},
        move(NONE, NEW),
        move(NEW, ONLINE, leader=1, isr=[1, 2]),
        move(NONE, NEW, partition=1),
        {**move(NONE, NEW), "topic": "u", "epoch": 2},
        on(kind="replica_transition", replica=3, from_state="NewReplica", to_state="OnlineReplica"),
    )
    events, names = encode(
        raw_events(*({"seq": n, "t_ms": 10 * n, "line": n, **row} for n, row in enumerate(rows, 1)))
    )
    spark = events.sparkSession
    damaged = spark.createDataFrame([], DAMAGED_SCHEMA)
    table = EventTable(events, names, damaged, Manifest(SCHEMA_VERSION, []))

    def lines(**fields: Any) -> list[int]:
        return [line for (line,) in rows_of(narrow(table, Filters(**fields)), "line")]

    assert lines() == [1, 2, 3, 4, 5, 6]
    assert lines(topics=("u",)) == [1, 5]
    assert lines(brokers=(2,)) == lines(brokers=(3,)) == [1, 2, 3, 6]
    assert lines(to_ms=30) == lines(as_of_ms=30) == [1, 2, 3]
    assert lines(as_of_epoch=1) == [1, 2, 3, 4, 6]
    assert lines(as_of_zxid=9) == []
    assert lines(from_ms=30) == [1, 2, 3, 4, 5, 6]
    (first,) = in_words({"": events.where("line = 3").collect()}, names)[""]
    assert (first["topic"], first["to_state"], first["kind"], first["source"]) == (
        *("t", ONLINE, "partition_transition", "journal"),
    )
