"""A table that is larger than the memory of a task, and one partition with half of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from klamm.cluster.journal import Kind
from klamm.replay.encode import xxhash64
from klamm.replay.engines import Engine, row, spark_blocks
from klamm.replay.engines.duckdb_engine import duckdb_engine
from klamm.replay.engines.spark_engine import SparkEngine
from klamm.replay.event_schema import (
    CODED_SCHEMA,
    DAMAGED_SCHEMA,
    EPOCH_SHIFT,
    KINDS,
    NAMES_SCHEMA,
    SCHEMA_VERSION,
    SOURCES,
    STATE_CODES,
    code_of,
)
from klamm.replay.event_table import EventTable, Manifest
from klamm.replay.questions.isrs import FLAP_WINDOW_MS
from klamm.replay.run import answering
from klamm.replay.spark import spark_session

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

DUCKDB_MB = 128
ARROW_BYTES = 8 << 20
"""The hot partition takes ten times as much as Arrow data."""
HEAP_MB = 480
"""Spark starts with no less than 450."""
COLD = 200_000
"""Partitions of two rows: New, then Online."""
HOT = 400_000
"""Rows of one partition, whose ISR shrinks and expands in turn."""
LOST, ILLEGAL = 250_001, 77
HOT_TOPIC, COLD_TOPIC = "hot", "cold"
NEW, ONLINE = STATE_CODES["NewPartition"], STATE_CODES["OnlinePartition"]


@pytest.fixture(scope="module")
def small_spark() -> Iterator[SparkSession]:
    with spark_session(cores=2, memory_mb=HEAP_MB) as session:
        yield session


@pytest.fixture(scope="module")
def folder(small_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skewed")
    coded(small_spark).write.parquet(str(folder / "events"))
    return folder


def table_in(engine: Engine, folder: Path) -> EventTable:
    words = (("topic", HOT_TOPIC), ("topic", COLD_TOPIC), ("run", "r"), ("file", "f"))
    rows = [{"domain": domain, "code": xxhash64(name), "name": name} for domain, name in words]
    return EventTable(
        engine,
        engine.files(folder / "events", CODED_SCHEMA),
        engine.table(pa.Table.from_pylist(rows, NAMES_SCHEMA)),
        engine.table(DAMAGED_SCHEMA.empty_table()),
        Manifest(SCHEMA_VERSION, []),
    )


def coded(spark: SparkSession) -> DataFrame:
    """The rows of both, cold ones first; one of a cold partition is illegal, one hot row is lost.

    ``line`` is the place of a row among all."""
    n = F.col("id")
    is_cold = n < 2 * COLD
    is_new = is_cold & (n < COLD)
    hot_n = n - 2 * COLD
    is_whole_again = hot_n % 2 == 1
    both, one = F.array(F.lit(1), F.lit(2)), F.array(F.lit(1))
    none = F.lit(None)
    to_state = F.when(is_new | (n == COLD + ILLEGAL), NEW).when(is_cold, ONLINE).otherwise(0)
    from_state = (
        F.when(n == COLD + ILLEGAL, ONLINE)
        .when(is_new, STATE_CODES["NonExistentPartition"])
        .when(is_cold, NEW)
        .otherwise(0)
    )
    kind = F.when(is_cold, code_of(Kind.PARTITION_TRANSITION, KINDS))
    known: dict[str, Column] = {
        "source": F.lit(code_of("journal", SOURCES)),
        "run": F.xxhash64(F.lit("r")),
        "file": F.xxhash64(F.lit("f")),
        "line": n + 1,
        "place": F.lit(1 << EPOCH_SHIFT) + n + 1,
        "t_ms": n,
        "seq": n + 1,
        "controller": F.lit(0),
        "epoch": F.lit(1),
        "kind": kind.otherwise(code_of(Kind.ISR_CHANGED, KINDS)),
        "topic": F.when(is_cold, F.xxhash64(F.lit(COLD_TOPIC))).otherwise(
            F.xxhash64(F.lit(HOT_TOPIC))
        ),
        "partition": F.when(is_cold, n % COLD).otherwise(0),
        "replica": F.lit(-1),
        "from_state": from_state,
        "to_state": to_state,
        "key_seq": F.when(is_new, 1).when(is_cold, 2).otherwise(hot_n + 1),
        "leader": F.when(~is_new, 1),
        "prev_leader": F.when(~is_cold, 1),
        "leader_epoch": F.when(~is_new, 0),
        "isr": F.when(is_new, none).when(is_cold | is_whole_again, both).otherwise(one),
        "prev_isr": F.when(is_cold, none).when(is_whole_again, one).otherwise(both),
        "election": F.lit(0),
        "zk_version": F.when(is_cold & ~is_new, 0).when(~is_cold, hot_n + 1),
        "event_id": n,
        "cause_id": n,
        "has_predecessors": F.lit(True),
    }
    rows = spark.range(2 * COLD + HOT, numPartitions=2).where(hot_n != LOST)
    return rows.select(
        *(
            known.get(field.name, none).cast(field.dataType).alias(field.name)
            for field in from_arrow_schema(CODED_SCHEMA)
        )
    )


def test_what_does_not_fit_into_the_memory_of_a_task_is_answered_as_well(
    small_spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_blocks, "ARROW_BYTES", ARROW_BYTES)
    monkeypatch.setattr(spark_blocks, "TASK_MB", DUCKDB_MB)
    check(table_in(SparkEngine(small_spark), folder))


def test_what_does_not_fit_into_duckdbs_memory_is_answered_as_well(folder: Path) -> None:
    with duckdb_engine(2, DUCKDB_MB) as engine:
        check(table_in(engine, folder))


def check(table: EventTable) -> None:
    with answering(table) as found:
        counts = found.counts
        (illegal,) = found.listings["illegal"].rows
        (gap,) = found.listings["gaps"].rows
        (flapping,) = found.listings["flapping"].rows
        partitions = found.tables["partitions"]()
        led = f"SELECT count(*) AS led FROM ({partitions}) WHERE leader = 1"
        assert row(table.engine, led) == {"led": COLD + 1}
    assert (counts["events"], counts["partitions"]) == (2 * COLD + HOT - 1, COLD + 1)
    # What was lost expanded the ISR.
    assert (counts["shrinks"], counts["expands"]) == (HOT / 2, HOT / 2 - 1)
    assert (counts["illegal"], counts["unclean"], counts["repeated"]) == (1, 0, 0)
    assert (illegal["topic"], illegal["partition"]) == (COLD_TOPIC, ILLEGAL)
    assert illegal["line"] == COLD + ILLEGAL + 1
    assert (counts["gaps"], counts["missing"], gap["topic"]) == (1, 1, HOT_TOPIC)
    assert gap["after_line"] == 2 * COLD + LOST and gap["before_line"] == 2 * COLD + LOST + 2
    # There is a row each ms.
    assert (flapping["topic"], flapping["shrinks"]) == (HOT_TOPIC, FLAP_WINDOW_MS / 2)
