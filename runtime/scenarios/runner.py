"""Runs the steps of a scenario on a cluster, in either world, and says what came of each.

The one runner of recorded scenarios and of drills; both are values of runtime/scenarios/steps.py by
then. It judges single conditions; what a failed one means is its caller's business.
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
    """Whether a check's condition held, what was seen last, and when that was."""

    check: Check
    is_met: bool
    seen: Any
    at_ms: float


class StepResult(msgspec.Struct, frozen=True):
    """What came of a step. ``tool``: what its tool, or the controller's answer, said."""

    step: Step
    began_ms: float
    ended_ms: float
    checks: tuple[CheckResult, ...]
    tool: ToolResult | None = None


class ScenarioRunner:
    """One run of one scenario. ``states``: how steps left the brokers that they acted on;
    ``produced``: partitions that are produced to, and whether at a constant rate."""

    def __init__(self, driver: ScenarioDriver) -> None:
        self.driver = driver
        self.view = ClusterView(driver)
        self.tools = ScenarioTools(driver.cluster.spec)
        self.produced: dict[TopicPartition, bool] = {}
        self.states: dict[int, str] = {}

    def run_step(self, step: Step) -> StepResult:
        """Do one step. Raises KlammError if it cannot be done."""
        driver, view = self.driver, self.view
        began_ms = driver.elapsed_ms
        view.begin_step(step)
        for action in step.actions:
            view.tool = action.act(self) or view.tool
        results: list[CheckResult] = []
        for check in step.checks:
            if isinstance(check, steps.Settle):
                driver.settle()
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
        """Wait for a condition; False if it does not hold in time."""
        return self.driver.run_until(lambda: look_at(condition, self.view)[0], timeout_ms)

    # -- what actions need

    @property
    def cluster(self) -> Cluster:
        """The cluster; another one after its process was killed in the real world."""
        return self.driver.cluster

    @property
    def store(self) -> Store:
        """The scenario's session."""
        return self.driver.store

    def write(self, op: WriteOp) -> None:
        """Write a znode. Raises KlammError if ZooKeeper refuses."""
        code = self.store.write([[op]])[0].code
        if code is not ResultCode.OK:
            raise KlammError(f"{op.path} cannot be written: {code.name}")

    def check_may_produce(self, tp: TopicPartition, *, constantly: bool) -> None:
        """Raise KlammError if a partition is not there, or is produced to at a constant rate."""
        node = self.view.read_json(f"/brokers/topics/{tp.topic}")
        if node is None or str(tp.partition) not in node["partitions"]:
            raise KlammError(f"{tp} is not there, so nothing can be produced to it")
        before = self.produced.get(tp)
        if before is not None and (constantly or before):
            raise KlammError(f"{tp} is produced to already: at a constant rate by one step alone")
        self.produced[tp] = constantly

    def note_state(self, broker_id: int, state: str) -> None:
        """Note in which state an action leaves a broker."""
        self.states[broker_id] = state

    def broker_ids(self, broker: BrokerRef) -> list[int]:
        """The brokers that are meant. Raises KlammError if there is none."""
        if isinstance(broker, int):
            return [broker]
        if isinstance(broker, TopicPartition):
            leader: int | None = self.view.state(str(broker)).get("leader")
            if leader is None or leader < 0:
                raise KlammError(f"{broker} has no leader to act on")
            return [leader]
        if broker in (DEAD, PAUSED):
            wanted = (PAUSED,) if broker == PAUSED else (KILLED, STOPPED)
            found = sorted(id_ for id_, state in self.states.items() if state in wanted)
            if not found:
                raise KlammError(f"no broker is {broker}")
            return found
        controller_id = self.view.controller_id()
        if controller_id is None:
            raise KlammError("there is no controller to act on")
        return [controller_id]
