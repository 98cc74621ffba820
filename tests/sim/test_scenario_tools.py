"""Kafka's tools as steps of a scenario: what they wait for passes in the cluster's own time."""

from __future__ import annotations

import json
from typing import Any

from klamm.cluster.partition_limits import PartitionLimits
from klamm.cluster.requests import AlterReplicaLogDirsRequest, Message
from klamm.lab.actions.actions import Pause
from klamm.lab.actions.steps import BringUp, RunTool
from klamm.lab.drill import Quiesce, Step
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.run.runner import ScenarioRunner
from klamm.tools.command_result import CommandResult
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.simulated.world import SimulatedWorld

PLAN = {
    "version": 1,
    "partitions": [
        {"topic": "t", "partition": 0, "replicas": [0, 2], "log_dirs": ["any", "/b"]},
    ],
}


def three_brokers(seed: int, **more: Any) -> tuple[SimulatedDriver, ScenarioRunner]:
    spec = ClusterSpec(broker_ids=(0, 1, 2), config={"log.dirs": "/a,/b"}, seed=seed, **more)
    driver = SimulatedDriver(SimulatedWorld(spec))
    runner = ScenarioRunner(driver)
    runner.run_step(Step("up", (BringUp((0, 1, 2)),), (Quiesce(),)))
    return driver, runner


def run(runner: ScenarioRunner, name: str, line: str, **files: str) -> CommandResult:
    tool = RunTool(name, ("--bootstrap-server", "{bootstrap}", *line.split()), files)
    result = runner.run_step(Step(name, (tool,))).tool
    assert result is not None
    return result


def test_the_limits_on_partitions_are_those_of_the_cluster() -> None:
    _, runner = three_brokers(seed=0, partition_limits=PartitionLimits(per_request=2, cluster=4))
    one_too_many = "The request adds 3 partitions; at most 2 are allowed in one request."
    full = "The cluster has 3 partitions and would have 5; at most 4 are allowed."
    for line, refusal in (
        ("--create --topic a --partitions 3", one_too_many),
        ("--create --topic a --replica-assignment 0,1,2", one_too_many),
        ("--create --topic a --partitions 2", None),
        ("--create --topic b", None),
        ("--create --topic c --partitions 2", full),
        ("--alter --topic b --partitions 4", one_too_many),
        ("--alter --topic b --partitions 3", full),
        ("--alter --topic b --partitions 2", None),
    ):
        done = run(runner, "topics", line)
        said = done.stdout.partition(" : ")[2].strip()
        assert (said, done.exit_code) == (refusal or "", bool(refusal))


def move_a_log_dir(seed: int) -> tuple[float, int]:
    """How long the tool took in virtual milliseconds, and how often it asked a broker."""
    driver, runner = three_brokers(seed)
    run(runner, "topics", "--create --topic t --replica-assignment 0:1")
    driver.quiesce()
    asked: list[Message] = []
    driver.cluster.transport.add_tap(asked.append)
    began_ms = driver.elapsed_ms
    moved = run(
        runner,
        "reassign-partitions",
        "--execute --reassignment-json-file {file:plan}",
        plan=json.dumps(PLAN),
    )
    took_ms = driver.elapsed_ms - began_ms
    assert "Successfully started log directory move for: t-0-2" in moved.stdout
    driver.quiesce()
    assert driver.disagreements() == []
    return took_ms, sum(isinstance(one.body, AlterReplicaLogDirsRequest) for one in asked)


def test_a_move_that_must_be_tried_again_waits_for_milliseconds() -> None:
    runs = [move_a_log_dir(seed) for seed in range(8)]
    assert max(tries for _, tries in runs) > 1, "no run had to try again"
    assert max(took_ms for took_ms, _ in runs) < 1_000


def test_a_frozen_broker_is_named_when_the_time_is_over() -> None:
    _, runner = three_brokers(seed=1)
    runner.run_step(Step("freeze", (Pause(2),)))
    described = run(runner, "log-dirs", "--describe --broker-list 1,2")
    assert described.exit_code == 1
    assert "TimeoutException: Call(callName=describeLogDirs, deadlineMs=" in described.stderr
