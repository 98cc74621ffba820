"""Journals into event tables: what is told of them, and what happens when something is wrong."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from klamm.cluster.errors import EnvironmentProblem, KlammError, UsageError
from klamm.cluster.journal import SCHEMA_VERSION, JournalRow, Kind
from klamm.replay.engines import Engine
from klamm.replay.engines import rows as rows_in
from klamm.replay.engines.spark_engine import SparkEngine
from klamm.replay.event_schema import KINDS
from klamm.replay.event_table import (
    OutOfOrder,
    RunCoverage,
    new_table_folder,
    open_table,
    some_damaged,
)
from klamm.replay.ingest import ingest, make_table
from klamm.replay.page import replay_page
from klamm.replay.page_head import Replayed
from klamm.replay.progress import Progress
from klamm.replay.run import answering
from klamm.replay.sources import SourceOptions
from klamm.replay.sources.file_parts import FilePart, cut_into_parts
from klamm.replay.sources.journal import read_part_of_journal
from klamm.replay.sources.registry import find_logs
from klamm.replay.spark_errors import as_klamm_error
from klamm.report.values import Table
from tests.journal_bytes import journal_bytes
from tests.spark.reading import At


def row(seq: int, **fields: Any) -> JournalRow:
    fixed = {"v": SCHEMA_VERSION, "run_id": "r", "controller": 0, "epoch": 1, "kind": "event"}
    return msgspec.convert({**fixed, "t_ms": 1000 * seq, "seq": seq, **fields}, JournalRow)


def encoded(*rows: JournalRow) -> bytes:
    return journal_bytes(rows)


def rows_of_part(part: FilePart) -> list[dict[str, Any]]:
    return [row for batch in read_part_of_journal(part) for row in batch.to_pylist()]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Three rows."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(encoded(*map(row, (1, 2, 3))))
    return path


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def test_a_table_of_several_journals(engine: Engine, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    first = [row(n, topic="t", partition=n, isr=[n]) for n in range(1, 4)]
    (logs / "journal.jsonl").write_bytes(encoded(*first) + b'{"v":9}\n{"v":1,"ru')
    (logs / "b.jsonl.gz").write_bytes(gzip.compress(encoded(row(1, run_id="b", epoch=4))))
    (logs / "c.jsonl.zst").write_bytes(zstd(encoded(row(2, run_id="b", epoch=4))))
    (logs / "notes.txt").write_text("no log")
    manifest = make_table(engine, [logs], tmp_path / "table")
    (source,) = manifest.sources
    assert (source.rows, source.kinds) == (5, {"event": 5})
    assert source.damaged == {"schema version 9": 1, "torn": 1}
    assert source.runs == [
        RunCoverage("b", 2, 4, 4, 1000, 2000, missing=0, repeated=0),
        RunCoverage("r", 3, 1, 1, 1000, 3000, missing=0, repeated=0),
    ]
    assert sorted(Path(file.path).name for file in source.files) == [
        "b.jsonl.gz",
        "c.jsonl.zst",
        "journal.jsonl",
    ]
    table = open_table(engine, tmp_path / "table")
    assert table.manifest == manifest
    words = table.in_words(f"SELECT * FROM {table.events} WHERE topic IS NOT NULL")
    told = rows_in(engine, f"SELECT * FROM ({words}) ORDER BY line")
    assert [(at["file"], at["line"]) for at in told] == [
        (str(logs / "journal.jsonl"), n) for n in (1, 2, 3)
    ]
    assert [(at["run"], at["topic"], at["partition"], at["isr"]) for at in told] == [
        ("r", "t", n, [n]) for n in (1, 2, 3)
    ]
    damaged = some_damaged(engine, tmp_path / "table", 10)
    assert [(at["line"], at["problem"], at["text"]) for at in damaged] == [
        (4, "schema version 9", '{"v":9}'),
        (5, "torn", '{"v":1,"ru'),
    ]
    assert sorted(path.name for path in (tmp_path / "table").iterdir()) == [
        "damaged",
        "events",
        "manifest.json",
        "names",
    ]


def test_lost_and_repeated_rows_are_counted(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(encoded(*map(row, (2, 3, 3, 5, 9)), row(7, epoch=2), row(0, epoch=0)))
    (source,) = make_table(engine, [path], tmp_path / "table").sources
    assert source.runs == [RunCoverage("r", 7, 1, 2, 0, 9000, missing=11, repeated=1)]


def test_a_cluster_that_was_restarted_is_one_run(engine: Engine, tmp_path: Path) -> None:
    rows = []
    for epoch, run in enumerate(("first", "second"), 1):
        of_run = {"run_id": run, "cluster_id": "c"}
        start = {**of_run, "kind": "run_start", "epoch": 0, "controller": -1, "t_ms": 1_000 * epoch}
        phase = {"kind": "reassignment_phase", "reassignment_id": "t-0->2", "topic": "t"}
        broker = {"run_id": run, "kind": "log_truncated", "epoch": 0, "controller": -1}
        elected = {**of_run, "kind": "controller_elected", "t_ms": 1_000 * epoch + 500}
        rows += [row(0, **start), row(1, **elected, epoch=epoch), row(1, **broker)]
        to = "U1" if epoch == 1 else "B8"
        rows.append(row(2, **of_run, **phase, epoch=epoch, partition=0, to=to))
    path = tmp_path / "journal.jsonl"
    path.write_bytes(encoded(*rows))
    (source,) = make_table(engine, [path], tmp_path / "table").sources
    (coverage,) = source.runs
    assert (coverage.run, coverage.rows, coverage.first_epoch, coverage.last_epoch) == (
        "c",
        8,
        1,
        2,
    )
    assert (coverage.missing, coverage.repeated) == (0, 0)
    with answering(open_table(engine, tmp_path / "table")) as found:
        assert found.violations == {}
        (reassignment,) = found.listings["reassignments"].rows
        starts = [
            (at["detail"], at["t_ms"], at["first_epoch"], at["last_epoch"])
            for at in found.listings["starts"].rows
        ]
        page = replay_page(Replayed("x", None, [], {}), found)
    assert starts == [("first ", 1_000, 1, 1), ("second ", 2_000, 2, 2)]
    tables = [block for at in page.sections for block in at.blocks if isinstance(block, Table)]
    (listed,) = (table.rows for table in tables if table.title == "Starts of klamm up")
    assert [row[1:] for row in listed] == [("first", "1"), ("second", "2")]
    assert (reassignment["status"], reassignment["epochs"]) == ("done", 2)


def test_a_journal_with_its_halves_swapped_is_reported(engine: Engine, tmp_path: Path) -> None:
    in_order = [row(1), row(2), row(1, epoch=2), row(3), row(2, epoch=2), row(1, epoch=3)]
    for run, rows in (
        ("late write", in_order),
        ("epochs", in_order[4:] + in_order[:4]),
        ("rows", [row(n) for n in (3, 4, 1, 2)]),
        ("first row", [row(n) for n in (2, 1, 3)]),
        ("last row", [row(n) for n in (1, 3, 2)]),
        ("two controllers", [row(1), row(1, controller=1), row(2), row(2, controller=1)]),
    ):
        path = tmp_path / f"{run}.jsonl"
        path.write_bytes(encoded(*(msgspec.structs.replace(at, run_id=run) for at in rows)))
    (source,) = make_table(engine, [tmp_path], tmp_path / "table").sources
    assert {run.run: run.out_of_order for run in source.runs} == {
        "late write": None,
        "epochs": OutOfOrder(str(tmp_path / "epochs.jsonl"), 3, 1, after=3),
        **{
            run: OutOfOrder(str(tmp_path / f"{run}.jsonl"), 1, 1, after=1)
            for run in ("rows", "first row", "last row")
        },
        "two controllers": None,
    }
    assert {run.missing for run in source.runs} == {0}


@pytest.mark.parametrize(
    ("numbers", "missing", "repeated"),
    [
        pytest.param((1, 2, 4, 4, 5, 5, 7, 8), 2, 2, id="the same number and sum"),
        pytest.param((1, 1, 2, 2, 4), 1, 2, id="the same sum and exclusive or"),
        pytest.param((3, 4, 4, 5, 6, 7, 7), 2, 2, id="the same number and exclusive or"),
    ],
)
def test_a_lost_row_does_not_hide_behind_a_repeated_one(
    numbers: tuple[int, ...], missing: int, repeated: int, engine: Engine, tmp_path: Path
) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(encoded(*map(row, numbers)))
    (source,) = make_table(engine, [path], tmp_path / "table").sources
    (run,) = source.runs
    assert (run.rows, run.missing, run.repeated) == (len(numbers), missing, repeated)


def test_kinds_and_runs_of_a_table_have_an_order(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    kinds = [row(n, kind=kind) for n, kind in enumerate(reversed(Kind), 1)]
    of_runs = [row(1, run_id=run, t_ms=t_ms) for run, t_ms in (("a", 9), ("z", 8), ("b", 8))]
    path.write_bytes(encoded(*kinds, *of_runs))
    (source,) = make_table(engine, [path], tmp_path / "table").sources
    assert list(source.kinds) == [str(kind) for kind in KINDS if kind in list(Kind)]
    assert [run.run for run in source.runs] == ["b", "z", "a", "r"]


def test_rows_keep_their_lines_in_whatever_parts_a_file_is_read(
    engine: Engine, tmp_path: Path
) -> None:
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path, count in zip(paths, (40, 3), strict=True):
        path.write_bytes(encoded(*map(row, range(1, count + 1))))
    parts = cut_into_parts(engine, paths, part_bytes=500)
    assert len(parts) > 4
    read = [At(**row) for task in parts for row in rows_of_part(task)]
    expected = [
        (str(path), n)
        for path, count in zip(paths, (40, 3), strict=True)
        for n in range(1, count + 1)
    ]
    assert [(at.file, at.line) for at in read] == expected
    assert all(at.seq == at.line for at in read)


def test_a_truncated_gzip_gives_what_is_before_its_end(engine: Engine, tmp_path: Path) -> None:
    whole = gzip.compress(encoded(*(row(n, detail=str(n**7)) for n in range(1, 20_001))))
    path = tmp_path / "journal.jsonl.gz"
    path.write_bytes(whole[: len(whole) // 2])
    (source,) = make_table(engine, [path], tmp_path / "table").sources
    assert source.damaged == {"truncated gzip, rest of the file unread": 1}
    assert 5_000 < source.rows < 15_000
    (damaged,) = some_damaged(engine, tmp_path / "table", 10)
    assert damaged["line"] == source.rows + 1


def test_no_table_is_made_of_what_cannot_be_read(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"v":9,"run_id":"r","seq":1,"kind":"event"}\n' * 3)
    with pytest.raises(KlammError, match=r"no events found in 1 file$") as caught:
        make_table(engine, [path], tmp_path / "table")
    assert caught.value.hint == "damaged lines: schema version 9: 3"
    assert [at.name for at in tmp_path.iterdir()] == ["journal.jsonl"]


def test_a_file_that_goes_away_leaves_no_table(engine: Engine, journal: Path) -> None:
    found = find_logs([journal])
    table = journal.with_name("table")

    def make() -> None:
        with new_table_folder(table, overwrite=False) as folder:
            journal.unlink()
            ingest(engine, found, folder, SourceOptions(), Progress(quiet=True))

    with pytest.raises((KlammError, OSError), match="No such file"):
        make()
    assert list(table.parent.iterdir()) == []


def test_an_interrupted_ingest_leaves_what_was_there(engine: Engine, journal: Path) -> None:
    table = journal.with_name("table")
    make_table(engine, [journal], table)
    before = (table / "manifest.json").read_bytes()
    with pytest.raises(KeyboardInterrupt), new_table_folder(table, overwrite=True) as folder:
        (folder / "events").mkdir()
        raise KeyboardInterrupt
    assert (table / "manifest.json").read_bytes() == before
    assert sorted(path.name for path in table.parent.iterdir()) == ["journal.jsonl", "table"]


def test_a_table_is_replaced_only_if_that_is_asked_for(engine: Engine, journal: Path) -> None:
    table = journal.with_name("table")
    make_table(engine, [journal], table)
    with pytest.raises(UsageError, match="already exists"):
        make_table(engine, [journal], table)
    journal.write_bytes(encoded(row(1)))
    assert make_table(engine, [journal], table, overwrite=True).rows == 1
    assert open_table(engine, table).manifest.rows == 1
    assert sorted(path.name for path in table.parent.iterdir()) == ["journal.jsonl", "table"]


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        return True


@pytest.mark.spark
@pytest.mark.slow
def test_progress_comes_from_sparks_stages(spark: SparkSession) -> None:
    screen = Terminal()
    progress = Progress(screen)
    progress.began(SparkEngine(spark))
    with progress.step("count"):
        spark.range(10**7, numPartitions=8).selectExpr("sum(sin(id))").collect()
    assert "count" in progress.elapsed_s
    assert "count " in screen.getvalue() and "/8 tasks" in screen.getvalue()
    assert screen.getvalue().endswith(f"count: {progress.elapsed_s['count']:.1f} s\n")


def test_a_full_disk_is_reported_in_one_line() -> None:
    text = "SparkException: Job aborted\nCaused by: java.io.IOException: No space left on device"
    error = as_klamm_error(text, Path("t"))
    assert isinstance(error, EnvironmentProblem)
    assert error.message == "no space left on the disk while writing t"
    other = as_klamm_error("E\nCaused by: a.b.FileNotFound: no x\n\tat y", Path("t"))
    assert other.message == "Spark job failed: no x (FileNotFound)"
