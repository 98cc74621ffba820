"""state-change.log and controller.log of one cluster are one log with one answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from docs.replay_sources import at_info
from klamm.replay.engines import Engine, rows
from klamm.replay.event_schema import LEADERSHIP_DELETED
from klamm.replay.event_table import EventTable, open_table
from klamm.replay.ingest import make_table
from klamm.replay.kafka_order import with_deletions
from klamm.replay.listings import in_strings
from klamm.replay.questions.columns import kind_code
from klamm.replay.run import Answers, answering
from tests.spark.conftest import rows_of, table_in
from tests.spark.invariants import check_invariants

TRACE = Path(__file__).parents[1] / "data" / "kafka_logs" / "trace"


def asked_of(engine: Engine, folder: Path, stack: ExitStack) -> Any:
    """A function that makes a table of some logs, and returns it with its answers."""

    def ask(*logs: Path) -> tuple[EventTable, Answers]:
        make_table(engine, logs, folder / "table")
        table = open_table(engine, folder / "table")
        answers = stack.enter_context(answering(table))
        check_invariants(table, answers)
        return table, answers

    return ask


@pytest.fixture
def asked(duckdb: Engine, tmp_path: Path) -> Iterator[Any]:
    with ExitStack() as stack:
        yield asked_of(duckdb, tmp_path, stack)


@pytest.fixture
def asked_of_both(engine: Engine, tmp_path: Path) -> Iterator[Any]:
    with ExitStack() as stack:
        yield asked_of(engine, tmp_path, stack)


def final_isrs(table: EventTable, answers: Answers) -> list[tuple[Any, ...]]:
    found = in_strings({"": rows(table.engine, answers.tables["partitions"]())}, table)[""]
    return sorted(
        (row["source"], row["topic"], row["partition"], row["state"], row["leader"], row["isr"])
        for row in found
    )


def test_both_logs_of_a_cluster_are_one_answer(asked_of_both: Any) -> None:
    table, answers = asked_of_both(TRACE / "controller_kill")
    assert answers.logs == [("kafka logs", "controller_kill")]
    assert answers.counts["partitions"] == 2
    # Broker 0 came back: only controller.log has that leaders added it.
    assert final_isrs(table, answers) == [
        ("kafka logs", "t", 0, "OnlinePartition", 1, [1, 2, 0]),
        ("kafka logs", "t", 1, "OnlinePartition", 1, [1, 2, 0]),
    ]
    assert (answers.counts["shrinks"], answers.counts["expands"]) == (2, 2)


def test_at_info_the_deletion_of_a_topic_is_known_from_controller_log(
    asked: Any, tmp_path: Path
) -> None:
    table, answers = asked(at_info(TRACE / "delete_one_down", tmp_path))
    assert final_isrs(table, answers) == []
    assert answers.counts["leaderless_ms"] == 0


def test_only_the_partitions_of_its_last_life_are_deleted_with_a_topic(
    duckdb: Engine,
) -> None:
    def logged(*partitions: int) -> list[dict[str, Any]]:
        kind = {"kind": "partition_transition", "to_state": "OnlinePartition"}
        return [{**kind, "partition": partition} for partition in partitions]

    told = [*logged(0, 1), {"kind": "topic_deleted"}, *logged(0), {"kind": "topic_deleted"}]
    given = [{**row, "topic": "t", "seq": n, "place": n} for n, row in enumerate(told, 1)]
    sql = with_deletions(table_in(duckdb, *given).events)
    deleted = f"SELECT * FROM ({sql}) WHERE kind = {kind_code(LEADERSHIP_DELETED)}"
    assert rows_of(duckdb, deleted, "place", "partition") == [(3, 0), (3, 1), (5, 0)]


def test_at_info_the_state_of_a_partition_without_a_leader_is_unknown(
    asked: Any, tmp_path: Path
) -> None:
    logs = sorted(at_info(TRACE / "delete_one_down", tmp_path).rglob("state-change.log"))
    table, answers = asked(*[path for path in logs if path.stat().st_size])
    assert final_isrs(table, answers) == [("state-change.log", "t", 0, None, -1, [1])]
