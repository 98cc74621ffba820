"""Implements the query engine with DuckDB, which runs SQL inside this process.

Functions over large files run in worker processes. Query results that do not fit in memory are
spilled to a temporary directory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa

from klamm.cluster.errors import EnvironmentProblem, KlammError, UsageError
from klamm.interrupts import temporary_folder
from klamm.replay.engines import COMPRESSION, DUCKDB, ONE_QUERY, QueryResult, R, T, literal
from klamm.replay.engines.blocks import OneBlock
from klamm.replay.full_disk import is_full, no_space
from klamm.replay.locations import arrow_file_system, file_system, is_remote

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from klamm.replay.engines.blocks import Blocks

_MANY_BYTES: Final = 32 << 20
"""Minimum input size at which worker processes save more time than it takes to start them."""
_WRITTEN: Final = "part-0.parquet"
_ZONED: Final = "TIMESTAMP WITH TIME ZONE"
"""Type whose values DuckDB cannot return to Python without the package pytz."""
_QUERY_ERRORS: Final = (
    duckdb.ParserException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.DataError,
)
"""Errors of invalid queries, and of queries that cannot be computed (DataError)."""
_SOURCE: Final = re.compile(r"source=(\d+)/")
"""Name of a directory that gives the value of the column ``source`` for the files in it."""


@contextmanager
def duckdb_engine(cores: int, memory_mb: int) -> Iterator[DuckDbEngine]:
    """Context manager that opens an in-memory DuckDB, and deletes its temporary files on exit.

    ``cores``: number of threads. ``memory_mb``: memory limit in MiB.
    """
    with (
        duckdb_connection(cores, memory_mb) as connection,
        closing(DuckDbEngine(connection, cores)) as engine,
    ):
        yield engine


@contextmanager
def duckdb_connection(threads: int, memory_mb: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """Context manager that opens an in-memory DuckDB without klamm's engine around it."""
    with temporary_folder("klamm-duckdb-") as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "threads": threads,
            "memory_limit": f"{memory_mb}MiB",
            "temp_directory": str(folder),
            "preserve_insertion_order": False,
        }
        with duckdb.connect(config=config) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection


