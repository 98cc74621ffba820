"""Conditions that must hold at least once in a run of a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from klamm.lab.conditions.condition import NOT_OBSERVABLE, CheckResult, StepCheck
from klamm.lab.conditions.conditions import evaluate_condition
from klamm.lab.conditions.view import ClusterView
from klamm.lab.drivers.driver import ScenarioDriver

_CHANGE_WITHOUT_TRACE: Final = ("acknowledged", "acknowledged_at_least", "consumed", "hosts")
"""Conditions that can become true without a change in ZooKeeper and without a journal row."""


class Occurrences:
    """Records when each of several conditions first holds, from its creation on."""

    def __init__(self, checks: Sequence[StepCheck], driver: ScenarioDriver) -> None:
        self._driver = driver
        self._view = ClusterView(driver)
        self._view.begin_step(checks)
        self._checks = tuple(checks)
        self._first: dict[int, tuple[float, Any]] = {}
        self._last: dict[int, Any] = {}
        self._evaluated_at: tuple[int, int] | None = None
        if checks:
            driver.turns.observers.append(self.observe)
            self.observe()

    @property
    def results(self) -> tuple[CheckResult, ...]:
        """The result of each condition: when it first held, or its last value if it never held."""
        now_ms = self._driver.elapsed_ms
        found = []
        for number, check in enumerate(self._checks):
            if check.condition.kind in self._driver.unobservable:
                found.append(CheckResult(check, None, NOT_OBSERVABLE, now_ms))
                continue
            at_ms, seen = self._first.get(number, (now_ms, self._last.get(number)))
            found.append(CheckResult(check, number in self._first, seen, at_ms))
        return tuple(found)

    def observe(self) -> None:
        """Evaluate the conditions that have not held yet, if their values may have changed."""
        if len(self._first) == len(self._checks):
            return
        state = self._driver.zookeeper_changes, len(self._driver.rows)
        is_changed, self._evaluated_at = state != self._evaluated_at, state
        for number, check in enumerate(self._checks):
            is_due = is_changed or check.condition.kind in _CHANGE_WITHOUT_TRACE
            is_hidden = check.condition.kind in self._driver.unobservable
            if number in self._first or is_hidden or not is_due:
                continue
            is_met, seen = evaluate_condition(check.condition, self._view)
            self._last[number] = seen
            if is_met:
                self._first[number] = self._driver.elapsed_ms, seen
        self._view.skip_rows()
