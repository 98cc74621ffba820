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
from klamm.replay.event_files import Folders, write_parts
from klamm.replay.event_schema import EPOCH_SHIFT, JOURNAL, KINDS, SOURCES, DamagedLine, code_of
from klamm.replay.event_table import DAMAGED as DAMAGED_FOLDER
from klamm.replay.event_table import EVENTS, MANIFEST, NAMES
from klamm.replay.generate.journal_writer import GARBAGE, Places
from klamm.replay.generate.layout import Layout, cluster_name, run_name, topic_name
from klamm.replay.generate.rows import (
    DAMAGED,
    ELECTION_WORDS,
    KIND_WORDS,
    LOST,
    NO_BROKER,
    NULL,
    OR_NULL,
    STATE_WORDS,
    TEXTS,
    Array,
    RowBlock,
)
from klamm.replay.ingest import describe
from klamm.replay.sources import damaged_batch, event_batch
from klamm.replay.sources.journal import NONE_IS_ZERO, SOURCE
from klamm.replay.sources.registry import SourceFiles
from klamm.runtime.interrupts import interrupts_deferred

_FILE: Final = "part-00000.zstd.parquet"
_MEMORY_MB: Final = 1_024
_WORDS: Final = {
    "kind": pa.array(KIND_WORDS, pa.string()),
    "from_state": pa.array(STATE_WORDS, pa.string()),
    "to_state": pa.array(STATE_WORDS, pa.string()),
    "election": pa.array(ELECTION_WORDS, pa.string()),
}
_AS_THEY_ARE: Final = ("t_ms", "seq", "controller", "epoch", "replica", "event_id", "cause_id")


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
    topics = pa.array([topic_name(n) for n in range(int(layout.topic[-1]) + 1)])
    last_line = 0
    for block in blocks:
        fate = block.columns["fate"]
        is_there = fate != LOST
        lines = np.cumsum(is_there) + last_line
        last_line = int(lines[-1])
        for at in np.nonzero((block.columns["mark"] >= 0) & is_there)[0]:
            mark, line = int(block.columns["mark"][at]), int(lines[at])
            places.record(mark, places.folder / JOURNAL_FILE, line)
        text = GARBAGE.decode().strip()
        damaged = [DamagedLine(line, NOT_JSON, text) for line in lines[fate == DAMAGED].tolist()]
        if damaged:
            yield damaged_batch(JOURNAL, JOURNAL_FILE, damaged)
        kept = is_there & (fate != DAMAGED)
        if kept.any():
            columns = {name: array[kept] for name, array in block.columns.items()}
            yield _events(layout, columns, lines[kept], block.texts, topics)


def _events(
    layout: Layout, columns: dict[str, Array], lines: Array, texts: list[str], topics: pa.Array
) -> pa.RecordBatch:
    p, words = columns["p"], pa.array(texts, pa.string())
    topic = np.where(p >= 0, layout.topic[p], columns["topic"])
    place = (columns["epoch"].astype(np.int64) << EPOCH_SHIFT) | columns["seq"]
    values: dict[str, Any] = {
        "source": JOURNAL,
        "run": cluster_name(layout.options.seed),
        "file": JOURNAL_FILE,
        "line": pa.array(lines),
        "place": pa.array(place),
        "topic": _taken(topics, topic),
        "partition": pa.array(np.where(p >= 0, layout.number[p], -1)),
        "has_predecessors": True,
        "isr": _lists(columns["isr"], columns["leader"]),
        "prev_isr": _lists(columns["prev_isr"], columns["prev_leader"]),
        **{name: _taken(listed, columns[name]) for name, listed in _WORDS.items()},
        **{name: _taken(words, columns[name]) for name in TEXTS},
        **{name: pa.array(columns[name]) for name in _AS_THEY_ARE},
        **{name: pa.array(columns[name], mask=columns[name] == NULL) for name in OR_NULL},
        **{name: pa.array(columns[name], mask=columns[name] == 0) for name in NONE_IS_ZERO},
    }
    is_start = columns["kind"] == code_of(Kind.RUN_START, KINDS)
    if is_start.any():
        runs = [run_name(layout.options.seed, run) for run in columns["run"].tolist()]
        named = pc.binary_join_element_wise(pa.array(runs), values["detail"], " ")
        values["detail"] = pc.if_else(pa.array(is_start), named, values["detail"])
    return event_batch(len(p), values)


def _taken(words: pa.Array, places: Array) -> pa.Array:
    """Return the strings at the given indexes, and null for a negative index."""
    return words.take(pa.array(places, mask=places < 0))


def _lists(brokers: Array, leader: Array) -> pa.Array:
    """Return the ISRs as an Arrow array of lists, with null for rows without a leader."""
    is_there = leader != NULL
    member = (brokers != NO_BROKER) & is_there[:, None]
    ends = np.cumsum(member.sum(axis=1), dtype=np.int32)
    offsets = np.concatenate((np.zeros(1, np.int32), ends))
    values = pa.array(brokers[member].astype(np.int32))
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(~is_there))
