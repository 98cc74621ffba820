"""The limits of the invariants of a controller: what is just allowed, and what is a violation."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.cluster.types import (
    Broker,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from klamm.lab.checks.controller_invariants import (
    batches_are_sent,
    brokers_know_live_brokers,
    fenced_controllers_resign,
    offline_replicas_stay_offline,
    online_partitions_have_leaders,
    preferred_leaders_are_elected,
)
from klamm.lab.checks.observations import EventEnded, History
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.partition_state import PartitionState

T0 = TopicPartition("t", 0)
CHECK = "AutoPreferredReplicaLeaderElection(1)"


def context(*leaders: int, isr: tuple[int, ...] = (1, 2)) -> ControllerContext:
    """Brokers 1 and 2 are live in epoch 3; broker 1 is preferred for each partition of t."""
    found = ControllerContext()
    found.epoch = 3
    found.set_live_brokers({Broker(1): 11, Broker(2): 12})
    for number, leader in enumerate(leaders):
        tp = TopicPartition("t", number)
        found.update_partition_full_replica_assignment(tp, ReplicaAssignment((1, 2), (), ()))
        known = LeaderIsrAndControllerEpoch(LeaderAndIsr(leader, 5, isr, 7), 3)
        found.put_partition_leadership_info(tp, known)
        found.put_partition_state(tp, PartitionState.ONLINE)
    return found


def history(**changes: Any) -> History:
    found = History(leaders_write_isrs=False, max_imbalance=0.5)
    found.is_loaded = True
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def ended(known: ControllerContext | None, event: str = "e", **changes: Any) -> EventEnded:
    return EventEnded(1, event, known, unsent=False, is_fenced=False, revived=())._replace(
        **changes
    )


@pytest.mark.parametrize("is_wrong", [False, True])
def test_an_event_ends_with_empty_batches_and_an_elected_controller(is_wrong: bool) -> None:
    unsent, fenced = ended(None, unsent=is_wrong), ended(None, is_fenced=is_wrong)
    assert bool(list(batches_are_sent(history(), unsent))) == is_wrong
    assert bool(list(fenced_controllers_resign(history(), fenced))) == is_wrong
    assert not list(batches_are_sent(history(), fenced))
    assert not list(fenced_controllers_resign(history(), unsent))


@pytest.mark.parametrize(
    ("updated", "is_loaded", "expected"),
    [
        pytest.param({(3, 1, 11): {1, 2}, (3, 2, 12): {1, 2}}, True, 0, id="all"),
        pytest.param({(3, 1, 11): {1, 2}, (3, 2, 12): {1}}, True, 1, id="too few"),
        pytest.param({(3, 1, 11): {1, 2, 3}, (3, 2, 12): {1}}, True, 2, id="too many, too few"),
        pytest.param({(3, 1, 11): {1}}, False, 0, id="while the cluster is loaded"),
        pytest.param({(2, 1, 11): {1}}, True, 0, id="an earlier controller"),
        pytest.param({(3, 1, 10): {1}}, True, 0, id="an earlier registration"),
        pytest.param({(3, 3, 13): {1}}, True, 0, id="a dead broker"),
    ],
)
def test_a_broker_that_does_not_know_the_live_brokers_is_a_violation(
    updated: dict[tuple[int, int, int], set[int]], is_loaded: bool, expected: int
) -> None:
    given = history(updated=updated, is_loaded=is_loaded)
    assert len(list(brokers_know_live_brokers(given, ended(context())))) == expected
    assert not list(brokers_know_live_brokers(given, ended(None)))


@pytest.mark.parametrize(
    ("broker_id", "failed", "shutting_down", "why"),
    [
        (2, {}, False, None),
        (3, {}, False, "its broker is dead"),
        (2, {2: {T0}}, False, "its log directory has failed"),
        (2, {1: {T0}}, False, None),
        (2, {}, True, None),
    ],
)
def test_only_replicas_that_can_be_online_are_revived(
    broker_id: int, failed: dict[int, set[TopicPartition]], shutting_down: bool, why: str | None
) -> None:
    known = context(1)
    known.replicas_on_offline_dirs = failed
    if shutting_down:
        known.add_shutting_down_broker(broker_id)
    lines = list(offline_replicas_stay_offline(history(), ended(known, revived=[(T0, broker_id)])))
    assert [line.partition(", but ")[2] for line in lines] == ([] if why is None else [why])
    assert not list(offline_replicas_stay_offline(history(), ended(None, revived=[(T0, 3)])))


@pytest.mark.parametrize(
    ("leader", "state", "leaderless", "is_violated"),
    [
        (-1, PartitionState.ONLINE, {T0}, True),
        (-1, PartitionState.OFFLINE, {T0}, False),
        (1, PartitionState.ONLINE, {T0}, False),
        (-1, PartitionState.ONLINE, {TopicPartition("u", 0)}, False),
        (-1, PartitionState.ONLINE, set(), False),
    ],
)
def test_a_partition_without_a_leader_is_not_online(
    leader: int, state: PartitionState, leaderless: set[TopicPartition], is_violated: bool
) -> None:
    known = context(leader)
    known.put_partition_state(T0, state)
    given = history(leaderless=leaderless)
    assert bool(list(online_partitions_have_leaders(given, ended(known)))) == is_violated
    assert not list(online_partitions_have_leaders(given, ended(None)))


@pytest.mark.parametrize(
    ("leaders", "isr", "expected"),
    [
        pytest.param((1, 1, 1), (1, 2), 0, id="all are preferred"),
        pytest.param((2, 2, 1, 1), (1, 2), 0, id="just few enough"),
        pytest.param((2, 2, 1), (1, 2), 2, id="too many"),
        pytest.param((2, 2, 1), (2,), 0, id="not in sync"),
        pytest.param((-1, 2, 1), (1, 2), 2, id="no leader"),
    ],
)
def test_preferred_leaders_lead_after_a_check(
    leaders: tuple[int, ...], isr: tuple[int, ...], expected: int
) -> None:
    event = ended(context(*leaders, isr=isr), CHECK)
    assert len(list(preferred_leaders_are_elected(history(), event))) == expected
    assert not list(preferred_leaders_are_elected(history(), event._replace(event="e")))
    assert not list(preferred_leaders_are_elected(history(), event._replace(context=None)))


def test_a_preferred_leader_that_cannot_lead_is_left_alone() -> None:
    dead, failed, moving, deleted, few = (context(2, 2, 1) for _ in range(5))
    dead.remove_live_brokers([1])
    failed.replicas_on_offline_dirs = {1: {T0}}
    moving.partitions_being_reassigned = {T0}
    deleted.topics_to_be_deleted = {"t"}
    few.update_partition_full_replica_assignment(T0, ReplicaAssignment((), (), ()))
    found = [
        len(list(preferred_leaders_are_elected(history(), ended(known, CHECK))))
        for known in (dead, failed, moving, deleted, few)
    ]
    assert found == [0, 1, 1, 0, 0]
