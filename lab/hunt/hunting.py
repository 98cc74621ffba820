"""Runs thousands of generated drills in several processes, each drill in a simulated cluster.

drawing.py generates a drill, run.py runs and judges it, and shrinking.py shrinks a drill that
fails. This module prints nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

import msgspec

from klamm.cluster.errors import UsageError
from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.lab.drill import Drill
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.hunt.drawing import draw_drill
from klamm.lab.hunt.processes import OutOfTime, rare_collections, time_limit
from klamm.lab.hunt.shrinking import Shrunk, shrink
from klamm.lab.language.language import parse_drill
from klamm.lab.page.page import drill_headline, run_page
from klamm.lab.page.trace import RunTrace
from klamm.lab.run.drill_run import (
    ALWAYS,
    NO_INTERNAL_ERROR,
    Failure,
    Outcome,
    Verdict,
    internal_error,
    play,
    verdict_of,
)
from klamm.lab.run.runner import StepResult

ENDS_IN_TIME: Final = "the run ends within the time limit"
TIME_LIMIT_S: Final = 60.0
RunSeed = Callable[[int], "SeedResult"]
RunAll = Callable[[RunSeed, Iterable[int]], Iterator[tuple[int, "SeedResult | Exception"]]]
"""Calls a function for each seed, in other processes or on other machines.

Yields each seed, with an error instead of a result if the process has died."""


class HuntOptions(msgspec.Struct, frozen=True):
    """Options of a hunt.

    ``faults``: the kinds of faults to choose from; if empty, all kinds but power-off. ``shrinks``:
    whether failing drills are shrunk. ``time_limit_s``: how much CPU time the run of one drill may
    take.
    """

    quirks: Quirks = NO_QUIRKS
    faults: tuple[str, ...] = ()
    shrinks: bool = True
    time_limit_s: float = TIME_LIMIT_S


class SeedResult(msgspec.Struct, frozen=True):
    """Result of one seed.

    ``actions``: how many of the drill's faults and operations were carried out, not skipped.
    ``violated``: the invariant or condition that did not hold, or empty if the drill passed.
    ``shrunk``: the shrunk drill, or None if the drill passed or was not shrunk. ``shrunk_seen``:
    what was seen instead in the run of the shrunk drill, which violates the same, but at another
    time and journal row.
    """

    seed: int
    outcome: Outcome
    violated: str
    seen: str
    drill: str
    simulated_ms: float
    actions: int
    shrunk: Shrunk | None = None
    shrunk_seen: str = ""

    @property
    def has_ended(self) -> bool:
        """True if the run ended by itself, so that it can be repeated within the time limit."""
        return self.violated != ENDS_IN_TIME and self.outcome is not Outcome.INCONCLUSIVE


class DrillRun(msgspec.Struct, frozen=True):
    """The verdict on a drill, the simulated time, and the results of its finished steps."""

    verdict: Verdict
    simulated_ms: float
    results: tuple[StepResult, ...]

    @property
    def actions(self) -> int:
        """How many of the drill's actions were carried out, not skipped."""
        done = (result for result in self.results if result.refusal is None)
        return sum(len(result.step.actions) for result in done)

    @property
    def violated(self) -> str:
        """The first invariant or condition that did not hold, as text; empty if all held.

        The text is the same in every run with the same violation, so runs can be compared."""
        failures = self.verdict.failures
        return failures[0].expected if failures else ""


def run_text(
    text: str, source: str, seed: int, quirks: Quirks, time_limit_s: float = TIME_LIMIT_S
) -> DrillRun:
    """Run the drill with this text in a simulated cluster. Raises UsageError for an invalid drill.

    An internal error outside brokers and controllers also counts as a failure of the drill. A run
    that takes more than ``time_limit_s`` of CPU time is stopped and fails.
    """
    drill = parse_drill(text, source)
    return _run(drill, SimulatedDriver(drill.simulated_world(quirks, seed)), time_limit_s)


