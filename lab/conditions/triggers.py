"""What makes a step of a scenario run: a time, a journal row, or a moment in a controller's work.

A step with a trigger runs in a branch (turns.py), which first waits for its trigger. Only a step
just before another step (AtStep) runs in its turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import msgspec

from klamm.lab.conditions.conditions import matches_row
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.world.simulated.breakpoints import Breakpoint


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

    step: int
    advance: int | None = None
    wait_ms: float | None = None

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
