"""Runs a scenario's cluster for several sequences of steps at once, and calls observers.

The main program runs the cluster whenever it waits. Other sequences of steps (branches) run in
greenlets: a branch that waits gives control back, and continues between two events of the cluster
once its condition holds or its time is over. Branches take turns in the order in which they began,
so that the same seed gives the same run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from greenlet import GreenletExit, getcurrent, greenlet

TurnCondition = Callable[[], bool]
Run = Callable[[TurnCondition, float], bool]
"""Runs a cluster until a condition holds. Returns False when the cluster has this age in ms.

An age, unlike a duration, does not change if the run is interrupted and continued."""
Observer = Callable[[], None]
StepTap = Callable[[Any], None]
"""Called with a step of the scenario."""
STEP_TIMEOUT_MS: Final = 30_000.0
_SAME_TIME_MS = 1e-6


class Branch:
    """A sequence of steps that runs beside the main program. ``condition``: what it waits for."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.thread = greenlet(work)
        self.condition: TurnCondition = _at_once
        self.deadline_ms = math.inf
        self.is_cancelled = False

    @property
    def has_ended(self) -> bool:
        """True if the branch has ended, has failed or was ended by another branch."""
        return self.is_cancelled or bool(self.thread.dead)


class Turns:
    """Runs the cluster of one scenario.

    ``observers`` are called after every step of a simulated cluster, and every few milliseconds in
    a real one. ``run`` must evaluate its condition at these times. ``step_taps`` are called with
    each step of the scenario when it begins. ``now_ms`` returns the age of the cluster.
    """

    def __init__(self, run: Run, now_ms: Callable[[], float]) -> None:
        self.observers: list[Observer] = []
        self.step_taps: list[StepTap] = []
        self._run = run
        self._now_ms = now_ms
        self._branches: list[Branch] = []
        self._current: Branch | None = None
        self._main: greenlet | None = None

    def begin(self, work: Callable[[], None]) -> Branch:
        """Begin a branch: it takes its first turn when the cluster is run next.

        An error in ``work`` is raised by the method that runs the cluster for the main program."""
        branch = Branch(work)
        self._branches.append(branch)
        return branch

    def end(self, branch: Branch) -> None:
        """End a branch, even if its work is not done."""
        branch.is_cancelled = True
        if branch in self._branches:
            self._branches.remove(branch)
        if branch.thread:
            branch.thread.parent = getcurrent()
            branch.thread.throw(GreenletExit)

    def run_until(self, condition: TurnCondition, timeout_ms: float) -> bool:
        """Run the cluster until ``condition`` holds. Return False after the timeout."""
        deadline_ms = self._now_ms() + timeout_ms
        if self._current is not None:
            return self._wait(self._current, condition, deadline_ms)
        while True:
            self.take()
            if condition():
                return True
            now_ms = self._now_ms()
            if now_ms + _SAME_TIME_MS >= deadline_ms:
                return False
            next_ms = min([deadline_ms, *(branch.deadline_ms for branch in self._branches)])
            # Branches and observers begin only between two calls of ``_run``.
            is_alone = not self.observers and not self._branches
            self._run(condition if is_alone else (lambda: self._has_turn() or condition()), next_ms)

    def take(self) -> None:
        """Call the observers, then let every branch continue that no longer has to wait."""
        self._main = getcurrent()
        self._observe()
        for branch in tuple(self._branches):
            is_met = branch.condition()
            if is_met or self._now_ms() + _SAME_TIME_MS >= branch.deadline_ms:
                self._resume(branch, is_met)

    def _resume(self, branch: Branch, is_met: bool) -> None:
        self._current, branch.thread.parent = branch, self._main
        try:
            # The value is ignored when a branch begins.
            branch.thread.switch(*((is_met,) if branch.thread else ()))
        finally:
            self._current = None
            if branch.has_ended and branch in self._branches:
                self._branches.remove(branch)

    def _wait(self, branch: Branch, condition: TurnCondition, deadline_ms: float) -> bool:
        if condition():
            return True
        branch.condition, branch.deadline_ms = condition, deadline_ms
        assert self._main is not None
        return bool(self._main.switch())

    def _has_turn(self) -> bool:
        if self.observers:
            self._observe()
        return bool(self._branches) and any(branch.condition() for branch in self._branches)

    def _observe(self) -> None:
        for observer in self.observers:
            observer()


def _at_once() -> bool:
    return True
