"""What one real Kafka 2.8.2 cluster wrote: its two logs and its ZooKeeper's tell the same story."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from klamm.cluster.journal import Kind
from klamm.replay.engines import Engine
from klamm.replay.event_schema import LEADERSHIP_WRITTEN, REPLICA_SNAPSHOT
from klamm.replay.sources import LogSource, zookeeper
from klamm.replay.sources.kafka_logs import CONTROLLER, STATE_CHANGES
from tests.spark.reading import At, read_source

DATA = Path(__file__).parents[1] / "data" / "kafka_logs" / "trace"
SCENARIOS = ("controller_kill", "delete_one_down", "reassign_move_all", "rolling_restart")
Story = dict[str, list[At]]
Version = tuple[str, int, int]


def read(engine: Engine, source: LogSource, paths: Iterable[Path]) -> Story:
    """The events of each run in their order."""
    told = read_source(engine, source, sorted(paths))
    assert told.damaged == []
    story: Story = defaultdict(list)
    for row in sorted(told.events, key=lambda row: row.place):
        story[row.run.split("/")[-1].removeprefix("oracle-").removesuffix("-4011")].append(row)
    return story


@pytest.fixture(scope="module")
def stories(duckdb: Engine) -> dict[str, Story]:
    return {
        "state changes": read(duckdb, STATE_CHANGES, DATA.rglob("state-change.log")),
        "controller": read(duckdb, CONTROLLER, DATA.rglob("controller.log")),
        "zookeeper": read(duckdb, zookeeper.SOURCE, (DATA / "zookeeper/version-2").iterdir()),
    }


def versions(rows: Iterable[At]) -> dict[Version, dict[str, Any]]:
    """What is said of each version of each partition's state znode; no two rows disagree."""
    found: dict[Version, dict[str, Any]] = {}
    for row in rows:
        if row.partition < 0 or row.zk_version is None or row.kind == "assignment_written":
            continue
        said = {"leader": row.leader, "leader_epoch": row.leader_epoch, "isr": row.isr}
        known = found.setdefault((row.topic, row.partition, row.zk_version), {})
        for name, value in said.items():
            if value is not None:
                assert known.setdefault(name, value) == value, (row, known)
    return found


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_leadership_that_was_written_is_in_kafkas_logs(
    stories: dict[str, Story], scenario: str
) -> None:
    written = [row for row in stories["zookeeper"][scenario] if row.kind == LEADERSHIP_WRITTEN]
    logged = [*stories["state changes"][scenario], *stories["controller"][scenario]]
    expected, found = versions(written), versions(logged)
    assert len(written) == len(expected) > 0
    assert set(found) == set(expected)
    for version, said in found.items():
        assert said == {name: expected[version][name] for name in said}, version
    # What brokers propose is logged without its leader, which is that of the version before.
    partly = {version for version, said in found.items() if len(said) < 3}
    proposed = {
        (row.topic, row.partition, row.zk_version)
        for row in stories["controller"][scenario]
        if row.kind == Kind.ISR_CHANGED
    }
    assert partly <= proposed
    for topic, partition, number in partly:
        before = expected[topic, partition, number - 1]
        after = expected[topic, partition, number]
        assert (after["leader"], after["leader_epoch"]) == (
            before["leader"],
            before["leader_epoch"],
        )


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_same_controllers_and_brokers(stories: dict[str, Story], scenario: str) -> None:
    zookeeper_rows, logged = stories["zookeeper"][scenario], stories["controller"][scenario]
    elected = [(r.controller, r.epoch) for r in zookeeper_rows if r.kind == "controller_elected"]
    assert elected == [(r.controller, r.epoch) for r in logged if r.kind == "controller_elected"]
    assert elected == [(r.controller, r.epoch) for r in logged if r.kind == "controller_ready"]
    state_changes = stories["state changes"][scenario]
    assert set(elected) == {(r.controller, r.epoch) for r in state_changes if r.topic}
    # The first broker was there before it was the controller. Those that come at once are told of
    # in the order of their ids.
    came = [r.replica for r in zookeeper_rows if r.kind == "broker_online"]
    assert Counter(came[1:]) == Counter(r.replica for r in logged if r.kind == "broker_online")


def test_the_deletion_ends_in_both(stories: dict[str, Story]) -> None:
    told = [
        (source, row.kind, row.topic)
        for source in ("controller", "zookeeper")
        for row in stories[source]["delete_one_down"]
        if row.kind == Kind.TOPIC_DELETED
    ]
    assert told == [("controller", "topic_deleted", "t"), ("zookeeper", "topic_deleted", "t")]
    states = [
        row.to_state
        for row in stories["state changes"]["delete_one_down"]
        if row.kind == Kind.PARTITION_TRANSITION
    ]
    assert states[-1] == "NonExistentPartition"


def test_a_failover_dumps_what_its_transitions_led_to(stories: dict[str, Story]) -> None:
    dumped = {
        (row.partition, row.replica): row.to_state
        for row in stories["controller"]["controller_kill"]
        if row.epoch == 2 and row.kind in (Kind.PARTITION_SNAPSHOT, REPLICA_SNAPSHOT)
    }
    ready_ms = next(
        row.t_ms
        for row in stories["controller"]["controller_kill"]
        if row.epoch == 2 and row.kind == Kind.CONTROLLER_READY
    )
    reached = {
        (row.partition, row.replica): row.to_state
        for row in stories["state changes"]["controller_kill"]
        if row.epoch == 2
        and row.t_ms <= ready_ms
        and row.kind in (Kind.PARTITION_TRANSITION, Kind.REPLICA_TRANSITION)
    }
    assert len(dumped) == 8
    # A partition whose leader lived was loaded as Online, without a transition.
    assert dumped == {(1, -1): "OnlinePartition", **reached}
