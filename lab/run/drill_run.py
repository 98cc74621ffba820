"""Runs a drill on a cluster, judges each step, and finally checks the cluster against ZooKeeper.

Acts on the cluster only through lab/run/runner.py, both in simulation and on a real
ZooKeeper. This module prints nothing.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Final

import msgspec

from klamm.cluster.errors import EnvironmentProblem, KlammError, StoreError
from klamm.cluster.types import TopicPartition
from klamm.lab.actions.steps import HealAll
from klamm.lab.checks.admin_history import LINEARIZABLE
from klamm.lab.checks.invariants import InvariantViolated
from klamm.lab.conditions.condition import CheckResult, plain_text
from klamm.lab.conditions.occurrences import Occurrences
from klamm.lab.conditions.partition_times import PartitionAvailability, PartitionTimes
from klamm.lab.conditions.triggers import AtStep, Instant, Trigger
from klamm.lab.drill import Drill, Step
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.lab.drivers.turns import STEP_TIMEOUT_MS, Branch
from klamm.lab.run.runner import ScenarioRunner, StepResult

AGREEMENT_TIMEOUT_MS: Final = 10_000.0
_ENDING: Final = (StoreError, EnvironmentProblem, InvariantViolated)
NO_BROKER_ERROR: Final = "no error in a broker"
ALWAYS: Final = "always "
"""What the expectation of a failure begins with if an invariant was violated."""
NO_INTERNAL_ERROR: Final = "no internal error"


class Outcome(IntEnum):
    """Outcome of a drill. The number is the exit code of klamm."""

    PASSED = 0
    FAILED = 1
    """An action of a step failed, or an expectation did not hold."""
    UNSAFE = 10
    """An invariant was violated, a broker had an internal error, or at the end a broker or the
    controller disagreed with ZooKeeper."""
    STUCK = 11
    """A condition of ``until`` or ``eventually`` did not hold within the time limit."""
    INCONCLUSIVE = 12
    """A condition of ``sometimes`` never held, so the drill did not test what it should;
    ZooKeeper was lost, so the state of the cluster is unknown; or the search for a legal order of
    the admin operations gave up."""


STEPS_BEFORE: Final = "klamm drill run shows the steps before it"
"""Hint for a failed condition."""


class Failure(msgspec.Struct, frozen=True):
    """A condition that did not hold: its position in the drill, expected and observed value.

    ``row``: if an invariant was violated, the number of the last journal row at that time, from 1.
    """

    place: str
    expected: str
    seen: str
    row: int | None = None

    def __str__(self) -> str:
        return f"expected {self.expected}, seen {self.seen}"


class Verdict(msgspec.Struct, frozen=True):
    """Outcome of a drill, with the time it took and its failures.

    ``agreement``: description of the final check of the whole cluster, or empty if there was none.
    ``sometimes``: when each condition that must hold at least once first held. ``partitions``: what
    happened to each partition, if it was measured. ``unobserved``: number of conditions that the
    cluster did not show.
    """

    outcome: Outcome
    at_ms: float
    failures: tuple[Failure, ...] = ()
    agreement: str = ""
    sometimes: tuple[CheckResult, ...] = ()
    partitions: Mapping[TopicPartition, PartitionAvailability] = {}
    unobserved: int = 0


class Follower:
    """Follows the run of a drill: a subclass overrides what it needs."""

    def on_begin(self, step: Step | None, number: int | None) -> None:
        """Called before each step that runs in its turn.

        ``number`` is the number of this moment in AtStep. It is None for the preparations, the
        recovery and the final check. ``step`` is None at the end of the steps and before the final
        check."""

    def on_end(self, step: Step, result: StepResult | None) -> None:
        """Called when a step has ended, also in a branch. A step with branches has no result."""


NO_FOLLOWER: Final = Follower()


def violation(step: Step, error: InvariantViolated) -> Failure:
    """Return the failure of a step during which an invariant was violated."""
    seen = f"{error.message} (during {step.name})"
    return Failure(step.place, f"{ALWAYS}{error.invariant}: {error.statement}", seen, error.row)


def internal_error(source: str, seen: str) -> Failure:
    """Return the failure of a run that an error in klamm itself ended."""
    return Failure(source, NO_INTERNAL_ERROR, seen)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the most severe of several outcomes.

    The order is UNSAFE, STUCK, FAILED, INCONCLUSIVE, PASSED."""
    order = (
        Outcome.UNSAFE,
        Outcome.STUCK,
        Outcome.FAILED,
        Outcome.INCONCLUSIVE,
        Outcome.PASSED,
    )
    return min(outcomes, key=order.index, default=Outcome.PASSED)


