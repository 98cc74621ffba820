"""Partition moves: what is planned, what is written, what only the acknowledged writes change."""

from __future__ import annotations

import pytest

from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.outcome import WriteOutcome
from klamm.cluster.requests import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from klamm.cluster.types import LeaderAndIsr, ReplicaAssignment
from klamm.statemachines.election import (
    ControlledShutdownElection,
    ElectionStrategy,
    OfflineElection,
    PreferredReplicaElection,
    ReassignElection,
)
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.partition_transitions import (
    apply_partition_state_changes,
    initialize_partition_states,
    partitions_to_bring_online,
    plan_partition_state_changes,
    topics_without_live_isr,
)
from klamm.statemachines.request_batch import ControllerBrokerRequestBatch
from tests.unit.statemachines.build import EPOCH, cluster, leadership, snapshot, stored, tp

NEW, ONLINE = PartitionState.NEW, PartitionState.ONLINE
OFFLINE, NON_EXISTENT = PartitionState.OFFLINE, PartitionState.NON_EXISTENT
A, B, C = tp("t-0"), tp("t-1"), tp("u-0")


def test_states_after_a_failover_follow_the_leader() -> None:
    context = cluster(
        {"t-0": (1, 2), "t-1": (9, 2), "u-0": (1, 2), "v-0": (1, 2)}, partition_state=None
    )
    context.put_partition_leadership_info(A, leadership(1, 3, (1, 2)))
    context.put_partition_leadership_info(B, leadership(9, 3, (9, 2)))
    context.put_partition_leadership_info(tp("v-0"), leadership(-1, 3, (2,)))
    initialize_partition_states(context)
    assert context.partition_states == {A: ONLINE, B: OFFLINE, C: NEW, tp("v-0"): OFFLINE}
    assert context.counts() == context.recount()
    assert partitions_to_bring_online(context) == [B, C, tp("v-0")]
    assert partitions_to_bring_online(context, "u") == [C]
    context.queue_topic_deletion(["u"])
    assert partitions_to_bring_online(context) == [B, tp("v-0")]


def test_a_new_partition_is_led_by_its_first_live_replica() -> None:
    context = cluster({"t-0": (9, 3, 2), "t-1": (1, 2)}, partition_state=NEW)
    plan = plan_partition_state_changes(context, [A, B], ONLINE, OfflineElection())
    assert plan.creates == {A: leadership(3, 0, (3, 2)), B: leadership(1, 0, (1, 2))}
    batch = ControllerBrokerRequestBatch(context, 1)
    outcome = apply_partition_state_changes(context, plan, batch, stored(plan))
    assert context.partition_states == {A: ONLINE, B: ONLINE}
    assert context.partition_leadership_info(A) == leadership(3, 0, (3, 2))
    change = outcome.changes[0]
    assert (change.topic_partition, change.from_state, change.to_state) == (A, NEW, ONLINE)
    assert (change.leadership, change.previous_leadership) == (leadership(3, 0, (3, 2)), None)
    assert (change.election, change.unclean) == (None, False)
    told = {
        broker_id: [(s.topic_partition, s.is_new) for s in request.partition_states]
        for broker_id, request in batch.drain()
        if isinstance(request, LeaderAndIsrRequest)
    }
    assert told == {1: [(B, True)], 2: [(A, True), (B, True)], 3: [(A, True)]}


def test_a_new_partition_without_a_live_replica_stays_new() -> None:
    context = cluster({"t-0": (8, 9)}, partition_state=NEW)
    context.add_shutting_down_broker(3)
    before = snapshot(context)
    plan = plan_partition_state_changes(context, [A], ONLINE, OfflineElection())
    batch = ControllerBrokerRequestBatch(context, 1)
    outcome = apply_partition_state_changes(context, plan, batch)
    assert str(outcome.failures[A]) == (
        "Controller 1 epoch 7 encountered error during state change of partition t-0 from New to "
        "Online, assigned replicas are [], live brokers are [Set(1, 2)]. No assigned replica is "
        "alive."
    )
    assert snapshot(context) == before and batch.is_empty


@pytest.mark.parametrize(
    ("election", "leader", "isr", "recipients"),
    [
        (OfflineElection(), 2, (2, 3), [2, 3]),
        (PreferredReplicaElection(), None, None, None),
        (ReassignElection(), 2, (1, 2, 3), [2, 3]),
        (ControlledShutdownElection(), 2, (1, 2), [2, 3]),
    ],
)
def test_an_election_raises_the_epoch_and_notifies_the_recipients(
    election: ElectionStrategy,
    leader: int | None,
    isr: tuple[int, ...] | None,
    recipients: list[int] | None,
) -> None:
    context = cluster({"t-0": (1, 2, 3)}, brokers=(2, 3))
    context.put_partition_leadership_info(A, leadership(1, 4, (1, 2, 3), zk_version=11))
    if isinstance(election, ControlledShutdownElection):
        context.add_shutting_down_broker(3)
    plan = plan_partition_state_changes(context, [A], ONLINE, election)
    batch = ControllerBrokerRequestBatch(context, 1)
    if leader is None or isr is None:
        assert plan.failures == {
            A: StateChangeFailed(
                f"Failed to elect leader for partition t-0 under strategy {election}"
            )
        }
        return
    assert plan.leader_and_isrs == {A: LeaderAndIsr(leader, 5, isr, 11)}
    outcome = apply_partition_state_changes(context, plan, batch, stored(plan))
    now = context.partition_leadership_info(A)
    assert now == leadership(leader, 5, isr, zk_version=12)
    change = outcome.changes[0]
    assert (change.leadership, change.election) == (now, election)
    assert change.previous_leadership == leadership(1, 4, (1, 2, 3), zk_version=11)
    told = [r for r in batch.drain() if isinstance(r[1], LeaderAndIsrRequest)]
    assert [broker_id for broker_id, _ in told] == recipients
    states = [request.partition_states[0] for _, request in told]
    assert all(s == states[0] for s in states)
    assert isinstance(states[0], LeaderAndIsrPartitionState) and not states[0].is_new


