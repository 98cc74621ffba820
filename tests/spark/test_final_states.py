"""Final states rebuilt from a journal: equal to ZooKeeper's, and every planted difference found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.cluster.journal import JournalRow, Kind
from klamm.replay.engines import Engine
from klamm.replay.event_table import EventTable
from klamm.replay.final_states import Comparison, StoredPartition, compare
from klamm.runtime.checks.agreement import StoredCluster
from klamm.runtime.simulated.world import SimulatedWorld
from tests.sim.worlds import create_topic, three_brokers
from tests.spark.journals import table_of

LIVE = (0, 1)


@pytest.fixture(scope="module")
def world() -> SimulatedWorld:
    """A cluster that lost its controller and another broker, of which the controller came back."""
    made = three_brokers()
    create_topic(made, "t", {n: tuple((n + k) % 3 for k in range(3)) for n in range(4)})
    create_topic(made, "single", {0: (0,), 1: (2,)})
    made.run_for(2_000)
    made.kill(0)
    made.run_for(10_000)
    made.start(0)
    made.run_for(10_000)
    made.kill(2)
    made.run_for(10_000)
    create_topic(made, "unborn", {0: (2,)})
    made.run_for(2_000)
    return made


@pytest.fixture(scope="module")
def stored(world: SimulatedWorld) -> list[StoredPartition]:
    store = world.open_store()
    found = StoredCluster.read(store)
    store.close()
    assert sorted(found.broker_epochs) == list(LIVE)
    partitions = []
    for tp, assignment in found.assignments.items():
        leadership = found.states.get(tp)
        at = None if leadership is None else leadership.leader_and_isr
        state = () if at is None else (at.leader, at.leader_epoch, at.isr, at.zk_version)
        partitions.append(StoredPartition(*tp, assignment.replicas, *state))
    return partitions


@pytest.fixture(scope="module")
def table(
    engine: Engine, world: SimulatedWorld, tmp_path_factory: pytest.TempPathFactory
) -> EventTable:
    """The journal as it was written."""
    return table_of(engine, tmp_path_factory.mktemp("whole"), world.journal.rows)


@pytest.fixture
def compare_tree(table: EventTable) -> Callable[..., Comparison]:
    """Compare the world's journal with a tree."""
    return lambda partitions: compare(table, partitions, LIVE)


@pytest.fixture
def compare_journal(
    duckdb: Engine, stored: list[StoredPartition], tmp_path: Path
) -> Callable[..., Comparison]:
    """Compare a journal with the world's ZooKeeper."""

    def run(rows: list[JournalRow], more: bytes = b"") -> Comparison:
        return compare(table_of(duckdb, tmp_path, rows, more), stored, LIVE)

    return run


def test_the_journal_ends_with_what_zookeeper_has(
    compare_tree: Callable[..., Comparison],
    compare_journal: Callable[..., Comparison],
    world: SimulatedWorld,
    stored: list[StoredPartition],
) -> None:
    assert compare_tree(stored) == Comparison(partitions=7, replicas=15, differing=0, lines=[])
    assert compare_journal(world.journal.rows[::-1]).agrees


def test_each_field_of_a_state_znode_counts(
    compare_tree: Callable[..., Comparison], stored: list[StoredPartition]
) -> None:
    told: dict[str, tuple[object, str]] = {
        "leader": (2, "leader 1 in the journal, 2 in ZooKeeper"),
        "leader_epoch": (77, "in the journal, 77 in ZooKeeper"),
        "isr": ((7,), "in the journal, [7] in ZooKeeper"),
        "zk_version": (99, "in the journal, 99 in ZooKeeper"),
    }
    tampered = [*stored]
    at = sorted(
        (n for n, at in enumerate(stored) if at.topic == "t"), key=lambda n: stored[n].leader != 1
    )
    for n, (field, (value, _)) in zip(at, told.items(), strict=True):
        tampered[n] = stored[n]._replace(**{field: value})
    found = compare_tree(tampered)
    lines = dict(line.split(": ", 1) for line in found.lines)
    assert len(lines) == len(found.lines) == found.differing == len(told)
    for n, (field, (_, words)) in zip(at, told.items(), strict=True):
        said = lines[f"t-{stored[n].partition}"]
        assert said.startswith(f"{field} ") and said.endswith(words) and ";" not in said


def test_states_without_a_leader_are_compared(
    compare_tree: Callable[..., Comparison], stored: list[StoredPartition]
) -> None:
    states = {(at.topic, at.partition): at.leader for at in stored}
    assert states[("single", 1)] == -1 and states[("unborn", 0)] is None
    tampered = [at._replace(leader=0) if at.leader == -1 else at for at in stored]
    (line,) = compare_tree(tampered).lines
    assert line == (
        "single-1: state OfflinePartition in the journal, OnlinePartition in ZooKeeper; "
        "leader -1 in the journal, 0 in ZooKeeper"
    )


def test_a_lost_row_is_found(
    compare_journal: Callable[..., Comparison], world: SimulatedWorld
) -> None:
    rows = world.journal.rows
    last = max(
        n for n, row in enumerate(rows) if row.kind == Kind.ISR_REMOVED and row.prev_isr != row.isr
    )
    found = compare_journal(rows[:last] + rows[last + 1 :])
    assert found.differing == 1
    assert found.lines[0].startswith(f"{rows[last].topic}-{rows[last].partition}: ")


def test_lost_replica_rows_are_found(
    compare_journal: Callable[..., Comparison], world: SimulatedWorld
) -> None:
    came_back = ("t", 1, 0, "OnlineReplica")
    rows = [
        row
        for row in world.journal.rows
        if row.epoch == 1 or (row.topic, row.partition, row.replica, row.to) != came_back
    ]
    assert len(rows) < len(world.journal.rows)
    assert compare_journal(rows).lines == [
        "t-1 on broker 0: state OfflineReplica in the journal, OnlineReplica in ZooKeeper"
    ]


def test_what_only_one_side_has_is_found(
    compare_tree: Callable[..., Comparison], stored: list[StoredPartition]
) -> None:
    without = [at for at in stored if at.topic != "unborn"]
    found = compare_tree([*without, StoredPartition("u", 0, (0,), 0, 0, (0,), 0)])
    assert sorted(found.lines) == [
        "u-0 on broker 0: missing from the journal",
        "u-0: missing from the journal",
        "unborn-0 on broker 2: missing from ZooKeeper; "
        "its final state in the journal is state None",
        "unborn-0: missing from ZooKeeper; its final state in the journal is state "
        "NewPartition, leader None, leader_epoch None, isr None, zk_version None",
    ]


def test_a_torn_line_and_another_schema_version_are_reported_and_the_rest_is_read(
    compare_journal: Callable[..., Comparison], world: SimulatedWorld
) -> None:
    found = compare_journal(world.journal.rows, more=b'{"v":9,"topic":"t"}\n{"v":1,"run_id":"r')
    assert found.partitions == 7
    first = len(world.journal.rows) + 1
    assert [line.split("journal.jsonl:")[1] for line in found.lines] == [
        f'{first}: schema version 9: {{"v":9,"topic":"t"}}',
        f'{first + 1}: torn: {{"v":1,"run_id":"r',
    ]
    assert not found.agrees


def test_many_differences_are_counted_and_some_are_shown(
    compare_tree: Callable[..., Comparison], stored: list[StoredPartition]
) -> None:
    more = [StoredPartition("u", n, (0,), 0, 0, (0,), 0) for n in range(50)]
    found = compare_tree([*stored, *more])
    assert (found.differing, len(found.lines)) == (100, 20)
