"""`klamm drill` in the simulated world: what it prints, how it ends, and that it repeats itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from klamm.cli.main import main
from klamm.drills.library import FOLDER, NAMES, named_drill
from klamm.runtime.journal import read_journal

ROOT = Path(__file__).parents[2]
SIMULATED = [name for name in NAMES if named_drill(name).real_only is None]
RECORDINGS = ROOT / "tests" / "data" / "scenarios"
HEAD = "drill: mine\nabout: x\ncluster: {topics: {t: [[0, 1]]}}\nsteps:\n"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run `klamm drill` with these words: its exit code and what it printed."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["drill", *words])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def mine(tmp_path: Path) -> Any:
    """Write a drill with these steps; the file's path."""

    def write(steps: str) -> str:
        path = tmp_path / "mine.yaml"
        path.write_text(HEAD + steps)
        return str(path)

    return write


PASSED = """\
mine (simulated, seed 3): x
   0.000 s  start brokers 0, 1, 2
            held after 0.000 s: until brokers: [0, 1, 2]
            held after 0.000 s: until exists: [/controller]
   2.000 s  create topic t
            held: expect exit_code: 0
            held after 0.000 s: until leader: {t-0: 0}
   4.000 s  kill: 0
            held after 3.000 s: until leader: {t-0: 1}
            held: expect offline_partitions: 0
  11.000 s  controller and brokers agree with ZooKeeper
mine passed after 11.000 s
"""


def test_a_run_says_each_step_its_time_and_what_held(run: Any, mine: Any) -> None:
    path = mine("  - kill: 0\n    until: {leader: {t-0: 1}}\n    expect: {offline_partitions: 0}\n")
    assert run("run", path, "--seed", "3") == (0, PASSED, "")


def test_a_run_that_fails_says_where_what_was_expected_and_seen_and_how_to_repeat(
    run: Any, mine: Any
) -> None:
    path = mine("  - stop: 0\n    expect:\n      isr: {t-0: [0, 1]}\n")
    code, out, _ = run("run", path, "--quirks", "c4")
    assert code == 1
    assert out.splitlines()[-5:] == [
        "            NOT HELD: expect isr: {t-0: [0, 1]}",
        f"{path}:7:7: expected isr: {{t-0: [0, 1]}}",
        "            seen {t-0: [1]}",
        "mine FAILED after 6.000 s",
        f"repeat it with: klamm drill run {path} --seed 0 --quirks C4",
    ]


@pytest.mark.parametrize(
    ("words", "code", "end"),
    [
        (["idle-broker-dies", "--quirks", "KAFKA-13225"], 10, "FAILED: safety violated"),
        (
            ["reassignment-added-to-a-running-one", "--quirks", "2.8.2"],
            11,
            "FAILED: timed out",
        ),
        (["cancel-back-to-the-dead", "--quirks", "KAFKA-14424"], 1, "FAILED"),
        ([str(RECORDINGS / "api_reassign_cancel.json")], 1, "FAILED"),
        ([str(RECORDINGS / "api_reassign_cancel.json"), "--quirks", "2.8.2"], 0, "passed"),
    ],
)
def test_the_exit_code_says_how_it_ended(run: Any, words: list[str], code: int, end: str) -> None:
    ended, out, _ = run("run", *words)
    assert ended == code
    assert f" {end} after " in out


def test_of_several_drills_the_worst_counts(run: Any) -> None:
    words = ("leader-loss", "idle-broker-dies", "cancel-back-to-the-dead", "--quirks", "2.8.2")
    code, out, _ = run("run", *words)
    assert code == 10
    assert out.splitlines()[-1] == "1 of 3 drills passed"


def test_json_has_steps_checks_and_the_verdict(run: Any) -> None:
    code, out, _ = run("run", "idle-broker-dies", "--quirks", "KAFKA-13225", "--json")
    report = json.loads(out)
    (drill,) = report["drills"]
    assert (code, report["exit_code"], drill["exit_code"]) == (10, 10, 10)
    assert (drill["drill"], drill["outcome"], drill["seed"]) == ("idle-broker-dies", "unsafe", 0)
    assert drill["repeat"] == "klamm drill run idle-broker-dies --seed 0 --quirks KAFKA-13225"
    killed = drill["steps"][2]
    assert (killed["step"], killed["checks"][0]["held"]) == ("kill: 1", True)
    assert killed["checks"][0]["condition"] == {"leader": {"t-0": -1}}
    assert drill["failures"]