class DuckDbEngine:
    """Implements ``Engine`` with a connection to DuckDB."""

    name = DUCKDB
    remote: str | None = None

    def __init__(self, connection: duckdb.DuckDBPyConnection, cores: int) -> None:
        self.cores = cores
        self._connection = connection
        self._numbers = count(1)
        self._pool: ProcessPoolExecutor | None = None
        self._folders: list[str] = []

    def tasks(self) -> tuple[int, int]:
        """Return zeros, because DuckDB does not divide a query into tasks."""
        return 0, 0

    def fetch(self, sql: str) -> QueryResult:
        """Return the result of a query."""
        with _one_line_errors():
            found = self._connection.sql(sql)
            columns, types = found.columns, list(map(str, found.types))
            if any(_ZONED in name for name in types):
                plain = (name.replace(_ZONED, "TIMESTAMP") for name in types)
                casts = ", ".join(f"CAST(#{n} AS {name})" for n, name in enumerate(plain, 1))
                found = found.project(casts)
            return QueryResult(columns, found.fetchall())

    def arrow(self, sql: str) -> pa.Table:
        """Return the result of a query as an Arrow table."""
        with _one_line_errors():
            return self._connection.sql(sql).to_arrow_table()

    def columns(self, sql: str) -> list[str]:
        """Return the names of a query's columns."""
        return [column[0] for column in self._run(f"DESCRIBE SELECT * FROM ({sql})").fetchall()]

    def check(self, sql: str) -> None:
        """Raise UsageError unless ``sql`` is a single, read-only query."""
        with _one_line_errors():
            statements = duckdb.extract_statements(sql)
        if len(statements) != 1 or statements[0].type.name not in ("SELECT", "RELATION"):
            raise UsageError(ONE_QUERY)

    def confine(self) -> None:
        """From now on, refuse queries that name files. Relations of ``files`` stay readable."""
        self._run(f"SET allowed_directories = [{', '.join(map(literal, self._folders))}]")
        self._run("SET enable_external_access = false")
        self._run("SET lock_configuration = true")

    def view(self, sql: str, name: str = "view") -> str:
        """Create a view of a query."""
        return self._named("VIEW", sql, name)

    def keep(self, sql: str, name: str = "kept") -> str:
        """Run a query and keep its result."""
        return self._named("TABLE", sql, name)

    def divide(
        self,
        summaries: Mapping[str, str],
        selected: str,
        key: str,
        rows: int,
        beside: Blocks | None = None,
    ) -> tuple[Blocks, dict[str, str]]:
        """Return the whole table as one block."""
        blocks = OneBlock(self, self.view(selected, "selected"))
        return blocks, blocks.gather(summaries)

    def name_view(self, relation: str, name: str) -> None:
        """Create an alias for a relation."""
        self._run(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM {relation}")

    def drop(self, relations: Iterable[str]) -> None:
        """Free the results that ``keep`` has stored under these names."""
        for name in relations:
            self._run(f"DROP TABLE IF EXISTS {name} CASCADE")

    def files(self, folder: Path, schema: pa.Schema) -> str:
        """Register the Parquet files below a directory as a relation."""
        found: dict[str, list[Path]] = {}
        for path, source in parquet_files(folder):
            found.setdefault(source, []).append(path)
        if not found:
            return self.table(schema.empty_table())
        return self.view(
            " UNION ALL ".join(
                f"SELECT {stored_columns(schema, source)} FROM {self._parquet(paths)}"
                for source, paths in found.items()
            ),
            "files",
        )

    def _parquet(self, paths: Sequence[Path]) -> str:
        """Return SQL for the rows of Parquet files. Arrow reads those on a remote file system."""
        if not is_remote(paths[0]):
            self._folders += sorted({str(path.parent.absolute()) for path in paths})
            listed = ", ".join(literal(str(path)) for path in paths)
            return f"read_parquet([{listed}], hive_partitioning = false)"
        import pyarrow.dataset

        found = pyarrow.dataset.dataset(
            list(map(str, paths)), filesystem=arrow_file_system(paths[0]), partitioning=None
        )
        name = f"remote_{next(self._numbers)}"
        self._connection.register(name, found)
        return name

    def table(self, rows: pa.Table) -> str:
        """Register a small Arrow table as a relation."""
        self._connection.register("given", rows)
        try:
            return self.keep("SELECT * FROM given", "given")
        finally:
            self._connection.unregister("given")

    def write(self, sql: str, folder: Path) -> None:
        """Write the result of a query to a Parquet file in a new directory."""
        folder.mkdir(parents=True)
        path = folder / _WRITTEN
        if is_remote(path):
            with temporary_folder("klamm-duckdb-") as here:
                self._copy(sql, here / _WRITTEN)
                file_system(path).put_file(str(here / _WRITTEN), str(path))
        else:
            self._copy(sql, path)

    def _copy(self, sql: str, path: Path) -> None:
        options = f"FORMAT parquet, COMPRESSION {COMPRESSION}"
        self._run(f"COPY ({sql}) TO {literal(str(path))} ({options})")

    def map(self, function: Callable[[T], R], items: Sequence[T], size_bytes: int = 0) -> list[R]:
        """Apply a function to each item, in worker processes if the input files are large."""
        if self.cores < 2 or len(items) < 2 or size_bytes < _MANY_BYTES:
            return [function(item) for item in items]
        # These imports would take a tenth of the time of a small replay.
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        from klamm.interrupts import starting_workers

        if self._pool is None:
            # DuckDB's threads do not survive a fork.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.cores, context)
        with starting_workers():
            results = self._pool.map(function, items)
        return list(results)

    def close(self) -> None:
        """Shut down the worker processes once they finish their current tasks."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _named(self, kind: str, sql: str, name: str) -> str:
        named = f"{name}_{next(self._numbers)}"
        self._run(f"CREATE TEMP {kind} {named} AS {sql}")
        return named

    def _run(self, sql: str) -> duckdb.DuckDBPyConnection:
        with _one_line_errors():
            return self._connection.execute(sql)


def parquet_files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the Parquet files below a directory, in order, which need not exist.

    With each file, yields the value of ``source`` that a directory below ``folder.parent`` gives,
    or "".
    """
    for path in sorted(folder.rglob("[!_.]*.parquet")) if folder.exists() else ():
        found = _SOURCE.search(str(path).removeprefix(str(folder.parent)))
        yield path, found[1] if found else ""


def stored_columns(schema: pa.Schema, source: str) -> str:
    """Return SQL for the columns of Parquet files. ``source``: the value that a directory gives."""
    stored = f"CAST({source} AS TINYINT) AS source" if source else "source"
    return ", ".join(stored if name == "source" else name for name in schema.names)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except _QUERY_ERRORS as error:
        raise UsageError(f"invalid query: {_first_line(error)}") from error
    except duckdb.PermissionException as error:
        raise UsageError("invalid query: only the views can be read, not files") from error
    except duckdb.Error as error:
        if is_full(str(error)):
            raise no_space("temporary files") from error
        if isinstance(error, duckdb.OutOfMemoryException):
            raise EnvironmentProblem(
                "DuckDB needs more memory", hint="raise --memory-mb, or use --engine spark"
            ) from error
        raise KlammError(f"DuckDB failed: {_first_line(error)}") from error


def _first_line(error: Any) -> str:
    """Return DuckDB's message as one line, without a suggested table: it may be internal."""
    lines = (line.strip() for line in str(error).splitlines())
    words = " ".join(line for line in lines if line and not line.startswith(("LINE", "^")))
    return re.sub(r"(Table with name .* does not exist!) Did you mean .*", r"\1", words)
