"""`klamm hunt`: runs random drills in simulation, to find faults that violate an invariant.

Only parses options and prints; lab/hunt/hunting.py generates, runs, judges and shrinks the drills.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Container, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from klamm.cli.completion import complete_fault
from klamm.cli.options import AsJson, Jobs, QuirkNames, comma_separated, finite, print_result
from klamm.cli.running import ending_signals_raise
from klamm.cli.terminal import STATUS_LINE
from klamm.cli.waiting import waiting
from klamm.cluster.counting import counted
from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.cluster.quirks import Quirks, parse_quirks, quirk_options
from klamm.lab.hunt.drawn_steps import check_faults
from klamm.lab.hunt.hunting import TIME_LIMIT_S, HuntOptions, RunAll, SeedResult, page_of_text
from klamm.lab.hunt.hunting import hunt as run_hunt
from klamm.lab.hunt.processes import print_no_warnings, run_parallel
from klamm.lab.run.as_pytest import pytest_text
from klamm.lab.run.drill_run import Outcome, worst

EXAMPLES: Final = """
\b
Examples:
  klamm hunt
  klamm hunt --seeds 1000
  klamm hunt --minutes 60 --out found
  klamm hunt --seeds 7..7 --no-shrink --json
  klamm hunt --seeds 500 --quirks KAFKA-14140 --faults stop,kill
  klamm hunt --seeds 100000 --spark spark://host:7077

\b
Exit codes: 0 every drill passed, 1 a file cannot be written, 2 an option is invalid, 10 an
invariant was violated, 11 a cluster did not recover or a run did not end in time, 12 inconclusive.
"""
_SEEDS: Final = re.compile(r"([0-9]{1,12})(?:\.\.([0-9]{1,12}))?")
_ALL_SEEDS: Final = range(10**12)
_DRILL_FILE: Final = re.compile(r"hunt-([0-9]+)(?:-shrunk)?\.yaml")
_DEFAULT_MINUTES: Final = 1.0
_MEMORY_MB: Final = 512
_LINE_INTERVAL_S: Final = 60.0

SeedTimeout = Annotated[
    float,
    typer.Option(
        min=0.1, callback=finite, help="Seconds after which the run of a seed is stopped."
    ),
]
SparkMaster = Annotated[
    str | None,
    typer.Option(
        metavar="MASTER",
        help="Run the seeds on the executors of a Spark cluster, e.g. spark://host:7077.",
    ),
]
ExecutorMemory = Annotated[
    int,
    typer.Option(min=512, help="With --spark: heap size of each JVM, in MiB."),
]


def hunt(
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="COUNT|A..B", help="Number of seeds to run, starting at 0, or a range of seeds."
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            callback=finite,
            help="Stop after this many minutes. [default: 1 if --seeds is not given]",
        ),
    ] = None,
    jobs: Jobs = None,
    spark: SparkMaster = None,
    memory_mb: ExecutorMemory = _MEMORY_MB,
    faults: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,..",
            help="Use only these faults, e.g. kill,pause.",
            autocompletion=complete_fault,
        ),
    ] = None,
    quirks: QuirkNames = None,
    shrink: Annotated[
        bool, typer.Option(help="Shrink each failing drill to the steps that make it fail.")
    ] = True,
    seed_timeout: SeedTimeout = TIME_LIMIT_S,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Directory for the files of failing drills.")
    ] = Path("hunt"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the files of an earlier hunt.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Run randomly generated drills, and check every invariant after every event.

    For each seed, a hunt generates a drill of faults and operations, and runs it in a separate
    simulated world. A drill that fails is shrunk and written to a file, and so is a page that shows
    its run. The same seed always gives the same drill and the same run.
    """
    chosen = _seeds(seeds)
    reproduced, kinds = parse_quirks(comma_separated(quirks)), check_faults(comma_separated(faults))
    options = HuntOptions(reproduced, kinds, shrink, seed_timeout)
    if seeds is None and minutes is None:
        minutes = _DEFAULT_MINUTES
    seconds = None if minutes is None else minutes * 60
    run_all = _run_all(jobs, spark, memory_mb)
    report = _Report(out, faults, reproduced, overwrite=overwrite, quiet=json)
    report.check_out(() if overwrite else chosen)
    print_no_warnings()
    with ending_signals_raise():
        try:
            with nullcontext() if report.is_live else waiting("the hunt to end"):
                for result in run_hunt(chosen, options, run_all, seconds):
                    report.add(result)
        except (EnvironmentProblem, KeyboardInterrupt):
            report.print()  # What was found is not lost.
            raise
    report.print()
    raise typer.Exit(int(worst(report.outcomes)))


