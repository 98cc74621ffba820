"""Runs a recorded scenario against a klamm cluster, in either world, and notes what happened.

A scenario is the JSON of tests/data/scenarios: step by step what was done to real Kafka 2.8.2
brokers and what they did. The runner repeats the steps through a ScenarioDriver and returns, for
each step, the same observations; runtime/scenario_diff.py compares the two.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from cluster.errors import KlammError, UsageError
from cluster.journal import JournalRow
from cluster.requests import (
    Message,
    Request,
    Response,
)
from runtime.scenario_rows import Json, requests_of, transition_of
from zk.store import Create, GetChildren, GetData, ReadResult, ResultCode, SetData, Store

STEP_TIMEOUT_MS = 30_000
WATCHED_ROOTS = (
    "/brokers/ids",
    "/brokers/topics",
    "/controller",
    "/controller_epoch",
    "/admin",
    "/config/topics",
    "/isr_change_notification",
    "/log_dir_event_notification",
)


class ToolResult(msgspec.Struct, frozen=True):
    """What a Kafka tool printed and returned."""

    stdout: str
    stderr: str
    rc: int


class StepRecord(msgspec.Struct, frozen=True):
    """What was seen in one step, in the shape of a recorded step."""

    tree: Json
    transitions: list[list[Any]]
    requests: list[Json]
    until_met: list[bool]
    tool: ToolResult | None = None


class ScenarioDriver(Protocol):
    """How a scenario acts on a cluster; one implementation for each world."""

    @property
    def store(self) -> Store:
        """A session of the scenario's own, to look at the tree with."""
        ...

    @property
    def rows(self) -> Sequence[JournalRow]:
        """The cluster's journal so far."""
        ...

    def add_tap(self, tap: Callable[[Message], None]) -> None:
        """Call ``tap`` with every message that is sent from now on."""
        ...

    def start(self, broker_id: int) -> None:
        """Start a broker."""
        ...

    def kill(self, broker_id: int) -> None:
        """Kill a broker: its session goes when it times out."""
        ...

    def stop(self, broker_id: int) -> None:
        """Begin a controlled shutdown of a broker."""
        ...

    def bounce_registration(self, broker_id: int) -> None:
        """Delete a broker's znode and create it again with the same data, in one go."""
        ...

    def move_controller(self) -> None:
        """Delete /controller."""
        ...

    def run_tool(self, name: str, args: Sequence[str]) -> ToolResult:
        """Run a Kafka tool; ``{zk}`` in ``args`` stands for the cluster's ZooKeeper."""
        ...

    def ask(self, request: Request) -> Response:
        """Send a request to the controller and let the cluster work until it is answered."""
        ...

    def run_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Let the cluster work until ``condition`` holds; False if time is up first."""
        ...

    def settle(self) -> None:
        """Let the cluster work until nothing is left to do."""
        ...


class ScenarioRunner:
    """One run of one scenario."""

    def __init__(self, scenario: Json, driver: ScenarioDriver) -> None:
        self._scenario = scenario
        self._driver = driver
        self._sent: list[Message] = []
        self._rows_seen = 0
        self._topic_ids: dict[str, str] = {}
        driver.add_tap(self._sent.append)

    def run(self, steps: int | None = None) -> list[StepRecord]:
        """Do the first ``steps`` steps (all by default); one record each.

        Raises UsageError for a step that the runner does not know.
        """
        return [self._run_step(recorded) for recorded in self._scenario["steps"][:steps]]

    def _run_step(self, recorded: Json) -> StepRecord:
        step = recorded["step"]
        for previous in recorded.get("with_previous_steps", ()):
            self._act(previous["step"])
        tool = self._act(step)
        met = recorded.get("until_met", ())
        until_met = [
            self._wait_for(condition)
            if came_about and not _was_passed(condition, recorded["tree"])
            else self._holds(condition)
            for condition, came_about in zip(step.get("until", ()), met, strict=True)
        ]
        # Sessions end in their own time: a step is over when those are gone that were gone then.
        self._wait_for({"brokers": _brokers_of(recorded["tree"])})
        self._driver.settle()
        rows = self._driver.rows[self._rows_seen :]
        self._rows_seen += len(rows)
        sent, self._sent[:] = self._sent.copy(), []
        return StepRecord(
            tree=self._tree(),
            transitions=[t for row in rows if (t := transition_of(row)) is not None],
            requests=[r for message in sent for r in requests_of(message)],
            until_met=until_met,
            tool=tool,
        )

    def _act(self, step: Json) -> ToolResult | None:
        driver = self._driver
        match step["op"]:
            case "up":
                self._bring_up(self._registrations())
            case "tool":
                return self._run_tool(step)
            case "create":
                data = json.dumps(step["data"]).encode()
                driver.store.write([[Create(step["path"], data)]])
            case "kill":
                driver.kill(self._broker_id(step["broker"]))
            case "stop":
                driver.stop(self._broker_id(step["broker"]))
            case "start":
                driver.start(self._broker_id(step["broker"]))
            case "bounce_registration":
                driver.bounce_registration(self._broker_id(step["broker"]))
            case "move_controller":
                driver.move_controller()
            case "set_topic_partitions":
                self._set_topic_partitions(step["topic"], step["partitions"])
            case unknown:
                raise UsageError(f"scenario step {unknown} is not known")
        return None

    def _set_topic_partitions(self, topic: str, partitions: Json) -> None:
        """Put partitions into a topic's znode, as an operator does by hand."""
        path = f"/brokers/topics/{topic}"
        node = self._read_json(path)
        if node is None:
            raise KlammError(f"there is no {path} to put partitions into")
        node["partitions"].update(partitions)
        self._driver.store.write([[SetData(path, json.dumps(node).encode())]])

    def _run_tool(self, step: Json) -> ToolResult:
        """Run a tool; its ``{file:NAME}`` arguments are files that hold the step's JSON."""
        with tempfile.TemporaryDirectory(prefix="klamm-scenario-") as folder:
            paths = {}
            for name, content in step.get("files", {}).items():
                path = paths[f"{{file:{name}}}"] = f"{folder}/{name}"
                Path(path).write_text(json.dumps(content))
            return self._driver.run_tool(step["cls"], [paths.get(a, a) for a in step["args"]])

    def _registrations(self) -> list[int]:
        """The brokers in the order in which they registered when this was recorded."""
        prefix = "/brokers/ids/"
        writes = self._scenario["steps"][0]["zk_writes"]
        return [
            int(path.removeprefix(prefix))
            for op, path, *_ in writes
            if op == "create-ephemeral" and path.startswith(prefix)
        ]

    def _bring_up(self, broker_ids: Sequence[int]) -> None:
        for count, broker_id in enumerate(broker_ids, 1):
            self._driver.start(broker_id)
            if not self._wait_for({"brokers": sorted(broker_ids[:count])}):
                raise KlammError(f"broker {broker_id} did not register")
            self._driver.settle()

    def _broker_id(self, broker: int | str) -> int:
        if broker != "controller":
            return int(broker)
        controller = self._read_json("/controller")
        if controller is None:
            raise KlammError("there is no controller to act on")
        return int(controller["brokerid"])

    # -- conditions

    def _wait_for(self, condition: Json) -> bool:
        return self._driver.run_until(lambda: self._holds(condition), STEP_TIMEOUT_MS)

    def _holds(self, condition: Json) -> bool:
        ((kind, wanted),) = condition.items()
        match kind:
            case "brokers":
                return self._children("/brokers/ids") == sorted(map(str, wanted))
            case "exists":
                return self._read(wanted).code is ResultCode.OK
            case "absent":
                return self._read(wanted).code is ResultCode.NONODE
            case "controller_epoch":
                return self._read(f"/{kind}").data == str(wanted).encode()
            case "not_reassigning":
                topic = self._read_json(f"/brokers/topics/{wanted}") or {}
                return not (topic.get("adding_replicas") or topic.get("removing_replicas"))
            case "replicas":
                return all(self._replicas(tp) == replicas for tp, replicas in wanted.items())
            case "leader":
                return all(self._state(tp).get("leader") == leader for tp, leader in wanted.items())
            case "isr":
                return all(
                    sorted(self._state(tp).get("isr", ())) == sorted(isr)
                    for tp, isr in wanted.items()
                )
            case unknown:
                raise UsageError(f"scenario condition {unknown} is not known")

    def _replicas(self, topic_partition: str) -> list[int] | None:
        topic, _, partition = topic_partition.rpartition("-")
        node = self._read_json(f"/brokers/topics/{topic}") or {}
        replicas: list[int] | None = node.get("partitions", {}).get(partition)
        return replicas

    def _state(self, topic_partition: str) -> Json:
        return self._read_json(_state_path(topic_partition)) or {}

    # -- the tree

    def _read(self, path: str) -> ReadResult:
        return self._driver.store.read([GetData(path)])[0]

    def _read_json(self, path: str) -> Json | None:
        data = self._read(path).data
        return json.loads(data) if data else None

    def _children(self, path: str) -> list[str]:
        return sorted(self._driver.store.read([GetChildren(path)])[0].children or ())

    def _tree(self) -> Json:
        tree: Json = {}
        for root in WATCHED_ROOTS:
            self._add_to_tree(tree, root)
        return tree

    def _add_to_tree(self, tree: Json, path: str) -> None:
        result = self._read(path)
        if result.code is not ResultCode.OK or result.stat is None:
            return
        node: Json = {"data": self._normalised(path, result.data)}
        if result.stat.ephemeral_owner:
            node["ephemeral"] = True
        if _has_recorded_version(path):
            node["version"] = result.stat.version
        tree[path] = node
        for child in self._children(path):
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


def load_scenario(path: Path) -> Json:
    """A recorded scenario. Raises UsageError if the file is none."""
    try:
        scenario: Json = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not a scenario: {error}") from error
    return scenario


def _has_recorded_version(path: str) -> bool:
    return (
        path == "/controller_epoch"
        or path.endswith("/state")
        or (path.startswith(("/brokers/topics/", "/config/topics/")) and path.count("/") == 3)
    )


def _brokers_of(tree: Json) -> list[str]:
    prefix = "/brokers/ids/"
    return [path.removeprefix(prefix) for path in tree if path.startswith(prefix)]


def _was_passed(condition: Json, tree_after: Json) -> bool:
    """True if an ISR was waited for that had grown again when the step ended: a moment's state."""
    return any(
        sorted(tree_after[_state_path(tp)]["data"]["isr"]) != sorted(isr)
        for tp, isr in condition.get("isr", {}).items()
    )


def _state_path(topic_partition: str) -> str:
    topic, _, partition = topic_partition.rpartition("-")
    return f"/brokers/topics/{topic}/partitions/{partition}/state"