def page_of_text(text: str, source: str, seed: int, quirks: Quirks, repeat: str) -> str:
    """Run the drill with this text like ``run_text``, and return the page of the run as HTML.

    ``repeat``: the command that repeats the run."""
    drill = parse_drill(text, source)
    driver = SimulatedDriver(drill.simulated_world(quirks, seed))
    trace = RunTrace(driver)
    run = _run(drill, driver, TIME_LIMIT_S)
    head = drill_headline(drill, run.verdict, f"simulated, seed {seed}", repeat)
    return run_page(head, trace, run.results)


def _run(drill: Drill, driver: SimulatedDriver, time_limit_s: float) -> DrillRun:
    results: list[StepResult] = []
    try:
        with time_limit(time_limit_s), rare_collections():
            verdict = verdict_of(play(drill, driver), results.append)
    except OutOfTime:
        verdict = _hung(drill, len(results), driver.elapsed_ms)
    except Exception as error:
        failure = internal_error(drill.source, f"{type(error).__name__}: {error}")
        verdict = Verdict(Outcome.UNSAFE, driver.elapsed_ms, (failure,))
    return DrillRun(verdict, driver.elapsed_ms, tuple(results))


def _hung(drill: Drill, finished: int, at_ms: float) -> Verdict:
    """Return the verdict on a run that was stopped after ``finished`` steps."""
    is_in_step = finished < len(drill.steps)
    place = drill.steps[finished].place if is_in_step else drill.source
    during = f"step '{drill.steps[finished].name}'" if is_in_step else "the final check"
    seen = f"still in {during} at {at_ms / 1000:.3f} s of simulated time"
    return Verdict(Outcome.STUCK, at_ms, (Failure(place, ENDS_IN_TIME, seen),))


def run_seed(seed: int, options: HuntOptions) -> SeedResult:
    """Generate, run and judge the drill of one seed."""
    text = draw_drill(seed, options.faults)
    run = run_text(text, f"hunt-{seed}.yaml", seed, options.quirks, options.time_limit_s)
    shrunk, shrunk_seen = None, ""
    # Each shorter drill that hangs, too, would take the whole time limit.
    if run.violated and options.shrinks and run.violated != ENDS_IN_TIME:
        shrunk = shrink_failure(text, seed, options.quirks, run.violated)
        again = run_text(shrunk.text, f"hunt-{seed}-shrunk.yaml", seed, options.quirks)
        shrunk_seen = again.verdict.failures[0].seen
    seen = run.verdict.failures[0].seen if run.violated else ""
    return SeedResult(
        seed=seed,
        outcome=run.verdict.outcome,
        violated=run.violated,
        seen=seen,
        drill=text,
        simulated_ms=run.simulated_ms,
        actions=run.actions,
        shrunk=shrunk,
        shrunk_seen=shrunk_seen,
    )


def shrink_failure(text: str, seed: int, quirks: Quirks, violated: str) -> Shrunk:
    """Shrink a drill that violates ``violated``, as long as the smaller drill violates it, too."""

    def still_fails(candidate: str) -> bool:
        try:
            return run_text(candidate, "candidate", seed, quirks).violated == violated
        except UsageError:
            return False

    return shrink(text, still_fails, needs_recovery=not violated.startswith(ALWAYS))


def hunt(
    seeds: Iterable[int], options: HuntOptions, run_all: RunAll, seconds: float | None = None
) -> Iterator[SeedResult]:
    """Run the drills of ``seeds`` by ``run_all``, for at most ``seconds``.

    Yields each result when it is available. A seed whose process has died is inconclusive.
    """
    deadline_s = None if seconds is None else time.monotonic() + seconds
    run = partial(run_seed, options=options)
    for seed, result in run_all(run, _until(deadline_s, seeds)):
        if isinstance(result, Exception):
            text, outcome = draw_drill(seed, options.faults), Outcome.INCONCLUSIVE
            yield SeedResult(seed, outcome, NO_INTERNAL_ERROR, str(result), text, 0, 0)
        else:
            yield result


def _until(deadline_s: float | None, seeds: Iterable[int]) -> Iterator[int]:
    for seed in seeds:
        if deadline_s is not None and time.monotonic() >= deadline_s:
            return
        yield seed
