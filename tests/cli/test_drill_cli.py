"""`klamm drill` in the simulated world: what it prints, how it ends, and that it repeats itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pexpect
import pytest

from klamm.cli.drill_world import find_for_world
from klamm.cluster.errors import UsageError
from klamm.lab.drill import Drill
from klamm.lab.drills import library
from klamm.lab.drills.library import BUGS, FOLDER, NAMES, named_drill
from klamm.lab.language.language import parse_drill
from klamm.lab.run.worlds import World
from klamm.world.clock import VirtualClock
from klamm.world.journal.journal import read_journal
from tests.serving import RunKlamm, on_terminal

ROOT = Path(__file__).parents[2]
SIMULATED = [name for name in NAMES if named_drill(name).real_only is None]
RECORDINGS = ROOT / "tests" / "data" / "scenarios"
HEAD = "drill: mine\nabout: x\ncluster: {topics: {t: [[0, 1]]}}\nsteps:\n"


@pytest.fixture
def run(run_klamm: RunKlamm) -> RunKlamm:
    """Run `klamm drill` with these words."""
    return partial(run_klamm, "drill")


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
            t-0: unavailable 3.004 s, under-replicated 7.000 s
  11.000 s  controller and brokers agree with ZooKeeper
mine passed after 11.000 s
"""


def test_a_run_says_each_step_its_time_and_what_held(run: RunKlamm, mine: Any) -> None:
    path = mine("  - kill: 0\n    until: {leader: {t-0: 1}}\n    expect: {offline_partitions: 0}\n")
    assert run("run", path, "--seed", "3") == (0, PASSED, "")


