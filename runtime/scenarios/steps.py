"""The steps of a scenario as values: actions, and conditions to wait for or to check.

Recorded scenarios (runtime/scenarios/recorded.py) and drills compile to these, and
runtime/scenarios/runner.py runs them. An action is one class with its arguments and its effect.
runtime/actions.py has the actions that are in the HTTP API, too.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import KlammError
from klamm.cluster.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ApiError,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from klamm.cluster.types import ElectionType, TopicPartition
from klamm.runtime.actions import KILLED, Action
from klamm.runtime.cluster import brokers_of
from klamm.runtime.preloading import preload_replicas
from klamm.runtime.transport import NO_FAULTS, NetworkFaults
from klamm.zk.store import ANY_VERSION, Create, Delete, SetData

if TYPE_CHECKING:
    from klamm.runtime.scenarios.runner import ScenarioRunner

STEP_TIMEOUT_MS: Final = 30_000.0


class ToolResult(msgspec.Struct, frozen=True):
    """Output and exit code of a Kafka tool."""

    stdout: str
    stderr: str
    rc: int


class BringUp(Action, frozen=True):
    """Start brokers one at a time, each when the previous one is registered and idle."""

    broker_ids: tuple[int, ...]

    def act(self, run: ScenarioRunner) -> None:
        for count, broker_id in enumerate(self.broker_ids, 1):
            run.cluster.start(broker_id)
            if not run.wait_for(Condition("brokers", self.broker_ids[:count])):
                raise KlammError(f"broker {broker_id} did not register")
            run.driver.quiesce()


class RunTool(Action, frozen=True):
    """Run a Kafka tool. In ``args``, ``{zk}`` and ``{bootstrap}`` stand for the cluster, and
    ``{file:NAME}`` for a file with the contents ``files[NAME]``."""

    tool: str
    args: tuple[str, ...]
    files: Mapping[str, str] = {}

    def act(self, run: ScenarioRunner) -> ToolResult:
        with tempfile.TemporaryDirectory(prefix="klamm-scenario-") as folder:
            paths = {}
            for name, content in self.files.items():
                path = paths[f"{{file:{name}}}"] = f"{folder}/{name}"
                Path(path).write_text(content)
            args = [paths.get(arg, arg) for arg in self.args]
            return run.tools(self.tool, args, run.driver)


class CreateZnode(Action, frozen=True):
    """Create a znode manually; a sequential one gets a ten-digit suffix."""

    path: str
    data: bytes | None
    is_sequential: bool = False

    def act(self, run: ScenarioRunner) -> None:
        run.write(Create(self.path, self.data, sequential=self.is_sequential))


class SetZnode(Action, frozen=True):
    """Overwrite a znode, regardless of its version."""

    path: str
    data: bytes | None

    def act(self, run: ScenarioRunner) -> None:
        run.write(SetData(self.path, self.data))


class DeleteZnode(Action, frozen=True):
    """Delete a znode, regardless of its version."""

    path: str

    def act(self, run: ScenarioRunner) -> None:
        run.write(Delete(self.path, ANY_VERSION))


class SetTopicPartitions(Action, frozen=True):
    """Edit partitions (number to replicas) in a topic's znode, as an operator does manually."""

    topic: str
    partitions: Mapping[str, list[int]]

    def act(self, run: ScenarioRunner) -> None:
        path = f"/brokers/topics/{self.topic}"
        node = run.view.read_json(path)
        if node is None:
            raise KlammError(f"cannot set partitions: znode {path} does not exist")
        node["partitions"].update(self.partitions)
        run.write(SetData(path, json.dumps(node).encode()))


class KillAll(Action, frozen=True):
    """Kill the process of the whole cluster."""

    def act(self, run: ScenarioRunner) -> None:
        for broker_id in run.driver.kill_all():
            run.note_state(broker_id, KILLED)


class UpAgain(Action, frozen=True):
    """Restart the whole cluster with the data that its process left.

    As ``klamm up`` does: a controller that is elected before all brokers have registered considers
    the others dead. Old sessions must have expired first.
    """

    def act(self, run: ScenarioRunner) -> None:
        if not run.wait_for(Condition("brokers", [])):
            raise KlammError("brokers of the former process are still registered")
        run.cluster.begin_start_all()
        broker_ids = sorted(run.cluster.spec.broker_ids)
        if not run.wait_for(Condition("brokers", broker_ids)):
            raise KlammError("not all brokers registered again")
        for broker_id in filter(run.cluster.spec.is_candidate, broker_ids):
            run.cluster.begin_candidacy(broker_id)
        run.states.clear()