def test_only_acknowledged_writes_enter_the_context() -> None:
    context = cluster(
        {"t-0": (1, 2), "t-1": (1, 2), "u-0": (1, 2)}, brokers=(2,), partition_state=OFFLINE
    )
    for partition in (A, B, C):
        context.put_partition_leadership_info(partition, leadership(1, 4, (1, 2), 6))
    plan = plan_partition_state_changes(context, [A, B, C], ONLINE, OfflineElection())
    refused = StateChangeFailed("NONODE")
    written = WriteOutcome({A: LeaderAndIsr(2, 5, (2,), 7), B: refused}, [C])
    batch = ControllerBrokerRequestBatch(context, 1)
    outcome = apply_partition_state_changes(context, plan, batch, written)
    assert [change.topic_partition for change in outcome.changes] == [A]
    assert (outcome.failures, outcome.retries) == ({B: refused}, [C])
    assert context.partition_states == {A: ONLINE, B: OFFLINE, C: OFFLINE}
    assert context.partition_leadership_info(B) == leadership(1, 4, (1, 2), 6)
    assert list(batch.update_metadata_partitions) == [A]

    context.put_partition_leadership_info(C, leadership(1, 4, (2, 1), 9))
    again = plan_partition_state_changes(context, outcome.retries, ONLINE, OfflineElection())
    assert again.leader_and_isrs == {C: LeaderAndIsr(2, 5, (2,), 9)}


def test_a_state_of_a_newer_controller_is_not_touched() -> None:
    context = cluster({"t-0": (1, 2)})
    context.put_partition_leadership_info(A, leadership(1, 4, (1, 2), epoch=EPOCH + 1))
    plan = plan_partition_state_changes(context, [A], ONLINE, PreferredReplicaElection())
    assert not plan.updates
    assert str(plan.failures[A]).startswith("Aborted leader election for partition t-0 since")
    assert str(plan.failures[A]).endswith("another controller was elected with epoch 8.")


def test_an_online_partition_without_a_leader_and_isr_cannot_be_elected() -> None:
    context = cluster({"t-0": (1, 2)}, partition_state=OFFLINE)
    plan = plan_partition_state_changes(context, [A], ONLINE, OfflineElection())
    assert str(plan.failures[A]) == (
        "LeaderAndIsr information doesn't exist for partition t-0 in OfflinePartition state"
    )


def test_unclean_elections_are_for_topics_that_allow_them_and_are_marked() -> None:
    context = cluster({"t-0": (1, 2), "u-0": (1, 2), "v-0": (1, 2)}, brokers=(2,))
    for partition in (A, C):
        context.put_partition_leadership_info(partition, leadership(1, 4, (1,), 6))
    partitions = [A, C, tp("v-0"), tp("never-0")]
    assert topics_without_live_isr(context, partitions) == ["t", "u"]
    plan = plan_partition_state_changes(context, partitions, ONLINE, OfflineElection(), {"u"})
    assert list(plan.failures) == [A]
    batch = ControllerBrokerRequestBatch(context, 1)
    outcome = apply_partition_state_changes(context, plan, batch, stored(plan))
    assert [(c.topic_partition, c.unclean) for c in outcome.changes] == [
        (C, True),
        (tp("v-0"), False),
    ]
    assert context.partition_leadership_info(C) == leadership(2, 5, (2,), 7)


def test_moves_without_a_write_keep_leader_and_isr_and_send_nothing() -> None:
    context = cluster({"t-0": (1, 2)})
    batch = ControllerBrokerRequestBatch(context, 1)
    for target in (OFFLINE, NON_EXISTENT, NEW):
        plan = plan_partition_state_changes(context, [A], target)
        outcome = apply_partition_state_changes(context, plan, batch)
        assert outcome.changes[0].leadership == leadership(1, 0, (1, 2))
        assert outcome.changes[0].previous_leadership is outcome.changes[0].leadership
        assert context.partition_state(A) is target
        assert context.offline_partition_count == (target is OFFLINE)
    assert batch.is_empty


def test_an_assignment_in_the_middle_of_a_reassignment_elects_among_its_targets() -> None:
    context = cluster({"t-0": (1, 2)})
    context.update_partition_full_replica_assignment(A, ReplicaAssignment((3, 1, 2), (3,), (1,)))
    context.put_partition_leadership_info(A, leadership(1, 4, (1, 2, 3), 6))
    plan = plan_partition_state_changes(context, [A], ONLINE, ReassignElection())
    assert plan.updates[A].leader_and_isr == LeaderAndIsr(3, 5, (1, 2, 3), 6)
    assert plan.updates[A].live_replicas == (3, 2)