def play(
    drill: Drill,
    driver: ScenarioDriver,
    *,
    is_measured: bool = False,
    follower: Follower = NO_FOLLOWER,
) -> Generator[StepResult | Verdict]:
    """Run a drill up to its first failure; yield each finished step, then the verdict.

    With ``is_measured``, the verdict has results for each partition."""
    driver.watch(drill.always)
    counts = Counter[bool]()
    before, own = drill.steps[: drill.preparations], drill.steps[drill.preparations :]
    verdict = yield from _play_judged(before, drill, driver, follower, Counter())
    times = PartitionTimes(driver) if is_measured else None
    occurrences = Occurrences(drill.sometimes if verdict is None else (), driver)
    for steps in (own, drill.recovery):
        verdict = verdict or (
            yield from _play_judged(steps, drill, driver, follower, counts, is_own=steps is own)
        )
    if verdict is None:
        follower.on_begin(None, None)
        verdict = _last_judgement(drill, driver)
    verdict = _with_errors(verdict, drill, driver)
    partitions = {} if times is None else times.results()
    counts.update(map(_is_observed, occurrences.results))
    verdict = _with_unobserved(_with_occurrences(verdict, occurrences.results), counts)
    yield msgspec.structs.replace(verdict, partitions=partitions)


def verdict_of(
    played: Iterable[StepResult | Verdict], on_result: Callable[[StepResult], object] | None = None
) -> Verdict:
    """Run a drill to its end and return the verdict; ``on_result`` gets each finished step."""
    for part in played:
        if isinstance(part, Verdict):
            return part
        if on_result is not None:
            on_result(part)
    raise AssertionError("the drill ended without a verdict")


def _is_observed(result: CheckResult) -> bool:
    return result.is_met is not None


def _with_unobserved(verdict: Verdict, counts: Counter[bool]) -> Verdict:
    """Return the verdict with the number of conditions that were not observable.

    A drill that passed without any observable condition has tested nothing."""
    if counts[False] and not counts[True] and verdict.outcome is Outcome.PASSED:
        verdict = msgspec.structs.replace(verdict, outcome=Outcome.INCONCLUSIVE)
    return msgspec.structs.replace(verdict, unobserved=counts[False])


def _play_judged(
    steps: Iterable[Step],
    drill: Drill,
    driver: ScenarioDriver,
    follower: Follower,
    counts: Counter[bool],
    *,
    is_own: bool = False,
) -> Generator[StepResult, None, Verdict | None]:
    """Run steps up to the first failure, and return the verdict on it; yield each result.

    ``counts``: how many conditions were observed, and how many were not."""
    for part in play_steps(
        steps, driver, is_tolerant=drill.is_tolerant, follower=follower, is_own=is_own
    ):
        if isinstance(part, Verdict):
            return part
        counts.update(map(_is_observed, part.checks))
        yield part
        verdict = judge_step(part, driver.elapsed_ms)
        if verdict is not None:
            return verdict
    return None


def final_verdict(drill: Drill, driver: ScenarioDriver) -> Verdict:
    """Run the cluster until it is idle, and return the verdict of the checks at a drill's end."""
    return _with_errors(_last_judgement(drill, driver), drill, driver)


