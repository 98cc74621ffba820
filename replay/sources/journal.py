"""Reads klamm's own journals: JSON lines, optionally compressed with gzip or zstd.

Arrow reads the files, in parts, because the JSON readers of the query engines do not provide line
numbers. Rows must have the schema of cluster.journal.JournalRow.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from klamm.cluster.journal import (
    FIRST_MS,
    LAST_MS,
    NOT_A_ROW,
    NOT_JSON,
    SCHEMA_VERSION,
    JournalRow,
    Kind,
    parse_row,
)
from klamm.replay.engines import Engine
from klamm.replay.event_files import Folders, Tasks, store_tasks
from klamm.replay.event_schema import EPOCH_SHIFT, JOURNAL, DamagedLine
from klamm.replay.sources import (
    READ_SCHEMA,
    TEXT_CHARACTERS,
    LogSource,
    SourceOptions,
    damaged_batch,
    event_batch,
)
from klamm.replay.sources.file_parts import (
    FilePart,
    Lines,
    cut_into_parts,
    decompressed_head,
    part_size,
    read_part,
    total_size_bytes,
)
from klamm.replay.sources.log_tail import FollowedPart, read_log_part

OTHER_KIND: Final = "unknown kind"
TORN: Final = "torn"
_COLUMN_OF: Final = {
    "run_id": "run",
    "cluster_id": "run",
    "from": "from_state",
    "to": "to_state",
    "reassignment_id": "reassignment",
}
_NEVER_NULL: Final = ("v", "run_id", "t_ms", "seq", "controller", "epoch", "kind")
_TEXT_BYTES: Final = 4 * TEXT_CHARACTERS
NONE_IS_ZERO: Final = ("since_ms", "key_seq")
_KINDS: Final = tuple(str(kind) for kind in Kind)
_KIND_SET: Final = pa.array(_KINDS)


class _Version(msgspec.Struct):
    v: int | None = None


def _file_schema() -> pa.Schema:
    names = [field.encode_name for field in msgspec.structs.fields(JournalRow)]
    known = {name: _COLUMN_OF.get(name, name) for name in names}
    types = {name: READ_SCHEMA.field(column).type for name, column in known.items() if name != "v"}
    return pa.schema([pa.field("v", pa.int64()), *types.items()])


_FILE_SCHEMA: Final = _file_schema()
_version = msgspec.json.Decoder(_Version)


def journal_batches(data: bytes, file: str, first_line: int) -> Iterator[pa.RecordBatch]:
    """Parse lines of a journal into batches (READ_SCHEMA) of events and damaged lines.

    ``first_line``: number of the first line in ``file``, from 1. If the last line has no newline
    and is not valid JSON, its problem is ``torn``.
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
        DamagedLine(first_line + n, problem, lines[n][:_TEXT_BYTES].decode(errors="replace"))
        for n, problem in enumerate(problems)
        if problem is not None
    ]
    if damaged:
        yield damaged_batch(JOURNAL, file, damaged)


def _counted(first: int, count: int) -> pa.Array:
    return pa.array(np.arange(first, first + count))


def _rows_of(data: bytes) -> pa.Table | None:
    """Parse lines into an Arrow table. Return None if any line is not a valid row."""
    # Each line must contain exactly one object, which the reader below does not check.
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
    is_possible = pc.and_(
        pc.greater_equal(rows["t_ms"], FIRST_MS), pc.less_equal(rows["t_ms"], LAST_MS)
    )
    return rows if pc.all(pc.and_(is_known, is_possible)).as_py() else None


def _problem(line: bytes) -> str | None:
    """Return a short reason why a line is not a valid row, or None if it is valid."""
    version: int | None = SCHEMA_VERSION
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        version = _version.decode(line).v
    if version != SCHEMA_VERSION:
        return f"schema version {'none' if version is None else version}"
    row = parse_row(line)
    if isinstance(row, str):
        return row
    return None if row.kind in _KINDS else OTHER_KIND


