"""Divides a table into blocks of partitions on a Spark cluster, and runs DuckDB on each block.

Spark distributes work and data; all queries run in DuckDB, in Spark's Python workers. In a first
stage, each task reads a part of the table's Parquet files, summarizes it, and sends the rows of
each block as Arrow data through Spark's shuffle. In a second stage, each task receives a block and
runs the queries on it. A task holds a block or a part of the table, never more.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Final, Protocol

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark import RDD
from pyspark.sql import SparkSession

from klamm.replay.engines import literal
from klamm.replay.engines.duckdb_engine import (
    DuckDbEngine,
    duckdb_connection,
    duckdb_engine,
    parquet_files,
    stored_columns,
)
from klamm.replay.locations import arrow_file_system, is_remote, location

BLOCK_ROWS: Final = 2_000_000
"""Rows of the table for each block. DuckDB spills the rows of a block that is much larger."""
SPLIT_ROWS: Final = 1_600_000
"""Rows of the table that a task of the first stage reads."""
_SORTED_ROWS: Final = 1 << 17
"""Rows that are sorted by block at once: few enough for the processor's cache."""
TASK_MB: int = 512
"""Memory limit of DuckDB in a task, and at home, in MiB."""
ARROW_BYTES: int = 400 << 20
"""Size up to which the events of a block are not copied into a table of DuckDB."""
_HOME: Final = 0
"""Partition of the shuffle that receives summaries; all others are blocks."""
_NUMBER: Final = "block_number"
_NAME: Final = re.compile(r"\b[a-z_]+_\d+\b")
"""Names of relations in the text of a query: each ends with a number."""

ArrowRows = tuple[str, bytes]
"""Name of a relation (empty: the events), and rows of it as an Arrow stream."""


@dataclass(frozen=True, slots=True)
class Split:
    """Row groups of one Parquet file, which contain its rows from ``first`` on, before ``end``.

    ``source``: the code that the file's directory gives.
    """

    path: str
    source: str
    groups: tuple[int, ...]
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Division:
    """What the tasks of the first stage do.

    - ``root``: name of the relation that the Parquet files are, and ``schema``, its columns.
    - ``given``: relations that each task needs, as Arrow streams.
    - ``views``: views over ``root``, in an order in which each needs only earlier ones.
    - ``summaries``: queries whose results go to ``home``. ``selected``: query for the events that
      go to blocks. ``key``: SQL for a whole number that determines the block of an event.
    """

    root: str
    schema: pa.Schema
    given: Mapping[str, bytes]
    views: Mapping[str, str]
    summaries: Mapping[str, str]
    selected: str
    key: str
    blocks: int
    memory_mb: int

    def __call__(self, splits: Sequence[Split]) -> Iterator[tuple[int, ArrowRows]]:
        """Read splits. Yield summaries and the rows of each block, with their number."""
        with _connection(self.given, self.memory_mb) as connection:
            self._open(connection, splits)
            for name, sql in self.summaries.items():
                yield _HOME, (name, as_stream(connection.sql(sql).to_arrow_table()))
            number = f"CAST({self.key} AS BIGINT) % {self.blocks} + 1 AS {_NUMBER}"
            rows = connection.sql(f"SELECT *, {number} FROM ({self.selected})")
            yield from _by_block(rows.to_arrow_reader(_SORTED_ROWS))

    def _open(self, connection: duckdb.DuckDBPyConnection, splits: Sequence[Split]) -> None:
        parts = [
            f"SELECT {stored_columns(self.schema, split.source)} "
            f"FROM {_rows_of(connection, split, number)}"
            for number, split in enumerate(splits)
        ] or ["FROM nothing"]
        connection.register("nothing", self.schema.empty_table())
        connection.execute(f"CREATE TEMP VIEW {self.root} AS {' UNION ALL '.join(parts)}")
        for name, sql in self.views.items():
            connection.execute(f"CREATE TEMP VIEW {name} AS {sql}")


