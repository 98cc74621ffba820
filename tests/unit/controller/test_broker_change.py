"""Brokers come, go, are bounced and move: elections, ISRs, and who hears of it."""

from __future__ import annotations

import msgspec
import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import Kind
from klamm.cluster.quirks import Quirks
from klamm.cluster.requests import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from klamm.cluster.types import NO_LEADER, LeaderAndIsr, TopicPartition
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.replica_state import ReplicaState
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import GetData, WatchEvent, WatchKind
from klamm.zk.znodes import BrokerIdZNode, BrokerInfo, TopicPartitionStateZNode
from tests.unit.controller.cluster import Cluster, broker_info


def test_a_dead_leader_is_replaced_at_the_cost_of_one_epoch(cluster: Cluster) -> None:
    led, followed = cluster.create_topic("t", (1, 2, 0), (2, 1, 0))
    cluster.forget()
    cluster.stop(1)
    assert cluster.state(led) == LeaderAndIsr(2, 1, (2, 0), 1)
    assert cluster.state(followed) == LeaderAndIsr(2, 1, (2, 0), 1)
    assert cluster.moves() == ["t-0 Online>Offline", "t-0 Offline>Online"]
    assert cluster.moves(Kind.REPLICA_TRANSITION) == [
        "t-0 r1 Online>Offline",
        "t-1 r1 Online>Offline",
    ]
    # Also for the partition whose ISR was without the dead replica already.
    removed = cluster.rows(Kind.ISR_REMOVED)
    assert [(r.partition, r.replica, r.isr) for r in removed] == [(0, 1, (2, 0)), (1, 1, (2, 0))]
    assert [(r.prev_isr) for r in removed] == [(2, 0), (2, 1, 0)]
    elected = next(r for r in cluster.rows(Kind.PARTITION_TRANSITION) if r.to == "OnlinePartition")
    assert (elected.prev_leader, elected.leader, elected.prev_isr) == (1, 2, (1, 2, 0))
    assert elected.election == "OfflinePartitionLeaderElectionStrategy(false)"
    changed = WatchEvent(WatchKind.DATA_CHANGED, "/brokers/ids/1")
    assert cluster.active.watches.event_of(changed) is None
    cluster.assert_nothing_failed()


def test_leader_and_isr_is_sent_after_the_election_and_again_after_the_replicas_are_offline(
    cluster: Cluster,
) -> None:
    cluster.create_topic("t", (1, 2, 0))
    cluster.forget()
    cluster.stop(1)
    kinds = [type(r).__name__ for r in cluster.brokers[2].requests]
    once = ["LeaderAndIsrRequest", "UpdateMetadataRequest"]
    assert kinds == [*once, *once]
    alive = [b.id for b in cluster.brokers[2].requests[1].live_brokers]  # type: ignore[union-attr]
    assert alive == [0, 2]


def test_a_dead_follower_costs_one_epoch(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (0, 1, 2))
    cluster.forget()
    cluster.stop(2)
    assert cluster.state(tp) == LeaderAndIsr(0, 1, (0, 1), 1)
    assert not cluster.moves()
    told = [(type(r).__name__, len(r.partition_states)) for r in cluster.brokers[1].requests]
    assert told == [
        ("LeaderAndIsrRequest", 1),
        ("UpdateMetadataRequest", 1),
        ("UpdateMetadataRequest", 0),
    ]
    cluster.assert_nothing_failed()


def test_the_last_isr_member_stays_in_the_isr(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (1,))
    cluster.stop(1)
    assert cluster.state(tp) == LeaderAndIsr(NO_LEADER, 1, (1,), 1)
    assert cluster.active.context.partition_state(tp) is PartitionState.OFFLINE
    assert cluster.active.metrics.gauges()["OfflinePartitionsCount"] == 1
    (failed,) = cluster.rows(Kind.PARTITION_FAILED)
    assert failed.outcome == (
        "Failed to elect leader for partition t-0 under strategy "
        "OfflinePartitionLeaderElectionStrategy(false)"
    )
    cluster.forget()
    cluster.start(1)
    assert cluster.state(tp) == LeaderAndIsr(1, 2, (1,), 2)
    told = [r for r in cluster.brokers[1].requests if isinstance(r, LeaderAndIsrRequest)]
    assert [r.partition_states[0].leader for r in told] == [NO_LEADER, 1]
    cluster.assert_nothing_failed()


@pytest.mark.parametrize("enabled", ["true", " TRUE "])
def test_an_unclean_leader_is_elected_where_the_topic_allows_it(
    cluster: Cluster, enabled: str
) -> None:
    (tp,) = cluster.create_topic("t", (1, 2))
    cluster.admin.set_or_create_entity_configs(
        "topics", "t", {"unclean.leader.election.enable": enabled}
    )
    cluster.stop(2)
    cluster.start(2)
    assert cluster.state(tp).isr == (1,)
    cluster.stop(1)
    assert cluster.state(tp) == LeaderAndIsr(2, 2, (2,), 2)
    assert cluster.active.metrics.unclean_leader_elections == 1


