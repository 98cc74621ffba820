"""`klamm drill run`: runs drills and recordings, in simulation or on a real cluster.

Only parses options and prints; lab/run/drill_run.py runs the drills. With --twice, the drills run
again in another process. The same seed must give the same journal, byte for byte. The second
process has another hash seed, so that a dependence on the order of a set is found, too.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from klamm.cli.connect import security_of
from klamm.cli.drill_until import run_until
from klamm.cli.drill_world import (
    DRILLS,
    WORLD_NAMES,
    OnKafka,
    check_options,
    chosen_world,
    find_for_world,
    not_run_words,
    why_left_out,
    world_options,
)
from klamm.cli.errors import NOT_DETERMINISTIC
from klamm.cli.options import AsJson, QuirkNames, comma_separated, print_json, print_lines
from klamm.cli.running import ending_signals_raise, own_log, work_folder, write_file
from klamm.cli.waiting import running_step, waiting
from klamm.cluster.errors import KlammError, UsageError
from klamm.cluster.journal import JOURNAL_FILE
from klamm.cluster.quirks import Quirks, parse_quirks, quirk_options
from klamm.cluster.version import klamm_version
from klamm.interrupts import temporary_folder
from klamm.lab.drill import Drill, Step
from klamm.lab.drills import library
from klamm.lab.page.page import drill_headline, run_page
from klamm.lab.page.trace import RunTrace
from klamm.lab.recordings.recordings import Recording, is_recording, play_recording
from klamm.lab.run import text
from klamm.lab.run.drill_run import Outcome, Verdict, play, verdict_of, worst
from klamm.lab.run.junit import junit_xml
from klamm.lab.run.runner import StepResult
from klamm.lab.run.worlds import World, Worlds

EXAMPLES: Final = """
\b
Examples:
  klamm drill run leader-loss
  klamm drill run leader-loss controller-loss --seed 7 --quirks 2.8.2
  klamm drill run mine.yaml --real --data-dir ./drill
  klamm drill run leader-loss --on kafka
  klamm drill run mine.yaml --real --zookeeper localhost:2181/drills --json
  klamm drill run --all --junit drills.xml
  klamm drill run mine.yaml --page mine.html
  klamm drill run leader-loss --seed 7 --twice
  klamm drill run leader-loss --until 'on: {kind: broker_offline}' --data-dir ./drill

