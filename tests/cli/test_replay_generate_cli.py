"""klamm replay generate: what it makes and prints, and what it refuses in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pexpect
import pytest

from klamm.cli.main import main
from klamm.cluster.errors import KlammError
from klamm.replay.generate.options import Format, HistoryOptions, Planted
from tests.serving import on_terminal, without_slowness

SMALL = ["--partitions", "50", "--events", "3000", "--seed", "3"]


def run(*arguments: str) -> int:
    return main(["replay", "generate", *arguments])


def test_what_was_made_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "made"
    assert run("--out", str(out), *SMALL, "--plant", "illegal=2,gap=1") == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0].startswith("run generated-3: 3,000 rows, 50 partitions")
    assert "  illegal: 2" in said.out and "  gap: 1" in said.out
    assert without_slowness(said.err) == ""
    assert {path.name for path in out.iterdir()} == {"journal.jsonl", "planted.json"}
    assert (out / "journal.jsonl").read_bytes().count(b"\n") == 3_000
    anomalies = json.loads((out / "planted.json").read_text())["anomalies"]
    assert sorted(found["kind"] for found in anomalies) == ["gap", "illegal", "illegal"]
    for found in anomalies:
        ((file, line),) = (place.values() for place in found["places"])
        assert file == "journal.jsonl" and 0 < line <= 3_000


def test_a_terminal_shows_the_progress_in_one_line(tmp_path: Path) -> None:
    with on_terminal(tmp_path, "replay", "generate", "--out", str(tmp_path / "made"), *SMALL) as it:
        it.expect(" of 3,000 rows")
        it.expect(pexpect.EOF)
        assert "run generated-3" in it.before and "\\u001b" not in it.before


def test_what_was_made_is_printed_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "made"
    assert run("--out", str(out), *SMALL, "--format", "zookeeper", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["folder"] == str(out)
    assert set(told["cannot_hold"]) == {"illegal", "duplicate"}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--format", "xml"], "error: --format xml is unknown"),
        (["--plant", "chaos=1,gap"], "error: --plant: unknown kind chaos\nhint: kinds: illegal"),
        (["--plant", "gap,gap=1"], "error: --plant: expected KIND=N, not gap\nhint: kinds: ill"),
        (
            ["--format", "zookeeper", "--plant", "illegal=1,gap=1,duplicate=1"],
            "error: format zookeeper cannot contain these anomalies: illegal: transitions are not "
            "stored; duplicate: copies of a transaction count once\nhint: possible: gap, unclean,",
        ),
        (["--events", "10"], "error: 1,000 partitions need at least 8,012 events, not 10"),
        (
            ["--partitions", "1", "--plant", "gap=1", "--events", "1"],
            "error: 1 partition with 1 anomaly needs at least 124 events, not 1\nhint: raise",
        ),
        (
            ["--events", f"{10**18}"],
            "error: 1,000 partitions can have at most 10,000,000,000 events, not 1,000,000,000",
        ),
        (["--plant", "gap=1,gap=2"], "error: --plant: gap is given twice\nhint: give each kind"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--out", str(tmp_path / "made"), *arguments) == 2
    assert capsys.readouterr().err.startswith(line)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--out", str(tmp_path)) == 2
    assert "already exists" in capsys.readouterr().err


def test_help_says_which_kinds_a_format_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    told = capsys.readouterr().out.split("Formats, and the kinds")[1].split("Examples")[0]
    words = " ".join(told.split())
    assert "journal illegal, gap, duplicate, unclean, two-controllers, late-write" in words
    assert "zookeeper gap, unclean, two-controllers, late-write, leaderless, stuck" in words
    assert "controller-log two-controllers, stuck, damaged" in words


EVERY_OPTION = (
    "--partitions 5 --events 6 --failure-rate 0.5 --seed 7 --plant gap=2 --brokers 8 "
    "--partitions-per-topic 9 --skew 0.25 --restarts 3 --format parquet"
)


@pytest.mark.parametrize(
    ("arguments", "options", "written_as"),
    [
        ([], HistoryOptions(1_000, 100_000), Format.JOURNAL),
        (
            EVERY_OPTION.split(),
            HistoryOptions(5, 6, 0.5, 7, {Planted.GAP: 2}, 8, 9, 0.25, 3),
            Format.PARQUET,
        ),
    ],
)
def test_every_option_says_something_of_the_history(
    tmp_path: Path,
    arguments: list[str],
    options: HistoryOptions,
    written_as: Format,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def generate(*given: Any, on_rows: Any) -> None:
        asked.append(given)
        raise KlammError("enough")

    monkeypatch.setattr("klamm.replay.generate.generate.generate", generate)
    assert run("--out", str(tmp_path / "made"), *arguments) == 1
    assert asked == [(options, written_as, tmp_path / "made")]
