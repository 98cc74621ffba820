"""Reassignments by znode and by request: what is refused, logged, listed and given up.

Sources: processZkPartitionReassignment, processApiPartitionReassignment and
onPartitionReassignment (kafka.controller.KafkaController).
"""

from __future__ import annotations

import msgspec
import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import Kind
from klamm.cluster.quirks import Quirks
from klamm.cluster.requests import (
    AlterIsrRequest,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ApiError,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from klamm.cluster.types import LeaderAndIsr, ReplicaAssignment, TopicPartition
from klamm.controller.events import PartitionReassignmentIsrChange
from klamm.zk.memory_store import LostReply
from klamm.zk.store import Delete, ReadOp, ReadResult, Transaction, TxnResult, WatchEvent, WatchKind
from klamm.zk.znodes import ReassignPartitionsZNode, TopicPartitionStateZNode, TopicZNode
from tests.unit.controller.cluster import Cluster

T0, T1, T2, T3 = (TopicPartition("t", n) for n in range(4))
NONE = ApiError(Errors.NONE)


@pytest.fixture
def cluster(cluster: Cluster) -> Cluster:
    """Brokers 0, 1 and 2, of which broker 0 is the controller; t has four partitions."""
    cluster.create_topic("t", *[(0, 1)] * 4)
    cluster.forget()
    return cluster


def alter(
    cluster: Cluster, reassignments: dict[TopicPartition, tuple[int, ...] | None]
) -> dict[TopicPartition, Errors]:
    answer = cluster.request(
        AlterPartitionReassignmentsRequest(reassignments), AlterPartitionReassignmentsResponse
    )
    assert answer.error == NONE
    return {tp: one.error for tp, one in answer.partitions.items()}


def grow(cluster: Cluster, tp: TopicPartition, *isr: int) -> None:
    """The leader proposes an ISR."""
    state = cluster.state(tp)
    proposed = LeaderAndIsr(state.leader, state.leader_epoch, isr, state.zk_version)
    epoch = cluster.active.context.live_broker_epochs[state.leader]
    cluster.ask(0, AlterIsrRequest(state.leader, epoch, {tp: proposed}))


def assigned(cluster: Cluster, tp: TopicPartition) -> ReplicaAssignment:
    """The replicas in the topic znode, which the context must agree with."""
    found = cluster.admin.get_topic_assignments([tp.topic]).values[tp.topic].assignment[tp]
    assert cluster.active.context.assignments[tp] == found
    return found


def test_bad_entries_of_the_znode_are_named_and_removed(cluster: Cluster) -> None:
    none = TopicPartition("none", 0)
    asked = {T0: (1, 2), T1: (), T2: (-1, 2), none: (1,), T3: (1, 1)}
    cluster.reassign(asked)
    (line,) = cluster.logged("Failed reassignment through zk")
    assert line == (
        "Failed reassignment through zk with the following errors: Map("
        "t-1 -> ApiError(error=INVALID_REPLICA_ASSIGNMENT, message=Empty replica list specified "
        "in partition reassignment.), "
        "t-2 -> ApiError(error=INVALID_REPLICA_ASSIGNMENT, message=Invalid broker id in replica "
        "list: ArrayBuffer(-1, 2)), none-0 -> ApiError(error=UNKNOWN_TOPIC_OR_PARTITION, "
        "message=The partition does not exist.))"
    )
    assert set(cluster.admin.get_partition_reassignment()) == {T0}
    assert cluster.active.context.partitions_being_reassigned == {T0}
    assert assigned(cluster, T0) == ReplicaAssignment((1, 2, 0), (2,), (0,))
    assert assigned(cluster, T3) == ReplicaAssignment((1,)), "it was complete at once"


def test_a_request_replaces_the_entry_of_the_znode(cluster: Cluster) -> None:
    cluster.reassign({T0: (1, 2), T1: (1, 2)})
    assert alter(cluster, {T0: (0, 2), T2: None}) == {
        T0: Errors.NONE,
        T2: Errors.NO_REASSIGNMENT_IN_PROGRESS,
    }
    assert cluster.admin.get_partition_reassignment() == {T1: (1, 2)}
    assert assigned(cluster, T0) == ReplicaAssignment((0, 2, 1), (2,), (1,))
    # The entry that is left is not begun again.
    phases = [row.partition for row in cluster.rows(Kind.REASSIGNMENT_PHASE) if row.to == "U1"]
    assert phases == [0, 1, 0]


def listed(
    cluster: Cluster, *partitions: TopicPartition, every: bool = False
) -> dict[TopicPartition, ReplicaAssignment]:
    answer = cluster.request(
        ListPartitionReassignmentsRequest(None if every else partitions),
        ListPartitionReassignmentsResponse,
    )
    assert answer.error == NONE
    return dict(answer.partitions)


def test_reassignments_are_listed_while_they_last(cluster: Cluster) -> None:
    assert listed(cluster, every=True) == {}
    alter(cluster, {T1: (1, 2), T0: (2, 0)})
    t1, t0 = ReplicaAssignment((1, 2, 0), (2,), (0,)), ReplicaAssignment((2, 0, 1), (2,), (1,))
    assert list(listed(cluster, every=True).items()) == [(T0, t0), (T1, t1)]
    none = TopicPartition("none", 0)
    assert listed(cluster, T1, T2, none) == {T1: t1}
    assert alter(cluster, {T1: None}) == {T1: Errors.NONE}
    assert listed(cluster, every=True) == {T0: t0}


def test_a_reassignment_ends_when_its_target_is_in_sync(cluster: Cluster) -> None:
    alter(cluster, {T0: (1, 2), T1: (1, 2)})
    cluster.forget()
    grow(cluster, T0, 0, 1, 2)
    cluster.run()
    assert assigned(cluster, T0) == ReplicaAssignment((1, 2))
    assert cluster.active.context.partitions_being_reassigned == {T1}
    assert (cluster.state(T0).leader, cluster.state(T0).isr) == (1, (1, 2))
    stopped = [one for one in cluster.brokers[0].requests if isinstance(one, StopReplicaRequest)]
    assert [
        (state.topic_partition, state.delete_partition)
        for one in stopped
        for state in one.partition_states
    ] == [(T0, False), (T0, True)]
    assert cluster.logged("have all caught up") == [
        "Target replicas ArrayBuffer(1, 2) have all caught up with the leader for reassigning "
        "partition t-0"
    ]
    # An ISR without all of them ends nothing, nor does that of another partition.
    grow(cluster, T1, 0, 1)
    grow(cluster, T2, 0)
    cluster.run()
    assert cluster.active.context.partitions_being_reassigned == {T1}
    cluster.assert_nothing_failed()


@pytest.mark.parametrize("dead", [False, True])
def test_a_target_without_a_replica_that_can_lead_waits(cluster: Cluster, dead: bool) -> None:
    cluster.start(3)
    alter(cluster, {T0: (2, 3)})
    if dead:
        # Both targets join the ISR, but die before the controller is notified.
        cluster.paused.add(0)
        for broker_id in (2, 3):
            cluster.kill_broker(broker_id)
        cluster.resume()
        assert assigned(cluster, T0) == ReplicaAssignment((2, 3, 0, 1), (2, 3), (0, 1))
        assert cluster.active.context.partitions_being_reassigned == {T0}
        assert cluster.state(T0).leader == 0
        return
    grow(cluster, T0, 0, 1, 2, 3)
    cluster.run()
    assert assigned(cluster, T0) == ReplicaAssignment((2, 3))


def test_a_broker_that_is_shutting_down_is_notified_of_the_new_replicas(cluster: Cluster) -> None:
    alter(cluster, {T0: (1, 0)})
    cluster.active.context.add_shutting_down_broker(2)
    cluster.forget()
    alter(cluster, {T0: (0, 1)})
    told = [
        [one.partition_states for one in broker.requests if isinstance(one, UpdateMetadataRequest)]
        for broker in cluster.brokers.values()
    ]
    assert told[0] == told[1] == told[2]
    assert told[2][-1][0].replicas == (0, 1)


@pytest.mark.parametrize("is_lost", [True, False], ids=["reply lost", "deleted by another"])
def test_the_last_entry_that_is_gone_when_it_is_removed_is_no_failure(
    cluster: Cluster, is_lost: bool
) -> None:
    def is_removal(op: ReadOp | Transaction) -> bool:
        path = ReassignPartitionsZNode.path
        return isinstance(op, list) and any(isinstance(o, Delete) and o.path == path for o in op)

    def after(_: int, op: ReadOp | Transaction, __: ReadResult | TxnResult) -> None:
        if is_removal(op):
            cluster.server.after_op = None
            raise LostReply

    cluster.admin.create_partition_reassignment({T0: (1, 0)})
    if is_lost:
        cluster.server.after_op = after
    else:
        cluster.write_before(is_removal, lambda: cluster.admin.delete(ReassignPartitionsZNode.path))
    cluster.run()
    assert cluster.server.after_op is cluster.server.before_op is None
    assert assigned(cluster, T0) == ReplicaAssignment((1, 0))
    assert not cluster.active.context.partitions_being_reassigned
    cluster.assert_nothing_failed()


def test_requests_that_a_failure_left_behind_make_the_controller_resign(cluster: Cluster) -> None:
    cluster.active.batch.add_stop_replica_request_for_brokers([1], T1, True)
    cluster.ask(0, AlterPartitionReassignmentsRequest({T0: (1, 2)}))
    cluster.run()
    assert cluster.answer().error.error is Errors.UNKNOWN_SERVER_ERROR
    assert len(cluster.rows(Kind.CONTROLLER_ELECTED)) == 1
    assert not any(isinstance(one, StopReplicaRequest) for one in cluster.brokers[1].requests)
    assert assigned(cluster, T0).is_being_reassigned, "the next controller resumes it"


def test_kafka_8249_halts_the_deletion_of_a_topic_whose_reassignment_is_resumed() -> None:
    cluster = Cluster(Quirks(kafka_8249=True)).start(0, 1)
    cluster.create_topic("t", (0, 1))
    cluster.admin.create_partition_reassignment({T0: (1, 2)})
    cluster.brokers[1].is_silent = True
    cluster.delete_topic("t")
    cluster.forget()
    cluster.start(2)
    halted = cluster.rows(Kind.TOPIC_DELETION_HALTED)
    assert [row.outcome for row in halted] == ["topic reassignment in progress"]


def test_a_reassignment_whose_topic_vanishes_at_its_end_is_over(cluster: Cluster) -> None:
    alter(cluster, {T0: (1, 2)})
    path = TopicZNode.path("t")
    grow(cluster, T0, 0, 1, 2)
    cluster.write_before(
        lambda op: isinstance(op, list) and any(one.path == path for one in op),
        lambda: cluster.admin.delete_recursive(path),
    )
    while not cluster.rows(Kind.REASSIGNMENT_FAILED):
        assert cluster.active.step()
    (failed,) = cluster.rows(Kind.REASSIGNMENT_FAILED)
    assert (failed.outcome or "").startswith("Failed to update assignment for t-0: ")
    context = cluster.active.context
    assert context.assignments[T0] == ReplicaAssignment((1, 2))
    assert not context.partitions_being_reassigned
    assert cluster.logged("Error completing reassignment of partition t-0: Failed to update")


def test_reassignments_whose_znode_is_deleted_manually_are_begun_again(cluster: Cluster) -> None:
    cluster.reassign({T0: (1, 2)})
    cluster.admin.delete(ReassignPartitionsZNode.path)
    cluster.run()
    assert alter(cluster, {T0: None}) == {T0: Errors.NONE}
    cluster.reassign({T0: (1, 2)})
    assert assigned(cluster, T0) == ReplicaAssignment((1, 2, 0), (2,), (0,))


def change_znode(cluster: Cluster, *partitions: TopicPartition) -> None:
    """Let the znode ask for (1, 2) for these partitions."""
    data = ReassignPartitionsZNode.encode(dict.fromkeys(partitions, (1, 2)))
    cluster.admin.set_data(ReassignPartitionsZNode.path, data)


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_an_entry_that_was_removed_is_begun_again_when_it_is_added_again(
    cluster: Cluster, is_cancelled: bool
) -> None:
    cluster.reassign({T0: (1, 2), T1: (1, 2)})
    if is_cancelled:
        cluster.ask(0, AlterPartitionReassignmentsRequest({T0: None}))
        assert cluster.active.step()
        assert not cluster.active.context.assignments[T0].is_being_reassigned
    else:
        change_znode(cluster, T1)
        cluster.run()
    cluster.forget()
    change_znode(cluster, T0, T1)
    cluster.run()
    assert assigned(cluster, T0).is_being_reassigned
    begun = [row.partition for row in cluster.rows(Kind.REASSIGNMENT_PHASE) if row.to == "A2"]
    assert begun == [0]


def test_a_partition_that_never_had_a_leader_is_not_reassigned(cluster: Cluster) -> None:
    (new,) = cluster.create_topic("u", (8, 9))
    assert alter(cluster, {new: (9,)}) == {new: Errors.UNKNOWN_SERVER_ERROR}
    # It is stored, so that each failover tries it again, which costs nothing else.
    cluster.expire(0)
    cluster.run()
    assert cluster.rows(Kind.CONTROLLER_READY)
    failed = cluster.rows(Kind.REASSIGNMENT_FAILED)
    text = "Cannot update leader epoch for partition u-0 as"
    assert [(row.outcome or "").startswith(text) for row in failed] == [True, True]


def test_before_alter_isr_a_state_znode_is_watched_while_its_partition_is_reassigned(
    cluster: Cluster,
) -> None:
    controller = cluster.active
    controller.config = msgspec.structs.replace(controller.config, is_alter_isr_enabled=False)
    path = TopicPartitionStateZNode.path(T0)
    changed = WatchEvent(WatchKind.DATA_CHANGED, path)
    alter(cluster, {T0: (1, 2)})
    assert controller.watches.event_of(changed) == PartitionReassignmentIsrChange(T0)
    in_sync = msgspec.structs.replace(cluster.state(T0), isr=(0, 1, 2))
    cluster.write_state(T0, TopicPartitionStateZNode.encode(in_sync, 1))
    cluster.run()
    assert assigned(cluster, T0) == ReplicaAssignment((1, 2))
    assert controller.watches.event_of(changed) is None


def test_isr_changes_in_a_row_complete_their_reassignments_in_the_first_event(
    cluster: Cluster,
) -> None:
    controller = cluster.active
    controller.config = msgspec.structs.replace(controller.config, is_alter_isr_enabled=False)
    alter(cluster, {T0: (1, 2), T1: (1, 2)})
    cluster.forget()
    for tp in (T0, T1):
        in_sync = msgspec.structs.replace(cluster.state(tp), isr=(0, 1, 2))
        cluster.write_state(tp, TopicPartitionStateZNode.encode(in_sync, 1))
    cluster.run()
    first, second, *_ = cluster.rows(Kind.EVENT)
    assert (first.detail, second.detail) == tuple(
        str(PartitionReassignmentIsrChange(tp)) for tp in (T0, T1)
    )
    assert first.event_id != second.event_id
    completed = cluster.rows(Kind.REASSIGNMENT_PHASE)
    assert {(row.partition, row.event_id) for row in completed if row.to == "B7"} == {
        (0, first.event_id),
        (1, first.event_id),
    }


def test_a_topic_that_is_being_deleted_is_not_reassigned(cluster: Cluster) -> None:
    (new,) = cluster.create_topic("u", (1, 2))
    cluster.stop(2)
    cluster.delete_topic("u")
    assert alter(cluster, {new: (0, 1)}) == {new: Errors.UNKNOWN_TOPIC_OR_PARTITION}
    assert cluster.logged("Skipping reassignment of u-0") == [
        "Skipping reassignment of u-0 since the topic is currently being deleted"
    ]