def _rows_of(connection: duckdb.DuckDBPyConnection, split: Split, number: int) -> str:
    """Return SQL for the rows of a split. Arrow reads those on a remote file system."""
    path = location(split.path)
    if not is_remote(path):
        file = f"read_parquet({literal(split.path)}, file_row_number = true, "
        rows = f"file_row_number >= {split.first} AND file_row_number < {split.end}"
        return f"{file}hive_partitioning = false) WHERE {rows}"
    found = ds.dataset(
        [str(path)], format="parquet", filesystem=arrow_file_system(path), partitioning=None
    )
    (fragment,) = found.get_fragments()
    parts = [fragment.subset(row_group_ids=list(split.groups))]
    name = f"split_{number}"
    connection.register(
        name, ds.FileSystemDataset(parts, found.schema, found.format, found.filesystem)
    )
    return name


def _by_block(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, ArrowRows]]:
    """Yield the rows of each block, as one stream for all batches unless these are very large."""
    held: defaultdict[int, list[pa.RecordBatch]] = defaultdict(list)
    count = 0
    for batch in batches:
        numbers = batch.column(_NUMBER).to_numpy()
        # NumPy sorts numbers of up to 16 bits in linear time.
        order = np.argsort(
            numbers.astype(np.min_scalar_type(numbers.max(initial=0))), kind="stable"
        )
        ordered = batch.drop_columns([_NUMBER]).take(pa.array(order))
        found, starts = np.unique(numbers[order], return_index=True)
        for number, start, end in zip(found, starts, [*starts[1:], len(order)], strict=True):
            held[int(number)].append(ordered.slice(start, end - start))
        count += batch.num_rows
        if count > 2 * SPLIT_ROWS:
            yield from _streams(held)
            held.clear()
            count = 0
    yield from _streams(held)


def _streams(held: Mapping[int, Sequence[pa.RecordBatch]]) -> Iterator[tuple[int, ArrowRows]]:
    for number, rows in held.items():
        yield number, ("", as_stream(pa.Table.from_batches(rows).combine_chunks()))


@dataclass(frozen=True, slots=True)
class Program:
    """What the tasks of the second stage do with a block.

    - ``schema``: columns of the events, whose relation is ``events``.
    - ``statements``: SQL of each relation, in an order in which each needs only earlier ones.
    - ``given``: relations from home, as Arrow streams.
    - ``queries``: queries whose results are sent.
    - ``arrow_bytes``: size up to which the events are not copied into a table of DuckDB.
    """

    events: str
    schema: pa.Schema
    memory_mb: int
    arrow_bytes: int
    statements: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, bytes] = field(default_factory=dict)
    queries: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, received: Iterable[tuple[int, ArrowRows]]) -> Iterator[ArrowRows]:
        """Run the program on a block; yield the results of the queries that have rows."""
        chunks = (data for number, (_, data) in received if number != _HOME)
        with _connection(self.given, self.memory_mb) as connection:
            if not self._receive(connection, chunks):
                return
            for sql in self.statements.values():
                connection.execute(sql)
            for name, sql in self.queries.items():
                rows = connection.sql(sql).to_arrow_table()
                if rows.num_rows:
                    yield name, as_stream(rows)

    def _receive(self, connection: duckdb.DuckDBPyConnection, chunks: Iterable[bytes]) -> bool:
        """Make the relation ``events``; return whether it has rows.

        DuckDB reads Arrow data where it is, but only its own tables can be spilled to disk.
        """
        received = [self.schema.empty_table()]
        size_bytes, is_table = 0, False
        for chunk in chunks:
            received.append(from_stream(chunk))
            size_bytes += received[-1].nbytes
            if size_bytes > self.arrow_bytes:
                self._spill(connection, received, is_table=is_table)
                received, size_bytes, is_table = received[:1], 0, True
        if is_table:
            self._spill(connection, received, is_table=True)
        else:
            connection.register(self.events, pa.concat_tables(received))
        return is_table or len(received) > 1

    def _spill(
        self, connection: duckdb.DuckDBPyConnection, rows: Sequence[pa.Table], *, is_table: bool
    ) -> None:
        connection.register("received", pa.concat_tables(rows))
        to = f"INSERT INTO {self.events}" if is_table else f"CREATE TEMP TABLE {self.events} AS"
        connection.execute(f"{to} FROM received")
        connection.unregister("received")

    def narrowed(self, queries: Mapping[str, str]) -> Program:
        """Return this program for some queries, with only the relations that they need."""
        needed = names_in(queries.values())
        statements: dict[str, str] = {}
        for name in reversed(list(self.statements)):
            if name in needed:
                statements[name] = sql = self.statements[name]
                needed |= names_in([sql])
        given = {name: data for name, data in self.given.items() if name in needed}
        in_order = {name: statements[name] for name in reversed(list(statements))}
        return replace(self, statements=in_order, given=given, queries=dict(queries))


