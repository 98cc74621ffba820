"""Hunts: drawn drills repeat exactly, find known bugs, and shrink to the steps that matter."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from klamm.cli.main import main
from klamm.cluster.quirks import NO_QUIRKS, parse_quirks
from klamm.lab.drills.library import ALL
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.hunt.drawing import draw_drill
from klamm.lab.hunt.drawn_steps import FAULTS
from klamm.lab.hunt.hunting import (
    ENDS_IN_TIME,
    HuntOptions,
    RunSeed,
    SeedResult,
    hunt,
    run_seed,
    run_text,
    shrink_failure,
)
from klamm.lab.hunt.processes import Died, run_parallel
from klamm.lab.hunt.shrinking import shrink
from klamm.lab.language.language import parse_drill
from klamm.lab.run.drill_run import Outcome, Verdict, play
from tests.journal_bytes import journal_bytes
from tests.sim.drills import run_drill

ROOT = Path(__file__).parents[2]
SEEDS = range(4)
STOPPED_WHILE_ZOOKEEPER_IS_SLOW = 1167
HEAD = (
    "drill: d\nabout: x\ntolerant: true\nalways: all\ncluster: {topics: {t: [[0, 1, 2]]}}\nsteps:\n"
)
TRACED = (*range(20), *range(30, 40), 192, 529)
"""The seeds of all hunts in the test suite, and more."""
PRINTS_TRACES = """
from klamm.lab.hunt.drawing import draw_drill
from klamm.lab.drills.library import ALL, named_text
from tests.sim.test_hunt import TRACED, trace
for seed in TRACED:
    print(f"seed {seed}:", trace(draw_drill(seed), seed))
for name in ALL:
    print(f"{name}:", trace(named_text(name), 0))
"""


def trace(text: str, seed: int) -> str:
    """A digest of a drill's text, and of the journal of its run. Nothing if it is real-only."""
    drill = parse_drill(text, "d.yaml")
    if drill.real_only is not None:
        return ""
    world = drill.simulated_world(NO_QUIRKS, seed)
    for _ in play(drill, SimulatedDriver(world)):
        pass
    return hashlib.sha256(text.encode() + journal_bytes(world.journal.rows)).hexdigest()


