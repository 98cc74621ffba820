"""What makes a step of a scenario run: a time, a journal row, or a moment in a controller's work.

TRIGGERS has a row for each word of drills: the type of its value, and the trigger made of it.

A step with a trigger runs in a branch (turns.py), which first waits for its trigger. Only a step
just before another step (AtStep) runs in its turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Final, NamedTuple

import msgspec
from msgspec import Meta

from klamm.lab.conditions.conditions import matches_row
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.lab.value_types import Duration, Row, words
from klamm.statemachines.reassignment import Phase
from klamm.world.simulated.breakpoints import EVENTS, WRITING_PHASES, Breakpoint

_LEAST_INTERVAL_MS: Final = 10.0


class Instant(NamedTuple):
    """A moment of a run: the age of the cluster, and how many steps a simulated world has run."""

    at_ms: float
    steps_run: int = 0


class Trigger(msgspec.Struct, frozen=True):
    """A trigger of a step. ``repeats``: the step runs whenever the trigger occurs."""

    repeats: ClassVar[bool] = False
    has_known_time: ClassVar[bool] = False

    def wait(self, driver: ScenarioDriver, began: Instant) -> None:
        """Wait, in a branch, until the trigger occurs.

        ``began``: when the first step of the scenario began, or for AtStep its step."""
        raise NotImplementedError


class At(Trigger, frozen=True):
    """Occurs this long after the beginning of the first step."""

    has_known_time = True

    at_ms: float

    def wait(self, driver: ScenarioDriver, began: Instant) -> None:
        driver.run_for(max(0.0, began.at_ms + self.at_ms - driver.elapsed_ms))


class AtStep(Trigger, frozen=True):
    """Occurs just before a step begins.

    ``step``: the number of the step among those without a trigger, from 1. The next number after
    the last step stands for the end of the steps. ``advance`` or ``wait_ms``: occurs this many
    simulation steps or milliseconds after the beginning of the step instead."""

    step: Annotated[int, Meta(ge=1)]
    advance: Annotated[int, Meta(ge=1)] | None = None
    wait_ms: Duration | None = msgspec.field(default=None, name="wait")

    def __post_init__(self) -> None:
        if self.advance is not None and self.wait_ms is not None:
            raise ValueError("give either 'advance' or 'wait'")

    @property
    def is_before_step(self) -> bool:
        """True if the trigger occurs before the step begins."""
        return self.advance is None and self.wait_ms is None

    def wait(self, driver: ScenarioDriver, began: Instant) -> None:
        if self.wait_ms is not None:
            driver.run_for(max(0.0, began.at_ms + self.wait_ms - driver.elapsed_ms))
        elif self.advance is not None:
            due = began.steps_run + self.advance
            driver.run_until(lambda: driver.steps_run >= due, math.inf)


class Every(Trigger, frozen=True):
    """Occurs again and again, this long after the step has ended."""

    repeats = True

    interval_ms: float

    def __post_init__(self) -> None:
        if self.interval_ms < _LEAST_INTERVAL_MS:
            raise ValueError(f"the interval must be at least {_LEAST_INTERVAL_MS:g}ms")

    def wait(self, driver: ScenarioDriver, began: Instant) -> None:
        driver.run_for(self.interval_ms)


class OnRow(Trigger, frozen=True):
    """Occurs when a row with these values is written to the journal."""

    row: Mapping[str, Any]

    def wait(self, driver: ScenarioDriver, began: Instant) -> None:
        driver.run_until(self.next_occurrence(driver), math.inf)

    def next_occurrence(self, driver: ScenarioDriver) -> Callable[[], bool]:
        """Return a condition that holds once a new row of the journal has the values."""
        seen, is_found = len(driver.rows), False

        def is_written() -> bool:
            nonlocal seen, is_found
            new = driver.rows[seen:] if len(driver.rows) > seen else ()
            seen += len(new)
            is_found = is_found or any(matches_row(row, self.row) for row in new)
            return is_found

        return is_written


class AtBreakpoint(Trigger, frozen=True):
    """Occurs when a simulated controller reaches a moment of its work."""

    point: Breakpoint

    def wait(self, driver: ScenarioDriver, began: Instant) -> None:
        driver.run_until(driver.break_at(self.point), math.inf)


class ControllerStep(msgspec.Struct, frozen=True):
    """The n-th read or write of ZooKeeper in a controller event, counted from 1."""

    event: Annotated[str, words("controller event", EVENTS)]
    operation: Annotated[int, Meta(ge=1, le=100_000)] = 1


class TriggerKind(NamedTuple):
    """How a trigger is written in drills: the type of its value, and the trigger made of it."""

    value: Any
    make: Callable[[Any], Trigger]
    example: str
    about: str


_PHASES: Final = tuple(phase.value for phase in WRITING_PHASES)
_Moment = (
    Duration | Annotated[AtStep, Meta(extra_json_schema={"not": {"required": ["advance", "wait"]}})]
)
_ControllerMoment = Annotated[str, words("controller step", _PHASES)] | ControllerStep


def _at(moment: float | AtStep) -> Trigger:
    return moment if isinstance(moment, AtStep) else At(moment)


def _breakpoint(moment: str | ControllerStep, *, is_before: bool) -> Trigger:
    if isinstance(moment, ControllerStep):
        return AtBreakpoint(Breakpoint(is_before, None, moment.event, moment.operation))
    return AtBreakpoint(Breakpoint(is_before, Phase(moment)))


TRIGGERS: Final[Mapping[str, TriggerKind]] = {
    "at": TriggerKind(
        _Moment,
        _at,
        "at: 12s",
        "This long after the beginning of the first step. `at: {step: 2}`: just before the second "
        "step begins. `at: {step: 2, wait: 3s}` and `at: {step: 2, advance: 40}`: 3 s or 40 "
        "simulation steps after its beginning. Steps are counted as they run, without those that "
        "have a trigger. Moments with `step` are simulated only.",
    ),
    "every": TriggerKind(
        Duration,
        Every,
        "every: 5s",
        "Again and again, each time this long after the step has ended, until the last step of the "
        "drill has ended.",
    ),
    "on": TriggerKind(
        Row,
        OnRow,
        "on: {kind: reassignment_phase, to: A2}",
        "When a row with these values is written to the journal.",
    ),
    "before": TriggerKind(
        _ControllerMoment,
        partial(_breakpoint, is_before=True),
        "before: B6",
        "Just before a controller step: a phase of a reassignment that writes to ZooKeeper ("
        + ", ".join(_PHASES)
        + "), or the n-th read or write of ZooKeeper in a controller event, as in "
        "`{event: TopicDeletion, operation: 3}`. Simulated only.",
    ),
    "after": TriggerKind(
        _ControllerMoment,
        partial(_breakpoint, is_before=False),
        "after: {event: TopicDeletion, operation: 3}",
        "Just after the ZooKeeper operation of a controller step, before the controller "
        "continues. Simulated only.",
    ),
}
"""All triggers, keyed by their names in drills."""