\b
Exit codes: 0 all drills passed, 1 a step failed or an expectation did not hold, 2 a file or an
option is invalid, 10 an invariant was violated, or a broker or the controller disagrees with
ZooKeeper at the end, 11 a wait timed out, 12 inconclusive, 13 the two runs of --twice differ. With
--until: 0 unless the drill ends before the moment.
"""
_NO_UNTIL: Final = "--until cannot be combined with --all, --real, --twice, --junit or --page"
_HASH_SEED: Final = "PYTHONHASHSEED"
_SHOWN_BYTES: Final = 300

ZooKeeperChroot = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT/CHROOT",
        help="With --real: an existing ZooKeeper. [default: a private one]",
    ),
]
RunAll = Annotated[
    bool,
    typer.Option("--all", help="Run all drills of `drill list` that run in the chosen world."),
]
IsRepeated = Annotated[
    bool, typer.Option("--twice", help="Run each drill again, and compare the two journals.")
]
UntilMoment = Annotated[
    str | None,
    typer.Option(
        metavar="MOMENT",
        help="Stop a simulated drill at 'row 78', 6.4s, 'step 5' or 'on: {kind: broker_offline}',"
        " and show where it is.",
    ),
]
JUnitFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write the results as JUnit XML.")
]
PageFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Also write a page (HTML) that shows the run of one drill."),
]


def run(
    drills: Annotated[list[str] | None, DRILLS] = None,
    run_all: RunAll = False,
    twice: IsRepeated = False,
    real: Annotated[
        bool,
        typer.Option(help="Run on a real ZooKeeper in real time, not in simulation."),
    ] = False,
    on: OnKafka = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Random seed of the simulation. [default: 0]")
    ] = None,
    zookeeper: ZooKeeperChroot = None,
    quirks: QuirkNames = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep each drill's journal and ZooKeeper's data in this directory."),
    ] = None,
    junit: JUnitFile = None,
    page: PageFile = None,
    until: UntilMoment = None,
    json: AsJson = False,
) -> None:
    """Run drills one after the other.

    In the simulated world, the same seed gives byte-identical output. A recording of real Kafka
    brokers (.json) is run and compared with what those brokers did.
    """
    world = chosen_world(real, on)
    check_options(world, seed, zookeeper, twice, quirks, page)
    parsed = parse_quirks(comma_separated(quirks))
    if until is not None:
        if run_all or world is not World.SIMULATION or twice or junit or page:
            raise UsageError(_NO_UNTIL)
        drill = _drill_to_stop(drills or [])
        raise typer.Exit(run_until(drill, until, seed or 0, parsed, data_dir, as_json=json))
    words, left_out = _chosen(drills or [], run_all, world, page)
    found = [find_for_world(word, world, zookeeper) for word in words]
    _check_files(junit, page)
    with (
        ending_signals_raise(),
        work_folder(data_dir, "klamm-drill-") as folder,
        own_log(folder),
        contextlib.ExitStack() as stack,
    ):
        security = security_of(os.environ)
        opened = Worlds(
            folder, klamm_version(), world=world, zookeeper=zookeeper, security=security
        )
        with waiting(f"ZooKeeper at {zookeeper}" if zookeeper else "ZooKeeper to start"):
            worlds = stack.enter_context(opened)
        runs = _Runs(worlds, parsed, seed or 0, page, quiet=json)
        outcomes = runs.run_all(found, words)
        is_same = not twice or runs.repeat(words, folder)
    code = int(worst(outcomes)) if is_same else NOT_DETERMINISTIC
    if junit is not None:
        write_file(junit, junit_xml(runs.reports, runs.durations_s, left_out))
    if json:
        not_run = [{"drill": name, "worlds": reason} for name, reason in left_out.items()]
        print_json({"exit_code": code, "drills": runs.reports, "not_run": not_run})
    else:
        if len(outcomes) > 1:
            names = [drill.name for drill in found]
            typer.echo("; ".join((*_passed_words(names, outcomes), *not_run_words(left_out))))
        if data_dir is not None:
            typer.echo(f"Journals: {data_dir}")
    raise typer.Exit(code)


def _check_files(junit: Path | None, page: Path | None) -> None:
    """Empty the files that the drills' run will write, to fail before it and not after."""
    if page is not None and page == junit:
        raise UsageError("--page and --junit name the same file")
    for path in (junit, page):
        if path is not None:
            write_file(path, "")


def _passed_words(names: Sequence[str], outcomes: Sequence[Outcome]) -> list[str]:
    """Say how many drills passed, and which did not."""
    ended = zip(names, outcomes, strict=True)
    others = [name for name, outcome in ended if outcome is not Outcome.PASSED]
    words = [f"{len(names) - len(others)} of {len(names)} drills passed"]
    return [*words, f"not passed: {', '.join(others)}"] if others else words


def _drill_to_stop(words: list[str]) -> Drill:
    """Return the one drill in ``words``, which --until stops."""
    if len(words) != 1 or is_recording(Path(words[0])):
        raise UsageError("--until needs exactly one drill")
    drill = library.find_drill(words[0])
    library.check_simulated(drill, "only a simulated run has --until")
    return drill