def judge_step(result: StepResult, at_ms: float) -> Verdict | None:
    """Return the verdict on a step with a condition that did not hold, or None if all held."""
    if result.has_held:
        return None
    failed = [check for check in result.checks if check.is_met is False]
    has_timed_out = any(check.check.moment.is_awaited for check in failed)
    outcome = Outcome.STUCK if has_timed_out else Outcome.FAILED
    return Verdict(outcome, at_ms, tuple(_failure(check, result) for check in failed))


def _with_errors(verdict: Verdict, drill: Drill, driver: ScenarioDriver) -> Verdict:
    """Return the verdict, or UNSAFE with the error messages if brokers had internal errors."""
    if not driver.cluster.errors:
        return verdict
    errors = tuple(Failure(drill.source, NO_BROKER_ERROR, line) for line in driver.cluster.errors)
    return Verdict(Outcome.UNSAFE, verdict.at_ms, (*errors, *verdict.failures))


def _with_occurrences(verdict: Verdict, results: tuple[CheckResult, ...]) -> Verdict:
    """Return the verdict with the results of ``sometimes``.

    A drill that passed becomes INCONCLUSIVE if one of these conditions never held."""
    never = tuple(
        Failure(result.check.place, f"sometimes {result.check.condition}", plain_text(result.seen))
        for result in results
        if result.is_met is False
    )
    if never and verdict.outcome is Outcome.PASSED:
        verdict = msgspec.structs.replace(verdict, outcome=Outcome.INCONCLUSIVE, failures=never)
    return msgspec.structs.replace(verdict, sometimes=results)


def play_steps(
    steps: Iterable[Step],
    driver: ScenarioDriver,
    *,
    is_tolerant: bool = False,
    follower: Follower = NO_FOLLOWER,
    is_own: bool = False,
) -> Generator[StepResult | Verdict]:
    """Run steps and yield each result. If a step raises an error, yield a verdict and stop.

    With ``is_tolerant``, a step whose action is refused is skipped instead. ``is_own``: these are
    the steps of a drill's file, which have numbers.
    """
    player = _Player(driver, follower, is_tolerant=is_tolerant, is_own=is_own)
    try:
        yield from player.play(steps)
    finally:
        player.close()


class _Failed(Exception):
    """The run cannot continue. The player's last result says why."""


class _Armed:
    """A step that waits for its trigger or has been triggered. ``branch`` waits and runs it.

    ``is_over``: its trigger is no longer waited for."""

    def __init__(self, step: Step, trigger: Trigger, branch: Branch) -> None:
        self.step = step
        self.trigger = trigger
        self.branch = branch
        self.is_waiting = True
        self.is_over = False


