"""`klamm drill`: the verbs for drills, which are scripted failures.

Lists, shows, checks, records and shrinks drills. The other verbs have separate files: `run`
(drill_run.py), `compare` (drill_compare.py) and `crash` (drill_crash.py).
"""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path
from typing import Annotated, Final

import typer

from klamm.cli.command_loading import command_group
from klamm.cli.completion import complete_drill, complete_shipped_drill
from klamm.cli.drill_compare import EXAMPLES as COMPARE_EXAMPLES
from klamm.cli.drill_compare import compare
from klamm.cli.drill_crash import EXAMPLES as CRASH_EXAMPLES
from klamm.cli.drill_crash import crash
from klamm.cli.drill_run import EXAMPLES as RUN_EXAMPLES
from klamm.cli.drill_run import run
from klamm.cli.drill_world import DRILLS
from klamm.cli.journal_origin import CountedRows, JournalFile, chosen_source
from klamm.cli.options import AsJson, QuirkNames, Seed, comma_separated, print_json
from klamm.cli.running import ending_signals_raise, own_log, work_folder, write_file
from klamm.cli.server_options import DataDirectory, Server
from klamm.cli.waiting import waiting
from klamm.cluster.counting import counted
from klamm.cluster.errors import UsageError
from klamm.cluster.plain_text import harmless_line
from klamm.cluster.quirks import NO_QUIRKS, parse_quirks
from klamm.lab.drill import Drill
from klamm.lab.drills import library
from klamm.lab.drills.bug_texts import WITH_BUGS, bugs_shown_by
from klamm.lab.drills.from_journal import drill_from_journal
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.hunt.hunting import run_text, shrink_failure
from klamm.lab.hunt.processes import print_no_warnings
from klamm.lab.language.schema import schema_text
from klamm.lab.run.as_pytest import pytest_path, pytest_text
from klamm.lab.run.drill_run import STEPS_BEFORE, Outcome, play, verdict_of

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
_RECORD_EXAMPLES: Final = """
\b
Examples:
  klamm drill record > mine.yaml
  klamm drill record --journal ./rehearsal/journal.jsonl > mine.yaml
"""
_SHRINK_EXAMPLES: Final = """
\b
Examples:
  klamm drill shrink mine.yaml --seed 7
  klamm drill shrink reassign-cancel --quirks KAFKA-13972 --overwrite
"""
_LIST_COLUMNS: Final = 100

app = command_group(
    help="Run scripted failures (drills), in simulation or on a real ZooKeeper.",
    epilog=_EXAMPLES,
)
app.command("compare", epilog=COMPARE_EXAMPLES)(compare)
app.command("crash", epilog=CRASH_EXAMPLES)(crash)
app.command("run", epilog=RUN_EXAMPLES)(run)


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
        raise UsageError(f"{failure.place}: {harmless_line(str(failure))}", hint=STEPS_BEFORE)


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of drill files, with which editors complete and check them."""
    typer.echo(schema_text(), nl=False)


@app.command("record", epilog=_RECORD_EXAMPLES)
def record(
    journal: JournalFile = None, server: Server = None, data_dir: DataDirectory = None
) -> None:
    """Print a drill that repeats what happened to a cluster, according to its journal.

    The drill starts and ends brokers, moves the controller, creates, reassigns and deletes topics,
    in the order and at about the times of the journal's last run. Records, pauses, disk faults,
    configs and requested elections are not repeated, and another broker may become the controller.
    """
    rows = CountedRows(chosen_source(journal, server, data_dir))
    with waiting("the whole journal"):
        recorded = list(rows.rows())
    typer.echo(drill_from_journal(recorded, "recorded"), nl=False)


@app.command("shrink", epilog=_SHRINK_EXAMPLES)
def shrink(
    drill: Annotated[
        str,
        typer.Argument(
            metavar="DRILL",
            help="A drill file, or the name of a shipped drill; the drill must fail.",
            autocompletion=complete_drill,
        ),
    ],
    seed: Seed = 0,
    quirks: QuirkNames = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace existing files, such as those of a hunt.")
    ] = False,
) -> None:
    """Remove steps, topics and configs from a drill as long as it fails in the same way.

    The shrunk drill of NAME.yaml is written next to it, to NAME-shrunk.yaml, and also as a test for
    pytest, to test_NAME.py; that of a shipped drill to the current directory. The exit code is 1 if
    the drill passes.
    """
    parsed = parse_quirks(comma_separated(quirks))
    content, file = library.find_text(drill), Path(library.source_of(drill))
    library.check_simulated(library.find_drill(drill), "only a simulated run can be shrunk")
    path, test = file.with_name(f"{file.stem}-shrunk.yaml"), pytest_path(file)
    for one in (path, test):
        if one.exists() and not overwrite:
            raise UsageError(f"{one} already exists", hint="--overwrite replaces it")
    print_no_warnings()
    with ending_signals_raise():
        with waiting(f"{drill} to run"):
            violated = run_text(content, str(file), seed, parsed).violated
        if not violated:
            typer.echo(f"{drill} passes with seed {seed}: there is nothing to shrink")
            raise typer.Exit(1)
        with waiting(f"{drill} to be shrunk"):
            shrunk = shrink_failure(content, seed, parsed, violated)
    write_file(path, shrunk.text)
    write_file(test, pytest_text(file.stem, shrunk.text, seed, parsed, violated))
    typer.echo(f"violated: {violated}")
    typer.echo(
        f"shrunk from {counted(shrunk.steps_before, 'step')} to {shrunk.steps_after}"
        f" in {counted(shrunk.runs, 'run')}:"
        f" {path}"
    )
    typer.echo(f"as a test: {test}")
