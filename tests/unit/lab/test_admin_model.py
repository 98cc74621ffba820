"""What each admin operation does to a topic, and in which states it cannot have its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from klamm.cluster.types import ReplicaAssignment
from klamm.lab.checks.admin_model import (
    ABSENT,
    PartitionModel,
    TopicPhase,
    TopicState,
    absent,
    cancelled,
    counted,
    created,
    deleted,
    exists,
    has_configs,
    known,
    listed,
    maybe_created,
    not_reassigning,
    observed,
    reassigned,
    reassigning,
    served,
    unknown,
    written,
)

Step = Callable[[TopicState], Iterator[TopicState]]

CONFIGS = frozenset({("a", "1")})
NONE: frozenset[tuple[str, str]] = frozenset()
PRESENT = TopicState(TopicPhase.PRESENT, ((0, PartitionModel((0, 1), is_known=True)),))
MOVING = PRESENT.with_partition(0, PartitionModel((0, 1), (1, 2), is_known=True))
DELETING = PRESENT._replace(phase=TopicPhase.DELETING)
ADDED = PRESENT.with_partition(1, PartitionModel((2,), is_new=True))
COMPUTED = TopicState(TopicPhase.PRESENT, ((0, PartitionModel(None)),))
AT_REST, UNDER_WAY = ReplicaAssignment((0, 1)), ReplicaAssignment((1, 2, 0), (2,), (0,))

P, M, D = "present (0: [0, 1])", "present (0: [0, 1] to [1, 2])", "deleting (0: [0, 1])"
DONE, BACK = "present (0: [1, 2])", "present (0: [1, 0])"


@pytest.mark.parametrize(
    ("step", "state", "expected"),
    [
        (lambda s: created(s, {0: (3,)}, CONFIGS), ABSENT, ["present (0: [3], a=1)"]),
        (lambda s: created(s, {0: (3,)}, CONFIGS), DELETING, ["present (0: [3], a=1)"]),
        (lambda s: created(s, {0: (3,)}, CONFIGS), PRESENT, []),
        (
            lambda s: maybe_created(s, {0: None}, CONFIGS),
            ABSENT,
            ["present (0: ?, a=1)", "absent, a=1"],
        ),
        (lambda s: maybe_created(s, {0: None}, CONFIGS), PRESENT, ["present (0: [0, 1], a=1)"]),
        (lambda s: exists(s, CONFIGS), ABSENT, []),
        (lambda s: exists(s, CONFIGS), DELETING, [D, "deleting (0: [0, 1], a=1)"]),
        (absent, ABSENT, ["absent"]),
        (absent, DELETING, ["absent"]),
        (absent, PRESENT, []),
        (deleted, ABSENT, []),
        (deleted, PRESENT, [D]),
        (deleted, DELETING, [D]),
        (lambda s: known(s, (0,)), PRESENT, [P]),
        (lambda s: known(s, (0, 1)), PRESENT, []),
        (lambda s: known(s, (0,)), DELETING, []),
        (lambda s: written(s, {0: AT_REST}), ABSENT, []),
        (lambda s: written(s, {0: AT_REST}), PRESENT, [P, P]),
        (
            lambda s: written(s, {0: ReplicaAssignment((1, 2))}),
            PRESENT,
            [P, DONE, "present (0: ? to [1, 2])"],
        ),
        (lambda s: written(s, {0: UNDER_WAY}), PRESENT, [P, "present (0: [1, 0] to [1, 2])"]),
        (
            lambda s: written(s, {0: AT_REST, 1: ReplicaAssignment((3,))}),
            PRESENT,
            ["present (0: [0, 1]; 1: [3])"] * 2,
        ),
        (lambda s: written(s, {0: AT_REST}), ADDED, [P, P]),
        (lambda s: counted(s, 1, None), ADDED, [P, "present (0: [0, 1]; 1: [2])"]),
        (lambda s: counted(s, 2, None), ADDED, ["present (0: [0, 1]; 1: [2])"]),
        (lambda s: counted(s, 1, 1), ADDED, [P]),
        (lambda s: counted(s, 0, None), ABSENT, []),
        (lambda s: reassigned(s, 0, (1, 2)), PRESENT, ["present (0: [1, 0] to [1, 2])"]),
        (lambda s: reassigned(s, 0, (1, 0)), PRESENT, [BACK]),
        (lambda s: reassigned(s, 0, (1, 2)), COMPUTED, ["present (0: ? to [1, 2])", DONE]),
        (lambda s: reassigned(s, 0, (0, 1)), MOVING, [P, "present (0: [1, 2] to [0, 1])"]),
        (lambda s: reassigned(s, 0, (1, 2)), DELETING, []),
        (lambda s: reassigned(s, 1, (1, 2)), PRESENT, []),
        (lambda s: cancelled(s, 0), MOVING, [P]),
        (lambda s: cancelled(s, 0), PRESENT, []),
        (lambda s: cancelled(s, 0), MOVING._replace(phase=TopicPhase.DELETING), []),
        (lambda s: not_reassigning(s, 0), MOVING, [DONE]),
        (lambda s: not_reassigning(s, 0), PRESENT, [P]),
        (lambda s: not_reassigning(s, 1), PRESENT, [P]),
        (lambda s: listed(s, None, {}), MOVING, [DONE]),
        (lambda s: listed(s, (1,), {}), MOVING, [M]),
        (lambda s: listed(s, None, {0: UNDER_WAY}), MOVING, ["present (0: [1, 0] to [1, 2])"]),
        (lambda s: listed(s, None, {0: UNDER_WAY}), PRESENT, []),
        (lambda s: listed(s, None, {1: UNDER_WAY}), MOVING, []),
        (lambda s: listed(s, None, {0: ReplicaAssignment((1, 2, 3), (2,), (3,))}), MOVING, []),
        (reassigning, MOVING, [M]),
        (reassigning, PRESENT, []),
        (lambda s: served(s, 0), PRESENT, [P]),
        (lambda s: served(s, 1), PRESENT, []),
        (lambda s: served(s, 0), DELETING, []),
        (lambda s: unknown(s, 0), PRESENT, []),
        (lambda s: unknown(s, 1), PRESENT, [P]),
        (lambda s: unknown(s, 0), DELETING, [D]),
        (lambda s: unknown(s, 0), COMPUTED, ["present (0: ?)"]),
        (lambda s: has_configs(s, {"a": None}), PRESENT, [P]),
        (lambda s: has_configs(s, {"a": "1"}), PRESENT, []),
        (lambda s: has_configs(s, {"a": "1"}), DELETING, [D]),
        (lambda s: observed(s, {0: AT_REST}, NONE), PRESENT, [P]),
        (lambda s: observed(s, {0: AT_REST}, CONFIGS), PRESENT, []),
        (lambda s: observed(s, {0: AT_REST}, NONE), DELETING, []),
        (lambda s: observed(s, {0: ReplicaAssignment((1, 0))}, NONE), PRESENT, []),
        (lambda s: observed(s, {1: AT_REST}, NONE), PRESENT, []),
        (lambda s: observed(s, {0: AT_REST}, NONE), ADDED, [P]),
        (lambda s: observed(s, {0: AT_REST}, NONE), COMPUTED, ["present (0: ?)"]),
        (lambda s: observed(s, {0: UNDER_WAY}, NONE), MOVING, [M]),
        (lambda s: observed(s, {0: UNDER_WAY}, NONE), PRESENT, []),
        (lambda s: observed(s, {0: ReplicaAssignment((1, 2))}, NONE), MOVING, [M]),
        (lambda s: observed(s, {0: AT_REST}, NONE), MOVING, []),
    ],
)
def test_an_operation_leads_to_the_states_that_its_result_allows(
    step: Step, state: TopicState, expected: list[str]
) -> None:
    assert sorted(map(str, step(state))) == sorted(expected)


def test_partitions_that_the_controller_noticed_do_not_disappear() -> None:
    states = [*known(ADDED, (0, 1)), *served(ADDED, 1)]
    assert len(states) == 2
    for state in states:
        assert list(counted(state, 1, 1)) == []
        assert list(unknown(state, 1)) == []


@pytest.mark.parametrize("state", [PRESENT, DELETING, ABSENT])
def test_an_operation_on_an_unknown_partition_can_only_fail(state: TopicState) -> None:
    assert list(cancelled(state, 7)) == []
    assert list(served(state, 7)) == []
    assert list(reassigned(state, 7, (1, 2))) == []
    assert list(listed(state, None, {7: UNDER_WAY})) == []
    assert list(known(state, (7,))) == []
    for found in (unknown(state, 7), not_reassigning(state, 7), listed(state, (7,), {})):
        assert list(found) == [state]


def test_a_partition_that_the_controller_reassigns_or_lists_is_one_that_it_noticed() -> None:
    new = PRESENT.with_partition(1, PartitionModel((0, 1), (1, 2), is_new=True))
    found = [
        *reassigned(new, 1, (2, 3)),
        *reassigned(new, 1, (0, 1)),
        *listed(new, (1,), {1: UNDER_WAY}),
    ]
    assert len(found) == 5
    for state in found:
        assert dict(state.partitions)[1].is_known
        assert list(counted(state, 1, 1)) == []
