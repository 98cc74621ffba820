"""Output of a drill's run: lines of text, and plain values for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from klamm.drills.run import Outcome, Verdict
from klamm.runtime.scenarios.runner import CheckResult, StepResult
from klamm.runtime.scenarios.steps import Moment

_WORDS: Final = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "FAILED",
    Outcome.UNSAFE: "FAILED: safety violated",
    Outcome.STUCK: "FAILED: timed out",
    Outcome.INCONCLUSIVE: "inconclusive",
}
_INDENT: Final = " " * 12


def heading(name: str, world: str, about: str) -> str:
    """Return the first line of a run; ``world``: e.g. "simulated, seed 0"."""
    return f"{name} ({world}): {about}"


def step_lines(result: StepResult) -> Iterator[str]:
    """Describe a step: its start time and name, then its conditions."""
    yield f"{_clock(result.began_ms)}  {result.step.name}"
    for check in result.checks:
        yield _INDENT + _check_line(check, result)


def _check_line(result: CheckResult, step: StepResult) -> str:
    check = result.check
    word = "held" if result.is_met else "NOT HELD"
    waited = f" after {(result.at_ms - step.began_ms) / 1000:.3f} s"
    after = waited if check.moment is Moment.UNTIL else ""
    return f"{word}{after}: {check.moment.value} {check.condition}"


def verdict_lines(name: str, verdict: Verdict) -> Iterator[str]:
    """Describe the verdict: failures with expected and seen values, then the outcome."""
    for failure in verdict.failures:
        yield f"{failure.place}: expected {failure.expected}"
        yield f"{_INDENT}seen {failure.seen}"
    if verdict.agreement:
        yield f"{_clock(verdict.at_ms)}  {verdict.agreement}"
    yield f"{name} {_WORDS[verdict.outcome]} after {verdict.at_ms / 1000:.3f} s"


def _clock(at_ms: float) -> str:
    return f"{at_ms / 1000:8.3f} s"


def step_values(result: StepResult) -> dict[str, Any]:
    """Return a step as plain values; times in milliseconds since the cluster started."""
    return {
        "step": result.step.name,
        "place": result.step.place,
        "began_ms": round(result.began_ms, 3),
        "ended_ms": round(result.ended_ms, 3),
        "checks": [
            {
                "moment": check.check.moment.value,
                "condition": {check.check.condition.kind: check.check.condition.wanted},
                "place": check.check.place,
                "held": check.is_met,
                "seen": check.seen,
                "at_ms": round(check.at_ms, 3),
            }
            for check in result.checks
        ],
    }


def verdict_values(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain values."""
    return {
        "outcome": verdict.outcome.name.lower(),
        "exit_code": int(verdict.outcome),
        "at_ms": round(verdict.at_ms, 3),
        "failures": [
            {"place": f.place, "expected": f.expected, "seen": f.seen} for f in verdict.failures
        ],
    }
