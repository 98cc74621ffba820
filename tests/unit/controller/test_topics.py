"""Topics come Online, grow, and vanish: what is written, sent, journalled and logged."""

from __future__ import annotations

import pytest

from klamm.cluster.journal import Kind
from klamm.cluster.quirks import Quirks
from klamm.cluster.requests import (
    AlterPartitionReassignmentsRequest,
    LeaderAndIsrRequest,
    UpdateMetadataRequest,
)
from klamm.cluster.types import LeaderAndIsr, ReplicaAssignment, TopicPartition
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.replica_state import ReplicaState
from klamm.zk.request_size import MAX_TRANSACTION_BYTES
from klamm.zk.store import SetData, WatchEvent, WatchKind
from klamm.zk.znodes import ReassignPartitionsZNode, TopicPartitionStateZNode
from tests.unit.controller.cluster import Cluster

T0 = TopicPartition("t", 0)
TOPIC = "/brokers/topics/t"


def test_a_new_topic_comes_online(cluster: Cluster) -> None:
    t0, t1 = cluster.create_topic("t", (0, 1), (2, 0))
    assert cluster.state(t0) == LeaderAndIsr(0, 0, (0, 1), 0)
    assert cluster.state(t1) == LeaderAndIsr(2, 0, (2, 0), 0)
    context = cluster.active.context
    assert context.partition_state(t0) is PartitionState.ONLINE
    assert context.replica_state(1, t0) is ReplicaState.ONLINE
    assert cluster.moves() == [
        "t-0 NonExistent>New",
        "t-1 NonExistent>New",
        "t-0 New>Online",
        "t-1 New>Online",
    ]
    assert cluster.moves(Kind.REPLICA_TRANSITION) == [
        "t-0 r0 NonExistent>New",
        "t-1 r0 NonExistent>New",
        "t-0 r1 NonExistent>New",
        "t-1 r2 NonExistent>New",
        "t-0 r0 New>Online",
        "t-1 r0 New>Online",
        "t-0 r1 New>Online",
        "t-1 r2 New>Online",
    ]
    cluster.assert_nothing_failed()


def test_brokers_are_notified_once_of_a_new_topic(cluster: Cluster) -> None:
    cluster.create_topic("t", (0, 1), (2, 0))
    first, metadata = (
        [r for r in cluster.brokers[1].requests if isinstance(r, kind) and r.partition_states]
        for kind in (LeaderAndIsrRequest, UpdateMetadataRequest)
    )
    assert len(first) == len(metadata) == 1
    assert [s.topic_partition for s in first[0].partition_states] == [T0]
    assert first[0].partition_states[0].is_new
    assert {b.id for b in first[0].live_leaders} == {0}
    assert [s.leader for s in metadata[0].partition_states] == [0, 2]
    assert metadata[0].topic_ids == cluster.active.context.topic_ids
    epochs = cluster.active.context.live_broker_epochs
    assert first[0].broker_epoch == epochs[1]


def test_the_topic_znode_gets_an_id_in_a_second_write(cluster: Cluster) -> None:
    cluster.create_topic("t", (0,))
    topic_id = cluster.admin.get_topic_ids_for_topics(["t"])["t"]
    assert len(topic_id) == 22
    assert cluster.active.context.topic_ids == {"t": topic_id}
    assert cluster.topic_version("t") == 1


def test_rows_name_the_event_that_caused_them(cluster: Cluster) -> None:
    cluster.create_topic("t", (0, 1))
    (event,) = [r for r in cluster.rows(Kind.EVENT) if r.detail == "TopicChange"]
    transitions = cluster.rows(Kind.PARTITION_TRANSITION, Kind.REPLICA_TRANSITION)
    assert {row.event_id for row in transitions} == {event.event_id}
    assert [row.key_seq for row in transitions if row.replica == 1] == [1, 2]
    online = next(row for row in transitions if row.to == "OnlinePartition")
    assert (online.leader, online.isr, online.zk_version, online.prev_leader) == (
        0,
        (0, 1),
        0,
        None,
    )
    assert online.since_ms == cluster.clock.now_ms()