def test_a_new_broker_gets_all_metadata_and_the_others_its_registration(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (0, 3))
    cluster.forget()
    cluster.start(3)
    new = cluster.brokers[3].requests
    assert isinstance(new[0], UpdateMetadataRequest)
    assert [s.topic_partition for s in new[0].partition_states] == [tp]
    assert isinstance(new[1], LeaderAndIsrRequest)
    old = cluster.brokers[1].requests
    assert isinstance(old[0], UpdateMetadataRequest)
    assert not old[0].partition_states
    assert [b.id for b in old[0].live_brokers] == [0, 1, 2, 3]
    assert cluster.state(tp).leader_epoch == 0
    assert cluster.active.context.replica_state(3, tp) is ReplicaState.ONLINE


def test_a_reassignment_is_resumed_when_a_target_returns_but_not_when_a_removed_replica_does(
    cluster: Cluster,
) -> None:
    (tp,) = cluster.create_topic("t", (0, 1))
    cluster.reassign({tp: (0, 2)})
    for broker_id, phases in ((1, []), (2, ["A1", "A2"])):
        cluster.stop(broker_id)
        cluster.forget()
        cluster.start(broker_id)
        assert [row.to for row in cluster.rows(Kind.REASSIGNMENT_PHASE)] == phases
    assert cluster.active.context.partitions_being_reassigned == {tp}


def test_a_bounced_broker_dies_and_starts_in_one_event(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (1, 0))
    cluster.forget()
    before = cluster.active.context.live_broker_epochs[1]
    cluster.kill_broker(1)
    cluster.start_broker(1)
    cluster.run()
    epochs = cluster.active.context.live_broker_epochs
    assert epochs[1] > before
    shown = ", ".join(f"{broker_id} -> {epochs[broker_id]}" for broker_id in (0, 1, 2))
    assert cluster.logged("Updated broker epochs")[-1].endswith(f": HashMap({shown})")
    assert cluster.state(tp) == LeaderAndIsr(0, 1, (0,), 1)
    assert cluster.moves() == ["t-0 Online>Offline", "t-0 Offline>Online"]
    assert cluster.moves(Kind.REPLICA_TRANSITION) == [
        "t-0 r1 Online>Offline",
        "t-0 r1 Offline>Online",
    ]
    requests = cluster.brokers[1].requests
    assert all(r.broker_epoch > before for r in requests)
    assert not any(isinstance(r, StopReplicaRequest) for r in requests)
    cluster.assert_nothing_failed()


def test_a_broker_that_dies_leaves_no_failed_directory_channel_or_shutdown_behind(
    cluster: Cluster,
) -> None:
    controller, context = cluster.active, cluster.active.context
    tp = TopicPartition("t", 0)
    cluster.brokers[1].failed_dirs.add(tp)
    cluster.create_topic("t", (1, 2))
    context.add_shutting_down_broker(1)
    assert context.replicas_on_offline_dirs == {1: {tp}}
    cluster.stop(1)
    assert context.replicas_on_offline_dirs == {}
    assert context.shutting_down_broker_ids == frozenset()
    assert controller.channels.broker_ids == [0, 2]
    assert cluster.logged("shutting down brokers.") == [
        "Removed 1 from list of shutting down brokers."
    ]
    cluster.start(1)
    assert context.replica_state(1, tp) is ReplicaState.ONLINE
    cluster.assert_nothing_failed()


def test_a_bounced_broker_does_not_wait_for_an_answer_of_its_former_life(cluster: Cluster) -> None:
    cluster.brokers[1].is_silent = True
    (tp,) = cluster.create_topic("t", (0, 1))
    cluster.kill_broker(1)
    cluster.start_broker(1)
    cluster.run()
    assert cluster.brokers[1].leader_of(tp) == 0
    cluster.assert_nothing_failed()


@pytest.mark.parametrize("is_registered_before", [False, True], ids=["later", "at a failover"])
def test_modified_endpoints_are_sent_to_all(cluster: Cluster, is_registered_before: bool) -> None:
    if is_registered_before:
        cluster.fail_over()
    cluster.forget()
    zk = KafkaZkClient(cluster.stores[1])

    def modify(port: int, rack: str | None = None) -> None:
        info = msgspec.structs.replace(broker_info(1, port), rack=rack)
        registration = BrokerIdZNode.encode(BrokerInfo(info), 0)
        zk.set_data(BrokerIdZNode.path(1), registration)

    for port in (9192, 9292):
        modify(port)
        cluster.run()
        (told,) = cluster.brokers[2].take_requests()
        assert isinstance(told, UpdateMetadataRequest)
        assert told.live_brokers[1].end_points[0].port == port
    modify(9292)
    modify(9292, "a rack alone is no news")
    cluster.run()
    assert not cluster.brokers[2].requests
    assert cluster.logged("Updated broker metadata") == [
        f"Updated broker metadata: 1 : PLAINTEXT://localhost:{old} : null -> "
        f"1 : PLAINTEXT://localhost:{new} : null"
        for old, new in ((9092, 9192), (9192, 9292))
    ]
    assert len(cluster.rows(Kind.BROKER_MODIFIED)) == 2