def _run_all(jobs: int | None, master: str | None, memory_mb: int) -> RunAll:
    """Return what runs the seeds: processes on this machine, or a Spark cluster."""
    if master is None:
        return partial(run_parallel, jobs=jobs or os.cpu_count() or 1)
    if jobs is not None:
        raise UsageError("give either --jobs or --spark, not both", hint="e.g. --spark local[4]")
    from klamm.replay.spark_tasks import run_on_executors

    return partial(run_on_executors, master=master, memory_mb=memory_mb)


def _seeds(text: str | None) -> range:
    if text is None:
        return _ALL_SEEDS
    found = _SEEDS.fullmatch(text)
    if found is None:
        hint = "give a count such as 100, or a range such as 7..12"
        raise UsageError(f"--seeds {text} is not a count or a range", hint=hint)
    first, last = found[1], found[2]
    if last is None:
        if int(first) == 0:
            raise UsageError("--seeds 0 runs no drill", hint="for only seed 0, give 0..0")
        return range(int(first))
    if int(last) < int(first):
        raise UsageError(f"--seeds {text}: the range is empty", hint="e.g. 7..12")
    return range(int(first), int(last) + 1)


class _Report:
    """Counts results, shows the counts live, and writes failing drills to files."""

    def __init__(
        self, out: Path, faults: str | None, quirks: Quirks, *, overwrite: bool, quiet: bool
    ) -> None:
        self.outcomes: list[Outcome] = []
        self._out = out
        self._quirks = quirks
        self._faults = faults
        # Another hunt may write to the same directory meanwhile.
        self._mode = "w" if overwrite else "x"
        self._quiet = quiet
        self.is_live = not quiet and sys.stderr.isatty()
        self._began_s = time.monotonic()
        self._next_line_s = self._began_s + _LINE_INTERVAL_S
        self._seeds = self._actions = 0
        self._simulated_ms = 0.0
        self._found: list[dict[str, object]] = []

    def check_out(self, seeds: Container[int]) -> None:
        """Raise KlammError if the directory has a drill of these seeds, or cannot be written to.

        Leaves no trace.
        """
        for path in sorted(self._out.glob("hunt-*.yaml")):
            found = _DRILL_FILE.fullmatch(path.name)
            if found is not None and int(found[1]) in seeds and path.is_file():
                hint = "--overwrite replaces it, --out chooses another directory"
                raise UsageError(f"{path} of an earlier hunt already exists", hint=hint)
        missing = [path for path in (self._out, *self._out.parents) if not path.exists()]
        try:
            self._out.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._out):
                pass
        except OSError as error:
            raise _unwritable(self._out, error) from error
        finally:
            for path in missing:
                with suppress(OSError):
                    path.rmdir()

    def add(self, result: SeedResult) -> None:
        """Count a result; if it is a violation, print it and write its drill to a file."""
        self._seeds += 1
        self._actions += result.actions
        self._simulated_ms += result.simulated_ms
        if result.outcome is not Outcome.PASSED:
            self.outcomes.append(result.outcome)
            self._add_violation(result)
        if self.is_live:
            STATUS_LINE.refresh(self.counts)
        elif time.monotonic() >= self._next_line_s:
            self._next_line_s += _LINE_INTERVAL_S
            typer.echo(self.counts(), err=True)

    def counts(self) -> str:
        """Return the counts as one line."""
        seconds = max(time.monotonic() - self._began_s, 0.001)
        violations = self.outcomes.count(Outcome.UNSAFE)
        others = len(self.outcomes) - violations
        return (
            f"{counted(self._seeds, 'seed')} ({self._seeds / seconds:.1f}/s), "
            f"{self._actions:,} faults and operations, "
            f"{self._simulated_ms / 3_600_000:.1f} simulated hours "
            f"({self._simulated_ms / 1000 / seconds:,.0f} times real time), "
            f"{counted(violations, 'violation')}"
            + (f", {counted(others, 'other failure')}" if others else "")
        )

    def print(self) -> None:
        """Print the counts, and as JSON also the violations."""
        STATUS_LINE.erase()
        print_result(
            self._quiet, self.values(), [self.counts() if self._seeds else "no seed was run"]
        )

    def values(self) -> dict[str, Any]:
        """Return the counts and violations as plain values, for JSON."""
        return {
            "exit_code": int(worst(self.outcomes)),
            "seeds": self._seeds,
            "actions": self._actions,
            "simulated_ms": round(self._simulated_ms),
            "seconds": round(time.monotonic() - self._began_s, 1),
            "violations": self._found,
        }

    def _add_violation(self, result: SeedResult) -> None:
        seed = result.seed
        found: dict[str, object] = {
            "seed": seed,
            "outcome": result.outcome.name.lower(),
            "violated": result.violated,
            "seen": result.seen,
        }
        self._found.append(found)
        lines = [f"seed {seed}: {result.violated}"]
        try:
            lines += self._write_files(result, found)
        except EnvironmentProblem:
            faults = [] if self._faults is None else ["--faults", self._faults]
            words = ["klamm", "hunt", "--seeds", f"{seed}..{seed}", *faults]
            found["repeat"] = shlex.join([*words, *quirk_options(self._quirks)])
            lines += [f"  {result.seen}", f"  repeat it with: {found['repeat']}"]
            raise
        finally:
            if not self._quiet:
                STATUS_LINE.erase()
                typer.echo("\n".join(lines))

    def _write_files(self, result: SeedResult, found: dict[str, object]) -> Iterator[str]:
        """Write the files of a violation and add them to ``found``. Yield the lines about them."""
        seed, shrunk = result.seed, result.shrunk
        text, source = result.drill, self._write(f"hunt-{seed}.yaml", result.drill, self._mode)
        repeat = found["repeat"] = self._command(source, seed)
        if shrunk is not None:
            text, source = shrunk.text, self._write(f"hunt-{seed}-shrunk.yaml", shrunk.text)
            repeat = self._command(source, seed)
            test = pytest_text(f"hunt-{seed}", text, seed, self._quirks, result.violated)
            found["test"] = str(self._write(f"test_hunt_{seed}.py", test))
            found["shrunk"] = {
                "steps_before": shrunk.steps_before,
                "steps_after": shrunk.steps_after,
                "seen": result.shrunk_seen,
                "repeat": repeat,
            }
            yield f"  shrunk from {counted(shrunk.steps_before, 'step')} to {shrunk.steps_after}"
        yield f"  {result.seen if shrunk is None else result.shrunk_seen}"
        yield f"  repeat it with: {repeat}"
        if shrunk is not None:
            yield f"  as a test: {found['test']}"
        if result.has_ended:
            page = page_of_text(text, source.name, seed, self._quirks, repeat)
            found["page"] = str(self._write(f"hunt-{seed}.html", page))
            yield f"  page: {found['page']}"

    def _command(self, path: Path, seed: int) -> str:
        words = ["klamm", "drill", "run", str(path), "--seed", str(seed)]
        return shlex.join([*words, *quirk_options(self._quirks)])

    def _write(self, name: str, text: str, mode: str = "w") -> Path:
        path = self._out / name
        try:
            self._out.mkdir(parents=True, exist_ok=True)
            with path.open(mode, encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise _unwritable(path, error) from error
        return path


def _unwritable(path: Path, error: OSError) -> EnvironmentProblem:
    message = f"{path} cannot be written: {error.strerror}"
    return EnvironmentProblem(message, hint="choose another directory with --out")
