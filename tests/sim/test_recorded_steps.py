"""Every step that a recording may have, run in both worlds."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.cluster.quirks import NO_QUIRKS
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.lab.drivers.real_driver import RealDriver
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.recordings.recorded import recorded_spec
from klamm.lab.recordings.rows import StepRecord
from klamm.world.journal.journal import MemoryJournal
from klamm.world.real.cluster import RealCluster
from klamm.world.simulated.world import SimulatedWorld
from tests.scenarios import run_recorded

MARK = "/admin/marks/mark_0000000000"
ALL = (0, 1, 2)
BOOTSTRAP = ["--bootstrap-server", "{bootstrap}"]


def step(op: str, brokers: tuple[int, ...] = ALL, **fields: Any) -> dict[str, Any]:
    tree = {f"/brokers/ids/{broker}": {"data": "<registration>"} for broker in brokers}
    return {"step": {"op": op, **fields}, "tree": tree, "zk_writes": []}


def tool(cls: str, line: str) -> dict[str, Any]:
    return step("tool", cls=cls, args=[*BOOTSTRAP, *line.split()])


def scenario() -> dict[str, Any]:
    up = step("up")
    up["zk_writes"] = [["create-ephemeral", f"/brokers/ids/{broker}"] for broker in ALL]
    return {
        "brokers": 3,
        "racks": False,
        "props": {},
        "ignore": [],
        "steps": [
            up,
            tool("TopicCommand", "--create --topic t --replica-assignment 1:0,2:0"),
            tool(
                "TopicCommand", "--alter --topic t --partitions 3 --replica-assignment 1:0,2:0,0:1"
            ),
            tool("TopicCommand", "--describe --topic t"),
            tool("LeaderElectionCommand", "--election-type preferred --all-topic-partitions"),
            tool("ConfigCommand", "--alter --topic t --add-config retention.ms=7"),
            tool("LogDirsCommand", "--describe --broker-list 0 --topic-list t"),
            step("create", path="/admin/marks", data={"a": 1}),
            step("create", path="/admin/marks/mark_", data="raw {text", sequential=True),
            step("set", path=MARK, data="other text"),
            step("set", path=MARK, data=None),
            step("delete", path=MARK),
            step("pause", (0, 1), broker=2),
            step("resume", broker=2),
            step("kill_all", ()),
            step("start", (1,), broker=1),
        ],
    }


def check(records: list[StepRecord]) -> None:
    tools = [record.tool for record in records[1:7]]
    assert [one and one.exit_code for one in tools] == [0] * 6, tools
    said = [one.stdout for one in tools if one is not None]
    created, _, described, elected, altered, log_dirs = said
    assert created == "Created topic t.\n"
    assert "PartitionCount: 3" in described
    assert "Partition: 2\tLeader: 0\tReplicas: 0,1\t" in described
    assert elected == ""
    assert altered == "Completed updating config for topic t.\n"
    assert '"partition":"t-2"' in log_dirs
    trees = [record.tree for record in records]
    assert [tree[MARK]["data"] if MARK in tree else "" for tree in trees[8:12]] == [
        "raw {text",
        "other text",
        None,
        "",
    ]
    registered = [[b for b in ALL if f"/brokers/ids/{b}" in tree] for tree in trees[11:]]
    assert registered == [[0, 1, 2], [0, 1], [0, 1, 2], [], [1]]
    assert trees[-1]["/brokers/topics/t/partitions/0/state"]["data"]["leader"] == 1


def run(driver: ScenarioDriver) -> list[StepRecord]:
    return run_recorded(scenario(), driver)


def test_every_step_in_the_simulated_world() -> None:
    world = SimulatedWorld(recorded_spec(scenario(), NO_QUIRKS))
    check(run(SimulatedDriver(world)))
    assert world.errors == []


@pytest.mark.slow
def test_every_step_on_a_real_zookeeper(chroot: str) -> None:
    journal = MemoryJournal()
    with RealCluster(recorded_spec(scenario(), NO_QUIRKS), chroot, journal) as cluster:
        check(run(RealDriver(cluster, journal)))