def run(steps: str, seed: int = 0) -> tuple[Verdict, list[str | None]]:
    """Run a tolerant drill; its verdict, and why steps were skipped."""
    drill = parse_drill(HEAD + steps, "d.yaml")
    *results, verdict = play(drill, SimulatedDriver(drill.simulated_world(NO_QUIRKS, seed)))
    return verdict, [result.refusal for result in results[2:]]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_seed_gives_the_same_drill_and_journal_in_every_process() -> None:
    """Sets of strings have another order in each of the two processes."""

    def printed(hash_seed: str) -> list[str]:
        ended = subprocess.run(
            [sys.executable, "-c", PRINTS_TRACES],
            cwd=ROOT,
            env={"PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=500,
            check=True,
        )
        return ended.stdout.splitlines()

    with ThreadPoolExecutor() as pool:
        one, other = pool.map(printed, ("1", "2"))
    assert len(one) == len(TRACED) + len(ALL)
    assert one == other


@pytest.mark.parametrize("seed", [*SEEDS, STOPPED_WHILE_ZOOKEEPER_IS_SLOW])
def test_a_drawn_drill_passes(seed: int) -> None:
    result = run_seed(seed, HuntOptions())
    assert (result.violated, result.seen) == ("", "")
    assert result.actions > 5


WORDS = {
    "network": "degrade_network",
    **dict.fromkeys(("cut-zookeeper", "cut-controller", "cut-clients", "one-way", "split"), "cut"),
    "delay-zookeeper": "delay",
    "control-requests": "degrade_network",
    "stale-reads": "lag_zookeeper",
    "clock": "skew_clock",
    "zombies": "steps: [{pause: controller}",
    "pending": "steps: [{pause: ",
    "phase": "steps: [{steps: [{pause: ",
    "session": "expire_session",
    "lost-reply": "lose_reply",
    "log-dir": "fail_log_dir",
    "disk": "fail_disk",
    "authentication": "fail_authentication",
    "moment": "{before: {event",
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_drawn_and_can_be_asked_for(name: str) -> None:
    texts = [draw_drill(seed, [name]) for seed in range(20)]
    for text in texts[:2]:
        parse_drill(text, "d.yaml")
    word = WORDS.get(name, name.replace("-", "_"))
    assert any(f"  - {word}" in text for text in texts)
    others = {WORDS.get(other, other.replace("-", "_")) for other in FAULTS} - {word}
    assert not any(f"  - {other}:" in text for other in others for text in texts)


def test_the_sessions_of_two_zombies_expire_while_they_are_paused() -> None:
    pause = "{pause: controller}, {wait: (\\d+)ms}"
    zombies = re.compile(f"  - steps: \\[{pause}, {pause}, {{resume: paused}}\\]\n")
    waits = set()
    for text in (draw_drill(seed, ["zombies"]) for seed in range(20)):
        timeout_ms = re.findall(r"session_timeout: (\d+)ms", text)[0]
        waits |= {int(ms) - int(timeout_ms) for pair in zombies.findall(text) for ms in pair}
    assert waits == {50, 500}


def test_drawn_drills_wait_for_events_milliseconds_or_seconds() -> None:
    drills = "".join(draw_drill(seed, ()) for seed in range(30))
    waits = set(re.findall(r"  - (?:advance|wait): (.*)", drills))
    events, milliseconds = {"1", "3", "10", "30", "100"}, {"5ms", "20ms", "100ms", "300ms"}
    # The last three are the waits after which a drawn drill looks at the cluster.
    assert waits == events | milliseconds | {"1s", "2s", "4s", "8s", "10s", "40s", "330s"}


@pytest.mark.parametrize(("fault", "wait_s"), [("stop", "40"), ("kill", "10")])
def test_a_shutdown_may_end_before_a_broker_is_started_for_a_comparison(
    fault: str, wait_s: str
) -> None:
    """In hunt seed 6861, broker 0 was still stopping, and all other brokers were dead."""
    texts = [draw_drill(seed, [fault]) for seed in range(5)]
    waits = [re.findall(r"resume: each\]}\n  - wait: (\d+)s\n  - start: 0\n", t) for t in texts]
    assert waits == [[wait_s]] * 5


def test_impossible_steps_are_skipped_if_a_drill_is_tolerant() -> None:
    verdict, skipped = run("  - start: 1\n  - kill: 1\n  - kill: 1\n  - elect_preferred: [t-0]\n")
    assert verdict.outcome is Outcome.PASSED, verdict.failures
    assert skipped == ["broker 1 is already running", None, "broker 1 is not running", None]
    # What is skipped does not count as carried out.
    texts = (f"{HEAD}  - kill: 1\n", f"{HEAD}  - start: 1\n  - kill: 1\n")
    assert len({run_text(text, "d", 0, NO_QUIRKS).actions for text in texts}) == 1


def test_a_seed_whose_process_died_is_inconclusive_and_the_hunt_goes_on() -> None:
    def run_all(run: RunSeed, seeds: Iterable[int]) -> Iterator[tuple[int, Exception]]:
        return ((seed, Died("the process died")) for seed in seeds)

    first, second = hunt([3, 4], HuntOptions(faults=("kill",)), run_all)
    assert (first.seed, second.seed, first.actions, first.simulated_ms) == (3, 4, 0, 0)
    assert (first.outcome, first.violated) == (Outcome.INCONCLUSIVE, "no internal error")
    assert (first.seen, first.drill) == ("the process died", draw_drill(3, ["kill"]))
    assert not first.has_ended


def test_an_error_inside_klamm_is_a_failure_of_the_drill(monkeypatch: pytest.MonkeyPatch) -> None:
    def advance(_: SimulatedDriver, count: int) -> None:
        raise ZeroDivisionError(count)

    monkeypatch.setattr(SimulatedDriver, "advance", advance)
    found = run_text(f"{HEAD}  - wait: 1s\n  - advance: 7\n", "d.yaml", 0, NO_QUIRKS)
    (failure,) = found.verdict.failures
    assert (found.verdict.outcome, failure.place) == (Outcome.UNSAFE, "d.yaml")
    assert (failure.expected, failure.seen) == ("no internal error", "ZeroDivisionError: 7")
    assert (found.simulated_ms, found.verdict.at_ms) == (5_000, 5_000)


def test_a_hunt_whose_time_is_over_runs_no_more_seeds() -> None:
    def run_all(run: RunSeed, seeds: Iterable[int]) -> Iterator[tuple[int, SeedResult]]:
        return ((seed, run(seed)) for seed in seeds)

    assert list(hunt(range(9), HuntOptions(), run_all, seconds=0)) == []


def test_steps_happen_in_the_middle_of_events() -> None:
    """After some steps of its actors the controller has written some znodes of a new topic."""
    written = set()
    for count in range(1, 40, 2):
        create = "run: topics --zookeeper {zk} --create --topic u --replica-assignment 0:1"
        drill = parse_drill(f"{HEAD}  - {create}\n  - advance: {count}\n  - wait: 1s\n", "d.yaml")
        world = drill.simulated_world(NO_QUIRKS, 1)
        for part in play(drill, SimulatedDriver(world)):
            if isinstance(part, Verdict) or part.step.name.startswith("advance"):
                break
        written.add(sum(path.startswith("/brokers/topics/u") for path in world.server.tree.nodes))
    assert written == {1, 2, 3, 4}


def test_heal_all_makes_a_cluster_with_faults_healthy(tmp_path: Path) -> None:
    verdict, _ = run(
        "  - kill: 1\n  - pause: 2\n  - stop: 2\n  - isolate: [0]\n"
        "  - degrade_network: {loss: 0.5}\n  - wait: 20s\n  - heal_all\n"
        "  - until: {healthy: true}\n"
    )
    assert verdict.outcome is Outcome.PASSED, verdict.failures


def test_a_trigger_that_never_occurs_is_skipped_if_a_drill_is_tolerant() -> None:
    """After heal_all the trigger occurs, but nothing waits for it any more."""
    armed = "  - before: {event: TopicChange}\n    kill: 1\n  - heal_all\n"
    create = "  - run: topics --zookeeper {zk} --create --topic u --replica-assignment 0:1\n"
    verdict, _ = run(f"{armed}{create}  - until: {{healthy: true}}\n  - wait: 9s\n")
    assert verdict.outcome is Outcome.PASSED, verdict.failures
    drill = parse_drill(HEAD.replace("tolerant: true\n", "") + armed, "d.yaml")
    assert run_drill(drill).outcome is Outcome.INCONCLUSIVE


def test_steps_that_repeat_go_on_after_a_recovery_in_a_branch() -> None:
    repeated = "  - {every: 1s, create_znode: {/a: x}}\n"
    parallel = "  - parallel: [[heal_all, wait: 5s], wait: 5s]\n"
    _, skipped = run(f"{repeated}{parallel}  - wait: 1s\n")
    # The first creates the znode, the others find it.
    assert skipped.count("cannot write /a: NODEEXISTS") >= 3


def test_a_violation_in_parallel_steps_is_no_internal_error() -> None:
    text = f"{HEAD}  - parallel: [[stop: 1], [wait: 9s]]\n"
    found = run_text(text, "d.yaml", 0, parse_quirks(["C7"]))
    assert found.violated.startswith("always shutdown-stops-followers: ")


def test_brokers_agree_although_others_are_dead_and_a_deletion_waits() -> None:
    """For a moment after a broker's death, the others do not know it."""
    verdict, _ = run(
        "  - kill: 2\n    until: {unregistered: [2]}\n"
        "  - create_znode: {/admin/delete_topics/t: null}\n  - until: {agrees: true}\n"
        "  - move_controller\n  - until: {agrees: true}\n  - heal_all\n"
    )
    assert verdict.outcome is Outcome.PASSED, verdict.failures
    verdict, _ = run("  - pause: 1\n  - wait: 20s\n  - until: {agrees: true}\n    within: 1s\n")
    assert verdict.outcome is Outcome.STUCK
    assert "brokers 0,1,2 are running" in verdict.failures[0].seen


def test_an_unhealthy_cluster_is_described() -> None:
    verdict, _ = run("  - kill: 1\n  - wait: 9s\n  - until: {healthy: true}\n    within: 1s\n")
    (failure,) = verdict.failures
    assert verdict.outcome is Outcome.STUCK
    assert "brokers [0, 2] are registered" in failure.seen
    assert "t-0: leader 0, ISR [0, 2], replicas [0, 1, 2]" in failure.seen
    # The controller is asked for what it cannot do while all other brokers are dead.
    verdict, _ = run(
        "  - kill: [0, 1, 2]\n  - wait: 9s\n  - create_znode: {/admin/delete_topics/t: null, "
        "/admin/reassign_partitions: x}\n  - until: {healthy: true}\n    within: 1s\n"
    )
    (failure,) = verdict.failures
    assert "topic t is queued for deletion" in failure.seen
    assert "/admin/reassign_partitions exists" in failure.seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("quirk", "faults", "first", "invariant"),
    [
        ("KAFKA-13972", ("kill", "pause"), 30, "stop-replica-has-a-new-epoch"),
        ("C7", ("stop",), 1, "shutdown-stops-followers"),
    ],
)
def test_a_known_bug_is_found_and_shrunk(
    quirk: str, faults: tuple[str, ...], first: int, invariant: str
) -> None:
    options = HuntOptions(quirks=parse_quirks([quirk]), faults=faults)
    result = next(
        r for r in hunt(range(first, 300), options, partial(run_parallel, jobs=1)) if r.violated
    )
    assert result.violated.startswith(f"always {invariant}: ")
    assert result.shrunk is not None
    assert result.shrunk.steps_before > 10
    assert result.shrunk.steps_after <= 6
    again = run_text(result.shrunk.text, "d.yaml", result.seed, options.quirks)
    assert again.violated == result.violated
    assert run_text(result.shrunk.text, "d.yaml", result.seed, NO_QUIRKS).violated == ""


# The commands.


@pytest.fixture
def waits_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands say at once, not after two seconds, what they wait for."""
    monkeypatch.setattr("klamm.cli.waiting.PLAIN_AFTER_S", 0)


@pytest.fixture
def klamm(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run `klamm` with these words: its exit code and what it printed."""

    def run(*words: str) -> tuple[int, str, str]:
        return main(list(words)), *capsys.readouterr()

    return run


STUCK = """\
drill: stuck
about: The only replica of a partition is dead.
cluster: {topics: {t: [[0]], u: [[1]]}}
tolerant: true
steps:
  - move_controller
  - kill: 0
  - produce: {u-0: 5}
  - until: {leader: {t-0: 0}, leader_epoch: {t-0: 9}}
"""


def test_only_the_last_recovery_is_kept_whole() -> None:
    steps = ["kill: 1", "heal_all", "wait: 1s", "kill: 2", "heal_all", "wait: 30s"]
    text = HEAD + "".join(f"  - {step}\n" for step in steps)
    shrunk = shrink(text, lambda candidate: "kill: 2" in candidate, needs_recovery=True)
    assert (shrunk.steps_before, shrunk.steps_after) == (6, 3)
    assert shrunk.text.endswith("steps:\n- kill: 2\n- heal_all\n- wait: 30s\n")


def test_a_recovery_that_is_needed_stays() -> None:
    text = HEAD + "".join(
        f"  - {step}\n" for step in ("kill: 1", "kill: 2", "heal_all", "wait: 1s")
    )
    shrunk = shrink(
        text,
        lambda candidate: "kill: 2" in candidate and "heal_all" in candidate,
        needs_recovery=False,
    )
    assert shrunk.text.endswith("steps:\n- kill: 2\n- heal_all\n- wait: 1s\n")
    assert "checks" not in shrunk.text


def test_steps_inside_other_steps_are_removed_and_unwrapped() -> None:
    steps = ["parallel: [[{kill: 0}, {kill: 1}], [{kill: 2}]]", "steps: [{kill: 0}, {stop: 1}]"]
    text = HEAD + "".join(f"  - {step}\n" for step in [*steps, "heal_all"])
    shrunk = shrink(text, lambda one: "kill: 2" in one and "stop: 1" in one, needs_recovery=True)
    assert (shrunk.steps_before, shrunk.steps_after) == (6, 3)
    assert shrunk.text.endswith("steps:\n- {kill: 2}\n- {stop: 1}\n- heal_all\n")


def test_steps_that_must_run_at_the_same_time_stay_in_parallel() -> None:
    text = f"{HEAD}  - parallel: [[{{kill: 0}}], [{{kill: 1}}, {{kill: 2}}]]\n  - heal_all\n"
    shrunk = shrink(text, lambda one: "parallel" in one and "kill: 2" in one, needs_recovery=True)
    assert shrunk.steps_after == 2
    assert shrunk.text.endswith("steps:\n- parallel: [[{kill: 2}]]\n- heal_all\n")


def test_waits_are_joined() -> None:
    steps = ["wait: 2s", "wait: 300ms", "kill: 2", "wait: 1s", "heal_all"]
    text = HEAD + "".join(f"  - {step}\n" for step in steps)

    def waits_long_enough(candidate: str) -> bool:
        waits = re.findall(r"wait: (\d+)(m?s)", candidate)
        return sum(int(n) * (1000 if unit == "s" else 1) for n, unit in waits) == 3_300

    shrunk = shrink(text, waits_long_enough, needs_recovery=True)
    assert shrunk.text.endswith("steps:\n- wait: 3300ms\n- heal_all\n")


def test_nothing_is_kept_after_a_violated_invariant() -> None:
    quirks = parse_quirks(["C7"])
    steps = ["wait: 1s", "stop: 1", "wait: 9s", "kill: 2", "heal_all", "until: {healthy: true}"]
    text = HEAD + "".join(f"  - {step}\n" for step in steps)
    violated = run_text(text, "d.yaml", 0, quirks).violated
    shrunk = shrink_failure(text, 0, quirks, violated)
    assert shrunk.text.endswith("steps:\n- stop: 1\n- wait: 9s\nchecks: false\n")
    assert run_text(shrunk.text, "d.yaml", 0, quirks).violated == violated
    assert run_text(shrunk.text, "d.yaml", 0, NO_QUIRKS).violated == ""


def test_a_smaller_drill_that_violates_another_condition_is_not_taken() -> None:
    """Without its first step, the drill fails at the second one. Broker 0 is the leader."""
    steps = "  - until: {leader: {t-0: 1}}\n  - until: {leader: {t-0: 2}}\n  - heal_all\n"
    shrunk = shrink_failure(HEAD + steps, 0, NO_QUIRKS, "leader: {t-0: 1}")
    assert (shrunk.steps_before, shrunk.steps_after) == (3, 2)
    assert run_text(shrunk.text, "d.yaml", 0, NO_QUIRKS).violated == "leader: {t-0: 1}"


@pytest.mark.usefixtures("waits_are_long")
def test_a_drill_is_shrunk_to_a_file_that_fails_alike(klamm: Any, tmp_path: Path) -> None:
    path = tmp_path / "stuck.yaml"
    path.write_text(STUCK)
    code, out, waits = klamm("drill", "shrink", str(path))
    assert waits == f"waiting for {path} to run\nwaiting for {path} to be shrunk\n"
    shrunk = tmp_path / "stuck-shrunk.yaml"
    assert code == 0
    assert "shrunk from 4 steps to 1 in " in out
    assert str(shrunk) in out
    assert "move_controller" not in shrunk.read_text()
    assert klamm("drill", "run", str(shrunk))[0] == 11
    assert out.endswith(f"\nas a test: {tmp_path / 'test_stuck.py'}\n")
    before = shrunk.read_text()
    code, out, errors = klamm("drill", "shrink", str(path))
    assert (code, out) == (2, "")
    assert errors == f"error: {shrunk} already exists\nhint: --overwrite replaces it\n"
    assert shrunk.read_text() == before
    path.write_text(STUCK.replace(", leader_epoch: {t-0: 9}", "").replace("kill: 0", "kill: 2"))
    code, out, _ = klamm("drill", "shrink", str(path), "--overwrite")
    assert (code, out) == (1, f"{path} passes with seed 0: there is nothing to shrink\n")


@pytest.mark.usefixtures("waits_are_long")
def test_a_hunt_counts_and_writes_nothing_if_nothing_is_found(klamm: Any, tmp_path: Path) -> None:
    out = tmp_path / "found"
    code, printed, waits = klamm("hunt", "--seeds", "2..3", "--jobs", "1", "--out", str(out))
    assert (code, waits) == (0, "waiting for the hunt to end\n")
    assert printed.startswith("2 seeds (")
    assert printed.endswith(" times real time), 0 violations\n")
    assert not out.exists()


COUNTS_EACH_SEED = """
import sys
from klamm.cli import hunt
from klamm.cli.main import main
hunt._LINE_INTERVAL_S = 0.0
sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_prints_the_counts_of_a_hunt_so_far(tmp_path: Path) -> None:
    words = ("-c", COUNTS_EACH_SEED, "hunt", "--jobs", "1", "--out", str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("1 seed ("):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate()
    assert (process.returncode, errors.splitlines()[-1]) == (130, "Interrupted")
    assert re.fullmatch(r"\d+ seeds? \(.* times real time\), \d+ violations?\n", out), out


@pytest.mark.usefixtures("waits_are_long")
def test_a_hunt_without_a_terminal_prints_its_counts_now_and_then(
    klamm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("klamm.cli.hunt._LINE_INTERVAL_S", 0.0)
    words = ("hunt", "--seeds", "2..3", "--jobs", "1", "--out", str(tmp_path / "found"))
    _, _, errors = klamm(*words)
    assert re.findall(r"^(\d seeds?) \(", errors, re.M) == ["1 seed", "2 seeds"]


def test_a_violation_is_written_and_can_be_repeated(klamm: Any, tmp_path: Path) -> None:
    out = tmp_path / "found"
    words = ("hunt", "--seeds", "7..7", "--quirks", "C7", "--no-shrink", "--out", str(out))
    code, printed, _ = klamm(*words, "--jobs", "1", "--json")
    (found,) = json.loads(printed)["violations"]
    assert code == 10
    assert found["violated"].startswith("always shutdown-stops-followers: ")
    command = found["repeat"].split()
    assert command[-4:] == ["--seed", "7", "--quirks", "C7"]
    page = Path(found["page"]).read_text(encoding="utf-8")
    assert found["page"] == str(out / "hunt-7.html")
    assert f"<dd>{found['repeat']}</dd>" in page
    assert found["violated"].removeprefix("always ") in page
    code, printed, _ = klamm(*command[1:])
    assert code == 10
    assert found["seen"] in printed


def test_what_is_printed_of_a_shrunk_drill_is_what_its_run_prints(
    klamm: Any, tmp_path: Path
) -> None:
    words = ("hunt", "--seeds", "7..7", "--quirks", "C7", "--out", str(tmp_path), "--jobs", "1")
    _, printed, _ = klamm(*words)
    _, shrunk, seen, command, test, _, _ = printed.splitlines()
    assert test == f"  as a test: {tmp_path / 'test_hunt_7.py'}"
    assert re.fullmatch(r"  shrunk from \d+ steps? to \d+", shrunk)
    again = klamm(*command.removeprefix("  repeat it with: klamm ").split())[1]
    assert f"seen {seen.strip()}\n" in again


def test_where_nothing_can_be_written_is_said_before_the_hunt(klamm: Any, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    code, printed, errors = klamm("hunt", "--seeds", "9999999", "--out", str(file / "found"))
    assert (code, printed) == (1, "")
    assert errors == (
        f"error: {file}/found cannot be written: Not a directory\n"
        "hint: choose another directory with --out\n"
    )


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_violation_is_printed_although_its_file_cannot_be_written(
    klamm: Any, tmp_path: Path, more: tuple[str, ...]
) -> None:
    (tmp_path / "hunt-7.yaml").mkdir()
    words = ("hunt", "--seeds", "7..7", "--quirks", "C7", "--no-shrink", "--out", str(tmp_path))
    code, printed, errors = klamm(*words, "--jobs", "1", *more)
    assert (code, "hunt-7.yaml cannot be written: File exists" in errors) == (1, True)
    if more:
        (found,) = json.loads(printed)["violations"]
        repeat = found["repeat"]
    else:
        assert printed.startswith("seed 7: always shutdown-stops-followers: ")
        *_, command, counts = printed.splitlines()
        repeat = command.removeprefix("  repeat it with: ")
        assert counts.startswith("1 seed (")
    assert repeat == "klamm hunt --seeds 7..7 --quirks C7"


def test_a_final_check_that_hangs_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(driver: SimulatedDriver) -> list[str]:
        while True:
            pass

    monkeypatch.setattr(SimulatedDriver, "disagreements", hang)
    verdict = run_text(f"{HEAD}  - wait: 1s\n", "d.yaml", 0, NO_QUIRKS, time_limit_s=0.5).verdict
    (failure,) = verdict.failures
    assert (verdict.outcome, failure.place) == (Outcome.STUCK, "d.yaml")
    assert failure.seen.startswith("still in the final check at ")


def test_a_seed_that_hangs_is_reported_and_the_hunt_continues(
    monkeypatch: pytest.MonkeyPatch, klamm: Any, tmp_path: Path
) -> None:
    real_advance = SimulatedDriver.advance
    hung = []

    def advance(driver: SimulatedDriver, count: int) -> None:
        while not hung or driver.cluster.spec.seed in hung:
            hung[:] = [driver.cluster.spec.seed]
        real_advance(driver, count)

    monkeypatch.setattr(SimulatedDriver, "advance", advance)
    first = next(seed for seed in range(50) if "\n  - advance: " in draw_drill(seed))
    seeds = f"{first}..{first + 1}"
    words = ("hunt", "--seeds", seeds, "--jobs", "1", "--seed-timeout", "2", "--json")
    code, printed, _ = klamm(*words, "--out", str(tmp_path))
    values = json.loads(printed)
    (found,) = values["violations"]
    assert (code, values["seeds"], found["seed"]) == (11, 2, first)
    assert found["violated"] == "the run ends within the time limit"
    assert found["seen"].startswith("still in step 'advance: ")
    # A drawn drill takes minutes of simulated time, not days.
    assert re.search(r"' at \d{1,3}\.\d{3} s of simulated time$", found["seen"])
    path = tmp_path / f"hunt-{first}.yaml"
    assert found["repeat"] == f"klamm drill run {path} --seed {first}"
    assert "page" not in found


def test_a_process_that_dies_costs_only_its_input() -> None:
    """SIGKILL ends a process, as the kernel does when memory runs out; the others are ignored."""
    sent = (signal.SIGURG, signal.SIGKILL, signal.SIGCONT, signal.SIGWINCH)
    results = dict(run_parallel(signal.raise_signal, sent, 2))
    assert str(results.pop(signal.SIGKILL)) == "its process ended with exit code -9"
    assert results == {signal.SIGURG: None, signal.SIGCONT: None, signal.SIGWINCH: None}


def test_a_killed_hunt_leaves_no_process_and_no_directory(tmp_path: Path) -> None:
    """The workers have its output, which ends when the last of them has ended."""
    words = ("hunt", "--seeds", "100000", "--jobs", "2", "--no-shrink", "--quirks", "2.8.2")
    (folder := tmp_path / "tmp").mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "klamm", *words, "--out", str(tmp_path / "hunt")],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline().startswith("seed ")
        run.kill()
        run.communicate(timeout=60)
    assert not list(folder.glob("klamm-hunt-*"))


@pytest.mark.parametrize("seed", [192, 529])
def test_what_a_broker_cannot_know_is_no_violation(seed: int) -> None:
    """192: a broker is registered again while it processes a request for the earlier registration.

    529: a leader that writes ISRs itself adds a replica whose broker is shutting down."""
    assert violated_in_a_hunt(seed) == ""


def test_a_dead_replica_leaves_an_isr_that_only_zookeeper_has() -> None:
    """The leader wrote the ISR itself, and restarted before it notified the controller."""
    assert violated_in_a_hunt(50074) == ""


def test_a_repeated_batch_on_a_failed_disk_is_answered_with_an_error() -> None:
    """The leader reads the repeated batch's epoch from its log."""
    assert violated_in_a_hunt(6636) == ""


def violated_in_a_hunt(seed: int) -> str:
    """Run a drill that a hunt has found; what it violates."""
    text = (ROOT / f"tests/data/hunts/{seed}.yaml").read_text()
    return run_text(text, "d.yaml", seed, NO_QUIRKS).violated


@pytest.mark.slow
def test_several_processes_give_the_same_results(klamm: Any, tmp_path: Path) -> None:
    results = []
    for jobs in ("1", "2"):
        code, printed, _ = klamm("hunt", "--seeds", "6", "--jobs", jobs, "--json")
        values = json.loads(printed)
        results.append((code, values["seeds"], values["actions"], values["simulated_ms"]))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "x"], "--seeds x is not a count or a range"),
        (["--seeds", "7..3"], "--seeds 7..3: the range is empty"),
        (["--seeds", "0"], "--seeds 0 runs no drill"),
        (["--faults", ""], "unknown fault ''"),
        (["--spark", "local[2]", "--jobs", "2"], "give either --jobs or --spark, not both"),
        (["--spark", "nowhere"], "nowhere is not a Spark master URL"),
        (["--faults", "kill,kill"], "the fault kill is given twice"),
    ],
)
def test_a_wrong_option_is_refused(klamm: Any, words: list[str], message: str) -> None:
    code, _, errors = klamm("hunt", *words)
    assert code == 2
    assert message in errors


