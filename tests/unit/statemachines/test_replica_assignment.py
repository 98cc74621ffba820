"""Reassignment plans of one partition against what kafka.controller.ReplicaAssignment answered."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.cluster.types import ReplicaAssignment
from tests.unit.statemachines.build import Case, cases


def assert_same(assignment: ReplicaAssignment, recorded: dict[str, Any]) -> None:
    assert {
        "replicas": list(assignment.replicas),
        "adding": list(assignment.adding_replicas),
        "removing": list(assignment.removing_replicas),
        "origin": list(assignment.origin_replicas),
        "target": list(assignment.target_replicas),
        "being_reassigned": assignment.is_being_reassigned,
        "text": str(assignment),
    } == recorded


@pytest.mark.parametrize("case", cases("reassign_plans.jsonl"))
def test_every_step_of_a_reassignment_is_that_of_kafka(case: Case) -> None:
    initial = case["initial"]
    assignment = ReplicaAssignment(
        tuple(initial["replicas"]), tuple(initial["adding"]), tuple(initial["removing"])
    )
    assert_same(assignment, initial)
    for step in case["steps"]:
        match step["op"]:
            case "reassign" | "reorder":
                assignment = assignment.reassign_to(step["target"])
            case "cancel":
                assignment = assignment.reassign_to(assignment.origin_replicas)
            case "remove_replica":
                assignment = assignment.remove_replica(step["replica"])
            case "complete":
                assignment = ReplicaAssignment(assignment.target_replicas)
            case unknown:
                raise AssertionError(f"unknown step {unknown}")
        assert_same(assignment, step["after"])


def test_a_replica_that_a_znode_names_twice_is_removed_once() -> None:
    twice = ReplicaAssignment((1, 1)).reassign_to([2])
    assert twice == ReplicaAssignment((2, 1), (2,), (1,))
    assert twice.target_replicas == (2,)
    # As Seq.diff: one of the two is being added, the other was there.
    assert ReplicaAssignment((1, 1, 2), (1,)).origin_replicas == (1, 2)
