"""`klamm replay ingest`: reads logs into an event table. Only parses options and prints.

The query engines (DuckDB, Spark) are imported only when the command runs, because importing them
takes longer than most commands run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from klamm.cli.options import AsJson, finite, print_result
from klamm.cli.replay_input import (
    MEMORY_MB,
    Cores,
    EngineName,
    Master,
    Memory,
    Timezone,
    read_resources,
    running_engine,
)
from klamm.cli.running import ending_signals_raise, stopped_by_signals
from klamm.cli.waiting import running_step
from klamm.cluster.counting import counted
from klamm.cluster.errors import UsageError
from klamm.report.scales import time_text

if TYPE_CHECKING:
    from klamm.replay.engines import Row
    from klamm.replay.event_table import Manifest, RunCoverage, SourceSummary
    from klamm.replay.opening import EngineOptions

DAMAGED_SHOWN = 10
_IdleTimeout = Annotated[
    float | None,
    typer.Option(
        min=0,
        callback=finite,
        help="With --follow: stop after this many seconds without new lines.",
    ),
]

EXAMPLES = """
\b
Examples:
  klamm replay ingest ./rehearsal/journal.jsonl --out ./events
  klamm replay ingest ./rehearsal/journal.jsonl --out ./events --follow
  klamm replay ingest /var/log/kafka --timezone Europe/Berlin --out ./events
  klamm replay ingest /var/lib/zookeeper/version-2 --out ./events --json
"""


def ingest(
    paths_: Annotated[
        list[str],
        typer.Argument(metavar="PATH..", help="Logs, or directories of logs; paths or URLs."),
    ],
    out_: Annotated[
        str,
        typer.Option("--out", metavar="DIR", help="New directory for the event table; or a URL."),
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing event table.")
    ] = False,
    run: Annotated[
        str | None,
        typer.Option(
            help="Name for the run. [default: from the journal, the directory or the chroot]"
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Follow a growing journal until Ctrl-C; to resume, repeat the command.",
        ),
    ] = False,
    idle_timeout_s: _IdleTimeout = None,
    json: AsJson = False,
    master: Master = None,
    timezone: Timezone = None,
    engine: EngineName = "auto",
    cores: Cores = None,
    memory_mb: Memory = MEMORY_MB,
) -> None:
    """Read journals, Kafka's state-change and controller logs and ZooKeeper's transaction logs into
    one event table, which the other replay commands query. Unreadable lines are counted.
    """
    asked = read_resources(engine, master, cores, memory_mb, timezone, run)
    from klamm.replay.locations import given_location

    paths, out = list(map(given_location, paths_)), given_location(out_)
    if follow:
        if overwrite:
            raise UsageError(
                "--follow cannot be combined with --overwrite: it resumes the table in --out"
            )
        _follow(paths, out, idle_timeout_s, asked.engine, as_json=json)
        return
    from klamm.replay.event_table import new_table_folder, some_damaged
    from klamm.replay.ingest import ingest as make
    from klamm.replay.opening import estimated_rows
    from klamm.replay.progress import Progress
    from klamm.replay.sources.registry import find_logs

    found = find_logs(paths)
    progress = Progress(waiting=running_step)
    with (
        ending_signals_raise(),
        new_table_folder(out, overwrite=overwrite) as folder,
        running_engine(progress, asked.engine, estimated_rows(found), folder) as opened,
    ):
        manifest = make(opened, found, folder, asked.sources, progress)
        damaged = some_damaged(opened, folder, DAMAGED_SHOWN)
    _show(out, manifest, damaged, as_json=json)


def _follow(
    paths: Sequence[Path],
    out: Path,
    idle_timeout_s: float | None,
    options: EngineOptions,
    *,
    as_json: bool,
) -> None:
    """Read a growing journal until Ctrl-C or ``idle_timeout_s``, then complete the event table."""
    if len(paths) != 1:
        raise UsageError(f"--follow takes one journal, not {len(paths)} paths")
    if options.master is not None:
        raise UsageError("--follow reads local files only; it cannot be combined with --master")
    (path,) = paths
    from klamm.replay.event_table import some_damaged
    from klamm.replay.follow import follow, open_followed
    from klamm.replay.opening import estimated_rows
    from klamm.replay.progress import Progress

    found = open_followed(path, out)
    progress = Progress(waiting=running_step)
    rows = estimated_rows([found])
    with stopped_by_signals("Interrupted: the event table contains all events read so far") as stop:
        with running_engine(progress, options, rows, out) as engine:
            manifest = follow(
                engine,
                found,
                out,
                stop,
                idle_timeout_s=idle_timeout_s,
                on_batch=lambda rows: progress.note(f"{counted(rows, 'event')} more"),
            )
            damaged = some_damaged(engine, out, DAMAGED_SHOWN)
        _show(out, manifest, damaged, as_json=as_json)


def _show(out: Path, manifest: Manifest, damaged: Sequence[Row], *, as_json: bool) -> None:
    value = {"table": str(out), **msgspec.structs.asdict(manifest), "some_damaged": damaged}
    print_result(as_json, value, (*manifest_lines(manifest, damaged), f"Event table: {out}"))


def manifest_lines(manifest: Manifest, damaged: Sequence[Row]) -> Iterator[str]:
    """Describe the sources of an event table: events read, runs covered, and damaged lines."""
    for source in manifest.sources:
        yield f"{source.source}: {source.words} in {_took(source)}"
        for run in source.runs:
            yield f"  {_run_line(run)}"
            if run.out_of_order is not None:
                yield f"  out of order: {run.out_of_order.words}"
        for problem, count in source.damaged.items():
            yield f"  {_problem(problem, count)}"
    for line in damaged:
        yield f"  {line['file']}:{line['line']}: {line['problem']}: {line['text']}"


def _problem(problem: str, count: int) -> str:
    from klamm.replay.event_schema import LOST_TRANSACTIONS, REST_UNREAD

    if problem == LOST_TRANSACTIONS:
        return f"{problem}: {counted(count, 'run')}"
    if problem.endswith(REST_UNREAD):
        return f"damaged, {problem}: {counted(count, 'file')}"
    return f"damaged, {problem}: {counted(count, 'line')}"


def _run_line(run: RunCoverage) -> str:
    parts = [f"run {run.run}: {time_text(run.first_ms)} to {time_text(run.last_ms)} UTC"]
    if run.last_epoch:
        parts.append(f"controller epochs {run.first_epoch} to {run.last_epoch}")
    if run.missing:
        parts.append(f"{counted(run.missing, 'row')} missing")
    if run.repeated:
        parts.append(f"{counted(run.repeated, 'duplicate row')}")
    return ", ".join(parts)


def _took(source: SourceSummary) -> str:
    rate = f"{source.read_s:.1f} s ({round(source.rows / max(source.read_s, 0.001)):,} per second)"
    if source.predecessors_s is None:
        return rate
    return f"{rate}, and {source.predecessors_s:.1f} s to find the predecessor of each event"
