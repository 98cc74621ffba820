"""Election, failover and resignation: who decides, in which order, and who may not write."""

from __future__ import annotations

import copy

import msgspec
import pytest

from klamm.cluster.errors import ControllerMoved
from klamm.cluster.journal import Kind
from klamm.cluster.quirks import Quirks
from klamm.cluster.requests import (
    AlterPartitionReassignmentsRequest,
    LeaderAndIsrRequest,
    UpdateMetadataRequest,
)
from klamm.cluster.types import (
    NO_CONTROLLER,
    NO_LEADER,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from klamm.controller.events import AutoPreferredReplicaLeaderElection
from klamm.controller.watches import Watches
from klamm.statemachines.replica_state import ReplicaState
from klamm.zk.memory_store import LostReply
from klamm.zk.store import (
    Create,
    GetData,
    ReadOp,
    ReadResult,
    Transaction,
    TxnResult,
    WatchEvent,
    WatchKind,
)
from klamm.zk.znodes import ControllerZNode, TopicPartitionStateZNode
from tests.unit.controller.cluster import Cluster

ALL = (0, 1, 2)
CHECK = AutoPreferredReplicaLeaderElection()
F = "/feature"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster().start(*ALL, candidates=ALL)


def names(requests: list[object]) -> list[str]:
    return [type(request).__name__.removesuffix("Request") for request in requests]


def test_the_first_broker_becomes_the_controller(cluster: Cluster) -> None:
    controller = cluster.active
    assert controller.config.broker_id == 0
    assert (controller.context.epoch, controller.context.epoch_zk_version) == (1, 1)
    assert [c.active_controller_id for c in cluster.controllers.values()] == [0, 0, 0]
    assert cluster.admin.get_controller_epoch() == (1, 1)
    assert cluster.admin.get_data_and_stat("/feature") is not None
    kinds = [row.kind for row in cluster.journal.rows[:3]]
    assert kinds == [Kind.CONTROLLER_ELECTED, Kind.CONTROLLER_READY, Kind.EVENT]


def test_a_controller_is_active_from_the_event_that_elected_it() -> None:
    cluster = Cluster()
    cluster.start_broker(0, is_candidate=True)
    controller = cluster.controllers[0]
    assert controller.step()
    assert controller.is_active
    assert controller.has_unsent_requests is False
    machines = (controller.partition_state_machine, controller.replica_state_machine)
    for batch in (controller.batch, *(machine.batch for machine in machines)):
        batch.add_update_metadata_request_for_brokers([0], ())
        assert controller.has_unsent_requests
        batch.clear()


@pytest.mark.parametrize("is_lost", [True, False], ids=["reply lost", "created by another"])
def test_a_feature_znode_that_appears_during_a_failover_is_no_failure(is_lost: bool) -> None:
    cluster = Cluster()

    def is_creation(op: ReadOp | Transaction) -> bool:
        return isinstance(op, list) and any(isinstance(o, Create) and o.path == F for o in op)

    def before(_: int, op: ReadOp | Transaction) -> None:
        if is_creation(op):
            cluster.server.before_op = None
            cluster.admin.create(F)

    def after(_: int, op: ReadOp | Transaction, __: ReadResult | TxnResult) -> None:
        if is_creation(op):
            cluster.server.after_op = None
            raise LostReply

    if is_lost:
        cluster.server.after_op = after
    else:
        cluster.server.before_op = before
    cluster.start(0)
    assert cluster.server.after_op is cluster.server.before_op is None
    assert cluster.active.context.epoch == 1
    cluster.assert_nothing_failed()


@pytest.mark.parametrize(
    ("status", "levels", "is_odd"),
    [
        (0, b'{"f":{"min_version_level":1,"max_version_level":2}}', True),
        (1, b'{"f":{"min_version_level":1,"max_version_level":2}}', False),
        (0, b"{}", False),
        (1, b"{}", False),
    ],
)
def test_features_that_are_disabled_and_yet_there_are_logged(
    status: int, levels: bytes, is_odd: bool
) -> None:
    cluster = Cluster()
    cluster.admin.create(F, b'{"version":1,"status":%d,"features":%b}' % (status, levels))
    cluster.start(0)
    odd = (
        "FeatureZNode at path: /feature with disabled status contains non-empty features: "
        "Features{(f -> FinalizedVersionRange[min_version_level:1, max_version_level:2])}"
    )
    assert cluster.logged("disabled status") == [odd] * is_odd
    updated = len(cluster.logged("Updating FeatureZNode at path: /feature with"))
    assert updated == (status == 0)


def test_only_the_controller_is_notified_of_a_topic_that_allows_unclean_elections(
    cluster: Cluster,
) -> None:
    cluster.paused.update(ALL)
    for topic, queued in (("t", [1, 0, 0]), (None, [2, 1, 1])):
        for controller in cluster.controllers.values():
            controller.enable_unclean_leader_election(topic)
        assert [c.events.event_queue_size for c in cluster.controllers.values()] == queued


def test_a_candidate_that_takes_over_replaces_the_controller(cluster: Cluster) -> None:
    cluster.start_broker(3, is_candidate=True)
    controller = cluster.controllers[3]
    controller.config = msgspec.structs.replace(controller.config, takes_over=True)
    cluster.run()
    assert cluster.active is controller


def test_a_quiet_move_writes_no_partition(cluster: Cluster) -> None:
    t0, t1 = cluster.create_topic("t", (0, 1, 2), (1, 2, 0))
    cluster.paused.add(0)
    cluster.forget()
    cluster.fail_over()
    cluster.resume()
    assert cluster.active.config.broker_id == 1
    assert cluster.active.context.epoch == 2
    assert cluster.state(t0) == LeaderAndIsr(0, 0, (0, 1, 2), 0)
    assert cluster.state(t1) == LeaderAndIsr(1, 0, (1, 2, 0), 0)
    assert not cluster.moves()
    moves = {move.split()[-1] for move in cluster.moves(Kind.REPLICA_TRANSITION)}
    assert moves == {"Online>Online"}
    first = cluster.journal.rows[0]
    assert (first.kind, first.epoch, first.seq) == (Kind.CONTROLLER_ELECTED, 2, 1)
    snapshots = cluster.rows(Kind.PARTITION_SNAPSHOT)
    assert [(s.partition, s.to, s.leader, s.key_seq) for s in snapshots] == [
        (0, "OnlinePartition", 0, 1),
        (1, "OnlinePartition", 1, 1),
    ]
    cluster.assert_nothing_failed()


def test_a_controller_that_ended_before_any_candidate_watched_it_is_replaced(
    cluster: Cluster,
) -> None:
    cluster.paused.add(0)
    cluster.admin.set_data(ControllerZNode.path, ControllerZNode.encode(0, 1))
    cluster.fail_over()
    assert cluster.active_among(1, 2)
    assert cluster.admin.get_controller_epoch() == (2, 2)


def test_brokers_get_the_live_brokers_first_and_then_all_partitions(cluster: Cluster) -> None:
    cluster.create_topic("t", (0, 1, 2), (1, 2, 0))
    cluster.forget()
    cluster.stop(0)
    requests = cluster.brokers[2].requests
    assert names(requests) == [
        *("UpdateMetadata", "LeaderAndIsr", "UpdateMetadata"),  # who lives; replicas Online
        *("LeaderAndIsr", "UpdateMetadata"),  # replicas of the dead broker Offline
        *("LeaderAndIsr", "UpdateMetadata"),  # partitions Online
    ]
    first, everything = requests[0], requests[1]
    assert isinstance(first, UpdateMetadataRequest)
    assert not first.partition_states
    assert [b.id for b in first.live_brokers] == [1, 2]
    assert isinstance(everything, LeaderAndIsrRequest)
    assert len(everything.partition_states) == 2
    assert everything.controller_epoch == 2


def test_partitions_led_by_the_dead_controller_cost_two_epochs(cluster: Cluster) -> None:
    led, followed = cluster.create_topic("t", (0, 1, 2), (1, 2, 0))
    cluster.forget()
    cluster.stop(0)
    assert cluster.state(led) == LeaderAndIsr(1, 2, (1, 2), 2)
    assert cluster.state(followed) == LeaderAndIsr(1, 1, (1, 2), 1)
    assert cluster.moves() == ["t-0 Offline>Online"]
    offline = [m for m in cluster.moves(Kind.REPLICA_TRANSITION) if " r0 " in m]
    assert offline == ["t-0 r0 DeletionIneligible>Offline", "t-1 r0 DeletionIneligible>Offline"]
    since = {row.since_ms for row in cluster.rows(Kind.REPLICA_TRANSITION)}
    assert since == {cluster.clock.now_ms()}
    assert cluster.active.context.replica_state(0, led) is ReplicaState.OFFLINE
    cluster.assert_nothing_failed()


def test_an_offline_partition_costs_an_epoch_at_every_failover(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (2,))
    cluster.stop(2)
    assert cluster.state(tp) == LeaderAndIsr(NO_LEADER, 1, (2,), 1)
    cluster.fail_over()
    assert cluster.state(tp) == LeaderAndIsr(NO_LEADER, 2, (2,), 2)


def test_a_resigned_controller_knows_nothing(cluster: Cluster) -> None:
    old = cluster.active
    cluster.brokers[2].is_silent = True
    cluster.create_topic("t", (0, 1, 2))
    assert old.events.next_due_ms() == 5_000
    cluster.paused.add(0)
    cluster.fail_over()
    cluster.resume()
    assert not old.is_active
    assert not old.context.all_topics
    assert not old.context.leaderships
    assert not old.channels.broker_ids
    assert old.events.next_due_ms() is None
    assert old.context.epoch == 0
    assert old.metrics.gauges()["GlobalTopicCount"] == 0
    (resigned,) = cluster.rows(Kind.CONTROLLER_RESIGNED)
    assert (resigned.controller, resigned.epoch) == (0, 1)
    # Its watches are still armed in ZooKeeper; they mean nothing to it.
    cluster.paused.add(0)
    cluster.create_topic("u", (1,))
    cluster.add_partitions("t", (0, 1, 2), (1,))
    assert old.events.event_queue_size == 0


def depose(cluster: Cluster) -> None:
    """Broker 0 has a BrokerChange before it hears that broker 1 is the controller."""
    cluster.create_topic("t", (2, 0, 1))
    cluster.paused.add(0)
    cluster.kill_broker(2)
    cluster.fail_over()
    assert cluster.active_among(1)


def test_a_deposed_controller_writes_nothing(cluster: Cluster) -> None:
    depose(cluster)
    tree = copy.deepcopy(cluster.server.tree)
    requests = len(cluster.brokers[1].requests)
    cluster.resume()
    assert [(p, n.data, n.stat()) for p, n in cluster.server.tree.items()] == [
        (p, n.data, n.stat()) for p, n in tree.items()
    ]
    assert len(cluster.brokers[1].requests) == requests
    (moved,) = cluster.rows(Kind.CONTROLLER_MOVED)
    assert (moved.controller, moved.epoch, moved.detail) == (0, 1, "BrokerChange")
    assert cluster.logged("when processing") == [
        "Controller moved to another broker when processing BrokerChange."
    ]
    cluster.assert_nothing_failed()


def test_a_batch_is_empty_after_the_fence_failed(cluster: Cluster) -> None:
    depose(cluster)
    cluster.resume()
    assert cluster.controllers[0].replica_state_machine.batch.is_empty
    cluster.stop(1)
    (tp,) = cluster.create_topic("u", (0,))
    assert cluster.state(tp).leader == 0
    assert cluster.brokers[0].leader_of(tp) == 0
    cluster.assert_nothing_failed()


def test_requests_that_are_left_in_a_batch_cost_one_election_and_are_not_sent(
    cluster: Cluster,
) -> None:
    controller = cluster.active
    cluster.paused.update((1, 2))
    controller.batch.add_stop_replica_request_for_brokers([0], TopicPartition("t", 0), True)
    cluster.forget()
    cluster.start(3)
    assert cluster.controller_logs[0].getvalue().count("Forcing the controller to resign") == 1
    assert not cluster.rows(Kind.EVENT_FAILED), "no controller wrote a row when the event failed"
    assert (controller.is_active, controller.context.epoch) == (True, 2)
    (tp,) = cluster.create_topic("u", (0,))
    assert cluster.brokers[0].leader_of(tp) == 0
    assert "StopReplica" not in names(cluster.brokers[0].requests)


@pytest.mark.parametrize(
    ("path", "data"), [("/controller_epoch", b"7"), ("/controller", ControllerZNode.encode(5, 0))]
)
def test_a_controller_that_has_moved_already_is_not_moved_by_an_error(
    cluster: Cluster, path: str, data: bytes
) -> None:
    controller = cluster.active
    cluster.paused.update((0, 1, 2))
    cluster.start(3)
    cluster.admin.set_data(path, data)
    controller.batch.add_stop_replica_request_for_brokers([0], TopicPartition("t", 0), True)
    assert controller.step()
    assert not controller.is_active
    assert cluster.logged("Controller has already moved") == [
        "Controller has already moved when trying to trigger controller movement"
    ]
    assert cluster.admin.get_controller_id() is not None


@pytest.mark.parametrize(
    ("path", "data", "reason"),
    [
        ("/controller", b"{}", "No such field exists: `brokerid`"),
        ("/controller_epoch", b"x", 'For input string: "x"'),
    ],
)
def test_a_malformed_znode_that_prevents_an_election_is_named(
    path: str, data: bytes, reason: str
) -> None:
    cluster = Cluster()
    cluster.admin.create(path, data)
    cluster.start(0)
    assert f"malformed znode {path}: {reason}" in cluster.controller_logs[0].getvalue()


@pytest.mark.parametrize(
    ("is_deleted", "text"),
    [
        (False, "Broker 5 was elected as controller instead of broker 0"),
        (True, "A controller has been elected but just resigned, this will result in another"),
    ],
)
def test_an_election_that_another_wins_is_logged(is_deleted: bool, text: str) -> None:
    cluster, reads = Cluster(), 0

    def before(_: int, op: ReadOp | Transaction) -> None:
        nonlocal reads
        if isinstance(op, GetData) and op.path == ControllerZNode.path:
            reads += 1
        elif isinstance(op, list) and any(isinstance(o, Create) for o in op) and reads == 1:
            reads += 1
            cluster.admin.create(ControllerZNode.path, ControllerZNode.encode(5, 0))
        if reads == 4 and is_deleted:
            cluster.server.before_op = None
            cluster.admin.delete(ControllerZNode.path)

    cluster.server.before_op = before
    cluster.start(0)
    assert len(cluster.logged(text)) == 1
    assert cluster.active_among(0) is is_deleted


def test_watches_that_were_cleared_mean_nothing_to_the_next_term() -> None:
    tp = TopicPartition("t", 0)
    watches = Watches({})
    paths = ("/brokers/ids/1", "/brokers/topics/t", TopicPartitionStateZNode.path(tp))
    fired = [WatchEvent(WatchKind.DATA_CHANGED, path) for path in paths]
    watches.activate()
    watches.brokers.add(1)
    watches.topics.add("t")
    watches.register_reassigned([tp])
    assert None not in map(watches.event_of, fired)
    watches.clear()
    watches.activate()
    assert [watches.event_of(event) for event in fired] == [None] * 3


def test_kafka_12315_never_sends_again() -> None:
    cluster = Cluster(Quirks(kafka_12315=True)).start(0, 1, 2, candidates=ALL)
    controller = cluster.active
    (tp,) = cluster.create_topic("t", (0, 2))
    cluster.kill_broker(2)
    fence = controller.context.epoch_zk_version
    controller.context.epoch_zk_version = fence + 5
    with pytest.raises(ControllerMoved):
        controller.replica_state_machine.handle_state_changes({2: [tp]}, ReplicaState.OFFLINE)
    controller.context.epoch_zk_version = fence
    cluster.forget()
    cluster.run()
    assert not any(isinstance(r, LeaderAndIsrRequest) for r in cluster.brokers[0].requests)
    assert "batch is not empty" in cluster.controller_logs[0].getvalue()
    cluster.forget()
    cluster.start(2)
    assert not any(isinstance(r, LeaderAndIsrRequest) for r in cluster.brokers[2].requests)


def test_a_failover_that_breaks_gives_controller_up() -> None:
    cluster = Cluster(Quirks(malformed_znode_fails_the_event=True)).start(0, candidates=ALL)
    cluster.admin.create("/brokers/topics/t", b"")
    cluster.run()
    cluster.admin.delete(ControllerZNode.path)
    controller = cluster.controllers[0]
    while "Trigger controller movement" not in cluster.controller_logs[0].getvalue():
        assert controller.step()
    assert not controller.is_active
    assert controller.active_controller_id == NO_CONTROLLER
    assert controller.context.epoch == 0
    failed = cluster.rows(Kind.EVENT_FAILED)[-1]
    assert failed.detail == "failover"
    assert "malformed" in (failed.outcome or "").lower()
    epochs = [row.epoch for row in cluster.rows(Kind.CONTROLLER_ELECTED)]
    for _ in range(60):
        cluster.advance(1_000)
    # As real Kafka does: elections until the znode is removed, but with pauses.
    assert len(cluster.rows(Kind.CONTROLLER_ELECTED)) > len(epochs) + 5
    cluster.admin.delete("/brokers/topics/t")
    cluster.advance(10_000)
    assert cluster.active is controller


def test_a_failover_elects_a_replica_that_another_client_took_out_of_the_assignment() -> None:
    cluster = Cluster().start(0, 1, 2, 3)
    (tp,) = cluster.create_topic("t", (1, 2))
    topic = cluster.admin.get_topic_assignments(["t"]).values["t"]
    cluster.kill_broker(0)
    cluster.kill_broker(1)
    edited = {tp: ReplicaAssignment((3,))}
    cluster.admin.set_topic_assignment("t", topic.topic_id, edited)
    cluster.start(0)
    assert cluster.state(tp).leader == 2
    assert cluster.active.context.assignments[tp] == ReplicaAssignment((3, 1, 2), (), (1, 2))
    cluster.assert_nothing_failed()


@pytest.mark.parametrize("by_znode", [True, False], ids=["znode", "request"])
def test_a_failover_resumes_a_reassignment_once(cluster: Cluster, by_znode: bool) -> None:
    (tp,) = cluster.create_topic("t", (0, 1))
    if by_znode:
        cluster.admin.create_partition_reassignment({tp: (1, 2)})
    else:
        cluster.ask(0, AlterPartitionReassignmentsRequest({tp: (1, 2)}))
    cluster.run()
    epoch = cluster.state(tp).leader_epoch
    cluster.forget()
    cluster.fail_over()
    assert [row.to for row in cluster.rows(Kind.REASSIGNMENT_PHASE)] == ["A1", "A2"]
    assert cluster.state(tp).leader_epoch == epoch + 1


def test_work_of_all_kinds_is_resumed_in_kafkas_order(cluster: Cluster) -> None:
    cluster.create_topic("deleted", (1, 2))
    (moved,) = cluster.create_topic("moved", (0, 1))
    (led,) = cluster.create_topic("led", (1, 2))
    other = LeaderAndIsr(2, 1, (1, 2))
    cluster.write_state(led, TopicPartitionStateZNode.encode(other, 1))
    cluster.kill_broker(0)
    cluster.admin.create_partition_reassignment({moved: (1, 2)})
    cluster.admin.create_delete_topic_path("deleted")
    cluster.admin.create_preferred_replica_election([led])
    cluster.forget()
    cluster.run()
    kinds = (Kind.REASSIGNMENT_PHASE, Kind.TOPIC_DELETION_STARTED, Kind.PARTITION_TRANSITION)
    begun = dict.fromkeys(
        row.topic for row in cluster.rows(*kinds) if row.topic != "moved" or row.to == "U1"
    )
    assert list(begun) == ["moved", "deleted", "led"]


@pytest.mark.parametrize(("is_enabled", "due_ms"), [(True, 5_000), (False, None)])
def test_the_first_check_of_leaders_is_due_5_s_after_a_failover_if_it_is_enabled(
    is_enabled: bool, due_ms: float | None
) -> None:
    cluster = Cluster()
    cluster.start_broker(0, is_candidate=True)
    controller = cluster.controllers[0]
    controller.config = msgspec.structs.replace(
        controller.config, auto_leader_rebalance_enable=is_enabled
    )
    cluster.run()
    cluster.advance(0)
    assert controller.is_active
    due = [timer[0] for timer in controller.events._timers if timer[2] == CHECK]
    assert due == ([] if due_ms is None else [due_ms])


def test_a_reassignment_asked_for_again_is_begun_by_the_controller_that_knew_the_first(
    cluster: Cluster,
) -> None:
    (tp,) = cluster.create_topic("t", (0, 1))
    target = {tp: (1, 2)}
    cluster.reassign(target)
    assert tp in cluster.controllers[0].context.partitions_being_reassigned
    cluster.paused.add(0)
    cluster.fail_over()
    cluster.ask(1, AlterPartitionReassignmentsRequest({tp: None}))
    cluster.resume()
    assert not cluster.admin.reassign_partitions_in_progress()
    cluster.paused.update((1, 2))
    cluster.admin.delete(ControllerZNode.path)
    cluster.reassign(target)
    assert cluster.controllers[0].context.partitions_being_reassigned == {tp}


def test_shutdown_resigns_and_processes_nothing_more(cluster: Cluster) -> None:
    controller = cluster.active
    controller.shutdown()
    cluster.run()
    assert controller.is_shut_down
    assert not controller.is_active
    assert controller.active_controller_id == NO_CONTROLLER
    assert len(cluster.rows(Kind.CONTROLLER_RESIGNED)) == 1
    assert not controller.channels.broker_ids
    cluster.create_topic("t", (1,))
    assert not controller.context.all_topics
    cluster.paused.update(ALL)
    cluster.admin.delete(ControllerZNode.path)
    assert controller.events.event_queue_size == 0
    controller.on_candidacy_changed()
    cluster.paused.remove(0)
    cluster.run()
    assert not controller.is_active


def test_a_controller_that_was_not_elected_logs_that_it_resigns_at_its_shutdown(
    cluster: Cluster,
) -> None:
    broker_id = max(set(cluster.controllers) - {cluster.active.config.broker_id})
    cluster.controllers[broker_id].shutdown()
    cluster.run()
    assert f"[Controller id={broker_id}] Resigned" in cluster.controller_logs[broker_id].getvalue()
    assert cluster.rows(Kind.CONTROLLER_RESIGNED) == []


def test_stale_notifications_and_elections_are_removed(cluster: Cluster) -> None:
    cluster.kill_broker(0)
    cluster.admin.propagate_isr_changes([])
    cluster.admin.propagate_log_dir_event(1)
    cluster.admin.create("/admin/preferred_replica_election", b"{}")
    cluster.run()
    assert not cluster.admin.get_children("/isr_change_notification")
    assert not cluster.admin.get_children("/log_dir_event_notification")
    assert not cluster.admin.path_exists("/admin/preferred_replica_election")


def test_a_quiet_controller_can_be_copied(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (0, 1))
    twin = copy.deepcopy(cluster)
    twin.stop(1)
    assert twin.state(tp).isr == (0,)
    assert cluster.state(tp).isr == (0, 1)
    cluster.assert_nothing_failed()
    twin.assert_nothing_failed()