def _good_ones(
    lines: Sequence[bytes], problems: list[str | None]
) -> tuple[list[int], pa.Table | None]:
    """Return the indexes of the valid lines, and their rows.

    ``problems``: the problem of each line, None if none was found so far. Problems that only Arrow
    finds are added to it.
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
    columns["run"] = _clusters(rows)
    is_start = pc.equal(rows["kind"], Kind.RUN_START.value)
    if pc.any(is_start).as_py():
        # The row of a start names its run, because the cluster has the column.
        named = pc.binary_join_element_wise(rows["run_id"], pc.fill_null(rows["detail"], ""), " ")
        columns["detail"] = pc.if_else(is_start, named, rows["detail"])
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
    for name in NONE_IS_ZERO:
        known[name] = pc.if_else(pc.equal(rows[name], 0), None, rows[name])
    return event_batch(rows.num_rows, {**columns, **known})


def _clusters(rows: pa.Table) -> pa.ChunkedArray:
    """Return the cluster id of each row, or the run id if the cluster is unknown.

    Rows are grouped by cluster, because its controller epochs continue when klamm is restarted,
    which begins a new run. Rows written by brokers have no cluster id; it is taken from other rows
    of the same run.
    """
    if not rows["cluster_id"].null_count:
        return rows["cluster_id"]
    known = rows.select(["run_id", "cluster_id"]).drop_null().group_by(["run_id", "cluster_id"])
    for row in known.aggregate([]).to_pylist():
        is_of_it = pc.and_(rows["cluster_id"].is_null(), pc.equal(rows["run_id"], row["run_id"]))
        clusters = pc.if_else(is_of_it, row["cluster_id"], rows["cluster_id"])
        place = rows.schema.get_field_index("cluster_id")
        rows = rows.set_column(place, "cluster_id", clusters)
    return pc.coalesce(rows["cluster_id"], rows["run_id"])


def clusters_at_ends(paths: Sequence[Path]) -> list[str]:
    """Return the cluster ids in the first and last rows of journals, the latest cluster last.

    Reads only the ends of files, and only the beginning of compressed files.
    """
    last_ms: dict[str, int] = {}
    for path in paths:
        with path.open("rb") as file:
            head = file.read(_END_BYTES)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _END_BYTES, 0))
            tail = file.read()
        plain = decompressed_head(head)
        for line in [*plain.split(b"\n"), *(tail.split(b"\n") if plain is head else ())]:
            row = parse_row(line)
            if not isinstance(row, str) and row.cluster_id is not None:
                last_ms[row.cluster_id] = max(row.t_ms, last_ms.get(row.cluster_id, 0))
    return sorted(last_ms, key=last_ms.__getitem__)


_END_BYTES: Final = 64 << 10
_LOOKED_AT: Final = 20


def recognizes(path: Path, head: bytes) -> bool:
    """Return whether a file is a journal, by its name or its first lines."""
    data = decompressed_head(head)
    is_named = path.name.startswith(JOURNAL) and ".jsonl" in path.suffixes
    first = data.split(b"\n")[:_LOOKED_AT]
    return is_named or any(not isinstance(parse_row(line), str) for line in first)


def read_part_of_journal(part: FilePart) -> Iterator[pa.RecordBatch]:
    """Yield the rows and damaged lines in a part of a journal (READ_SCHEMA)."""
    return batches_of(read_part(part), part.file)


def batches_of_log(part: FollowedPart) -> Iterator[pa.RecordBatch]:
    """Yield the rows and damaged lines in a part of a growing journal (READ_SCHEMA)."""
    return batches_of(read_log_part(part), part.file)


def batches_of(blocks: Iterable[Lines | DamagedLine], file: str) -> Iterator[pa.RecordBatch]:
    """Parse blocks of a journal's lines. Yield rows and damaged lines (READ_SCHEMA)."""
    for found in blocks:
        if isinstance(found, DamagedLine):
            yield damaged_batch(JOURNAL, file, [found])
        else:
            yield from journal_batches(found.data, file, found.first_line)


def store(engine: Engine, paths: Sequence[Path], options: SourceOptions, folders: Folders) -> str:
    """Read journals, and encode and store their rows. ``options`` is ignored."""
    parts = cut_into_parts(engine, paths, part_size(engine, paths))
    return store_tasks(engine, Tasks(parts, read_part_of_journal, total_size_bytes(paths)), folders)


SOURCE: Final = LogSource(JOURNAL, True, recognizes, store)
