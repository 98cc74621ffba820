"""`klamm demo`: the main job from start to end, told as it goes. Parses and prints.

The story is runtime/demo.py's, the last word Spark's: what the journal ends with must be what
ZooKeeper has, and the replay of the journal is drawn on a page.
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
from klamm.runtime.demo import MIN_BROKERS, DemoEnd, Step, StepBegins, tell
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
        int, typer.Option(min=MIN_BROKERS, max=MAX_BROKERS, help="How many brokers, in 3 racks.")
    ] = 6,
    spark: Annotated[
        bool, typer.Option(help="Rebuild states and replay the journal with Spark.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Seed of placements and ids.")] = 0,
    json: AsJson = False,
) -> None:
    """Start a ZooKeeper and a cluster, create topics, lose a broker and the controller, start
    both again, and check that everybody agrees. Exit code 1 if anybody does not."""
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
    """Where the page of a demo in a temporary directory goes, which is all that is left of it."""
    return Path(tempfile.gettempdir()) / f"klamm-demo-{uuid.uuid4().hex[:8]}.html"


def story(options: DemoOptions, page: Path | None) -> Generator[StepBegins | Step]:
    """The story's steps, and Spark's after everything else is closed, which write ``page``; None:
    without Spark."""
    with contextlib.closing(tell(options)) as told:
        for step in told:
            if not isinstance(step, DemoEnd):
                yield step
            elif page is not None:
                yield from spark_steps(step, options.data_dir / EVENTS, page)


def spark_steps(end: DemoEnd, table: Path, page: Path) -> Generator[StepBegins | Step]:
    """What Spark makes of the journal: final states, then everything that a replay tells."""
    # Importing it takes longer than most commands run.
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
    """Print steps as they come, and the verdict; the exit code."""
    begun_s = time.monotonic()
    done: list[Step] = []
    with contextlib.closing(Teller(quiet=as_json)) as teller:
        for step in steps:
            if isinstance(step, Step):
                done.append(step)
            teller.tell(step)
        disagreements = [line for step in done for line in step.facts.get("disagreements", ())]
        elapsed_s = time.monotonic() - begun_s
        teller.end(disagreements, elapsed_s)
    if as_json:
        verdict = {"agrees": not disagreements, "disagreements": disagreements}
        print_json({**verdict, "elapsed_s": round(elapsed_s, 1), "steps": done})
    return FAILED if disagreements else 0


def compare_with_spark(session: SparkSession, end: DemoEnd, start_s: float) -> Step:
    """The journal's final states beside what ZooKeeper held at the end."""
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
    """What `klamm replay run` tells of the journal; its page is a new file."""
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
    lines = [f"{figures}.", drawn.verdict, f"The page, to be opened in a browser: {page}"]
    facts = {
        "page": str(page),
        "counts": counts,
        "violations": violations,
        "disagreements": [drawn.verdict] if violations else [],
    }
    elapsed_ms = round((time.monotonic() - begun_s) * 1000)
    return Step(REPLAY_TITLE, tuple(lines), facts, elapsed_ms)


class Teller:
    """Prints steps: on a terminal with a spinner for the one under way, else in plain lines."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = HarmlessConsole(highlight=False, soft_wrap=True, quiet=quiet)
        self._status: Status | None = None
        self._count = 0

    def tell(self, step: StepBegins | Step) -> None:
        """A step begins, or is done."""
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
        """The verdict, after everything."""
        self.close()
        if disagreements:
            verdict, style = f"{len(disagreements)} disagreements", "bold red"
        else:
            verdict, style = "Everything agrees", "bold green"
        self._console.print(f"{verdict}, after {elapsed_s:.0f} s.", style=style, markup=False)

    def close(self) -> None:
        """No spinner from now on."""
        status, self._status = self._status, None
        if status is not None:
            status.stop()

    def _begin(self, title: str) -> None:
        if self._console.is_terminal and not self._console.quiet:
            self._status = self._console.status(title)
            self._status.start()
