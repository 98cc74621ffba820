"""Sources of events: each kind of log has a module that reads it into rows of READ_SCHEMA.

This file defines the interface of a source, and functions that build rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
import pyarrow as pa

from klamm.cluster.errors import UsageError
from klamm.replay.engines import Engine
from klamm.replay.event_files import Folders
from klamm.replay.event_schema import RAW_SCHEMA, DamagedLine

READ_SCHEMA: Final = pa.schema(
    [*RAW_SCHEMA, pa.field("problem", pa.string()), pa.field("text", pa.string())]
)
"""The rows that a source yields: events and damaged lines.

For events, ``problem`` and ``text`` are null. A damaged line has only source, file, line, problem
and text; its other columns are meaningless.
"""
TEXT_CHARACTERS: Final = 200
_BATCH_ROWS: Final = 20_000
_DEFAULTS: Final[dict[str, Any]] = {
    "partition": -1,
    "replica": -1,
    "has_predecessors": False,
}


class SourceOptions(msgspec.Struct, frozen=True):
    """Options for reading logs, with information that the log files do not contain.

    - ``timezone``: IANA time zone of the timestamps in Kafka's logs; None: UTC.
    - ``run``: name of the cluster that wrote Kafka's or ZooKeeper's logs; None: use the name of the
      log directory or the chroot.
    - ``beside``: all of Kafka's logs that are read into the same table. Each directory of logs
      gets a different run name.

    Raises UsageError for an unknown time zone.
    """

    timezone: str | None = None
    run: str | None = None
    beside: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if self.timezone is None:
            return
        try:
            ZoneInfo(self.timezone)
        # A directory of zones, or a path outside the zone database, raises ValueError or OSError.
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise UsageError(
                f"unknown time zone {self.timezone!r}", hint="for example Europe/Berlin or UTC"
            ) from error


StoreFiles = Callable[[Engine, Sequence[Path], SourceOptions, Folders], str]


class LogSource(NamedTuple):
    """A kind of log.

    - ``name``: one of event_schema.SOURCES.
    - ``has_predecessors``: its rows contain the previous state, leader and ISR.
    - ``recognizes``: function that takes a file's path and first 64 KiB, and returns whether it is
      a log of this kind.
    - ``store``: function that reads files, encodes and stores their rows, and returns a query for
      the events (CODED_SCHEMA).
    - ``unites_copies``: an event in several files counts once, so that several copies of a file may
      be given.
    """

    name: str
    has_predecessors: bool
    recognizes: Callable[[Path, bytes], bool]
    store: StoreFiles
    unites_copies: bool = False


def event_batch(rows: int, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Build an Arrow batch of events with the given number of rows.

    The value of a column is a list, an array, or one value for all rows. Missing columns become
    null, or 0, "" or -1 if READ_SCHEMA does not allow null.
    """
    arrays = []
    for field in READ_SCHEMA:
        values = columns.get(field.name, _default(field))
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if isinstance(values, pa.Array):
            arrays.append(values if values.type == field.type else values.cast(field.type))
        elif isinstance(values, list):
            arrays.append(pa.array(values, field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(values, field.type), rows))
    return pa.RecordBatch.from_arrays(arrays, schema=READ_SCHEMA)


def batches(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows as Arrow batches of up to 20,000 rows."""
    remaining = iter(rows)
    while some := list(islice(remaining, _BATCH_ROWS)):
        columns = zip(*some, strict=True)
        arrays = [pa.array(values, to.type) for values, to in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def damaged_batch(source: str, file: str, lines: Sequence[DamagedLine]) -> pa.RecordBatch:
    """Build an Arrow batch of the damaged lines of a file."""
    columns = {
        "source": source,
        "file": file,
        "line": [at.line for at in lines],
        "problem": [at.problem for at in lines],
        "text": [at.text[:TEXT_CHARACTERS] for at in lines],
    }
    return event_batch(len(lines), columns)


def _default(field: pa.Field) -> Any:
    if field.nullable:
        return None
    return _DEFAULTS.get(field.name, "" if pa.types.is_string(field.type) else 0)
