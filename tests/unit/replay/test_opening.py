"""Which inputs are small enough for Spark to skip compilation."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from klamm.cluster.journal import JournalRow, Kind
from klamm.replay.event_schema import SCHEMA_VERSION
from klamm.replay.event_table import MANIFEST, Manifest, SourceSummary
from klamm.replay.opening import SMALL_BYTES, SMALL_ROWS, look_at


@pytest.mark.parametrize(("size", "is_small"), [(SMALL_BYTES, True), (SMALL_BYTES + 1, False)])
def test_logs_are_small_by_their_bytes(tmp_path: Path, size: int, is_small: bool) -> None:
    journal = tmp_path / "journal.jsonl"
    row = JournalRow(1, "run", 1, 1, 0, 1, Kind.CONTROLLER_READY)
    journal.write_bytes(msgspec.json.encode(row) + b"\n")
    os.truncate(journal, size)
    assert look_at([journal]).is_small is is_small


@pytest.mark.parametrize(("rows", "is_small"), [(SMALL_ROWS, True), (SMALL_ROWS + 1, False)])
def test_a_table_is_small_by_its_rows(tmp_path: Path, rows: int, is_small: bool) -> None:
    halves = [
        SourceSummary("journal", [], part, {}, {}, [], 0.0) for part in (rows // 2, -(-rows // 2))
    ]
    manifest = Manifest(SCHEMA_VERSION, halves)
    (tmp_path / MANIFEST).write_bytes(msgspec.json.encode(manifest))
    assert look_at([tmp_path]).is_small is is_small
