"""`klamm drill run --until` and `--step`: what they print, and how a session ends."""

from __future__ import annotations

import io
import json
import signal
from pathlib import Path
from typing import Any

import pexpect
import pytest

from klamm.cli.main import main
from klamm.cluster.journal import JOURNAL_FILE
from tests.serving import on_terminal

JOURNAL = Path("1-leader-loss", JOURNAL_FILE)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run `klamm` with these words: its exit code and what it printed."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def session(run: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `klamm drill run leader-loss --step` with these words and these lines as its input."""

    def session(lines: str, *words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        result: tuple[int, str, str] = run("drill", "run", "leader-loss", "--step", *words)
        return result

    return session


def test_until_shows_where_the_drill_is_and_leaves_the_journal(run: Any, tmp_path: Path) -> None:
    words = ("--until", "on: {kind: broker_offline}", "--data-dir", str(tmp_path / "d"))
    code, out, err = run("drill", "run", "leader-loss", *words)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[1] == "   0.000 s  start brokers 0, 1, 2"
    assert "    25     7.000 s  controller 2 epoch 1      broker offline broker 1" in out
    where = "row 26, 7.000 s, in step 1 of 2 (kill: 1), 3.000 s and "
    assert any(line.startswith(where) for line in lines)
    assert "1       -     not running  no    -           0           0      0" in lines
    path = tmp_path / "d" / JOURNAL
    assert len(path.read_bytes().splitlines()) == 26
    code, out, _ = run("explain", "t-0", "--journal", str(path))
    assert code == 0
    assert "t-0: OfflinePartition, leader 1, " in out


def test_until_as_json(run: Any) -> None:
    code, out, _ = run("drill", "run", "leader-loss", "--until", "step 2", "--json", "--seed", "3")
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


def test_a_moment_that_is_never_reached(run: Any) -> None:
    code, out, err = run("drill", "run", "leader-loss", "--until", "row 900")
    assert code == 1
    assert "leader-loss passed after 13.021 s\n" in out
    assert err == (
        "error: row 900 is never reached: the drill ended after 13.021 s, with 39 journal rows\n"
    )
    code, out, err = run("drill", "run", "c7", "--quirks", "C7", "--until", "row 900", "--json")
    assert (code, json.loads(out)["verdict"]["outcome"]) == (10, "unsafe")
    assert json.loads(err)["exit_code"] == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["leader-loss", "--until", "soon"], "'soon' is not a moment"),
        (["leader-loss", "idle-broker-dies", "--step"], "need exactly one drill"),
        (["--all", "--step"], "cannot be combined"),
        (["leader-loss", "--until", "5s", "--real"], "cannot be combined"),
        (["leader-loss", "--step", "--json"], "cannot be combined"),
        (["leader-loss", "--page", "x", "--junit", "x"], "--page and --junit name the same file"),
        (["zookeeper-quorum-lost", "--step"], "requires real ZooKeeper servers"),
    ],
)
def test_options_that_do_not_go_together(run: Any, words: list[str], problem: str) -> None:
    code, _, err = run("drill", "run", *words)
    assert (code, problem in err, len(err.splitlines()) <= 2) == (2, True, True)


def test_a_session_forks_a_drill_and_saves_the_fork(run: Any, session: Any, tmp_path: Path) -> None:
    fork, first, second = (str(tmp_path / name) for name in ("fork.yaml", "first", "second"))
    commands = f"until 6.5s\ndo pause: 2\nsave {fork}\ncontinue\nwhere\nexplain t-0\n"
    code, out, err = session(commands, "--data-dir", first, "--seed", "4", "--quirks", "C4")
    assert err == ""
    assert "   6.500 s  pause: 2 (at {step: 1, wait: 2500ms})\n" in out
    assert f"repeat it with: klamm drill run {fork} --seed 4 --quirks C4\n" in out
    assert "fork of leader-loss.yaml:" in out
    assert ", at the end\n" in out
    explained = out.rpartition(", at the end\n")[2]
    words = ("drill", "run", fork, "--seed", "4", "--quirks", "C4", "--data-dir", second)
    assert run(*words)[0] == code == 11
    journals = [(Path(folder) / JOURNAL).read_bytes() for folder in (first, second)]
    assert journals[0] == journals[1]
    _, out, _ = run("explain", "t-0", "--journal", str(Path(first) / JOURNAL))
    assert out.partition("\n")[2] == explained
    code, _, err = session(f"save {fork}\n")
    assert (code, "cannot be written: File exists" in err) == (1, True)


