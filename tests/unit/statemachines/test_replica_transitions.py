"""Replica moves of one broker: what is planned, written, sent, and what leaves the ISR."""

from __future__ import annotations

from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.outcome import WriteOutcome
from klamm.cluster.quirks import Quirks
from klamm.cluster.requests import StopReplicaPartitionState, StopReplicaRequest
from klamm.cluster.types import LeaderAndIsr, ReplicaAssignment
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.replica_state import ReplicaState
from klamm.statemachines.replica_transitions import (
    ReplicaMoves,
    abandon_replica_state_changes,
    apply_replica_state_changes,
    initialize_replica_states,
    plan_replica_state_changes,
)
from klamm.statemachines.request_batch import ControllerBrokerRequestBatch
from tests.unit.statemachines.build import EPOCH, cluster, leadership, snapshot, stored, tp

NEW, ONLINE, OFFLINE = ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE
A, B, C = tp("t-0"), tp("t-1"), tp("u-0")


def move(
    context: ControllerContext, replica_id: int, target: ReplicaState, *partitions: object
) -> ControllerBrokerRequestBatch:
    """Move all replicas of a broker, with every write acknowledged."""
    tps = [p for p in context.assignments if not partitions or p in partitions]
    batch = ControllerBrokerRequestBatch(context, 1)
    plan = plan_replica_state_changes(context, replica_id, tps, target)
    apply_replica_state_changes(context, plan, batch, stored(plan))
    return batch


def told(batch: ControllerBrokerRequestBatch) -> dict[int, list[tuple[str, int, bool]]]:
    """{broker: [(partition, leader, is_new)]} of the LeaderAndIsr requests."""
    return {
        broker_id: [(str(s.topic_partition), s.leader, s.is_new) for s in states.values()]
        for broker_id, states in batch.leader_and_isr.items()
    }


def test_states_after_a_failover_follow_broker_and_directory() -> None:
    context = cluster({"t-0": (1, 9), "t-1": (2, 1)}, replica_state=None)
    context.replicas_on_offline_dirs[1] = {B}
    online, offline = initialize_replica_states(context)
    assert (online, offline) == ({1: [A], 2: [B]}, {1: [B], 9: [A]})
    assert context.replica_states == {
        1: {A: ONLINE, B: ReplicaState.DELETION_INELIGIBLE},
        2: {B: ONLINE},
        9: {A: ReplicaState.DELETION_INELIGIBLE},
    }


def test_a_new_replica_gets_its_leader_marked_as_new() -> None:
    context = cluster({"t-0": (1, 2), "u-0": (2, 1)}, replica_state=None)
    context.leaderships.pop(C)
    batch = move(context, 2, NEW)
    assert told(batch) == {2: [("t-0", 1, True)]}
    assert list(batch.update_metadata_partitions) == [A]
    assert context.replica_states[2] == {A: NEW, C: NEW}


def test_a_leader_cannot_become_a_new_replica() -> None:
    context = cluster({"t-0": (1, 2)}, replica_state=None)
    before = snapshot(context)
    plan = plan_replica_state_changes(context, 1, [A], NEW)
    batch = ControllerBrokerRequestBatch(context, 1)
    outcome = apply_replica_state_changes(context, plan, batch)
    assert outcome.failures == {
        A: StateChangeFailed(
            "Replica 1 for partition t-0 cannot be moved to NewReplica state as it is being "
            "requested to become leader"
        )
    }
    assert outcome.changes == [] and batch.is_empty and snapshot(context) == before


