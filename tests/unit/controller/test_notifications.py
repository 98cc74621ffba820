"""Notifications of changed ISRs and of failed log directories, and what the controller does."""

from __future__ import annotations

import pytest

from klamm.cluster.journal import Kind
from klamm.cluster.requests import LeaderAndIsrRequest, UpdateMetadataRequest
from klamm.cluster.types import LeaderAndIsr, ReplicaAssignment, TopicPartition
from klamm.zk.memory_store import Crashed
from klamm.zk.store import GetData, ReadOp, Transaction
from klamm.zk.znodes import TopicPartitionStateZNode
from tests.unit.controller.cluster import Cluster

T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster(cluster: Cluster) -> Cluster:
    cluster.create_topic("t", (0, 1))
    cluster.active.context.add_shutting_down_broker(2)
    cluster.forget()
    return cluster


def written(cluster: Cluster, *isr: int) -> None:
    """Let the leader write an ISR and notify the controller."""
    state = cluster.state(T0).with_leader_and_isr(0, isr)
    same_epoch = LeaderAndIsr(0, state.leader_epoch - 1, isr)
    cluster.write_state(T0, TopicPartitionStateZNode.encode(same_epoch, 1))
    cluster.admin.propagate_isr_changes([T0, TopicPartition("nowhere", 0)])
    cluster.run()


def test_an_isr_that_its_leader_wrote_is_sent_to_every_broker(cluster: Cluster) -> None:
    written(cluster, 0)
    for broker in cluster.brokers.values():
        (told,) = broker.requests
        assert isinstance(told, UpdateMetadataRequest)
        assert [(s.topic_partition, s.isr) for s in told.partition_states] == [(T0, (0,))]
    assert cluster.logged("Sending MetadataRequest") == [
        "Sending MetadataRequest to Brokers: ArrayBuffer(0, 1, 2) for TopicPartitions: "
        "ArrayBuffer(t-0, nowhere-0)"
    ]
    unknown = (
        "Leader not yet assigned for partition nowhere-0. Skip sending UpdateMetadataRequest."
        " (kafka.controller.ControllerBrokerRequestBatch)\n"
    )
    assert f"INFO {unknown}" in cluster.controller_logs[0].getvalue()
    (row,) = cluster.rows(Kind.ISR_CHANGED)
    assert (row.isr, row.prev_isr) == ((0,), (0, 1))
    # A second notification of the same state is no change.
    cluster.admin.propagate_isr_changes([T0])
    cluster.run()
    assert len(cluster.rows(Kind.ISR_CHANGED)) == 1
    assert not cluster.admin.get_children("/isr_change_notification")
    cluster.assert_nothing_failed()


def test_a_reassignment_completes_when_its_leader_writes_the_isr(cluster: Cluster) -> None:
    cluster.reassign({T0: (0, 2)})
    written(cluster, 0, 1, 2)
    assert cluster.active.context.assignments[T0] == ReplicaAssignment((0, 2))
    cluster.assert_nothing_failed()


def test_a_broker_that_is_shutting_down_is_asked_for_its_failed_replicas(cluster: Cluster) -> None:
    cluster.create_topic("u", (2, 1))
    cluster.forget()
    cluster.admin.propagate_log_dir_event(2)
    cluster.admin.propagate_log_dir_event(7)
    cluster.run()
    asked = [r for r in cluster.brokers[2].requests if isinstance(r, LeaderAndIsrRequest)]
    named = [[s.topic_partition for s in request.partition_states] for request in asked]
    assert named == [[TopicPartition("u", 0)]]
    begun = cluster.logged("Handling log")
    assert begun[0] == "Handling log directory failure for brokers 2,7"
    assert not cluster.admin.get_children("/log_dir_event_notification")
    cluster.assert_nothing_failed()


def test_a_controller_that_crashes_while_it_reads_notifications_deletes_none(
    cluster: Cluster,
) -> None:
    def crash(_: int, op: ReadOp | Transaction) -> None:
        if isinstance(op, GetData) and op.path.startswith("/log_dir_event_notification/"):
            cluster.server.before_op = None
            raise Crashed

    cluster.server.before_op = crash
    cluster.admin.propagate_log_dir_event(2)
    with pytest.raises(Crashed):
        cluster.run()
    assert cluster.admin.get_children("/log_dir_event_notification")
