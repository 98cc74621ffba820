"""lab/run/time_travel.py: any moment of a drill, back to it, and forks that repeat themselves."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from klamm.cluster.errors import KlammError, NotFound, UsageError, WrongState
from klamm.cluster.quirks import NO_QUIRKS, parse_quirks
from klamm.lab.conditions.triggers import AtStep
from klamm.lab.drills.library import NAMES, named_drill, named_text
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.hunt.drawing import draw_drill
from klamm.lab.language.language import parse_drill
from klamm.lab.run.drill_run import Outcome, play
from klamm.lab.run.runner import StepResult
from klamm.lab.run.time_travel import TimeTravel, parse_moment
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
cluster:
  brokers: 5
  topics:
    t: [[0, 1]]
steps:
  - every: 3s
    lose_reply: 4
  - before: B6
    kill: controller
  - {at: 9s, pause: 2}
  - {at: {step: 2}, resume: paused}
  - reassign: {t-0: [2, 3]}
  - parallel:
      - [{wait: 1s}, {produce: {t-0: 500}}]
      - {repeat: 3, steps: [move_controller, {wait: 2s}]}
  - wait: 20s
eventually: {healthy: true}
"""


@contextmanager
def travel(text: str = DRILL, seed: int = 0, quirks: str = "") -> Iterator[TimeTravel]:
    parsed = parse_quirks([quirks]) if quirks else NO_QUIRKS
    with closing(TimeTravel(text, "mine.yaml", parsed, seed)) as travelling:
        yield travelling


def go(travelling: TimeTravel, moment: str) -> None:
    travelling.go(parse_moment(moment, travelling.timeline.drill))


def back_to(travelling: TimeTravel, moment: str) -> None:
    travelling.back_to(parse_moment(moment, travelling.timeline.drill))


def journal(travelling: TimeTravel) -> bytes:
    return journal_bytes(travelling.timeline.driver.cluster.journal.rows)


def journal_of_run(text: str, seed: int = 0) -> bytes:
    drill = parse_drill(text, "mine.yaml")
    world = drill.simulated_world(NO_QUIRKS, seed)
    list(play(drill, SimulatedDriver(world), is_measured=True))
    return journal_bytes(world.journal.rows)


@pytest.mark.parametrize("name", SIMULATED)
def test_a_run_that_is_stopped_often_writes_the_same_journal(name: str) -> None:
    text, rng = named_text(name), random.Random(name)
    moves = ("next_rows", "next_steps", "advance")
    with travel(text, seed=3) as travelling:
        while travelling.timeline.verdict is None:
            driver = travelling.timeline.driver
            simulated_status(driver.cluster, driver.store)
            at_ms = driver.elapsed_ms + rng.choice([0.1, 7.3, 333.3, 2_500.7])
            with suppress(NotFound, WrongState):
                go(travelling, f"{at_ms:.3f}ms")
                getattr(travelling, rng.choice(moves))(rng.randint(1, 9))
        assert travelling.timeline.verdict.outcome is Outcome.PASSED
        assert journal(travelling) == journal_of_run(text, seed=3)