class DegradeNetwork(Action, frozen=True):
    """Set the shares of messages with records that are lost, repeated, and reordered."""

    loss: float = 0.0
    repetition: float = 0.0
    reordering: float = 0.0

    def act(self, run: ScenarioRunner) -> None:
        run.driver.degrade_network(
            NetworkFaults(loss=self.loss, repetition=self.repetition, reordering=self.reordering)
        )


class HealNetwork(Action, frozen=True):
    """End all message faults and isolation."""

    def act(self, run: ScenarioRunner) -> None:
        run.cluster.transport.isolated = ()
        run.driver.degrade_network(NO_FAULTS)


class ActOnZooKeeper(Action, frozen=True):
    """``kill``, ``start``, ``pause`` or ``resume`` one of the scenario's ZooKeeper servers (an id,
    ``leader`` or ``follower``); ``lose_quorum`` or ``regain_quorum`` act on all of them."""

    action: str
    server: str = ""

    def act(self, run: ScenarioRunner) -> None:
        run.driver.act_on_zookeeper(self.action, self.server)


class Reassign(Action, frozen=True):
    """Ask the controller to reassign partitions; None instead of replicas cancels."""

    targets: Mapping[TopicPartition, tuple[int, ...] | None]

    def act(self, run: ScenarioRunner) -> ToolResult:
        response = run.driver.operator.ask(AlterPartitionReassignmentsRequest(self.targets))
        assert isinstance(response, AlterPartitionReassignmentsResponse)
        return _answer(response.error, response.partitions)


class ElectLeaders(Action, frozen=True):
    """Ask the controller to elect leaders of partitions, or None: of all that need it."""

    election_type: ElectionType
    partitions: tuple[TopicPartition, ...] | None

    def act(self, run: ScenarioRunner) -> ToolResult:
        request = ElectLeadersRequest(self.election_type, self.partitions, int(STEP_TIMEOUT_MS))
        response = run.driver.operator.ask(request)
        assert isinstance(response, ElectLeadersResponse)
        return _answer(ApiError(response.error), response.partitions)


class Produce(Action, frozen=True):
    """Give the scenario's producer records for partitions."""

    records: Mapping[TopicPartition, int]

    def act(self, run: ScenarioRunner) -> None:
        for tp, count in self.records.items():
            run.check_may_produce(tp, constantly=False)
            run.driver.clients.produce(tp, count)


class ProduceConstantly(Action, frozen=True):
    """Start a producer with constant rates, in records per second by partition."""

    records_per_s: Mapping[TopicPartition, float]

    def act(self, run: ScenarioRunner) -> None:
        for tp in self.records_per_s:
            run.check_may_produce(tp, constantly=True)
        run.driver.produce_constantly(self.records_per_s)


class Preload(Action, frozen=True):
    """Add this many bytes of records to all replicas of a partition, without producing them."""

    partition: TopicPartition
    size_bytes: int

    def act(self, run: ScenarioRunner) -> None:
        tp, cluster = self.partition, run.cluster
        if tp in run.produced:
            raise KlammError(f"cannot preload {tp}: it already has a producer; preload it first")
        run.driver.call_client(
            lambda _: preload_replicas(brokers_of(cluster), tp, self.size_bytes, cluster.clock)
        )


class Wait(Action, frozen=True):
    """Wait for a time."""

    duration_ms: float

    def act(self, run: ScenarioRunner) -> None:
        run.driver.run_for(self.duration_ms)


def _answer(error: ApiError, partitions: Mapping[TopicPartition, ApiError]) -> ToolResult:
    """Format a controller's response like a tool: a line for each error, exit code 1 if any."""
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


class Condition(msgspec.Struct, frozen=True):
    """A condition of runtime/scenarios/conditions.py, and its expected value."""

    kind: str
    wanted: Any

    def __str__(self) -> str:
        return f"{self.kind}: {plain_text(self.wanted)}"


class Moment(Enum):
    """When a condition is judged."""

    UNTIL = "until"
    """Waited for, up to the check's timeout."""
    EXPECT = "expect"
    """Checked once."""


class Check(msgspec.Struct, frozen=True):
    """A condition, and when it is judged. ``place``: its source as FILE:LINE:COLUMN.

    If an ``is_required`` check fails, the following checks of the step are skipped.
    """

    moment: Moment
    condition: Condition
    timeout_ms: float = STEP_TIMEOUT_MS
    place: str = ""
    is_required: bool = True


class Quiesce(msgspec.Struct, frozen=True):
    """Among a step's checks: wait until the cluster is idle before the next one."""


class Step(msgspec.Struct, frozen=True):
    """Actions, and the checks that follow, in this order."""

    name: str
    actions: tuple[Action, ...] = ()
    checks: tuple[Check | Quiesce, ...] = ()
    place: str = ""


def plain_text(value: Any) -> str:
    """Format a plain value in one line of YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {plain_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(plain_text, value)) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
