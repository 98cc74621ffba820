"""Final states rebuilt from a journal: equal to ZooKeeper's, and every planted difference found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from klamm.cluster.journal import Kind
from klamm.lab.checks.agreement import StoredCluster
from klamm.replay.diff import (
    Difference,
    Differences,
    compare,
    side_of,
    stored_side,
)
from klamm.replay.engines import Engine
from klamm.replay.event_table import EventTable
from klamm.world.simulated.world import SimulatedWorld
from tests.sim.worlds import create_topic, three_brokers
from tests.spark.conftest import rows_of
from tests.spark.journals import table_of
from tests.spark.stored_states import StoredState, stored_states, znodes_of

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
def stored(world: SimulatedWorld) -> list[StoredState]:
    store = world.open_store()
    found = StoredCluster.read(store)
    store.close()
    assert sorted(found.broker_epochs) == list(LIVE)
    return stored_states(found)


@pytest.fixture(scope="module")
def table(
    engine: Engine, world: SimulatedWorld, tmp_path_factory: pytest.TempPathFactory
) -> EventTable:
    """The journal as it was written."""
    return table_of(engine, tmp_path_factory.mktemp("whole"), world.journal.rows)


def compared(table: EventTable, stored: Sequence[StoredState], most: int = 20) -> Differences:
    """The differences between a journal and a ZooKeeper with the brokers in LIVE."""
    tree = stored_side(table.engine, "tree", "znodes", *znodes_of(stored), LIVE)
    return compare(table.engine, side_of(table, "journal"), tree, most, versions=True)


def lines_of(found: Differences) -> list[str]:
    assert found.total == len(found.shown)
    return [at.text("in the journal", "in ZooKeeper") for at in found.shown]


def test_the_journal_ends_with_what_zookeeper_has(
    table: EventTable, world: SimulatedWorld, stored: list[StoredState], tmp_path: Path
) -> None:
    found = compared(table, stored)
    assert (found.partitions, found.replicas, found.total, found.shown) == (7, 15, 0, [])
    assert found.not_compared == []
    backwards = table_of(table.engine, tmp_path, world.journal.rows[::-1])
    assert compared(backwards, stored).total == 0


def test_each_field_of_a_state_znode_counts(table: EventTable, stored: list[StoredState]) -> None:
    values: dict[str, tuple[object, str]] = {
        "leader": (2, "2"),
        "leader_epoch": (77, "77"),
        "isr": ((7,), "7"),
        "zk_version": (99, "99"),
    }
    tampered = [*stored]
    at = [n for n, one in enumerate(stored) if one.topic == "t"]
    for n, (field, (value, _)) in zip(at, values.items(), strict=True):
        assert getattr(stored[n], field) != value
        tampered[n] = stored[n]._replace(**{field: value})
    found = compared(table, tampered)
    assert found.total == len(values)
    assert {(one.topic, one.partition, one.field, one.b) for one in found.shown} == {
        ("t", stored[n].partition, field, text)
        for n, (field, (_, text)) in zip(at, values.items(), strict=True)
    }


def test_states_without_a_leader_are_compared(table: EventTable, stored: list[StoredState]) -> None:
    states = {(at.topic, at.partition): at.leader for at in stored}
    assert states[("single", 1)] == -1 and states[("unborn", 0)] is None
    tampered = [at._replace(leader=0) if at.leader == -1 else at for at in stored]
    assert lines_of(compared(table, tampered)) == [
        "single-1: leader -1 in the journal, 0 in ZooKeeper",
        "single-1: state OfflinePartition in the journal, OnlinePartition in ZooKeeper",
    ]


def test_without_live_brokers_replicas_may_have_any_state(
    engine: Engine, stored: list[StoredState]
) -> None:
    tree = stored_side(engine, "tree", "znodes", *znodes_of(stored), live_brokers=())
    assert rows_of(engine, f"SELECT state FROM {tree.replicas}", "state") == [(-1,)] * 15


def test_a_lost_row_is_found(
    duckdb: Engine, world: SimulatedWorld, stored: list[StoredState], tmp_path: Path
) -> None:
    rows = world.journal.rows
    last = max(
        n for n, row in enumerate(rows) if row.kind == Kind.ISR_REMOVED and row.prev_isr != row.isr
    )
    found = compared(table_of(duckdb, tmp_path, rows[:last] + rows[last + 1 :]), stored)
    assert {(at.topic, at.partition) for at in found.shown} == {
        (rows[last].topic, rows[last].partition)
    }


def test_lost_replica_rows_are_found(
    duckdb: Engine, world: SimulatedWorld, stored: list[StoredState], tmp_path: Path
) -> None:
    came_back = ("t", 1, 0, "OnlineReplica")
    rows = [
        row
        for row in world.journal.rows
        if row.epoch == 1 or (row.topic, row.partition, row.replica, row.to) != came_back
    ]
    assert len(rows) < len(world.journal.rows)
    assert lines_of(compared(table_of(duckdb, tmp_path, rows), stored)) == [
        "t-1 on broker 0: state OfflineReplica in the journal, OnlineReplica in ZooKeeper"
    ]


def test_what_only_one_side_has_is_found(table: EventTable, stored: list[StoredState]) -> None:
    without = [at for at in stored if at.topic != "unborn"]
    found = compared(table, [*without, StoredState("u", 0, 0, 0, (0,), 0, (0,))])
    assert found.shown == [
        Difference("u", 0, -1, "existence", "absent", "present"),
        Difference("u", 0, 0, "existence", "absent", "present"),
        Difference("unborn", 0, -1, "existence", "present", "absent"),
        Difference("unborn", 0, 2, "existence", "present", "absent"),
    ]


def test_many_differences_are_counted_and_some_are_shown(
    table: EventTable, stored: list[StoredState]
) -> None:
    more = [StoredState("u", n, 0, 0, (0,), 0, (0,)) for n in range(50)]
    found = compared(table, [*stored, *more])
    assert (found.total, len(found.shown)) == (100, 20)
