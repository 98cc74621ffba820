"""Opens the input of a replay command: starts a query engine, and opens a table or ingests logs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from klamm.cluster.errors import UsageError
from klamm.interrupts import interrupts_deferred, temporary_folder
from klamm.replay.engines import AUTO, DUCKDB, ENGINES, SPARK, Engine
from klamm.replay.event_table import EventTable, is_table, open_table, read_manifest
from klamm.replay.follow import check_followed
from klamm.replay.ingest import ingest
from klamm.replay.progress import Progress
from klamm.replay.sources import SourceOptions
from klamm.replay.sources.registry import SourceFiles, find_logs

_PREFIX: Final = "klamm-replay-"
_NAMED: Final = 3
MOST_ROWS: Final = 5_000_000
"""Maximum number of rows for which ``--engine auto`` chooses DuckDB."""
_BYTES_PER_ROW: Final = {"journal": 300, "zookeeper": 250}
_LINE_BYTES: Final = 200
"""Typical size of a row in each kind of log, used to estimate the number of rows."""


class Input(NamedTuple):
    """The input of a replay command: the directory of an event table, or log files.

    ``name``: absolute paths, for display. ``table``: directory of an event table, or None.
    ``found``: log files. ``rows``: number of rows, which for logs is an estimate.
    """

    name: str
    table: Path | None
    found: Sequence[SourceFiles]
    rows: int


class EngineOptions(msgspec.Struct, frozen=True):
    """Query engine to use (``auto``, ``duckdb`` or ``spark``) and its resources.

    ``master``: URL of a Spark cluster, or None. Raises UsageError for an unknown engine, and for
    DuckDB with a Spark cluster.
    """

    engine: str
    master: str | None
    cores: int
    memory_mb: int

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UsageError(
                f"--engine {self.engine} is unknown", hint=f"engines: {', '.join(ENGINES)}"
            )
        if self.master is not None and self.engine == DUCKDB:
            raise UsageError(
                "--master requires Spark; it cannot be used with --engine duckdb",
                hint="use --engine spark, or leave out --master",
            )


def estimated_rows(found: Sequence[SourceFiles]) -> int:
    """Estimate the number of rows in some logs from the sizes of their files."""
    return sum(files.size // _BYTES_PER_ROW.get(files.source.name, _LINE_BYTES) for files in found)


def inspect_paths(paths: Sequence[Path]) -> Input:
    """Find out whether the paths are an event table or logs.

    Raises UsageError if they are neither, or if a table is combined with other paths.
    """
    named = ", ".join(str(path.absolute()) for path in paths[:_NAMED])
    name = named + (", .." if len(paths) > _NAMED else "")
    tables = [path for path in paths if is_table(path)]
    if not tables:
        for path in paths:
            check_followed(path)
        found = find_logs(paths)
        return Input(name, None, found, estimated_rows(found))
    if len(paths) > 1:
        raise UsageError(
            f"{tables[0]} is an event table; it cannot be combined with other paths",
            hint="ingest all logs into one event table",
        )
    return Input(name, tables[0], (), read_manifest(tables[0]).rows)


def engine_for(options: EngineOptions, rows: int) -> str:
    """Return the name of the query engine to use for this number of rows."""
    if options.master is not None:
        return SPARK
    if options.engine == AUTO:
        if "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit
            return SPARK
        return DUCKDB if rows <= MOST_ROWS else SPARK
    return options.engine


@contextmanager
def open_engine(options: EngineOptions, rows: int, folder: Path) -> Iterator[Engine]:
    """Context manager that starts a query engine for this number of rows, and stops it on exit.

    Turns Spark's errors into klamm's one-line errors. ``folder`` is the output directory, which is
    named in errors about a full disk.
    """
    if engine_for(options, rows) == DUCKDB:
        # An exception while DuckDB's module initializes aborts the process.
        with interrupts_deferred():
            from klamm.replay.engines.duckdb_engine import duckdb_engine

        with duckdb_engine(options.cores, options.memory_mb) as engine:
            yield engine
        return
    # Importing Spark takes longer than most replays.
    with interrupts_deferred():
        from klamm.replay.engines.spark_engine import SparkEngine
        from klamm.replay.spark import spark_session
        from klamm.replay.spark_errors import one_line_errors

    with (
        spark_session(options.cores, options.memory_mb, options.master, rows=rows) as session,
        # Inside the session: Spark's errors can be described only while its JVM is running.
        one_line_errors(folder),
    ):
        yield SparkEngine(session)


@contextmanager
def opened(
    engine: Engine, given: Input, options: SourceOptions, progress: Progress
) -> Iterator[EventTable]:
    """Context manager that opens an event table, or ingests logs into a temporary table.

    A temporary table is deleted on exit. Raises UsageError if the input is logs and the engine is a
    Spark cluster on other machines, which cannot read a temporary table. Raises KlammError like
    ``ingest``.
    """
    if given.table is not None:
        yield open_table(engine, given.table)
        return
    if engine.remote is not None:
        raise UsageError(
            f"{given.name} is a log, not an event table: klamm would ingest it into a temporary "
            f"table on this machine, which the workers of {engine.remote} cannot read",
            hint="run klamm replay ingest with --master and --out, and replay that event table",
        )
    with temporary_folder(_PREFIX) as folder:
        ingest(engine, given.found, folder, options, progress)
        yield open_table(engine, folder)
