"""`klamm drill shrink`: removes from a failing drill what it does not need to fail."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from klamm.cli.completion import complete_drill
from klamm.cli.options import QuirkNames, Seed, comma_separated
from klamm.cli.running import ending_signals_raise, write_file
from klamm.cli.waiting import waiting
from klamm.cluster.counting import counted
from klamm.cluster.errors import UsageError
from klamm.cluster.quirks import parse_quirks
from klamm.lab.drills import library
from klamm.lab.hunt.hunting import run_text, shrink_failure
from klamm.lab.hunt.processes import print_no_warnings
from klamm.lab.run.as_pytest import pytest_path, pytest_text

EXAMPLES: Final = """
\b
Examples:
  klamm drill shrink mine.yaml --seed 7
  klamm drill shrink reassign-cancel --quirks KAFKA-13972 --overwrite
"""


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
