"""A replay's page and directory, and two logs side by side, of journals of a simulated cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from klamm.cluster.errors import UsageError
from klamm.cluster.journal import JournalRow, Kind
from klamm.replay.diff import Side, StoredState, compare, side_of, stored_side
from klamm.replay.event_table import EventTable, open_table
from klamm.replay.ingest import make_table
from klamm.replay.page import Asked, replay_page
from klamm.replay.result_folder import as_values, result_folder, write_answers, write_tables
from klamm.replay.run import Answers, answer
from klamm.replay.views import ask, make_views
from klamm.report.page import page_html
from klamm.report.values import Gantt, HeatMap, StepPlot, StepRows, Table
from tests.spark.journals import eventful_journal, spoilt
from tests.unit.report.pages import loaded, read_page

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

SEED = 3


def made(spark: SparkSession, folder: Path, rows: Sequence[JournalRow]) -> EventTable:
    """The event table of a journal of these rows."""
    folder.mkdir(parents=True)
    journal = folder / "journal.jsonl"
    journal.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    make_table(spark, [journal], folder / "table")
    return open_table(spark, folder / "table")


@pytest.fixture(scope="module")
def rows() -> list[JournalRow]:
    return eventful_journal()


@pytest.fixture(scope="module")
def whole(
    spark: SparkSession, rows: list[JournalRow], tmp_path_factory: pytest.TempPathFactory
) -> EventTable:
    return made(spark, tmp_path_factory.mktemp("page") / "whole", rows)


@pytest.fixture(scope="module")
def broken(
    spark: SparkSession, rows: list[JournalRow], tmp_path_factory: pytest.TempPathFactory
) -> EventTable:
    return made(spark, tmp_path_factory.mktemp("page") / "broken", spoilt(rows, SEED))


@pytest.fixture(scope="module")
def answers(broken: EventTable) -> Iterator[Answers]:
    with answer(broken) as found:
        yield found


def test_a_page_has_every_plot_and_names_what_is_wrong(answers: Answers) -> None:
    page = replay_page(Asked("a journal", None, [("read", "x")], {}), answers)
    kinds = {type(block) for section in page.sections for block in section.blocks}
    assert kinds == {StepPlot, StepRows, HeatMap, Gantt, Table}
    root = read_page(page_html(page))
    assert loaded(root) == []
    assert answers.violations
    assert root.only("p", "verdict").text == page.verdict != "No violations found."
    tables = {t.only("caption").text: t for t in root.all("table")}
    illegal = answers.listings["illegal"].rows
    assert illegal
    assert [
        row.all("td")[0].text for row in tables["Illegal transitions"].only("tbody").all("tr")
    ] == [f"{row['file']}:{row['line']}" for row in illegal]
    (offline,) = (b for s in page.sections for b in s.blocks if isinstance(b, StepPlot))
    stays = answers.listings["offline_intervals"]
    assert stays.is_whole
    begun = [row for row in stays.rows if row["start_ms"] is not None]
    highest = max(
        sum(
            other["start_ms"] <= row["start_ms"]
            and (other["end_ms"] is None or other["end_ms"] > row["start_ms"])
            for other in begun
        )
        for row in begun
    )
    assert max(value for _, value in offline.steps.points) == highest > 0
    (bars,) = (b.bars for s in page.sections for b in s.blocks if isinstance(b, Gantt))
    assert len(bars) == len(answers.listings["reassignments"].rows)


def test_answers_are_written_whole_or_not_at_all(
    broken: EventTable, answers: Answers, tmp_path: Path
) -> None:
    out = tmp_path / "answers"
    with pytest.raises(ZeroDivisionError), result_folder(out, overwrite=False) as folder:
        (folder / "half").touch()
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with result_folder(out, overwrite=False) as folder:
        write_tables(folder, broken, answers)
        write_answers(folder, as_values(answers))
    assert json.loads((out / "answers.json").read_text())["violations"] == answers.violations
    assert {path.name for path in out.iterdir()} == {
        "answers.json",
        "damaged",
        *answers.tables,
    }
    stored = broken.events.sparkSession.read.parquet(str(out / "illegal")).collect()
    listed = answers.listings["illegal"].rows
    assert {(r.file, r.line, r.topic, r.from_state, r.to_state) for r in stored} == {
        (r["file"], r["line"], r["topic"], r["from_state"], r["to_state"]) for r in listed
    }
    states = broken.events.sparkSession.read.parquet(str(out / "partitions")).collect()
    assert {type(row.state) for row in states} == {str}
    with pytest.raises(UsageError, match="already exists"), result_folder(out, overwrite=False):
        pass
    precious = tmp_path / "precious"
    precious.mkdir()
    with (
        pytest.raises(UsageError, match="is not overwritten"),
        result_folder(precious, overwrite=True),
    ):
        pass
    with result_folder(out, overwrite=True) as folder:
        write_answers(folder, {})
    assert [path.name for path in out.iterdir()] == ["answers.json"]


def test_a_log_agrees_with_itself(whole: EventTable) -> None:
    found = compare(side_of(whole, "a"), side_of(whole, "b"))
    assert (found.total, found.shown, found.divergence, found.not_compared) == (0, [], None, [])
    assert found.partitions > 5 and (found.replicas or 0) > found.partitions


def test_two_logs_part_where_one_was_changed(
    spark: SparkSession, rows: list[JournalRow], whole: EventTable, tmp_path: Path
) -> None:
    last = {(r.topic, r.partition): n for n, r in enumerate(rows) if r.isr is not None}
    is_last = (n for n in last.values() if rows[n].topic != "single")
    line = max(n for n in is_last if rows[n].kind != Kind.PARTITION_SNAPSHOT)
    row = rows[line]
    other = [*rows]
    other[line] = msgspec.structs.replace(row, isr=(9,))
    found = compare(side_of(whole, "a"), side_of(made(spark, tmp_path / "other", other), "b"))
    assert found.divergence is not None and row.isr is not None
    assert (found.divergence.topic, found.divergence.partition) == (row.topic, row.partition)
    assert (found.divergence.line, found.divergence.t_ms) == (line + 1, row.t_ms)
    (difference,) = found.shown
    assert (difference.topic, difference.partition) == (row.topic, row.partition)
    assert (difference.field, difference.b) == ("isr", "9")
    assert difference.a == ",".join(map(str, row.isr))


def test_a_log_beside_a_tree_of_znodes(spark: SparkSession, whole: EventTable) -> None:
    mine = side_of(whole, "a")
    words = whole.in_words(mine.partitions).collect()
    stored = [
        StoredState(r.topic, r.partition, r.leader, r.leader_epoch, r.isr, r.zk_version)
        for r in words
    ]
    assert compare(mine, tree(spark, stored)).total == 0
    first, second, *rest = stored
    assert first.leader is not None
    changed = first._replace(leader=first.leader + 50)
    added = StoredState("only-there", 3, 1, 0, [1], 0)
    found = compare(mine, tree(spark, [changed, *rest, added]))
    assert found.divergence is None and found.replicas is None
    assert sorted(found.shown) == sorted(
        [
            (first.topic, first.partition, -1, "leader", str(first.leader), str(changed.leader)),
            (second.topic, second.partition, -1, "existence", "present", "absent"),
            ("only-there", 3, -1, "existence", "absent", "present"),
        ]
    )


def tree(spark: SparkSession, stored: Sequence[StoredState]) -> Side:
    return stored_side(spark, "b", "a tree", stored)


def test_views_have_words_and_only_queries_are_asked(
    spark: SparkSession, rows: list[JournalRow], whole: EventTable
) -> None:
    make_views(whole)
    query = "SELECT kind, count(*) AS n FROM events GROUP BY kind"
    counted = {row.kind: row.n for row in ask(spark, query).collect()}
    assert counted == {kind: sum(row.kind == kind for row in rows) for kind in counted}
    assert sum(counted.values()) == len(rows)
    topics = ask(spark, "SELECT DISTINCT topic FROM partitions").collect()
    assert {row.topic for row in topics} == {"t", "pair", "lone"}
    for statement in ("DROP VIEW events", "SELECT nothing FROM events", "SELECT", ""):
        with pytest.raises(UsageError, match="invalid query"):
            ask(spark, statement)