def test_both_logs_have_kafkas_texts(cluster: Cluster) -> None:
    cluster.create_topic("t", (0, 1))
    text = cluster.state_change_logs[0].getvalue()
    for line in (
        "INFO [Controller id=0 epoch=1] Changed partition t-0 state from NonExistentPartition to "
        "NewPartition with assigned replicas 0,1 (state.change.logger)\n",
        "TRACE [Controller id=0 epoch=1] Changed state of replica 1 for partition t-0 from "
        "NonExistentReplica to NewReplica (state.change.logger)\n",
        "INFO [Controller id=0 epoch=1] Changed partition t-0 from NewPartition to "
        "OnlinePartition with state LeaderAndIsr(leader=0, leaderEpoch=0, isr=List(0, 1), "
        "zkVersion=0) (state.change.logger)\n",
        "INFO [Controller id=0 epoch=1] Sending LeaderAndIsr request to broker 0 with 1 "
        "become-leader and 0 become-follower partitions (state.change.logger)\n",
        "INFO [Controller id=0 epoch=1] Sending UpdateMetadata request to brokers HashSet(0, 1, 2) "
        "for 1 partitions (state.change.logger)\n",
    ):
        assert line in text
    assert "[Controller id=0] New topics: [Set(t)]" in cluster.controller_logs[0].getvalue()


def test_without_a_live_replica_the_partition_stays_new(cluster: Cluster) -> None:
    cluster.create_topic("t", (7, 8))
    assert cluster.stored(T0) is None
    assert not cluster.admin.path_exists("/brokers/topics/t/partitions")
    assert cluster.active.context.partition_state(T0) is PartitionState.NEW
    (failed,) = cluster.rows(Kind.PARTITION_FAILED)
    assert "No assigned replica is alive." in (failed.outcome or "")
    assert "StateChangeFailedException" in cluster.state_change_logs[0].getvalue()
    cluster.fail_over()
    skipped = "Leader not yet assigned for partition t-0. Skip sending UpdateMetadataRequest."
    texts = (log.getvalue() for log in cluster.controller_logs.values())
    assert sum(text.count(skipped) for text in texts) == 2, "one for each replica"
    cluster.start(8)
    assert cluster.state(T0) == LeaderAndIsr(8, 0, (8,), 0)
    cluster.assert_nothing_failed()


def test_added_partitions_come_online(cluster: Cluster) -> None:
    (t0,) = cluster.create_topic("t", (0, 1))
    cluster.forget()
    cluster.add_partitions("t", (0, 1), (1, 2))
    t1 = TopicPartition("t", 1)
    assert cluster.state(t0) == LeaderAndIsr(0, 0, (0, 1), 0)
    assert cluster.state(t1) == LeaderAndIsr(1, 0, (1, 2), 0)
    assert cluster.moves() == ["t-1 NonExistent>New", "t-1 New>Online"]
    assert cluster.topic_version("t") == 2
    # The watch was armed again by reading.
    cluster.add_partitions("t", (0, 1), (1, 2), (2, 0))
    assert cluster.state(TopicPartition("t", 2)).leader == 2
    cluster.assert_nothing_failed()


def test_topics_that_changed_together_are_read_together_and_keep_their_own_causes(
    cluster: Cluster,
) -> None:
    for topic in ("t", "u"):
        cluster.create_topic(topic, (0, 1))
    cluster.forget()
    for topic in ("t", "u"):
        found = cluster.admin.get_topic_assignments([topic]).values[topic]
        added = {TopicPartition(topic, 1): ReplicaAssignment((1, 2))}
        cluster.admin.set_topic_assignment(topic, found.topic_id, {**found.assignment, **added})
    cluster.run()
    assert [cluster.state(TopicPartition(topic, 1)).leader for topic in ("t", "u")] == [1, 1]
    events = {row.event_id: row.detail for row in cluster.rows(Kind.EVENT)}
    online = cluster.rows(Kind.PARTITION_TRANSITION)
    assert [(row.topic, events[row.event_id]) for row in online if row.key_seq == 1] == [
        ("t", "PartitionModifications(t)"),
        ("u", "PartitionModifications(u)"),
    ]
    cluster.assert_nothing_failed()


