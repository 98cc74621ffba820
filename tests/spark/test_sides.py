"""A side of a comparison: of a table with several kinds of logs and several runs, one cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from klamm.cluster.errors import UsageError
from klamm.replay.diff import side_of
from klamm.replay.encode import encode
from klamm.replay.event_schema import DAMAGED_SCHEMA, SCHEMA_VERSION
from klamm.replay.event_table import EventTable, Manifest, RunCoverage, SourceSummary

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

WRITTEN: dict[str, Any] = {
    "kind": "leadership_written",
    "topic": "t",
    "partition": 0,
    "leader_epoch": 0,
    "isr": [1],
    "zk_version": 0,
}
LEADERS = {("zookeeper", "/a"): 1, ("zookeeper", "/b"): 2, ("state-change.log", "folder"): 3}


@pytest.fixture(scope="module")
def table(spark: SparkSession, raw_events: Callable[..., DataFrame]) -> EventTable:
    """Two chroots of a ZooKeeper and the logs of brokers, each with a leader of its own."""
    rows = [
        {**WRITTEN, "source": source, "run": run, "leader": leader, "seq": leader}
        for (source, run), leader in LEADERS.items()
    ]
    events, names = encode(raw_events(*rows))
    damaged = spark.createDataFrame([], DAMAGED_SCHEMA)
    summaries = [
        SourceSummary(
            source,
            [],
            len(runs),
            {},
            {},
            [RunCoverage(run, 1, 1, 1, 0, 0, missing=None, repeated=None) for run in runs],
            0.0,
        )
        for source, runs in (("state-change.log", ["folder"]), ("zookeeper", ["/a", "/b"]))
    ]
    return EventTable(events, names, damaged, Manifest(SCHEMA_VERSION, summaries))


def test_what_is_more_than_one_cluster_is_refused_with_what_to_say(table: EventTable) -> None:
    with pytest.raises(UsageError, match=r"sources: state-change\.log, zookeeper") as caught:
        side_of(table, "x")
    assert caught.value.hint == "select one, for example --source state-change.log"
    with pytest.raises(UsageError, match="x has several runs: /a, /b") as caught:
        side_of(table, "x", source="zookeeper")
    assert caught.value.hint == "select one, for example --run /a"


def test_one_source_and_one_run_are_taken(table: EventTable) -> None:
    found = side_of(table, "x", source="zookeeper", run="/b")
    assert found.what == "zookeeper of /b, 1 events"
    assert [row.leader for row in found.partitions.collect()] == [2]
    # A run of the other side's says nothing of this one.
    found = side_of(table, "x", source="state-change.log", run="/elsewhere")
    assert [row.leader for row in found.partitions.collect()] == [3]
