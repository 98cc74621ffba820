"""Questions one by one, of a few rows each: what is said, and what is not guessed."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from klamm.replay.engines import Engine
from klamm.replay.engines import rows as rows_in
from klamm.replay.event_schema import STATE_CODES
from klamm.replay.filters import Filters, narrow
from klamm.replay.listings import in_strings
from klamm.replay.questions.columns import judged, legal_pairs
from klamm.replay.questions.controllers import epochs, failovers, late_writes, shared_epochs, starts
from klamm.replay.questions.counts import counted_rows, rows_of_topics
from klamm.replay.questions.duplicates import duplicates, without
from klamm.replay.questions.final_states import final_partitions
from klamm.replay.questions.histories import by_partition, by_replica
from klamm.replay.questions.isrs import moves, unclean_elections
from klamm.replay.questions.lives import (
    bucket,
    leader_changes,
    leaders_over_time,
    lives,
    offline_changes,
    offline_intervals,
    offline_timeline,
    width_of,
)
from klamm.replay.questions.problems import (
    Problems,
    brokers_by_trouble,
    problems_of_brokers,
    problems_of_topics,
    topics_by_trouble,
)
from klamm.replay.questions.reassignments import reassignments
from klamm.replay.questions.row_checks import (
    blocks_beside_gaps,
    doubtful_epochs,
    gaps,
    histories_with_gaps,
    illegal_transitions,
    lost_rows,
    lost_tails,
    numbered_blocks,
    rows_beside_gaps,
)
from klamm.replay.questions.timeline import (
    MOST_CHANGES,
    chosen_partitions,
    life_lines,
    marks,
    marks_of_partitions,
    most_changed,
    named_partitions,
)
from klamm.statemachines import partition_state, replica_state
from tests.spark.conftest import Coded, rows_of, table_in

ONLINE, OFFLINE, NEW, NONE = (
    f"{word}Partition" for word in ("Online", "Offline", "New", "NonExistent")
)


def on(partition: int = 0, **fields: Any) -> dict[str, Any]:
    return {"topic": "t", "partition": partition, **fields}


def move(before: str | None, to: str, **fields: Any) -> dict[str, Any]:
    return on(kind="partition_transition", from_state=before, to_state=to, **fields)


def snapshot(to: str, **fields: Any) -> dict[str, Any]:
    return on(kind="partition_snapshot", to_state=to, **fields)


@pytest.fixture
def lived(engine: Engine, coded: Coded) -> Coded:
    """The lives of the partitions in some events."""
    return lambda *rows: engine.keep(lives(coded(*rows)))


def test_a_life_line_has_the_last_changes_of_state_leader_and_isr(
    engine: Engine, coded: Coded, lived: Coded
) -> None:
    events = (
        move(None, ONLINE, leader=1, isr=[1, 2], leader_epoch=0),
        on(kind="isr_changed", leader=1, isr=[1], prev_isr=[1, 2], prev_leader=1),
        on(kind="isr_changed", leader=1, isr=[1], prev_isr=[1], prev_leader=1),
        move(ONLINE, OFFLINE),
        move(OFFLINE, ONLINE, leader=2, isr=[2, 3], prev_leader=1, prev_isr=[1]),
        move(OFFLINE, NONE),
        on(1, kind="isr_changed", leader=4, isr=[4]),
        on(kind="broker_offline", replica=3),
    )
    names = {code: word for word, code in STATE_CODES.items()}
    found = lived(*events)
    named = engine.view(named_partitions([f"SELECT * FROM {found} WHERE partition = 1"]))
    changed = most_changed(found, engine.keep(moves(coded(*events))), named)
    chosen = engine.keep(chosen_partitions(f"({changed})"))
    lines = life_lines(coded(*events), chosen)
    sql = f"SELECT * FROM ({lines}) ORDER BY partition, number DESC"
    shown = [
        (at["partition"], at["t_ms"], names.get(at["state"]), at["leader"], at["in_sync"])
        for at in rows_in(engine, sql)
    ]
    assert shown == [
        (0, 10, ONLINE, 1, 2),
        (0, 20, ONLINE, 1, 1),
        (0, 40, OFFLINE, 1, 1),
        (0, 50, ONLINE, 2, 2),
        (0, 60, NONE, -2, 0),
        (1, 70, None, 4, 1),
    ]


def timeline(engine: Engine, found: str) -> str:
    changes = offline_changes(engine.keep(offline_intervals(found)), 0)
    return offline_timeline(f"({changes})", 0, 100)


def leaders_of(found: str) -> str:
    return leaders_over_time(f"({leader_changes(found, 0, 100)})")


def lost_in(engine: Engine, events: str, doubtful: str) -> str:
    beside = engine.keep(blocks_beside_gaps(f"({numbered_blocks(events)})", doubtful))
    return lost_rows(f"({rows_beside_gaps(events, beside)})")


@pytest.mark.parametrize("machine", [partition_state, replica_state])
def test_the_pairs_are_the_state_machines(machine: Any) -> None:
    before, pairs = machine.PREVIOUS, legal_pairs(machine.PREVIOUS)
    for source, target in product(before, repeat=2):
        pair = 100 * STATE_CODES[source.value] + STATE_CODES[target.value]
        assert (pair in pairs) == (source in before[target])


def test_what_is_no_state_is_illegal_and_what_is_not_said_is_not_judged(
    engine: Engine, coded: Coded
) -> None:
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
    assert rows_of(engine, illegal_transitions(events), "line") == [(2,), (3,), (4,), (7,)]


def epochs_of(events: str) -> str:
    """Return the query for the controller epochs in some events."""
    return epochs(f"({counted_rows(events)})")


def gaps_of(engine: Engine, events: str, doubtful: str) -> str:
    """Return the query for the gaps in the row numbers of partitions and replicas."""
    return gaps(events, doubtful, engine.keep(histories_with_gaps(events, doubtful)))


def test_a_lost_first_row_and_a_lost_row_between_are_gaps(engine: Engine, coded: Coded) -> None:
    events = coded(
        *(on(kind="isr_changed", key_seq=n) for n in (1, 2, 5, 6, 8)),
        *(on(kind="isr_changed", partition=1, key_seq=n) for n in (3, 4)),
        *(on(kind="isr_changed", partition=2, key_seq=n) for n in (1, 2)),
        *(on(kind="isr_removed", replica=7, key_seq=n) for n in (1, 3)),
        on(kind="isr_changed", epoch=2, seq=1, key_seq=1),
    )
    doubtful = engine.keep(f"SELECT DISTINCT source, run, controller, epoch FROM {events}")
    found = gaps_of(engine, events, doubtful)
    assert rows_of(engine, found, "partition", "replica", "epoch", "missing") == [
        (0, -1, 1, 1),
        (0, -1, 1, 2),
        (0, 7, 1, 1),
        (1, -1, 1, 2),
    ]
    columns = ("after_key_seq", "before_key_seq", "after_line", "before_line")
    assert rows_of(engine, found, *columns) == [
        (-1, 3, -1, 6),
        (1, 3, 10, 11),
        (2, 5, 2, 3),
        (6, 8, 4, 5),
    ]
    for given, doubtful in (
        (events, []),
        (coded({"seq": 1}, {"seq": 3}), [(1,)]),
        (coded({"seq": 2}, {"seq": 3}), [(1,)]),
    ):
        found = engine.keep(epochs_of(given))
        assert rows_of(engine, doubtful_epochs(found), "epoch") == doubtful


def test_the_next_controller_proves_that_the_end_of_an_epoch_is_lost(
    engine: Engine, coded: Coded
) -> None:
    led = {"leader": 1, "isr": [1, 2]}
    events = coded(
        move(NEW, ONLINE, **led, leader_epoch=0),
        move(NEW, ONLINE, partition=1, **led, leader_epoch=3),
        move(NEW, ONLINE, partition=2, **led, leader_epoch=0),
        # Leaders change ISRs without a row of the controller, but do not raise the leader epoch.
        snapshot(ONLINE, epoch=2, partition=0, **led, leader_epoch=0, zk_version=9),
        snapshot(ONLINE, epoch=2, partition=1, **led, leader_epoch=5),
        snapshot(ONLINE, epoch=2, partition=2, **led, leader_epoch=1),
        snapshot(ONLINE, epoch=2, partition=3, **led, leader_epoch=8),
        snapshot(ONLINE, epoch=3, partition=1, **led, leader_epoch=5),
        move(NEW, ONLINE, partition=4, epoch=3, **led, leader_epoch=0),
    )
    columns = ("epoch", "partitions", "partition", "known", "leader_epoch", "line")
    assert rows_of(engine, lost_tails(events), *columns) == [(2, 2, 1, 3, 5, 5)]


def test_copies_are_left_out_and_contradictions_reported(engine: Engine, coded: Coded) -> None:
    events = coded(
        on(kind="isr_changed", seq=1, leader=1),
        on(kind="isr_changed", seq=2, leader=1),
        on(kind="isr_changed", seq=1, leader=1, t_ms=10),
        on(kind="isr_changed", seq=2, leader=7, t_ms=20),
        on(kind="isr_changed", seq=2, leader=1, controller=5),
        on(kind="isr_changed", seq=3, leader=1, run="another"),
        on(kind="isr_changed", seq=4, leader=1),
        on(kind="isr_changed", seq=4, leader=1, t_ms=70, file="other", line=7),
    )
    found = engine.keep(duplicates(events))
    assert rows_of(engine, found, "seq", "copies", "is_contradiction", "line", "copy_line") == [
        (1, 2, False, 1, 3),
        (2, 2, True, 2, 4),
        (4, 2, False, 7, 7),
    ]
    lines = [(1,), (2,), (5,), (6,), (7,)]
    assert rows_of(engine, without(events, found), "line") == lines


def test_two_controllers_and_late_writes(engine: Engine, coded: Coded) -> None:
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
    found = engine.keep(epochs_of(events))
    assert rows_of(engine, late_writes(events, found), "line") == [(6,)]
    assert rows_of(engine, shared_epochs(found), "epoch", "controllers") == [(2, [1, 2])]
    columns = ("epoch", "controller", "ready_after_ms", "since_older_epoch_ms")
    assert rows_of(engine, failovers(found), *columns) == [
        (1, 0, 30, -1),
        (2, 1, -1, -1),
        (2, 2, -1, -1),
        (3, 0, -1, 25),
    ]


def test_zookeeper_knows_who_was_late_by_its_order(engine: Engine, coded: Coded) -> None:
    write = on(source="zookeeper", kind="leadership_written", leader=1, isr=[1], seq=0, t_ms=5)
    events = coded(
        {**write, "place": 1},
        {**write, "place": 2, "epoch": 2},
        {**write, "place": 3, "epoch": 2},
        {**write, "place": 4, "epoch": 1},
    )
    assert rows_of(engine, late_writes(events, engine.keep(epochs_of(events))), "place") == [(4,)]


PHASE = {"kind": "reassignment_phase"}


def test_reassignments_end_are_replaced_or_stay_open(engine: Engine, coded: Coded) -> None:
    def phases(partition: int, name: str, *to: str) -> list[dict[str, Any]]:
        return [on(partition, **PHASE, reassignment=name, to_state=phase) for phase in to]

    def moved(name: str, replicas: str, adding: str, removing: str) -> list[dict[str, Any]]:
        names = f"addingReplicas={adding}, removingReplicas={removing}"
        first, end = phases(3, name, "U1", "B8")
        return [{**first, "detail": f"ReplicaAssignment(replicas={replicas}, {names})"}, end]

    events = coded(
        *phases(0, "a", "U1", "U2", "A1", "B7", "B8"),
        *phases(0, "b", "U1", "U2", "A1"),
        *phases(0, "a", "U1", "U2"),
        *phases(1, "c", "U1"),
        on(1, **PHASE, reassignment="c", to_state="A1", epoch=2, seq=1),
        *phases(2, "d", "U1", "B8", "U1"),
        *moved("e", "2,1", "2", "1"),
        *moved("f", "1,2", "1", "2"),  # back, but after the end: no cancellation
    )
    columns = ("partition", "start_ms", "end_ms", "status", "epochs")
    assert rows_of(engine, reassignments(events), *columns) == [
        (0, 10, 50, "done", 1),
        (0, 60, 90, "replaced", 1),
        (0, 90, -1, "open", 1),
        (1, 110, -1, "open", 2),
        (2, 130, 140, "done", 1),
        (2, 150, -1, "open", 1),
        (3, 160, 170, "done", 1),
        (3, 180, 190, "done", 1),
    ]


def test_reassignments_by_what_topic_znodes_hold(engine: Engine, coded: Coded) -> None:
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
    assert rows_of(engine, reassignments(events), *columns) == [
        (20, 40, "done", 0),
        (50, 60, "replaced", 0),
        (60, 70, "cancelled", 0),
        (80, -1, "open", 0),
    ]


def test_a_snapshot_repeats_and_corrects(engine: Engine, lived: Coded) -> None:
    lead = {"leader": 1, "isr": [1]}
    found = lived(
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
    columns = ("bucket_ms", "offline", "went_offline", "came_back")
    assert rows_of(engine, timeline(engine, found), *columns) == [(100, 1, 2, 1), (200, 1, 0, 1)]
    columns = ("partition", "start_ms", "end_ms", "ended_by")
    assert rows_of(engine, offline_intervals(found), *columns) == [
        (0, 110, 210, "snapshot"),
        (1, 120, 130, "transition"),
        (1, 210, -1, -1),
    ]
    leaders = leaders_of(found)
    assert rows_of(engine, leaders, "bucket_ms", "broker", "leaders") == [
        (0, 1, 1),
        (0, 2, 1),
        (100, 1, 2),
        (100, 2, 0),
        (200, -1, 1),
        (200, 1, 1),
    ]


def test_a_leader_that_dies_with_the_controller_takes_its_partitions_offline(
    engine: Engine, lived: Coded
) -> None:
    led = {"leader": 1, "isr": [1, 2], "epoch": 2}
    lost = {"leader": -1, "isr": [3], "epoch": 2}
    back = {"leader": 2, "isr": [2], "epoch": 2, "t_ms": 250}
    found = lived(
        move(ONLINE, OFFLINE, partition=2, since_ms=0, leader=3, isr=[3]),
        snapshot(OFFLINE, seq=1, t_ms=210, **led),
        snapshot(OFFLINE, seq=2, t_ms=210, partition=1, **led),
        snapshot(OFFLINE, seq=3, t_ms=210, partition=2, **lost),
        move(OFFLINE, ONLINE, seq=4, since_ms=210, prev_leader=1, **back),
        move(OFFLINE, ONLINE, seq=5, partition=1, since_ms=210, prev_leader=1, **back),
    )
    columns = ("bucket_ms", "offline", "most", "went_offline", "came_back")
    assert rows_of(engine, timeline(engine, found), *columns) == [
        (0, 1, 1, 1, 0),
        (200, 1, 3, 2, 2),
    ]
    columns = ("partition", "start_ms", "end_ms", "is_new")
    assert rows_of(engine, offline_intervals(found), *columns) == [
        (0, 210, 250, True),
        (1, 210, 250, True),
        (2, 10, -1, True),
    ]


def test_the_most_that_were_offline_counts_those_that_come_back(
    engine: Engine, lived: Coded
) -> None:
    found = lived(
        move(ONLINE, OFFLINE, since_ms=0, leader=3, isr=[3]),
        move(OFFLINE, ONLINE, seq=1, since_ms=10, t_ms=250, leader=3, isr=[3]),
    )
    columns = ("bucket_ms", "offline", "most", "went_offline", "came_back")
    assert rows_of(engine, timeline(engine, found), *columns) == [
        (0, 1, 1, 1, 0),
        (200, 0, 1, 0, 1),
    ]


def test_a_deletion_is_no_outage(engine: Engine, lived: Coded) -> None:
    found = lived(
        move(ONLINE, OFFLINE, leader=-1, prev_leader=1, isr=[1]),
        move(OFFLINE, NONE),
        move(ONLINE, OFFLINE, partition=1),
        move(OFFLINE, OFFLINE, partition=1, since_ms=30),
        move(OFFLINE, NONE, partition=1, since_ms=40),
    )
    columns = ("partition", "start_ms", "end_ms")
    assert rows_of(engine, offline_intervals(found), *columns) == [(1, 30, 50)]
    leaders = leaders_of(found)
    assert {row[1:] for row in rows_of(engine, leaders, "bucket_ms", "broker", "leaders")} == {
        (-1, 0)
    }


def test_a_stay_that_began_before_the_log_begins_when_a_row_says(
    engine: Engine, lived: Coded
) -> None:
    found = lived(
        move(OFFLINE, ONLINE, since_ms=3, t_ms=20),
        move(OFFLINE, OFFLINE, partition=1, since_ms=5),
        move(OFFLINE, ONLINE, partition=1, since_ms=20, t_ms=30),
        move(OFFLINE, ONLINE, partition=2),
    )
    assert rows_of(engine, offline_intervals(found), "partition", "start_ms", "end_ms") == [
        (0, 3, 20),
        (1, 5, 30),
        (2, -1, 40),
    ]


def test_a_deleted_state_znode_ends_what_was_known(engine: Engine, coded: Coded) -> None:
    def wrote(partition: int, **fields: Any) -> dict[str, Any]:
        row = {"source": "zookeeper", "kind": "leadership_written", "isr": [1], "zk_version": 1}
        return on(partition, **row, **fields)

    events = coded(
        wrote(0, leader=1),
        wrote(1, leader=-1, prev_leader=1),
        on(1, source="zookeeper", kind="leadership_deleted"),
    )
    partitions = engine.keep(by_partition(engine.keep(by_replica(events))))
    last = final_partitions(partitions, events)
    assert rows_of(engine, last, "partition", "leader", "isr", "state") == [(0, 1, [1], 0)]
    found = engine.keep(lives(events))
    assert rows_of(engine, found, "partition", "t_ms", "leader") == [
        (0, 10, 1),
        (1, 20, -1),
        (1, 30, -1),
    ]


def test_a_row_after_lost_rows_shows_a_leader_although_it_does_not_change_it(
    engine: Engine, coded: Coded
) -> None:
    events = coded(
        *({**move(NEW, ONLINE, leader=1, isr=[1, 2]), "partition": n} for n in (0, 1)),
        *(on(n, kind="isr_changed", leader=2, prev_leader=2, isr=[2]) for n in (0, 1)),
    )
    lost = f"(SELECT source, run, topic, partition FROM {events} WHERE partition = 1)"
    columns = ("partition", "t_ms", "leader", "prev_leader")
    elected = [(0, 10, 1, -1), (1, 20, 1, -1)]
    assert rows_of(engine, lives(events), *columns) == elected
    assert rows_of(engine, lives(events, lost), *columns) == [*elected, (1, 40, 2, 1)]


def test_of_two_controllers_at_one_place_that_with_the_higher_id_counts(
    engine: Engine, coded: Coded
) -> None:
    led = [
        move(NEW, ONLINE, leader=broker, isr=[broker], controller=broker, place=7)
        for broker in (1, 3, 2)
    ]
    events = coded(*led)
    partitions = engine.keep(by_partition(engine.keep(by_replica(events))))
    assert rows_of(engine, final_partitions(partitions, events), "leader", "isr") == [(3, [3])]


def test_a_failover_without_a_snapshot_takes_no_leader_away(engine: Engine, lived: Coded) -> None:
    def wrote(version: int, leader: int, before: int | None, **fields: Any) -> dict[str, Any]:
        row = {"source": "zookeeper", "kind": "leadership_written", "isr": [1], **fields}
        return on(
            **row, leader=leader, prev_leader=before, zk_version=version, place=fields["t_ms"]
        )

    found = lived(
        wrote(0, 1, None, t_ms=10),
        wrote(0, 1, None, partition=1, t_ms=11),
        wrote(1, 2, 1, epoch=2, t_ms=110),
        wrote(1, -1, 1, partition=1, epoch=2, t_ms=111),
        on(1, source="zookeeper", kind="leadership_deleted", epoch=3, place=210, t_ms=210),
    )
    leaders = leaders_of(found)
    assert rows_of(engine, leaders, "bucket_ms", "broker", "leaders") == [
        (0, 1, 2),
        (100, -1, 1),
        (100, 1, 0),
        (100, 2, 1),
        (200, -1, 0),
    ]


def test_rows_that_are_lost_have_places_even_if_they_are_about_no_partition(
    engine: Engine, coded: Coded
) -> None:
    events = coded({"seq": 2}, on(seq=3, key_seq=1), {"seq": 6}, {"seq": 1, "epoch": 2})
    doubtful = engine.keep(doubtful_epochs(f"({epochs_of(events)})"))
    columns = ("missing", "after_line", "before_line")
    assert rows_of(engine, lost_in(engine, events, doubtful), *columns) == [(1, -1, 1), (2, 2, 3)]
    assert rows_of(engine, gaps_of(engine, events, doubtful), *columns) == []


def test_rows_that_are_lost_at_the_edges_of_blocks_are_found(engine: Engine, coded: Coded) -> None:
    sequence = (*range(1, 4096), 4097, 8191, 8193, 12_288, 40_000, 40_001, 61_439, 61_440, 61_441)
    events = coded(*({"seq": seq} for seq in sequence))
    doubtful = engine.keep(doubtful_epochs(f"({epochs_of(events)})"))
    found = rows_of(engine, lost_in(engine, events, doubtful), "missing", "after_seq", "before_seq")
    pairs = pairwise(sequence)
    assert found == sorted((b - a - 1, a, b) for a, b in pairs if b - a > 1)


def test_filters_take_whole_histories(engine: Engine) -> None:
    rows: tuple[dict[str, Any], ...] = (
        {"kind": "controller_elected"},
        move(NONE, NEW),
        move(NEW, ONLINE, leader=1, isr=[1, 2]),
        move(NONE, NEW, partition=1),
        {**move(NONE, NEW), "topic": "u", "epoch": 2},
        on(kind="replica_transition", replica=3, from_state="NewReplica", to_state="OnlineReplica"),
    )
    counted = ({"seq": n, "t_ms": 10 * n, "line": n, **row} for n, row in enumerate(rows, 1))
    table = table_in(engine, *counted)

    def lines(**fields: Any) -> list[int]:
        found = narrow(engine, table.events, Filters(**fields))
        return [line for (line,) in rows_of(engine, found, "line")]

    assert lines() == [1, 2, 3, 4, 5, 6]
    assert lines(topics=("u",)) == [1, 5]
    assert lines(brokers=(2,)) == lines(brokers=(3,)) == [1, 2, 3, 6]
    assert lines(to_ms=30) == lines(as_of_ms=30) == [1, 2, 3]
    assert lines(as_of_epoch=1) == [1, 2, 3, 4, 6]
    assert lines(as_of_zxid=9) == []
    assert lines(from_ms=30) == [1, 2, 3, 4, 5, 6]
    third = rows_in(engine, f"SELECT * FROM {table.events} WHERE line = 3")
    (first,) = in_strings({"": third}, table)[""]
    assert (first["topic"], first["to_state"], first["kind"], first["source"]) == (
        *("t", ONLINE, "partition_transition", "journal"),
    )


def test_an_election_outside_the_isr_is_unclean(engine: Engine, coded: Coded) -> None:
    def led(leader: int, before: int | None, isr: list[int] | None, **more: Any) -> dict[str, Any]:
        isrs = {"isr": [leader], "prev_isr": isr, "prev_leader": before}
        return move(OFFLINE, ONLINE, leader=leader, **isrs, **more)

    events = coded(
        led(0, 1, [1, 2]),
        led(2, 1, [1, 2]),
        led(1, 1, [2]),
        led(-1, 1, [2]),
        led(3, None, [1]),
        led(3, 1, None),
        {**led(0, 1, [1, 2]), "kind": "partition_snapshot"},
        {**led(4, 1, [1]), "kind": "isr_changed"},
        {**led(4, 1, [1]), "kind": "leadership_written"},
        {**led(4, 1, [1]), "kind": "event"},
    )
    found = unclean_elections(events)
    assert rows_of(engine, found, "line", "prev_leader", "leader") == [
        (1, 1, 0),
        (5, -1, 3),
        (8, 1, 4),
        (9, 1, 4),
    ]


def test_what_was_before_a_time_is_not_counted(engine: Engine, coded: Coded) -> None:
    events = coded(
        move(NEW, ONLINE, leader=1, isr=[1, 2], prev_leader=-1, prev_isr=[1, 2]),
        on(32, kind="isr_changed", leader=1, prev_leader=1, isr=[1], prev_isr=[1, 2]),
        on(0, kind="isr_changed", leader=2, prev_leader=1, isr=[1, 2], prev_isr=[1]),
        on(-1, kind="topic_created"),
        on(33, kind="isr_changed", leader=1, prev_leader=1, isr=[2, 3], prev_isr=[1, 2]),
        on(40, kind="reassignment_failed"),  # of a partition that does not exist
    )
    for from_ms, moved, counts, rows in (
        (None, [(1, True), (2, False), (2, True), (3, False)], (6, 2, 3), 6),
        (20, [(1, True), (2, False), (2, True), (3, False)], (5, 1, 3), 5),
        (21, [(1, True), (2, False), (3, False)], (4, 1, 3), 4),
        (51, [], (1, 0, 3), 1),
    ):
        assert rows_of(engine, moves(events, from_ms), "replica", "has_left") == moved
        found = rows_of_topics(events, from_ms)
        assert rows_of(engine, found, "rows", "leader_changes", "partitions") == [counts]
        found = counted_rows(events, from_ms)
        assert rows_of(engine, found, "rows", "first_ms", "numbered") == [(rows, 10, 6)]


def test_a_failover_is_counted_from_the_last_event_of_a_controller(
    engine: Engine, coded: Coded
) -> None:
    events = coded(
        {"kind": "run_start", "epoch": 0, "controller": -1, "t_ms": 90},
        {"kind": "controller_elected", "epoch": 0, "controller": -1, "t_ms": 95},
        {"kind": "controller_elected", "epoch": 1, "t_ms": 100, "seq": 1},
        {"kind": "run_start", "epoch": 0, "controller": -1, "t_ms": 150},
        {"kind": "controller_elected", "epoch": 2, "t_ms": 150, "seq": 1},
        {"kind": "event", "epoch": 2, "t_ms": 170, "seq": 2},
        {"kind": "controller_elected", "epoch": 3, "t_ms": 170, "seq": 1},
        {"kind": "run_start", "epoch": 0, "controller": -1, "t_ms": 200, "run": "other"},
    )
    found = engine.keep(epochs_of(events))
    columns = ("epoch", "elected_ms", "since_older_epoch_ms")
    assert rows_of(engine, failovers(found), *columns) == [(1, 100, -1), (2, 150, 50), (3, 170, 0)]
    begun = starts(events, found)
    assert rows_of(engine, begun, "t_ms", "first_epoch", "last_epoch") == [
        (90, 0, 1),
        (150, 2, 3),
        (200, -1, -1),
    ]


def test_epochs_of_nobody_are_not_shared(engine: Engine, coded: Coded) -> None:
    events = coded(
        *({"kind": "event", "epoch": 0, "controller": n, "seq": 1} for n in (1, 2)),
        *({"kind": "event", "epoch": 1, "controller": n, "seq": 1} for n in (-1, 2)),
    )
    assert rows_of(engine, shared_epochs(engine.keep(epochs_of(events))), "epoch") == []


@pytest.mark.parametrize(("last_ms", "width_ms"), [(0, 1), (119, 1), (120, 2), (240, 3)])
def test_buckets_are_as_wide_as_the_last_time_needs(last_ms: int, width_ms: int) -> None:
    assert width_of(0, last_ms, 120) == width_ms


def test_all_times_before_the_first_are_in_one_bucket(duckdb: Engine) -> None:
    times = "(SELECT unnest([0, 99, 100, 109, 110]) AS t_ms)"
    found = duckdb.fetch(f"SELECT {bucket('t_ms', 100, 10)} FROM {times} ORDER BY t_ms").rows
    assert [begin for (begin,) in found] == [90, 90, 100, 100, 110]


def test_marks_share_an_interval(engine: Engine, coded: Coded) -> None:
    def elected(t_ms: int, before: int, leader: int, **more: Any) -> dict[str, Any]:
        return move(OFFLINE, ONLINE, t_ms=t_ms, leader=leader, prev_leader=before, **more)

    events = coded(
        move(NEW, ONLINE, leader=1, t_ms=5),
        elected(100, 1, 2),
        elected(149, 2, 1),
        elected(150, 1, 3),
        move(ONLINE, OFFLINE, t_ms=160, leader=-1, prev_leader=3),
        {"kind": "broker_offline", "replica": 7, "t_ms": 99},
        *({"kind": "broker_offline", "replica": n, "t_ms": 100 + n} for n in (9, 8, 9)),
        {"kind": "broker_online", "replica": 6, "t_ms": 120},
    )
    reassigned = engine.keep("SELECT 1 AS source, 1 AS run, 155 AS start_ms")
    others = marks_of_partitions(reassigned, engine.keep(lives(events)), (100, 50))
    failed_over = engine.keep("SELECT 1 AS source, 1 AS run, 140 AS elected_ms, 0 AS controller")
    found = rows_in(
        engine,
        "SELECT what, t_ms, times, brokers FROM "
        f"({marks(events, failed_over, engine.keep(others), (100, 50))}) ORDER BY what, t_ms",
    )
    assert [tuple(row.values()) for row in found] == [
        ("broker failure", 108, 3, [8, 9]),
        ("controller election", 140, 1, [0]),
        ("leader election", 100, 2, None),
        ("leader election", 150, 1, None),
        ("reassignment", 155, 1, None),
    ]


def test_a_life_line_is_cut_at_its_old_end(engine: Engine, coded: Coded) -> None:
    changes = [
        on(kind="isr_changed", leader=1, isr=[1, 2][: 1 + n % 2], prev_isr=[1], prev_leader=1)
        for n in range(MOST_CHANGES + 5)
    ]
    events = coded(*changes)
    chosen = engine.keep(f"SELECT DISTINCT source, run, topic, partition FROM {events}")
    shown = rows_in(engine, f"SELECT * FROM ({life_lines(events, chosen)}) ORDER BY number")
    assert [row["number"] for row in shown] == list(range(1, MOST_CHANGES + 1))
    assert {row["changes"] for row in shown} == {MOST_CHANGES + 5}
    assert shown[0]["t_ms"] == 10 * (MOST_CHANGES + 5)


def test_partitions_that_are_named_are_shown_before_those_that_changed_more(
    duckdb: Engine,
) -> None:
    of_each = {n: 190 + n % 20 for n in range(900)}
    partitions = pa.array([n for n, times in of_each.items() for _ in range(times)], pa.int32())
    keys = {"source": pa.int8(), "run": pa.int64(), "topic": pa.int64()}
    columns = {name: pa.array([1] * len(partitions), kind) for name, kind in keys.items()}
    lived = pa.table({**columns, "partition": partitions})
    of_20 = lived.filter(pc.equal(lived["partition"], 20)).slice(0, 1)
    given = [duckdb.table(one) for one in (lived, lived.slice(0, 0), of_20)]
    found = duckdb.keep(most_changed(*given))
    numbers = rows_of(duckdb, found, "partition", "changes", "is_named")
    assert (20, 190, True) in numbers and len(numbers) < 900
    assert min(changes for n, changes, _ in numbers if n != 20) > 190
    assert 140_000 < sum(min(200, changes) for _, changes, _ in numbers) <= 150_000
    assert len(rows_of(duckdb, chosen_partitions(found), "partition")) == len(numbers)


def test_as_many_changes_are_shown_as_fit(duckdb: Engine) -> None:
    key = "1 AS source, 1 AS run, 1 AS topic"
    fitting = (
        f"SELECT {key}, n AS partition, 200 AS changes, false AS is_named FROM range(750) t(n)"
    )
    for asked in (fitting, f"{fitting} UNION ALL SELECT {key}, 750, 1, false"):
        found = chosen_partitions(duckdb.keep(asked))
        assert len(rows_of(duckdb, found, "partition")) == 750


def test_problems_are_counted_by_topic_and_by_broker(duckdb: Engine) -> None:
    bad = {"from_state": "NewReplica", "to_state": "NewReplica"}
    # Where a table is divided, DuckDB counts these in each block.
    given = (
        move(NONE, ONLINE),
        move(OFFLINE, ONLINE, leader=3, isr=[3], prev_leader=1, prev_isr=[1]),
        on(kind="partition_failed", from_state=NEW, to_state=ONLINE),
        on(kind="replica_transition", replica=2, **bad),
        on(kind="replica_failed", replica=2, from_state=NEW, to_state=ONLINE),
        on(kind="reassignment_phase", replica=9),
        {"kind": "event"},
    )
    numbered = [{"seq": n, "line": n, **row} for n, row in enumerate(given, 1)]
    events = duckdb.view(judged(table_in(duckdb, *numbered).events))
    key = "source, run, topic, partition"
    of_t = f"SELECT {key}, {{}} FROM {events} WHERE line = 1"
    found = Problems(
        marked=duckdb.view(f"SELECT * FROM {events} WHERE topic IS NOT NULL"),
        gaps=duckdb.keep(
            of_t.format("-1 AS replica, 4 AS missing")
            + " UNION ALL "
            + of_t.format("5 AS replica, 3 AS missing")
        ),
        moved=duckdb.keep(of_t.format("2 AS replica")),
        shrinks=duckdb.keep(of_t.format("2 AS replica")),
        stays=duckdb.keep(
            of_t.format("true AS is_counted, 1 AS start_ms, 6 AS offline_ms")
            + " UNION ALL "
            + of_t.format("false AS is_counted, NULL AS start_ms, 1 AS offline_ms")
        ),
        leaderless=duckdb.keep(of_t.format("9 AS leaderless_ms")),
    )
    counted = duckdb.keep(rows_of_topics(events, None))
    of_topics = duckdb.keep(problems_of_topics(found))
    columns = ("rows", "missing", "illegal", "failed", "unclean", "shrinks", "offlines")
    times = ("offline_ms", "undated", "leaderless_ms", "trouble")
    assert rows_of(duckdb, topics_by_trouble(of_topics, counted), *columns, *times) == [
        (6, 7, 2, 2, 1, 1, 1, 7, 1, 9, 14)
    ]
    of_brokers = brokers_by_trouble(duckdb.keep(problems_of_brokers(found)))
    columns = ("broker", "missing", "illegal", "failed", "shrinks", "trouble")
    assert rows_of(duckdb, of_brokers, *columns) == [(2, 0, 1, 1, 1, 3), (5, 3, 0, 0, 0, 3)]