@pytest.mark.usefixtures("waits_are_long")
def test_a_crash_points_run_repeats_and_finds_a_bug_of_failovers(klamm: Any) -> None:
    """With C9 the next controller leaves replicas that an override has dropped where they are."""
    words = ["drill", "crash", "reassign-override-drops-leader", "--jobs", "1"]
    code, printed, _ = klamm(*words, "--points", "262..264", "--quirks", "C9", "--json")
    values = json.loads(printed)
    assert (code, values["points"], values["converged"]) == (11, 3, 1)
    first, second = values["failures"]
    assert [(f["crash"], f["moment"]) for f in (first, second)] == [
        ("restart", "after"),
        ("takeover", "after"),
    ]
    assert first["text"] == "SetData /brokers/topics/t"
    command = first["repeat"].split()
    assert command[-6:] == ["--seed", "0", "--points", "262", "--quirks", "C9"]
    code, printed, _ = klamm(*command[1:], "--jobs", "1")
    assert code == 11
    assert first["seen"] in printed
    code, printed, waits = klamm(*words, "--points", "262..264")
    assert code == 0
    assert waits == (
        "waiting for the drill to run without a crash\nwaiting for 3 crash points to be run\n"
    )
    assert re.fullmatch(
        r"event +restart +takeover +resume\n"
        r"ApiPartitionReassignment +1 of 1 +1 of 1 +1 of 1\n"
        r"3 crash points: 3 converged, 0 did not \(.*/s\)\n",
        printed,
    )