def names_in(queries: Iterable[str]) -> set[str]:
    """Return everything in queries that may be the name of a relation."""
    return {name for sql in queries for name in _NAME.findall(sql)}


class SparkHome(Protocol):
    """The engine (SparkEngine) in whose Spark session blocks run, as they use it."""

    session: SparkSession

    @property
    def cores(self) -> int:
        """Number of tasks that run at the same time."""
        ...

    def arrow(self, relation: str) -> pa.Table:
        """Return the rows of a relation."""
        ...

    def streams(self, found: RDD[bytes], schema: pa.Schema) -> str:
        """Return the name of a relation with the rows of Arrow streams."""
        ...

    def table(self, rows: pa.Table) -> str:
        """Return the name of a relation with these rows."""
        ...


class SparkBlocks:
    """Implements ``Blocks``: blocks in Spark's tasks, home in a DuckDB of this process.

    The program of a block grows with each view, kept relation and shared relation. ``gather`` and
    the queries of ``of_all`` run it in all blocks, as far as their queries need it: nothing is kept
    in a block afterwards.
    """

    def __init__(
        self,
        engine: SparkHome,
        division: Division,
        tasks: Sequence[Sequence[Split]],
        home: DuckDbEngine | None = None,
    ) -> None:
        self._engine = engine
        self._numbers = count(1)
        memory_mb, context = division.memory_mb, engine.session.sparkContext
        with ExitStack() as stack:
            self.home = home or stack.enter_context(duckdb_engine(engine.cores, memory_mb))
            # All queries also run here, without rows: errors are found early, columns are known.
            self._shape = stack.enter_context(_connection(division.given, memory_mb))
            self._shape.register("empty", division.schema.empty_table())
            self._shape.execute(f"CREATE TEMP VIEW {division.root} AS FROM empty")
            for name, sql in division.views.items():
                self._shape.execute(f"CREATE TEMP VIEW {name} AS {sql}")
            schema = self._schema(division.selected)
            self.events = self._name("block")
            _create(self._shape, self.events, as_stream(schema.empty_table()))
            self._program = Program(self.events, schema, memory_mb, ARROW_BYTES)
            self._blocks = division.blocks
            read = context.parallelize(tasks, len(tasks)).flatMap(division)
            self._rows: RDD[tuple[int, ArrowRows]] = read.partitionBy(division.blocks + 1, int)
            self.summaries = self._at_home(
                context.runJob(self._rows, _summaries, [_HOME]) if division.summaries else (),
                {name: self._schema(sql) for name, sql in division.summaries.items()},
            )
            self._exit = stack.pop_all()

    def view(self, sql: str, name: str = "view") -> str:
        """Create a view in each block."""
        return self._add("VIEW", sql, name)

    def keep(self, sql: str, name: str = "kept") -> str:
        """Run a query in each block when a result needs it."""
        return self._add("TABLE", sql, name)

    def share(self, relation: str) -> str:
        """Copy a relation from ``home`` to each block."""
        data = as_stream(self.home.arrow(f"FROM {relation}"))
        _create(self._shape, relation, data)
        self._program = replace(self._program, given={**self._program.given, relation: data})
        return relation

    def gather(self, queries: Mapping[str, str]) -> dict[str, str]:
        """Run queries in each block, in one job of Spark."""
        program = self._program.narrowed(queries)
        blocks = range(_HOME + 1, self._blocks + 1)
        sent = self._engine.session.sparkContext.runJob(self._rows, program, blocks)
        return self._at_home(sent, {name: self._schema(sql) for name, sql in queries.items()})

    def bring(self, relation: str) -> str:
        """Copy a relation of Spark to ``home``."""
        return self.home.table(self._engine.arrow(relation))

    def of_all(self, sql: str) -> str:
        """Return a query for a view in Spark. Each of its uses runs the program in all blocks."""
        program = self._program.narrowed({"": sql})
        found = self._rows.mapPartitions(program).map(itemgetter(1))
        return f"SELECT * FROM {self._engine.streams(found, self._schema(sql))}"

    def of_home(self, sql: str) -> str:
        """Return a query for a table in Spark."""
        return f"SELECT * FROM {self._engine.table(self.home.arrow(sql))}"

    def close(self) -> None:
        """Close the DuckDB of this process."""
        self._exit.close()

    def _add(self, kind: str, sql: str, name: str) -> str:
        named = self._name(name)
        statement = f"CREATE TEMP {kind} {named} AS {sql}"
        self._shape.execute(statement)
        statements = {**self._program.statements, named: statement}
        self._program = replace(self._program, statements=statements)
        return named

    def _at_home(
        self, sent: Iterable[ArrowRows], schemas: Mapping[str, pa.Schema]
    ) -> dict[str, str]:
        found: dict[str, list[pa.Table]] = {name: [] for name in schemas}
        for name, data in sent:
            found[name].append(from_stream(data))
        return {
            name: self.home.table(pa.concat_tables([schemas[name].empty_table(), *tables]))
            for name, tables in found.items()
        }

    def _schema(self, sql: str) -> pa.Schema:
        return self._shape.sql(sql).to_arrow_table().schema

    def _name(self, name: str) -> str:
        return f"{name}_of_blocks_{next(self._numbers)}"