def test_a_changed_replica_list_is_written_back(cluster: Cluster) -> None:
    (t0,) = cluster.create_topic("t", (0, 1))
    before = cluster.admin.get_topic_assignments(["t"]).values["t"]
    cluster.add_partitions("t", (1, 2), (2, 0))
    cluster.admin.delete("/controller")
    cluster.run()
    context = cluster.active.context
    assert context.partition_replica_assignment(t0) == (0, 1)
    assert context.partition_replica_assignment(TopicPartition("t", 1)) == (2, 0)
    after = cluster.admin.get_topic_assignments(["t"]).values["t"]
    assert (after.topic_id, after.assignment[t0]) == (before.topic_id, before.assignment[t0])


def test_a_topic_id_that_another_client_replaced_is_left_alone(cluster: Cluster) -> None:
    cluster.create_topic("t", (0, 1))
    version = cluster.topic_version("t")
    other = "s3nWlBdbSrOVXGRSwPAkdA"
    cluster.admin.set_topic_assignment("t", other, {T0: ReplicaAssignment((0, 1))})
    cluster.run()
    assert cluster.topic_version("t") == version + 1
    cluster.assert_nothing_failed()


def test_a_stuck_reassignment_does_not_keep_a_lost_topic_id_from_being_written_back(
    cluster: Cluster,
) -> None:
    cluster.create_topic("t", (0, 1))
    before = cluster.admin.get_topic_ids_for_topics(["t"])
    cluster.admin.set_topic_assignment("t", None, {T0: ReplicaAssignment((0, 1), (), (0, 1))})
    cluster.run()
    after = cluster.admin.get_topic_assignments(["t"]).values["t"]
    assert {"t": after.topic_id} == before
    assert after.assignment == {T0: ReplicaAssignment((0, 1))}


def test_a_reassignment_of_a_topic_that_vanishes_is_not_begun(cluster: Cluster) -> None:
    cluster.create_topic("t", (0, 1))
    cluster.write_before(
        lambda op: isinstance(op, list) and any(one.path == TOPIC for one in op),
        lambda: cluster.admin.delete_recursive(TOPIC),
    )
    cluster.ask(0, AlterPartitionReassignmentsRequest({T0: (1, 2)}))
    cluster.run()
    (failed,) = cluster.rows(Kind.REASSIGNMENT_FAILED)
    assert (failed.outcome or "").startswith("Failed to update assignment for t-0: ")
    assert not cluster.rows(Kind.REASSIGNMENT_PHASE)
    assert not cluster.active.context.partitions_being_reassigned


def test_a_reassignment_increments_the_epoch_of_a_state_that_another_wrote(
    cluster: Cluster,
) -> None:
    cluster.create_topic("t", (0, 1))
    known = cluster.state(T0)
    cluster.write_state(T0, TopicPartitionStateZNode.encode(known, 1))
    cluster.ask(0, AlterPartitionReassignmentsRequest({T0: (1, 2)}))
    cluster.run()
    assert cluster.state(T0).leader_epoch == known.leader_epoch + 1
    assert cluster.brokers[2].leader_of(T0) == 0
    assert not cluster.rows(Kind.REASSIGNMENT_FAILED)


def test_a_refused_request_leaves_the_reassignment_of_the_znode_alone(cluster: Cluster) -> None:
    cluster.create_topic("t", (0, 1))
    cluster.reassign({T0: (1, 2)})
    cluster.ask(0, AlterPartitionReassignmentsRequest({T0: (1, 1)}))
    cluster.run()
    assert cluster.admin.get_partition_reassignment() == {T0: (1, 2)}