def test_the_commands_of_a_session(session: Any) -> None:
    commands = "steps\nnext 2\nadvance 3\nstep\nback\nback to step 1\njournal 2\nstatus\nhelp\n"
    code, out, err = session(commands + "\nquit\nnever read\n")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert "   1  kill: 1" in lines
    assert [line.partition(", ")[0] for line in lines if line.startswith("row ")] == [
        *("row 23", "row 26", "row 27", "row 31", "row 27", "row 23"),
    ]
    assert lines.count("row 23, 4.000 s, before step 1 of 2 (kill: 1)") == 2
    assert "Controller:  broker 2, epoch 1, IDLE" in lines
    assert "  next [N]: run until the journal has N more rows" in lines


def test_where_a_drill_stands(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "drill: mine\nabout: x\ncluster: {topics: {t: [[0, 1]]}}\nsteps: [kill: 1, start: 1]\n"
        "eventually: {healthy: true}\n"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("step\n" * 5 + "advance\n"))
    code, out, err = run("drill", "run", str(path), "--step")
    places = [line.split(", ", 2)[2] for line in out.splitlines() if line.startswith("row ")]
    assert (code, err) == (0, "")
    assert places == [
        "before step 1 of 2 (kill: 1)",
        "before step 2 of 2 (start: 1)",
        "after the last step",
        "before 'heal_all'",
        "before 'eventually'",
        "before the final check",
        "at the end",
    ]


@pytest.mark.parametrize(
    ("command", "code", "problem"),
    [
        ("nex", 2, "unknown command 'nex'"),
        ("next 0", 2, "'0' is not a number of steps or rows"),
        ("next 2147483648", 2, "'2147483648' is not a number of steps or rows"),
        ("advance x", 2, "'x' is not a number of steps or rows"),
        ("until row 2", 2, "row 2 has passed"),
        ("until", 2, "a moment is missing"),
        ("back to row 99", 2, "row 99 is not earlier"),
        ("do", 2, "do needs a step"),
        ("do kil: 1", 2, "unknown word in a step 'kil'"),
        ("do start: 1", 1, "broker 1 is already running"),
        ("explain", 2, "explain needs a partition"),
        ("explain u-0", 1, "the journal has no partition u-0"),
        ("save", 2, "save needs the name of a file"),
    ],
)
def test_an_error_ends_a_session_that_is_not_on_a_terminal(
    session: Any, command: str, code: int, problem: str
) -> None:
    ended, out, err = session(f"{command}\ncontinue\n")
    assert (ended, problem in err) == (code, True)
    assert "leader-loss passed" not in out


def test_a_session_ends_with_the_exit_code_of_the_drill(session: Any) -> None:
    assert session("do kill: 2\ncontinue\n")[0] == 11
    assert session("do kill: 2\nadvance 999999\nback 1\n")[0] == 0
    code, _, err = session("do kill: 2\nuntil row 999\n")
    assert (code, err.startswith("error: row 999 is never reached: ")) == (11, True)
    code, _, err = session("continue\nnext\n")
    assert (code, err.splitlines()[0]) == (1, "error: the drill has ended")


def test_a_session_on_a_terminal(tmp_path: Path) -> None:
    words = ("drill", "run", "leader-loss", "--step", "--until", "row 25")
    with on_terminal(tmp_path, *words) as process:
        process.expect_exact("row 26, 7.000 s, in step 1 of 2 (kill: 1)")
        process.expect_exact("Ctrl-D ends the session")
        process.expect_exact("klamm> ")
        process.sendline("until row 20")
        process.expect_exact("error: row 20 has passed")
        process.expect_exact("hint: back to row 20")
        process.expect_exact("klamm> ")
        process.send("do mov\t")
        process.expect_exact("e_controller: ")
        process.sendintr()
        process.expect_exact("klamm> ")
        process.sendline("do {repeat: 450, steps: [move_controller, wait: 5s]}")
        process.expect_exact("waiting for the next moment")
        process.sendintr()
        process.expect_exact("error: interrupted: nothing has changed")
        process.expect_exact("klamm> ")
        process.sendline("where")
        process.expect_exact("row 26, 7.000 s")
        process.expect_exact("klamm> ")
        process.sendeof()
        process.expect(pexpect.EOF)
    assert process.exitstatus == 0


def test_a_signal_ends_a_session(tmp_path: Path) -> None:
    with on_terminal(tmp_path, "drill", "run", "leader-loss", "--step") as process:
        process.expect_exact("klamm> ")
        process.kill(signal.SIGTERM)
        process.expect(pexpect.EOF)
    assert process.exitstatus == 128 + signal.SIGTERM
