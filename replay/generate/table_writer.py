"""Writes a history of any size directly as an event table; only its rows are counted by DuckDB.

Except for file names, the table is the same as if `klamm replay ingest` had read a journal with the
same history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from klamm.cluster.journal import JOURNAL_FILE, NOT_JSON, Kind
from klamm.interrupts import interrupts_deferred
from klamm.replay.event_files import Folders, write_parts
from klamm.replay.event_schema import EPOCH_SHIFT, JOURNAL, KINDS, SOURCES, DamagedLine, code_of
from klamm.replay.event_table import DAMAGED as DAMAGED_FOLDER
from klamm.replay.event_table import EVENTS, MANIFEST, NAMES
from klamm.replay.generate.journal_writer import Places, damaged_line
from klamm.replay.generate.layout import Layout, cluster_name, run_name
from klamm.replay.generate.rows import DAMAGED, LOST, Array, RowBlock, in_words, word_columns
from klamm.replay.ingest import describe
from klamm.replay.sources import damaged_batch, event_batch
from klamm.replay.sources.journal import NONE_IS_ZERO, SOURCE
from klamm.replay.sources.registry import SourceFiles

_FILE: Final = "part-00000.zstd.parquet"
_MEMORY_MB: Final = 1_024


def write_table(layout: Layout, places: Places, blocks: Iterable[RowBlock]) -> None:
    """Write the event table FOLDER. Its file manifest.json is written last."""
    folder = places.folder
    events = folder / EVENTS / f"source={code_of(JOURNAL, SOURCES)}"
    folders = Folders(JOURNAL, events, folder / NAMES, folder / DAMAGED_FOLDER)
    folders.create()
    write_parts(_batches(layout, places, blocks), folders, _FILE)
    # An exception while DuckDB's module initializes aborts the process.
    with interrupts_deferred():
        from klamm.replay.engines.duckdb_engine import duckdb_engine
    with duckdb_engine(1, _MEMORY_MB) as engine:
        manifest = describe(engine, folder, [(SourceFiles(SOURCE, [], []), 0.0, None)])
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))


def _batches(
    layout: Layout, places: Places, blocks: Iterable[RowBlock]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows and damaged lines of a history (READ_SCHEMA)."""
    last_line = 0
    for block in blocks:
        fate = block.columns["fate"]
        is_there = fate != LOST
        lines = np.cumsum(is_there) + last_line
        last_line = int(lines[-1])
        for at in np.nonzero((block.columns["mark"] >= 0) & is_there)[0]:
            mark, line = int(block.columns["mark"][at]), int(lines[at])
            places.record(mark, places.folder / JOURNAL_FILE, line)
        is_damaged = fate == DAMAGED
        damaged = [
            DamagedLine(line, NOT_JSON, damaged_line(words.row).decode())
            for line, words in zip(
                lines[is_damaged].tolist(), in_words(layout, block.part(is_damaged)), strict=True
            )
        ]
        if damaged:
            yield damaged_batch(JOURNAL, JOURNAL_FILE, damaged)
        kept = is_there & ~is_damaged
        if kept.any():
            yield _events(layout, block.part(kept), lines[kept])


def _events(layout: Layout, block: RowBlock, lines: Array) -> pa.RecordBatch:
    columns, words = block.columns, word_columns(layout, block)
    place = (columns["epoch"].astype(np.int64) << EPOCH_SHIFT) | columns["seq"]
    values: dict[str, Any] = {
        **words,
        "source": JOURNAL,
        "run": cluster_name(layout.options.seed),
        "file": JOURNAL_FILE,
        "line": pa.array(lines),
        "place": pa.array(place),
        "has_predecessors": True,
        **{name: pa.array(columns[name], mask=columns[name] == 0) for name in NONE_IS_ZERO},
    }
    is_start = columns["kind"] == code_of(Kind.RUN_START, KINDS)
    if is_start.any():
        runs = [run_name(layout.options.seed, run) for run in columns["run"].tolist()]
        named = pc.binary_join_element_wise(pa.array(runs), words["detail"], " ")
        values["detail"] = pc.if_else(pa.array(is_start), named, words["detail"])
    return event_batch(block.count, values)
