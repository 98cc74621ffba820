"""A side of a comparison: of a table with several kinds of logs and several runs, one cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from klamm.cluster.errors import UsageError
from klamm.replay.diff import side_of
from klamm.replay.engines import Engine, rows
from klamm.replay.event_schema import SCHEMA_VERSION
from klamm.replay.event_table import EventTable, Manifest, RunCoverage, SourceSummary
from tests.spark.conftest import table_in

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
def table(duckdb: Engine) -> EventTable:
    """Two chroots of a ZooKeeper and the logs of brokers, each with a leader of its own."""
    given = [
        {**WRITTEN, "source": source, "run": run, "leader": leader, "seq": leader}
        for (source, run), leader in LEADERS.items()
    ]
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
    return replace(table_in(duckdb, *given), manifest=Manifest(SCHEMA_VERSION, summaries))


def test_what_is_more_than_one_cluster_is_refused_with_what_to_say(table: EventTable) -> None:
    with pytest.raises(UsageError, match=r"kinds of logs: state-change\.log, zookeeper") as caught:
        side_of(table, "x")
    assert caught.value.hint == "select one, for example --source state-change.log"
    with pytest.raises(UsageError, match="x has several runs or chroots: /a, /b") as caught:
        side_of(table, "x", source="zookeeper")
    assert caught.value.hint == "select one, for example --run /a"


def test_one_source_and_one_run_are_taken(duckdb: Engine, table: EventTable) -> None:
    found = side_of(table, "x", source="zookeeper", run="/b")
    assert found.what == "zookeeper of /b, 1 events"
    assert [row["leader"] for row in rows(duckdb, f"SELECT * FROM {found.partitions}")] == [2]
    # A run of the other side's says nothing of this one.
    found = side_of(table, "x", source="state-change.log", run="/elsewhere")
    assert [row["leader"] for row in rows(duckdb, f"SELECT * FROM {found.partitions}")] == [3]