@pytest.mark.usefixtures("waits_are_long")
def test_a_broker_registers_itself_if_its_controller_crashes_in_a_new_session(
    klamm: Any, tmp_path: Path
) -> None:
    """The controller was about to register the broker, or had not told it its epoch yet."""
    path = tmp_path / "expires.yaml"
    path.write_text("drill: d\nabout: x\nsteps:\n  - expire_session: 1\n")
    code, printed, _ = klamm("drill", "crash", str(path), "--points", "181..186", "--jobs", "1")
    assert re.search(r"^RegisterBrokerAndReelect +2 of 2 +2 of 2 +2 of 2$", printed, re.M), printed
    assert code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["leader-loss", "--points", "x"], "--points x is not a range"),
        (["leader-loss", "--points", "0..7"], "--points 0..7: the drill has crash points 1 to "),
        (["no-drill"], "no-drill"),
        (["zookeeper-quorum-lost"], "crash points exist only in the simulated world"),
        (["leader-loss", "--seed", "-1"], "must be at least 0, not -1"),
        (["controller-killed-before-b6"], "has steps that do not run one after the other"),
    ],
)
def test_a_wrong_option_of_crash_is_refused(klamm: Any, words: list[str], message: str) -> None:
    code, _, errors = klamm("drill", "crash", *words)
    assert code == 2
    assert message in errors