def dies_without_replicas_beside_an_offline_partition(cluster: Cluster) -> list[list[int]]:
    """Who brokers say is alive after the death of a broker that hosted nothing."""
    cluster.start(3)
    cluster.create_topic("t", (1,))
    cluster.stop(1)
    cluster.forget()
    cluster.stop(3)
    requests = [r for r in cluster.brokers[2].requests if isinstance(r, UpdateMetadataRequest)]
    return [[b.id for b in r.live_brokers] for r in requests]


def test_the_death_of_an_empty_broker_is_sent_even_if_partitions_are_offline(
    cluster: Cluster,
) -> None:
    assert dies_without_replicas_beside_an_offline_partition(cluster) == [[0, 2]]


def test_kafka_13225_does_not_send_the_death_of_an_empty_broker() -> None:
    cluster = Cluster(Quirks(kafka_13225=True)).start(0, 1, 2)
    assert dies_without_replicas_beside_an_offline_partition(cluster) == []


def test_a_version_that_another_changed_is_read_again_and_planned_again(cluster: Cluster) -> None:
    raced, plain = cluster.create_topic("t", (1, 2, 0), (1, 2, 0))
    cluster.forget()
    cluster.write_state(
        raced, b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,0]}'
    )
    cluster.stop(1)
    assert cluster.state(raced) == LeaderAndIsr(0, 1, (0,), 2)
    assert cluster.state(plain) == LeaderAndIsr(2, 1, (2, 0), 1)
    assert "Retrying leader election" in cluster.controller_logs[0].getvalue()
    cluster.assert_nothing_failed()


def test_a_replica_leaves_an_isr_that_another_changed(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (0, 1, 2))
    cluster.write_state(
        tp, b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0,2]}'
    )
    cluster.stop(2)
    assert cluster.state(tp) == LeaderAndIsr(0, 1, (0,), 2)
    cluster.assert_nothing_failed()


def test_a_state_that_another_changed_and_deleted_fails_alone(cluster: Cluster) -> None:
    gone, plain = cluster.create_topic("t", (0, 1, 2), (0, 1, 2))
    path = TopicPartitionStateZNode.path(gone)
    cluster.write_state(gone, TopicPartitionStateZNode.encode(cluster.state(gone), 1))
    cluster.write_before(
        lambda op: isinstance(op, GetData) and op.path == path, lambda: cluster.admin.delete(path)
    )
    cluster.stop(2)
    assert cluster.state(plain).isr == (0, 1)
    (failed,) = cluster.rows(Kind.REPLICA_FAILED)
    assert (failed.partition, failed.replica) == (0, 2)
    assert failed.outcome == (
        "Failed to change state of replica 2 for partition t-0 since the leader and isr path in "
        "zookeeper is empty"
    )


def test_a_dead_replica_leaves_an_isr_that_its_leader_let_it_join_unnoticed(
    cluster: Cluster,
) -> None:
    (tp,) = cluster.create_topic("t", (0, 1, 2))
    cluster.stop(2)
    cluster.start(2)
    known = cluster.state(tp)
    assert known.isr == (0, 1)
    joined = LeaderAndIsr(0, known.leader_epoch, (0, 1, 2))
    cluster.write_state(tp, TopicPartitionStateZNode.encode(joined, 1))
    cluster.stop(2)
    assert cluster.state(tp).isr == (0, 1)
    cluster.assert_nothing_failed()


def test_a_replica_that_joined_the_isr_unnoticed_can_be_elected(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (1, 2))
    for broker_id in (2, 1):
        cluster.stop(broker_id)
    cluster.start(2)
    known = cluster.state(tp)
    assert (known.leader, known.isr) == (NO_LEADER, (1,))
    joined = LeaderAndIsr(NO_LEADER, known.leader_epoch, (1, 2))
    cluster.write_state(tp, TopicPartitionStateZNode.encode(joined, 1))
    cluster.start(3)
    assert (cluster.state(tp).leader, cluster.state(tp).isr) == (2, (2,))
    assert cluster.active.metrics.unclean_leader_elections == 0