def _chosen(
    drills: list[str], run_all: bool, world: World, page: Path | None
) -> tuple[list[str], dict[str, str]]:
    """Return the names of the drills to run: ``drills``, or with --all the shipped drills.

    Also returns the shipped drills that are left out with --all, because the world cannot run
    them, each with the reason.
    """
    if run_all == bool(drills):
        both = ", but not both" if run_all else ""
        hint = "klamm drill list lists the shipped drills"
        raise UsageError(f"give either drills or --all{both}", hint=hint)
    if page is not None and (run_all or len(drills) > 1):
        raise UsageError("--page shows one drill", hint="run each drill with its own --page FILE")
    if not run_all:
        return drills, {}
    reasons = {name: why_left_out(library.named_drill(name), world) for name in library.NAMES}
    left_out = {name: reason for name, reason in reasons.items() if reason is not None}
    return [name for name in library.NAMES if name not in left_out], left_out


def _announced(
    played: Iterator[StepResult | Verdict], drill: Drill | Recording
) -> Iterator[StepResult | Verdict]:
    """Yield the results of a run; if a step takes a long time, name it on standard error."""
    steps: tuple[Step, ...] = ()
    if isinstance(drill, Drill) and not any(step.branches for step in drill.steps):
        steps = (*drill.steps, *drill.recovery)
    for number in itertools.count():
        is_known = number < len(steps)
        with running_step(steps[number].name) if is_known else waiting("the next step"):
            part = next(played, None)
        if part is None:
            return
        yield part


def _repeating(world: World, seed: int, quirks: Quirks) -> list[str]:
    """Return the options of `klamm drill run` that choose a world, a seed and quirks."""
    words = ["--seed", str(seed)] if world is World.SIMULATION else world_options(world)
    return [*words, *quirk_options(quirks)]


class _Runs:
    """Runs drills, and prints their steps and verdicts or collects them for JSON."""

    def __init__(
        self, worlds: Worlds, quirks: Quirks, seed: int, page: Path | None, *, quiet: bool
    ) -> None:
        self._worlds = worlds
        self._quirks = quirks
        self._seed = seed
        self._page = page
        self._quiet = quiet
        self.reports: list[dict[str, Any]] = []
        self.durations_s: list[float] = []

    def run_all(self, drills: Sequence[Drill | Recording], words: Sequence[str]) -> list[Outcome]:
        """Run drills, and return their outcomes. If interrupted, say how those so far ended."""
        outcomes: list[Outcome] = []
        try:
            for drill, word in zip(drills, words, strict=True):
                outcomes.append(self.run(drill, word))
        except KeyboardInterrupt:
            passed, ended, count = outcomes.count(Outcome.PASSED), len(outcomes), len(drills)
            if count > 1:
                self._say(f"{passed} of {ended} drills passed; {count - ended} not completed")
            raise
        return outcomes

    def run(self, drill: Drill | Recording, word: str) -> Outcome:
        """Run a drill or a recording and return its outcome."""
        world = WORLD_NAMES[self._worlds.world]
        is_simulated = self._worlds.world is World.SIMULATION
        where = f"{world}, seed {self._seed}" if is_simulated else world
        self._say(text.heading(drill.name, where, drill.about))
        spec, began_s = drill.spec(self._quirks, self._seed), time.monotonic()
        results: list[StepResult] = []
        again = shlex.join(["klamm", "drill", "run", *self._arguments([word])])
        with contextlib.ExitStack() as stack:
            with waiting(f"the cluster of {drill.name} to start"):
                driver = stack.enter_context(self._worlds.open(spec, drill.name))
            trace = None if self._page is None else RunTrace(driver)
            if isinstance(drill, Recording):
                played = play_recording(drill, driver)
            else:
                played = play(drill, driver, is_measured=not self._worlds.world.has_kafka)

            def on_result(result: StepResult) -> None:
                results.append(result)
                self._say(*text.step_lines(result))

            with contextlib.closing(played):
                verdict = verdict_of(_announced(played, drill), on_result)
            if self._page is not None and trace is not None:
                head = drill_headline(drill, verdict, where, again)
                write_file(self._page, run_page(head, trace, results))
        self._say(*text.verdict_lines(drill.name, verdict))
        if verdict.outcome is not Outcome.PASSED:
            self._say(f"repeat it with: {again}")
        if self._page is not None:
            self._say(f"page: {self._page}")
        self.durations_s.append(time.monotonic() - began_s)
        self.reports.append(
            {
                "drill": drill.name,
                "world": world,
                "seed": self._seed if is_simulated else None,
                **text.verdict_values(verdict),
                "repeat": again,
                "steps": [text.step_values(result) for result in results],
                **({} if self._page is None else {"page": str(self._page)}),
            }
        )
        return verdict.outcome

    def repeat(self, words: list[str], folder: Path) -> bool:
        """Run all drills again, and compare their journals with those in ``folder``.

        Returns True if all journals are the same.
        """
        with waiting("the second runs"):
            repeated = repeat(self._arguments(words), folder)
        for report, one in zip(self.reports, repeated, strict=True):
            report["repeated"] = one
            self._say(*one.lines(report["drill"]))
        return all(one.is_same for one in repeated)

    def _arguments(self, words: list[str]) -> list[str]:
        """Return the arguments of `klamm drill run` that repeat the runs of drills."""
        return [*words, *_repeating(self._worlds.world, self._seed, self._quirks)]

    def _say(self, *lines: str) -> None:
        if not self._quiet:
            print_lines(lines)


