"""`klamm demo`: the main job from start to end, told as it goes. Parses and prints.

The story is runtime/demo.py's, the last word Spark's: what the journal ends with must be what
ZooKeeper has.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status

from cli.errors import FAILED
from cli.options import AsJson, print_json
from cli.running import ending_signals_raise, own_log, work_folder
from runtime.demo import MIN_BROKERS, DemoEnd, Step, StepBegins, tell
from runtime.demo_stage import DemoOptions
from server.cluster_server import klamm_version

MAX_BROKERS = 40
SPARK_TITLE = "Rebuild the final states from the journal with Spark"
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
        bool, typer.Option(help="Rebuild the final states from the journal with Spark.")
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
        with contextlib.closing(story(options, spark=spark)) as steps:
            code = show(steps, as_json=json)
        if data_dir is not None and not json:
            typer.echo(f"Journal, logs and ZooKeeper's data: {data_dir}")
    raise typer.Exit(code)


def story(options: DemoOptions, *, spark: bool) -> Generator[StepBegins | Step]:
    """The story's steps, and the Spark job's after everything else is closed."""
    with contextlib.closing(tell(options)) as told:
        for step in told:
            if not isinstance(step, DemoEnd):
                yield step
            elif spark:
                yield StepBegins(SPARK_TITLE)
                yield compare_with_spark(step)


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


def compare_with_spark(end: DemoEnd) -> Step:
    """The Spark job: the journal's final states beside what ZooKeeper held at the end."""
    # Importing it takes longer than most commands run.
    from replay.final_states import StoredPartition, compare, rebuild
    from replay.spark import spark_session

    begun_s = time.monotonic()
    stored = []
    for tp, assignment in end.stored.assignments.items():
        leadership = end.stored.states.get(tp)
        at = None if leadership is None else leadership.leader_and_isr
        state = () if at is None else (at.leader, at.leader_epoch, at.isr, at.zk_version)
        stored.append(StoredPartition(*tp, assignment.replicas, *state))
    with spark_session() as session:
        started_s = time.monotonic()
        found = compare(session, rebuild(session, [end.journal]), stored, end.stored.broker_epochs)
        job_s = time.monotonic() - started_s
    lines = [
        f"Spark started in {started_s - begun_s:.1f} s, the job took {job_s:.1f} s.",
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
    elapsed_ms = round((time.monotonic() - begun_s) * 1000)
    return Step(
        "Rebuild the final states from the journal with Spark", tuple(lines), facts, elapsed_ms
    )


class Teller:
    """Prints steps: on a terminal with a spinner for the one under way, else in plain lines."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(highlight=False, soft_wrap=True, quiet=quiet)
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
