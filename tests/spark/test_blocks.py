"""Blocks of partitions: however many there are, the answers are those of the whole table."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from klamm.replay.engines import Engine, spark_blocks
from klamm.replay.engines import rows as rows_in
from klamm.replay.engines.spark_blocks import Division, from_stream, splits_of
from klamm.replay.event_table import EventTable, open_table
from klamm.replay.filters import Filters
from klamm.replay.run import Answers, answering
from tests.spark.journals import as_run, eventful_journal, generated_journal, spoilt, table_of

BLOCK_ROWS = 300
ARROW_BYTES = 1 << 14
ROWS = 20_000
BATCH_ROWS = 2_048
"""DuckDB returns no fewer rows at once."""


@pytest.fixture(scope="module")
def folder(duckdb: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of journals, some with lost and duplicate rows."""
    journal = eventful_journal()
    rows = as_run(journal, "whole")
    rows += generated_journal(tmp_path_factory.mktemp("generated") / "logs")
    for seed in range(4):
        rows += as_run(spoilt(journal, seed), f"spoilt {seed}")
    folder = tmp_path_factory.mktemp("blocks")
    table_of(duckdb, folder, rows)
    return folder / "table"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "filters",
    [Filters(), Filters(brokers=(2,), as_of_epoch=1), Filters(topics=("t",))],
    ids=["all", "broker", "topic"],
)
def test_many_blocks_have_the_answers_of_one(
    duckdb: Engine,
    spark_engine: Engine,
    folder: Path,
    filters: Filters,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark_blocks, "BLOCK_ROWS", BLOCK_ROWS)
    monkeypatch.setattr(spark_blocks, "ARROW_BYTES", ARROW_BYTES)
    whole, divided = open_table(duckdb, folder), open_table(spark_engine, folder)
    with answering(whole, filters) as one, answering(divided, filters) as many:
        assert many.counts == one.counts
        assert sorted(many.listings) == sorted(one.listings)
        for name, listing in one.listings.items():
            assert many.listings[name].total == listing.total, name
            if listing.is_whole:
                assert in_order(many.listings[name].rows) == in_order(listing.rows), name
        assert sorted(many.tables) == sorted(one.tables)
        for name in ("illegal", "partitions", "replicas", "topics", "lost_rows", "life_lines"):
            assert rows_of(divided, many, name) == rows_of(whole, one, name), name


def rows_of(table: EventTable, answers: Answers, name: str) -> list[str]:
    sql = answers.life_lines() if name == "life_lines" else answers.tables[name]()
    return in_order(rows_in(table.engine, sql))


def in_order(rows: Any) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)


@pytest.mark.parametrize(("split_rows", "is_one"), [(ROWS, True), (BATCH_ROWS, False)])
def test_a_task_sends_one_stream_to_each_block_unless_it_reads_very_many_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split_rows: int, is_one: bool
) -> None:
    rows = pa.table({"n": pa.array(range(ROWS), pa.int64())})
    pq.write_table(rows, tmp_path / "rows.parquet")
    (splits,) = splits_of(tmp_path)
    monkeypatch.setattr(spark_blocks, "_SORTED_ROWS", BATCH_ROWS)
    monkeypatch.setattr(spark_blocks, "SPLIT_ROWS", split_rows)
    divide = Division(
        root="stored",
        schema=rows.schema,
        given={},
        views={},
        summaries={},
        selected="FROM stored",
        key="n",
        blocks=3,
        memory_mb=64,
    )
    sent = defaultdict(list)
    for number, (_, stream) in divide(splits):
        sent[number].append(from_stream(stream)["n"].to_pylist())
    assert {len(streams) == 1 for streams in sent.values()} == {is_one}
    found = {number: sorted(chain(*streams)) for number, streams in sent.items()}
    assert found == {block + 1: list(range(block, ROWS, 3)) for block in range(3)}


def test_a_large_file_is_divided_at_its_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"n": pa.array(range(10), pa.int64())})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=2)
    monkeypatch.setattr(spark_blocks, "SPLIT_ROWS", 3)
    found = [(one.groups, one.first, one.end) for task in splits_of(tmp_path) for one in task]
    assert found == [((0, 1), 0, 4), ((2, 3), 4, 8), ((4,), 8, 10)]