class Repeated(msgspec.Struct, frozen=True):
    """Comparison of a drill's journal with the journal of its second run.

    ``row_count``: rows that both journals have from the beginning. ``first``, ``second``: the first
    row that differs, in both runs; empty if the journal has no more rows, None if they are equal.
    """

    row_count: int
    first: str | None = None
    second: str | None = None

    @property
    def is_same(self) -> bool:
        """True if both journals are the same, byte for byte."""
        return self.first is None

    def lines(self, drill: str) -> list[str]:
        """Return the comparison as lines of text."""
        if self.is_same:
            return [f"{drill}: both runs wrote the same journal, {self.row_count:,} rows"]
        return [
            f"{drill} is NOT DETERMINISTIC: row {self.row_count + 1:,} of the journal differs",
            f"  first run:  {self.first or 'no row'}",
            f"  second run: {self.second or 'no row'}",
        ]


def repeat(arguments: Sequence[str], journals: Path) -> list[Repeated]:
    """Run drills a second time, and compare their journals with those of the first run.

    - ``arguments``: the arguments of `klamm drill run` in the first run.
    - ``journals``: the directory in which the first run has a directory for each drill.

    Raises KlammError if the second run does not end with a verdict on every drill.
    """
    with temporary_folder("klamm-drill-") as folder:
        command = [sys.executable, "-m", "klamm", "drill", "run", *arguments, "--json"]
        done = subprocess.run(
            [*command, "--data-dir", str(folder)],
            env={**os.environ, _HASH_SEED: "2" if os.environ.get(_HASH_SEED) == "1" else "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        # Directories are named NUMBER-DRILL, in the order of the runs.
        found = sorted(
            journals.glob(f"*/{JOURNAL_FILE}"), key=lambda path: int(path.parent.name.split("-")[0])
        )
        again = [folder / path.relative_to(journals) for path in found]
        if not all(path.exists() for path in again):
            last = done.stderr.splitlines()[-1:] or ["no error message"]
            raise KlammError(f"the second run failed with exit code {done.returncode}: {last[0]}")
        return [compare_journals(*paths) for paths in zip(found, again, strict=True)]


def compare_journals(first: Path, second: Path) -> Repeated:
    """Compare two journals."""
    count = 0
    with first.open("rb") as one, second.open("rb") as other:
        for row, wanted in itertools.zip_longest(one, other, fillvalue=b""):
            if row != wanted:
                return Repeated(count, _shown(row), _shown(wanted))
            count += 1
    return Repeated(count)


def _shown(row: bytes) -> str:
    return row[:_SHOWN_BYTES].decode(errors="replace").rstrip("\n")
