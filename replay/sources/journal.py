"""Source for klamm's own journals: JSON lines, plain or compressed with gzip or zstd.

Python workers read parts of files with known line numbers, because Spark's JSON reader does not
give line numbers. Rows must have the schema of cluster.journal.JournalRow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from pyspark.sql import DataFrame, SparkSession

from klamm.cluster.journal import NOT_A_ROW, NOT_JSON, SCHEMA_VERSION, JournalRow, Kind
from klamm.replay.event_schema import EPOCH_SHIFT, JOURNAL
from klamm.replay.sources import (
    ARROW_SCHEMA,
    TEXT_CHARACTERS,
    Damaged,
    Source,
    SourceOptions,
    Tasks,
    damaged_batch,
    event_batch,
)
from klamm.replay.sources.file_parts import (
    CutShort,
    FilePart,
    Lines,
    cut,
    decompressed_head,
    part_size,
    read_part,
)

OTHER_KIND: Final = "unknown kind"
TORN: Final = "torn"
_COLUMN_OF: Final = {
    "run_id": "run",
    "from": "from_state",
    "to": "to_state",
    "reassignment_id": "reassignment",
}
_UNUSED: Final = ("cluster_id",)
_NEVER_NULL: Final = ("v", "run_id", "t_ms", "seq", "controller", "epoch", "kind")
_TEXT_BYTES: Final = 4 * TEXT_CHARACTERS
_NONE_IS_ZERO: Final = ("since_ms", "key_seq")
_KINDS: Final = tuple(str(kind) for kind in Kind)
_KIND_SET: Final = pa.array(_KINDS)


class _Version(msgspec.Struct):
    v: int | None = None


def _file_schema() -> pa.Schema:
    names = [field.encode_name for field in msgspec.structs.fields(JournalRow)]
    known = {name: _COLUMN_OF.get(name, name) for name in names if name not in _UNUSED}
    types = {name: ARROW_SCHEMA.field(column).type for name, column in known.items() if name != "v"}
    return pa.schema([pa.field("v", pa.int64()), *types.items()])


_FILE_SCHEMA: Final = _file_schema()
_version = msgspec.json.Decoder(_Version)
_row = msgspec.json.Decoder(JournalRow)


def journal_batches(data: bytes, file: str, first_line: int) -> Iterator[pa.RecordBatch]:
    """Parse lines into batches (READ_SCHEMA).

    The last line may lack its newline; if it is also incomplete, its problem is ``torn``. ``file``
    and ``first_line``, counted from 1, are the place of the lines.
    """
    if not data:
        return
    rows = _rows_of(data)
    if rows is not None:
        yield _events(rows, file, _counted(first_line, rows.num_rows))
        return
    lines = data.removesuffix(b"\n").split(b"\n")
    problems = [_problem(line) for line in lines]
    if not data.endswith(b"\n") and problems[-1] == NOT_JSON:
        problems[-1] = TORN
    good, rows = _good_ones(lines, problems)
    if rows is not None:
        yield _events(rows, file, pa.array([first_line + n for n in good]))
    damaged = [
        Damaged(first_line + n, problem, lines[n][:_TEXT_BYTES].decode(errors="replace"))
        for n, problem in enumerate(problems)
        if problem is not None
    ]
    if damaged:
        yield damaged_batch(JOURNAL, file, damaged)


def is_row(line: bytes) -> bool:
    """Return whether a line may be a row of a journal of any schema version."""
    try:
        fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return False
    return {"v", "run_id", "seq", "kind"} <= fields.keys()


def _counted(first: int, count: int) -> pa.Array:
    return pa.array(np.arange(first, first + count))


def _rows_of(data: bytes) -> pa.Table | None:
    """Parse lines that are all valid rows; None if one is not."""
    # Each line must be exactly one object: the reader below ignores newlines.
    if not data.startswith(b"{") or not data.endswith(b"}\n"):
        return None
    count = data.count(b"\n")
    if data.count(b"}\n{") != count - 1:
        return None
    try:
        rows = pyarrow.json.read_json(
            pa.BufferReader(data),
            pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pyarrow.json.ParseOptions(
                explicit_schema=_FILE_SCHEMA, unexpected_field_behavior="ignore"
            ),
        )
        rows.validate(full=True)
    except pa.ArrowInvalid:
        return None
    if rows.num_rows != count or any(rows[name].null_count for name in _NEVER_NULL):
        return None
    is_known = pc.and_(
        pc.equal(rows["v"], SCHEMA_VERSION), pc.is_in(rows["kind"], value_set=_KIND_SET)
    )
    return rows if pc.all(is_known).as_py() else None


def _problem(line: bytes) -> str | None:
    """Return the problem of a line in a few words; None for a valid row."""
    try:
        version = _version.decode(line).v
        if version != SCHEMA_VERSION:
            return f"schema version {'none' if version is None else version}"
        if _row.decode(line).kind not in _KINDS:
            return OTHER_KIND
    except msgspec.ValidationError:
        return NOT_A_ROW
    except (msgspec.DecodeError, UnicodeDecodeError):
        return NOT_JSON
    return None


def _good_ones(
    lines: Sequence[bytes], problems: list[str | None]
) -> tuple[list[int], pa.Table | None]:
    """Return the numbers of the valid lines, and their rows.

    Adds to ``problems`` the lines that only the column reader rejects.
    """
    good = [n for n, problem in enumerate(problems) if problem is None]
    rows = _rows_of(_joined(lines, good))
    if rows is None:
        # Valid JSON, but not a row: a number too large for its column, or a duplicate name.
        for n in good:
            if _rows_of(_joined(lines, [n])) is None:
                problems[n] = NOT_A_ROW
        good = [n for n in good if problems[n] is None]
        rows = _rows_of(_joined(lines, good))
    return good, rows


def _joined(lines: Sequence[bytes], numbers: Sequence[int]) -> bytes:
    return b"".join(lines[n].strip() + b"\n" for n in numbers)


def _events(rows: pa.Table, file: str, lines: pa.Array) -> pa.RecordBatch:
    columns = {_COLUMN_OF.get(name, name): rows[name] for name in rows.column_names}
    epoch = pc.shift_left(rows["epoch"].cast(pa.int64()), EPOCH_SHIFT)
    known = {
        "source": JOURNAL,
        "file": file,
        "line": lines,
        "place": pc.bit_wise_or(epoch, rows["seq"]),
        "has_predecessors": True,
    }
    for name in ("partition", "replica"):
        known[name] = pc.fill_null(rows[name], -1)
    for name in ("event_id", "cause_id"):
        known[name] = pc.fill_null(rows[name], 0)
    for name in _NONE_IS_ZERO:
        known[name] = pc.if_else(pc.equal(rows[name], 0), None, rows[name])
    return event_batch(rows.num_rows, {**columns, **known})


_LOOKED_AT: Final = 20
_NAME: Final = "journal"


def recognizes(path: Path, head: bytes) -> bool:
    """Return whether a file is a journal: by its name, or by a row among its first lines."""
    data = decompressed_head(head)
    is_named = path.name.startswith(_NAME) and ".jsonl" in path.suffixes
    return is_named or any(is_row(line) for line in data.split(b"\n")[:_LOOKED_AT])


def find_rows(
    spark: SparkSession,
    paths: Sequence[Path],
    options: SourceOptions | None = None,
    part_bytes: int | None = None,
) -> Tasks:
    """Return one read task per part of the journals; ``options`` are not used."""
    parts = cut(spark, paths, part_bytes or part_size(spark, paths))
    return Tasks(len(parts), lambda number: read_part_of_journal(parts[number]))


def read_part_of_journal(part: FilePart) -> Iterator[pa.RecordBatch]:
    """Yield the rows and damaged lines of a part (READ_SCHEMA)."""
    return batches_of(read_part(part), part.file)


def batches_of(blocks: Iterable[Lines | CutShort], file: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows and damaged lines of some blocks of a file (READ_SCHEMA)."""
    for found in blocks:
        if isinstance(found, CutShort):
            yield damaged_batch(JOURNAL, file, [Damaged(*found)])
        else:
            yield from journal_batches(found.data, file, found.first_line)


def read_journals(
    spark: SparkSession, paths: Sequence[Path], part_bytes: int | None = None
) -> DataFrame:
    """Return the lines of journals (READ_SCHEMA), read lazily."""
    return find_rows(spark, paths, part_bytes=part_bytes).rows(spark)


SOURCE: Final = Source(JOURNAL, True, recognizes, find_rows)
