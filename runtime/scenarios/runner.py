"""Runs the steps of a scenario on a cluster, in either world, and says what came of each.

The one runner of recorded scenarios and of drills; both are values of runtime/scenarios/steps.py by
then. It judges single conditions; what a failed one means is its caller's business.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from cluster.api_errors import Errors
from cluster.errors import KlammError
from cluster.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ApiError,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from cluster.types import TopicPartition
from runtime.scenarios import steps
from runtime.scenarios.conditions import ClusterView, look_at
from runtime.scenarios.driver import ScenarioDriver, ToolResult
from runtime.scenarios.steps import STEP_TIMEOUT_MS, Action, BrokerRef, Check, Condition, Step
from runtime.transport import NO_FAULTS, NetworkFaults
from zk.store import ANY_VERSION, Create, Delete, ResultCode, SetData, WriteOp


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
    """One run of one scenario."""

    def __init__(self, driver: ScenarioDriver) -> None:
        self._driver = driver
        self._view = ClusterView(driver)
        self._produced: dict[TopicPartition, bool] = {}
        self._dead: set[int] = set()
        self._paused: set[int] = set()

    def run_step(self, step: Step) -> StepResult:
        """Do one step. Raises KlammError if it cannot be done."""
        driver, view = self._driver, self._view
        began_ms = driver.elapsed_ms
        view.begin_step(step)
        for action in step.actions:
            view.tool = self._act(action) or view.tool
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
            self._wait_for(check.condition, check.timeout_ms)
        is_met, seen = look_at(check.condition, self._view)
        return CheckResult(check, is_met, seen, self._driver.elapsed_ms)

    def _wait_for(self, condition: Condition, timeout_ms: float = STEP_TIMEOUT_MS) -> bool:
        return self._driver.run_until(lambda: look_at(condition, self._view)[0], timeout_ms)

    # -- actions

    def _act(self, action: Action) -> ToolResult | None:
        match action:
            case steps.RunTool():
                return self._run_tool(action)
            case steps.Reassign():
                return self._reassign(action)
            case steps.ElectLeaders():
                return self._elect(action)
            case steps.BringUp(broker_ids):
                self._bring_up(broker_ids)
            case steps.Wait(duration_ms):
                self._driver.run_for(duration_ms)
            case steps.Produce() | steps.ProduceConstantly() | steps.Preload():
                self._write_records(action)
            case steps.MoveController():
                self._driver.move_controller()
            case steps.ActOnZooKeeper(action=what, server=server):
                self._driver.act_on_zookeeper(what, server)
            case (
                steps.CreateZnode()
                | steps.SetZnode()
                | steps.DeleteZnode()
                | steps.SetTopicPartitions()
            ):
                self._act_on_znode(action)
            case steps.Isolate() | steps.DegradeNetwork() | steps.HealNetwork():
                self._act_on_network(action)
            case (
                steps.FailDisk()
                | steps.SlowDisk()
                | steps.FailJournal()
                | steps.HealDisks()
                | steps.KillAll()
                | steps.UpAgain()
            ):
                self._act_on_machine(action)
            case _:
                self._act_on_brokers(action)
        return None

    def _up_again(self) -> None:
        """Restart as ``klamm up`` does: a controller that is elected before all brokers have
        registered considers the others dead. Old sessions must have expired first."""
        if not self._wait_for(Condition("brokers", [])):
            raise KlammError("brokers of the former process are still registered")
        broker_ids = sorted(self._driver.begin_start_all())
        if not self._wait_for(Condition("brokers", broker_ids)):
            raise KlammError("not all brokers registered again")
        self._driver.begin_candidacies()
        self._dead.clear()

    def _act_on_machine(self, action: steps.DiskAction | steps.ProcessAction) -> None:
        disks = self._driver.disks
        match action:
            case steps.FailDisk(broker, fault, log_dir):
                for broker_id in self._broker_ids(broker):
                    disks.fail(broker_id, log_dir, fault)
            case steps.SlowDisk(broker, bytes_per_s, log_dir):
                for broker_id in self._broker_ids(broker):
                    disks.slow(broker_id, log_dir, bytes_per_s)
            case steps.FailJournal(fault):
                disks.fail_journal(fault)
            case steps.HealDisks():
                disks.heal()
            case steps.KillAll():
                self._dead.update(self._driver.kill_all())
                self._paused.clear()
            case steps.UpAgain():
                self._up_again()

    def _act_on_network(self, action: steps.NetworkAction) -> None:
        driver = self._driver
        match action:
            case steps.Isolate(brokers):
                driver.isolate(sorted({id_ for ref in brokers for id_ in self._broker_ids(ref)}))
            case steps.DegradeNetwork(loss, repetition, reordering):
                driver.degrade_network(
                    NetworkFaults(loss=loss, repetition=repetition, reordering=reordering)
                )
            case steps.HealNetwork():
                driver.isolate(())
                driver.degrade_network(NO_FAULTS)

    def _write_records(self, action: steps.RecordAction) -> None:
        match action:
            case steps.Produce(records):
                for tp, count in records.items():
                    self._check_may_produce(tp, constantly=False)
                    self._driver.produce(tp, count)
            case steps.ProduceConstantly(records_per_s):
                for tp in records_per_s:
                    self._check_may_produce(tp, constantly=True)
                self._driver.produce_constantly(records_per_s)
            case steps.Preload(partition, size_bytes):
                if partition in self._produced:
                    raise KlammError(f"{partition} was produced to: what is preloaded comes first")
                self._driver.preload(partition, size_bytes)

    def _check_may_produce(self, tp: TopicPartition, *, constantly: bool) -> None:
        """Raise KlammError if a partition is not there, or is produced to at a constant rate."""
        node = self._view.read_json(f"/brokers/topics/{tp.topic}")
        if node is None or str(tp.partition) not in node["partitions"]:
            raise KlammError(f"{tp} is not there, so nothing can be produced to it")
        before = self._produced.get(tp)
        if before is not None and (constantly or before):
            raise KlammError(f"{tp} is produced to already: at a constant rate by one step alone")
        self._produced[tp] = constantly

    def _act_on_znode(self, action: steps.ZnodeAction) -> None:
        match action:
            case steps.CreateZnode(path, data, is_sequential):
                self._write(Create(path, data, sequential=is_sequential))
            case steps.SetZnode(path, data):
                self._write(SetData(path, data))
            case steps.DeleteZnode(path):
                self._write(Delete(path, ANY_VERSION))
            case steps.SetTopicPartitions(topic, partitions):
                self._set_topic_partitions(topic, partitions)

    def _act_on_brokers(self, action: steps.BrokerAction) -> None:
        for broker_id in self._broker_ids(action.broker):
            self._act_on_broker(action, broker_id)

    def _act_on_broker(self, action: steps.BrokerAction, broker_id: int) -> None:
        driver = self._driver
        match action:
            case steps.Start():
                driver.start(broker_id)
                self._dead.discard(broker_id)
            case steps.Kill():
                driver.kill(broker_id)
                self._is_gone(broker_id)
            case steps.PowerOff():
                driver.power_off(broker_id)
                self._is_gone(broker_id)
            case steps.Stop():
                driver.stop(broker_id)
                self._is_gone(broker_id)
            case steps.Pause():
                driver.pause(broker_id)
                self._paused.add(broker_id)
            case steps.Resume():
                driver.resume(broker_id)
                self._paused.discard(broker_id)
            case steps.BounceRegistration():
                driver.bounce_registration(broker_id)
            case steps.FailLogDir():
                driver.fail_log_dir(broker_id, action.path)

    def _is_gone(self, broker_id: int) -> None:
        self._dead.add(broker_id)
        self._paused.discard(broker_id)

    def _broker_ids(self, broker: BrokerRef) -> list[int]:
        """The brokers that are meant. Raises KlammError if there is none."""
        if isinstance(broker, int):
            return [broker]
        if isinstance(broker, TopicPartition):
            leader: int | None = self._view.state(str(broker)).get("leader")
            if leader is None or leader < 0:
                raise KlammError(f"{broker} has no leader to act on")
            return [leader]
        if broker in (steps.DEAD, steps.PAUSED):
            found = sorted(self._dead if broker == steps.DEAD else self._paused)
            if not found:
                raise KlammError(f"no broker is {broker}")
            return found
        controller_id = self._view.controller_id()
        if controller_id is None:
            raise KlammError("there is no controller to act on")
        return [controller_id]

    def _bring_up(self, broker_ids: tuple[int, ...]) -> None:
        for count, broker_id in enumerate(broker_ids, 1):
            self._driver.start(broker_id)
            if not self._wait_for(Condition("brokers", broker_ids[:count])):
                raise KlammError(f"broker {broker_id} did not register")
            self._driver.settle()

    def _write(self, op: WriteOp) -> None:
        code = self._driver.store.write([[op]])[0].code
        if code is not ResultCode.OK:
            raise KlammError(f"{op.path} cannot be written: {code.name}")

    def _set_topic_partitions(self, topic: str, partitions: Any) -> None:
        path = f"/brokers/topics/{topic}"
        node = self._view.read_json(path)
        if node is None:
            raise KlammError(f"there is no {path} to put partitions into")
        node["partitions"].update(partitions)
        self._write(SetData(path, json.dumps(node).encode()))

    def _run_tool(self, action: steps.RunTool) -> ToolResult:
        with tempfile.TemporaryDirectory(prefix="klamm-scenario-") as folder:
            paths = {}
            for name, content in action.files.items():
                path = paths[f"{{file:{name}}}"] = f"{folder}/{name}"
                Path(path).write_text(content)
            return self._driver.run_tool(action.tool, [paths.get(a, a) for a in action.args])

    def _reassign(self, action: steps.Reassign) -> ToolResult:
        response = self._driver.ask(AlterPartitionReassignmentsRequest(action.targets))
        assert isinstance(response, AlterPartitionReassignmentsResponse)
        return _answer(response.error, response.partitions)

    def _elect(self, action: steps.ElectLeaders) -> ToolResult:
        request = ElectLeadersRequest(action.election_type, action.partitions, int(STEP_TIMEOUT_MS))
        response = self._driver.ask(request)
        assert isinstance(response, ElectLeadersResponse)
        return _answer(ApiError(response.error), response.partitions)


def _answer(error: ApiError, partitions: Any) -> ToolResult:
    """A controller's answer as if a tool had printed it: a line for each refusal, and 1 if any."""
    if error.error is not Errors.NONE:
        refusals = [_worded(error)]
    else:
        refusals = [
            f"{tp}: {_worded(refusal)}"
            for tp, refusal in partitions.items()
            if refusal.error is not Errors.NONE
        ]
    return ToolResult("", "".join(f"{line}\n" for line in refusals), 1 if refusals else 0)


def _worded(error: ApiError) -> str:
    return error.error.name + (f": {error.message}" if error.message else "")
