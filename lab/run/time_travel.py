"""Time travel through one simulated drill: to any moment, back, and onwards with another fault.

The same drill and seed give the same run, byte for byte, so an earlier moment is reached by running
the drill again up to it. Observers of the run stop it between two simulation steps (turns.py). They
change nothing, so a run that was stopped writes the same journal as one that was not.

A fork adds a step to the text of the drill, with the trigger ``at`` for the moment of the fork. The
rest of the drill stays as it is. So the text of a fork is a drill again, which repeats its run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import yaml
from greenlet import GreenletExit, getcurrent, greenlet

from klamm.cluster.counting import counted
from klamm.cluster.errors import NotFound, UsageError, WrongState
from klamm.cluster.journal import JournalRow
from klamm.cluster.quirks import Quirks
from klamm.lab.conditions.condition import StepCheck
from klamm.lab.conditions.conditions import matches_row
from klamm.lab.conditions.triggers import AtStep, Instant, OnRow
from klamm.lab.drill import Drill, Step, every_step
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.language.language import parse_drill
from klamm.lab.language.reading import DrillReader
from klamm.lab.language.trigger_language import TRIGGERS
from klamm.lab.run.drill_run import Follower, Outcome, Verdict, play, verdict_of
from klamm.lab.run.runner import StepResult

MOMENT_HINT: Final = "write row 78, 6.4s, step 5, or on: {kind: broker_offline, replica: 1}"
_NUMBERED: Final = re.compile(r"(row|step) +([0-9]{1,9})")
_PLACE: Final = re.compile(r"^.*?:[0-9]+:[0-9]+: ")
_MS_TOLERANCE: Final = 1e-6

StopCondition = Callable[[], bool]
"""Condition of a run: once it holds it keeps holding. The run stops when it first holds."""


class TimelinePlace(NamedTuple):
    """Position in the run of a drill. Places are in chronological order.

    ``steps_run``: simulation steps so far. ``begun``: how many steps have begun or begin next, the
    preparations included. ``at_ms``: the age of the cluster."""

    steps_run: int
    begun: int
    at_ms: float


class Timeline(Follower):
    """One run of a drill, which can be stopped between any two simulation steps.

    - ``results``: the finished steps. ``verdict``: the drill's verdict, or None before its end.
    - ``step``: the step that runs or, if ``is_before_step``, begins next; None between the last
      step and the verdict. ``number``: its number in AtStep; None if it has no number.
    - ``growth``: each number of rows that the journal had at a place, with the first such place.
    """

    def __init__(self, drill: Drill, quirks: Quirks, seed: int) -> None:
        self.drill = drill
        self.driver = SimulatedDriver(drill.simulated_world(quirks, seed))
        self.driver.turns.observers.append(self._observe)
        self.results: list[StepResult] = []
        self.verdict: Verdict | None = None
        self.step: Step | None = None
        self.number: int | None = None
        self.is_before_step = True
        self.growth: list[tuple[int, TimelinePlace]] = [(0, TimelinePlace(0, 0, 0.0))]
        self.last_number = 0
        self._ended: set[int] = set()
        self._begun = 0
        self._base = Instant(0.0)
        self._looked = Instant(0.0)
        self._looks_again = False
        self._stop: StopCondition = lambda: False
        self._thread = greenlet(self._play)
        self._caller = getcurrent()

    @property
    def place(self) -> TimelinePlace:
        """The current place."""
        return TimelinePlace(self.driver.steps_run, self._begun, self.driver.elapsed_ms)

    @property
    def since_step(self) -> Instant:
        """Time and number of simulation steps since the current step began."""
        base, driver = self._base, self.driver
        return Instant(driver.elapsed_ms - base.at_ms, driver.steps_run - base.steps_run)

    @property
    def moment(self) -> AtStep | None:
        """The current moment as a trigger. None if no step of the drill's file runs."""
        if self.number is None or self.verdict is not None:
            return None
        if self.is_before_step:
            return AtStep(self.number)
        elapsed_ms, steps_run = self.since_step
        if self.driver.elapsed_ms > self._looked.at_ms:
            return AtStep(self.number, wait_ms=elapsed_ms)
        return AtStep(self.number, steps_run)

    @property
    def steps_in_turn(self) -> int:
        """Number of steps of the drill's file that run in their turn."""
        own = self.drill.steps[self.drill.preparations :]
        return sum(step.trigger is None for step in own)

    def has_ended(self, step: Step) -> bool:
        """Return True if this step of the drill has ended."""
        return id(step) in self._ended

    def run_until(self, stop: StopCondition, at_ms: float = 0.0) -> bool:
        """Run until ``stop`` holds. Return False if the drill ended before.

        ``at_ms``: an age of the cluster at which ``stop`` is evaluated, too."""
        if self.verdict is None:
            self._stop, self._caller = stop, getcurrent()
            if at_ms > self.driver.elapsed_ms:
                self.driver.turns.begin(partial(self._await, at_ms))
            self._thread.switch()
        return stop()

    def close(self) -> None:
        """Abandon the run."""
        if self._thread:
            self._thread.throw(GreenletExit)

    def on_begin(self, step: Step | None, number: int | None) -> None:
        """Stop before a step."""
        self.step, self.number, self._base = step, number, self._now()
        self.last_number = number or self.last_number
        self._begun += 1
        self._look_before_step()

    def on_end(self, step: Step, result: StepResult | None) -> None:
        """Keep the result of a step. Stop again after a step that was added before this one."""
        self._ended.add(id(step))
        if result is not None:
            self.results.append(result)
        if isinstance(step.trigger, AtStep):
            if step.trigger.is_before_step:
                self._look_before_step()
            else:
                self._looks_again = True

    def _play(self) -> None:
        played = play(self.drill, self.driver, is_measured=True, follower=self)
        self.verdict = verdict_of(played)

    def _await(self, at_ms: float) -> None:
        self.driver.run_for(max(0.0, at_ms - self.driver.elapsed_ms))
        self._looks_again = True

    def _now(self) -> Instant:
        return Instant(self.driver.elapsed_ms, self.driver.steps_run)

    def _look_before_step(self) -> None:
        self.is_before_step, self._looked = True, self._now()
        self._look()

    def _observe(self) -> None:
        """Look after each simulation step, and where it is asked for.

        AtStep cannot name a moment in a step before a simulation step or time has passed."""
        now = self._now()
        if now.steps_run > self._looked.steps_run:
            self._looked = now
        elif not self._looks_again or (self.is_before_step and now == self._looked):
            return
        self.is_before_step = False
        self._look()

    def _look(self) -> None:
        self._looks_again = False
        rows = len(self.driver.rows)
        if rows > self.growth[-1][0]:
            self.growth.append((rows, self.place))
        if self._stop():
            self._caller.switch()