def _summaries(received: Iterable[tuple[int, ArrowRows]]) -> Iterator[ArrowRows]:
    return (sent for _, sent in received)


def splits_of(folder: Path) -> list[list[Split]]:
    """Divide the Parquet files below a directory into splits, and these into tasks."""
    tasks: list[list[Split]] = []
    rows = SPLIT_ROWS
    for split in _splits(folder):
        if rows + split.end - split.first > SPLIT_ROWS:
            tasks.append([])
            rows = 0
        tasks[-1].append(split)
        rows += split.end - split.first
    return tasks or [[]]


def _splits(folder: Path) -> Iterator[Split]:
    for path, source in parquet_files(folder):
        system = arrow_file_system(path) if is_remote(path) else None
        metadata = pq.read_metadata(str(path), filesystem=system)
        groups: list[int] = []
        first = end = 0
        for group in range(metadata.num_row_groups):
            groups.append(group)
            end += metadata.row_group(group).num_rows
            if end - first >= SPLIT_ROWS or group == metadata.num_row_groups - 1:
                yield Split(str(path), source, tuple(groups), first, end)
                groups, first = [], end


@contextmanager
def _connection(given: Mapping[str, bytes], memory_mb: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """Context manager that opens a DuckDB with one thread, and with the relations ``given``."""
    with duckdb_connection(1, memory_mb) as connection:
        for name, data in given.items():
            _create(connection, name, data)
        yield connection


def _create(connection: duckdb.DuckDBPyConnection, name: str, data: bytes) -> None:
    connection.register("sent", from_stream(data))
    connection.execute(f"CREATE TEMP TABLE {name} AS FROM sent")
    connection.unregister("sent")


def as_stream(rows: pa.Table) -> bytes:
    """Return rows as a compressed Arrow stream."""
    sink = pa.BufferOutputStream()
    # Compression of each column on its own would take most of the time for a few thousand rows.
    with (
        pa.CompressedOutputStream(sink, "lz4") as compressed,
        pa.ipc.new_stream(compressed, rows.schema) as writer,
    ):
        writer.write_table(rows)
    return bytes(sink.getvalue())


def from_stream(data: bytes) -> pa.Table:
    """Return the rows of a compressed Arrow stream."""
    with pa.CompressedInputStream(pa.BufferReader(data), "lz4") as compressed:
        return pa.ipc.open_stream(compressed).read_all()
