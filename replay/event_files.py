"""Writes the Parquet files of an event table while logs are read, for any kind of log.

Reading is divided into tasks, which run in parallel processes. Each task encodes the rows that it
reads and writes them to Parquet files; no rows pass through the query engine. Files are created
atomically and named by task number, so that a retried task replaces its own files.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from klamm.cluster.errors import KlammError
from klamm.replay.encode import Encoder
from klamm.replay.engines import COMPRESSION, Engine, rows
from klamm.replay.event_schema import CODED_SCHEMA, DAMAGED_SCHEMA, KINDS, NAMES_SCHEMA
from klamm.replay.locations import is_remote

_SOURCE: Final = "source"
_STORED_SCHEMA: Final = CODED_SCHEMA.remove(CODED_SCHEMA.get_field_index(_SOURCE))
_GROUP_ROWS: Final = 1 << 17
_FILE: Final = "{}-{:05d}.zstd.parquet"


class Folders(NamedTuple):
    """Output directories for events, names and damaged lines.

    ``label`` is a prefix of the file names. It distinguishes the files of different sets of tasks
    that write to the same directories.
    """

    label: str
    events: Path
    names: Path
    damaged: Path

    def create(self) -> None:
        """Create the directories, if they do not exist."""
        for folder in (self.events, self.names, self.damaged):
            folder.mkdir(parents=True, exist_ok=True)


class Tasks(NamedTuple):
    """Independent tasks that read logs, one for each item, such as a part of a file.

    ``read`` yields the rows of an item. Items and ``read`` must be picklable, because tasks run in
    worker processes. ``size_bytes`` is the total size of the files. ``schema`` and ``kinds``
    describe the encoded rows: their columns, and the strings behind the codes of ``kind``.
    """

    items: Sequence[Any]
    read: Callable[[Any], Iterable[pa.RecordBatch]]
    size_bytes: int
    schema: pa.Schema = _STORED_SCHEMA
    kinds: Sequence[str] = KINDS


def store_tasks(engine: Engine, tasks: Tasks, folders: Folders) -> str:
    """Run the tasks: read, encode and store rows. Return a query that selects the events."""
    write_tasks(engine, tasks, folders)
    schema = CODED_SCHEMA if tasks.schema is _STORED_SCHEMA else tasks.schema
    return f"SELECT * FROM {engine.files(folders.events, schema)}"


def write_tasks(engine: Engine, tasks: Tasks, folders: Folders) -> int:
    """Run the tasks: read, encode and store rows. Return the number of events."""
    folders.create()
    store = partial(_store_task, tasks, folders)
    return sum(engine.map(store, range(len(tasks.items)), tasks.size_bytes))


def _store_task(tasks: Tasks, folders: Folders, number: int) -> int:
    # Exempt imported modules from garbage collection: scanning them takes a fifth of the time.
    gc.freeze()
    try:
        batches = tasks.read(tasks.items[number])
        name = _FILE.format(folders.label, number)
        return write_parts(batches, folders, name, Encoder(tasks.schema, tasks.kinds))
    finally:
        gc.unfreeze()


def write_parts(
    batches: Iterable[pa.RecordBatch], folders: Folders, name: str, encoder: Encoder | None = None
) -> int:
    """Encode rows (READ_SCHEMA) and write a file ``name`` to each of the three directories.

    Returns the number of events.

    The directories must exist: a worker that would have to create them has other disks than the
    process that reads the table. A file that would have no rows is not created.
    """
    encoder = encoder or Encoder(_STORED_SCHEMA)
    schema = encoder.schema
    with (
        _File(folders.events / name, schema) as events,
        _File(folders.damaged / name, DAMAGED_SCHEMA) as damaged,
        _File(folders.names / name, NAMES_SCHEMA) as names,
    ):
        for batch in batches:
            is_event = batch.column("problem").is_null()
            good = batch if is_event.true_count == batch.num_rows else batch.filter(is_event)
            if good.num_rows:
                events.write(encoder.code(good))
            if good.num_rows < batch.num_rows:
                bad = batch.filter(pc.invert(is_event))
                damaged.write(bad.select(DAMAGED_SCHEMA.names).cast(DAMAGED_SCHEMA))
        for batch in encoder.names().to_batches():
            names.write(batch)
    return events.rows


def write_batches(batches: Iterable[pa.RecordBatch], path: Path, schema: pa.Schema) -> None:
    """Write rows to a Parquet file. If there are no rows, no file is created."""
    with _File(path, schema) as file:
        for batch in batches:
            file.write(batch)


class _File:
    """Context manager that writes a Parquet file.

    The file has a temporary name until it is complete. It is created only if there are rows.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.rows = 0
        self._path = path
        self._schema = schema
        # Engines ignore files with names that start with an underscore. Remote file systems show a
        # file only when it is closed, or let only the last task that creates it write to it.
        is_local = not is_remote(path)
        self._made = path.with_name(f"_{path.name}.{os.getpid()}") if is_local else path
        self._file: BinaryIO | None = None
        self._writer: pq.ParquetWriter | None = None
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._write_group()
        finally:
            if self._writer is not None:
                self._end(kind is None)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append some rows."""
        self._gathered.append(batch)
        self._gathered_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._gathered_rows >= _GROUP_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        if not self._gathered:
            return
        if self._writer is None:
            self._file = self._made.open("wb")
            self._writer = pq.ParquetWriter(self._file, self._schema, compression=COMPRESSION)
        self._writer.write_table(pa.Table.from_batches(self._gathered, self._schema))
        self._gathered, self._gathered_rows = [], 0

    def _end(self, is_whole: bool) -> None:
        assert self._writer is not None and self._file is not None
        try:
            self._writer.close()
            self._file.close()
            if is_whole and self._made != self._path:
                self._made.replace(self._path)
        finally:
            self._file.close()
            if not is_whole or self._made != self._path:
                self._made.unlink(missing_ok=True)


def write_names(engine: Engine, parts: Path, folder: Path) -> None:
    """Write the distinct names (NAMES_SCHEMA) of the files in ``parts`` to ``folder``.

    Raises KlammError if two names of the same domain (topics, runs, ...) have the same hash.
    """
    united = engine.keep(
        "SELECT domain, code, min(name) AS name, max(name) AS other "
        f"FROM {engine.files(parts, NAMES_SCHEMA)} GROUP BY domain, code"
    )
    twice = rows(engine, f"SELECT * FROM {united} WHERE name <> other LIMIT 1")
    if twice:
        ((domain, one, other),) = ((at["domain"], at["name"], at["other"]) for at in twice)
        raise KlammError(
            f"{domain} {one} and {domain} {other} have the same hash code",
            hint="ingest their logs into two separate event tables",
        )
    engine.write(f"SELECT domain, code, name FROM {united}", folder)
    engine.drop([united])
