"""`klamm replay ingest`: read logs into an event table. Parses options and prints.

Spark is imported only when the command runs: importing it takes longer than most commands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from klamm.cli.options import AsJson, print_json
from klamm.cli.replay_input import CORES, MEMORY_MB, Cores, Memory, Timezone
from klamm.cli.running import ending_signals_raise, stopped_by_signals
from klamm.cluster.errors import UsageError
from klamm.report.scales import time_text

if TYPE_CHECKING:
    from klamm.replay.event_table import Damaged, Manifest, RunCoverage, SourceSummary

DAMAGED_SHOWN = 10

EXAMPLES = """
\b
Examples:
  klamm replay ingest ./rehearsal/journal.jsonl --out ./events
  klamm replay ingest ./rehearsal/journal.jsonl --out ./events --follow
  klamm replay ingest /var/log/kafka --timezone Europe/Berlin --out ./events
  klamm replay ingest /var/lib/zookeeper/version-2 --out ./events --json
"""


def ingest(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH..", help="Logs, or directories to search for logs."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Directory to create the event table in.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing event table.")
    ] = False,
    timezone: Timezone = None,
    run: Annotated[
        str | None,
        typer.Option(
            help="Name of the run. [default: from the journal, the directory or the chroot]"
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Keep reading a growing journal until Ctrl-C; the same command resumes.",
        ),
    ] = False,
    idle_timeout_s: Annotated[
        float | None,
        typer.Option(min=0, help="With --follow: stop after this many seconds without new lines."),
    ] = None,
    cores: Cores = None,
    memory_mb: Memory = MEMORY_MB,
    json: AsJson = False,
) -> None:
    """Read journals, Kafka's state-change and controller logs and ZooKeeper's transaction logs
    into one event table, which the other commands query. Unreadable lines are counted."""
    if follow:
        if overwrite:
            raise UsageError("--follow excludes --overwrite: it resumes the event table in --out")
        if len(paths) != 1:
            raise UsageError(f"--follow takes one journal, not {len(paths)} paths")
        _follow(paths[0], out, idle_timeout_s, cores, memory_mb, as_json=json)
        return
    from klamm.replay.event_table import new_table_folder, some_damaged
    from klamm.replay.ingest import ingest as make
    from klamm.replay.opening import are_small
    from klamm.replay.progress import Progress
    from klamm.replay.sources import SourceOptions
    from klamm.replay.sources.registry import find_files
    from klamm.replay.spark import spark_session
    from klamm.replay.spark_errors import one_line_errors

    options = SourceOptions(timezone=timezone, run=run)
    found = find_files(paths)
    progress = Progress()
    with (
        ending_signals_raise(),
        new_table_folder(out, overwrite=overwrite) as folder,
        one_line_errors(folder),
        spark_session(cores or CORES, memory_mb, is_small=are_small(found)) as spark,
    ):
        progress.note("Spark has started")
        manifest = make(spark, found, folder, options, progress)
        damaged = some_damaged(spark, folder, DAMAGED_SHOWN)
    _show(out, manifest, damaged, as_json=json)


def _follow(
    path: Path,
    out: Path,
    idle_timeout_s: float | None,
    cores: int | None,
    memory_mb: int,
    *,
    as_json: bool,
) -> None:
    """Follow a journal. Ctrl-C ends only the following: the command then completes the table."""
    from klamm.replay.event_table import some_damaged
    from klamm.replay.follow import follow, open_followed
    from klamm.replay.opening import are_small
    from klamm.replay.progress import Progress
    from klamm.replay.spark import spark_session

    found = open_followed(path, out)
    progress = Progress()
    with (
        stopped_by_signals() as stop,
        spark_session(cores or CORES, memory_mb, is_small=are_small([found])) as spark,
    ):
        progress.note("Spark has started")
        manifest = follow(
            spark,
            found,
            out,
            stop,
            idle_timeout_s=idle_timeout_s,
            on_batch=lambda rows, elapsed_s: progress.note(f"{_counted(rows, 'event')} more"),
        )
        damaged = some_damaged(spark, out, DAMAGED_SHOWN)
    _show(out, manifest, damaged, as_json=as_json)


def _show(out: Path, manifest: Manifest, damaged: Sequence[Damaged], *, as_json: bool) -> None:
    if as_json:
        print_json({"table": str(out), **msgspec.structs.asdict(manifest), "some_damaged": damaged})
        return
    for line in manifest_lines(manifest, damaged):
        typer.echo(line)
    typer.echo(f"Event table: {out}")


def manifest_lines(manifest: Manifest, damaged: Sequence[Damaged]) -> Iterator[str]:
    """Describe a table's sources: events read, runs covered, and damaged lines with places."""
    for source in manifest.sources:
        files = _counted(len(source.files), "file")
        yield f"{source.source}: {_counted(source.rows, 'event')} from {files} in {_took(source)}"
        for run in source.runs:
            yield f"  {_run_line(run)}"
            if run.out_of_order is not None:
                yield f"  out of order: {run.out_of_order.words}"
        for problem, count in source.damaged.items():
            yield f"  {_problem(problem, count)}"
    for line in damaged:
        yield f"  {line.file}:{line.line}: {line.problem}: {line.text}"


def _problem(problem: str, count: int) -> str:
    from klamm.replay.event_schema import LOST_TRANSACTIONS, REST_UNREAD

    if problem == LOST_TRANSACTIONS:
        return f"{problem}: {_counted(count, 'run')}"
    if problem.endswith(REST_UNREAD):
        return f"damaged, {problem}: {_counted(count, 'file')}"
    return f"damaged, {problem}: {_counted(count, 'line')}"


def _run_line(run: RunCoverage) -> str:
    parts = [f"run {run.run}: {time_text(run.first_ms)} to {time_text(run.last_ms)} UTC"]
    if run.last_epoch:
        parts.append(f"controller epochs {run.first_epoch} to {run.last_epoch}")
    if run.missing:
        parts.append(f"{_counted(run.missing, 'row')} missing")
    if run.repeated:
        parts.append(f"{_counted(run.repeated, 'duplicate row')}")
    return ", ".join(parts)


def _took(source: SourceSummary) -> str:
    rate = f"{source.read_s:.1f} s ({round(source.rows / max(source.read_s, 0.001)):,} per second)"
    if source.predecessors_s is None:
        return rate
    return f"{rate}, and {source.predecessors_s:.1f} s to find the predecessor of each event"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
