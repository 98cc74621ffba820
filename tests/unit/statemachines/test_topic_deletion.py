"""What is next for topics to be deleted: a decision of the context alone."""

from __future__ import annotations

import pytest

from klamm.statemachines.context import ControllerContext
from klamm.statemachines.replica_state import ReplicaState
from klamm.statemachines.topic_deletion import (
    DeletionCounts,
    DeletionProgress,
    count_deletions,
    plan_deletions,
    plan_start,
    progress_of,
    queued_replicas,
    replicas_in_state,
    topics_being_reassigned,
    topics_with_offline_replicas,
)
from tests.unit.statemachines.build import cluster, snapshot, tp

A0, A1, B0 = tp("a-0"), tp("a-1"), tp("b-0")
ONLINE, OFFLINE = ReplicaState.ONLINE, ReplicaState.OFFLINE
STARTED = ReplicaState.DELETION_STARTED
SUCCESSFUL = ReplicaState.DELETION_SUCCESSFUL
INELIGIBLE = ReplicaState.DELETION_INELIGIBLE


def queued(*states: ReplicaState) -> ControllerContext:
    """Topic ``a``, queued: replicas of a-0 on 1 and 2, of a-1 on 1, in these states."""
    context = cluster({"a-0": (1, 2), "a-1": (1,), "b-0": (2, 3)})
    for (broker_id, partition), state in zip(((1, A0), (2, A0), (1, A1)), states, strict=True):
        context.put_replica_states(broker_id, [partition], state)
    context.queue_topic_deletion(["a"])
    return context


CASES = [
    ((SUCCESSFUL, SUCCESSFUL, SUCCESSFUL), False, DeletionProgress.DONE, "c"),
    ((SUCCESSFUL, SUCCESSFUL, SUCCESSFUL), True, DeletionProgress.DONE, "c"),
    ((SUCCESSFUL, SUCCESSFUL, STARTED), False, DeletionProgress.RUNNING, ""),
    ((INELIGIBLE, SUCCESSFUL, STARTED), False, DeletionProgress.RUNNING, ""),
    ((STARTED, INELIGIBLE, SUCCESSFUL), False, DeletionProgress.RUNNING, ""),
    ((SUCCESSFUL, INELIGIBLE, SUCCESSFUL), False, DeletionProgress.FAILED, "rs"),
    ((OFFLINE, INELIGIBLE, ONLINE), True, DeletionProgress.FAILED, "r"),
    ((SUCCESSFUL, OFFLINE, SUCCESSFUL), False, DeletionProgress.IDLE, "s"),
    ((ONLINE, ONLINE, ONLINE), True, DeletionProgress.IDLE, ""),
]


@pytest.mark.parametrize(("states", "halted", "progress", "next_"), CASES)
def test_replica_states_decide_the_next_step_of_a_deletion(
    states: tuple[ReplicaState, ...], halted: bool, progress: DeletionProgress, next_: str
) -> None:
    context = queued(*states)
    if halted:
        context.topics_ineligible_for_deletion.add("a")
    before = snapshot(context)
    plan = plan_deletions(context)
    assert progress_of(context, "a") is progress
    steps = {"c": plan.completed, "r": plan.to_retry, "s": plan.to_start}
    assert {name: topics for name, topics in steps.items() if topics} == {n: ["a"] for n in next_}
    assert snapshot(context) == before


def test_a_topic_without_replicas_is_done_and_one_not_queued_is_left_alone() -> None:
    context = cluster({"a-0": (1,)})
    context.queue_topic_deletion(["gone", "a"])
    plan = plan_deletions(context)
    assert (plan.completed, plan.to_start, plan.to_retry) == (["gone"], ["a"], [])


def test_a_start_divides_the_living_from_the_dead() -> None:
    context = queued(SUCCESSFUL, OFFLINE, OFFLINE)
    context.queue_topic_deletion(["b"])
    context.begin_topic_deletion(["b"])
    context.remove_live_brokers([3])
    plan = plan_start(context, ["a", "b"])
    assert plan.unseen_topics == ["a"]
    assert plan.unseen == [A0, A1]
    assert plan.partitions == [A0, A1, B0]
    assert plan.replicas == {1: [A1], 2: [A0, B0]}
    assert plan.dead == {3: [B0]}
    assert plan.halted == ["b"]
    assert topics_with_offline_replicas(context) == {"b"}


def test_a_failed_directory_is_as_dead_as_a_broker() -> None:
    context = queued(ONLINE, ONLINE, ONLINE)
    context.replicas_on_offline_dirs[1] = {A1}
    plan = plan_start(context, ["a"])
    assert plan.replicas == {1: [A0], 2: [A0]}
    assert plan.dead == {1: [A1]}


def test_replicas_of_queued_topics_are_found_by_state() -> None:
    context = queued(SUCCESSFUL, INELIGIBLE, SUCCESSFUL)
    assert queued_replicas(context, {2: [A0, B0], 3: [B0]}) == {2: [A0]}
    assert replicas_in_state(context, ["a", "b"], SUCCESSFUL) == {1: [A0, A1]}
    assert queued_replicas(cluster({"a-0": (1,)}), {1: [A0]}) == {}


def test_queued_and_ineligible_topics_and_replicas_are_counted() -> None:
    context = queued(SUCCESSFUL, INELIGIBLE, STARTED)
    context.topics_ineligible_for_deletion.add("a")
    assert count_deletions(context) == DeletionCounts(1, 2, 1, 1)
    context.partitions_being_reassigned.add(B0)
    context.topics_waiting_for_reassignment.add("b")
    assert topics_being_reassigned(context) == {"b"}
    assert count_deletions(context) == DeletionCounts(2, 4, 2, 1)
    context.remove_topic("a")
    context.remove_topic("b")
    assert count_deletions(context) == DeletionCounts()
