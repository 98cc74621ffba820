"""`klamm demo`: a tour of klamm that prints each step. Parses options and prints only.

runtime/demo.py runs the cluster. Spark then rebuilds the final states from the journal, which
must equal those in ZooKeeper, and draws the replay of the journal on an HTML page.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
import uuid
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.status import Status

from klamm.cli.console import HarmlessConsole
from klamm.cli.errors import FAILED
from klamm.cli.options import AsJson, print_json
from klamm.cli.running import ending_signals_raise, own_log, work_folder
from klamm.cluster.version import klamm_version
from klamm.report.page import page_html
from klamm.runtime.demo import MIN_BROKERS, DemoEnd, Step, StepBegins, run_demo
from klamm.runtime.demo_stage import DemoOptions

if TYPE_CHECKING:
    from klamm.replay.spark import SparkSession

MAX_BROKERS = 40
SPARK_TITLE = "Rebuild the final states from the journal with Spark"
REPLAY_TITLE = "Replay the journal and draw what happened"
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
            help="Keep journal, logs and ZooKeeper's data in this empty directory. "
            "[default: a temporary one]"
        ),
    ] = None,
    brokers: Annotated[
        int, typer.Option(min=MIN_BROKERS, max=MAX_BROKERS, help="Number of brokers, in 3 racks.")
    ] = 6,
    spark: Annotated[
        bool, typer.Option(help="Rebuild states and replay the journal with Spark.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Seed of placements and ids.")] = 0,
    json: AsJson = False,
) -> None:
    """Start a ZooKeeper and a cluster, create topics, kill a broker and the controller, restart
    both, and check that brokers, controller, ZooKeeper and journal agree. Exit code 1 if not."""
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
    """Return the path of the HTML page of a demo in a temporary directory.

    The page is outside that directory, because it is kept when the directory is removed.
    """
    return Path(tempfile.gettempdir()) / f"klamm-demo-{uuid.uuid4().hex[:8]}.html"


def story(options: DemoOptions, page: Path | None) -> Generator[StepBegins | Step]:
    """Yield the steps of the demo, then Spark's, which run after the cluster is closed.

    Spark's steps write ``page``; None: without Spark.
    """
    with contextlib.closing(run_demo(options)) as told:
        for step in told:
            if not isinstance(step, DemoEnd):
                yield step
            elif page is not None:
                yield from spark_steps(step, options.data_dir / EVENTS, page)


def spark_steps(end: DemoEnd, table: Path, page: Path) -> Generator[StepBegins | Step]:
    """Rebuild the final states from the journal with Spark, then replay it onto a page."""
    # Importing Spark takes longer than most commands run.
    from klamm.replay.spark import spark_session
    from klamm.replay.spark_errors import one_line_errors

    begun_s = time.monotonic()
    yield StepBegins(SPARK_TITLE)
    with spark_session(is_small=True) as session, one_line_errors(page.parent):
        start_s = time.monotonic() - begun_s
        yield compare_with_spark(session, end, start_s)
        yield StepBegins(REPLAY_TITLE)
        yield replay_with_spark(session, end.journal, table, page)


def show(steps: Iterable[StepBegins | Step], *, as_json: bool) -> int:
    """Print steps as they arrive, and the verdict; return the exit code."""
    begun_s = time.monotonic()
    done: list[Step] = []
    with contextlib.closing(StepPrinter(quiet=as_json)) as printer:
        for step in steps:
            if isinstance(step, Step):
                done.append(step)
            printer.show(step)
        disagreements = [line for step in done for line in step.facts.get("disagreements", ())]
        elapsed_s = time.monotonic() - begun_s
        printer.end(disagreements, elapsed_s)
    if as_json:
        verdict = {"agrees": not disagreements, "disagreements": disagreements}
        print_json({**verdict, "elapsed_s": round(elapsed_s, 1), "steps": done})
    return FAILED if disagreements else 0


def compare_with_spark(session: SparkSession, end: DemoEnd, start_s: float) -> Step:
    """Compare the final states rebuilt from the journal with the final contents of ZooKeeper."""
    from klamm.replay.final_states import StoredPartition, compare, rebuild

    begun_s = time.monotonic()
    stored = []
    for tp, assignment in end.stored.assignments.items():
        leadership = end.stored.states.get(tp)
        at = None if leadership is None else leadership.leader_and_isr
        state = () if at is None else (at.leader, at.leader_epoch, at.isr, at.zk_version)
        stored.append(StoredPartition(*tp, assignment.replicas, *state))
    found = compare(session, rebuild(session, [end.journal]), stored, end.stored.broker_epochs)
    job_s = time.monotonic() - begun_s
    lines = [
        f"Spark started in {start_s:.1f} s, the job took {job_s:.1f} s.",
        f"Compared: {found.partitions} partitions and {found.replicas} replicas with ZooKeeper.",
        f"{found.differing} differ:" if found.differing else "All agree.",
        *found.lines,
    ]
    facts = {
        "partitions": found.partitions,
        "replicas": found.replicas,
        "differing": found.differing,
        "disagreements": found.lines,
    }
    return Step(SPARK_TITLE, tuple(lines), facts, round((start_s + job_s) * 1000))


def replay_with_spark(session: SparkSession, journal: Path, table: Path, page: Path) -> Step:
    """Replay the journal as `klamm replay run` does, and write the page as a new file."""
    from klamm.replay.event_table import open_table
    from klamm.replay.ingest import make_table
    from klamm.replay.page import Asked, replay_page
    from klamm.replay.run import answer

    begun_s = time.monotonic()
    make_table(session, [journal], table)
    with answer(open_table(session, table)) as answers:
        drawn = replay_page(Asked("the demo", None, [("journal", str(journal))], {}), answers)
        counts, violations = dict(answers.counts), answers.violations
    with page.open("x", encoding="utf-8") as file:
        file.write(page_html(drawn))
    figures = ", ".join(f"{figure.value} {figure.name}" for figure in drawn.figures)
    lines = [f"{figures}.", drawn.verdict, f"Page, to open in a browser: {page}"]
    facts = {
        "page": str(page),
        "counts": counts,
        "violations": violations,
        "disagreements": [drawn.verdict] if violations else [],
    }
    elapsed_ms = round((time.monotonic() - begun_s) * 1000)
    return Step(REPLAY_TITLE, tuple(lines), facts, elapsed_ms)


class StepPrinter:
    """Prints steps: on a terminal with a spinner for the running step, else as plain lines."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = HarmlessConsole(highlight=False, soft_wrap=True, quiet=quiet)
        self._status: Status | None = None
        self._count = 0

    def show(self, step: StepBegins | Step) -> None:
        """Print a finished step, or start the spinner for one that begins."""
        if isinstance(step, StepBegins):
            self._begin(step.title)
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
        """Stop the spinner, if there is one."""
        status, self._status = self._status, None
        if status is not None:
            status.stop()

    def _begin(self, title: str) -> None:
        if self._console.is_terminal and not self._console.quiet:
            self._status = self._console.status(title)
            self._status.start()
