"""Streaming source of Spark for a growing journal: each line once, when it is complete.

Spark's own file stream never reads a file again that has grown. The offsets of this source are read
positions in the log; Spark keeps them in its checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from klamm.replay.sources import READ_SCHEMA
from klamm.replay.sources.journal import batches_of
from klamm.replay.sources.log_tail import (
    LogPart,
    beginning,
    last_line_end,
    parts_between,
    place_of,
    read_log_part,
)

FORMAT: Final = "growingjournal"


class FollowedJournal(DataSource):
    """Data source for ``spark.readStream.format("growingjournal").load(FILE)`` (READ_SCHEMA)."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return READ_SCHEMA."""
        return READ_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of the file given to ``load``."""
        return _Reader(self.options)


class _Part(InputPartition):
    def __init__(self, part: LogPart) -> None:
        super().__init__(part)


class _Reader(DataSourceStreamReader):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._path = Path(options["path"])

    def initialOffset(self) -> dict[str, Any]:
        return beginning(self._path).as_offset()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return last_line_end(place_of(start)).as_offset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [_Part(part) for part in parts_between(place_of(start), place_of(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        part = partition.value
        return batches_of(read_log_part(part), part.file)
