"""Runs the steps of a scenario on a cluster, in either world, and returns their results.

Recorded scenarios and drills share this runner; both are compiled to the values of
runtime/scenarios/steps.py. It judges single conditions; its caller interprets a failed one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from klamm.cluster.errors import KlammError
from klamm.cluster.types import TopicPartition
from klamm.runtime.actions import DEAD, KILLED, PAUSED, STOPPED, BrokerRef
from klamm.runtime.cluster import Cluster
from klamm.runtime.scenarios import steps
from klamm.runtime.scenarios.conditions import ClusterView, look_at
from klamm.runtime.scenarios.driver import ScenarioDriver
from klamm.runtime.scenarios.steps import STEP_TIMEOUT_MS, Check, Condition, Step, ToolResult
from klamm.runtime.scenarios.tools import ScenarioTools
from klamm.zk.store import ResultCode, Store, WriteOp


class CheckResult(msgspec.Struct, frozen=True):
    """Result of a check: whether its condition held, the last observed value, and its time."""

    check: Check
    is_met: bool
    seen: Any
    at_ms: float


class StepResult(msgspec.Struct, frozen=True):
    """Result of a step. ``tool``: output of its tool, or of the controller's response."""

    step: Step
    began_ms: float
    ended_ms: float
    checks: tuple[CheckResult, ...]
    tool: ToolResult | None = None


class ScenarioRunner:
    """One run of one scenario.

    ``states``: the states in which steps left brokers. ``produced``: partitions with a producer;
    True: at a constant rate."""

    def __init__(self, driver: ScenarioDriver) -> None:
        self.driver = driver
        self.view = ClusterView(driver)
        self.tools = ScenarioTools(driver.cluster.spec)
        self.produced: dict[TopicPartition, bool] = {}
        self.states: dict[int, str] = {}

    def run_step(self, step: Step) -> StepResult:
        """Run one step. Raises KlammError if it is not possible."""
        driver, view = self.driver, self.view
        began_ms = driver.elapsed_ms
        view.begin_step(step)
        for action in step.actions:
            view.tool = action.act(self) or view.tool
        results: list[CheckResult] = []
        for check in step.checks:
            if isinstance(check, steps.Quiesce):
                driver.quiesce()
                continue
            result = self._check(check)
            results.append(result)
            if check.is_required and not result.is_met:
                break
        return StepResult(step, began_ms, driver.elapsed_ms, tuple(results), view.tool)

    def _check(self, check: Check) -> CheckResult:
        if check.moment is steps.Moment.UNTIL:
            self.wait_for(check.condition, check.timeout_ms)
        is_met, seen = look_at(check.condition, self.view)
        return CheckResult(check, is_met, seen, self.driver.elapsed_ms)

    def wait_for(self, condition: Condition, timeout_ms: float = STEP_TIMEOUT_MS) -> bool:
        """Wait for a condition; return False if it does not hold in time."""
        return self.driver.run_until(lambda: look_at(condition, self.view)[0], timeout_ms)

    # -- used by actions

    @property
    def cluster(self) -> Cluster:
        """The cluster; a new one after its process was killed in the real world."""
        return self.driver.cluster

    @property
    def store(self) -> Store:
        """The scenario's session."""
        return self.driver.store

    def write(self, op: WriteOp) -> None:
        """Write a znode. Raises KlammError if ZooKeeper refuses."""
        code = self.store.write([[op]])[0].code
        if code is not ResultCode.OK:
            raise KlammError(f"cannot write {op.path}: {code.name}")

    def check_may_produce(self, tp: TopicPartition, *, constantly: bool) -> None:
        """Raise KlammError if a partition does not exist, or another producer excludes this one."""
        node = self.view.read_json(f"/brokers/topics/{tp.topic}")
        if node is None or str(tp.partition) not in node["partitions"]:
            raise KlammError(f"cannot produce to {tp}: the partition does not exist")
        before = self.produced.get(tp)
        if before is not None and (constantly or before):
            raise KlammError(
                f"{tp} already has a producer; produce_constantly must be its only one"
            )
        self.produced[tp] = constantly

    def note_state(self, broker_id: int, state: str) -> None:
        """Record the state in which an action leaves a broker."""
        self.states[broker_id] = state

    def broker_ids(self, broker: BrokerRef) -> list[int]:
        """Resolve a reference to broker ids. Raises KlammError if it matches none."""
        if isinstance(broker, int):
            return [broker]
        if isinstance(broker, TopicPartition):
            leader: int | None = self.view.state(str(broker)).get("leader")
            if leader is None or leader < 0:
                raise KlammError(f"cannot act on the leader of {broker}: it has no leader")
            return [leader]
        if broker in (DEAD, PAUSED):
            wanted = (PAUSED,) if broker == PAUSED else (KILLED, STOPPED)
            found = sorted(id_ for id_, state in self.states.items() if state in wanted)
            if not found:
                raise KlammError(f"no broker is {broker}")
            return found
        controller_id = self.view.controller_id()
        if controller_id is None:
            raise KlammError("cannot act on the controller: there is no active controller")
        return [controller_id]
