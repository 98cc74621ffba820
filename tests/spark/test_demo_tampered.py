"""The demo on a cluster that is tampered with: its checks and Spark say so, in text and in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from klamm.cli.demo import show, story
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.lab.checks.agreement import StoredCluster
from klamm.lab.demo.demo import AUTOMATIC, DemoStep, StepBegins
from klamm.lab.demo.demo_stage import DemoOptions
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.store import SetData
from klamm.zk.znodes import TopicPartitionStateZNode

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def tampered(steps: Iterable[StepBegins | DemoStep]) -> Iterator[StepBegins | DemoStep]:
    """The story, with a state znode rewritten behind everybody's back before it is checked."""
    connect_string = ""
    for step in steps:
        if isinstance(step, DemoStep) and "zookeeper" in step.facts:
            connect_string = step.facts["zookeeper"]
        if isinstance(step, StepBegins) and step.title.startswith("Compare brokers"):
            store = KazooStore(KazooSession(connect_string, 5_000))
            path = TopicPartitionStateZNode.path(led_by_its_preferred(StoredCluster.read(store)))
            data = TopicPartitionStateZNode.encode(LeaderAndIsr(0, 99, (0,)), 1)
            store.write([[SetData(path, data)]])
            store.close()
        yield step


def led_by_its_preferred(stored: StoredCluster) -> TopicPartition:
    """A partition that no automatic rebalance touches: that would make the controller read it."""
    return next(
        tp
        for tp in sorted(stored.states)
        if tp.topic == AUTOMATIC
        and stored.states[tp].leader_and_isr.leader == stored.assignments[tp].replicas[0]
    )


def test_a_state_that_was_rewritten_manually_ends_in_10(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], commands_share_spark: None
) -> None:
    options = DemoOptions(data_dir=tmp_path, klamm_version="test")
    steps = list(tampered(story(options, tmp_path / "page.html")))
    assert show(steps, as_json=False) == 10
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1. Start ZooKeeper (")
    assert lines.count("   All agree.") == 0
    assert f"   Open this page in a browser: {tmp_path / 'page.html'}" in lines
    assert show(steps, as_json=True) == 10
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert not told["agrees"]
    by_checks, _, by_spark = (step["facts"]["disagreements"] for step in told["steps"][-3:])
    assert told["disagreements"] == [*by_checks, *by_spark]
    assert len(by_checks) == 6 + 3 + 1
    (partition,) = {line.partition(": ")[0] for line in by_spark}
    assert partition.startswith(f"{AUTOMATIC}-")
    assert all(line.startswith(f"{partition}: ") for line in by_checks)
    assert any("leader_epoch" in line and "99 in ZooKeeper" in line for line in by_spark)
    assert all(f"   {line}" in lines for line in told["disagreements"])
