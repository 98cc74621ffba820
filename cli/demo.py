"""`klamm demo`: a tour of klamm that prints each step. Only parses options and prints.

lab/demo/demo.py runs the cluster. Then the journal is replayed with DuckDB, and the answers are
plotted on an HTML page. Finally a Spark job rebuilds the final states of partitions and replicas
from the journal; they must equal the states in ZooKeeper.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
import uuid
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from klamm.cli.console import HarmlessConsole
from klamm.cli.errors import UNSAFE
from klamm.cli.options import AsJson, print_json
from klamm.cli.running import ending_signals_raise, own_log, work_folder
from klamm.cli.waiting import running_step
from klamm.cluster.version import klamm_version
from klamm.interrupts import interrupts_deferred
from klamm.lab.demo.demo import MIN_BROKERS, DemoEnd, DemoStep, StepBegins, run_demo
from klamm.lab.demo.demo_stage import DemoOptions

MAX_BROKERS = 40
PAGE = "replay.html"
EVENTS = "events"
EXAMPLES = """
\b
Examples:
  klamm demo
  klamm demo --brokers 9 --seed 7 --data-dir ./demo
  klamm demo --no-spark --json
"""


def demo(
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Keep the journal, logs and ZooKeeper's data in this new or empty directory. "
            "[default: a temporary one]"
        ),
    ] = None,
    brokers: Annotated[
        int, typer.Option(min=MIN_BROKERS, max=MAX_BROKERS, help="Number of brokers, in 3 racks.")
    ] = 6,
    spark: Annotated[
        bool, typer.Option(help="At the end, replay the journal with DuckDB and Spark.")
    ] = True,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed for replica placement and topic ids.")
    ] = 0,
    json: AsJson = False,
) -> None:
    """Start a ZooKeeper and a cluster, cause two failures, and check the outcome.

    Creates topics, kills a broker and the controller, restarts both, and checks that brokers,
    controller, ZooKeeper and journal agree. The exit code is 10 if they disagree.
    """
    with ending_signals_raise(), work_folder(data_dir, "klamm-demo-") as folder, own_log(folder):
        options = DemoOptions(
            data_dir=folder, klamm_version=klamm_version(), brokers=brokers, seed=seed
        )
        page = new_page() if data_dir is None else folder / PAGE
        with contextlib.closing(story(options, page if spark else None)) as steps:
            code = show(steps, as_json=json)
        if data_dir is not None and not json:
            typer.echo(f"Journal, logs and ZooKeeper's data: {data_dir}")
    raise typer.Exit(code)


def new_page() -> Path:
    """Return a path for the HTML page of a demo whose data directory is temporary.

    The page is outside that directory, so that it is kept when the directory is removed.
    """
    return Path(tempfile.gettempdir()) / f"klamm-demo-{uuid.uuid4().hex[:8]}.html"


def story(options: DemoOptions, page: Path | None) -> Generator[StepBegins | DemoStep]:
    """Yield the steps of the demo and, after the cluster is closed, the steps of the replay.

    ``page``: the HTML page that the replay writes, or None for a demo without replay.
    """
    with contextlib.closing(run_demo(options)) as told:
        for step in told:
            if not isinstance(step, DemoEnd):
                yield step
            elif page is not None:
                # Importing the engines takes longer than most commands run.
                with interrupts_deferred():
                    from klamm.cli.demo_replay import replay_steps
                yield from replay_steps(step, options.data_dir / EVENTS, page)


def show(steps: Iterable[StepBegins | DemoStep], *, as_json: bool) -> int:
    """Print the steps as they arrive, then the verdict; return the exit code."""
    begun_s = time.monotonic()
    done: list[DemoStep] = []
    with contextlib.closing(StepPrinter(quiet=as_json)) as printer:
        for step in steps:
            if isinstance(step, DemoStep):
                done.append(step)
            printer.show(step)
        disagreements = [line for step in done for line in step.facts.get("disagreements", ())]
        elapsed_s = time.monotonic() - begun_s
        printer.end(disagreements, elapsed_s)
    if as_json:
        verdict = {"agrees": not disagreements, "disagreements": disagreements}
        print_json({**verdict, "elapsed_s": round(elapsed_s, 1), "steps": done})
    return UNSAFE if disagreements else 0


class StepPrinter:
    """Prints finished steps, and a spinner for the running step on standard error."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = HarmlessConsole(highlight=False, soft_wrap=True, quiet=quiet)
        self._running = contextlib.ExitStack()
        self._count = 0

    def show(self, step: StepBegins | DemoStep) -> None:
        """Print a finished step, or start the spinner for a step that begins."""
        if isinstance(step, StepBegins):
            self._running.enter_context(running_step(step.title))
            return
        self.close()
        self._count += 1
        took = f"({step.elapsed_ms / 1000:.1f} s)"
        self._console.print(f"{self._count}. {step.title} {took}", style="bold", markup=False)
        for line in step.lines:
            self._console.print(f"   {line}", markup=False)

    def end(self, disagreements: Sequence[str], elapsed_s: float) -> None:
        """Print the verdict after the last step."""
        self.close()
        if disagreements:
            verdict, style = f"{len(disagreements)} disagreements", "bold red"
        else:
            verdict, style = "Everything agrees", "bold green"
        self._console.print(f"{verdict}, after {elapsed_s:.0f} s.", style=style, markup=False)

    def close(self) -> None:
        """Stop the spinner of the running step, if there is one."""
        self._running.close()
