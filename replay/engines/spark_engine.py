"""Implements the query engine with Spark. sqlglot translates DuckDB's SQL to Spark's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import sqlglot
from pyspark import RDD, StorageLevel
from pyspark.errors import (
    ArithmeticException,
    DateTimeException,
    NumberFormatException,
    PySparkException,
)
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql.pandas.types import from_arrow_schema
from sqlglot import exp

from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.replay.engines import COMPRESSION, ONE_QUERY, SPARK, QueryResult, R, T, spark_blocks
from klamm.replay.engines.spark_blocks import (
    Division,
    SparkBlocks,
    as_stream,
    from_stream,
    names_in,
    splits_of,
)
from klamm.replay.spark_cluster import is_local, is_local_master
from klamm.replay.spark_errors import SHARED_STORAGE, unpersist

if TYPE_CHECKING:
    from klamm.replay.engines.blocks import Blocks

_DATA_ERRORS: Final = (ArithmeticException, DateTimeException, NumberFormatException)
"""Errors of a valid query that cannot be computed, such as a cast of a word to a number."""


@functools.cache
def to_spark(sql: str) -> str:
    """Translate a query from DuckDB's dialect to Spark's. Raises UsageError if it is invalid."""
    with _translation_errors():
        return sqlglot.transpile(sql, read="duckdb", write="spark")[0]


@contextmanager
def _translation_errors() -> Iterator[None]:
    try:
        yield
    except sqlglot.errors.SqlglotError as error:
        raise UsageError(f"invalid query: {str(error).splitlines()[0]}") from error


class SparkEngine:
    """Implements ``Engine`` with a Spark session."""

    name = SPARK

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        master = str(session.sparkContext.master)
        self.remote = None if is_local(master) or is_local_master(master) else master
        self._numbers = count(1)
        self._kept: dict[str, DataFrame] = {}
        self._arrow: dict[str, pa.Table] = {}
        self._views: dict[str, str] = {}
        self._files: dict[str, tuple[Path, pa.Schema]] = {}

    @property
    def cores(self) -> int:
        """Number of tasks that run in parallel; a cluster may add executors at any time."""
        return int(self.session.sparkContext.defaultParallelism)

    def tasks(self) -> tuple[int, int]:
        """Return how many tasks of the running stages are finished, and how many there are."""
        tracker = self.session.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(n) for n in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        return sum(at.numCompletedTasks for at in known), sum(at.numTasks for at in known)

    def fetch(self, sql: str) -> QueryResult:
        """Return the result of a query."""
        with _query_errors():
            frame = self.session.sql(to_spark(sql))
        with _query_errors(_DATA_ERRORS):
            rows = frame.collect()
        return QueryResult(frame.columns, [tuple(map(_plain, row)) for row in rows])

    def columns(self, sql: str) -> list[str]:
        """Return the names of a query's columns."""
        with _query_errors():
            return self._frame(sql).columns

    def check(self, sql: str) -> None:
        """Raise UsageError unless ``sql`` is a single, read-only query."""
        with _translation_errors():
            statements = [found for found in sqlglot.parse(sql, read="duckdb") if found is not None]
        if len(statements) != 1 or not isinstance(statements[0], exp.Query | exp.Describe):
            raise UsageError(ONE_QUERY)

    def confine(self) -> None:
        """From now on, refuse queries that name files. Relations of ``files`` stay readable."""
        self.session.conf.set("spark.sql.runSQLOnFiles", "false")

    def view(self, sql: str, name: str = "view") -> str:
        """Create a view of a query."""
        named = self._named(self._frame(sql), name)
        self._views[named] = sql
        return named

    def keep(self, sql: str, name: str = "kept") -> str:
        """Run a query when its result is first used, and keep the result."""
        frame = self._frame(sql).persist(StorageLevel.MEMORY_AND_DISK)
        named = self._named(self._without_plan(frame), name)
        self._kept[named] = frame
        return named

    def divide(
        self,
        summaries: Mapping[str, str],
        selected: str,
        key: str,
        rows: int,
        beside: Blocks | None = None,
    ) -> tuple[Blocks, dict[str, str]]:
        """Divide events into blocks of partitions, on which DuckDB runs in Spark's tasks."""
        needed = self._needed((*summaries.values(), selected))
        (root,) = (name for name in needed if name in self._files)
        folder, schema = self._files[root]
        division = Division(
            root,
            schema,
            {
                name: as_stream(self.arrow(name))
                for name in needed
                if name not in self._views and name != root
            },
            {name: self._views[name] for name in needed if name in self._views},
            summaries,
            selected,
            key,
            max(self.cores, rows // spark_blocks.BLOCK_ROWS),
            spark_blocks.TASK_MB,
        )
        home = None if beside is None else cast(SparkBlocks, beside).home
        blocks = SparkBlocks(self, division, splits_of(folder), home)
        return blocks, blocks.summaries

    def _needed(self, queries: Iterable[str]) -> list[str]:
        """Return the relations that queries use, each after those that it uses itself."""
        found: dict[str, None] = {}
        for name in names_in(queries):
            if name in self._views:
                found |= dict.fromkeys(self._needed([self._views[name]]))
            if name in self._views or name in self._files or self._exists(name):
                found[name] = None
        return list(found)

    def _exists(self, name: str) -> bool:
        return self.session.catalog.tableExists(name)

    def arrow(self, relation: str) -> pa.Table:
        """Return the rows of a small relation."""
        if relation not in self._arrow:
            self._arrow[relation] = self.session.table(relation).toArrow()
        return self._arrow[relation]

    def streams(self, found: RDD[bytes], schema: pa.Schema) -> str:
        """Register Arrow streams, which tasks compute whenever it is read. Return its name."""
        # Spark's mapInArrow would need pandas.
        rows = found.flatMap(_rows_of_stream)
        spark_schema = from_arrow_schema(schema)
        frame = self.session.createDataFrame(rows, spark_schema, verifySchema=False)
        return self._named(frame, "streams")

    def name_view(self, relation: str, name: str) -> None:
        """Create an alias for a relation."""
        self.session.table(relation).createOrReplaceTempView(name)

    def drop(self, relations: Iterable[str]) -> None:
        """Free the results that ``keep`` has stored under these names."""
        for name in relations:
            self._arrow.pop(name, None)
            unpersist([self._kept.pop(name)] if name in self._kept else ())

    def files(self, folder: Path, schema: pa.Schema) -> str:
        """Register the Parquet files below a directory as a relation."""
        if not folder.exists():  # a remote file system may have no empty directories
            return self.table(schema.empty_table())
        reader = self.session.read.schema(from_arrow_schema(schema))
        base = folder.parent if "=" in folder.name else folder
        frame = reader.option("basePath", str(base)).parquet(str(folder))
        named = self._named(frame.select(*schema.names), "files")
        self._files[named] = folder, schema
        return named

    def table(self, rows: pa.Table) -> str:
        """Register a small Arrow table as a relation."""
        frame = self.session.createDataFrame(rows.to_pylist(), from_arrow_schema(rows.schema))
        named = self._named(frame, "given")
        self._arrow[named] = rows
        return named

    def write(self, sql: str, folder: Path) -> None:
        """Write the result of a query to a new directory of Parquet files."""
        self._frame(sql).write.option("compression", COMPRESSION).parquet(str(folder))
        if next(folder.glob("part-*"), None) is None:
            raise EnvironmentProblem(
                f"Spark's workers wrote {folder} to their own disks", hint=SHARED_STORAGE
            )

    def map(self, function: Callable[[T], R], items: Sequence[T], size_bytes: int = 0) -> list[R]:
        """Apply a function to each item in Spark's Python workers."""
        tasks = self.session.sparkContext.parallelize(items, max(len(items), 1))
        return tasks.map(function).collect()

    def _frame(self, sql: str) -> DataFrame:
        return self.session.sql(to_spark(sql))

    def _without_plan(self, frame: DataFrame) -> DataFrame:
        """Return a data frame that reads a persisted one, and does not contain its plan.

        Otherwise each query's plan would contain the plans of all kept results that it uses, as
        often as it uses them, and theirs in turn: analysis would take longer than the query.
        """
        plan = frame._jdf.queryExecution().withCachedData()
        jvm = self.session._jvm
        assert jvm is not None, "the JVM of an open session"
        dataset = jvm.org.apache.spark.sql.classic.Dataset
        return DataFrame(dataset.ofRows(self.session._jsparkSession, plan), self.session)

    def _named(self, frame: DataFrame, name: str) -> str:
        named = f"{name}_{next(self._numbers)}"
        frame.createOrReplaceTempView(named)
        return named


def _rows_of_stream(data: bytes) -> Iterator[tuple[Any, ...]]:
    for batch in from_stream(data).to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _plain(value: Any) -> Any:
    if isinstance(value, SparkRow):
        return {name: _plain(inner) for name, inner in value.asDict().items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value


@contextmanager
def _query_errors(
    kinds: tuple[type[PySparkException], ...] = (PySparkException,),
) -> Iterator[None]:
    """Context manager that turns Spark's errors about an invalid query into UsageError."""
    with _query_logs_disabled():
        try:
            yield
        except kinds as error:
            words = " ".join(str(error).split("SQLSTATE")[0].split())
            raise UsageError(f"invalid query: {words}") from error


@contextmanager
def _query_logs_disabled() -> Iterator[None]:
    """Context manager that stops Spark from printing errors in queries to standard error as JSON.

    No error is lost, because Spark also raises it.
    """
    loggers = [
        PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")
    ]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in loggers:
            logger.disabled = False
