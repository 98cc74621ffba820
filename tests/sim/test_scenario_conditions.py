"""Every condition of a scenario, looked at in a cluster in which it holds, and does not hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from klamm.cluster.types import TopicPartition
from klamm.lab.actions import actions, steps
from klamm.lab.actions.action import Action
from klamm.lab.conditions.condition import Condition, Moment, StepCheck
from klamm.lab.conditions.conditions import CONDITIONS, evaluate_condition
from klamm.lab.conditions.view import ClusterView
from klamm.lab.drill import Quiesce, Step
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.run.runner import ScenarioRunner
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.store import Create, SetData

T = "/brokers/topics/t"
# Kind: (a value that holds, a value that does not, what is seen) after ``look``.
CASES: dict[str, tuple[Any, Any, Any]] = {
    "brokers": ([3, 1, 0], [0, 1], [0, 1, 3]),
    "leader": ({"t-0": 0, "u-0": -1}, {"t-0": 0, "u-0": 2}, {"t-0": 0, "u-0": -1}),
    "unregistered": ([2], [1, 2], [2]),
    "isr": ({"t-0": [1, 0]}, {"t-0": [0]}, {"t-0": [0, 1]}),
    "leader_epoch": ({"u-0": 1}, {"u-0": 0}, {"u-0": 1}),
    "replicas": ({"t-0": [0, 3, 1]}, {"t-0": [0, 1, 3]}, {"t-0": [0, 3, 1]}),
    "partition_state": (
        {"t-0": "OnlinePartition", "u-0": "OfflinePartition"},
        {"t-0": "OfflinePartition", "u-0": "OfflinePartition"},
        {"t-0": "OnlinePartition", "u-0": "OfflinePartition"},
    ),
    "hosts": ({"0": ["t-0"], "2": None}, {"0": []}, {"0": ["t-0"], "2": None}),
    "offline_partitions": (1, 0, 1),
    "controller": (0, "none", 0),
    "controller_epoch": (1, 2, 1),
    "acknowledged": ({"t-0": 25, "u-0": 0}, {"t-0": 24}, {"t-0": 25, "u-0": 0}),
    "acknowledged_at_least": ({"t-0": 24, "u-0": 0}, {"t-0": 26}, {"t-0": 25, "u-0": 0}),
    "consumed": ({"t-0": 25}, {"u-0": 25}, {"t-0": 25}),
    "exists": (["/controller", T], ["/controller", "/nowhere"], ["/controller", T]),
    "absent": (["/nowhere"], ["/nowhere", T], []),
    "znode": ({"/controller_epoch": 1}, {"/controller_epoch": "1"}, {"/controller_epoch": 1}),
    "deleted": (["nowhere"], ["t", "nowhere"], ["nowhere"]),
    "reassigning": (["t-0"], [], ["t-0"]),
    "not_reassigning": (["u", "nowhere"], ["t"], []),
    "exit_code": (0, 1, 0),
    "output": (["t", "u"], ["t", "x"], "t\nu\n"),
    "journal": (
        {"kind": "partition_transition", "topic": "u", "to": "OfflinePartition"},
        {"kind": "partition_transition", "topic": "t", "to": "OfflinePartition"},
        None,
    ),
}


def four_brokers() -> tuple[ScenarioRunner, SimulatedDriver]:
    """A cluster with two topics."""
    world = SimulatedWorld(ClusterSpec(broker_ids=(0, 1, 2, 3), candidates=(0,), seed=0))
    driver = SimulatedDriver(world)
    runner = ScenarioRunner(driver)
    tool = ("--zookeeper", "z", "--create", "--topic")
    before: list[Action] = [
        *(actions.Start(broker_id) for broker_id in range(4)),
        steps.Wait(1_000),
        steps.RunTool("topics", (*tool, "t", "--replica-assignment", "0:1")),
        steps.RunTool("topics", (*tool, "u", "--replica-assignment", "2")),
        steps.Wait(1_000),
    ]
    runner.run_step(Step("before", tuple(before)))
    return runner, driver


def look(conditions: list[Condition]) -> list[tuple[bool, Any]]:
    """What becomes of conditions once broker 2, which alone had u-0, died, and t-0 is being moved
    to broker 3, which hangs."""
    runner, _ = four_brokers()
    move = {TopicPartition("t", 0): (0, 3)}
    done: tuple[Action, ...] = (
        steps.Produce({TopicPartition("t", 0): 25}),
        steps.Wait(1_000),
        actions.Kill(2),
        steps.Wait(6_500),
        actions.Pause(3),
        steps.Reassign(move),
        steps.Wait(1_000),
        steps.RunTool("topics", ("--zookeeper", "z", "--list")),
    )
    checks = [StepCheck(Moment.EXPECT, condition, is_required=False) for condition in conditions]
    result = runner.run_step(Step("look", done, tuple(checks)))
    return [(check.is_met, check.seen) for check in result.checks]


def test_every_kind_has_a_case() -> None:
    # `healthy` and `agrees` have no values to compare, so other tests cover them.
    assert CASES.keys() | {"healthy", "agrees"} == CONDITIONS.keys()


@pytest.mark.parametrize("kind", CASES)
def test_a_condition_holds_or_not_and_says_what_is_seen(kind: str) -> None:
    right, wrong, seen = CASES[kind]
    (held, saw), (held_not, _) = look([Condition(kind, right), Condition(kind, wrong)])
    assert (held, held_not) == (True, False)
    if kind == "journal":
        assert int(saw.split()[0]) == 1
    else:
        assert saw == seen


def test_a_cluster_is_healthy_until_a_broker_dies_and_again_when_it_is_back() -> None:
    runner, _ = four_brokers()
    healthy = StepCheck(Moment.EXPECT, Condition("healthy", True), is_required=False)
    seen = []
    kill, start = actions.Kill(2), actions.Start(2)
    for done in ((), (kill,), (steps.Wait(7_000),), (start, steps.Wait(2_000))):
        result = runner.run_step(Step("s", done, (healthy,)))
        seen.append([(check.is_met, check.seen) for check in result.checks])
    dead = ["brokers [0, 1, 3] are registered", "u-0: leader -1, ISR [2], replicas [2]"]
    killed = ["brokers [2] are not running"]
    assert seen == [[(True, [])], [(False, killed)], [(False, dead)], [(True, [])]]


def test_a_controller_moved_only_if_it_did_since_the_step_began() -> None:
    runner, _ = four_brokers()
    moved = StepCheck(Moment.EXPECT, Condition("controller", "moved"), is_required=False)
    move, second = actions.MoveController(), steps.Wait(1_000)
    not_moved, did, gone = (
        runner.run_step(Step("s", done, (Quiesce(), moved))).checks[0]
        for done in ((), (move,), (move, second, actions.Kill(0), steps.Wait(7_000)))
    )
    assert (not_moved.is_met, not_moved.seen) == (False, "not moved")
    assert (did.is_met, did.seen) == (True, "moved")
    assert (gone.is_met, gone.seen) == (False, "not moved"), "it has died since"


@pytest.mark.parametrize(("data", "epoch"), [(b"+7", 7), (b"007", 7), (b"seven", 0)])
def test_the_controller_epoch_is_read_as_the_controller_reads_it(data: bytes, epoch: int) -> None:
    runner, driver = four_brokers()
    driver.store.write([[SetData("/controller_epoch", data)]])
    assert evaluate_condition(Condition("controller_epoch", epoch), runner.view) == (True, epoch)


def test_a_check_that_is_required_and_fails_is_the_last() -> None:
    runner, driver = four_brokers()
    impossible = Condition("exists", ["/nowhere"])
    optional = StepCheck(Moment.UNTIL, impossible, timeout_ms=100, is_required=False)
    required = StepCheck(Moment.EXPECT, impossible)
    began_ms = driver.elapsed_ms
    result = runner.run_step(Step("s", (), (optional, required, required)))
    assert [check.is_met for check in result.checks] == [False, False]
    assert result.ended_ms == pytest.approx(began_ms + 100)


def test_replicas_that_are_only_added_or_only_removed_are_reassigned_too() -> None:
    driver = SimulatedDriver(SimulatedWorld(ClusterSpec(broker_ids=(0, 1))))
    moving = {"adding_replicas": {"10": [1]}, "removing_replicas": {"2": [0]}}
    node = {"partitions": {str(n): [0, 1] for n in range(11)}, **moving}
    znodes = {"/brokers": b"", "/brokers/topics": b"", T: json.dumps(node).encode()}
    driver.store.write([[Create(path, data)] for path, data in znodes.items()])
    condition = Condition("reassigning", ["t-10", "t-2"])
    assert evaluate_condition(condition, ClusterView(driver)) == (True, ["t-2", "t-10"])
