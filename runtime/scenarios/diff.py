"""Compares klamm's behaviour in a scenario with the recorded behaviour of Kafka 2.8.2 brokers.

Ignored is only what differs between two runs of real Kafka, too: the broker that wins an election,
timestamps, topic ids, the order between partitions and between replicas of a batch, the order of an
ISR (followers race), the grouping of AlterIsr requests, and how many brokers are registered when
the controller reads them. Requests count when they are queued, as in Kafka's log, also for brokers
that are dead already. ``ignore`` of a scenario names whole sections.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from klamm.runtime.scenarios.recorded import StepRecord
from klamm.runtime.scenarios.rows import Json
from klamm.runtime.scenarios.steps import ToolResult


def compare_scenario(scenario: Json, seen: Sequence[StepRecord]) -> list[str]:
    """Return the differences between a recorded scenario and klamm's run, one line each."""
    lines = []
    tree: Json = {}
    for number, (recorded, record) in enumerate(zip(scenario["steps"], seen, strict=False)):
        name = recorded["step"].get("name", recorded["step"]["op"])
        found = _compare_step(recorded, record, tree, scenario["ignore"])
        lines += [f"step {number} {name}: {line}" for line in found]
        tree = recorded["tree"]
    return lines


def _compare_step(
    recorded: Json, seen: StepRecord, tree_before: Json, ignore: Sequence[str]
) -> list[str]:
    expanded = _expanded_partitions(recorded, tree_before)
    sections = {
        "tree": _compare_trees(recorded["tree"], seen.tree),
        "transitions": _compare_transitions(recorded["transitions"], seen.transitions),
        "requests": _compare_requests(
            _comparable_requests(recorded["requests"], recorded),
            _comparable_requests(seen.requests, recorded),
            expanded,
        ),
        "tool": _compare_tools(recorded.get("tool"), seen.tool),
    }
    return [line for name, lines in sections.items() if name not in ignore for line in lines]


def _compare_tools(recorded: Json | None, seen: ToolResult | None) -> list[str]:
    if recorded is None or seen is None:
        return []
    actual = {
        "stdout": _masked(seen.stdout.rstrip("\n")),
        "stderr": _masked(seen.stderr.rstrip("\n")),
        "rc": seen.rc,
    }
    return [
        f"tool {key}: Kafka {recorded[key]!r}, klamm {value!r}"
        for key, value in actual.items()
        if recorded[key] != value
    ]


def _masked(text: str) -> str:
    """Mask topic ids and Java's identity hashes, as in the recording."""
    text = re.sub(r"(?<=TopicId: )[A-Za-z0-9_-]{22}", "<id>", text)
    return re.sub(r"(?<=\[I@)[0-9a-f]+", "<hash>", text)


def _compare_trees(recorded: Json, seen: Json) -> list[str]:
    lines = []
    for path in sorted(recorded.keys() | seen.keys()):
        expected, actual = (_tree_node(path, tree.get(path)) for tree in (recorded, seen))
        if expected != actual:
            lines.append(f"tree {path}: Kafka {_text(expected)}, klamm {_text(actual)}")
    return lines


def _tree_node(path: str, node: Json | None) -> Any:
    if node is None:
        return None
    if path == "/controller":
        return "ephemeral" if node.get("ephemeral") else "persistent"
    if path.endswith("/state"):
        return {**node, "data": _with_sorted_isr(node["data"])}
    return node


def _with_sorted_isr(state: Any) -> Any:
    return {**state, "isr": sorted(state["isr"])} if isinstance(state, dict) else state


def _compare_transitions(recorded: Sequence[Any], seen: Sequence[Any]) -> list[str]:
    """Compare transitions in order for each partition and replica; ``assigned`` is in the tree."""
    expected, actual = _by_key(recorded), _by_key(seen)
    return [
        f"transitions {key}: Kafka {_text(expected.get(key))}, klamm {_text(actual.get(key))}"
        for key in sorted(expected.keys() | actual.keys())
        if expected.get(key) != actual.get(key)
    ]


def _by_key(transitions: Sequence[Any]) -> dict[str, list[Any]]:
    by_key: dict[str, list[Any]] = defaultdict(list)
    for kind, partition, replica, source, target, *rest in transitions:
        state = _with_sorted_isr(rest[0]) if rest and "isr" in rest[0] else None
        if state is not None:
            state.pop("controller_epoch", None)
        subject = partition if replica is None else f"{partition} replica {replica}"
        by_key[subject].append([kind, source, target, state])
    return by_key


def _compare_requests(recorded: Sequence[Json], seen: Sequence[Json], expanded: int) -> list[str]:
    lines = []
    for api in ("LeaderAndIsr", "StopReplica"):
        expected, actual = (_rows(requests, api) for requests in (recorded, seen))
        lines += [f"{api} only by Kafka: {row} x{n}" for row, n in (expected - actual).items()]
        lines += [f"{api} only by klamm: {row} x{n}" for row, n in (actual - expected).items()]
    expected, actual = (_metadata(requests, expanded) for requests in (recorded, seen))
    lines += [f"UpdateMetadata only by Kafka: {row} x{n}" for row, n in (expected - actual).items()]
    lines += [f"UpdateMetadata only by klamm: {row} x{n}" for row, n in (actual - expected).items()]
    return lines


def _comparable_requests(requests: Sequence[Json], recorded: Json) -> list[Json]:
    """Return the requests to compare.

    In the first step, in which brokers register, without requests that only list live brokers."""
    is_first = recorded["step"]["op"] == "up"
    return [r for r in requests if not (is_first and r.get("partitions") == 0)]


def _rows(requests: Sequence[Json], api: str) -> Counter[str]:
    rows: Counter[str] = Counter()
    for request in requests:
        if request["api"] == api:
            row = {k: v for k, v in request.items() if k not in ("at", "become", "api")}
            if "isr" in row:
                row["isr"] = sorted(row["isr"])
            rows[_text(row)] += 1
    return rows


def _metadata(requests: Sequence[Json], expanded: int) -> Counter[str]:
    """Count all UpdateMetadata requests by broker and number of partitions.

    If ``expanded`` partitions regained followers, their number of requests depends on timing:
    requests of up to that many partitions are ignored.
    """
    return Counter(
        f"to {broker}: {request['partitions']} partitions"
        for request in requests
        if request["api"] == "UpdateMetadata" and not 1 <= request["partitions"] <= expanded
        for broker in request["to"]
    )


def _expanded_partitions(recorded: Json, tree_before: Json) -> int:
    """Return the number of partitions with ISRs that a step expanded at the same epoch."""
    epochs = {
        path: node["data"]["leader_epoch"]
        for path, node in tree_before.items()
        if path.endswith("/state")
    }
    expanded = set()
    for op, path, _, data, _ in recorded["zk_writes"]:
        if path.endswith("/state") and isinstance(data, dict):
            if op == "setData" and epochs.get(path) == data["leader_epoch"]:
                expanded.add(path)
            epochs[path] = data["leader_epoch"]
    return len(expanded)


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)
