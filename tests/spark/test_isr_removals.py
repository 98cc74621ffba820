"""Replicas that a controller took out of ISRs, by the lines of a state-change.log alone: who was in
the ISR before, which lines wrote nothing, and which came too late."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.types import NO_LEADER
from klamm.replay.encode import xxhash64
from klamm.replay.engines import Engine, rows
from klamm.replay.event_schema import KINDS, LEADERSHIP_WRITTEN, code_of
from klamm.replay.event_table import open_table
from klamm.replay.generate.generate import generate
from klamm.replay.generate.options import Format, HistoryOptions, Planted
from klamm.replay.ingest import make_table
from klamm.replay.predecessors import add_predecessors
from klamm.replay.questions.columns import judged
from klamm.replay.questions.controllers import epochs, late_writes
from klamm.replay.questions.counts import counted_rows
from klamm.replay.sources import SourceOptions
from tests.spark.conftest import table_in
from tests.spark.fold import Line, fold

DATA = Path(__file__).parents[1] / "data" / "kafka_logs" / "trace"
OPTIONS = HistoryOptions(partitions=50, events=6_000, seed=11, planted={Planted.LATE_WRITE: 2})
SCENARIOS = ("controller_kill", "delete_one_down", "reassign_move_all", "rolling_restart")
WRITTEN = f"kind = {code_of(LEADERSHIP_WRITTEN, KINDS)}"
REMOVED = f"kind = {code_of(Kind.ISR_REMOVED.value, KINDS)}"


def removal(replica: int, leader: int, isr: list[int], epoch: int) -> dict[str, Any]:
    kind = Kind.ISR_REMOVED.value
    return {
        "kind": kind,
        "replica": replica,
        "leader": leader,
        "isr": isr,
        "leader_epoch": epoch,
        "zk_version": 2 * epoch,
    }


def test_the_line_and_the_leader_epoch_tell_who_was_in_the_isr(engine: Engine) -> None:
    told = [
        removal(3, 1, [1, 2], 4),  # the log begins with it: maybe 3 had left long ago
        removal(2, 1, [1], 5),
        removal(2, 1, [1], 5),  # a broker's second way down: nothing is written
        removal(1, -1, [1], 6),  # the last one stays, and does not lead
        removal(1, -1, [1], 9),  # who led is not known: lines are missing
    ]
    given = (
        {"topic": "t", "partition": 0, "has_predecessors": False, "seq": n, **row}
        for n, row in enumerate(told)
    )
    sql = add_predecessors(table_in(engine, *given).events)
    found = rows(engine, f"SELECT * FROM ({sql}) ORDER BY seq")
    assert [(row["prev_leader"], row["prev_isr"]) for row in found] == [
        (None, None),
        (1, [1, 2]),
        (None, None),
        (1, [1]),
        (None, [1]),
    ]


def test_what_kafka_logged_is_what_zookeeper_stored(duckdb: Engine, tmp_path: Path) -> None:
    logs, files = sorted(DATA.rglob("state-change.log")), (DATA / "zookeeper/version-2").iterdir()
    make_table(duckdb, logs, tmp_path / "logs")
    make_table(duckdb, sorted(files), tmp_path / "stored")
    lines, written = (open_table(duckdb, tmp_path / name).events for name in ("logs", "stored"))
    stored = {
        (row["run"], row["topic"], row["partition"], row["zk_version"]): row
        for row in rows(duckdb, f"SELECT * FROM {written} WHERE {WRITTEN}")
    }
    # What Kafka's logs call by their folder is a chroot of ZooKeeper.
    runs = {xxhash64(name): xxhash64(f"/oracle-{name}-4011") for name in SCENARIOS}
    seen = set()
    told = []
    for row in rows(duckdb, f"SELECT * FROM {lines} WHERE {REMOVED} ORDER BY place"):
        version = (runs[row["run"]], row["topic"], row["partition"], row["zk_version"])
        after, before = stored[version], stored[(*version[:3], row["zk_version"] - 1)]
        leader = NO_LEADER if before["leader"] == row["replica"] else before["leader"]
        is_next = row["replica"] in before["isr"] and after["leader"] == leader
        is_written = is_next and version not in seen
        seen.add(version)
        assert (row["prev_isr"] is not None) == is_written, row
        told.append(is_written)
        if is_written:
            assert set(row["prev_isr"]) == set(before["isr"])
            assert row["prev_leader"] == before["leader"]
    # The same words again, or after the leader has moved, are a broker's second way down.
    assert (told.count(True), told.count(False)) == (12, 11)


@pytest.mark.slow
def test_they_are_counted_as_the_journal_of_the_same_history_says(
    duckdb: Engine, tmp_path: Path
) -> None:
    truth = generate(OPTIONS, Format.STATE_CHANGE_LOG, tmp_path / "logs")
    generate(OPTIONS, Format.JOURNAL, tmp_path / "journal")
    journal = (tmp_path / "journal/journal.jsonl").read_bytes().splitlines()
    lines = [Line(n, msgspec.json.decode(row, type=JournalRow)) for n, row in enumerate(journal, 1)]
    folded = fold([at for at in lines if at.row.kind != Kind.ISR_CHANGED])
    make_table(duckdb, [tmp_path / "logs"], tmp_path / "table", options=SourceOptions("UTC"))
    table = open_table(duckdb, tmp_path / "table")
    removed = table.in_words(f"SELECT * FROM {table.events} WHERE {REMOVED} AND prev_isr <> isr")
    shrunk = rows(duckdb, removed)
    expected: Counter[tuple[str, int, int]] = Counter()
    for _, row in lines:
        if row.kind == Kind.ISR_REMOVED and row.prev_isr and row.isr:
            for replica in set(row.prev_isr) - set(row.isr):
                expected[row.topic or "", row.partition, replica] += 1
    assert Counter((row["topic"], row["partition"], row["replica"]) for row in shrunk) == expected
    events = duckdb.view(judged(table.events))
    of_epochs = duckdb.keep(epochs(f"({counted_rows(events)})"))
    late = rows(duckdb, table.in_words(late_writes(events, of_epochs)))
    assert len(folded.late_writes) == OPTIONS.planted[Planted.LATE_WRITE]
    assert {(Path(row["file"]).parent.name, row["line"]) for row in late} == {
        (Path(place["file"]).parent.name, place["line"])
        for one in truth.anomalies
        if one["kind"] == Planted.LATE_WRITE
        for place in one["places"]
    }