def test_a_new_replica_comes_online_without_a_request_and_any_other_gets_its_leader() -> None:
    context = cluster({"t-0": (1, 2), "t-1": (1, 2), "u-0": (1, 2)})
    context.put_replica_states(2, [A], NEW)
    context.put_replica_states(2, [B], OFFLINE)
    context.replicas_on_offline_dirs[2] = {A}
    plan = plan_replica_state_changes(context, 2, [A, B, C], ONLINE)
    batch = ControllerBrokerRequestBatch(context, 1)
    outcome = apply_replica_state_changes(context, plan, batch)
    assert outcome.changes == [
        ReplicaMoves(NEW, ONLINE, [A]),
        ReplicaMoves(OFFLINE, ONLINE, [B]),
        ReplicaMoves(ONLINE, ONLINE, [C]),
    ]
    assert told(batch) == {2: [("t-1", 1, False), ("u-0", 1, False)]}
    assert context.replica_states[2] == {A: ONLINE, B: ONLINE, C: ONLINE}


def test_a_new_replica_that_is_not_assigned_joins_the_assignment() -> None:
    context = cluster({"t-0": (1, 2)})
    context.update_partition_full_replica_assignment(A, ReplicaAssignment((1, 2), (2,), ()))
    context.put_replica_states(3, [A], NEW)
    move(context, 3, ONLINE)
    assert context.assignments[A] == ReplicaAssignment((1, 2, 3), (2,), ())
    assert context.replicas_on_broker(3) == [A]


def test_an_offline_leader_leaves_isr_and_leadership_and_the_others_are_notified() -> None:
    context = cluster({"t-0": (1, 2, 3), "t-1": (2, 1, 3), "u-0": (2, 3, 1)})
    for partition, leader in ((A, 1), (B, 2)):
        context.put_partition_leadership_info(
            partition, leadership(leader, 4, (1, 2, 3), 6, epoch=EPOCH - 1)
        )
    context.put_partition_leadership_info(C, leadership(2, 4, (2, 3), 6, epoch=EPOCH - 1))
    plan = plan_replica_state_changes(context, 1, [A, B, C], OFFLINE)
    assert plan.updates == {A: LeaderAndIsr(-1, 5, (2, 3), 6), B: LeaderAndIsr(2, 5, (2, 3), 6)}
    batch = ControllerBrokerRequestBatch(context, 1)
    outcome = apply_replica_state_changes(context, plan, batch, stored(plan))
    removed = {row.topic_partition: row for row in outcome.isr_removed}
    assert removed[A].leadership == leadership(-1, 5, (2, 3), 7)
    assert removed[C].leadership == leadership(2, 4, (2, 3), 6), "written or not, the epoch is ours"
    assert removed[C].previous_leadership.controller_epoch == EPOCH - 1
    assert context.leaderships == {p: row.leadership for p, row in removed.items()}
    others = [("t-0", -1, False), ("t-1", 2, False), ("u-0", 2, False)]
    assert told(batch) == {2: others, 3: others}
    assert outcome.changes == [ReplicaMoves(ONLINE, OFFLINE, [A, B, C])]
    assert batch.stop_replica[1] == {
        p: StopReplicaPartitionState(p, 4, False) for p in (A, B, C)
    }, "with the epoch from before the write"


def test_the_last_replica_of_an_isr_stays_in_it() -> None:
    context = cluster({"t-0": (1, 2)})
    context.put_partition_leadership_info(A, leadership(1, 4, (1,), 6))
    plan = plan_replica_state_changes(context, 1, [A], OFFLINE)
    assert plan.updates == {A: LeaderAndIsr(-1, 5, (1,), 6)}


def test_two_brokers_leave_an_isr_one_after_the_other() -> None:
    context = cluster({"t-0": (1, 2, 3)})
    batch = ControllerBrokerRequestBatch(context, 1)
    for replica_id in (1, 2):
        plan = plan_replica_state_changes(context, replica_id, [A], OFFLINE)
        apply_replica_state_changes(context, plan, batch, stored(plan))
    assert context.partition_leadership_info(A) == leadership(-1, 2, (3,), 2)
    isrs = {broker_id: states[A].isr for broker_id, states in batch.leader_and_isr.items()}
    assert isrs == {1: (3,), 2: (2, 3), 3: (3,)}
    assert context.replica_state(2, A) is OFFLINE