class _Player:
    """Runs the steps of one drill, some of them in branches.

    ``_results``: results of steps that have not been yielded yet."""

    def __init__(
        self, driver: ScenarioDriver, follower: Follower, *, is_tolerant: bool, is_own: bool
    ) -> None:
        self._driver = driver
        self._follower = follower
        self._is_tolerant = is_tolerant
        self._is_own = is_own
        self._states: dict[int, str] = {}
        self._results: deque[StepResult | Verdict] = deque()
        self._branches: list[Branch] = []
        self._armed: list[_Armed] = []
        self._at_steps: list[tuple[AtStep, Step]] = []
        self._began_ms = driver.elapsed_ms

    def play(self, steps: Iterable[Step]) -> Iterator[StepResult | Verdict]:
        """Run steps and yield each result, up to an error or to a failure in a branch."""
        runner = ScenarioRunner(self._driver, self._states)
        listed = list(steps)
        self._at_steps = [(s.trigger, s) for s in listed if isinstance(s.trigger, AtStep)]
        for step, work in self._works(listed, runner):
            has_failed = False
            try:
                work()
            except _Failed:
                has_failed = True
            except _ENDING as error:  # while the cluster ran for branches
                self._results.append(_not_done(step, error, self._driver.elapsed_ms))
                has_failed = True
            while self._results:
                yield self._results.popleft()
            if has_failed:
                return

    def _works(
        self, steps: Sequence[Step], runner: ScenarioRunner
    ) -> Iterator[tuple[Step, Callable[[], object]]]:
        """Yield what is to be done, in this order, with the step that is the last so far."""
        number, step = 0, Step("no steps")
        for step in steps:
            if step.trigger is None:
                number += 1
                yield step, partial(self._begin_step, step, number if self._is_own else None)
            if not isinstance(step.trigger, AtStep):
                yield step, partial(self._play, step, runner, is_in_branch=False)
        if self._is_own:
            yield step, partial(self._begin_step, None, number + 1)
        yield step, self._finish

    def _begin_step(self, step: Step | None, number: int | None) -> None:
        """Arm the steps that are triggered after this beginning, and run those triggered before it.

        ``number``: as in AtStep, or None for a step that has no number."""
        self._follower.on_begin(step, number)
        here = [(trigger, at) for trigger, at in self._at_steps if trigger.step == number]
        for trigger, at in here:
            if not trigger.is_before_step:
                self._arm(at, trigger, Instant(self._driver.elapsed_ms, self._driver.steps_run))
        for trigger, at in here:
            if trigger.is_before_step:
                self._play_triggered(at)

    def _play_triggered(self, step: Step) -> None:
        for branch in step.branches:
            self._play_branch(branch)
        self._follower.on_end(step, None)

    def close(self) -> None:
        """End the branches."""
        for branch in self._branches:
            self._driver.turns.end(branch)

    def _play(
        self, step: Step, runner: ScenarioRunner, *, is_in_branch: bool = True
    ) -> StepResult | None:
        """Run a step. Return its result, or None if the step consists of branches."""
        if step.trigger is not None:
            self._arm(step, step.trigger, Instant(self._began_ms))
            return None
        if step.branches:
            branches = [self._begin(partial(self._play_branch, one)) for one in step.branches]
            self._driver.run_until(lambda: all(one.has_ended for one in branches), math.inf)
            self._follower.on_end(step, None)
            return None
        began_ms = self._driver.elapsed_ms
        try:
            if self._is_tolerant and not is_in_branch and HealAll() in step.actions:
                self._disarm()
            result = runner.run_step(step)
        except KlammError as error:
            if not self._is_tolerant or isinstance(error, _ENDING):
                self._results.append(_not_done(step, error, self._driver.elapsed_ms))
                raise _Failed from error
            result = StepResult(step, began_ms, self._driver.elapsed_ms, (), refusal=error.message)
        self._results.append(result)
        self._follower.on_end(step, result)
        return result

    def _begin(self, work: Callable[[], None]) -> Branch:
        branch = self._driver.turns.begin(work)
        self._branches.append(branch)
        return branch

    def _play_branch(self, steps: Iterable[Step]) -> None:
        runner = ScenarioRunner(self._driver, self._states)
        for step in steps:
            result = self._play(step, runner)
            if result is not None and not result.has_held:
                raise _Failed

    def _arm(self, step: Step, trigger: Trigger, began: Instant) -> None:
        """Begin a branch that waits for a trigger and then runs the steps."""

        def run() -> None:
            while not armed.is_over:
                trigger.wait(self._driver, began)
                armed.is_waiting = False
                self._play_triggered(step)
                armed.is_waiting = trigger.repeats
                armed.is_over = armed.is_over or not trigger.repeats

        armed = _Armed(step, trigger, self._begin(run))
        self._armed.append(armed)

    def _disarm(self) -> None:
        """End the steps that wait for their triggers: ``heal_all`` ends all faults of a hunt."""
        for one in self._armed:
            one.is_over = True
            if one.is_waiting:
                one.is_waiting = False
                self._driver.turns.end(one.branch)
        self._driver.run_until(lambda: all(one.branch.has_ended for one in self._armed), math.inf)

    def _finish(self) -> None:
        """Wait for the steps with triggers, and end those that run again and again.

        A step whose trigger never occurs makes the drill inconclusive."""
        driver, armed = self._driver, self._armed
        if not armed:
            return
        timed = [one for one in armed if one.trigger.has_known_time]
        driver.run_until(lambda: all(one.branch.has_ended for one in timed), math.inf)
        once = [one for one in armed if not one.trigger.repeats]
        driver.run_until(lambda: not any(one.is_waiting for one in once), STEP_TIMEOUT_MS)
        never = tuple(
            Failure(one.step.place, f"the step to be triggered {one.step.name}", "it never was")
            for one in once
            if one.is_waiting
        )
        if never:
            self._results.append(Verdict(Outcome.INCONCLUSIVE, driver.elapsed_ms, never))
            raise _Failed
        driver.run_until(lambda: all(one.branch.has_ended for one in once), math.inf)
        for one in armed:
            if one.trigger.repeats:
                one.is_over = True
                if one.is_waiting:
                    driver.turns.end(one.branch)
        driver.run_until(lambda: all(one.branch.has_ended for one in armed), math.inf)


