"""`klamm drill crash`: crashes the controller at every ZooKeeper operation of a drill.

Only parses options and prints; lab/crash_points.py runs the drill and judges the end.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Annotated, Any, Final

import typer

from klamm.cli.completion import complete_drill
from klamm.cli.options import AsJson, Jobs, QuirkNames, Seed, comma_separated, print_result
from klamm.cli.running import ending_signals_raise
from klamm.cli.terminal import STATUS_LINE
from klamm.cli.waiting import waiting
from klamm.cluster.counting import counted
from klamm.cluster.errors import UsageError
from klamm.cluster.quirks import parse_quirks, quirk_options
from klamm.lab import crash_points
from klamm.lab.crash_points import CRASHES, Crashing, Point, PointResult, Undisturbed
from klamm.lab.drills import library
from klamm.lab.hunt.processes import print_no_warnings
from klamm.lab.run.drill_run import Outcome, worst

EXAMPLES: Final = """
\b
Examples:
  klamm drill crash leader-loss
  klamm drill crash mine.yaml --seed 7 --points 1..60
  klamm drill crash reassign-cancel --json

\b
Exit codes: 0 the cluster always converged, 1 the drill fails without a crash, 2 a file or an option
is invalid, 10 an invariant was violated or another end was reached, 11 the cluster did not recover,
12 inconclusive.
"""
_POINTS: Final = re.compile(r"([0-9]{1,9})(?:\.\.([0-9]{1,9}))?")
_OTHER: Final = "between events"


def crash(
    drill: Annotated[
        str,
        typer.Argument(
            metavar="DRILL",
            help="A drill file, or the name of a shipped drill.",
            autocompletion=complete_drill,
        ),
    ],
    seed: Seed = 0,
    points: Annotated[
        str | None, typer.Option(metavar="N..M", help="Crash points to run. [default: all]")
    ] = None,
    quirks: QuirkNames = None,
    jobs: Jobs = None,
    json: AsJson = False,
) -> None:
    """Crash the controller before and after each of its ZooKeeper operations in a drill.

    The drill runs in simulation, once for each operation, moment (before, after) and crash: the
    broker is killed and restarted; another controller takes over; or the controller is suspended,
    deposed and resumed. Each run must end like a run without a crash: healthy, with the same
    assignments, configs and requests, no violated invariant and no lost record. The drill must pass
    without a crash.
    """
    plan = Crashing(library.find_text(drill), drill, seed, parse_quirks(comma_separated(quirks)))
    print_no_warnings()
    with ending_signals_raise():
        with waiting("the drill to run without a crash"):
            undisturbed = crash_points.run_undisturbed(plan)
        chosen = _chosen(points, undisturbed)
        report = _Report(plan, undisturbed, len(chosen), quiet=json)
        count = jobs or os.cpu_count() or 1
        what = f"{counted(len(chosen), 'crash point')} to be run"
        try:
            with nullcontext() if report.is_live else waiting(what):
                for result in crash_points.crash_everywhere(plan, undisturbed, chosen, count):
                    report.add(result)
        except KeyboardInterrupt:
            report.print()
            raise
    report.print()
    raise typer.Exit(int(report.outcome))


def _chosen(text: str | None, undisturbed: Undisturbed) -> range:
    """Return the crash points to run. Raises UsageError if there are no such points."""
    last = undisturbed.points
    if text is None:
        return range(1, last + 1)
    found = _POINTS.fullmatch(text)
    if found is None:
        raise UsageError(f"--points {text} is not a range", hint="e.g. 7 or 1..60")
    low, high = int(found[1]), int(found[2] or found[1])
    if not 1 <= low <= high <= last:
        hint = f"e.g. 1 or 1..{last}"
        raise UsageError(f"--points {text}: the drill has crash points 1 to {last}", hint=hint)
    return range(low, high + 1)


class _Report:
    """Counts results by controller event and crash, shows progress, and prints failures."""

    def __init__(
        self,
        plan: Crashing,
        undisturbed: Undisturbed,
        total: int,
        *,
        quiet: bool,
    ) -> None:
        self._plan = plan
        self._undisturbed = undisturbed
        self._total = total
        self._quiet = quiet
        self.is_live = not quiet and sys.stderr.isatty()
        self._began_s = time.monotonic()
        self._outcomes: list[Outcome] = []
        self._counts: dict[str, dict[str, list[int]]] = {}
        self._failures: list[dict[str, Any]] = []

    @property
    def outcome(self) -> Outcome:
        """The worst outcome so far."""
        return worst(self._outcomes)

    def add(self, result: PointResult) -> None:
        """Count a result. If the cluster did not converge, print how to repeat the run."""
        point = Point(result.number)
        operation = self._undisturbed.operations[point.operation]
        row = self._counts.setdefault(operation.event or _OTHER, {})
        count = row.setdefault(point.crash, [0, 0])
        count[0] += result.failure is None
        count[1] += 1
        self._outcomes.append(result.outcome)
        if result.failure is not None:
            self._add_failure(result, point)
        if self.is_live:
            total = counted(self._total, "point")
            STATUS_LINE.refresh(lambda: f"{len(self._outcomes):,} of {total}: {self._sum()}")

    def print(self) -> None:
        """Print the counts so far, as JSON or as a table."""
        STATUS_LINE.erase()
        print_result(self._quiet, self.values(), self.table())

    def table(self) -> Iterator[str]:
        """Return the counts by event and crash as lines of text."""
        width = max(len("event"), *map(len, self._counts))
        yield f"{'event':{width}}" + "".join(f"  {crash:>11}" for crash in CRASHES)
        for event, row in sorted(self._counts.items()):
            cells = (row.get(crash, (0, 0)) for crash in CRASHES)
            texts = (f"{ok:,} of {total:,}" if total else "" for ok, total in cells)
            yield f"{event:{width}}" + "".join(f"  {text:>11}" for text in texts)
        yield f"{counted(len(self._outcomes), 'crash point')}: {self._sum()}"

    def values(self) -> dict[str, Any]:
        """Return the counts and failures as plain values, for JSON."""
        return {
            "exit_code": int(self.outcome),
            "drill": self._plan.source,
            "seed": self._plan.seed,
            "operations": len(self._undisturbed.operations),
            "points": len(self._outcomes),
            "converged": len(self._outcomes) - len(self._failures),
            "events": [
                {
                    "event": event,
                    "crashes": {
                        crash: {"converged": ok, "points": total}
                        for crash, (ok, total) in sorted(row.items())
                    },
                }
                for event, row in sorted(self._counts.items())
            ],
            "failures": sorted(self._failures, key=lambda failure: int(failure["point"])),
        }

    def _sum(self) -> str:
        seconds = max(time.monotonic() - self._began_s, 0.001)
        failed = len(self._failures)
        return (
            f"{len(self._outcomes) - failed:,} converged, {failed:,} did not "
            f"({len(self._outcomes) / seconds:.1f}/s)"
        )

    def _add_failure(self, result: PointResult, point: Point) -> None:
        operation = self._undisturbed.operations[point.operation]
        assert result.failure is not None
        words = ["klamm", "drill", "crash", self._plan.source, "--seed", str(self._plan.seed)]
        words += ["--points", str(point.number)]
        words += quirk_options(self._plan.quirks)
        failure = {
            "point": point.number,
            "crash": point.crash,
            "moment": point.moment,
            "operation": point.operation + 1,
            "text": operation.text,
            "event": operation.event,
            "broker": operation.broker_id,
            "outcome": result.outcome.name.lower(),
            "expected": result.failure.expected,
            "seen": result.failure.seen,
            "repeat": shlex.join(words),
        }
        self._failures.append(failure)
        if not self._quiet:
            STATUS_LINE.erase()
            typer.echo(
                f"point {point.number}, {point.crash} {point.moment} operation "
                f"{point.operation + 1} of broker {operation.broker_id}'s controller "
                f"({operation.text}, in {operation.event or _OTHER}):\n"
                f"  expected {result.failure.expected}\n"
                f"  seen {result.failure.seen}\n"
                f"  repeat it with: {failure['repeat']}"
            )
