"""`klamm drill run --until`: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from klamm.cluster.journal import JOURNAL_FILE
from tests.serving import RunKlamm

JOURNAL = Path("1-leader-loss", JOURNAL_FILE)


def test_until_shows_where_the_drill_is_and_leaves_the_journal(
    run_klamm: RunKlamm, tmp_path: Path
) -> None:
    words = ("--until", "on: {kind: broker_offline}", "--data-dir", str(tmp_path / "d"))
    code, out, err = run_klamm("drill", "run", "leader-loss", *words)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[1] == "   0.000 s  start brokers 0, 1, 2"
    assert "    25     7.000 s  controller 2 epoch 1      broker offline broker 1" in out
    where = "row 26, 7.000 s, in step 1 of 2 (kill: 1), 3.000 s and "
    assert any(line.startswith(where) for line in lines)
    assert "1       -     not running  no    -           0           0      0" in lines
    path = tmp_path / "d" / JOURNAL
    assert len(path.read_bytes().splitlines()) == 26
    code, out, _ = run_klamm("explain", "t-0", "--journal", str(path))
    assert code == 0
    assert "t-0: OfflinePartition, leader 1, " in out


def test_until_as_json(run_klamm: RunKlamm) -> None:
    code, out, _ = run_klamm(
        "drill", "run", "leader-loss", "--until", "step 2", "--json", "--seed", "3"
    )
    found = json.loads(out)
    assert (code, found["drill"], found["seed"], found["verdict"]) == (0, "leader-loss", 3, None)
    assert found["step"] == {
        "number": 2,
        "name": "start: 1",
        "has_begun": False,
        "elapsed_ms": 0.0,
        "advance": 0,
    }
    assert [one["step"] for one in found["steps"]][-1] == "kill: 1"
    assert found["status"]["controller"]["controller_id"] in (0, 2)
    assert [one["state"] for one in found["status"]["brokers"]].count("not running") == 1
    assert len(found["rows"]) == 5


def test_a_moment_that_is_never_reached(run_klamm: RunKlamm) -> None:
    code, out, err = run_klamm("drill", "run", "leader-loss", "--until", "row 900")
    assert code == 1
    assert "leader-loss passed after 13.021 s\n" in out
    assert err == (
        "error: row 900 is never reached: the drill ended after 13.021 s, with 39 journal rows\n"
    )
    code, out, err = run_klamm(
        "drill", "run", "c7", "--quirks", "C7", "--until", "row 900", "--json"
    )
    assert (code, json.loads(out)["verdict"]["outcome"]) == (10, "unsafe")
    assert json.loads(err)["exit_code"] == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["leader-loss", "--until", "soon"], "'soon' is not a moment"),
        (["leader-loss", "idle-broker-dies", "--until", "5s"], "needs exactly one drill"),
        (["--all", "--until", "5s"], "cannot be combined"),
        (["leader-loss", "--until", "5s", "--real"], "cannot be combined"),
        (["leader-loss", "--page", "x", "--junit", "x"], "--page and --junit name the same file"),
        (["zookeeper-quorum-lost", "--until", "5s"], "requires real ZooKeeper servers"),
    ],
)
def test_options_that_do_not_go_together(
    run_klamm: RunKlamm, words: list[str], problem: str
) -> None:
    code, _, err = run_klamm("drill", "run", *words)
    assert (code, problem in err, len(err.splitlines()) <= 2) == (2, True, True)


@pytest.mark.parametrize(
    ("moment", "where"),
    [
        ("step 1", "before step 1 of 2 (kill: 1)"),
        ("step 2", "before step 2 of 2 (start: 1)"),
        ("step 3", "after the last step"),
        ("0s", "before the final check"),
    ],
)
def test_where_a_drill_stands(run_klamm: RunKlamm, moment: str, where: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "drill: mine\nabout: x\ncluster: {topics: {t: [[0, 1]]}}\nsteps: [kill: 1, start: 1]\n"
        "eventually: {healthy: true}\n"
    )
    code, out, err = run_klamm("drill", "run", str(path), "--until", moment)
    places = [line.split(", ", 2)[2] for line in out.splitlines() if line.startswith("row ")]
    assert (code, err, places) == (0, "", [where])
