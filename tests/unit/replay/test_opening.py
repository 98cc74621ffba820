"""Which engine an input gets, by its size and the options."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from klamm.cluster.errors import UsageError
from klamm.cluster.journal import JournalRow, Kind
from klamm.replay.event_schema import SCHEMA_VERSION
from klamm.replay.event_table import MANIFEST, Manifest, SourceSummary
from klamm.replay.opening import MOST_ROWS, EngineOptions, engine_for, inspect_paths
from klamm.replay.spark import shuffle_partitions


@pytest.mark.parametrize(("size", "engine"), [(1 << 30, "duckdb"), (2 << 30, "spark")])
def test_logs_have_as_many_rows_as_their_bytes_say(tmp_path: Path, size: int, engine: str) -> None:
    journal = tmp_path / "journal.jsonl"
    row = JournalRow(1, "run", 1, 1, 0, 1, Kind.CONTROLLER_READY)
    journal.write_bytes(msgspec.json.encode(row) + b"\n")
    os.truncate(journal, size)
    assert engine_for(EngineOptions("auto", None, 1, 512), inspect_paths([journal]).rows) == engine


@pytest.mark.parametrize(("rows", "engine"), [(MOST_ROWS, "duckdb"), (MOST_ROWS + 1, "spark")])
def test_a_table_knows_its_number_of_rows(tmp_path: Path, rows: int, engine: str) -> None:
    halves = [
        SourceSummary("journal", [], part, {}, {}, [], 0.0) for part in (rows // 2, -(-rows // 2))
    ]
    manifest = Manifest(SCHEMA_VERSION, halves)
    (tmp_path / MANIFEST).write_bytes(msgspec.json.encode(manifest))
    assert engine_for(EngineOptions("auto", None, 1, 512), inspect_paths([tmp_path]).rows) == engine


def test_an_event_table_is_replayed_alone_and_a_device_not_at_all(tmp_path: Path) -> None:
    manifest = Manifest(SCHEMA_VERSION, [SourceSummary("journal", [], 1, {}, {}, [], 0.0)])
    (tmp_path / MANIFEST).write_bytes(msgspec.json.encode(manifest))
    with pytest.raises(UsageError, match="is an event table; it cannot be combined"):
        inspect_paths([tmp_path / "other", tmp_path])
    with pytest.raises(UsageError, match="/dev/null is neither a file nor a directory"):
        inspect_paths([Path("/dev/null")])


def test_the_engine_that_is_asked_for_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(engine: str, master: str | None = None, rows: int = 1) -> str:
        return engine_for(EngineOptions(engine, master, 1, 512), rows)

    assert chosen("duckdb", rows=MOST_ROWS + 1) == "duckdb"
    assert chosen("spark") == chosen("auto", "local[2]") == chosen("spark", "local[2]") == "spark"
    for engine, master, words in (
        ("duckdb", "local[2]", "cannot be used with --engine duckdb"),
        ("polars", None, "--engine polars is unknown"),
    ):
        with pytest.raises(UsageError, match=words):
            chosen(engine, master)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert chosen("auto") == "spark"


@pytest.mark.parametrize(
    ("rows", "cores", "partitions"),
    [(100_000, 64, 1), (1_000_000, 2, 4), (20_000_000, 2, 16), (20_000_000, 50, 100)],
)
def test_shuffles_are_divided_by_rows_and_cores(rows: int, cores: int, partitions: int) -> None:
    assert shuffle_partitions(rows, cores) == partitions