def test_the_journal_is_kept_on_request(run: Any, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    code, out, _ = run("run", "leader-loss", "delete-with-dead-broker", "--data-dir", str(folder))
    assert (code, out.splitlines()[-1]) == (0, f"Journals: {folder}")
    assert sorted(path.name for path in folder.iterdir()) == [
        "1-leader-loss",
        "2-delete-with-dead-broker",
    ]
    rows = read_journal(folder / "2-delete-with-dead-broker" / "journal.jsonl")
    assert "topic_deleted" in {row.kind for row in rows}
    assert run("run", "leader-loss", "--data-dir", str(folder))[0] == 2


def test_the_drills_that_ship_are_listed_shown_and_checked(run: Any, tmp_path: Path) -> None:
    code, out, _ = run("list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(NAMES)
    listed = json.loads(run("list", "--json")[1])
    assert [drill["name"] for drill in listed] == list(NAMES)
    marked = [drill["name"] for drill in listed if drill["worlds"] == "real only"]
    assert marked == ["zookeeper-leader-killed", "zookeeper-quorum-lost"]
    assert out.count("  (real only) ") == len(marked)
    for name in NAMES:
        assert run("show", name) == (0, (FOLDER / f"{name}.yaml").read_text(), "")
    paths = [str(FOLDER / f"{name}.yaml") for name in NAMES]
    code, out, _ = run("check", *paths)
    assert (code, len(out.splitlines())) == (0, len(NAMES))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "leader-los"], "unknown drill leader-los"),
        (["show", "x"], "unknown drill x"),
        (["run", "nowhere.yaml"], "nowhere.yaml: No such file or directory"),
        (["run", "nowhere.json"], "nowhere.json: No such file or directory"),
        (["run", "leader-loss", "--real", "--seed", "1"], "give either --seed or --real, not both"),
        (
            ["run", "a-day-at-constant-rates", "--real"],
            "a-day-at-constant-rates: the step 'produce_constantly: {t-0: 500, t-1: 100}' requires",
        ),
        (["run", "leader-loss", "--zookeeper", "h:1"], "--zookeeper requires --real"),
        (["run", "leader-loss", "--quirks", "x"], "unknown quirk x"),
        (["run"], "Missing argument"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(
    run: Any, words: list[str], message: str
) -> None:
    code, out, errors = run(*words)
    assert (code, out) == (2, "")
    assert errors.splitlines()[0].startswith(f"error: {message}")


def test_a_wrong_file_is_said_with_its_place_before_anything_runs(run: Any, mine: Any) -> None:
    path = mine("  - kil: 1\n")
    for verb in ("run", "check"):
        words = ("leader-loss", path) if verb == "run" else (path,)
        assert run(verb, *words) == (
            2,
            "",
            f"error: {path}:5:5: unknown word in a step 'kil'\nhint: did you mean kill?\n",
        )


@pytest.mark.parametrize("text", ["{}", "[]", "", '{"steps": [{}]}', "\xff"])
def test_a_json_file_that_is_no_recording_is_refused(run: Any, tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="latin-1")
    code, _, errors = run("run", str(path))
    assert code == 2
    assert errors.startswith(f"error: {path} is not a recorded scenario: ")


def test_a_recording_with_an_unknown_step_is_refused(run: Any, tmp_path: Path) -> None:
    scenario = json.loads((RECORDINGS / "controller_kill.json").read_text())
    scenario["steps"][1]["step"]["op"] = "frobnicate"
    path = tmp_path / "x.json"
    path.write_text(json.dumps(scenario))
    assert run("run", str(path))[::2] == (2, "error: unknown scenario step frobnicate\n")


def output_with(hash_seed: str, folder: Path) -> tuple[str, dict[str, bytes]]:
    """What all simulated drills print, and their journals, in a process with this hash seed."""
    words = ["drill", "run", *SIMULATED, "--seed", "11", "--data-dir", str(folder), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "klamm", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    journals = {path.parent.name: path.read_bytes() for path in folder.glob("*/journal.jsonl")}
    return done.stdout, journals


@pytest.mark.slow
def test_the_same_seed_gives_the_same_to_the_byte_in_another_process(tmp_path: Path) -> None:
    first, second = (output_with(seed, tmp_path / seed) for seed in ("1", "2"))
    assert first == second
    assert len(first[1]) == len(SIMULATED)
