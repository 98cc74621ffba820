"""Events to try things on. The engines are those of all tests: tests/conftest.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from klamm.replay.encode import Encoder
from klamm.replay.engines import Engine
from klamm.replay.event_schema import (
    CODED_SCHEMA,
    DAMAGED_SCHEMA,
    EPOCH_SHIFT,
    RAW_SCHEMA,
    SCHEMA_VERSION,
)
from klamm.replay.event_table import EventTable, Manifest
from klamm.replay.questions.columns import judged

Coded = Callable[..., str]

_DEFAULTS: dict[str, Any] = {
    "source": "journal",
    "run": "r",
    "file": "f",
    "line": 1,
    "t_ms": 0,
    "seq": 1,
    "controller": 0,
    "epoch": 1,
    "kind": "event",
    "partition": -1,
    "replica": -1,
    "event_id": 0,
    "cause_id": 0,
    "has_predecessors": True,
}


def raw_batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    """Raw events of the fields that are given; place is that of epoch and seq unless given."""
    full = [{**_DEFAULTS, **row} for row in rows]
    for row in full:
        row.setdefault("place", row["epoch"] << EPOCH_SHIFT | row["seq"])
    return pa.RecordBatch.from_pylist(full, RAW_SCHEMA)


def table_in(engine: Engine, *rows: dict[str, Any]) -> EventTable:
    """An event table of some raw events, without files."""
    encoder = Encoder()
    batch = encoder.code(raw_batch(*rows)) if rows else None
    events = pa.Table.from_batches([batch] if batch else [], CODED_SCHEMA)
    return EventTable(
        engine,
        engine.table(events),
        engine.table(encoder.names()),
        engine.table(DAMAGED_SCHEMA.empty_table()),
        Manifest(SCHEMA_VERSION, []),
    )


@pytest.fixture(scope="module")
def coded(engine: Engine) -> Coded:
    """Judged events; seq counts up and t_ms = 10 seq unless they are given."""

    def make(*rows: dict[str, Any]) -> str:
        counted = ({"seq": n, "t_ms": 10 * n, "line": n, **row} for n, row in enumerate(rows, 1))
        return engine.view(judged(table_in(engine, *counted).events))

    return make


def rows_of(engine: Engine, sql: str, *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of the rows of a query or relation, sorted; -1 for null."""
    query = sql if " " in sql else f"SELECT * FROM {sql}"
    found = engine.fetch(f"SELECT {', '.join(columns)} FROM ({query})").rows
    return sorted(tuple(-1 if value is None else value for value in row) for row in found)