def _not_done(step: Step, error: KlammError, at_ms: float) -> Verdict:
    if isinstance(error, InvariantViolated):
        return Verdict(Outcome.UNSAFE, at_ms, (violation(step, error),))
    lost = isinstance(error, StoreError | EnvironmentProblem)
    failure = Failure(step.place, f"'{step.name}' to succeed", error.message)
    return Verdict(Outcome.INCONCLUSIVE if lost else Outcome.FAILED, at_ms, (failure,))


def _failure(result: CheckResult, step: StepResult) -> Failure:
    check = result.check
    seen = plain_text(result.seen)
    if check.condition.kind == "exit_code" and step.tool is not None:
        seen = f"{seen}: {' '.join((step.tool.stderr or step.tool.stdout).split())}"
    if check.moment.is_awaited:
        seen = f"{seen} after {(result.at_ms - step.began_ms) / 1000:.3f} s"
    return Failure(check.place, str(check.condition), seen)


def _last_judgement(drill: Drill, driver: ScenarioDriver) -> Verdict:
    """Wait until the cluster is idle, then check that it agrees with ZooKeeper.

    The drill's admin operations must be linearizable; if the check of that gives up, the drill is
    inconclusive. A drill with ``checks: false`` passes without this check.
    """
    if not drill.is_checked:
        return Verdict(Outcome.PASSED, driver.elapsed_ms)
    try:
        driver.quiesce()
        driver.run_until(lambda: not driver.disagreements(), AGREEMENT_TIMEOUT_MS)
        lines = driver.disagreements()
        findings = driver.admin_history.check(driver.store)
    except InvariantViolated as error:
        return _not_done(Step("the final check", place=drill.source), error, driver.elapsed_ms)
    except (StoreError, EnvironmentProblem) as error:
        failure = Failure(drill.source, driver.agreement, error.message)
        return Verdict(Outcome.INCONCLUSIVE, driver.elapsed_ms, (failure,))
    if lines:
        failures = tuple(Failure(drill.source, driver.agreement, line) for line in lines)
        return Verdict(Outcome.UNSAFE, driver.elapsed_ms, failures)
    if findings:
        is_certain = any(finding.is_certain for finding in findings)
        outcome = Outcome.UNSAFE if is_certain else Outcome.INCONCLUSIVE
        failures = tuple(Failure(drill.source, LINEARIZABLE, one.text) for one in findings)
        return Verdict(outcome, driver.elapsed_ms, failures)
    return Verdict(Outcome.PASSED, driver.elapsed_ms, agreement=driver.agreement)
