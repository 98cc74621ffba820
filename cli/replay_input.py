"""Options and set-up shared by the commands that query an event table.

Starts the query engine (DuckDB or Spark) and opens the event tables. Engines are imported only when
a command runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from klamm.cli.running import ending_signals_raise
from klamm.cli.waiting import running_step, waiting

if TYPE_CHECKING:
    from klamm.replay.engines import Engine
    from klamm.replay.event_table import EventTable
    from klamm.replay.opening import EngineOptions, Input
    from klamm.replay.progress import Progress
    from klamm.replay.sources import SourceOptions

ENGINES = {"duckdb": "DuckDB", "spark": "Spark"}
MEMORY_MB = 2048
CORES = os.cpu_count() or 1

# Typer would turn a URL into a local path if these were annotated with Path.
Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH..", help="An event table, or logs or directories of logs; paths or URLs."
    ),
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="auto|duckdb|spark",
        help="Query engine; auto selects DuckDB up to 5 million rows, Spark above.",
    ),
]
Cores = Annotated[
    int | None, typer.Option(min=1, help="Number of threads. [default: one per core]")
]
Memory = Annotated[
    int,
    typer.Option(
        "--memory-mb", min=512, help="Memory limit of DuckDB, or heap size of Spark, in MiB."
    ),
]
Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Spark master, e.g. spark://host:7077. [default: local]"),
]
Timezone = Annotated[
    str | None,
    typer.Option(metavar="ZONE", help="Time zone of Kafka's logs, e.g. Europe/Berlin."),
]


class Resources(NamedTuple):
    """The options for the query engine, and for reading logs."""

    engine: EngineOptions
    sources: SourceOptions


def read_resources(
    engine: str,
    master: str | None,
    cores: int | None,
    memory_mb: int,
    timezone: str | None,
    run: str | None = None,
) -> Resources:
    """Check and return the options of a command. If ``cores`` is None, all cores are used.

    Raises UsageError for an unknown engine or time zone, and for DuckDB with a Spark cluster.
    """
    from klamm.replay.opening import EngineOptions
    from klamm.replay.sources import SourceOptions

    options = EngineOptions(engine, master, cores or CORES, memory_mb)
    return Resources(options, SourceOptions(timezone=timezone, run=run))


class Opened(NamedTuple):
    """A running engine, and the open event tables in the order of the inputs."""

    engine: Engine
    tables: list[EventTable]
    progress: Progress


@contextmanager
def running_engine(
    progress: Progress, options: EngineOptions, rows: int, folder: Path
) -> Iterator[Engine]:
    """Context manager that starts the query engine for ``rows`` rows, and stops it at the end.

    Tells the user if the engine takes a long time to start. ``folder``: the directory to name in an
    error about a full disk.
    """
    from klamm.replay.opening import engine_for, open_engine

    with ExitStack() as stack:
        with waiting(f"{ENGINES[engine_for(options, rows)]} to start"):
            engine = stack.enter_context(open_engine(options, rows, folder))
        progress.began(engine)
        yield engine


@contextmanager
def open_tables(
    inputs: Sequence[Input], resources: Resources, folder: Path, query: str | None = None
) -> Iterator[Opened]:
    """Context manager that starts the query engine and opens an event table for each input.

    ``folder``: the directory to name in an error about a full disk. ``query`` is checked before
    logs are read. Raises UsageError for an invalid query, KlammError if the engine fails.
    """
    from klamm.replay.opening import opened
    from klamm.replay.progress import Progress
    from klamm.replay.views import check_query

    count = sum(given.rows for given in inputs)
    progress = Progress(waiting=running_step)
    with ExitStack() as stack:
        stack.enter_context(ending_signals_raise())
        engine = stack.enter_context(running_engine(progress, resources.engine, count, folder))
        if query is not None:
            check_query(engine, query)
        tables = []
        for given in inputs:
            if given.table is None:
                typer.echo(f"{given.name}: reading logs into a temporary event table", err=True)
            tables.append(stack.enter_context(opened(engine, given, resources.sources, progress)))
        yield Opened(engine, tables, progress)
