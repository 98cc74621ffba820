"""Recorded scenarios of Kafka 2.8.2 brokers: converts their JSON to steps, and runs them.

For each step, the JSON contains the actions on the Kafka brokers and what these brokers did.
``recorded_steps`` returns the actions as steps that klamm can run, ``Recorder`` records what klamm
does in the same format, and lab/recordings/diff.py compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from klamm.cluster.errors import UsageError
from klamm.cluster.integers import INT32_MAX, Count
from klamm.cluster.quirks import Quirks
from klamm.cluster.requests import ControlRequest
from klamm.cluster.types import TopicPartition
from klamm.lab.actions import actions, steps
from klamm.lab.actions.action import Action, BrokerAction
from klamm.lab.actions.table import ACTIONS
from klamm.lab.conditions.condition import Condition, Moment, StepCheck
from klamm.lab.conditions.conditions import CONDITIONS
from klamm.lab.conditions.view import ClusterView, state_path
from klamm.lab.drill import Quiesce, Step
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.lab.recordings.diff import compare_scenario
from klamm.lab.recordings.rows import Json, StepRecord, requests_of, transition_of
from klamm.lab.run.runner import StepResult
from klamm.tools.command_result import CommandResult
from klamm.world.cluster_spec import ClusterSpec, rack_map
from klamm.zk.znodes import BrokerIdZNode

SESSION_TIMEOUT_MS: Final = 2_000
LOG_DIRS: Final = ("d0", "d1")
WATCHED_ROOTS: Final = (
    "/brokers/ids",
    "/brokers/topics",
    "/controller",
    "/controller_epoch",
    "/admin",
    "/config/topics",
    "/isr_change_notification",
    "/log_dir_event_notification",
)
_TOOLS: Final = {
    "TopicCommand": "topics",
    "ReassignPartitionsCommand": "reassign-partitions",
    "PreferredReplicaLeaderElectionCommand": "preferred-replica-election",
    "LeaderElectionCommand": "leader-election",
    "ConfigCommand": "configs",
    "LogDirsCommand": "log-dirs",
}


class _Until(msgspec.Struct):
    """Types of the conditions that a recorded step may wait for."""

    brokers: list[int] = []
    exists: str | list[str] = []
    absent: str | list[str] = []
    not_reassigning: str | list[str] = []
    leader: dict[str, int] = {}
    leader_epoch: dict[str, int] = {}
    isr: dict[str, list[int]] = {}
    replicas: dict[str, list[int]] = {}


class _StepArguments(msgspec.Struct):
    """Types of a step's arguments. Which of them a step must have depends on its ``op``."""

    op: str
    name: str = ""
    broker: Count | Literal["controller"] = 0
    args: list[str] = []
    files: Json = {}
    path: str = ""
    sequential: bool = False
    topic: str = ""
    partitions: dict[str, list[int]] = {}
    dir: Literal[0, 1] = 0
    until: list[_Until] = []


class _PreviousStep(msgspec.Struct):
    step: _StepArguments


class _RecordedStep(msgspec.Struct):
    """The fields that every recorded step must have."""

    step: _StepArguments
    tree: dict[str, Json]
    transitions: list[list[Any]]
    requests: list[Json]
    zk_writes: list[list[Any]]
    with_previous_steps: list[_PreviousStep] = []
    until_met: list[bool] = []
    tool: CommandResult | None = None


class _Recorded(msgspec.Struct):
    """The fields that every recorded scenario must have."""

    brokers: Annotated[int, Meta(ge=1, le=INT32_MAX)]
    racks: bool
    props: Json
    ignore: list[str]
    steps: list[_RecordedStep]


def load_scenario(path: Path) -> Json:
    """Load a recorded scenario. Raises UsageError if the file does not contain one."""
    try:
        data = path.read_bytes()
        typed = msgspec.json.decode(data, type=_Recorded)
        _check_brokers(typed)
        scenario: Json = msgspec.json.decode(data)
        recorded_steps(scenario)
        # A comparison of the recording with itself reads everything that a later one reads.
        compare_scenario(scenario, msgspec.convert(scenario["steps"], list[StepRecord]))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise UsageError(
            f"{path} is not a recorded scenario: {problem}",
            hint="a drill is a .yaml file",
        ) from error
    return scenario