@pytest.mark.parametrize(
    ("rest", "code", "message"),
    [
        (
            "  - kill: 0\n    expect: {leader: {t-0: 2}}\n",
            1,
            "d.yaml:6:14: d fails without a crash: expected leader: {t-0: 2}, seen {t-0: 0}\n"
            "hint: klamm drill run shows the steps before it\n",
        ),
        (
            "  - kill: 0\nsometimes: [{leader: {t-0: 0}, isr: {t-0: [0]}}]\n",
            12,
            "d is inconclusive without a crash",
        ),
        ("  - {kill: 0, until: {leader: {t-0: 2}}, within: 4s}\n", 1, "d fails without a crash"),
        ("  - {at: 1s, kill: 0}\n  - wait: 2s\n", 2, "do not run one after the other"),
        ("  - lose_request: 0\n", 2, "breaks a connection at an operation itself"),
        ("  - lose_reply: 0\n", 2, "breaks a connection at an operation itself"),
    ],
)
def test_a_drill_that_fails_or_breaks_connections_itself_has_no_crash_points(
    klamm: Any, tmp_path: Path, rest: str, code: int, message: str
) -> None:
    path = tmp_path / "d.yaml"
    path.write_text("drill: d\nabout: x\ncluster: {topics: {t: [[0, 1, 2]]}}\nsteps:\n" + rest)
    seen, _, errors = klamm("drill", "crash", str(path), "--jobs", "1")
    assert (seen, message in errors) == (code, True), errors


