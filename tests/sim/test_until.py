"""lab/run/until.py: a drill stops at any moment, without an effect on its journal so far."""

from __future__ import annotations

import random

import pytest

from klamm.cluster.errors import NotFound, UsageError
from klamm.cluster.quirks import NO_QUIRKS, parse_quirks
from klamm.lab.drills.library import NAMES, named_drill, named_text
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.language.language import parse_drill
from klamm.lab.run.drill_run import Outcome, play
from klamm.lab.run.runner import StepResult
from klamm.lab.run.until import RunUntil, parse_moment
from klamm.world.status import simulated_status
from tests.journal_bytes import journal_bytes

SIMULATED = [name for name in NAMES if named_drill(name).real_only is None]
DRILL = """\
drill: mine
about: x
cluster:
  topics:
    t: [[0, 1, 2]]
always: all
steps:
  # The leader dies.
  - kill: 0
    until: {leader: {t-0: 1}}
  - for_each: [1, 2]
    steps:
      - wait: 20s
      - produce: {t-0: 10}
  - start: dead
eventually:
  healthy: true
"""
TRIGGERED = """\
drill: triggered
about: x
cluster: {topics: {t: [[0, 1, 2]]}}
steps:
  - {at: {step: 2}, kill: 1}
  - wait: 5s
  - wait: 5s
"""


def begin(text: str = DRILL, seed: int = 0, quirks: str = "") -> RunUntil:
    parsed = parse_quirks([quirks]) if quirks else NO_QUIRKS
    return RunUntil(parse_drill(text, "mine.yaml"), parsed, seed)


def stopped(moment: str, text: str = DRILL, seed: int = 0) -> RunUntil:
    run = begin(text, seed)
    run.run(parse_moment(moment, run.drill))
    return run


def journal_of_run(text: str, seed: int = 0) -> bytes:
    drill = parse_drill(text, "mine.yaml")
    world = drill.simulated_world(NO_QUIRKS, seed)
    list(play(drill, SimulatedDriver(world), is_measured=True))
    return journal_bytes(world.journal.rows)


@pytest.mark.parametrize("name", SIMULATED)
def test_the_journal_at_a_moment_is_the_beginning_of_the_whole_journal(name: str) -> None:
    text, rng = named_text(name), random.Random(name)
    whole = journal_of_run(text, seed=3)
    rows = rng.randint(1, whole.count(b"\n"))
    at_ms = rng.uniform(0, 20_000)
    moment = rng.choice((f"row {rows}", f"{at_ms:.3f}ms", "step 2"))
    run = begin(text, seed=3)
    try:
        run.run(parse_moment(moment, run.drill))
    except NotFound:
        assert run.verdict is not None
    else:
        simulated_status(run.driver.cluster, run.driver.store)
    so_far = journal_bytes(run.driver.rows)
    assert so_far == whole if run.verdict is not None else whole.startswith(so_far)


@pytest.mark.parametrize("moment", ["row 0", "step 0", "0s"])
def test_the_start_is_a_moment_that_has_been_reached(moment: str) -> None:
    run = stopped(moment)
    assert (run.driver.steps_run, run.verdict) == (0, None)


@pytest.mark.parametrize(
    ("moment", "row", "at_ms"),
    [
        ("row 5", 5, 2_000.0),
        ("step 1", 15, 4_000.0),
        ("step 2", 18, 7_000.0),
        ("10.25s", 21, 10_250.0),
        ("on: {kind: broker_offline, replica: 0}", 18, 7_000.0),
    ],
)
def test_a_moment_is_reached(moment: str, row: int, at_ms: float) -> None:
    run = stopped(moment)
    assert (len(run.driver.rows), run.driver.elapsed_ms, run.verdict) == (row, at_ms, None)


def test_a_step_is_reached_before_the_steps_that_run_just_before_it() -> None:
    run = stopped("step 2", TRIGGERED)
    assert (run.number, run.is_before_step, len(run.driver.cluster.nodes)) == (2, True, 3)


@pytest.mark.parametrize(
    ("moment", "problem"),
    [
        ("row", "'row' is not a moment"),
        ("soon", "'soon' is not a moment"),
        ("before: B6", "unknown word in a moment 'before'"),
        ("on: {kind: nonsense}", "unknown kind of row 'nonsense'"),
        ("on: [", "expected the node content"),
    ],
)
def test_a_text_that_is_no_moment(moment: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_moment(moment, parse_drill(DRILL, "mine.yaml"))


@pytest.mark.parametrize("moment", ["row 900", "step 9", "900s", "on: {topic: u}"])
def test_a_moment_that_is_never_reached(moment: str) -> None:
    run = begin()
    with pytest.raises(NotFound, match="is never reached: the drill ended after "):
        run.run(parse_moment(moment, run.drill))
    assert run.verdict is not None


def test_a_trigger_counts_simulation_steps_as_advance_does() -> None:
    head = "drill: d\nabout: x\ncluster: {topics: {t: [[0, 1, 2]]}}\nsteps:\n"
    times = []
    for count in range(1, 30, 2):
        advanced = f"{head}  - kill: 0\n  - advance: {count}\n  - kill: 1\n"
        trigger = f"  - {{at: {{step: 1, advance: {count}}}, kill: 1}}\n"
        triggered = f"{head}{trigger}  - kill: 0\n  - wait: 20s\n"
        times.append([began_ms("kill: 1", text) for text in (advanced, triggered)])
    assert all(one == other for one, other in times)
    assert len({one for one, _ in times}) > 5


def began_ms(name: str, text: str) -> float:
    """Run a drill and return when the step began whose name begins with ``name``."""
    drill = parse_drill(text, "mine.yaml")
    driver = SimulatedDriver(drill.simulated_world(NO_QUIRKS, 0))
    results = [part for part in play(drill, driver) if isinstance(part, StepResult)]
    (found,) = (one.began_ms for one in results if one.step.name.startswith(name))
    return found


def test_a_violation_ends_the_run_where_it_happens() -> None:
    run = begin(named_text("c7"), quirks="C7")
    with pytest.raises(NotFound):
        run.run(parse_moment("900s", run.drill))
    assert run.verdict is not None
    assert run.verdict.outcome is Outcome.UNSAFE
    assert "journal row 16" in run.verdict.failures[0].seen
