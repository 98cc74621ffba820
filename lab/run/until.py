"""Runs a simulated drill up to a moment: a number of rows, a time, a step, or a journal row.

An observer looks at the run before each step and between two simulation steps (turns.py). It
changes nothing, so the journal is the beginning of the one that the whole drill writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

import yaml

from klamm.cluster.errors import NotFound, UsageError
from klamm.cluster.quirks import Quirks
from klamm.lab.conditions.triggers import Instant, OnRow
from klamm.lab.drill import Drill, Step
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.language.reading import DrillReader
from klamm.lab.language.value_reading import read_value
from klamm.lab.run.drill_run import Follower, Verdict, play, verdict_of
from klamm.lab.run.runner import StepResult
from klamm.lab.value_types import Row

_HINT: Final = "write row 78, 6.4s, step 5, or on: {kind: broker_offline, replica: 1}"
_NUMBERED: Final = re.compile(r"(row|step) +([0-9]{1,9})")
_MS_TOLERANCE: Final = 1e-6


class _Reached(Exception):
    """The run has reached the moment."""


class RunUntil(Follower):
    """One run of a drill, which stops at a moment.

    - ``results``: the finished steps. ``verdict``: the drill's verdict, or None before its end.
    - ``step``: the step that runs or, if ``is_before_step``, begins next; None between the last
      step and the verdict. ``number``: its number in AtStep; None if it has no number.
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
        self.last_number = 0
        self._base = Instant(0.0)
        self._seen_steps = 0
        self._looks_again = False
        self._is_reached: Callable[[], bool] = lambda: False

    @property
    def since_step(self) -> Instant:
        """Time and number of simulation steps since the current step began."""
        base, driver = self._base, self.driver
        return Instant(driver.elapsed_ms - base.at_ms, driver.steps_run - base.steps_run)

    @property
    def steps_in_turn(self) -> int:
        """Number of steps of the drill's file that run in their turn."""
        own = self.drill.steps[self.drill.preparations :]
        return sum(step.trigger is None for step in own)

    def run(self, moment: TimePoint) -> None:
        """Run to a moment. Raises NotFound if the drill ends before it."""
        self._is_reached = moment.reached_in(self)
        if self._is_reached():
            return  # The moment is the start.
        if moment.at_ms:
            self.driver.turns.begin(lambda: self._await(moment.at_ms))
        try:
            self.verdict = verdict_of(
                play(self.drill, self.driver, is_measured=True, follower=self)
            )
        except _Reached:
            return
        if not self._is_reached():
            raise NotFound(
                f"{moment.text} is never reached: the drill ended after"
                f" {self.driver.elapsed_ms / 1000:.3f} s, with {len(self.driver.rows)} journal rows"
            )

    def on_begin(self, step: Step | None, number: int | None) -> None:
        """Look before a step."""
        self.step, self.number = step, number
        self._base = Instant(self.driver.elapsed_ms, self.driver.steps_run)
        self.last_number = number or self.last_number
        self.is_before_step, self._seen_steps = True, self.driver.steps_run
        self._look()

    def on_end(self, step: Step, result: StepResult | None) -> None:
        """Keep the result of a step."""
        if result is not None:
            self.results.append(result)

    def _await(self, at_ms: float) -> None:
        """Let the run be looked at when the cluster has this age."""
        self.driver.run_for(at_ms)
        self._looks_again = True

    def _observe(self) -> None:
        if self.driver.steps_run > self._seen_steps or self._looks_again:
            self.is_before_step, self._seen_steps = False, self.driver.steps_run
            self._look()

    def _look(self) -> None:
        self._looks_again = False
        if self._is_reached():
            raise _Reached


class TimePoint(NamedTuple):
    """A moment in the run of a drill: its text, and how a run recognizes it.

    ``reached_in(run)`` returns a condition that holds from this moment on. ``at_ms``: an age of the
    cluster at which the condition is evaluated, too."""

    text: str
    reached_in: Callable[[RunUntil], Callable[[], bool]]
    at_ms: float = 0.0


def parse_moment(text: str, drill: Drill) -> TimePoint:
    """Return the moment that a text names. Raises UsageError for any other text."""
    numbered = _NUMBERED.fullmatch(text.strip())
    if numbered is not None:
        number = int(numbered[2])
        if numbered[1] == "row":
            return TimePoint(text, lambda run: lambda: len(run.driver.rows) >= number)
        return TimePoint(text, lambda run: lambda: run.last_number >= number)
    reader = DrillReader("moment")
    reader.cluster = drill.cluster
    node = reader.compose(text)
    if isinstance(node, yaml.ScalarNode):
        try:
            at_ms = reader.duration_ms(node, "a time")
        except UsageError:
            raise UsageError(f"'{text}' is not a moment", hint=_HINT) from None
        least_ms = at_ms - _MS_TOLERANCE
        return TimePoint(text, lambda run: lambda: run.driver.elapsed_ms >= least_ms, at_ms)
    value = reader.fields(node, "a moment", ("on",))["on"].value
    trigger = OnRow(read_value(reader, value, Row, "on"))
    return TimePoint(text, lambda run: trigger.next_occurrence(run.driver))
