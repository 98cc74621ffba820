"""Options and set-up shared by the commands that query an event table.

Starts Spark and opens the tables. Spark is imported only when a command runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from klamm.cli.running import ending_signals_raise

if TYPE_CHECKING:
    from klamm.replay.event_table import EventTable
    from klamm.replay.opening import Input
    from klamm.replay.progress import Progress
    from klamm.replay.spark import SparkSession

FINDINGS = 14
MEMORY_MB = 2048
CORES = os.cpu_count() or 1

Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH..", help="An event table, or logs and directories of logs."),
]
Cores = Annotated[
    int | None, typer.Option(min=1, help="Spark threads. [default: the machine's cores]")
]
Memory = Annotated[int, typer.Option("--memory-mb", min=512, help="Java heap in MiB.")]
Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Spark master, e.g. spark://host:7077. [default: local]"),
]
Timezone = Annotated[
    str | None,
    typer.Option(metavar="ZONE", help="Time zone of Kafka's logs, e.g. Europe/Berlin."),
]


class SparkOptions(NamedTuple):
    """Spark settings and time zone of one command; ``cores`` None: all cores of the machine."""

    master: str | None
    cores: int | None
    memory_mb: int
    timezone: str | None


class Opened(NamedTuple):
    """A running Spark session, and the opened tables in the order of the inputs."""

    spark: SparkSession
    tables: list[EventTable]
    progress: Progress


@contextmanager
def open_tables(
    inputs: Sequence[Input],
    options: SparkOptions,
    folder: Path,
    check: Callable[[SparkSession], None] | None = None,
) -> Iterator[Opened]:
    """Start Spark and open a table for each input; both end with the block.

    ``folder`` is the directory that errors about a full disk name. ``check`` runs before logs are
    read. Raises UsageError for an unknown time zone, KlammError if Spark fails.
    """
    from klamm.replay.opening import opened
    from klamm.replay.progress import Progress
    from klamm.replay.sources import SourceOptions
    from klamm.replay.spark import spark_session
    from klamm.replay.spark_errors import one_line_errors

    sources = SourceOptions(timezone=options.timezone)
    for given in inputs:
        if given.table is None:
            typer.echo(f"{given.name}: reading logs into a temporary event table", err=True)
    progress = Progress()
    with ExitStack() as stack:
        stack.enter_context(ending_signals_raise())
        cores = options.cores or CORES
        is_small = all(given.is_small for given in inputs)
        spark = stack.enter_context(
            spark_session(cores, options.memory_mb, options.master, is_small=is_small)
        )
        progress.note("Spark has started")
        # Inside the session: Spark's errors can be described only while its JVM is running.
        stack.enter_context(one_line_errors(folder))
        if check is not None:
            check(spark)
        tables = [stack.enter_context(opened(spark, given, sources, progress)) for given in inputs]
        yield Opened(spark, tables, progress)
