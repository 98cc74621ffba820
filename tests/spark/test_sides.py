"""Comparison of two logs or of a log with ZooKeeper: which cluster of a table is a side, and what
differs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from klamm.cluster.errors import UsageError
from klamm.replay.diff import Side, choose, compare, side_of, stored_side
from klamm.replay.engines import Engine, rows
from klamm.replay.event_schema import SCHEMA_VERSION
from klamm.replay.event_table import EventTable, Manifest, RunCoverage, SourceSummary
from tests.spark.conftest import table_in
from tests.spark.stored_states import StoredState, znodes_of

WRITTEN: dict[str, Any] = {
    "kind": "leadership_written",
    "topic": "t",
    "partition": 0,
    "leader_epoch": 0,
    "isr": [1],
    "zk_version": 0,
}
Row = dict[str, Any]
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


def event(topic: str, leader: int, isr: list[int], version: int | None, **more: Any) -> Row:
    more = {"partition": 0, "leader_epoch": 3, "to_state": "OnlinePartition", **more}
    leadership = {"leader": leader, "isr": isr, "zk_version": version}
    return {"kind": "partition_transition", "topic": topic, **leadership, **more}


def replica(topic: str, broker: int, state: str) -> Row:
    key = {"topic": topic, "partition": 0, "replica": broker}
    return {"kind": "replica_transition", "to_state": state, **key}


def side(duckdb: Engine, name: str, *events: Row, source: str = "journal", run: str = "r") -> Side:
    numbered = [
        {"seq": n, "line": n, "t_ms": 10 * n, "source": source, "run": run, "file": name, **row}
        for n, row in enumerate(events, 1)
    ]
    covered = RunCoverage(run, len(events), 1, 1, 0, 0, missing=2, repeated=0)
    summary = SourceSummary(source, [], len(events), {}, {}, [covered], 0.0)
    made = replace(table_in(duckdb, *numbered), manifest=Manifest(SCHEMA_VERSION, [summary]))
    return side_of(made, name)


def told(duckdb: Engine, a: Side, b: Side, **more: Any) -> list[str]:
    found = compare(duckdb, a, b, **more)
    assert found.total == len(found.shown)
    return [one.text("in A", "in B") for one in found.shown]


def test_each_field_that_differs_is_told(duckdb: Engine) -> None:
    a = side(
        duckdb,
        "a.jsonl",
        event("t", 1, [1, 2], 5),
        event("only", 1, [1], 0),
        replica("t", 1, "OnlineReplica"),
        replica("t", 2, "OnlineReplica"),
        replica("t", 3, "OnlineReplica"),
    )
    b = side(
        duckdb,
        "b.jsonl",
        event("t", 2, [], 6, leader_epoch=4, to_state="OfflinePartition"),
        replica("t", 1, "OnlineReplica"),
        replica("t", 2, "OfflineReplica"),
    )
    assert a.what == "journal, 5 events, 2 lost rows"
    differences = [
        "only-0: present in A, absent in B",
        "t-0: isr 1,2 in A, empty in B",
        "t-0: leader 1 in A, 2 in B",
        "t-0: leader_epoch 3 in A, 4 in B",
        "t-0: state OnlinePartition in A, OfflinePartition in B",
        "t-0: zk_version 5 in A, 6 in B",
        "t-0 on broker 2: state OnlineReplica in A, OfflineReplica in B",
        "t-0 on broker 3: present in A, absent in B",
    ]
    assert told(duckdb, a, b, versions=True) == differences
    assert told(duckdb, a, b) == [line for line in differences if "zk_version" not in line]
    found = compare(duckdb, a, b, most=2)
    assert (found.partitions, found.replicas, found.total, len(found.shown)) == (2, 3, 7, 2)
    assert found.not_compared == []
    assert told(duckdb, a, a, versions=True) == []
    assert compare(duckdb, a, a).divergence is None


@pytest.mark.parametrize(
    ("version", "isr", "lines"),
    [
        (5, [1], ["t-0: isr 1,2 in A, 1 in B"]),
        (6, [1], []),
        (5, [1, 2], []),
    ],
)
def test_an_isr_is_compared_with_a_partial_log_only_at_the_same_version(
    version: int, isr: list[int], lines: list[str], duckdb: Engine
) -> None:
    a = side(duckdb, "a.jsonl", event("t", 1, [1, 2], 5))
    b = side(duckdb, "b", event("t", 1, isr, version), source="state-change.log")
    assert told(duckdb, a, b) == lines
    found = compare(duckdb, a, b)
    assert found.divergence is None  # leaders and their epochs are the same
    isrs = "ISRs whose znode versions differ: b does not record all ISR changes"
    assert found.not_compared == [isrs, "replica states: a.jsonl has none"]
    assert compare(duckdb, b, a).not_compared == [isrs, "replica states: b has none"]
    c = side(duckdb, "c.jsonl", replica("t", 1, "OnlineReplica"))
    assert compare(duckdb, c, b).not_compared == [isrs, "replica states: b has none"]


def test_only_a_whole_log_lacks_the_leader_of_a_partition_that_has_none(duckdb: Engine) -> None:
    a = side(duckdb, "a.jsonl", event("t", 1, [1, 2], 5))
    moved = {"kind": "partition_transition", "topic": "t", "partition": 0}
    moved["to_state"] = "OnlinePartition"
    partial = side(duckdb, "b", moved, source="state-change.log")
    assert told(duckdb, a, partial) == told(duckdb, partial, a) == []
    whole = side(duckdb, "c.jsonl", moved)
    assert told(duckdb, a, whole, versions=True) == [
        "t-0: isr 1,2 in A, none in B",
        "t-0: leader 1 in A, none in B",
        "t-0: leader_epoch 3 in A, none in B",
        "t-0: zk_version 5 in A, none in B",
    ]


@pytest.mark.parametrize(
    ("of_a", "of_b", "first"),
    [
        pytest.param((20, 1), (10, 2), "B", id="by time"),
        pytest.param((10, 2), (10, 1), "B", id="at the same time by place"),
        pytest.param((10, 1), (10, 1), "A", id="at the same time and place A"),
    ],
)
def test_of_two_writes_of_one_side_alone_the_earlier_is_the_divergence(
    of_a: tuple[int, int], of_b: tuple[int, int], first: str, duckdb: Engine
) -> None:
    sides = [
        side(duckdb, name, event("t", leader, [leader], 5, t_ms=t_ms, place=place))
        for name, leader, (t_ms, place) in (("a.jsonl", 1, of_a), ("b.jsonl", 2, of_b))
    ]
    found = compare(duckdb, *sides).divergence
    assert found is not None and found.side == first


def test_the_first_write_of_one_side_alone_is_the_divergence(duckdb: Engine) -> None:
    same, other = event("t", 1, [1, 2], 5), event("t", 1, [1], 6)
    a = side(duckdb, "a.jsonl", same, other, event("t", 2, [2], 7))
    b = side(duckdb, "b.jsonl", same, event("t", 2, [2], 7), {**other, "isr": [1, 3]})
    found = compare(duckdb, a, b).divergence
    assert found is not None and found == ("A", "a.jsonl", 2, 20, "t", 0, 1, 3, [1], 6)
    assert compare(duckdb, b, a).divergence == ("B", *found[1:])
    # What a controller read was written before, and what has no version was never stored.
    read = {**other, "kind": "partition_snapshot"}
    c = side(duckdb, "c", same, read, event("t", 3, [3], None))
    assert compare(duckdb, c, a).divergence == ("B", "a.jsonl", 3, 30, "t", 0, 2, 3, [2], 7)
    assert compare(duckdb, c, side(duckdb, "d", same)).divergence is None


def test_replicas_on_live_brokers_must_be_online(duckdb: Engine) -> None:
    log = side(
        duckdb,
        "a.jsonl",
        event("t", 1, [1, 2], 5),
        *(replica("t", broker, "OfflineReplica") for broker in (1, 2)),
    )
    stored = [StoredState("t", 0, 1, 3, [1, 2], 5, [1, 2]), StoredState("new", 0, replicas=[1])]
    lines = ["new-0: absent in A, present in B"]
    znodes = stored_side(duckdb, "zk", "a dump", *znodes_of(stored))
    assert told(duckdb, log, znodes) == lines
    alive = stored_side(duckdb, "zk", "a dump", *znodes_of(stored), live_brokers=[1])
    assert told(duckdb, log, alive) == [
        *lines,
        "new-0 on broker 1: absent in A, present in B",
        "t-0 on broker 1: state OfflineReplica in A, OnlineReplica in B",
    ]
    none = stored_side(duckdb, "zk", "a dump", *znodes_of(stored), live_brokers=[])
    assert told(duckdb, log, none) == [*lines, "new-0 on broker 1: absent in A, present in B"]
    states = rows(duckdb, f"SELECT state FROM {znodes.partitions} ORDER BY state")
    assert [row["state"] for row in states] == ["NewPartition", "OnlinePartition"]
    leaderless = stored_side(duckdb, "zk", "a dump", *znodes_of([stored[0]._replace(leader=-1)]))
    (row,) = rows(duckdb, f"SELECT * FROM {leaderless.partitions}")
    assert (row["state"], row["zk_version"]) == ("OfflinePartition", 5)


def test_the_latest_cluster_of_a_journal_is_chosen() -> None:
    runs = [
        RunCoverage(run, n, 1, 1, 0, last_ms, missing=0, repeated=0)
        for run, n, last_ms in (("old", 1, 5), ("new", 2, 9), ("older", 4, 3))
    ]
    manifest = Manifest(SCHEMA_VERSION, [SourceSummary("journal", [], 7, {}, {}, runs, 0.0)])
    assert choose(manifest, "x") == (
        "journal of new, the latest of 3",
        ("journal",),
        "new",
        2,
        True,
    )
    assert choose(manifest, "x", run="old") == ("journal of old", ("journal",), "old", 1, False)
