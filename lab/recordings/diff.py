"""Compares klamm's behaviour in a scenario with the recorded behaviour of Kafka 2.8.2 brokers.

The comparison ignores only what also differs between two runs of real Kafka:

- which broker wins the controller election
- timestamps and topic ids
- the order of partitions, and of the replicas in one batch of state changes
- the order of an ISR, because followers race
- how AlterIsr requests are grouped
- how many brokers are registered when the controller reads the registrations.

A request is compared if the controller queued it, as in Kafka's log, even if the receiving broker
was already dead. The ``ignore`` list of a scenario names sections (such as requests) that
are not compared.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from klamm.lab.recordings.rows import Json, StepRecord
from klamm.tools.command_result import CommandResult


def compare_scenario(scenario: Json, seen: Sequence[StepRecord]) -> list[str]:
    """Return the differences between what Kafka and klamm did in a scenario, one line each."""
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


def _compare_tools(recorded: Json | None, seen: CommandResult | None) -> list[str]:
    if recorded is None or seen is None:
        return []
    actual = {
        "stdout": masked(seen.stdout.rstrip("\n")),
        "stderr": masked(seen.stderr.rstrip("\n")),
        "rc": seen.exit_code,
    }
    return [
        f"tool {key}: Kafka {recorded[key]!r}, klamm {value!r}"
        for key, value in actual.items()
        if recorded[key] != value
    ]


def masked(text: str) -> str:
    """Replace topic ids and Java's identity hashes with placeholders, as in the recording."""
    text = re.sub(r"(?<=TopicId: )[A-Za-z0-9_-]{22}", "<id>", text)
    return re.sub(r"(?<=\[I@)[0-9a-f]+", "<hash>", text)


def _compare_trees(recorded: Json, seen: Json) -> list[str]:
    lines = []
    for path in sorted(recorded.keys() | seen.keys()):
        expected, actual = (_tree_node(path, tree.get(path)) for tree in (recorded, seen))
        if expected != actual:
            lines.append(f"znode {path}: Kafka {_text(expected)}, klamm {_text(actual)}")
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
    """Compare the order of transitions for each partition and each replica.

    Assignments are not compared here, because the comparison of znodes includes them."""
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
        lines += _only_by(api, expected, actual)
    expected, actual = (_metadata(requests, expanded) for requests in (recorded, seen))
    return lines + _only_by("UpdateMetadata", expected, actual)


def _only_by(api: str, expected: Counter[str], actual: Counter[str]) -> list[str]:
    return [
        f"{api} sent only by {who}: {row} x{n}"
        for who, rows in (("Kafka", expected - actual), ("klamm", actual - expected))
        for row, n in rows.items()
    ]


def _comparable_requests(requests: Sequence[Json], recorded: Json) -> list[Json]:
    """Return the requests that can be compared.

    In the first step, brokers register in any order, so UpdateMetadata requests that contain only
    live brokers (no partitions) are omitted."""
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
    """Count the UpdateMetadata requests by broker and number of partitions.

    ``expanded``: number of partitions whose ISR grew. Timing decides how the updates about these
    partitions are split into requests, so requests with up to that many partitions are ignored.
    """
    return Counter(
        f"to {broker}: {request['partitions']} partitions"
        for request in requests
        if request["api"] == "UpdateMetadata" and not 1 <= request["partitions"] <= expanded
        for broker in request["to"]
    )


def _expanded_partitions(recorded: Json, tree_before: Json) -> int:
    """Return the number of partitions whose ISR grew in a step without a new leader epoch."""
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
