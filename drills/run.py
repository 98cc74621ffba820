"""Plays a drill on a cluster and judges it: step by step, then whether everybody agrees.

It acts and looks through runtime/scenarios/runner.py alone, in either world; it prints nothing.
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
AGREEMENT: Final = "everybody agrees with ZooKeeper"


class Outcome(IntEnum):
    """How a drill ended; the number is klamm's exit code."""

    PASSED = 0
    FAILED = 1
    """Something was done or expected that did not work out."""
    UNSAFE = 10
    """At the end somebody does not agree with ZooKeeper."""
    STUCK = 11
    """What was waited for did not come about in time."""
    INCONCLUSIVE = 12
    """ZooKeeper was lost, so nothing can be said of the cluster."""


class Failure(msgspec.Struct, frozen=True):
    """What did not hold: where that is written, what was expected, and what was seen."""

    place: str
    expected: str
    seen: str


class Verdict(msgspec.Struct, frozen=True):
    """How a drill ended, when, and why. ``agreement``: what was found to hold of all of it."""

    outcome: Outcome
    at_ms: float
    failures: tuple[Failure, ...] = ()
    agreement: str = ""


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome of several drills: a violation before a wait in vain before the others."""
    order = (
        Outcome.UNSAFE,
        Outcome.STUCK,
        Outcome.FAILED,
        Outcome.INCONCLUSIVE,
        Outcome.PASSED,
    )
    return min(outcomes, key=order.index, default=Outcome.PASSED)


def play(drill: Drill, driver: ScenarioDriver) -> Generator[StepResult | Verdict]:
    """Each step as it is over, and at last the verdict. The first failure ends the drill."""
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
    in_vain = any(check.check.moment is Moment.UNTIL for check in failed)
    outcome = Outcome.STUCK if in_vain else Outcome.FAILED
    return Verdict(outcome, at_ms, tuple(_failure(check, result) for check in failed))


def _with_errors(verdict: Verdict, drill: Drill, driver: ScenarioDriver) -> Verdict:
    """A verdict that also says what went wrong inside brokers, which is never allowed."""
    if not driver.cluster.errors:
        return verdict
    errors = tuple(
        Failure(drill.source, "no error in a broker", line) for line in driver.cluster.errors
    )
    return Verdict(Outcome.UNSAFE, verdict.at_ms, (*errors, *verdict.failures))


def play_steps(steps: Iterable[Step], driver: ScenarioDriver) -> Generator[StepResult | Verdict]:
    """Each step as it is over; a verdict only if one cannot be done, which ends it."""
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
    """Everybody agrees with ZooKeeper once the cluster is at rest, unless the drill says not."""
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
