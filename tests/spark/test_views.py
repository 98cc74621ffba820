"""The views of an event table: what may be asked of them, and that clusters are kept apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from klamm.cluster.errors import UsageError
from klamm.cluster.journal import Kind
from klamm.replay.encode import encode
from klamm.replay.event_schema import DAMAGED_SCHEMA, SCHEMA_VERSION
from klamm.replay.event_table import EventTable, Manifest
from klamm.replay.views import ask, make_views

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

ONLINE: dict[str, Any] = {
    "kind": str(Kind.PARTITION_TRANSITION),
    "topic": "t",
    "partition": 0,
    "to_state": "OnlinePartition",
    "leader": 1,
    "leader_epoch": 0,
    "isr": [1],
    "zk_version": 0,
}
REPLICA: dict[str, Any] = {
    "kind": str(Kind.REPLICA_TRANSITION),
    "topic": "t",
    "partition": 0,
    "replica": 1,
    "to_state": "OnlineReplica",
}


@pytest.fixture
def views(spark: SparkSession, raw_events: Callable[..., DataFrame]) -> SparkSession:
    """Those of two runs, the second of which is told by two sources."""
    second = {**ONLINE, "run": "s", "leader": 2, "seq": 2}
    other = {**second, "source": "state-change.log", "leader": 3, "seq": 3}
    rows = (ONLINE, REPLICA, second, other, {**REPLICA, "run": "s", "to_state": "OfflineReplica"})
    events, names = encode(raw_events(*rows))
    damaged = spark.createDataFrame([], DAMAGED_SCHEMA)
    make_views(EventTable(events, names, damaged, Manifest(SCHEMA_VERSION, [])))
    return spark


def test_each_source_and_run_ends_with_its_own_states(views: SparkSession) -> None:
    found = ask(views, "SELECT source, run, topic, partition, leader FROM partitions ORDER BY 5")
    assert list(map(tuple, found.collect())) == [
        ("journal", "r", "t", 0, 1),
        ("journal", "s", "t", 0, 2),
        ("state-change.log", "s", "t", 0, 3),
    ]
    found = ask(views, "SELECT source, run, replica, state FROM replicas ORDER BY run")
    assert list(map(tuple, found.collect())) == [
        ("journal", "r", 1, "OnlineReplica"),
        ("journal", "s", 1, "OfflineReplica"),
    ]


def test_views_tell_their_columns_and_nothing_is_written(views: SparkSession) -> None:
    described = {row.col_name: row.data_type for row in ask(views, "DESCRIBE events").collect()}
    assert (described["at"], described["kind"], described["isr"]) == (
        "timestamp",
        "string",
        "array<int>",
    )
    shown = ask(views, "SHOW COLUMNS IN replicas").collect()
    assert [name for (name,) in shown] == [
        "source",
        "run",
        "topic",
        "partition",
        "replica",
        "state",
    ]
    for words in ("DROP VIEW events", "WITH a AS (SELECT 1) INSERT INTO b SELECT * FROM a"):
        with pytest.raises(UsageError, match="invalid query"):
            ask(views, words)
    assert ask(views, "SELECT * FROM events").count() == 5