def test_a_run_that_fails_says_where_what_was_expected_and_seen_and_how_to_repeat(
    run: RunKlamm, mine: Any
) -> None:
    path = mine("  - stop: 0\n    expect:\n      isr: {t-0: [0, 1]}\n")
    code, out, _ = run("run", path, "--quirks", "c4")
    assert code == 1
    assert out.splitlines()[-6:] == [
        "            NOT HELD: expect isr: {t-0: [0, 1]}",
        f"{path}:7:7: expected isr: {{t-0: [0, 1]}}",
        "            seen {t-0: [1]}",
        "            t-0: unavailable 0.000 s, under-replicated 1.994 s",
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
def test_the_exit_code_says_how_it_ended(
    run: RunKlamm, words: list[str], code: int, end: str
) -> None:
    ended, out, _ = run("run", *words)
    assert ended == code
    assert f" {end} after " in out


def test_of_several_drills_the_worst_counts(run: RunKlamm) -> None:
    words = ("leader-loss", "idle-broker-dies", "cancel-back-to-the-dead", "--quirks", "2.8.2")
    code, out, _ = run("run", *words)
    assert code == 10
    count = "1 of 3 drills passed; not passed: idle-broker-dies, cancel-back-to-the-dead"
    assert out.splitlines()[-1] == count


def test_junit_has_a_case_for_each_drill(run: RunKlamm, tmp_path: Path) -> None:
    path = tmp_path / "drills.xml"
    words = ("leader-loss", "idle-broker-dies", "--quirks", "KAFKA-13225", "--junit", str(path))
    assert run("run", *words)[0] == 10
    suite = ElementTree.parse(path).getroot()  # noqa: S314
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["2", "1", "0"]
    passed, failed = suite
    assert (passed.get("name"), passed.get("classname"), len(passed)) == (
        "leader-loss",
        "klamm.simulated",
        0,
    )
    (failure,) = failed
    assert failure.get("type") == "unsafe"
    assert failure.text is not None and failure.text.endswith(
        "repeat it with: klamm drill run idle-broker-dies --seed 0 --quirks KAFKA-13225"
    )
    code, out, errors = run("run", "leader-loss", "--junit", str(tmp_path / "no" / "x.xml"))
    assert out == "", "no drill has run"
    assert (code, errors.splitlines()[0]) == (
        1,
        f"error: {tmp_path}/no/x.xml cannot be written: No such file or directory",
    )


def test_a_page_shows_one_drill(run: RunKlamm, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    words = ("idle-broker-dies", "--quirks", "KAFKA-13225", "--page", str(path))
    code, out, _ = run("run", *words)
    assert (code, out.splitlines()[-1]) == (10, f"page: {path}")
    page = path.read_text(encoding="utf-8")
    again = "klamm drill run idle-broker-dies --seed 0 --quirks KAFKA-13225"
    assert f"<dd>{again}</dd>" in page
    code, out, _ = run("run", str(RECORDINGS / "api_reassign_cancel.json"), *words[1:], "--json")
    assert json.loads(out)["drills"][0]["page"] == str(path)
    assert path.read_text(encoding="utf-8") != page
    code, _, errors = run("run", "leader-loss", *words)
    assert (code, errors.splitlines()[0]) == (2, "error: --page shows one drill")


@pytest.mark.slow
def test_a_page_shows_a_run_on_a_real_zookeeper(run: RunKlamm, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert run("run", "leader-loss", "--real", "--page", str(path))[0] == 0
    page = path.read_text(encoding="utf-8")
    assert '<td class="short">broker 1</td>' in page
    for text in ("dead", "leader 2, ISR 2,0", "set t-0: leader 2, epoch 1, ISR 2,0"):
        assert text in page


def test_drills_of_known_bugs_have_their_tickets_and_what_is_wrong(run: RunKlamm) -> None:
    code, out, _ = run("list", "--bugs", "--json")
    listed = {drill["name"]: drill["bugs"] for drill in json.loads(out)}
    assert code == 0
    assert {*BUGS, "reassign-cancel"} <= listed.keys()
    assert all(listed.values())
    (fixed,) = listed["kafka-1096"]
    assert (fixed["names"], fixed["versions"]) == ("KAFKA-1096", "fixed in 0.8.2.0")
    (present,) = listed["cmak-878"]
    assert (present["names"], present["versions"]) == ("CMAK-878, KAFKA-12835", "in 2.8.2")
    lines = " ".join(run("list", "--bugs")[1].split())
    assert f"KAFKA-1096, fixed in 0.8.2.0: {fixed['wrong']}" in lines
    shown = run("show", "cmak-878")[1]
    head = " ".join(shown.partition("drill:")[0].replace("#", "").split())
    assert head == f"CMAK-878, KAFKA-12835, in 2.8.2: {present['wrong']} Right: {present['right']}"
    assert parse_drill(shown, "d.yaml").name == "cmak-878"
    assert run("show", "leader-loss")[1].startswith("drill: leader-loss")


def test_all_in_json_names_the_drills_that_were_not_run(
    run: RunKlamm, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = (*SIMULATED[:2], *(name for name in NAMES if name not in SIMULATED))
    monkeypatch.setattr(library, "NAMES", few)
    code, out, _ = run("run", "--all", "--json")
    report = json.loads(out)
    assert (code, [drill["drill"] for drill in report["drills"]]) == (0, SIMULATED[:2])
    assert report["not_run"] == [{"drill": name, "worlds": "real only"} for name in few[2:]]
    for words, both in (((), ""), (("--all", "leader-loss"), ", but not both")):
        code, _, errors = run("run", *words)
        assert (code, errors) == (
            2,
            f"error: give either drills or --all{both}\n"
            "hint: klamm drill list lists the shipped drills\n",
        )


def test_all_runs_every_drill_and_says_which_were_not_run(run: RunKlamm, tmp_path: Path) -> None:
    path = tmp_path / "drills.xml"
    code, out, _ = run("run", "--all", "--junit", str(path))
    left_out = [name for name in NAMES if name not in SIMULATED]
    count = f"{len(SIMULATED)} of {len(SIMULATED)} drills passed"
    last = f"{count}; {len(left_out)} not run (real only): {', '.join(left_out)}"
    assert (code, out.splitlines()[-1]) == (0, last)
    suite = ElementTree.parse(path).getroot()  # noqa: S314
    assert (suite.get("tests"), suite.get("skipped")) == (str(len(NAMES)), str(len(left_out)))
    skipped = {case.get("name") for case in suite if case.find("skipped") is not None}
    assert skipped == set(left_out)


def test_twice_writes_the_same_journal_in_a_fresh_process(run: RunKlamm) -> None:
    code, out, _ = run("run", "leader-loss", "--seed", "7", "--twice")
    assert code == 0
    assert out.splitlines()[-1].startswith("leader-loss: both runs wrote the same journal, ")
    code, out, _ = run("run", "leader-loss", "controller-loss", "--twice", "--json")
    repeated = [drill["repeated"]["first"] for drill in json.loads(out)["drills"]]
    assert (code, repeated) == (0, [None, None])


def test_twice_finds_what_only_one_process_has(
    run: RunKlamm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of this process is a millisecond ahead of that of the fresh process."""
    real = VirtualClock.now_ms
    monkeypatch.setattr(VirtualClock, "now_ms", lambda clock: real(clock) + 1)
    code, out, _ = run("run", "leader-loss", "--twice")
    title, first, second = out.splitlines()[-3:]
    assert code == 13
    assert title == "leader-loss is NOT DETERMINISTIC: row 1 of the journal differs"
    assert (first[:15], second[:15]) == ("  first run:  {", "  second run: {")
    assert first[14:] != second[14:]
    assert run("run", "leader-loss", "--twice", "--real")[0] == 2


def test_json_has_steps_checks_and_the_verdict(run: RunKlamm) -> None:
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


def test_the_journal_is_kept_on_request(run: RunKlamm, tmp_path: Path) -> None:
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


def test_the_drills_that_ship_are_listed_shown_and_checked(run: RunKlamm, tmp_path: Path) -> None:
    code, out, _ = run("list")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 100
    heads = [line for line in out.splitlines() if not line.startswith(" ")]
    assert [line.split()[0] for line in heads] == list(NAMES)
    listed = json.loads(run("list", "--json")[1])
    assert [drill["name"] for drill in listed] == list(NAMES)
    marked = [drill["name"] for drill in listed if drill["worlds"] == "real only"]
    assert marked == ["zookeeper-leader-killed", "zookeeper-quorum-lost"]
    assert [line.split()[0] for line in heads if line.endswith(" (real only)")] == marked
    simulated = [drill["name"] for drill in listed if drill["worlds"] == "simulated only"]
    assert simulated
    assert [line.split()[0] for line in heads if line.endswith(" (simulated only)")] == simulated
    for name in NAMES:
        code, shown, errors = run("show", name)
        comments, drill, steps = shown.partition("drill:")
        assert (code, drill + steps, errors) == (0, (FOLDER / f"{name}.yaml").read_text(), "")
        assert all(line.startswith("# ") for line in comments.splitlines())
    names = {"leader-loss", simulated[0], marked[0]}
    checked = [drill for drill in listed if drill["name"] in names]
    paths = [str(FOLDER / f"{drill['name']}.yaml") for drill in checked]
    code, out, _ = run("check", *paths)
    assert (code, len(out.splitlines())) == (0, len(paths))
    assert (out.count("(only with --real)"), out.count("(only without --real)")) == (1, 1)
    code, out_json, _ = run("check", *paths, "--json")
    assert (code, json.loads(out_json)) == (
        0,
        [
            {"file": path, "drill": of["name"], "worlds": of["worlds"]}
            for path, of in zip(paths, checked, strict=True)
        ],
    )
    invalid = tmp_path / "d.yaml"
    invalid.write_text("drill: x\nabout: x\nsteps:\n  - kill: 7\n")
    code, out_json, errors = run("check", str(invalid), "--json")
    assert (code, out_json) == (2, "")
    assert "the cluster has no broker 7" in json.loads(errors)["error"]["message"]
    bugs = json.loads(run("list", "--bugs", "--json")[1])
    assert [drill["name"] for drill in bugs if drill["name"] not in NAMES] == list(BUGS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "leader-los"], "unknown drill leader-los"),
        (["show", "x"], "unknown drill x"),
        (["check", "leader-los"], "unknown drill leader-los"),
        (["check", ""], "unknown drill ''"),
        (["shrink", "leader-los"], "unknown drill leader-los"),
        (["shrink", "zookeeper-quorum-lost"], "zookeeper-quorum-lost: the step 'lose_quorum' req"),
        (["run", "leader-loss", "--seed", "-1"], "Invalid value for '--seed': must be at least 0"),
        (["run", "nowhere.yaml"], "nowhere.yaml: No such file or directory"),
        (["run", "nowhere.json"], "nowhere.json: No such file or directory"),
        (
            ["run", "leader-loss", "--real", "--seed", "1"],
            "give either --seed or --real, but not both",
        ),
        (
            ["run", "a-day-at-constant-rates", "--real"],
            "a-day-at-constant-rates: the step 'produce_constantly: {t-0: 500, t-1: 100}' requires",
        ),
        (["run", "leader-loss", "--zookeeper", "h:1"], "--zookeeper requires --real"),
        (["run", "leader-loss", "--quirks", "x"], "unknown quirk x"),
        (["run"], "give either drills or --all"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(
    run: RunKlamm, words: list[str], message: str
) -> None:
    code, out, errors = run(*words)
    assert (code, out) == (2, "")
    assert errors.splitlines()[0].startswith(f"error: {message}")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (
            "kafka-13972",
            "KAFKA-13972 is a quirk: klamm drill run reassign-cancel --quirks KAFKA-13972",
        ),
        ("KAFKA-9087", "did you mean kafka-9087?"),
        ("C4", "did you mean c4?"),
        ("kafka-1357", "did you mean kafka-13572?"),
    ],
)
def test_the_name_of_a_quirk_leads_to_the_drills_that_show_it(
    run: RunKlamm, name: str, hint: str
) -> None:
    assert run("run", name) == (2, "", f"error: unknown drill {name}\nhint: {hint}\n")


def test_a_shipped_drill_is_checked_and_shrunk_by_its_name(
    run: RunKlamm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("check", "leader-loss") == (0, "leader-loss: leader-loss is valid\n", "")
    code, out, _ = run("shrink", "idle-broker-dies", "--quirks", "KAFKA-13225")
    assert (code, " runs: idle-broker-dies-shrunk.yaml\n" in out) == (0, True)
    assert run("run", "idle-broker-dies-shrunk.yaml", "--quirks", "KAFKA-13225")[0] == 10


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("kil: 1", "5:5: unknown word in a step 'kil'\nhint: did you mean kill?\n"),
        (
            "kill: leeder of t-0",
            "5:11: 'leeder of t-0' is not a broker\nhint: did you mean leader of t-0?\n",
        ),
        ("stop: 4", "5:11: the cluster has no broker 4\nhint: brokers: 0, 1, 2\n"),
    ],
)
def test_a_wrong_file_is_said_with_its_place_before_anything_runs(
    run: RunKlamm, mine: Any, step: str, error: str
) -> None:
    path = mine(f"  - {step}\n")
    for verb in ("run", "check"):
        words = ("leader-loss", path) if verb == "run" else (path,)
        assert run(verb, *words) == (2, "", f"error: {path}:{error}")


def test_a_check_names_the_step_that_fails_in_simulation(run: RunKlamm, mine: Any) -> None:
    path = mine("  - kill: 1\n  - stop: leader of t-1\n")
    failure = (
        "expected 'stop: leader of t-1' to succeed, seen cannot act on the leader of t-1: the "
        "partition does not exist"
    )
    hint = "klamm drill run shows the steps before it"
    assert run("check", path) == (2, "", f"error: {path}:6:5: {failure}\nhint: {hint}\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "Object missing required field `brokers`"),
        ("[]", ""),
        ("", "Input data was truncated"),
        ('{"steps": [{}]}', "Object missing required field `step`"),
        ("\xff", ""),
    ],
)
def test_a_json_file_that_is_no_recording_is_refused(
    run: RunKlamm, tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="latin-1")
    code, _, errors = run("run", str(path))
    assert code == 2
    assert errors.startswith(f"error: {path} is not a recorded scenario: {problem}")


@pytest.mark.parametrize(
    ("changed", "value"),
    [
        ("brokers", 0),
        ("brokers", -1),
        ("steps.3.step.broker", "x"),
        ("steps.3.step.broker", 3),
        ("steps.1.step.args", [1]),
        ("steps.1.step.until", [{"leader": 3}]),
        ("steps.1.tool", {"stdout": 1}),
        ("steps.1.zk_writes", [["create", "/a"]]),
        ("steps.1.transitions", [["partition", "t-0"]]),
        ("steps.1.requests", [{"api": "UpdateMetadata"}]),
        ("steps.1.tree", {"/brokers/topics/t/partitions/0/state": {}}),
    ],
)
def test_a_malformed_recording_is_refused_before_anything_runs(
    run: RunKlamm, tmp_path: Path, changed: str, value: object
) -> None:
    scenario = json.loads((RECORDINGS / "bounce_registration.json").read_text())
    *way, last = (int(name) if name.isdecimal() else name for name in changed.split("."))
    place: Any = scenario
    for name in way:
        place = place[name]
    assert last in place
    place[last] = value
    path = tmp_path / "x.json"
    path.write_text(json.dumps(scenario))
    code, _, errors = run("run", str(path))
    assert (code, errors.count("\n")) == (2, 2), errors
    assert errors.startswith(f"error: {path} is not a recorded scenario: ")


def test_a_recording_with_an_unknown_step_is_refused(run: RunKlamm, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("columns", [60, 90])
def test_the_list_of_drills_wraps_at_the_width_of_the_terminal(
    tmp_path: Path, columns: int
) -> None:
    with on_terminal(tmp_path, "drill", "list", columns=columns) as process:
        process.expect(pexpect.EOF)
        lines = str(process.before).splitlines()
    assert columns - 10 <= max(map(len, lines)) <= columns


def test_a_drill_that_kills_zookeeper_servers_needs_the_embedded_ones() -> None:
    name = "zookeeper-leader-killed"
    assert isinstance(find_for_world(name, World.ZOOKEEPER, None), Drill)
    with pytest.raises(UsageError, match="requires klamm's embedded ZooKeeper") as caught:
        find_for_world(name, World.ZOOKEEPER, "zk:1")
    assert caught.value.hint == "run it without --zookeeper"