def _check_brokers(scenario: _Recorded) -> None:
    for recorded in scenario.steps:
        for step in (recorded.step, *(one.step for one in recorded.with_previous_steps)):
            if isinstance(step.broker, int) and step.broker >= scenario.brokers:
                raise ValueError(f"the cluster has no broker {step.broker}")


def recorded_spec(scenario: Json, quirks: Quirks, seed: int = 0) -> ClusterSpec:
    """Return the specification of the cluster on which a scenario was recorded."""
    broker_ids = tuple(range(scenario["brokers"]))
    racks = [f"rack{broker_id}" for broker_id in broker_ids] if scenario["racks"] else []
    return ClusterSpec(
        broker_ids=broker_ids,
        racks=rack_map(broker_ids, racks),
        session_timeout_ms=SESSION_TIMEOUT_MS,
        quirks=quirks,
        config={"auto.leader.rebalance.enable": "false", "log.dirs": ",".join(LOG_DIRS)}
        | {name: str(value) for name, value in scenario["props"].items()},
        seed=seed,
    )


# -- from JSON to steps


def recorded_steps(scenario: Json) -> list[Step]:
    """Compile the steps of a recorded scenario. Raises UsageError for an unknown step."""
    recorded = scenario["steps"]
    before = ({"tree": {}}, *recorded)
    return [
        _step(one, scenario, _brokers_of(previous["tree"]))
        for one, previous in zip(recorded, before, strict=False)
    ]


def _step(recorded: Json, scenario: Json, registered_before: Iterable[int]) -> Step:
    step = recorded["step"]
    parts = [previous["step"] for previous in recorded.get("with_previous_steps", ())] + [step]
    met = recorded.get("until_met", ())
    checks: list[StepCheck | Quiesce] = [
        _check(_condition(wanted), came_about and not _was_passed(wanted, recorded["tree"]))
        for wanted, came_about in zip(step.get("until", ()), met, strict=True)
    ]
    # When sessions expire depends on timing. A step ends when all brokers that the recording lost
    # are gone here, too.
    registered = Condition("brokers", _brokers_of(recorded["tree"]))
    return Step(
        name=step.get("name", step["op"]),
        actions=tuple(
            action for part in parts for action in _actions(part, scenario, registered_before)
        ),
        checks=(*checks, _check(registered, True), Quiesce()),
    )


def _check(condition: Condition, is_waited_for: bool) -> StepCheck:
    moment = Moment.UNTIL if is_waited_for else Moment.EXPECT
    return StepCheck(moment, condition, is_required=False)


def _condition(wanted: Json) -> Condition:
    ((kind, value),) = wanted.items()
    if kind not in CONDITIONS:
        raise UsageError(f"unknown scenario condition {kind}")
    return Condition(kind, value)


def _actions(step: Json, scenario: Json, registered: Iterable[int]) -> list[Action]:
    if step["op"] == "kill_all":
        return [actions.Kill(broker_id) for broker_id in registered]
    return [_action(step, scenario)]


def _action(step: Json, scenario: Json) -> Action:
    match step["op"]:
        case "up":
            return steps.BringUp(_registrations(scenario))
        case "tool":
            files = {name: json.dumps(value) for name, value in step.get("files", {}).items()}
            return steps.RunTool(_tool(step["cls"]), tuple(step["args"]), files)
        case "create":
            is_sequential = step.get("sequential", False)
            return steps.CreateZnode(_znode(step), is_sequential)
        case "set":
            return steps.SetZnode(_znode(step))
        case "delete":
            return steps.DeleteZnode([step["path"]])
        case "move_controller":
            return actions.MoveController()
        case "set_topic_partitions":
            partitions = step["partitions"].items()
            return steps.SetTopicPartitions(
                {TopicPartition(step["topic"], int(n)): ids for n, ids in partitions}
            )
        case "fail_log_dir":
            return actions.FailLogDir(step["broker"], LOG_DIRS[step["dir"]])
        case op:
            kind = ACTIONS.get(op)
            if kind is None or not issubclass(kind.action, BrokerAction):
                raise UsageError(f"unknown scenario step {op}")
            return kind.action(step["broker"])


