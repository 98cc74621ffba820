"""Output of a drill: as lines of text, and as plain values for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from klamm.cluster.counting import counted
from klamm.lab.conditions.condition import CheckResult
from klamm.lab.conditions.partition_times import PartitionAvailability
from klamm.lab.run.drill_run import Outcome, Verdict
from klamm.lab.run.runner import StepResult

OUTCOME_WORDS: Final = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "FAILED",
    Outcome.UNSAFE: "FAILED: safety violated",
    Outcome.STUCK: "FAILED: timed out",
    Outcome.INCONCLUSIVE: "inconclusive",
}
_INDENT: Final = " " * 12


def heading(name: str, world: str, about: str) -> str:
    """Return the first line of the output. ``world`` is, for example, "simulated, seed 0"."""
    return f"{name} ({world}): {about}"


def step_lines(result: StepResult) -> Iterator[str]:
    """Describe a finished step: its start time and name, then its conditions."""
    yield f"{_clock(result.began_ms)}  {result.step.name}"
    if result.refusal is not None:
        yield f"{_INDENT}skipped: {result.refusal}"
    for check in result.checks:
        yield _INDENT + check_text(check, result)


def check_text(result: CheckResult, step: StepResult) -> str:
    """Describe a checked condition: whether it held, and after which time."""
    check = result.check
    if result.is_met is None:
        return f"not observable: {check.moment.value} {check.condition}"
    word = "held" if result.is_met else "NOT HELD"
    waited = f" after {(result.at_ms - step.began_ms) / 1000:.3f} s"
    after = waited if check.moment.is_awaited else ""
    return f"{word}{after}: {check.moment.value} {check.condition}"


def verdict_lines(name: str, verdict: Verdict) -> Iterator[str]:
    """Describe the verdict: when each condition of ``sometimes`` first held, each failure with
    expected and observed values, the partitions that suffered, then the outcome."""
    met = (result for result in verdict.sometimes if result.is_met)
    for result in sorted(met, key=lambda result: result.at_ms):
        yield f"{_clock(result.at_ms)}  held: sometimes {result.check.condition}"
    for failure in verdict.failures:
        yield f"{failure.place}: expected {failure.expected}"
        yield f"{_INDENT}seen {failure.seen}"
    for tp, suffered in verdict.partitions.items():
        if not suffered.is_flawless:
            yield f"{_INDENT}{tp}: {_partition_words(suffered)}"
    if verdict.agreement:
        yield f"{_clock(verdict.at_ms)}  {verdict.agreement}"
    hidden = f"; conditions not observable: {verdict.unobserved}" if verdict.unobserved else ""
    yield f"{name} {OUTCOME_WORDS[verdict.outcome]} after {verdict.at_ms / 1000:.3f} s{hidden}"


def _partition_words(result: PartitionAvailability) -> str:
    words = [
        f"unavailable {result.unavailable_ms / 1000:.3f} s",
        f"under-replicated {result.under_replicated_ms / 1000:.3f} s",
    ]
    for count, what in ((result.records_in_doubt, "in doubt"), (result.records_lost, "lost")):
        words += [] if count is None else [f"{counted(count, 'record')} {what}"]
    return ", ".join(words)


def _clock(at_ms: float) -> str:
    return f"{at_ms / 1000:8.3f} s"


def step_values(result: StepResult) -> dict[str, Any]:
    """Return a finished step as plain values.

    Times are in milliseconds since the cluster started."""
    return {
        "step": result.step.name,
        "place": result.step.place,
        "began_ms": round(result.began_ms, 3),
        "ended_ms": round(result.ended_ms, 3),
        "skipped": result.refusal,
        "checks": [_check_values(check) for check in result.checks],
    }


def _check_values(result: CheckResult) -> dict[str, Any]:
    check = result.check
    return {
        "moment": check.moment.value,
        "condition": {check.condition.kind: check.condition.wanted},
        "place": check.place,
        "held": result.is_met,
        "seen": result.seen,
        "at_ms": round(result.at_ms, 3),
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
        "partitions": {
            str(tp): {
                "unavailable_ms": round(result.unavailable_ms, 3),
                "under_replicated_ms": round(result.under_replicated_ms, 3),
                "records_in_doubt": result.records_in_doubt,
                "records_lost": result.records_lost,
            }
            for tp, result in verdict.partitions.items()
        },
        "not_observable": verdict.unobserved,
        "sometimes": [_check_values(result) for result in verdict.sometimes],
    }
