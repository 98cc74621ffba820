"""Every answer of both engines beside a plain fold and an ordered one, on journals of simulated
clusters.

The journals are whole, and spoilt in many ways; each is a run of one table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klamm.cluster.journal import JournalRow, Kind
from klamm.replay.engines import Engine
from klamm.replay.engines import rows as rows_in
from klamm.replay.event_table import EventTable
from klamm.replay.filters import Filters
from klamm.replay.listings import in_strings
from klamm.replay.questions.columns import judged
from klamm.replay.questions.duplicates import without
from klamm.replay.questions.isrs import flapping_replicas, moves
from klamm.replay.run import Answers, answering
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.replica_state import ReplicaState
from tests.spark.fold import (
    Burst,
    Folded,
    History,
    Interval,
    Leaderless,
    Leadership,
    Partition,
    fold,
    run_of,
    worst_burst,
)
from tests.spark.invariants import check_invariants
from tests.spark.journals import (
    as_run,
    eventful_journal,
    generated_journal,
    lines_of,
    spoilt,
    table_of,
)
from tests.spark.ordered_fold import ordered_fold

SPOILT = 24
MOST_ACTIONS = 6
OFFLINE = PartitionState.OFFLINE.value
GONE = (PartitionState.NON_EXISTENT.value, ReplicaState.NON_EXISTENT.value)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[JournalRow]:
    journal = eventful_journal()
    found = as_run(journal, "whole")
    found += generated_journal(tmp_path_factory.mktemp("generated") / "logs")
    for seed in range(SPOILT):
        found += as_run(spoilt(journal, seed), f"spoilt {seed}")
    return found


@pytest.fixture(scope="module")
def folded(rows: list[JournalRow]) -> Folded:
    return fold(lines_of(rows))


@pytest.fixture(scope="module")
def table(
    engine: Engine, rows: list[JournalRow], tmp_path_factory: pytest.TempPathFactory
) -> EventTable:
    return table_of(engine, tmp_path_factory.mktemp("journal"), rows)


@pytest.fixture(scope="module")
def answered(table: EventTable) -> Iterator[tuple[Answers, int]]:
    """All answers, and in how many of Spark's actions they were computed."""
    before = actions_of(table.engine)
    with answering(table) as found:
        yield found, actions_of(table.engine) - before


@pytest.fixture(scope="module")
def answers(answered: tuple[Answers, int]) -> Answers:
    return answered[0]


def actions_of(engine: Engine) -> int:
    """How many queries have run jobs in Spark, and jobs without a query; 0 without Spark."""
    session = getattr(engine, "session", None)
    if session is None:
        return 0
    java = session.sparkContext._jsc.sc()
    java.listenerBus().waitUntilEmpty()
    found = session._jsparkSession.sharedState().statusStore().executionsList()
    of_queries = [found.apply(n).jobs().size() for n in range(found.size())]
    others = java.statusStore().jobsList(None).size() - sum(of_queries)
    return sum(jobs > 0 for jobs in of_queries) + int(others)


def told(table: EventTable, sql: str) -> list[dict[str, Any]]:
    return list(in_strings({"": rows_in(table.engine, sql)}, table)[""])


def partition_of(row: dict[str, Any]) -> Partition:
    return Partition(row["run"], row["topic"], row["partition"])


def isr_of(row: dict[str, Any]) -> tuple[int, ...] | None:
    return None if row["isr"] is None else tuple(row["isr"])


def leadership_of(row: dict[str, Any]) -> Leadership:
    return Leadership(row["leader"], row["leader_epoch"], isr_of(row), row["zk_version"])


def test_few_actions_answer_everything(answered: tuple[Answers, int]) -> None:
    assert answered[1] <= MOST_ACTIONS


def test_the_journals_have_all_that_is_asked(folded: Folded) -> None:
    for name in Folded.__slots__:
        assert getattr(folded, name) or name in ("late_writes", "shared_epochs"), name