def _znode(step: Json) -> dict[str, bytes | None]:
    return {step["path"]: steps.znode_data(step["data"])}


def _tool(kafka_class: str) -> str:
    name = _TOOLS.get(kafka_class)
    if name is None:
        raise UsageError(f"unknown tool {kafka_class}")
    return name


def _registrations(scenario: Json) -> tuple[int, ...]:
    """Return the broker ids in the order in which the recorded brokers registered."""
    writes = scenario["steps"][0]["zk_writes"]
    return tuple(_brokers_of(path for op, path, *_ in writes if op == "create-ephemeral"))


def _brokers_of(paths: Iterable[str]) -> list[int]:
    return [found for path in paths if (found := BrokerIdZNode.id_of(path)) is not None]


def _was_passed(condition: Json, tree_after: Json) -> bool:
    """Return True if the ISR that the step waited for had changed again when the step ended."""
    return any(
        sorted(tree_after[state_path(tp)]["data"]["isr"]) != sorted(isr)
        for tp, isr in condition.get("isr", {}).items()
    )


# -- observations


class ScenarioRecorder:
    """Records what a cluster does after the recorder is created."""

    def __init__(self, driver: ScenarioDriver) -> None:
        self._driver = driver
        self._view = ClusterView(driver)
        self._queued: list[tuple[int, ControlRequest]] = []
        self._rows_seen = 0
        self._topic_ids: dict[str, str] = {}
        driver.cluster.request_taps.append(lambda *queued: self._queued.append(queued))

    def record(self, result: StepResult) -> StepRecord:
        """Return what the cluster did since the previous call."""
        rows = self._driver.rows[self._rows_seen :]
        self._rows_seen += len(rows)
        queued, self._queued = self._queued, []
        *until, _registered = (bool(check.is_met) for check in result.checks)
        return StepRecord(
            tree=self._tree(),
            transitions=[t for row in rows if (t := transition_of(row)) is not None],
            requests=[row for to, request in queued for row in requests_of(to, request)],
            until_met=until,
            tool=result.tool,
        )

    def _tree(self) -> Json:
        tree: Json = {}
        for root in WATCHED_ROOTS:
            self._add_to_tree(tree, root)
        return tree

    def _add_to_tree(self, tree: Json, path: str) -> None:
        result = self._view.read(path)
        if result.stat is None:
            return
        node: Json = {"data": self._normalised(path, result.data)}
        if result.stat.ephemeral_owner:
            node["ephemeral"] = True
        if _has_recorded_version(path):
            node["version"] = result.stat.version
        tree[path] = node
        for child in self._view.children(path):
            self._add_to_tree(tree, f"{path}/{child}")

    def _normalised(self, path: str, data: bytes | None) -> Any:
        if data is None:
            return None
        if path.startswith("/brokers/ids/"):
            return "<registration>"
        try:
            value = json.loads(data)
        except ValueError:
            return data.decode(errors="replace")
        if isinstance(value, dict):
            value.pop("timestamp", None)
            if path.startswith("/controller"):
                value = {"brokerid": value["brokerid"]}
            if "topic_id" in value:
                topic_id = value["topic_id"]
                value["topic_id"] = self._topic_ids.setdefault(
                    topic_id, f"<id-{len(self._topic_ids) + 1}>"
                )
        return value


def _has_recorded_version(path: str) -> bool:
    return (
        path == "/controller_epoch"
        or path.endswith("/state")
        or (path.startswith(("/brokers/topics/", "/config/topics/")) and path.count("/") == 3)
    )
