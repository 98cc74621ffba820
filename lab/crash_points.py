"""Crashes the controller at every crash point of a drill, and judges whether the cluster converges.

A crash point is the moment before or after one ZooKeeper operation of a controller. The drill runs
once without a crash, and then once for each crash point and each way to crash: a branch of the run
waits for the breakpoint, as a step with the trigger ``before`` or ``after`` does, and crashes the
controller there, in the middle of its event.

The conditions of the drill only wait, because a crash changes leaders and epochs. A request that
gets another response than without a crash is repeated. Each run must end with a healthy cluster, no
violated invariant and no lost record, and with the znodes that the run without a crash leaves, if
the drill made the same requests with the same results. This module prints nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Final

import msgspec

from klamm.cluster.errors import KlammError, UsageError
from klamm.cluster.plain_text import harmless_line
from klamm.cluster.quirks import Quirks
from klamm.cluster.requests import Address
from klamm.lab.actions.action import CONTROLLER
from klamm.lab.actions.steps import BreakSession, HealAll
from klamm.lab.checks.invariants import INVARIANTS, InvariantViolated
from klamm.lab.conditions.condition import Condition, Moment, StepCheck
from klamm.lab.drill import Drill, Step
from klamm.lab.drills.library import check_simulated
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.hunt.hunting import ENDS_IN_TIME, TIME_LIMIT_S, run_text
from klamm.lab.hunt.processes import Died, OutOfTime, run_parallel, time_limit
from klamm.lab.language.language import parse_drill
from klamm.lab.run.drill_run import (
    NO_BROKER_ERROR,
    STEPS_BEFORE,
    Failure,
    Outcome,
    internal_error,
    violation,
)
from klamm.lab.run.runner import ScenarioRunner
from klamm.world.simulated.breakpoints import Breakpoint, ControllerOperation
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.znodes import ControllerZNode

_RESTART_MS: Final = 1_000.0
"""How long the restart of a broker takes: all messages to its old process are lost meanwhile."""
_SUSPENDED_AT_MOST_MS: Final = 30_000.0
"""How long a suspended controller waits for a successor, e.g. if no other candidate runs."""


def _restart(driver: SimulatedDriver, broker_id: int) -> None:
    """Kill a broker and start it again. It registers when its old session has expired."""
    world = driver.cluster
    world.kill(broker_id)
    driver.run_for(_RESTART_MS)
    if broker_id not in world.nodes:
        world.start(broker_id)


def _take_over(driver: SimulatedDriver, broker_id: int) -> None:
    """Remove a controller for ever, so that another one takes over.

    If there is no other candidate, its broker is restarted instead."""
    nodes = driver.cluster.nodes.items()
    if any(running.node.has_candidate for id_, running in nodes if id_ != broker_id):
        driver.cluster.crash_controller(broker_id)
    else:
        _restart(driver, broker_id)


def _suspend(driver: SimulatedDriver, broker_id: int) -> None:
    """Suspend a controller in the middle of its event, and depose it.

    It resumes, in its session, while or after the next controller loads the cluster."""
    world = driver.cluster
    actor = world.scheduler.actors[Address("controller", broker_id)]
    actor.paused = True
    most_ms = _SUSPENDED_AT_MOST_MS if world.depose(broker_id) else 0.0
    driver.run_until(lambda: ControllerZNode.path in world.server.tree.nodes, most_ms)
    actor.paused = False
    actor.woken()


CRASHES: Final[Mapping[str, Callable[[SimulatedDriver, int], None]]] = {
    "restart": _restart,
    "takeover": _take_over,
    "resume": _suspend,
}
"""The ways to crash a broker's controller. Each runs in a branch."""
MOMENTS: Final = ("before", "after")
POINTS_PER_OPERATION: Final = len(MOMENTS) * len(CRASHES)
_RECOVERY_MS: Final = 120_000.0
RECOVERY: Final = Step(
    "recovery",
    actions=(HealAll(),),
    checks=(StepCheck(Moment.UNTIL, Condition("healthy", True), timeout_ms=_RECOVERY_MS),),
)
SAME_END: Final = "the znodes that a run without the crash leaves"
_ATTEMPTS: Final = 3
_RETRY_MS: Final = 30_000.0
_TOPIC_ID: Final = re.compile(rb'"topic_id":"[^"]*",?')
"""Left out of comparisons, because it is random."""
_OF_SESSIONS: Final = ("/controller", "/brokers/ids/", "/klamm")
_COUNTS: Final = ("/controller_epoch", "/config/changes/", "/isr_change_notification/")
_NOTIFICATIONS: Final = ("/log_dir_event_notification/", "/latest_producer_id_block")