def test_a_violation_while_branches_run_has_the_name_of_its_invariant() -> None:
    steps = (
        "  - parallel:\n"
        "    - [reassign: {t-0: [0, 1, 3]}]\n"
        "    - [wait: 5ms, reassign: {t-0: [0, 1, 2]}, wait: 1s]\n"
    )
    head = HEAD.replace("{topics", "{brokers: 4, topics")
    found = run_text(head + steps, "d.yaml", 0, parse_quirks(["KAFKA-13972"]))
    assert found.violated.startswith("always stop-replica-has-a-new-epoch: ")


def test_calls_end_with_an_expired_session_although_its_link_is_cut_again() -> None:
    assert violated_in_a_hunt(413) == ""


@pytest.mark.parametrize(
    ("outcome", "violated", "has_ended"),
    [
        (Outcome.UNSAFE, "the leader is in the ISR", True),
        (Outcome.STUCK, ENDS_IN_TIME, False),
        (Outcome.INCONCLUSIVE, "", False),
        (Outcome.PASSED, "", True),
    ],
)
def test_a_run_that_was_cut_short_cannot_be_repeated(
    outcome: Outcome, violated: str, has_ended: bool
) -> None:
    assert SeedResult(1, outcome, violated, "", "", 0.0, 0).has_ended is has_ended
