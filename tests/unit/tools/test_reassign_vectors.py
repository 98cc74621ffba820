"""Checks, JSON, moves and texts of reassignments, as the classes of Kafka 2.8.2 answered them."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.cluster.errors import KlammError
from klamm.cluster.types import ReplicaAssignment, TopicPartition, TopicPartitionReplica
from klamm.placement.draws import JavaRandom
from klamm.placement.pools import NO_POOLS
from klamm.tools.jopt import UncaughtException, UsageExit
from klamm.tools.reassignments.common import (
    calculate_assignment,
    first_in_zookeeper,
    first_on_cluster,
)
from klamm.tools.reassignments.moves import (
    calculate_follower_throttles,
    calculate_leader_throttles,
    calculate_proposed_move_map,
    calculate_reassigning_brokers,
)
from klamm.tools.reassignments.options import ReassignOptions
from klamm.tools.reassignments.reassignment_json import (
    format_reassignment,
    parse_execute_arguments,
    parse_generate_arguments,
    parse_reassignment,
)
from klamm.tools.reassignments.text import LogDirMoveState, replica_states_text
from klamm.tools.tool_output import java_class
from tests.unit.placement.vectors import brokers_of
from tests.unit.tools.vectors import Case, cases

# ZooKeeper's client returns an immutable map of Scala, the Admin client one that becomes mutable.
FIRST_OF_MAP = {"immutable": first_in_zookeeper, "mutable": first_on_cluster}


def tp(item: Case) -> TopicPartition:
    return TopicPartition(item["topic"], item["partition"])


def replica(item: Case) -> TopicPartitionReplica:
    return TopicPartitionReplica(item["topic"], item["partition"], item["broker"])


def replicas(items: list[Case]) -> dict[TopicPartition, tuple[int, ...]]:
    return {tp(item): tuple(item["replicas"]) for item in items}


def log_dirs(items: list[Case]) -> dict[TopicPartitionReplica, str]:
    return {replica(item): item["log_dir"] for item in items}


@pytest.mark.parametrize("case", cases("reassign_cli_args.jsonl"))
def test_the_command_line_is_checked_as_by_kafkas_tool(case: Case) -> None:
    if "result" in case:
        command = ReassignOptions(case["args"])
        assert f"--{command.action}" in case["args"]
    elif "error" in case:
        with pytest.raises(UncaughtException) as raised:
            ReassignOptions(case["args"])
        assert raised.value.java_class == case["error"]["class"]
        assert raised.value.message == case["error"]["message"]
    else:
        with pytest.raises(UsageExit) as shown:
            ReassignOptions(case["args"])
        assert shown.value.message == case["exit_message"]


def answer(case: Case) -> Any:
    match case["function"]:
        case "parsePartitionReassignmentData":
            read = parse_reassignment(case["json"])
            return list(read.partitions), read.log_dirs
        case "parseExecuteAssignmentArgs":
            return parse_execute_arguments(case["json"])
        case "parseGenerateAssignmentArgs":
            return parse_generate_arguments(case["json"], case["broker_list"])
        case "formatAsReassignmentJson":
            return format_reassignment(replicas(case["partitions"]), log_dirs(case["log_dirs"]))
        case "calculateAssignment":
            first = FIRST_OF_MAP[case["map"]]
            source = JavaRandom(case["java_seed"])
            current = replicas(case["current"])
            return calculate_assignment(current, first, brokers_of(case), source, NO_POOLS)
        case "calculateProposedMoveMap":
            return moves(case)
        case _:
            assert case["function"] == "replicaMoveStatesToString"
            states = {replica(item): move_state(item["state"]) for item in case["states"]}
            return replica_states_text(states)


def expected(case: Case) -> Any:
    result = case["result"]
    match case["function"]:
        case "parsePartitionReassignmentData":
            pairs = [(tp(item), tuple(item["replicas"])) for item in result["partitions"]]
            return pairs, log_dirs(result["log_dirs"])
        case "parseExecuteAssignmentArgs":
            return replicas(result["partitions_sorted"]), log_dirs(result["log_dirs"])
        case "parseGenerateAssignmentArgs":
            return result["brokers"], result["topics"]
        case "calculateAssignment":
            return replicas(result)
        case _:
            return result


def moves(case: Case) -> Case:
    running = {
        tp(item): ReplicaAssignment(
            tuple(item["replicas"]), tuple(item["adding"]), tuple(item["removing"])
        )
        for item in case["current_reassignments"]
    }
    found = calculate_proposed_move_map(
        running, replicas(case["proposed"]), replicas(case["current"])
    )
    return {
        "move_map": {
            topic: {
                str(partition): {
                    "sources": sorted(move.sources),
                    "destinations": sorted(move.destinations),
                }
                for partition, move in partitions.items()
            }
            for topic, partitions in found.items()
        },
        "leader_throttles": calculate_leader_throttles(found),
        "follower_throttles": calculate_follower_throttles(found),
        "reassigning_brokers": calculate_reassigning_brokers(found),
    }


def move_state(text: str) -> LogDirMoveState:
    kind, _, words = text.rstrip(")").partition("(")
    given = words.split(",")
    match kind:
        case "MissingReplicaMoveState":
            return LogDirMoveState(given[0], is_known=False)
        case "MissingLogDirMoveState":
            return LogDirMoveState(given[0])
        case "CompletedMoveState":
            return LogDirMoveState(given[0], current=given[0])
        case "CancelledMoveState":
            return LogDirMoveState(given[1], current=given[0])
        case _:
            return LogDirMoveState(given[1], current=given[0], future=given[2])


@pytest.mark.parametrize("case", cases("reassign_json.jsonl"))
def test_plans_are_read_and_compared_as_by_kafkas_classes(case: Case) -> None:
    if "error" not in case:
        assert answer(case) == expected(case)
        return
    with pytest.raises(KlammError) as raised:
        answer(case)
    assert java_class(raised.value) == case["error"]["class"]
    if "[Source:" not in case["error"]["message"]:
        assert raised.value.message == case["error"]["message"]
