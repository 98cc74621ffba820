"""`klamm drill`: runs, shows, checks, records, crashes and shrinks drills: scripted failures.

Only parses options and prints. lab/language/ compiles drills, lab/run/drill_run.py runs them.
The files named drill_*.py have its other subcommands.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import shutil
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from klamm.cli import drill_twice
from klamm.cli.command_loading import command_group
from klamm.cli.completion import complete_shipped_drill
from klamm.cli.connect import security_of
from klamm.cli.drill_compare import EXAMPLES as COMPARE_EXAMPLES
from klamm.cli.drill_compare import compare as compare_worlds
from klamm.cli.drill_crash import EXAMPLES as CRASH_EXAMPLES
from klamm.cli.drill_crash import crash
from klamm.cli.drill_record import EXAMPLES as RECORD_EXAMPLES
from klamm.cli.drill_record import record
from klamm.cli.drill_shrink import EXAMPLES as SHRINK_EXAMPLES
from klamm.cli.drill_shrink import shrink
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
from klamm.cluster.errors import UsageError
from klamm.cluster.plain_text import harmless_line
from klamm.cluster.quirks import NO_QUIRKS, Quirks, parse_quirks, quirk_options
from klamm.cluster.version import klamm_version
from klamm.lab.drill import Drill, Step
from klamm.lab.drills import library
from klamm.lab.drills.bug_texts import WITH_BUGS, bugs_shown_by
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.language.schema import schema_text
from klamm.lab.page.page import drill_headline, run_page
from klamm.lab.page.trace import RunTrace
from klamm.lab.recordings.recordings import Recording, is_recording, play_recording
from klamm.lab.run import text
from klamm.lab.run.drill_run import Outcome, Verdict, play, verdict_of, worst
from klamm.lab.run.junit import junit_xml
from klamm.lab.run.runner import StepResult
from klamm.lab.run.worlds import World, Worlds

_RUN_EXAMPLES: Final = """
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
_EXAMPLES: Final = """
\b
Examples:
  klamm drill list
  klamm drill list --bugs
  klamm drill run leader-loss
  klamm drill show leader-loss > mine.yaml
  klamm drill check mine.yaml
  klamm drill schema > drill.schema.json
  klamm drill compare leader-loss
  klamm drill crash mine.yaml
  klamm drill shrink mine.yaml --seed 7
"""
_NO_UNTIL: Final = "--until cannot be combined with --all, --real, --twice, --junit or --page"
_LIST_COLUMNS: Final = 100

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

app = command_group(
    help="Run scripted failures (drills), in simulation or on a real ZooKeeper.",
    epilog=_EXAMPLES,
)
app.command("compare", epilog=COMPARE_EXAMPLES)(compare_worlds)
app.command("crash", epilog=CRASH_EXAMPLES)(crash)
app.command("record", epilog=RECORD_EXAMPLES)(record)
app.command("shrink", epilog=SHRINK_EXAMPLES)(shrink)


@app.command("run", epilog=_RUN_EXAMPLES)
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


@app.command("list")
def list_drills(
    bugs: Annotated[
        bool, typer.Option("--bugs", help="List the drills that show known bugs of Kafka.")
    ] = False,
    json: AsJson = False,
) -> None:
    """List the shipped drills, and mark those that run only in simulation or only on ZooKeeper.

    With --bugs, each drill has the tickets of its bugs, and what is wrong in Kafka."""
    drills = [library.named_drill(name) for name in (WITH_BUGS if bugs else library.NAMES)]
    if json:
        listed = [{"name": d.name, "about": d.about, "worlds": d.worlds} for d in drills]
        print_json([{**one, "bugs": bugs_shown_by(one["name"])} for one in listed])
        return
    columns = min(shutil.get_terminal_size((_LIST_COLUMNS, 0)).columns, _LIST_COLUMNS)
    for drill in drills:
        typer.echo(drill.name + ("" if drill.worlds == "both" else f" ({drill.worlds})"))
        shown = bugs_shown_by(drill.name) if bugs else []
        for line in (drill.about, *(bug.wrong_text for bug in shown)):
            typer.echo(textwrap.indent(textwrap.fill(line, columns - 4), "    "))


@app.command("show")
def show(
    name: Annotated[
        str,
        typer.Argument(help="Name of a shipped drill.", autocompletion=complete_shipped_drill),
    ],
) -> None:
    """Print the file of a shipped drill, for example as a template for a new drill.

    Comments before it describe the known bugs that the drill shows."""
    content = library.named_text(name)
    for bug in bugs_shown_by(name):
        for line in (bug.wrong_text, f"Right: {bug.right}"):
            typer.echo(textwrap.indent(textwrap.fill(line, _LIST_COLUMNS - 2), "# "))
    typer.echo(content, nl=False)


@app.command("check")
def check(
    drills: Annotated[list[str], DRILLS],
    json: AsJson = False,
) -> None:
    """Check drill files: read them, and run them in simulation.

    Drills that run only with --real are only read. The exit code is 2 if a file is invalid or its
    drill does not pass; the files after it are not checked.
    """
    where = {"real only": " (only with --real)", "simulated only": " (only without --real)"}
    checked = []
    for word in drills:
        drill = library.find_drill(word)
        if drill.real_only is None:
            _check_passes(drill)
        checked.append({"file": word, "drill": drill.name, "worlds": drill.worlds})
        if not json:
            typer.echo(f"{word}: {drill.name} is valid{where.get(drill.worlds, '')}")
    if json:
        print_json(checked)


def _check_passes(drill: Drill) -> None:
    """Run a drill in simulation. Raises UsageError with the place of the step that fails."""
    driver = SimulatedDriver(drill.simulated_world(NO_QUIRKS, 0))
    with work_folder(None, "klamm-drill-") as folder, own_log(folder), waiting(drill.name):
        verdict = verdict_of(play(drill, driver))
    if verdict.outcome is not Outcome.PASSED:
        failure = verdict.failures[0]
        hint = "klamm drill run shows the steps before it"
        raise UsageError(f"{failure.place}: {harmless_line(str(failure))}", hint=hint)


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of drill files, with which editors complete and check them."""
    typer.echo(schema_text(), nl=False)


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
            repeated = drill_twice.repeat(self._arguments(words), folder)
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
