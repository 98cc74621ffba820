"""Runs a drill on a cluster and judges it: each step, then the agreement with ZooKeeper at the end.

Acts on the cluster only through runtime/scenarios/runner.py, in either world; prints nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from enum import IntEnum
from typing import Final

import msgspec

from klamm.cluster.errors import EnvironmentProblem, KlammError, StoreError
from klamm.drills.values import Drill
from klamm.runtime.scenarios.driver import ScenarioDriver
from klamm.runtime.scenarios.runner import CheckResult, ScenarioRunner, StepResult
from klamm.runtime.scenarios.steps import Moment, Step, plain_text

AGREEMENT_TIMEOUT_MS: Final = 10_000.0
AGREEMENT: Final = "controller and brokers agree with ZooKeeper"


class Outcome(IntEnum):
    """Outcome of a drill; the number is klamm's exit code."""

    PASSED = 0
    FAILED = 1
    """A step failed, or an expectation did not hold."""
    UNSAFE = 10
    """At the end a broker or the controller disagrees with ZooKeeper, or a broker had an error."""
    STUCK = 11
    """A wait timed out."""
    INCONCLUSIVE = 12
    """ZooKeeper was lost, so the state of the cluster is unknown."""


class Failure(msgspec.Struct, frozen=True):
    """A condition that did not hold: its place in the drill, the expected and the seen value."""

    place: str
    expected: str
    seen: str


class Verdict(msgspec.Struct, frozen=True):
    """Outcome of a drill, with time and failures.

    ``agreement``: the check of the whole cluster that succeeded at the end; empty without one.
    """

    outcome: Outcome
    at_ms: float
    failures: tuple[Failure, ...] = ()
    agreement: str = ""


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the most severe of several outcomes: UNSAFE, then STUCK, then the others."""
    order = (
        Outcome.UNSAFE,
        Outcome.STUCK,
        Outcome.FAILED,
        Outcome.INCONCLUSIVE,
        Outcome.PASSED,
    )
    return min(outcomes, key=order.index, default=Outcome.PASSED)


def play(drill: Drill, driver: ScenarioDriver) -> Generator[StepResult | Verdict]:
    """Run a drill; yield each finished step, then the verdict. The first failure ends the drill."""
    for part in play_steps(drill.steps, driver):
        verdict = part if isinstance(part, Verdict) else _judge(part, driver.elapsed_ms)
        if isinstance(part, StepResult):
            yield part
        if verdict is not None:
            yield _with_errors(verdict, drill, driver)
            return
    yield _with_errors(_last_judgement(drill, driver), drill, driver)


def _judge(result: StepResult, at_ms: float) -> Verdict | None:
    failed = [check for check in result.checks if not check.is_met]
    if not failed:
        return None
    has_timed_out = any(check.check.moment is Moment.UNTIL for check in failed)
    outcome = Outcome.STUCK if has_timed_out else Outcome.FAILED
    return Verdict(outcome, at_ms, tuple(_failure(check, result) for check in failed))


def _with_errors(verdict: Verdict, drill: Drill, driver: ScenarioDriver) -> Verdict:
    """Return the verdict; UNSAFE with the errors if a broker had errors."""
    if not driver.cluster.errors:
        return verdict
    errors = tuple(
        Failure(drill.source, "no error in a broker", line) for line in driver.cluster.errors
    )
    return Verdict(Outcome.UNSAFE, verdict.at_ms, (*errors, *verdict.failures))


def play_steps(steps: Iterable[Step], driver: ScenarioDriver) -> Generator[StepResult | Verdict]:
    """Run steps and yield each result; yield a verdict and end if a step raises an error."""
    runner = ScenarioRunner(driver)
    for step in steps:
        try:
            result = runner.run_step(step)
        except KlammError as error:
            yield _not_done(step, error, driver.elapsed_ms)
            return
        yield result


def _not_done(step: Step, error: KlammError, at_ms: float) -> Verdict:
    lost = isinstance(error, StoreError | EnvironmentProblem)
    failure = Failure(step.place, f"to do {step.name}", error.message)
    return Verdict(Outcome.INCONCLUSIVE if lost else Outcome.FAILED, at_ms, (failure,))


def _failure(result: CheckResult, step: StepResult) -> Failure:
    check = result.check
    seen = plain_text(result.seen)
    if check.condition.kind == "exit_code" and step.tool is not None:
        seen = f"{seen}: {' '.join((step.tool.stderr or step.tool.stdout).split())}"
    if check.moment is Moment.UNTIL:
        seen = f"{seen} after {(result.at_ms - step.began_ms) / 1000:.3f} s"
    return Failure(check.place, str(check.condition), seen)


def _last_judgement(drill: Drill, driver: ScenarioDriver) -> Verdict:
    """Quiesce the cluster and check that controller and brokers agree with ZooKeeper.

    Passes without the check if the drill has ``checks: false``.
    """
    if not drill.is_checked:
        return Verdict(Outcome.PASSED, driver.elapsed_ms)
    try:
        driver.quiesce()
        driver.run_until(lambda: not driver.disagreements(), AGREEMENT_TIMEOUT_MS)
        lines = driver.disagreements()
    except (StoreError, EnvironmentProblem) as error:
        failure = Failure(drill.source, AGREEMENT, error.message)
        return Verdict(Outcome.INCONCLUSIVE, driver.elapsed_ms, (failure,))
    if lines:
        failures = tuple(Failure(drill.source, AGREEMENT, line) for line in lines)
        return Verdict(Outcome.UNSAFE, driver.elapsed_ms, failures)
    return Verdict(Outcome.PASSED, driver.elapsed_ms, agreement=AGREEMENT)