def test_a_topic_to_be_deleted_is_written_but_no_broker_gets_its_leader() -> None:
    context = cluster({"t-0": (1, 2)})
    context.queue_topic_deletion(["t"])
    batch = move(context, 1, OFFLINE)
    assert context.partition_leadership_info(A) == leadership(-1, 1, (2,), 1)
    assert batch.leader_and_isr == {} and batch.update_metadata_brokers == set()
    assert batch.stop_replica == {1: {A: StopReplicaPartitionState(A, -2, False)}}


def test_without_leader_and_isr_only_metadata_goes_out() -> None:
    context = cluster({"t-0": (1, 2)})
    context.leaderships.clear()
    batch = move(context, 1, OFFLINE)
    assert batch.leader_and_isr == {}
    assert batch.update_metadata_brokers == {1, 2, 3}
    assert batch.stop_replica == {1: {A: StopReplicaPartitionState(A, -1, False)}}
    assert context.replica_state(1, A) is OFFLINE


def test_failed_and_repeated_writes_leave_the_replica_where_it_is() -> None:
    context = cluster({"t-0": (1, 2), "t-1": (1, 2), "u-0": (1, 2), "v-0": (1, 2)})
    newer = tp("v-0")
    context.put_partition_leadership_info(newer, leadership(1, 0, (1, 2), epoch=EPOCH + 1))
    plan = plan_replica_state_changes(context, 1, [A, B, C, newer], OFFLINE)
    refused = StateChangeFailed("NONODE")
    written = WriteOutcome({A: refused, B: LeaderAndIsr(-1, 1, (2,), 1)}, [C])
    batch = ControllerBrokerRequestBatch(context, 1)
    outcome = apply_replica_state_changes(context, plan, batch, written)
    assert outcome.changes == [ReplicaMoves(ONLINE, OFFLINE, [B])]
    assert (outcome.retries, outcome.failures[A]) == ([C], refused)
    assert "another controller was elected with epoch 8" in str(outcome.failures[newer])
    assert context.replica_states[1] == {A: ONLINE, B: OFFLINE, C: ONLINE, newer: ONLINE}
    assert list(batch.stop_replica[1]) == [A, B, C, newer], "all were told to stop"
    assert told(batch) == {2: [("t-1", -1, False)]}


def test_a_replica_is_deleted_step_by_step() -> None:
    context = cluster({"t-0": (1, 2)}, replica_state=OFFLINE)
    context.queue_topic_deletion(["t"])
    batch = move(context, 2, ReplicaState.DELETION_STARTED)
    assert batch.stop_replica == {2: {A: StopReplicaPartitionState(A, -2, True)}}
    assert move(context, 2, ReplicaState.DELETION_SUCCESSFUL).is_empty
    assert context.replica_state(2, A) is ReplicaState.DELETION_SUCCESSFUL
    assert move(context, 2, ReplicaState.NON_EXISTENT).is_empty
    assert context.partition_replica_assignment(A) == (1,)
    assert A not in context.replica_states[2]
    assert context.counts() == context.recount()


def test_a_batch_given_up_in_mid_write_holds_the_stops_that_kafka_never_sends() -> None:
    context = cluster({"t-0": (1, 2)}, quirks=Quirks(kafka_12315=True))
    batch = ControllerBrokerRequestBatch(context, 1)
    plan = plan_replica_state_changes(context, 1, [A], OFFLINE)
    abandon_replica_state_changes(plan, batch, moved=True)
    assert list(batch.stop_replica) == [1]

    context = cluster({"t-0": (1, 2)})
    batch = ControllerBrokerRequestBatch(context, 1)
    abandon_replica_state_changes(plan, batch, moved=True)
    assert batch.is_empty
    move_requests = move(context, 1, OFFLINE).drain()
    assert isinstance(move_requests[-1][1], StopReplicaRequest)