def test_final_partitions(table: EventTable, answers: Answers, folded: Folded) -> None:
    found = {partition_of(row): row for row in told(table, answers.tables["partitions"]())}
    there = {tp: state for tp, state in folded.states.items() if state not in GONE}
    assert {tp: row["state"] for tp, row in found.items()} == there
    assert {tp: leadership_of(row) for tp, row in found.items()} == {
        tp: folded.leaderships.get(tp, Leadership()) for tp in there
    }


def test_final_replicas(table: EventTable, answers: Answers, folded: Folded) -> None:
    found = told(table, answers.tables["replicas"]())
    assert {(partition_of(row), row["replica"]): row["state"] for row in found} == {
        at: state for at, state in folded.replica_states.items() if state not in GONE
    }


def test_the_invariants_hold(table: EventTable, answers: Answers) -> None:
    check_invariants(table, answers)


def test_the_ordered_fold_ends_with_the_same(
    table: EventTable, answers: Answers, folded: Folded
) -> None:
    events = table.engine.view(without(table.events, f"({answers.tables['duplicates']()})"))
    found = list(in_strings({"": ordered_fold(table.engine, events)}, table)[""])
    states = {partition_of(row): row for row in found if row["replica"] == -1}
    assert {tp: row["state"] for tp, row in states.items() if row["state"]} == folded.states
    assert {tp: leadership_of(row) for tp, row in states.items()} == {
        tp: folded.leaderships.get(tp, Leadership()) for tp in states
    }
    assert {
        (partition_of(row), row["replica"]): row["state"]
        for row in found
        if row["replica"] >= 0 and row["state"]
    } == folded.replica_states
    assert sum(row["illegal"] for row in found) == len(folded.illegal)
    breaks = Counter(row["run"] for row in found if row["breaks"])
    assert "whole" not in breaks and len(breaks) > SPOILT / 3


def test_illegal_transitions(table: EventTable, answers: Answers, folded: Folded) -> None:
    assert sorted(row["line"] for row in told(table, answers.tables["illegal"]())) == sorted(
        folded.illegal
    )
    assert answers.counts["illegal"] == len(folded.illegal)
    listed = answers.listings["illegal"].rows
    assert {row["line"] for row in listed} <= set(folded.illegal)
    assert all(row["file"].endswith("journal.jsonl") for row in listed)


def test_rows_missing_from_journals_are_counted_by_partition_and_by_run(
    table: EventTable, answers: Answers, folded: Folded
) -> None:
    found: Counter[History] = Counter()
    for row in told(table, answers.tables["gaps"]()):
        key = History(*(row[name] for name in History._fields))
        assert row["missing"] == row["before_key_seq"] - (row["after_key_seq"] or 0) - 1
        found[key] += row["missing"]
    assert found == folded.missing
    lost: Counter[str] = Counter()
    for row in told(table, answers.tables["lost_rows"]()):
        assert row["missing"] == row["before_seq"] - (row["after_seq"] or 0) - 1
        lost[row["run"]] += row["missing"]
    assert lost == +folded.lost_rows
    # Some of them are about no partition.
    assert answers.counts["missing"] == lost.total() > sum(folded.missing.values()) > 0
    assert answers.counts["gaps"] == len(folded.missing)


def test_duplicates_are_counted_once(table: EventTable, answers: Answers, folded: Folded) -> None:
    found = told(table, answers.tables["duplicates"]())
    assert {
        (row["run"], row["controller"], row["epoch"], row["seq"]): row["copies"] for row in found
    } == folded.copies
    assert answers.counts["repeated"] == sum(folded.copies.values()) - len(folded.copies)


def test_offline_intervals(table: EventTable, answers: Answers, folded: Folded) -> None:
    found = [
        Interval(partition_of(row), row["epoch"], row["start_ms"], row["end_ms"], row["ended_by"])
        for row in told(table, answers.tables["offline_intervals"]())
    ]
    assert Counter(found) == Counter(folded.offline)
    assert {at.ended_by for at in found} == {"transition", "snapshot", None}