def test_a_state_of_a_newer_controller_ends_the_event(cluster: Cluster) -> None:
    tp, _ = cluster.create_topic("t", (1, 2), (1, 2))
    newer = b'{"controller_epoch":2,"leader":1,"version":1,"leader_epoch":3,"isr":[1,2]}'
    cluster.write_state(tp, newer)
    cluster.stop(1)
    assert cluster.stored(tp).controller_epoch == 2  # type: ignore[union-attr]
    (moved,) = cluster.rows(Kind.CONTROLLER_MOVED)
    assert moved.detail == "BrokerChange"
    # What was elected before that is not left in the batch to bar the next one.
    (after,) = cluster.create_topic("u", (2,))
    assert cluster.state(after).leader == 2
    cluster.assert_nothing_failed()


def test_a_state_that_vanished_fails_alone(cluster: Cluster) -> None:
    gone, plain = cluster.create_topic("t", (1, 2), (1, 2))
    cluster.admin.delete("/brokers/topics/t/partitions/0/state")
    cluster.stop(1)
    assert cluster.state(plain).leader == 2
    failed = cluster.rows(Kind.PARTITION_FAILED)
    assert [row.partition for row in failed] == [0]
    assert cluster.active.context.partition_state(gone) is PartitionState.OFFLINE


def test_a_failed_directory_takes_its_replicas_offline(cluster: Cluster) -> None:
    tp = TopicPartition("t", 0)
    cluster.brokers[1].failed_dirs.add(tp)
    cluster.create_topic("t", (1, 2))
    assert cluster.state(tp) == LeaderAndIsr(2, 1, (2,), 1)
    context = cluster.active.context
    assert context.replicas_on_offline_dirs == {1: {tp}}
    assert 1 in context.live_broker_ids
    assert context.replica_state(1, tp) is ReplicaState.OFFLINE
    # Kafka logs this line, unlike those of the state machines, without a controller epoch.
    mark = " INFO [Controller id=0] Mark replicas t-0 on broker 1 as offline (state.change.logger)"
    assert mark in cluster.state_change_logs[0].getvalue()
    # A response about other partitions says nothing about this replica.
    cluster.create_topic("u", (1, 2))
    assert context.replicas_on_offline_dirs == {1: {tp}}
    assert cluster.state_change_logs[0].getvalue().count(mark) == 1
    cluster.brokers[1].failed_dirs.clear()
    cluster.stop(2)
    assert not context.replicas_on_offline_dirs
    assert context.replica_state(1, tp) is ReplicaState.ONLINE
    cluster.assert_nothing_failed()


def test_a_deletion_continues_once_a_directory_has_recovered(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (1, 2))
    context = cluster.active.context
    cluster.brokers[1].failed_dirs.add(tp)
    cluster.delete_topic("t")
    cluster.admin.propagate_log_dir_event(1)
    cluster.run()
    assert context.replicas_on_offline_dirs == {1: {tp}}
    cluster.brokers[1].failed_dirs.clear()
    cluster.forget()
    cluster.admin.propagate_log_dir_event(1)
    cluster.run()
    assert cluster.moves(Kind.REPLICA_TRANSITION) == [
        "t-0 r1 Online>Offline",
        "t-0 r1 Offline>DeletionStarted",
        "t-0 r1 DeletionStarted>DeletionSuccessful",
        "t-0 r1 DeletionSuccessful>NonExistent",
        "t-0 r2 DeletionSuccessful>NonExistent",
    ]
    assert not context.replicas_on_offline_dirs and not context.topics_to_be_deleted
    cluster.assert_nothing_failed()


def test_an_error_of_a_whole_response_is_logged_without_an_epoch(cluster: Cluster) -> None:
    cluster.brokers[1].error = Errors.STALE_CONTROLLER_EPOCH
    cluster.create_topic("t", (1,))
    log = cluster.state_change_logs[0].getvalue()
    for kind in ("LeaderAndIsr", "UpdateMetadata"):
        text = f"Received error STALE_CONTROLLER_EPOCH in {kind} response {kind}Response"
        assert f" ERROR [Controller id=0] {text} from broker 1 (state.change.logger)" in log


def test_a_broker_that_does_not_answer_is_asked_again(cluster: Cluster) -> None:
    cluster.brokers[1].is_silent = True
    (tp,) = cluster.create_topic("t", (0, 1))
    assert not cluster.active.channels.is_idle()
    cluster.advance(29_000)
    cluster.brokers[1].is_silent = False
    assert cluster.brokers[1].leader_of(tp) is None
    cluster.advance(1_000)
    assert cluster.brokers[1].leader_of(tp) == 0
    assert "fails to send request" in cluster.controller_logs[0].getvalue()
    assert not any("Timeout" in (row.detail or "") for row in cluster.rows(Kind.EVENT))
    cluster.assert_nothing_failed()
