"""`klamm replay run`, `diff` and `sql`: what they refuse, print, write, and how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from klamm.cli.main import main
from klamm.cli.replay_run import read_filters
from klamm.replay.filters import Filters
from tests.unit.report.pages import loaded, read_page
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 400
ROW = b'{"v":1,"run_id":"r","t_ms":5,"seq":1,"controller":0,"epoch":1,"kind":"event"}\n'


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(ROW)
    return path


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run", "NOWHERE"], "NOWHERE does not exist"),
        (["run", "JOURNAL", "--format", "html"], "--format html needs --out"),
        (["run", "JOURNAL", "--format", "parquet"], "--format parquet needs --out"),
        (["run", "JOURNAL", "--as-of", "epoch:seven"], "--as-of epoch:seven: invalid number"),
        (["run", "JOURNAL", "--as-of", "yesterday"], "--as-of yesterday: invalid time"),
        (["run", "JOURNAL", "--as-of", "zxid:-5"], "--as-of zxid:-5: invalid number"),
        (["run", "JOURNAL", "--as-of", "epoch:99999999999999999999"], "9999: invalid number"),
        (["run", "JOURNAL", "--topic", ""], "--topic is empty"),
        (["run", "JOURNAL", "--broker", "-1"], "Invalid value for '--broker'"),
        (["run", "JOURNAL", "--timezone", "Mars/Phobos"], "unknown time zone 'Mars/Phobos'"),
        (["sql", "SELECT 1", "JOURNAL", "--timezone", "Mars/Phobos"], "unknown time zone"),
        (["run", "JOURNAL", "--from", "noon"], "--from noon: invalid time"),
        (["run", "JOURNAL", "--from", "2026-01-02", "--to", "2026-01-01"], "is after --to"),
        (["run", "JOURNAL", "--from", "2026-01-02", "--as-of", "2026-01-01"], "is after --as-of"),
        (["run", "JOURNAL", "--out", "."], ". cannot be created"),
        (["run", "JOURNAL", "--out", "FOLDER"], "already exists"),
        (["run", "JOURNAL", "--out", "FOLDER", "--overwrite"], "is not overwritten"),
        (["run", "JOURNAL", "--master", "cluster7"], "cluster7 is not a Spark master"),
        (["run", "JOURNAL", "JOURNAL"], "is given twice"),
        (["diff", "JOURNAL"], "give B or --zookeeper"),
        (["diff", "JOURNAL", "JOURNAL", "--zookeeper", "h:1"], "--zookeeper, but not both"),
        (["diff", "JOURNAL", "NOWHERE"], "NOWHERE does not exist"),
        (["sql", "SELECT 1", "NOWHERE"], "NOWHERE does not exist"),
        (["sql", "SELEC 1", "JOURNAL"], "a query cannot begin with SELEC"),
        (["sql", "/* 1 */ -- SELECT\n (drop TABLE events", "JOURNAL"], "cannot begin with DROP"),
        (["sql", " ", "JOURNAL"], "the query is empty"),
        (["sql", "JOURNAL", "SELECT 1"], "journal.jsonl' is not one"),
        (["sql", "DESCRIBE events; DROP VIEW events", "JOURNAL"], "only one SELECT or DESCRIBE"),
        (["run", "JOURNAL", "--engine", "foo"], "--engine foo is unknown"),
        (["sql", "SELECT 1", "JOURNAL", "--engine", "foo"], "--engine foo is unknown"),
        (["diff", "JOURNAL", "JOURNAL", "--engine", "foo"], "--engine foo is unknown"),
        (["ingest", "NOWHERE", "--out", "NEW", "--engine", "foo"], "--engine foo is unknown"),
        (["run", "NOWHERE", "--engine", "duckdb", "--master", "local"], "--master requires Spark"),
    ],
)
def test_what_will_not_do_is_refused_in_one_line_and_a_hint(
    args: list[str],
    message: str,
    journal: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "precious").touch()
    places = {"JOURNAL": str(journal), "FOLDER": str(folder)}
    assert main(["replay", *(places.get(arg, arg) for arg in args)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    # On a loaded machine, the command also says what it waits for.
    lines = [line for line in told.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and message in lines[0]
    assert "Spark has started" not in told.err and "reading logs" not in told.err
    assert {path.name for path in tmp_path.iterdir()} == {"journal.jsonl", "folder"}
    assert [path.name for path in folder.iterdir()] == ["precious"]


def test_a_query_reads_no_files(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = f"SELECT * FROM read_text('{journal}')"
    assert main(["replay", "sql", query, str(journal)]) == 2
    told = capsys.readouterr()
    assert told.out == "" and "error: invalid query: only the views can be read" in told.err


def test_a_master_that_does_not_answer_ends_in_1(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "run", str(journal), "--master", "spark://127.0.0.1:1"]) == 1
    assert "error: no Spark master responds at spark://127.0.0.1:1" in capsys.readouterr().err


def test_what_holds_no_cluster_is_refused_before_spark_starts(
    journal: Path, tmp_path: Path, chroot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, nonsense = tmp_path / "empty.json", tmp_path / "nonsense"
    empty.write_text('[{"path":"/","data":null}]')
    nonsense.write_text("[{]")
    for args, words in (
        ([str(empty)], f"{empty} has no topics"),
        ([str(nonsense)], f"{nonsense} is not a dump"),
        (["--zookeeper", chroot], f"{chroot} has no topics"),
    ):
        assert main(["replay", "diff", str(journal), *args]) == 2
        told = capsys.readouterr()
        assert told.out == "" and told.err.startswith("error: ")
        assert words in told.err.splitlines()[0] and "Spark" not in told.err


def test_filters_of_the_command_line() -> None:
    assert read_filters(None, (), (), None, None) == Filters()
    found = read_filters(
        "zxid:0x10000002a", ["a", "b"], [1], "2026-01-02T10:15:00.250+02:00", "1767341700251"
    )
    assert found == Filters(
        topics=("a", "b"),
        brokers=(1,),
        from_ms=1767341700250,
        to_ms=1767341700251,
        as_of_zxid=0x10000002A,
    )
    assert read_filters("epoch:7", (), (), None, None) == Filters(as_of_epoch=7)
    assert read_filters("2026-01-02", (), (), None, None) == Filters(as_of_ms=1767312000000)


def test_planted_violations_end_in_14_and_stand_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, out = tmp_path / "made", tmp_path / "answers"
    planted = "illegal=3,gap=2,duplicate=2,unclean=1"
    generate = ["--out", str(made), "--seed", "7", "--partitions", "40", "--events", "4000"]
    assert main(["replay", "generate", *generate, "--plant", planted]) == 0
    capsys.readouterr()
    journals = sorted(map(str, made.glob("**/*journal*.jsonl*")))
    args = ["run", *journals, "--out", str(out), "--format", "html"]
    assert main(["replay", *args]) == 14
    told = capsys.readouterr()
    assert told.out.endswith(f"Written: {out / 'page.html'}\n")
    assert "reading logs into a temporary event table" in told.err
    answers = json.loads((out / "answers.json").read_text())
    counts = answers["counts"]
    assert (counts["illegal"], counts["unclean"], counts["repeated"]) == (3, 1, 2)
    assert counts["gaps"] == 2
    page = read_page((out / "page.html").read_text(encoding="utf-8"))
    assert loaded(page) == []
    verdict = page.only("p", "verdict").text
    assert "3 illegal transitions" in verdict and verdict in told.out
    assert main(["replay", *args]) == 2
    assert f"{out} already exists" in capsys.readouterr().err


def test_a_generated_table_is_not_read_from_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table"
    size = ["--partitions", "8", "--events", "2000", "--format", "parquet"]
    assert main(["replay", "generate", "--out", str(table), *size]) == 0
    assert main(["replay", "run", str(table)]) == 0
    assert "\njournal: 2,000 events\n" in capsys.readouterr().out


def test_lost_rows_that_are_about_no_partition_end_in_14(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b"".join(ROW.replace(b'"seq":1', b'"seq":%d' % n) for n in (1, 2, 5)))
    out = tmp_path / "out"
    assert main(["replay", "run", str(journal), "--out", str(out)]) == 14
    told = capsys.readouterr().out
    assert "Violations: 2 lost rows." in told and "journal.jsonl:3" in told
    assert (out / "replay.txt").read_text(encoding="utf-8") in told


def test_an_interrupted_run_leaves_nothing(journal: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    out = tmp_path / "answers"
    with subprocess.Popen(
        [sys.executable, "-m", "klamm", "replay", "run", str(journal), "--out", str(out)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(lambda: list(temporary.glob("klamm-replay-*")), TIMEOUT_S / 2)
        process.send_signal(signal.SIGINT)
        told, errors = process.communicate(timeout=TIMEOUT_S / 2)
    assert (process.returncode, told) == (130, "")
    assert errors.splitlines()[0] == f"{journal}: reading logs into a temporary event table"
    assert errors.splitlines()[-1] == "Interrupted"
    assert list(temporary.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("answers")] == []


@pytest.mark.parametrize(("limit", "more"), [(2, True), (3, False), (4, False)])
def test_a_query_gives_rows_up_to_its_limit(
    limit: int, more: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b"".join(ROW.replace(b'"seq":1', b'"seq":%d' % n) for n in (1, 2, 3)))
    args = ["replay", "sql", "SELECT seq FROM events ORDER BY 1", str(journal), "--json"]
    assert main([*args, "--limit", str(limit)]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = [[n] for n in range(1, min(limit, 3) + 1)]
    assert found == {"columns": ["seq"], "rows": rows, "more": more}
