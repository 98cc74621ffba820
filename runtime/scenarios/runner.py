"""Runs the steps of a scenario on a real or simulated cluster, and returns their results.

Recorded scenarios and drills share this runner; both are compiled to the classes in
runtime/scenarios/steps.py. The runner reports whether each condition held. The caller decides what
a failed condition means.
"""

from __future__ import annotations

import random
from typing import Any, Final

import msgspec

from klamm.admin.command_result import CommandResult
from klamm.cluster.errors import KlammError
from klamm.cluster.types import NO_LEADER, TopicPartition
from klamm.runtime.action_target import DEAD, ENDED, PAUSED, BrokerRef, InRack, IsrFollower
from klamm.runtime.cluster import Cluster
from klamm.runtime.scenarios import steps
from klamm.runtime.scenarios.conditions import ClusterView, evaluate_condition
from klamm.runtime.scenarios.driver import ScenarioDriver
from klamm.runtime.scenarios.steps import STEP_TIMEOUT_MS, Condition, Step, StepCheck
from klamm.runtime.scenarios.tools import ScenarioTools
from klamm.zk.store import ResultCode, Store, WriteOp

NOT_OBSERVABLE: Final = "not observable"


class CheckResult(msgspec.Struct, frozen=True):
    """Result of a check: whether its condition held, and the actual value at time ``at_ms``.

    ``is_met`` is None if the cluster does not show the condition."""

    check: StepCheck
    is_met: bool | None
    seen: Any
    at_ms: float


class StepResult(msgspec.Struct, frozen=True):
    """Result of a step.

    ``tool``: the output of the step's tool, or the controller's response as text. ``refusal``: why
    an action was not possible, or None if the step was run."""

    step: Step
    began_ms: float
    ended_ms: float
    checks: tuple[CheckResult, ...]
    tool: CommandResult | None = None
    refusal: str | None = None

    @property
    def has_held(self) -> bool:
        """True if no condition was seen not to hold."""
        return all(check.is_met is not False for check in self.checks)


class ScenarioRunner:
    """A single run of a scenario.

    ``states``: the state (such as ``killed``) of each broker on which a step has acted. Runners of
    the branches of one scenario share it."""

    def __init__(self, driver: ScenarioDriver, states: dict[int, str] | None = None) -> None:
        self.driver = driver
        self.view = ClusterView(driver)
        self.tools = ScenarioTools(driver.cluster.spec)
        self.states = {} if states is None else states

    def run_step(self, step: Step) -> StepResult:
        """Run one step. Raises KlammError if one of its actions is not possible."""
        driver, view = self.driver, self.view
        began_ms = driver.elapsed_ms
        for tap in driver.turns.step_taps:
            tap(step)
        view.begin_step(step)
        for action in step.actions:
            action.check_world(is_simulated=driver.is_simulated)
            view.tool = action.act(self) or view.tool
        results: list[CheckResult] = []
        for check in step.checks:
            if isinstance(check, steps.Quiesce):
                driver.quiesce()
                continue
            result = self._check(check)
            results.append(result)
            if check.is_required and result.is_met is False:
                break
        return StepResult(step, began_ms, driver.elapsed_ms, tuple(results), view.tool)

    def _check(self, check: StepCheck) -> CheckResult:
        if check.condition.kind in self.driver.unobservable:
            if check.moment.is_awaited:
                self.driver.quiesce()
            return CheckResult(check, None, NOT_OBSERVABLE, self.driver.elapsed_ms)
        if check.moment.is_awaited:
            self.wait_for(check.condition, check.timeout_ms)
        is_met, seen = evaluate_condition(check.condition, self.view)
        return CheckResult(check, is_met, seen, self.driver.elapsed_ms)

    def wait_for(self, condition: Condition, timeout_ms: float = STEP_TIMEOUT_MS) -> bool:
        """Wait for a condition. Return False if it does not hold within ``timeout_ms``."""
        return self.driver.run_until(
            lambda: evaluate_condition(condition, self.view)[0], timeout_ms
        )

    # -- used by actions

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return self.driver.cluster

    @property
    def store(self) -> Store:
        """The scenario's ZooKeeper session."""
        return self.driver.store

    def write(self, op: WriteOp) -> None:
        """Write a znode. Raises KlammError if ZooKeeper refuses the write."""
        code = self.store.write([[op]])[0].code
        if code is not ResultCode.OK:
            raise KlammError(f"cannot write {op.path}: {code.name}")

    def check_may_produce(self, tp: TopicPartition) -> None:
        """Raise KlammError if a partition does not exist."""
        if self.view.replicas(str(tp)) is None:
            raise KlammError(f"cannot produce to {tp}: the partition does not exist")

    def note_state(self, broker_id: int, state: str) -> None:
        """Record the state of a broker, e.g. ``killed``, after an action."""
        self.states[broker_id] = state

    def broker_ids(self, broker: BrokerRef) -> list[int]:
        """Return the ids of the brokers that a reference, e.g. ``dead``, stands for.

        Raises KlammError if there are none."""
        if isinstance(broker, int):
            return [broker]
        if isinstance(broker, TopicPartition):
            leader = getattr(self.view.state(str(broker)), "leader", NO_LEADER)
            if leader == NO_LEADER:
                is_missing = self.view.replicas(str(broker)) is None
                problem = "the partition does not exist" if is_missing else "it has no leader"
                raise KlammError(f"cannot act on the leader of {broker}: {problem}")
            return [leader]
        if isinstance(broker, InRack):
            racks = self.cluster.spec.racks
            return sorted(id_ for id_, rack in racks.items() if rack == broker.rack)
        if isinstance(broker, IsrFollower):
            return [self._any_isr_follower(broker.partition)]
        if broker in (DEAD, PAUSED):
            wanted = (PAUSED,) if broker == PAUSED else ENDED
            found = sorted(id_ for id_, state in self.states.items() if state in wanted)
            if not found:
                raise KlammError(f"no broker is {broker}")
            return found
        controller_id = self.view.controller_id()
        if controller_id is None:
            raise KlammError("cannot act on the controller: there is no active controller")
        return [controller_id]

    def _any_isr_follower(self, partition: str) -> int:
        """Return a running follower in the ISR. The seed and the time determine which."""
        state, followers = self.view.state(partition), list[int]()
        if state is not None and state.leader != NO_LEADER:
            followers = sorted({*state.isr}.intersection(self.cluster.nodes) - {state.leader})
        if not followers:
            raise KlammError(f"cannot act on an ISR follower of {partition}: it has none")
        rng = random.Random(f"{self.cluster.spec.seed} {self.driver.elapsed_ms}")
        return rng.choice(followers)