def test_how_often_partitions_went_offline(answers: Answers, folded: Folded) -> None:
    timeline = answers.listings["offline_timeline"].rows
    assert answers.counts["offlines"] == folded.offlines.total()
    assert sum(row["went_offline"] for row in timeline) == answers.counts["offlines"]


def test_leaderless_intervals(table: EventTable, answers: Answers, folded: Folded) -> None:
    found = [
        Leaderless(partition_of(row), row["lost"], row["start_ms"], row["end_ms"])
        for row in told(table, answers.tables["leaderless_intervals"]())
    ]
    assert Counter(found) == Counter(folded.leaderless)


def test_unclean_elections(table: EventTable, answers: Answers, folded: Folded) -> None:
    found = told(table, answers.tables["unclean"]())
    assert sorted(row["line"] for row in found) == sorted(folded.unclean)
    assert all(row["leader"] not in row["prev_isr"] for row in found)
    assert answers.counts["unclean"] == len(folded.unclean)


def test_isr_churn(table: EventTable, answers: Answers, folded: Folded) -> None:
    for name, expected in (("shrinks", folded.shrinks), ("expands", folded.expands)):
        by_broker: Counter[int] = Counter()
        for (_, replica), times in expected.items():
            by_broker[replica] += times
        found: Counter[int] = Counter()
        for row in told(table, answers.tables["isr_churn"]()):
            found[row["broker"]] += row[name]
        assert found == by_broker


@pytest.mark.parametrize("window_ms", [20_000, 60_000, 10**9])
def test_flapping_replicas(
    table: EventTable, answers: Answers, folded: Folded, window_ms: int
) -> None:
    events = table.engine.view(without(table.events, f"({answers.tables['duplicates']()})"))
    expected = {
        at: burst
        for at, moved in folded.isr_moves.items()
        if (burst := worst_burst(moved, 1, window_ms)) is not None
    }
    moved = f"({moves(f'({judged(events)})')})"
    assert bursts(told(table, flapping_replicas(moved, 1, window_ms))) == expected != {}


def bursts(rows: list[dict[str, Any]]) -> dict[tuple[Partition, int], Burst]:
    return {
        (partition_of(row), row["replica"]): Burst(*(row[name] for name in Burst._fields))
        for row in rows
    }


def test_failovers(table: EventTable, answers: Answers, folded: Folded) -> None:
    found = told(table, answers.tables["failovers"]())
    assert {(row["run"], row["epoch"]): row["ready_after_ms"] for row in found} == {
        at: took for at, took in folded.ready_after_ms.items()
    }


def test_no_controller_writes_late(answers: Answers, folded: Folded) -> None:
    assert answers.counts["late_writes"] == len(folded.late_writes)
    assert answers.counts["shared_epochs"] == len(folded.shared_epochs)


def test_the_timeline_ends_with_what_is_left(
    table: EventTable, answers: Answers, folded: Folded
) -> None:
    leading: dict[int, int] = {}
    for row in answers.listings["leaders_over_time"].rows:
        if row["run"] == "whole":
            leading[row["broker"]] = row["leaders"]
    there = [at for at, state in folded.states.items() if state not in GONE and at.run == "whole"]
    expected = Counter(folded.leaderships[at].leader for at in there)
    assert {broker: n for broker, n in leading.items() if n} == expected
    offline = [
        row["offline"] for row in answers.listings["offline_timeline"].rows if row["run"] == "whole"
    ]
    assert offline[-1] == sum(folded.states[at] == OFFLINE for at in there) > 0


def test_the_time_offline_is_that_of_the_intervals(
    table: EventTable, answers: Answers, folded: Folded, rows: list[JournalRow]
) -> None:
    last_ms = {row.run_id: row.t_ms for row in sorted(rows, key=lambda row: row.t_ms)}
    whole = [at for at in folded.offline if at.partition.run == "whole"]
    took_ms = sum((at.end_ms or last_ms["whole"]) - (at.start_ms or 0) for at in whole)
    found = [row for row in told(table, answers.tables["topics"]()) if row["run"] == "whole"]
    assert sum(row["offline_ms"] for row in found) == took_ms > 0


