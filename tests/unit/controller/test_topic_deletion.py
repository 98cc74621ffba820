"""Deletion of topics by one controller: what counts as an answer, what halts, what is written."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import Kind
from klamm.cluster.requests import Address, Message, StopReplicaRequest, StopReplicaResponse
from klamm.cluster.types import LEADER_DURING_DELETE, TopicPartition
from klamm.controller.events import PartitionModifications
from klamm.statemachines.replica_state import ReplicaState
from klamm.zk.store import (
    Delete,
    GetChildren,
    ReadOp,
    ReadResult,
    Transaction,
    TxnResult,
    WatchEvent,
    WatchKind,
)
from klamm.zk.znodes import TopicPartitionStateZNode
from tests.unit.controller.cluster import Cluster

T0 = TopicPartition("t", 0)
PREFIX = "kafka_controller_KafkaController_"


@pytest.fixture
def cluster(cluster: Cluster) -> Cluster:
    cluster.create_topic("t", (1, 2), (2, 1))
    cluster.forget()
    return cluster


def mark(cluster: Cluster, *topics: str) -> None:
    """Ask for the deletion of topics and process what follows."""
    for topic in topics:
        assert cluster.admin.create_delete_topic_path(topic)
    cluster.run()


def is_there(cluster: Cluster, topic: str = "t") -> bool:
    return topic in cluster.admin.get_all_topics_in_cluster()


def count_of_deletions(cluster: Cluster) -> list[int]:
    """Topics and replicas to be deleted, and how many of either are halted."""
    gauges = cluster.active.metrics.gauges()
    return [gauges[f"{what}{how}ToDeleteCount"] for how in ("", "Ineligible") for what in _WHAT]


_WHAT = ("Topics", "Replicas")


def test_a_deletion_from_the_request_to_the_last_znode(cluster: Cluster) -> None:
    topic_id = cluster.active.context.topic_ids["t"]
    mark(cluster, "t")
    assert not is_there(cluster)
    assert cluster.admin.get_topic_deletions() == []
    steps = [">Offline", ">DeletionStarted", ">DeletionSuccessful", ">NonExistent"]
    assert [m for m in cluster.moves(Kind.REPLICA_TRANSITION) if m.startswith("t-0 r1")] == [
        f"t-0 r1 {before}{after}"
        for before, after in zip(["Online", *(step[1:] for step in steps)], steps, strict=False)
    ]
    assert [row.detail for row in cluster.rows(Kind.TOPIC_DELETED)] == [topic_id]
    assert len(cluster.rows(Kind.TOPIC_DELETION_STARTED)) == 1
    assert count_of_deletions(cluster) == [0, 0, 0, 0]
    changed = WatchEvent(WatchKind.DATA_CHANGED, "/brokers/topics/t")
    assert cluster.active.watches.event_of(changed) is None
    cluster.assert_nothing_failed()


def test_only_the_answer_to_a_delete_counts(cluster: Cluster) -> None:
    """KAFKA-9946: a broker that has stopped a replica has not deleted it."""
    cluster.brokers[1].is_silent = True
    mark(cluster, "t")
    context, channels = cluster.active.context, cluster.active.channels
    stop = channels._channels[1].in_flight
    while stop is not None and not isinstance(stop.request, StopReplicaRequest):
        _answer(cluster, stop.correlation_id, Errors.NONE)
        stop = channels._channels[1].in_flight
    assert stop is not None
    assert isinstance(stop.request, StopReplicaRequest)
    assert not any(state.delete_partition for state in stop.request.partition_states)
    _answer(cluster, stop.correlation_id, Errors.NONE)
    assert context.replica_state(1, T0) is ReplicaState.DELETION_STARTED
    assert context.replica_state(2, T0) is ReplicaState.DELETION_SUCCESSFUL
    deleting = channels._channels[1].in_flight
    assert deleting is not None
    _answer(cluster, deleting.correlation_id, Errors.NONE)
    assert not is_there(cluster)


def _answer(cluster: Cluster, number: int, error: Errors) -> None:
    named = dict.fromkeys([T0, TopicPartition("t", 1)], error)
    body = StopReplicaResponse(Errors.NONE, named)
    message = Message(Address("broker", 1), Address("controller", 0), number, body)
    cluster.active.receive(message)
    cluster.run()


def test_a_replica_on_a_failed_directory_halts_its_topic_until_the_broker_restarts(
    cluster: Cluster,
) -> None:
    cluster.create_topic("u", (1, 2))
    cluster.brokers[1].failed_dirs = {T0}
    mark(cluster, "t", "u")
    assert is_there(cluster)
    assert not is_there(cluster, "u")
    assert cluster.active.context.replica_state(1, T0) is ReplicaState.OFFLINE
    assert count_of_deletions(cluster) == [1, 1, 1, 0]
    assert [row.outcome for row in cluster.rows(Kind.TOPIC_DELETION_HALTED)] == [
        "replica deletion failure"
    ]
    cluster.stop(1)
    assert is_there(cluster)
    cluster.start(1)
    assert not is_there(cluster)
    cluster.assert_nothing_failed()


def test_a_replica_that_could_not_be_deleted_is_offline_again(cluster: Cluster) -> None:
    (u0,) = cluster.create_topic("u", (1,))
    cluster.brokers[1].failed_dirs = {u0}
    mark(cluster, "u")
    assert cluster.active.context.replica_state(1, u0) is ReplicaState.OFFLINE
    assert count_of_deletions(cluster) == [1, 1, 1, 0]


def test_a_stop_that_failed_as_a_whole_has_deleted_nothing(cluster: Cluster) -> None:
    cluster.brokers[1].error = Errors.STALE_CONTROLLER_EPOCH
    mark(cluster, "t")
    assert is_there(cluster)
    halted = cluster.rows(Kind.TOPIC_DELETION_HALTED)
    assert {row.outcome for row in halted} == {"replica deletion failure"}


def test_a_deleted_topic_takes_no_malformed_znode_of_a_similar_name_with_it(
    cluster: Cluster,
) -> None:
    cluster.admin.create("/brokers/topics/tt", b"?")
    cluster.run()
    cluster.write_state(T0, b"?")
    cluster.stop(2)
    cluster.start(2)
    assert len(cluster.active.malformed) == 2
    mark(cluster, "t")
    assert not is_there(cluster)
    assert list(cluster.active.malformed) == ["/brokers/topics/tt"]
    reported = [row.detail for row in cluster.rows(Kind.ZNODE_MALFORMED)]
    assert reported.count("/brokers/topics/tt") == 1


def test_a_halted_deletion_is_not_tried_when_a_reassignment_of_another_topic_ends(
    cluster: Cluster,
) -> None:
    (u0,) = cluster.create_topic("u", (0, 1))
    cluster.stop(2)
    mark(cluster, "t")
    cluster.forget()
    cluster.reassign({u0: (1, 0)})
    assert cluster.active.context.partition_replica_assignment(u0) == (1, 0)
    assert not cluster.rows(Kind.TOPIC_DELETION_HALTED)
    assert cluster.active.context.topics_ineligible_for_deletion == {"t"}


def test_a_request_is_taken_away_if_its_topic_vanishes_while_it_waits_for_a_reassignment(
    cluster: Cluster,
) -> None:
    cluster.brokers[0].is_silent = True
    cluster.reassign({T0: (0, 1)})
    mark(cluster, "t")
    assert cluster.active.context.topics_waiting_for_reassignment == {"t"}
    cluster.admin.delete_recursive("/brokers/topics/t")
    cluster.run()
    assert cluster.admin.get_topic_deletions() == []


def test_znodes_of_a_vanished_topic_that_cannot_be_deleted_are_logged(cluster: Cluster) -> None:
    cluster.brokers[1].is_silent = True
    mark(cluster, "t")
    cluster.admin.delete_recursive("/brokers/topics/t")
    children = itertools.count()

    def create_again(_: int, op: ReadOp | Transaction) -> None:
        if isinstance(op, list) and op[-1] == Delete("/brokers/topics/t"):
            cluster.admin.create_recursive(f"/brokers/topics/t/{next(children)}")

    cluster.server.before_op = create_again
    cluster.run()
    assert (
        "Error while deleting topic t: KeeperErrorCode = Directory not empty for /brokers/topics/t"
        in cluster.controller_logs[0].getvalue()
    )


def test_a_halted_deletion_is_reported_once_by_each_controller(cluster: Cluster) -> None:
    (u0,) = cluster.create_topic("u", (0, 1))
    cluster.brokers[1].is_silent = True
    cluster.stop(2)
    cluster.admin.create_partition_reassignment({u0: (1, 2)})
    mark(cluster, "t", "u")
    mark(cluster, "nowhere")
    halted = cluster.rows(Kind.TOPIC_DELETION_HALTED)
    assert [(row.topic, row.outcome) for row in halted] == [
        ("u", "topic reassignment in progress"),
        ("t", "offline replicas"),
    ]
    cluster.forget()
    cluster.admin.delete("/controller")
    cluster.run()
    halted = cluster.rows(Kind.TOPIC_DELETION_HALTED)
    assert [(row.topic, row.outcome) for row in halted] == [
        ("u", "topic reassignment in progress"),
        ("t", "offline replicas"),
    ]


def test_a_broker_that_is_shutting_down_is_notified_of_the_deletion(cluster: Cluster) -> None:
    cluster.active.context.add_shutting_down_broker(0)
    assert cluster.brokers[0].leader_of(T0) == 1
    mark(cluster, "t")
    assert cluster.brokers[0].leader_of(T0) == LEADER_DURING_DELETE


def test_requests_for_unknown_topics_are_taken_away(cluster: Cluster) -> None:
    mark(cluster, "nowhere")
    assert cluster.admin.get_topic_deletions() == []
    assert is_there(cluster)
    assert "Ignoring request to delete non-existing topics nowhere" in (
        cluster.controller_logs[0].getvalue()
    )


def test_if_deletion_is_disabled_no_topic_is_deleted_neither_now_nor_at_a_failover() -> None:
    cluster = Cluster(delete_topic_enable=False).start(0, 1, 2)
    cluster.create_topic("t", (1, 2))
    mark(cluster, "t")
    assert cluster.admin.get_topic_deletions() == []
    # The second is the event of the request's own removal.
    assert re.findall(r"INFO (.*) Removing (.*) since", cluster.controller_logs[0].getvalue()) == [
        ("[Topic Deletion Manager 0]", "Set()"),
        ("[Controller id=0]", "Set(t)"),
        ("[Controller id=0]", "Set()"),
    ]
    state = cluster.state(T0)
    cluster.kill_broker(0)
    assert cluster.admin.create_delete_topic_path("t")
    cluster.start(0)
    assert cluster.admin.get_topic_deletions() == []
    assert cluster.state(T0) == state
    cluster.assert_nothing_failed()


def test_a_failover_of_a_topic_whose_znode_is_gone_already_ends_the_deletion(
    cluster: Cluster,
) -> None:
    cluster.kill_broker(0)
    cluster.admin.delete_recursive("/brokers/topics/t")
    cluster.admin.create_delete_topic_path("t")
    cluster.start(0)
    assert cluster.admin.get_topic_deletions() == []
    assert cluster.admin.get_all_entities_with_config("topics") == []
    cluster.assert_nothing_failed()


def create_below(cluster: Cluster, times: int) -> list[str]:
    """As often as the controller looks below a partition, up to ``times``, create a znode there."""
    created: list[str] = []

    def after_op(_: int, op: ReadOp | Transaction, __: ReadResult | TxnResult) -> None:
        parent = "/brokers/topics/t/partitions/0"
        if isinstance(op, GetChildren) and op.path == parent and len(created) < times:
            created.append(f"{parent}/late{len(created)}")
            cluster.admin.create(created[-1])

    cluster.server.after_op = after_op
    return created


def test_znodes_that_appear_below_a_topic_while_it_is_deleted_are_deleted_too(
    cluster: Cluster,
) -> None:
    created = create_below(cluster, 1)
    mark(cluster, "t")
    assert len(created) == 1
    assert not is_there(cluster)
    assert cluster.admin.get_topic_deletions() == []
    cluster.assert_nothing_failed()


def test_znodes_that_cannot_be_deleted_keep_no_other_topic_and_are_tried_again(
    cluster: Cluster,
) -> None:
    cluster.create_topic("u", (1,))
    create_below(cluster, 1000)
    mark(cluster, "t", "u")
    assert not is_there(cluster, "u")
    assert cluster.admin.get_topic_deletions() == ["t"]
    halted = cluster.rows(Kind.TOPIC_DELETION_HALTED)[-1]
    assert halted.outcome is not None
    assert "/brokers/topics/t" in halted.outcome
    # A change of the znode that was seen before its watch was given up.
    cluster.add_partitions("t", (1, 2), (2, 1), (0, 1))
    cluster.active.events.put(PartitionModifications("t"))
    cluster.run()
    found = cluster.admin.get_topic_assignments(["t"]).values["t"]
    assert all(assignment.replicas for assignment in found.assignment.values())
    cluster.server.after_op = None
    mark(cluster, "nowhere")
    assert cluster.admin.get_all_topics_in_cluster() == []
    assert cluster.admin.get_topic_deletions() == []
    cluster.assert_nothing_failed()


def test_batches_do_not_grow_with_the_topics() -> None:
    def batches_for(topics: int) -> int:
        cluster = Cluster().start(0, 1, 2)
        names = [f"t{number}" for number in range(topics)]
        cluster.paused.add(0)
        for name in names:
            cluster.create_topic(name, *[(1, 2)] * 5)
        cluster.resume()
        store = cluster.stores[0]
        batches: list[int] = []
        for name in ("read", "write"):
            setattr(store, name, _counted(getattr(store, name), batches))
        cluster.paused.add(0)
        mark(cluster, *names)
        cluster.resume()
        assert cluster.admin.get_all_topics_in_cluster() == []
        return len(batches)

    assert batches_for(30) <= batches_for(2) + 2


def _counted(call: Callable[[Sequence[object]], object], batches: list[int]) -> object:
    def counted(ops: Sequence[object]) -> object:
        batches.append(len(ops))
        return call(ops)

    return counted


def test_a_topic_whose_state_znodes_are_gone_is_deleted_without_their_leaders(
    cluster: Cluster,
) -> None:
    context = cluster.active.context
    cluster.stop(2)
    cluster.admin.delete(TopicPartitionStateZNode.path(T0))
    mark(cluster, "t")
    assert context.topics_ineligible_for_deletion == {"t"}
    assert T0 not in context.leaderships
    assert TopicPartition("t", 1) in context.leaderships
    cluster.start(2)
    assert not is_there(cluster)
    assert "t" not in context.all_topics
    cluster.assert_nothing_failed()
