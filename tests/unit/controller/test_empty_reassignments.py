"""Entries of /admin/reassign_partitions without replicas, and topic znodes that they left behind.

Kafka 2.8.2 starts such a reassignment, and no controller ever completes it (quirk C11).
"""

from __future__ import annotations

import pytest

from klamm.cluster.journal import Kind
from klamm.cluster.quirks import KAFKA_2_8_2, NO_QUIRKS, Quirks
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.zk.store import SetData
from klamm.zk.znodes import ReassignPartitionsZNode, TopicZNode
from tests.unit.controller.cluster import Cluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
STUCK = b'{"partitions":{"0":[0,1],"1":[0,1]},"removing_replicas":{"0":[0,1]},"version":3}'


def cluster_of_two(quirks: Quirks) -> Cluster:
    return Cluster(quirks).start(0, 1, candidates=(0,))


def stored(cluster: Cluster) -> dict[TopicPartition, ReplicaAssignment]:
    """What the topic znode says."""
    return dict(cluster.admin.get_topic_assignments(["t"]).values["t"].assignment)


def reassign(cluster: Cluster, entries: bytes) -> None:
    """Create the znode and let the controller act on it."""
    data = b'{"version":1,"partitions":[%s]}' % entries
    cluster.admin.create(ReassignPartitionsZNode.path, data)
    cluster.run()


@pytest.mark.parametrize(
    ("replicas", "reason"),
    [
        (b"[]", "Empty replica list specified in partition reassignment."),
        (b"null", "The replicas in partition reassignment are not a list of broker ids."),
        (b'["1","0"]', "The replicas in partition reassignment are not a list of broker ids."),
    ],
)
def test_an_entry_without_replicas_is_refused_alone(replicas: bytes, reason: str) -> None:
    cluster = cluster_of_two(NO_QUIRKS)
    cluster.create_topic("t", (0, 1), (0, 1))
    reassign(
        cluster,
        b'{"topic":"t","partition":0,"replicas":%s},{"topic":"t","partition":1,"replicas":[1,0]}'
        % replicas,
    )
    assert stored(cluster) == {T0: ReplicaAssignment((0, 1)), T1: ReplicaAssignment((1, 0))}
    assert not cluster.admin.path_exists(ReassignPartitionsZNode.path)
    log = cluster.controller_logs[0].getvalue()
    assert f"t-0 -> ApiError(error=INVALID_REPLICA_ASSIGNMENT, message={reason})" in log
    assert not cluster.active.malformed
    cluster.assert_nothing_failed()


def test_kafka_begins_a_reassignment_to_no_replicas_and_never_completes_it() -> None:
    cluster = cluster_of_two(KAFKA_2_8_2)
    cluster.create_topic("t", (0, 1), (0, 1))
    reassign(cluster, b'{"topic":"t","partition":0,"replicas":[]}')
    stuck = {T0: ReplicaAssignment((0, 1), (), (0, 1)), T1: ReplicaAssignment((0, 1))}
    assert stored(cluster) == stuck
    assert not cluster.admin.path_exists(ReassignPartitionsZNode.path)
    assert T0 in cluster.active.context.partitions_being_reassigned
    # The write of the topic znode brings the replicas back, but fails the next event.
    assert cluster.active.context.assignments == stuck
    (event,) = cluster.rows(Kind.EVENT_FAILED)
    assert (event.detail, event.outcome) == (
        "PartitionModifications(t)",
        "LookupError: partition t-0 had no replicas",
    )
    assert not cluster.rows(Kind.PARTITION_FAILED, Kind.REPLICA_FAILED)
    for _ in range(2):
        (failed,) = cluster.rows(Kind.REASSIGNMENT_FAILED)
        assert failed.outcome == (
            "java.lang.IndexOutOfBoundsException: 0 is out of bounds (min 0, max -1)"
        )
        cluster.forget()
        cluster.fail_over()
        assert stored(cluster) == stuck


def test_kafka_stumbles_over_an_entry_with_null() -> None:
    cluster = cluster_of_two(KAFKA_2_8_2)
    cluster.create_topic("t", (0, 1))
    reassign(cluster, b'{"topic":"t","partition":0}')
    (failed,) = cluster.rows(Kind.EVENT_FAILED)
    assert failed.detail == "ZkPartitionReassignment"
    assert cluster.admin.path_exists(ReassignPartitionsZNode.path)


def test_a_topic_that_kafka_left_in_such_a_reassignment_is_served() -> None:
    cluster = cluster_of_two(NO_QUIRKS)
    cluster.create_topic("t", (0, 1), (0, 1))
    cluster.admin.set_data(TopicZNode.path("t"), STUCK)
    for _ in range(2):
        cluster.run()
        context = cluster.active.context
        assert context.all_topics == {"t"}
        assert context.assignments == dict.fromkeys((T0, T1), ReplicaAssignment((0, 1)))
        assert not context.partitions_being_reassigned
        assert not cluster.active.malformed
        cluster.assert_nothing_failed()
        cluster.server.commit(cluster.stores[0].session_id, [SetData(TopicZNode.path("t"), STUCK)])
        cluster.fail_over()
    text = "The reassignment of partition t-0 removes all its replicas and cannot complete: "
    assert set(cluster.logged("removes all")) == {text + "keeping replicas 0,1"}
    cluster.stop(1)
    assert [cluster.state(tp).isr for tp in (T0, T1)] == [(0,), (0,)]