class TimePoint(NamedTuple):
    """A moment in the run of a drill: its text, and how a timeline recognizes it.

    ``stop_at(timeline)`` returns a condition that holds from this moment on. ``row``: the values of
    a journal row, if the moment is its next occurrence. ``at_ms``: the age of the cluster, if the
    moment is a time."""

    text: str
    stop_at: Callable[[Timeline], StopCondition]
    row: OnRow | None = None
    at_ms: float = 0.0


def at_row(row: int) -> TimePoint:
    """Return the moment at which the journal first has this number of rows."""
    return TimePoint(f"row {row}", lambda timeline: lambda: len(timeline.driver.rows) >= row)


def parse_moment(text: str, drill: Drill) -> TimePoint:
    """Return the moment that a text names. Raises UsageError for any other text."""
    numbered = _NUMBERED.fullmatch(text.strip())
    if numbered is not None:
        number = int(numbered[2])
        if numbered[1] == "row":
            return at_row(number)
        return TimePoint(text, lambda timeline: lambda: timeline.last_number >= number)
    reader = DrillReader("moment")
    reader.cluster = drill.cluster
    node = reader.compose(text)
    if isinstance(node, yaml.ScalarNode):
        try:
            at_ms = reader.duration_ms(node, "a time")
        except UsageError:
            raise UsageError(f"'{text}' is not a moment", hint=MOMENT_HINT) from None
        least_ms = at_ms - _MS_TOLERANCE
        return TimePoint(text, lambda at: lambda: at.driver.elapsed_ms >= least_ms, at_ms=at_ms)
    value = reader.fields(node, "a moment", ("on",))["on"].value
    trigger = TRIGGERS["on"].read(reader, value)
    assert isinstance(trigger, OnRow)
    return TimePoint(text, lambda timeline: trigger.next_occurrence(timeline.driver), trigger)


def _at_place(place: TimelinePlace) -> TimePoint:
    what = f"{place.at_ms / 1000:.3f} s"
    return TimePoint(what, lambda at: lambda: at.place >= place, at_ms=place.at_ms)


class _Fork(NamedTuple):
    """A step that was added to the drill at a place. ``text``, ``insert_at``: those before it."""

    place: TimelinePlace
    text: str
    insert_at: int