class Point(msgspec.Struct, frozen=True):
    """A crash point and what happens there: one of MOMENTS and a key of CRASHES.

    ``number``: from 1. ``operation``: number of the controller's operation, from 0."""

    number: int

    @property
    def operation(self) -> int:
        return (self.number - 1) // POINTS_PER_OPERATION

    @property
    def moment(self) -> str:
        return MOMENTS[(self.number - 1) % POINTS_PER_OPERATION // len(CRASHES)]

    @property
    def crash(self) -> str:
        return tuple(CRASHES)[(self.number - 1) % len(CRASHES)]


class Undisturbed(msgspec.Struct, frozen=True):
    """The run of a drill without a crash.

    ``exit_codes``: the exit code of each step's tool, or None for a refused step. ``znodes``: the
    data of all znodes that it leaves, without those of sessions and partition states."""

    operations: tuple[ControllerOperation, ...]
    exit_codes: tuple[int | None, ...]
    znodes: dict[str, bytes]

    @property
    def points(self) -> int:
        """How many crash points there are, each way to crash counted."""
        return len(self.operations) * POINTS_PER_OPERATION


class Crashing(msgspec.Struct, frozen=True):
    """A drill whose controllers are to be crashed: its text, file, seed and quirks."""

    text: str
    source: str
    seed: int
    quirks: Quirks


class PointResult(msgspec.Struct, frozen=True):
    """Result of one crash point. ``failure`` is None if the cluster converged."""

    number: int
    outcome: Outcome
    failure: Failure | None = None


class _Failed(Exception):
    """The cluster did not converge."""

    def __init__(self, outcome: Outcome, failure: Failure) -> None:
        super().__init__(failure.expected)
        self.outcome = outcome
        self.failure = failure


def run_undisturbed(crashing: Crashing) -> Undisturbed:
    """Run a drill without a crash, and count the operations of its controllers.

    Raises UsageError if the drill is invalid or breaks connections at operations itself, KlammError
    if it does not pass or the cluster is not healthy at the end.
    """
    drill = _drill(crashing.text, crashing.source)
    check_simulated(drill, "crash points exist only in the simulated world")
    for step in drill.steps:
        problem = _problem_of(step)
        if problem is not None:
            hint = "leave such steps out of drills for klamm drill crash"
            raise UsageError(f"{step.place}: '{step.name}' {problem}", hint=hint)
    _check_passes(crashing, drill.name)
    driver = SimulatedDriver(drill.simulated_world(crashing.quirks, crashing.seed))
    operations = driver.breakpoints.record()
    try:
        codes, znodes = _run(drill, driver, None)
    except _Failed as failed:
        raise _not_passed(drill.name, failed.failure, failed.outcome) from None
    return Undisturbed(tuple(operations), codes, znodes)


def _check_passes(crashing: Crashing, name: str) -> None:
    """Check that a drill passes with all its conditions, which runs with a crash only wait for."""
    verdict = run_text(crashing.text, crashing.source, crashing.seed, crashing.quirks).verdict
    if verdict.outcome is not Outcome.PASSED:
        raise _not_passed(name, verdict.failures[0], verdict.outcome)


def _not_passed(name: str, failure: Failure, outcome: Outcome) -> KlammError:
    is_open = outcome is Outcome.INCONCLUSIVE
    how = "is inconclusive" if is_open else "fails"
    return KlammError(
        f"{failure.place}: {name} {how} without a crash: {harmless_line(str(failure))}",
        hint=STEPS_BEFORE,
        exit_code=int(outcome if is_open else Outcome.FAILED),
    )


def plan_crash(driver: SimulatedDriver, point: Point, broker_id: int) -> Callable[[], bool]:
    """Crash a controller at a crash point. Return a function that returns True once it is reached.

    ``broker_id``: the broker of the controller that will reach the crash point."""
    is_before = point.moment == "before"
    is_reached = driver.break_at(Breakpoint(is_before, operation=point.operation + 1))

    def crash() -> None:
        driver.run_until(is_reached, math.inf)
        CRASHES[point.crash](driver, broker_id)

    driver.turns.begin(crash)
    return is_reached


def run_point(number: int, crashing: Crashing, undisturbed: Undisturbed) -> PointResult:
    """Run the drill with a crash at one crash point, and judge its end."""
    point = Point(number)
    drill = _drill(crashing.text, crashing.source)
    driver = SimulatedDriver(drill.simulated_world(crashing.quirks, crashing.seed))
    is_reached = plan_crash(driver, point, undisturbed.operations[point.operation].broker_id)
    try:
        with time_limit(TIME_LIMIT_S):
            codes, znodes = _run(drill, driver, undisturbed.exit_codes)
    except OutOfTime:
        at = f"still running at {driver.elapsed_ms / 1000:.3f} s of simulated time"
        failure = Failure(drill.source, ENDS_IN_TIME, at)
        return PointResult(number, Outcome.STUCK, failure)
    except _Failed as failed:
        return PointResult(number, failed.outcome, failed.failure)
    except Exception as error:
        failure = internal_error(drill.source, f"{type(error).__name__}: {error}")
        return PointResult(number, Outcome.UNSAFE, failure)
    assert is_reached(), f"the run does not reach crash point {number}"
    if codes != undisturbed.exit_codes or _depends_on_controller(drill):
        return PointResult(number, Outcome.PASSED)  # its requests are not those without a crash
    for path in sorted(znodes.keys() | undisturbed.znodes.keys()):
        seen, expected = znodes.get(path, b"none"), undisturbed.znodes.get(path, b"none")
        if seen != expected:
            failure = Failure(drill.source, SAME_END, f"{path}: {seen!r}, expected {expected!r}")
            return PointResult(number, Outcome.UNSAFE, failure)
    return PointResult(number, Outcome.PASSED)


def crash_everywhere(
    crashing: Crashing, undisturbed: Undisturbed, points: Iterable[int], jobs: int
) -> Iterator[PointResult]:
    """Run a drill once for each of ``points`` in ``jobs`` processes; yield results when ready."""
    run = partial(run_point, crashing=crashing, undisturbed=undisturbed)
    for number, result in run_parallel(run, points, jobs):
        if isinstance(result, Died):
            failure = internal_error(crashing.source, str(result))
            yield PointResult(number, Outcome.INCONCLUSIVE, failure)
        else:
            yield result


def _problem_of(step: Step) -> str | None:
    """Return why no controller can be crashed in a drill with this step, or None."""
    if step.branches:
        return "has steps that do not run one after the other"
    if any(
        isinstance(a, BreakSession) and a.how in ("lose_request", "lose_reply")
        for a in step.actions
    ):
        return "breaks a connection at an operation itself"
    return None


@cache
def _drill(text: str, source: str) -> Drill:
    return parse_drill(text, source)


def _run(
    drill: Drill, driver: SimulatedDriver, expected: Sequence[int | None] | None
) -> tuple[tuple[int | None, ...], dict[str, bytes]]:
    """Run a drill and then heal everything. Return its exit codes, and the znodes that it leaves.

    Raises _Failed if the cluster does not converge. ``expected``: the exit codes without a crash.
    """
    driver.watch(tuple(INVARIANTS))
    runner = ScenarioRunner(driver)
    codes: list[int | None] = []
    step = RECOVERY
    try:
        for number, step in enumerate((*drill.steps, *drill.recovery)):
            if expected is None:
                codes.append(_run_step(runner, step))
            else:
                codes.append(_first_response(runner, step, expected[number]))
        step = RECOVERY
        (healthy,) = runner.run_step(RECOVERY).checks
        _await_controller(driver, _RECOVERY_MS)
        driver.run_until(lambda: not driver.disagreements(), _RECOVERY_MS)
    except InvariantViolated as error:
        raise _Failed(Outcome.UNSAFE, violation(step, error)) from None
    if driver.cluster.errors:
        failure = Failure(drill.source, NO_BROKER_ERROR, driver.cluster.errors[0])
        raise _Failed(Outcome.UNSAFE, failure)
    if not healthy.is_met:
        failure = Failure(drill.source, "a healthy cluster", str(healthy.seen))
        raise _Failed(Outcome.STUCK, failure)
    if drill.is_checked and (lines := driver.disagreements()):
        raise _Failed(Outcome.UNSAFE, Failure(drill.source, driver.agreement, lines[0]))
    return tuple(codes), _znodes(driver.cluster)


def _depends_on_controller(drill: Drill) -> bool:
    """Return True if steps act on the controller, which after a crash is another broker."""
    actions = (action for step in drill.steps for action in step.actions)
    return any(getattr(action, "broker", None) == CONTROLLER for action in actions)


def _first_response(runner: ScenarioRunner, step: Step, expected: int | None) -> int | None:
    """Run one step, and repeat it if its exit code is not ``expected``. Return the first exit code.

    The controller may have been missing, or have crashed with the request."""
    first = None
    for _ in range(_ATTEMPTS):
        code = _run_step(runner, step)
        first = code if first is None else first
        if code == expected:
            break
        _await_controller(runner.driver, _RETRY_MS)
    return first


def _await_controller(driver: ScenarioDriver, timeout_ms: float) -> None:
    driver.run_until(lambda: driver.controller_context() is not None, timeout_ms)
    driver.quiesce()


def _run_step(runner: ScenarioRunner, step: Step) -> int | None:
    """Run one step. Return the exit code of its tool, or None if an action was refused."""
    try:
        result = runner.run_step(step)
    except InvariantViolated:
        raise
    except KlammError:
        return None
    return 0 if result.tool is None else result.tool.exit_code


def _znodes(world: SimulatedWorld) -> dict[str, bytes]:
    """Return the data of all znodes but those of sessions, counters and partition states."""
    hidden = (*_OF_SESSIONS, *_COUNTS, *_NOTIFICATIONS)
    return {
        path: _TOPIC_ID.sub(b"", node.data or b"")
        for path, node in world.server.tree.nodes.items()
        if not path.startswith(hidden) and not path.endswith("/state")
    }
