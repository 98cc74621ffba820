"""Klamm's own journals as a source: JSON lines, plain or compressed by gzip or zstd.

Spark's JSON reader does not say on which line a row stands; here Python workers read parts of
files whose lines are counted. The schema is that of cluster.journal.JournalRow, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from replay.event_schema import JOURNAL
from replay.sources import READ_SCHEMA, Damaged, Source, SourceOptions, damaged_batch
from replay.sources.file_parts import (
    PART_BYTES,
    CutShort,
    FilePart,
    cut,
    decompressed_head,
    read_part,
)
from replay.sources.journal_lines import is_row, journal_batches

_LOOKED_AT: Final = 20
_NAME: Final = "journal"


def recognizes(path: Path, head: bytes) -> bool:
    """A file with a row of a journal among its first lines, or one with a journal's name."""
    data = decompressed_head(head)
    is_named = path.name.startswith(_NAME) and ".jsonl" in path.suffixes
    return is_named or any(is_row(line) for line in data.split(b"\n")[:_LOOKED_AT])


def read_journals(
    spark: SparkSession,
    paths: Sequence[Path],
    options: SourceOptions | None = None,
    part_bytes: int = PART_BYTES,
) -> DataFrame:
    """The lines of journals by READ_SCHEMA; a task a part. ``options`` say nothing of a journal."""
    parts = cut(spark, paths, part_bytes)
    return spark.range(len(parts), numPartitions=max(len(parts), 1)).mapInArrow(
        _reader(parts), READ_SCHEMA
    )


def _reader(
    parts: Sequence[FilePart],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch["id"].to_pylist():
                yield from read_part_of_journal(parts[number])

    return read


def read_part_of_journal(part: FilePart) -> Iterator[pa.RecordBatch]:
    """The rows and the damaged lines of a part, by READ_SCHEMA."""
    for found in read_part(part):
        if isinstance(found, CutShort):
            yield damaged_batch(JOURNAL, part.file, [Damaged(*found)])
        else:
            yield from journal_batches(found.data, part.file, found.first_line)


SOURCE: Final = Source(JOURNAL, True, recognizes, read_journals, is_by_file=True)
