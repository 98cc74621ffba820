"""Log directories that fail: their replicas go offline, the rest of the broker goes on."""

from __future__ import annotations

import json

import pytest

from klamm.brokers.status import broker_counts
from klamm.cli.status import work_lines
from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import Kind
from klamm.cluster.quirks import Quirks
from klamm.cluster.requests import LeaderAndIsrRequest, LeaderAndIsrResponse
from klamm.cluster.types import TopicPartition
from klamm.controller.status import controller_status
from klamm.lab.checks.agreement import check_simulated_world
from klamm.statemachines.replica_state import ReplicaState
from klamm.world.explain.explain import explain_partition
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import Crashed
from klamm.zk.store import Create, Delete, ReadOp, ReadResult, Transaction, TxnResult
from tests.sim.log_dirs import (
    CONFIG,
    T0,
    T1,
    T2,
    alter_dirs,
    described,
    dir_of,
    fail,
    notices,
    on_three_dirs,
)
from tests.sim.reassignments import alter, assert_settled
from tests.sim.worlds import active_controller, create_topic, state_of, three_brokers

NEW = TopicPartition("new", 0)
ROOT = "/log_dir_event_notification"


def assert_at_rest(world: SimulatedWorld) -> None:
    """Everybody agrees, also on which directories failed, and no notice is left."""
    assert world.errors == []
    assert check_simulated_world(world) == []
    assert notices(world) == []


def leader_and_isr(world: SimulatedWorld, tp: TopicPartition) -> tuple[int, tuple[int, ...], int]:
    """Leader, sorted ISR, leader epoch."""
    state = state_of(world, *tp)
    return state.leader, tuple(sorted(state.isr)), state.leader_epoch


def offline_replicas(world: SimulatedWorld, broker_id: int) -> list[TopicPartition]:
    """The replicas of a broker that the controller takes for offline."""
    states = active_controller(world).context.replica_states[broker_id]
    return sorted(tp for tp, state in states.items() if state is ReplicaState.OFFLINE)


def test_where_the_leader_is_lost_another_replica_in_sync_leads() -> None:
    world = on_three_dirs(1, 0, 2)
    fail(world, 1, "d1")
    assert leader_and_isr(world, T0) == (1, (0, 1, 2), 0)
    assert leader_and_isr(world, T1) == (0, (0, 2), 1)
    assert leader_and_isr(world, T2) == (1, (0, 1, 2), 0)
    assert offline_replicas(world, 1) == [T1]
    assert broker_counts(world.nodes[1].node.broker).offline == 1
    assert_at_rest(world)


def test_a_follower_that_is_lost_leaves_the_isr() -> None:
    world = on_three_dirs(0, 1, 2)
    fail(world, 1, "d1")
    assert [leader_and_isr(world, tp) for tp in (T0, T1)] == [(0, (0, 1, 2), 0), (0, (0, 2), 1)]
    assert_at_rest(world)


def test_without_another_replica_in_sync_there_is_no_leader_until_the_directory_is_back() -> None:
    world = on_three_dirs(1)
    fail(world, 1, "d0")
    assert leader_and_isr(world, T0) == (-1, (1,), 1)
    world.stop(1)
    world.start(1)
    world.run_for(5_000)
    state = state_of(world, *T0)
    assert (state.leader, state.isr) == (1, (1,))
    assert_at_rest(world)


