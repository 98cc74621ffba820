"""Runs the steps of a scenario on a real or simulated cluster, and returns their results.

Recorded scenarios and drills share this runner; both are compiled to the steps of lab/drill.py. The
runner reports whether each condition held. The caller decides what a failed condition means.
"""

from __future__ import annotations

import msgspec

from klamm.lab.actions.target import ScenarioTarget
from klamm.lab.conditions.condition import NOT_OBSERVABLE, CheckResult, StepCheck
from klamm.lab.conditions.conditions import evaluate_condition
from klamm.lab.drill import Quiesce, Step
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.tools.command_result import CommandResult


class StepResult(msgspec.Struct, frozen=True):
    """Result of a step.

    ``tool``: the output of the step's tool, or the controller's response as text. ``refusal``: why
    an action was not possible, or None if the step was run."""

    step: Step
    began_ms: float
    ended_ms: float
    checks: tuple[CheckResult, ...]
    tool: CommandResult | None = None
    refusal: str | None = None

    @property
    def has_held(self) -> bool:
        """True if no condition was seen not to hold."""
        return all(check.is_met is not False for check in self.checks)


class ScenarioRunner:
    """A single run of a scenario. Runners of the branches of one scenario share ``states``."""

    def __init__(self, driver: ScenarioDriver, states: dict[int, str] | None = None) -> None:
        self.driver = driver
        self.target = ScenarioTarget(driver, {} if states is None else states)
        self.view = self.target.view

    def run_step(self, step: Step) -> StepResult:
        """Run one step. Raises KlammError if one of its actions is not possible."""
        driver, view = self.driver, self.view
        began_ms = driver.elapsed_ms
        for tap in driver.turns.step_taps:
            tap(step)
        view.begin_step(check for check in step.checks if isinstance(check, StepCheck))
        for action in step.actions:
            action.check_world(is_simulated=driver.is_simulated)
            view.tool = action.act(self.target) or view.tool
        results: list[CheckResult] = []
        for check in step.checks:
            if isinstance(check, Quiesce):
                driver.quiesce()
                continue
            result = self._check(check)
            results.append(result)
            if check.is_required and result.is_met is False:
                break
        return StepResult(step, began_ms, driver.elapsed_ms, tuple(results), view.tool)

    def _check(self, check: StepCheck) -> CheckResult:
        if check.condition.kind in self.driver.unobservable:
            if check.moment.is_awaited:
                self.driver.quiesce()
            return CheckResult(check, None, NOT_OBSERVABLE, self.driver.elapsed_ms)
        if check.moment.is_awaited:
            self.target.wait_for(check.condition, check.timeout_ms)
        is_met, seen = evaluate_condition(check.condition, self.view)
        return CheckResult(check, is_met, seen, self.driver.elapsed_ms)
