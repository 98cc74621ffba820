"""What the commands that ask an event table share: their options, Spark, and the table opened.

Parses and opens only. Spark is imported when a command runs.
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
    typer.Argument(metavar="PATH..", help="An event table, or logs and directories of them."),
]
Cores = Annotated[
    int | None, typer.Option(min=1, help="Threads of Spark. [default: the machine's cores]")
]
Memory = Annotated[int, typer.Option("--memory-mb", min=512, help="Java's heap in MiB.")]
Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Spark's master, as spark://host:7077. [default: local]"),
]
Timezone = Annotated[
    str | None,
    typer.Option(metavar="ZONE", help="Where Kafka's logs were written, as Europe/Berlin."),
]


class SparkOptions(NamedTuple):
    """What Spark is given: None for cores means those of the machine."""

    master: str | None
    cores: int | None
    memory_mb: int
    timezone: str | None


class Opened(NamedTuple):
    """A running session, and the tables that were asked for, in that order."""

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
    """Spark and the tables of what was looked at; everything is gone after the block.

    ``folder`` is named if a disk is full. ``check`` needs Spark and is done before logs are read.
    Raises UsageError for a time zone that is none, KlammError for whatever goes wrong in Spark.
    """
    from klamm.replay.opening import opened
    from klamm.replay.progress import Progress
    from klamm.replay.sources import SourceOptions
    from klamm.replay.spark import spark_session
    from klamm.replay.spark_errors import told_in_one_line

    sources = SourceOptions(timezone=options.timezone)
    for given in inputs:
        if given.table is None:
            typer.echo(f"{given.name}: logs, read into a temporary event table", err=True)
    progress = Progress()
    with ExitStack() as stack:
        stack.enter_context(ending_signals_raise())
        cores = options.cores or CORES
        is_small = all(given.is_small for given in inputs)
        spark = stack.enter_context(
            spark_session(cores, options.memory_mb, options.master, is_small=is_small)
        )
        progress.note("Spark has started")
        # Inside the session, as what Spark raises can only be told while Java is there.
        stack.enter_context(told_in_one_line(folder))
        if check is not None:
            check(spark)
        tables = [stack.enter_context(opened(spark, given, sources, progress)) for given in inputs]
        yield Opened(spark, tables, progress)