def test_a_notice_has_the_broker_asked_for_all_of_its_replicas_but_moves_none_that_is_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in Kafka 2.8.2, where being asked for marks them as online (quirk C10)."""
    world = on_three_dirs(1)
    fail(world, 1, "d0")
    manager = world.nodes[1].node.broker.replica_manager
    asked: list[list[TopicPartition]] = []
    answer = manager.become_leader_or_follower

    def spy(request: LeaderAndIsrRequest, now_ms: float, wall_ms: int) -> LeaderAndIsrResponse:
        asked.append(sorted(state.topic_partition for state in request.partition_states))
        return answer(request, now_ms, wall_ms)

    monkeypatch.setattr(manager, "become_leader_or_follower", spy)
    since = len(world.journal.rows)
    fail(world, 1, "d1")
    assert asked == [[T0, T1, T2]]
    rows = [row for row in world.journal.rows[since:] if row.kind == Kind.REPLICA_TRANSITION]
    assert [(row.partition, row.to) for row in rows] == [
        (1, "OnlineReplica"),
        (2, "OnlineReplica"),
        (1, "OfflineReplica"),
    ]
    assert offline_replicas(world, 1) == [T0, T1]
    assert_at_rest(world)


def test_a_broker_that_starts_again_has_its_directories_back() -> None:
    world = on_three_dirs(1, 0)
    fail(world, 1, "d0", "d2")
    world.kill(1)
    world.run_for(10_000)
    world.start(1)
    world.run_for(10_000)
    for tp in (T0, T1, T2):
        assert leader_and_isr(world, tp)[:2] == (0, (0, 1))
    assert active_controller(world).context.replicas_on_offline_dirs == {}
    assert_at_rest(world)


@pytest.mark.parametrize("lead", [0, 1])
def test_the_next_controller_learns_of_a_failed_directory(lead: int) -> None:
    world = on_three_dirs(lead, 1 - lead)
    fail(world, 1, "d0")
    before = [state_of(world, *tp) for tp in (T0, T1, T2)]
    world.kill(0) if lead == 1 else world.open_store().write([[Delete("/controller")]])
    world.run_for(10_000)
    context = active_controller(world).context
    assert context.epoch == 2
    assert context.replicas_on_offline_dirs == {1: {T0}}
    if lead == 0:
        assert [state_of(world, *tp) for tp in (T0, T1, T2)] == before
    else:
        # Broker 0 alone was in sync.
        assert leader_and_isr(world, T0)[:2] == (-1, (0,))
        world.start(0)
        world.run_for(10_000)
        assert leader_and_isr(world, T0)[:2] == (0, (0,))
    assert_at_rest(world)


@pytest.mark.parametrize("lead", [0, 1])
def test_a_broker_with_a_failed_directory_begins_another_session(lead: int) -> None:
    world = on_three_dirs(lead, 1 - lead)
    fail(world, 1, "d0")
    world.expire_session(1)
    world.run_for(10_000)
    assert leader_and_isr(world, T0)[:2] == (0, (0,))
    assert all(leader_and_isr(world, tp)[1] == (0, 1) for tp in (T1, T2))
    assert active_controller(world).context.replicas_on_offline_dirs == {1: {T0}}
    assert_at_rest(world)


def test_new_replicas_avoid_a_failed_directory() -> None:
    world = on_three_dirs(1, 0)
    fail(world, 1, "d0")
    create_topic(world, "new", dict.fromkeys(range(6), (1, 0)))
    world.run_for(5_000)
    made = [dir_of(world, 1, TopicPartition("new", number)) for number in range(6)]
    assert made == ["d1", "d2"] * 3
    assert all(leader_and_isr(world, TopicPartition("new", n)) == (1, (0, 1), 0) for n in range(6))
    assert_at_rest(world)


def test_a_reassignment_adds_a_replica_beside_a_failed_directory() -> None:
    """KAFKA-10314: what is added is new to its broker, so it need not be in what failed."""
    world = on_three_dirs(1)
    create_topic(world, "new", {0: (0, 2)})
    fail(world, 1, "d0")
    assert alter(world, {NEW: (1, 2)})[NEW].error is Errors.NONE
    world.run_for(10_000)
    assert_settled(world, NEW, (1, 2))
    assert dir_of(world, 1, NEW) in ("d1", "d2")


def test_a_lost_replica_can_be_reassigned_away() -> None:
    world = on_three_dirs(1, 0)
    fail(world, 1, "d0")
    alter(world, {T0: (2, 0)})
    world.run_for(10_000)
    assert_settled(world, T0, (2, 0))
    assert notices(world) == []


def test_a_topic_with_a_lost_replica_is_deleted_once_the_directory_is_back() -> None:
    world = on_three_dirs(1, 0)
    fail(world, 1, "d0")
    store = world.open_store()
    KafkaZkClient(store).create_delete_topic_path("t")
    world.run_for(5_000)
    topics = KafkaZkClient(store).get_all_topics_in_cluster
    assert topics() == ["t"]
    controller = active_controller(world)
    assert controller.context.topics_ineligible_for_deletion == {"t"}
    assert work_lines(controller_status(controller)) == [
        "Deleting:    topic t waits for broker 1 (failed log directories of broker 1)"
    ]
    why = explain_partition(lambda: world.journal.rows, T0)
    assert why.waits == ("the deletion of topic t waits for broker 1, halted: offline replicas",)
    assert [(row.kind, row.replica) for row in why.logs] == [(Kind.LOG_DIR_FAILED, 1)]
    world.stop(1)
    world.start(1)
    world.run_for(5_000)
    assert topics() == []
    store.close()
    assert_at_rest(world)


def test_a_broker_without_a_log_directory_halts_without_a_notification() -> None:
    world = on_three_dirs(1, 0)
    fail(world, 1, "d2", "d1")
    told: list[Transaction] = []

    def after_op(_: int, op: ReadOp | Transaction, __: ReadResult | TxnResult) -> None:
        if isinstance(op, list | tuple) and any(part.path.startswith(ROOT) for part in op):
            told.append(op)

    world.server.after_op = after_op
    world.fail_log_dir(1, "d0")
    world.run_for(100)
    assert 1 not in world.nodes and told == []
    world.run_for(10_000)
    assert all(leader_and_isr(world, tp)[:2] == (0, (0,)) for tp in (T0, T1, T2))
    assert_at_rest(world)


def test_a_directory_fails_once() -> None:
    world = on_three_dirs(1, 0)
    fail(world, 1, "d0")
    (row,) = [row for row in world.journal.rows if row.kind == Kind.LOG_DIR_FAILED]
    assert (row.replica, row.topic, row.partition) == (1, None, -1)
    assert json.loads(row.detail or "")["log_dir"] == "d0"
    before = len(world.journal.rows)
    fail(world, 1, "d0")
    assert world.journal.rows[before:] == []


# Notices


MALFORMED = {
    "log_dir_event_0000000007": b"not json",
    "log_dir_event_0000000008": b'{"version":1,"event":1}',
    "log_dir_event_0000000009": b'{"version":1,"broker":"one","event":1}',
    "log_dir_event_0000000010": None,
    "written by hand": b'{"version":1,"broker":1,"event":1}',
}
UNKNOWN_BROKER = b'{"version":1,"broker":99,"event":1}'


def leave_notices(world: SimulatedWorld, notices: dict[str, bytes | None]) -> None:
    """Put notices there, all at once."""
    ops = [Create(f"{ROOT}/{name}", data) for name, data in notices.items()]
    assert all(result.code == 0 for result in world.open_store().write([ops]))


def asked_again(world: SimulatedWorld, since: int) -> list[int]:
    """The brokers that were asked for their replicas."""
    rows = world.journal.rows[since:]
    return sorted({row.replica for row in rows if row.kind == Kind.REPLICA_TRANSITION})


def test_malformed_notices_are_set_apart_and_taken_away() -> None:
    world = on_three_dirs(1, 0)
    since = len(world.journal.rows)
    valid = {"log_dir_event_0000000011": b'{"version":1,"broker":1,"event":1}'}
    leave_notices(world, {**MALFORMED, "log_dir_event_0000000012": UNKNOWN_BROKER, **valid})
    world.run_for(5_000)
    assert notices(world) == []
    assert asked_again(world, since) == [1]
    rows = [row for row in world.journal.rows[since:] if row.kind == Kind.ZNODE_MALFORMED]
    assert {row.detail for row in rows} == {f"{ROOT}/{name}" for name in MALFORMED}
    assert active_controller(world).malformed == {}
    fail(world, 1, "d0")
    assert leader_and_isr(world, T0) == (0, (0,), 1)
    assert_at_rest(world)


def test_with_quirk_c2_a_malformed_notice_takes_the_others_with_it() -> None:
    world = on_three_dirs(1, 0, quirks=Quirks(malformed_znode_fails_the_event=True))
    since = len(world.journal.rows)
    valid = {"log_dir_event_0000000011": b'{"version":1,"broker":1,"event":1}'}
    leave_notices(world, {**MALFORMED, **valid})
    world.run_for(5_000)
    assert notices(world) == ["written by hand"]
    assert asked_again(world, since) == []
    assert [row.kind for row in world.journal.rows[since:]].count(Kind.EVENT_FAILED) == 1


def test_a_notice_of_a_broker_that_died_since_changes_nothing() -> None:
    world = on_three_dirs(1, 0)
    world.kill(1)
    world.run_for(10_000)
    world.open_store().write([[Create(f"{ROOT}/log_dir_event_0", b'{"version":1,"broker":1}')]])
    world.run_for(1_000)
    assert offline_replicas(world, 1) == [T0, T1, T2]
    assert_at_rest(world)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_broker_crashes_when_it_leaves_its_notice(before: bool) -> None:
    world = on_three_dirs(1, 0)

    def crash(_: int, op: ReadOp | Transaction, *__: object) -> None:
        if isinstance(op, list | tuple) and any(isinstance(part, Create) for part in op):
            world.server.before_op = world.server.after_op = None
            raise Crashed

    if before:
        world.server.before_op = crash
    else:
        world.server.after_op = crash
    fail(world, 1, "d0", within_ms=10_000)
    assert 1 not in world.nodes
    assert all(leader_and_isr(world, tp)[:2] == (0, (0,)) for tp in (T0, T1, T2))
    assert_at_rest(world)
    world.start(1)
    world.run_for(10_000)
    assert all(leader_and_isr(world, tp)[:2] == (0, (0, 1)) for tp in (T0, T1, T2))
    assert_at_rest(world)


# Where replicas go


def test_a_plan_with_log_dirs_puts_the_replicas_where_it_says() -> None:
    world = three_brokers(config=CONFIG)
    create_topic(world, "t", {0: (0, 1)})
    world.run_for(2_000)
    not_there = alter_dirs(world, 2, p0="d2").results
    assert not_there == {T0: Errors.REPLICA_NOT_AVAILABLE}
    alter(world, {T0: (2, 1)})
    world.run_for(5_000)
    assert_settled(world, T0, (2, 1))
    assert dir_of(world, 2, T0) == "d2"
    assert alter_dirs(world, 1, p0="d1").results == {T0: Errors.NONE}
    world.run_for(1_000)
    assert dir_of(world, 1, T0) == "d1"
    shown = {
        found.path: [log.is_future for log in found.logs.values()]
        for found in described(world, 1).log_dirs
    }
    assert shown == {"d0": [], "d1": [False], "d2": []}