@pytest.mark.parametrize("left", [(), ((TopicPartition("t", 1), (1, 2)),)], ids=["none", "one"])
def test_a_reassignment_that_is_added_while_another_is_removed_is_not_lost(
    cluster: Cluster, left: tuple[tuple[TopicPartition, tuple[int, ...]], ...]
) -> None:
    cluster.create_topic("t", (0, 1), (0, 1), (0, 1))
    added = {**dict(left), TopicPartition("t", 2): (1, 2)}
    path, data = ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode(added)
    cluster.admin.create_partition_reassignment({T0: (1, 0), **dict(left)})
    cluster.write_before(
        lambda op: isinstance(op, list) and any(one.path == path for one in op),
        lambda: cluster.admin.set_data(path, data),
    )
    cluster.run()
    assert cluster.server.before_op is None
    assert cluster.admin.get_partition_reassignment() == added
    assert cluster.active.context.partitions_being_reassigned == set(added)


def test_with_quirk_c2_a_broker_that_a_topic_znode_names_twice_has_one_replica() -> None:
    cluster = Cluster(Quirks(malformed_znode_fails_the_event=True)).start(0, 1)
    cluster.admin.create("/brokers/topics/t", b'{"version":2,"partitions":{"0":[1,1]}}')
    cluster.run()
    new = ["t-0 r1 NonExistent>New", "t-0 r1 New>Online"]
    assert cluster.moves(Kind.REPLICA_TRANSITION) == new
    cluster.delete_topic("t")
    assert not cluster.admin.path_exists("/brokers/topics/t")
    assert cluster.moves(Kind.REPLICA_TRANSITION) == [
        *new,
        "t-0 r1 Online>Offline",
        "t-0 r1 Offline>DeletionStarted",
        "t-0 r1 DeletionStarted>DeletionSuccessful",
        "t-0 r1 DeletionSuccessful>NonExistent",
    ]
    assert not cluster.rows(Kind.REPLICA_FAILED)
    cluster.assert_nothing_failed()


def test_a_topic_that_is_removed_manually_is_forgotten(cluster: Cluster) -> None:
    cluster.create_topic("t", (0, 1))
    cluster.admin.delete_recursive("/brokers/topics/t")
    cluster.run()
    assert not cluster.active.context.all_topics
    changed = WatchEvent(WatchKind.DATA_CHANGED, TOPIC)
    assert cluster.active.watches.event_of(changed) is None
    assert cluster.active.metrics.gauges()["GlobalPartitionCount"] == 0
    cluster.create_topic("t", (2,))
    assert cluster.state(T0) == LeaderAndIsr(2, 0, (2,), 0)
    cluster.assert_nothing_failed()


def test_a_topic_whose_znode_has_no_room_for_an_id_is_served_without(cluster: Cluster) -> None:
    head, tail, partitions, room = b'{"partitions":{', b"}}", [], MAX_TRANSACTION_BYTES - 150
    while room > 12:
        partitions.append(b'"%d":[7]' % len(partitions))
        room -= len(partitions[-1]) + 1
    cluster.admin.create("/brokers/topics/t", head + b",".join(partitions) + tail)
    (other,) = cluster.create_topic("u", (2,))
    assert cluster.state(other).leader == 2
    context = cluster.active.context
    assert len(context.partitions_for_topic("t")) == len(partitions)
    assert list(context.topic_ids) == ["u"]
    assert "Topic t was not assigned a topic id" in cluster.controller_logs[0].getvalue()
    cluster.assert_nothing_failed()


def test_a_deposed_controller_logs_the_topic_that_it_could_not_create(cluster: Cluster) -> None:
    cluster.create_topic("t", (0, 1))
    cluster.admin.store.write([[SetData("/controller_epoch", b"2")]])
    cluster.add_partitions("t", (0, 1), (1, 2))
    assert len(cluster.rows(Kind.CONTROLLER_MOVED)) == 1
    assert (
        "[PartitionStateMachine controllerId=0] Controller moved to another broker when trying to "
        "create the topic partition state znode (" in cluster.controller_logs[0].getvalue()
    )
