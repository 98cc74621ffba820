"""Query engines, which run a replay's SQL: DuckDB in this process, or Spark.

Each question about a cluster is one SQL query in DuckDB's dialect; see
docs/adr/0015-two-replay-engines.md. An engine registers files, small tables and query results as
named relations, runs SQL over them, and runs Python functions in parallel. It knows nothing about
Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from klamm.replay.engines.blocks import Blocks

T = TypeVar("T")
R = TypeVar("R")
Row = dict[str, Any]
AUTO, DUCKDB, SPARK = "auto", "duckdb", "spark"
ENGINES: Final = (AUTO, DUCKDB, SPARK)
COMPRESSION: Final = "zstd"
ONE_QUERY: Final = "invalid query: only one SELECT or DESCRIBE is accepted"


class QueryResult(NamedTuple):
    """The result of a query: its columns and rows."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


class Engine(Protocol):
    """Query engine: runs SQL in DuckDB's dialect over named relations."""

    name: str
    remote: str | None
    """URL of the Spark master if workers on other machines cannot read local files, else None."""

    @property
    def cores(self) -> int:
        """Number of tasks that run in parallel."""

    def tasks(self) -> tuple[int, int]:
        """Return how many tasks of the current query are finished, and how many there are.

        Both are 0 if unknown.
        """

    def fetch(self, sql: str) -> QueryResult:
        """Return the result of a query. Raises UsageError for an invalid query."""

    def columns(self, sql: str) -> list[str]:
        """Return the names of a query's columns, without running the query."""

    def check(self, sql: str) -> None:
        """Raise UsageError unless ``sql`` is a single, read-only query."""

    def confine(self) -> None:
        """From now on, refuse queries that name files. Relations of ``files`` stay readable."""

    def view(self, sql: str, name: str = "view") -> str:
        """Create a view of a query. Return its unique name, which begins with ``name``."""

    def keep(self, sql: str, name: str = "kept") -> str:
        """Run a query and keep its result. Return its unique name, which begins with ``name``."""

    def divide(
        self,
        summaries: Mapping[str, str],
        selected: str,
        key: str,
        rows: int,
        beside: Blocks | None = None,
    ) -> tuple[Blocks, dict[str, str]]:
        """Divide the events of a table into blocks.

        - ``summaries``: queries that run on parts of the events, cut anywhere. The results of all
          parts together are a relation at ``home`` of the blocks; its name is returned.
        - ``selected``: query for the events in blocks. ``key``: SQL for a whole number; events with
          the same number are in the same block. These queries use views of one relation that
          ``files`` registered.
        - ``rows``: number of selected events.
        - ``beside``: blocks whose ``home`` these blocks share; they must be closed later.
        """

    def name_view(self, relation: str, name: str) -> None:
        """Create an alias for a relation, under a name that the user's queries can use."""

    def drop(self, relations: Iterable[str]) -> None:
        """Free the results that ``keep`` has stored under these names."""

    def files(self, folder: Path, schema: pa.Schema) -> str:
        """Register the Parquet files below a directory as a relation. Return its name.

        The directory may be empty. The name of a subdirectory may give the value of a column, for
        example ``source=1``.
        """

    def table(self, rows: pa.Table) -> str:
        """Register a small Arrow table as a relation. Return its name."""

    def write(self, sql: str, folder: Path) -> None:
        """Write the result of a query to a new directory of Parquet files."""

    def map(self, function: Callable[[T], R], items: Sequence[T], size_bytes: int = 0) -> list[R]:
        """Apply a picklable function to each item, in parallel.

        ``size_bytes``: size of the files that the function reads, 0 if it reads none. If the size
        is small, an engine on one machine does not start worker processes.
        """


def rows(engine: Engine, sql: str) -> list[Row]:
    """Return the rows of a query as dictionaries keyed by column name."""
    found = engine.fetch(sql)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def row(engine: Engine, sql: str) -> Row:
    """Return the only row of a query's result, as a dictionary keyed by column name."""
    (found,) = rows(engine, sql)
    return found


def literal(text: str) -> str:
    """Quote a string as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