@pytest.mark.parametrize("seed", range(5))
def test_a_fork_is_a_drill_that_repeats_the_run(seed: int) -> None:
    text, rng = draw_drill(seed) if seed else TRIGGERED, random.Random(seed)
    with travel(text, seed) as travelling:
        go(travelling, "step 1")
        for step in ("{kill: 1, until: {unregistered: 1}}", "pause: 2", "heal_all", "{wait: 3s}"):
            with suppress(NotFound, WrongState):
                travelling.advance(rng.randint(1, 40))
                now_ms = travelling.timeline.driver.elapsed_ms
                go(travelling, rng.choice([f"{now_ms + 100:.3f}ms", "on: {kind: event}"]))
            if travelling.timeline.moment is None:
                travelling.back(len(travelling.rows) // 2)
            with suppress(WrongState):
                travelling.do(step)
        travelling.back(3)
        before, place = journal(travelling), travelling.timeline.place
        travelling.advance(1)
        travelling.finish()
        assert place.steps_run < travelling.timeline.place.steps_run
        assert journal(travelling).startswith(before)
        assert "at: {step: " in travelling.text
        assert journal(travelling) == journal_of_run(travelling.text, seed)


@pytest.mark.parametrize("moment", ["row 0", "step 0", "0s"])
def test_the_start_is_a_moment_that_has_been_reached(moment: str) -> None:
    with travel() as travelling:
        go(travelling, moment)
        assert travelling.timeline.place.steps_run == 0
        go(travelling, "4s")
        with pytest.raises(UsageError, match=f"{moment} has passed"):
            go(travelling, moment)


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
def test_a_moment_is_reached_and_reached_again(moment: str, row: int, at_ms: float) -> None:
    with travel() as travelling:
        go(travelling, moment)
        timeline = travelling.timeline
        assert (len(travelling.rows), timeline.driver.elapsed_ms) == (row, at_ms)
        place, so_far = timeline.place, journal(travelling)
        if not moment.startswith("on"):
            with pytest.raises(UsageError, match=f"{moment} has passed"):
                go(travelling, moment)
        travelling.finish()
        assert travelling.timeline.verdict is not None
        back_to(travelling, moment)
        assert (travelling.timeline.place, journal(travelling)) == (place, so_far)
        assert travelling.timeline.verdict is None


def test_rows_that_match_are_gone_back_to_one_after_the_other() -> None:
    with travel() as travelling:
        travelling.finish()
        events = [number for number, row in enumerate(travelling.rows, 1) if row.kind == "event"]
        assert events == [3, 4, 5, 15, 16, 22, 25]
        for number in reversed(events):
            back_to(travelling, "on: {kind: event}")
            assert len(travelling.rows) == number
        with pytest.raises(NotFound, match="no earlier row matches"):
            back_to(travelling, "on: {kind: event}")


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


def test_a_moment_that_is_never_reached() -> None:
    with travel() as travelling:
        with pytest.raises(NotFound, match="row 900 is never reached: the drill ended after "):
            go(travelling, "row 900")
        assert travelling.timeline.verdict is not None
        with pytest.raises(UsageError, match="step 9 is not earlier"):
            back_to(travelling, "step 9")
        with pytest.raises(NotFound, match="no earlier row matches"):
            back_to(travelling, "on: {kind: log_truncated}")
        travelling.back(len(travelling.rows))
        assert (journal(travelling), travelling.timeline.place.begun) == (b"", 1)
        with pytest.raises(UsageError, match="the journal has only 0 rows here"):
            travelling.back(1)


def test_steps_are_added_where_the_drill_is_and_forgotten_before_it() -> None:
    with travel() as travelling:
        go(travelling, "step 2")
        assert travelling.timeline.drill.source == "mine.yaml"
        travelling.do("kill: 1")
        travelling.do("heal_all")
        assert travelling.timeline.drill.source == "fork of mine.yaml"
        go(travelling, "16.5s")
        place = travelling.timeline.place
        travelling.do("pause: 1")
        assert travelling.timeline.place == place
        travelling.advance(7)
        place = travelling.timeline.place
        travelling.do("resume: 1")
        assert travelling.timeline.place == place
        added = travelling.text.split("steps:\n")[1]
        assert added.startswith(
            "  - at: {step: 2}\n"
            "    kill: 1\n"
            "  - at: {step: 2}\n"
            "    heal_all: null\n"
            "  - at: {step: 2, wait: 9500ms}\n"
            "    pause: 1\n"
            "  - at: {step: 2, advance: "
        )
        assert added.endswith(DRILL.split("steps:\n")[1])
        travelling.back(1)
        assert "resume: 1" not in travelling.text
        assert "pause: 1" in travelling.text
        back_to(travelling, "step 2")
        assert travelling.text == DRILL
        assert travelling.timeline.drill.source == "mine.yaml"
        assert len(travelling.timeline.driver.cluster.nodes) == 2
        travelling.finish()
        assert journal(travelling) == journal_of_run(DRILL)


def test_a_step_is_added_after_the_last_step() -> None:
    with travel() as travelling:
        go(travelling, "step 7")
        travelling.do("{kill: 1, until: {leader: {t-0: 2}}}")
        assert travelling.timeline.moment == AtStep(7)
        travelling.do("kill: 2")
        travelling.finish()
        verdict = travelling.timeline.verdict
        assert verdict is not None
        assert verdict.outcome is Outcome.PASSED
        assert journal(travelling) == journal_of_run(travelling.text)


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


def test_a_list_in_brackets_takes_added_steps_too() -> None:
    with travel(
        "{drill: mine, about: x, cluster: {topics: {t: [[0, 1]]}}, steps: [{kill: 0}, {wait: 9s}]}"
    ) as travelling:
        go(travelling, "step 2")
        travelling.do("{start: 0, until: {brokers: [0, 1, 2]}}")
        travelling.do("run: topics --zookeeper {zk} --delete --topic t")
        travelling.finish()
        assert "steps: [{at: {step: 2}, start: 0, until:" in travelling.text
        assert journal(travelling) == journal_of_run(travelling.text)


def test_a_step_after_the_end_is_not_found() -> None:
    with travel() as travelling:
        go(travelling, "step 1")
        with pytest.raises(NotFound, match=r"the drill ended after (\d+) more steps") as raised:
            travelling.next_steps(99)
    left = int(re.findall(r"\d+", str(raised.value))[0])
    for count, ends in ((left, False), (left + 1, True)):
        with travel() as travelling:
            go(travelling, "step 1")
            travelling.next_steps(count)
            assert (travelling.timeline.verdict is not None) is ends


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("kil: 1", "unknown word in a step 'kil'"),
        ("kil", "unknown word in a step 'kil'"),
        ("[kill: 1]", "is not a step"),
        ("kill: 7", "the cluster has no broker 7"),
        ("{at: 3s, kill: 1}", "'at' cannot be given here"),
        ("{every: 3s, kill: 1}", "a step has at most one trigger"),
        ("start: 1", "broker 1 is already running"),
        ("delete_znode: /admin/x", "to succeed, seen cannot write /admin/x: NONODE"),
        ("{wait: 1s, until: {leader: {t-0: 1}}, within: 1s}", "seen {t-0: 0} after 2.000 s"),
    ],
)
def test_a_step_that_cannot_be_done_changes_nothing(step: str, problem: str) -> None:
    with travel() as travelling:
        go(travelling, "step 1")
        place = travelling.timeline.place
        with pytest.raises(KlammError) as raised:
            travelling.do(step)
        assert problem in raised.value.message
        assert not raised.value.message.startswith(("mine", "fork", "do"))
        assert (travelling.timeline.place, travelling.text) == (place, DRILL)
        travelling.finish()
        assert travelling.timeline.verdict is not None
        assert travelling.timeline.verdict.outcome is Outcome.PASSED


@pytest.mark.parametrize("moment", ["row 3", "on: {kind: broker_online, replica: 0}", "52s"])
def test_steps_are_added_only_while_the_steps_of_the_file_run(moment: str) -> None:
    with travel() as travelling:
        go(travelling, moment)
        with pytest.raises(WrongState, match="steps can be added only while"):
            travelling.do("kill: 1")
        travelling.finish()
        with pytest.raises(WrongState, match="the drill has ended"):
            travelling.do("kill: 1")


def test_a_violation_ends_the_run_where_it_happens() -> None:
    with travel(named_text("c7"), quirks="C7") as travelling:
        travelling.finish()
        verdict = travelling.timeline.verdict
        assert verdict is not None
        assert verdict.outcome is Outcome.UNSAFE
        assert "journal row 16" in verdict.failures[0].seen
        place, rows = travelling.timeline.place, len(travelling.rows)
        travelling.back(1)
        assert travelling.timeline.verdict is None
        travelling.advance(1_000_000)
        assert (travelling.timeline.place, len(travelling.rows)) == (place, rows)