def test_the_time_offline_counts_from_a_time(
    duckdb: Engine, folded: Folded, rows: list[JournalRow], tmp_path: Path
) -> None:
    last_ms = max(row.t_ms for row in rows if row.run_id == "whole")
    whole = [at for at in folded.offline if at.partition.run == "whole"]
    from_ms = sorted(at.end_ms or last_ms for at in whole)[len(whole) // 2]
    expected = sum(max(0, (at.end_ms or last_ms) - max(at.start_ms or 0, from_ms)) for at in whole)
    table = table_of(duckdb, tmp_path, rows)
    with answering(table, Filters(from_ms=from_ms)) as found:
        topics = [row for row in told(table, found.tables["topics"]()) if row["run"] == "whole"]
    assert sum(row["offline_ms"] for row in topics) == expected > 0


def test_the_totals_of_the_logs_are_those_of_the_answers(
    table: EventTable, answers: Answers
) -> None:
    logs = told(table, answers.tables["logs"]())
    elections = sum(row["elections"] for row in logs)
    assert elections == answers.listings["failovers"].total > len(logs)
    for name in ("illegal", "failed", "unclean"):
        number = table.engine.fetch(f"SELECT count(*) FROM ({answers.tables[name]()})").rows[0][0]
        assert answers.counts[name] == number > 0, name


def test_reassignments_are_those_of_the_phases(
    table: EventTable, answers: Answers, rows: list[JournalRow]
) -> None:
    phases = [row for row in rows if row.run_id == "whole" and row.kind == Kind.REASSIGNMENT_PHASE]
    found = [row for row in told(table, answers.tables["reassignments"]()) if row["run"] == "whole"]
    assert {row["reassignment"] for row in found} == {row.reassignment_id for row in phases}
    (done,) = (row for row in found if row["status"] == "done")
    assert done["end_ms"] == max(row.t_ms for row in phases if row.to == "B8")
    assert done["last_phase"] == "B8" and done["took_ms"] == done["end_ms"] - done["start_ms"]


def test_as_of_an_epoch_and_from_a_time(
    duckdb: Engine, rows: list[JournalRow], tmp_path: Path
) -> None:
    table = table_of(duckdb, tmp_path, rows)
    before = fold(lines_of([row for row in rows if row.epoch <= 1]))
    from_ms = sorted(row.t_ms for row in rows if row.run_id == "whole" and row.epoch == 1)[100]
    filters = Filters(as_of_epoch=1, from_ms=from_ms, topics=("t",))
    with answering(table, filters) as found:
        last = {partition_of(row): row for row in told(table, found.tables["partitions"]())}
        counts = found.counts
        elections = found.listings["failovers"]
    assert {at: row["state"] for at, row in last.items()} == {
        at: state for at, state in before.states.items() if at.topic == "t" and state not in GONE
    }
    assert {at: leadership_of(row) for at, row in last.items()} == {
        at: before.leaderships.get(at, Leadership()) for at in last
    }
    lines = [row for row in rows if row.epoch <= 1]
    in_time = [row for row in lines if row.t_ms >= from_ms]
    unique = {(row.run_id, row.controller, row.seq): row for row in in_time}.values()
    assert counts["events"] == sum(row.topic in (None, "t") for row in unique)
    elected = {run_of(row) for row in in_time if row.kind == Kind.CONTROLLER_ELECTED}
    assert {row["run"] for row in elections.rows} == elected and elections.is_whole
    illegal = [lines[at - 1] for at in before.illegal]
    expected = [row for row in illegal if row.topic == "t" and row.t_ms >= from_ms]
    assert counts["illegal"] == len(expected) < len(illegal)
