"""A history as an event table, coded by this process and not by Spark: for tables of many rows.

What `klamm replay ingest` would make of the same history's journal, but for the names of files.
Parts are written as they come; only the names are kept. Mirrors replay/encode.py.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from replay.encode import xxhash64
from replay.event_schema import (
    CODED_SCHEMA,
    DAMAGED_SCHEMA,
    EPOCH_SHIFT,
    JOURNAL,
    KINDS,
    NAMES_SCHEMA,
    SCHEMA_VERSION,
    SOURCES,
    code_of,
)
from replay.event_table import (
    DAMAGED as DAMAGED_FOLDER,
)
from replay.event_table import (
    EVENTS,
    MANIFEST,
    NAMES,
    Manifest,
    RunCoverage,
    SourceSummary,
)
from replay.generate.journal_writer import FILE_NAME, GARBAGE, Places
from replay.generate.rows import DAMAGED, LOST, NOBODY, NULL, REPEATED, Array, Block
from replay.generate.tiling import Layout, run_name, topic_name

ROWS_A_FILE: Final = 1_000_000
_ROWS_AT_ONCE: Final = 100_000
_SCHEMA: Final = pa.schema(
    [field for field in to_arrow_schema(CODED_SCHEMA) if field.name != "source"]
)
_PROBLEM: Final = "not json"
_AS_THEY_ARE: Final = (
    "t_ms",
    "seq",
    "controller",
    "epoch",
    "kind",
    "replica",
    "from_state",
    "to_state",
    "election",
    "event_id",
    "cause_id",
)
_OR_NULL: Final = ("leader", "prev_leader", "leader_epoch", "zk_version")
_OR_ZERO: Final = ("since_ms", "key_seq")


class TableWriter:
    """Writes FOLDER/events, names, damaged and, when it is closed, manifest.json."""

    def __init__(self, layout: Layout, places: Places) -> None:
        self._folder = places.folder
        self._places = places
        self._events = self._folder / EVENTS / f"source={code_of(JOURNAL, SOURCES)}"
        self._events.mkdir(parents=True)
        self._names: dict[tuple[str, str], int] = {}
        self._run = self._code("run", run_name(layout.options.seed))
        self._file = self._code("file", FILE_NAME)
        topics = [self._code("topic", topic_name(n)) for n in range(int(layout.topic[-1]) + 1)]
        self._topics = np.array(topics, np.int64)
        self._layout = layout
        self._line = 0
        self._parts = 0
        self._part: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []
        """Rows for which a row group would be too small."""
        self._part_rows = 0
        self._damaged: list[int] = []
        self._counts: Counter[str] = Counter()
        self._kinds: Counter[int] = Counter()
        self._times: list[int] = []
        self._epochs: list[int] = []

    def write(self, block: Block) -> None:
        """The next rows."""
        fate = block.columns["fate"]
        self._counts["missing"] += int((fate == LOST).sum())
        is_there = fate != LOST
        lines = np.cumsum(is_there) + self._line
        self._line = int(lines[-1])
        for at in np.nonzero((block.columns["mark"] >= 0) & is_there)[0]:
            mark, line = int(block.columns["mark"][at]), int(lines[at])
            self._places.tell(mark, self._folder / FILE_NAME, line)
        self._damaged += lines[fate == DAMAGED].tolist()
        kept = is_there & (fate != DAMAGED)
        if not kept.any():
            return
        columns = {name: array[kept] for name, array in block.columns.items()}
        self._count(columns)
        self._pending.append(self._table(columns, lines[kept], block.texts))
        if sum(table.num_rows for table in self._pending) >= _ROWS_AT_ONCE:
            self._write_part(pa.concat_tables(self._pending))
            self._pending.clear()

    def close(self) -> None:
        """Write what is left, the manifest last."""
        if self._pending or self._part is not None:
            if self._pending:
                self._write_part(pa.concat_tables(self._pending))
                self._pending.clear()
            if self._part is not None:
                self._part.close()
                self._part = None
            self._write_rest()

    def _code(self, domain: str, name: str) -> int:
        key = (domain, name)
        code = self._names.get(key)
        if code is None:
            code = self._names[key] = xxhash64(name)
        return code

    def _table(self, columns: dict[str, Array], lines: Array, texts: list[str]) -> pa.Table:
        p = columns["p"]
        topic = np.where(p >= 0, self._layout.topic[p], columns["topic"])
        place = (columns["epoch"].astype(np.int64) << EPOCH_SHIFT) | columns["seq"]
        arrays: dict[str, Any] = {
            "run": self._run,
            "file": self._file,
            "line": lines,
            "place": place,
            "topic": pa.array(self._topics[topic], mask=topic < 0),
            "partition": np.where(p >= 0, self._layout.number[p], -1),
            "has_predecessors": True,
            "isr": _lists(columns["isr"], columns["leader"]),
            "prev_isr": _lists(columns["prev_isr"], columns["prev_leader"]),
            "reassignment": self._hashed("reassignment", columns["reassignment"], texts),
            "outcome": self._hashed("outcome", columns["outcome"], texts),
            "detail": _words(columns["detail"], texts),
            **{name: columns[name] for name in _AS_THEY_ARE},
            **{name: pa.array(columns[name], mask=columns[name] == NULL) for name in _OR_NULL},
            **{name: pa.array(columns[name], mask=columns[name] == 0) for name in _OR_ZERO},
        }
        count = len(p)
        return pa.table(
            [_column(arrays.get(field.name), count, field.type) for field in _SCHEMA],
            schema=_SCHEMA,
        )

    def _hashed(self, domain: str, places: Array, texts: list[str]) -> pa.Array:
        used = {int(n): self._code(domain, texts[n]) for n in np.unique(places) if n >= 0}
        codes = [used.get(n) for n in places.tolist()] if used else None
        return pa.nulls(len(places), pa.int64()) if codes is None else pa.array(codes, pa.int64())

    def _write_part(self, table: pa.Table) -> None:
        if self._part is None or self._part_rows >= ROWS_A_FILE:
            if self._part is not None:
                self._part.close()
            path = self._events / f"part-{self._parts:05d}.zstd.parquet"
            self._part = pq.ParquetWriter(path, _SCHEMA, compression="zstd")
            self._parts += 1
            self._part_rows = 0
        self._part.write_table(table)
        self._part_rows += table.num_rows

    def _count(self, columns: dict[str, Array]) -> None:
        self._counts["rows"] += len(columns["kind"])
        self._counts["repeated"] += int((columns["fate"] == REPEATED).sum())
        kinds, counts = np.unique(columns["kind"], return_counts=True)
        self._kinds.update(dict(zip(kinds.tolist(), counts.tolist(), strict=True)))
        for name, found in (("t_ms", self._times), ("epoch", self._epochs)):
            found += [int(columns[name].min()), int(columns[name].max())]

    def _write_rest(self) -> None:
        names = [
            {"domain": domain, "code": code, "name": name}
            for (domain, name), code in self._names.items()
        ]
        damaged = [
            {
                "source": JOURNAL,
                "file": FILE_NAME,
                "line": line,
                "problem": _PROBLEM,
                "text": GARBAGE.decode().strip(),
            }
            for line in self._damaged
        ]
        _write_rows(self._folder / NAMES, names, to_arrow_schema(NAMES_SCHEMA))
        _write_rows(self._folder / DAMAGED_FOLDER, damaged, to_arrow_schema(DAMAGED_SCHEMA))
        manifest = Manifest(SCHEMA_VERSION, [self._summary()])
        text = msgspec.json.format(msgspec.json.encode(manifest))
        (self._folder / MANIFEST).write_bytes(text)

    def _summary(self) -> SourceSummary:
        run = RunCoverage(
            run=run_name(self._layout.options.seed),
            rows=self._counts["rows"],
            first_epoch=min(self._epochs),
            last_epoch=max(self._epochs),
            first_ms=min(self._times),
            last_ms=max(self._times),
            missing=self._counts["missing"],
            repeated=self._counts["repeated"],
        )
        return SourceSummary(
            source=JOURNAL,
            files=[],
            rows=self._counts["rows"],
            kinds={str(KINDS[kind - 1]): self._kinds[kind] for kind in sorted(self._kinds)},
            damaged={_PROBLEM: len(self._damaged)} if self._damaged else {},
            runs=[run],
            read_s=0.0,
        )


def _column(values: Any, count: int, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values.cast(kind)
    if isinstance(values, np.ndarray):
        return pa.array(values).cast(kind)
    return pa.repeat(pa.scalar(values, kind), count)


def _lists(brokers: Array, leader: Array) -> pa.Array:
    """ISRs as lists; null where there is no leadership."""
    is_there = leader != NULL
    member = (brokers != NOBODY) & is_there[:, None]
    ends = np.cumsum(member.sum(axis=1), dtype=np.int32)
    offsets = np.concatenate((np.zeros(1, np.int32), ends))
    values = pa.array(brokers[member].astype(np.int32))
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(~is_there))


def _words(places: Array, texts: list[str]) -> pa.Array:
    words = pa.array(texts, pa.string())
    indices = pa.array(places, mask=places < 0)
    return pa.DictionaryArray.from_arrays(indices, words).cast(pa.string())


def _write_rows(folder: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / "part-00000.zstd.parquet")