class TimeTravel:
    """A drill at one moment of its run.

    ``text``: the drill, with the steps that were added to it. ``is_running``: a run is in progress;
    a signal handler may set ``is_stopped_early`` to stop it after the current simulation step.
    """

    def __init__(self, text: str, source: str, quirks: Quirks, seed: int) -> None:
        self.text = text
        self.is_stopped_early = self.is_running = False
        self._source = source
        self._quirks = quirks
        self._seed = seed
        self._forks: list[_Fork] = []
        self._insert_at, self._indent = _beginning_of_steps(text)
        self.timeline = self._running = self._begin(text)

    def close(self) -> None:
        """Abandon the run."""
        self.timeline.close()

    @property
    def rows(self) -> Sequence[JournalRow]:
        """The journal so far."""
        return self.timeline.driver.rows

    @property
    def is_repeating(self) -> bool:
        """True while the part of a run is repeated that ran before, with all its warnings."""
        known, running = self.timeline, self._running
        return running is not known and running.place.steps_run <= known.place.steps_run

    # -- onwards

    def go(self, moment: TimePoint) -> None:
        """Run to a moment.

        Raises UsageError if it has passed, and NotFound if the drill ends before it."""
        stop = moment.stop_at(self.timeline)
        if moment.row is None and stop():
            if not self.timeline.place.steps_run:
                return  # The moment is the start.
            raise UsageError(f"{moment.text} has passed", hint=f"back to {moment.text}")
        if not self._run(self.timeline, stop, moment.at_ms) and not self.is_stopped_early:
            driver = self.timeline.driver
            raise NotFound(
                f"{moment.text} is never reached: the drill ended after"
                f" {driver.elapsed_ms / 1000:.3f} s, with {len(driver.rows)} journal rows"
            )

    def next_rows(self, count: int) -> None:
        """Run until the journal has this number of additional rows, or to the end of the drill."""
        rows = len(self.rows) + count
        self._go_on(lambda: len(self.rows) >= rows)

    def next_steps(self, count: int) -> None:
        """Run to the beginning of a step, counted from here; after the last, to the end.

        Raises NotFound if the drill ends before the step; then it has run to its end."""
        before = self.timeline.place.begun
        self._go_on(lambda: self.timeline.place.begun >= before + count)
        left = self.timeline.place.begun - before
        if self.timeline.verdict is not None and count > left + 1:
            raise NotFound(f"the drill ended after {counted(left, 'more step')}")

    def advance(self, count: int) -> None:
        """Run a number of simulation steps, or to the end of the drill."""
        steps_run = self.timeline.place.steps_run + count
        self._go_on(lambda: self.timeline.place.steps_run >= steps_run)

    def finish(self) -> None:
        """Run to the end of the drill."""
        self._go_on(lambda: False)

    def _go_on(self, stop: StopCondition) -> None:
        if self.timeline.verdict is not None:
            raise WrongState("the drill has ended", hint="go back to an earlier moment")
        self._run(self.timeline, stop)

    def _run(self, timeline: Timeline, stop: StopCondition, at_ms: float = 0.0) -> bool:
        self.is_stopped_early, self.is_running = False, True
        try:
            timeline.run_until(lambda: self.is_stopped_early or stop(), at_ms)
        finally:
            self.is_running = False
        return stop()

    def _run_again(self, text: str, moment: TimePoint) -> tuple[Timeline, bool]:
        """Run a drill from its beginning up to a moment; return also whether it was reached.

        Raises WrongState if the run is stopped early."""
        timeline = self._begin(text)
        is_reached = self._run(timeline, moment.stop_at(timeline), moment.at_ms)
        if self.is_stopped_early:
            timeline.close()
            raise WrongState("interrupted: nothing has changed")
        return timeline, is_reached

    # -- back

    def back(self, rows: int) -> None:
        """Go back to the last moment with at least this number of rows less."""
        places = [at for n, at in self.timeline.growth if n <= len(self.rows) - rows]
        if not places:
            raise UsageError(
                f"the journal has only {len(self.rows)} rows here",
                hint="back to 0s is the beginning",
            )
        self._return(_at_place(places[-1]))

    def back_to(self, moment: TimePoint) -> None:
        """Go back to a moment; to the last occurrence of a row. Raises UsageError if it is later.

        Steps that were added at this moment or later are forgotten."""
        if moment.row is not None:
            moment = self._last_row(moment)
        self._return(moment)

    def _return(self, moment: TimePoint) -> None:
        here = self.timeline.place
        earlier, is_reached = self._run_again(self.text, moment)
        place = earlier.place
        later = [fork for fork in self._forks if fork.place >= place]
        if not is_reached or (place >= here and not later):
            earlier.close()
            raise UsageError(f"{moment.text} is not earlier", hint=f"until {moment.text}")
        if later:
            earlier.close()
            earlier, _ = self._run_again(later[0].text, _at_place(place))
            self.text, self._insert_at = later[0].text, later[0].insert_at
            del self._forks[-len(later) :]
        self._replace(earlier)

    def _last_row(self, moment: TimePoint) -> TimePoint:
        """Return the moment at which the last row matching ``moment`` before now was written."""
        assert moment.row is not None
        here = self.timeline.place
        earlier = [rows for rows, place in self.timeline.growth if place < here]
        for number in range(earlier[-1] if earlier else 0, 0, -1):
            if matches_row(self.rows[number - 1], moment.row.row):
                return at_row(number)
        raise NotFound(f"no earlier row matches {moment.text}")

    # -- forks

    def do(self, step: str) -> None:
        """Add a step to the drill at this moment, and run until it has ended.

        The rest of the drill stays as it is. Raises UsageError if the step is malformed, and
        WrongState if it cannot be done; then nothing has changed."""
        here = self.timeline
        moment = here.moment
        if here.verdict is not None:
            raise WrongState("the drill has ended", hint="go back to an earlier moment")
        if moment is None:
            raise WrongState(
                "steps can be added only while the steps of the drill's file run",
                hint="until step 1" if not here.last_number else "go back to an earlier moment",
            )
        text, index = self._with_step(step, moment)
        number = here.drill.preparations + len(self._forks)

        def added(timeline: Timeline) -> Step:
            return timeline.drill.steps[number]

        try:
            end = TimePoint("its end", lambda at: lambda: at.has_ended(added(at)))
            timeline, _ = self._run_again(text, end)
        except UsageError as error:
            raise UsageError(_PLACE.sub("", error.message), hint=error.hint) from None
        refusal = _refusal(timeline, added(timeline))
        if refusal is not None:
            timeline.close()
            raise WrongState(refusal, hint="the step was not added")
        self._forks.append(_Fork(here.place, self.text, self._insert_at))
        self.text, self._insert_at = text, index
        self._replace(timeline)

    def _with_step(self, step: str, moment: AtStep) -> tuple[str, int]:
        """Return the drill's text with a step at this moment, and the index after the step."""
        words = f"step: {moment.step}"
        if moment.advance is not None:
            words += f", advance: {moment.advance}"
        if moment.wait_ms is not None:
            words += f", wait: {round(moment.wait_ms, 3):.12g}ms"
        node = DrillReader("do").compose(step)
        if isinstance(node, yaml.ScalarNode):
            node = yaml.compose(f"{{{node.value}: null}}", Loader=yaml.SafeLoader)
        if not isinstance(node, yaml.MappingNode):
            raise UsageError(f"'{step}' is not a step", hint="as in do kill: 1")
        if any(key.value == "at" for key, _ in node.value):
            raise UsageError(
                "'at' cannot be given here: the step is added at the current moment",
                hint="go to the moment first, as in until 9s",
            )
        trigger = yaml.compose(f"at: {{{words}}}", Loader=yaml.SafeLoader)
        node.value = [*trigger.value, *node.value]
        node.flow_style = self._indent is None
        lines = yaml.serialize(node, Dumper=yaml.SafeDumper, width=1_000_000).splitlines()
        if self._indent is None:
            added = f"{lines[0]}, "
        else:
            added = f"{self._indent}- " + f"\n{self._indent}  ".join(lines) + "\n"
        text = self.text[: self._insert_at] + added + self.text[self._insert_at :]
        return text, self._insert_at + len(added)

    def _begin(self, text: str) -> Timeline:
        of_file = self._forks[0].text if self._forks else self.text
        source = self._source if text == of_file else f"fork of {self._source}"
        self._running = Timeline(parse_drill(text, source), self._quirks, self._seed)
        return self._running

    def _replace(self, timeline: Timeline) -> None:
        self.timeline.close()
        self.timeline = timeline


def _beginning_of_steps(text: str) -> tuple[int, str | None]:
    """Return the index in a drill's text at which steps can be inserted before all others.

    The second value is the indentation of the steps, or None for a list in brackets."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    (entry,) = ((key, value) for key, value in root.value if key.value == "steps")
    start = entry[1].start_mark
    if entry[1].flow_style:
        return start.index + 1, None
    # Before comments on the first step.
    return text.index("\n", entry[0].end_mark.index) + 1, " " * start.column


def _refusal(timeline: Timeline, added: Step) -> str | None:
    """Return why a step that was added to a drill failed, or None if it did not fail."""
    own = list(every_step([added]))
    for result in timeline.results:
        if result.refusal is not None and result.step in own:
            return result.refusal
    verdict = timeline.verdict
    if verdict is None or verdict.outcome is Outcome.UNSAFE:
        return None
    checks = (check for step in own for check in step.checks if isinstance(check, StepCheck))
    places = {*(step.place for step in own), *(check.place for check in checks)}
    failed = next((one for one in verdict.failures if one.place in places), None)
    return None if failed is None else str(failed)
