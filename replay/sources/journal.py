"""Klamm's own journals as a source: JSON lines, plain or compressed by gzip or zstd.

Spark's JSON reader does not say on which line a row stands; here Python workers read parts of
files whose lines are counted. The schema is that of cluster.journal.JournalRow, and no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from replay.event_schema import JOURNAL
from replay.sources import Damaged, Source, SourceOptions, Tasks, damaged_batch
from replay.sources.file_parts import (
    CutShort,
    FilePart,
    Lines,
    cut,
    decompressed_head,
    part_size,
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


def find_rows(
    spark: SparkSession,
    paths: Sequence[Path],
    options: SourceOptions | None = None,
    part_bytes: int | None = None,
) -> Tasks:
    """A task a part. ``options`` say nothing of a journal."""
    parts = cut(spark, paths, part_bytes or part_size(spark, paths))
    return Tasks(len(parts), lambda number: read_part_of_journal(parts[number]))


def read_part_of_journal(part: FilePart) -> Iterator[pa.RecordBatch]:
    """The rows and the damaged lines of a part, by READ_SCHEMA."""
    return batches_of(read_part(part), part.file)


def batches_of(blocks: Iterable[Lines | CutShort], file: str) -> Iterator[pa.RecordBatch]:
    """Return the rows and the damaged lines of some blocks of a file, as READ_SCHEMA."""
    for found in blocks:
        if isinstance(found, CutShort):
            yield damaged_batch(JOURNAL, file, [Damaged(*found)])
        else:
            yield from journal_batches(found.data, file, found.first_line)


def read_journals(
    spark: SparkSession, paths: Sequence[Path], part_bytes: int | None = None
) -> DataFrame:
    """The lines of journals by READ_SCHEMA."""
    return find_rows(spark, paths, part_bytes=part_bytes).rows(spark)


SOURCE: Final = Source(JOURNAL, True, recognizes, find_rows)
