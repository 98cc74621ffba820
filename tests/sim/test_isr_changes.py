"""ISRs that leaders write themselves: stored, told by a notice, spread, and the notice deleted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from klamm.brokers.leaders.zk_isr_manager import ZkIsrManager
from klamm.cluster.quirks import Quirks
from klamm.cluster.requests import AlterIsrRequest, Message
from klamm.cluster.types import TopicPartition
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import LostReply
from klamm.zk.store import Create, ReadOp, ReadResult, SetData, Transaction, TxnResult
from klamm.zk.znodes import IsrChangeNotificationSequenceZNode, TopicPartitionStateZNode
from tests.sim.crash_points import (
    GROUP_SIZES,
    Case,
    Record,
    count_cases,
    lose_everywhere,
    sizes,
)
from tests.sim.elections import assert_in_agreement
from tests.sim.isr_changes import (
    NOTICES,
    T0,
    T1,
    broker_2_comes_back,
    cached_isr,
    events,
    notices,
    old_brokers,
)
from tests.sim.worlds import active_controller, state_of


def test_a_leader_writes_the_isr_and_notifies_when_changes_end() -> None:
    world = broker_2_comes_back()
    world.run_for(4_000)
    assert [state_of(world, *tp).isr for tp in (T0, T1)] == [(1, 2), (1, 2)]
    assert cached_isr(world, T0) == (1,), "the controller is told within a few seconds only"
    assert notices(world) == []
    world.run_for(5_000)
    assert cached_isr(world, T0) == cached_isr(world, T1) == (1, 2)
    assert notices(world) == []
    assert events(world) == 2, "the second finds nothing: it is the first one's deletion"
    assert_in_agreement(world)


def test_no_broker_asks_the_controller() -> None:
    sent: list[object] = []
    world = broker_2_comes_back()
    send = world.transport.send

    def spy(message: Message) -> None:
        sent.append(message.body)
        send(message)

    world.transport.send = spy  # type: ignore[method-assign]
    world.run_for(10_000)
    assert sent
    assert not [body for body in sent if isinstance(body, AlterIsrRequest)]
    assert state_of(world, *T0).isr == (1, 2)


def test_the_epoch_written_is_that_of_the_controller_that_made_the_leader() -> None:
    world = old_brokers()
    store = world.open_store()
    KafkaZkClient(store).delete("/controller")
    world.run_for(1_000)
    while active_controller(world).config.broker_id == 2:
        KafkaZkClient(store).delete("/controller")
        world.run_for(1_000)
    epoch = active_controller(world).context.epoch
    world.stop(2)
    world.run_for(5_000)
    world.start(2)
    world.run_for(10_000)
    found = KafkaZkClient(store).get_partition_states([T0]).values[T0]
    assert found.leader_and_isr.isr == (1, 2)
    assert found.controller_epoch == epoch >= 2


def test_the_journal_names_the_event_of_the_change() -> None:
    world = broker_2_comes_back()
    world.run_for(10_000)
    changed = [row for row in world.journal.rows if row.kind == "isr_changed"]
    assert {(row.topic, row.partition, row.isr, row.prev_isr) for row in changed} == {
        ("t", 0, (1, 2), (1,)),
        ("t", 1, (1, 2), (1,)),
    }
    event_id = changed[0].event_id
    [event] = [r for r in world.journal.rows if r.kind == "event" and r.event_id == event_id]
    assert event.detail == "IsrChangeNotification"


def test_a_leader_that_was_overtaken_waits_for_the_controller() -> None:
    world = old_brokers()
    world.stop(2)
    world.run_for(10_000)
    store = world.open_store()
    is_done: list[bool] = []

    def before_op(session_id: int, op: ReadOp | Transaction) -> None:
        # Between what broker 1 knows and what it writes somebody else writes.
        if isinstance(op, list | tuple) and isinstance(op[0], SetData) and not is_done:
            is_done.append(True)
            found = KafkaZkClient(store).get_data_and_stat(op[0].path)
            assert found is not None
            store.write([[SetData(op[0].path, found[0])]])

    world.server.before_op = before_op
    world.start(2)
    world.run_for(5_000)
    assert is_done
    isrs = sorted(state_of(world, *tp).isr for tp in (T0, T1))
    assert isrs == [(1,), (1, 2)]
    manager = world.nodes[1].node.broker.alter_isr_manager
    assert isinstance(manager, ZkIsrManager)
    assert manager.pending_count == 0
    assert not world.errors


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_write_whose_reply_is_lost_is_settled(lost: str) -> None:
    world = broker_2_comes_back()
    session_id = world.nodes[1].store.session_id
    is_lost: list[bool] = []

    def lose(who: int, op: ReadOp | Transaction) -> None:
        is_state = isinstance(op, list | tuple) and op[0].path.endswith("/state")
        if who == session_id and is_state and len(is_lost) < 2:
            is_lost.append(True)
            raise LostReply

    if lost == "before":
        world.server.before_op = lose
    else:
        world.server.after_op = lambda who, op, _: lose(who, op)
    world.run_for(20_000)
    assert is_lost
    assert [state_of(world, *tp).isr for tp in (T0, T1)] == [(1, 2), (1, 2)]
    assert_in_agreement(world)


def test_a_reassignment_ends_by_the_watch_of_the_state() -> None:
    world = old_brokers()
    store = world.open_store()
    KafkaZkClient(store).create_partition_reassignment({T0: (0, 1)})
    world.run_for(3_000)
    assert sorted(state_of(world, *T0).isr) == [0, 1]
    assert not KafkaZkClient(store).reassign_partitions_in_progress()
    world.run_for(20_000)
    assert_in_agreement(world)


def test_an_isr_notification_completes_a_reassignment_whose_state_is_not_watched() -> None:
    # While a cluster is upgraded the controller may be newer than the leader.
    world = old_brokers()
    controller = active_controller(world)
    controller.watches.register_reassigned = lambda _: None  # type: ignore[method-assign]
    KafkaZkClient(world.open_store()).create_partition_reassignment({T0: (0, 1)})
    world.run_for(3_000)
    assert controller.context.partitions_being_reassigned
    world.run_for(10_000)
    assert not controller.context.partitions_being_reassigned
    assert events(world) > 0


def test_exactly_what_was_listed_is_deleted() -> None:
    """KAFKA-5879: a notice that comes while others are processed is processed by its own event."""
    world = old_brokers()
    store = world.open_store()
    client = KafkaZkClient(store)
    session_id = world.nodes[0].store.session_id
    path = f"/brokers/topics/{T1.topic}/partitions/{T1.partition}/state"

    def after_op(who: int, op: ReadOp | Transaction, _: ReadResult | TxnResult) -> None:
        # The states of the first notices were read just now.
        if who == session_id and not isinstance(op, list | tuple) and op.path.endswith("/state"):
            world.server.after_op = None
            found = client.get_data_and_stat(path)
            assert found is not None
            client.set_data(path, found[0])
            client.propagate_isr_changes([T1])

    world.server.after_op = after_op
    client.propagate_isr_changes([T0])
    client.propagate_isr_changes([T0])
    world.run_for(1_000)
    assert world.server.after_op is None
    assert notices(world) == []
    version = active_controller(world).context.leaderships[T1].leader_and_isr.zk_version
    assert version == state_of(world, *T1).zk_version == 1
    assert not world.errors


def test_what_is_not_known_is_passed_over() -> None:
    world = old_brokers()
    client = KafkaZkClient(world.open_store())
    client.propagate_isr_changes([TopicPartition("no", 0), TopicPartition("a//b", 1), T0])
    client.propagate_isr_changes([])
    world.run_for(1_000)
    assert notices(world) == []
    assert_in_agreement(world)


def test_notices_are_deleted_at_a_failover() -> None:
    world = old_brokers()
    world.kill(0)
    client = KafkaZkClient(world.open_store())
    client.propagate_isr_changes([T0])
    client.create_recursive(f"{NOTICES}/odd/er")
    world.run_for(20_000)
    assert active_controller(world).config.broker_id != 0
    assert notices(world) == []
    assert_in_agreement(world)


def notice_of_a_change(world: SimulatedWorld) -> None:
    client = KafkaZkClient(world.open_store())
    client.propagate_isr_changes([T0, T1])
    world.run_for(20_000)


def a_broker_comes_back(world: SimulatedWorld) -> None:
    world.start(2)
    world.run_for(30_000)


def broker_2_is_away(**spec: object) -> SimulatedWorld:
    world = old_brokers(**spec)
    world.stop(2)
    world.run_for(10_000)
    return world


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("group_size", GROUP_SIZES)
@pytest.mark.parametrize(
    ("begin", "act"),
    [(old_brokers, notice_of_a_change), (broker_2_is_away, a_broker_comes_back)],
)
def test_the_next_controller_knows_the_isrs(
    begin: Callable[..., SimulatedWorld],
    act: Callable[[SimulatedWorld], None],
    group_size: int | None,
    before: bool,
    record_property: Record,
) -> None:
    case = Case(lambda size: begin(**sizes(size)), act, 3)
    assert count_cases(case, group_size, before, record_property, "ISRs by notice") > 0
    record_property("lost connections: ISRs by notice", lose_everywhere(case, group_size, before))


@pytest.mark.parametrize("is_kafka", [False, True], ids=["klamm", "kafka"])
def test_quirk_c2_a_notice_that_cannot_be_read_takes_the_others_with_it(is_kafka: bool) -> None:
    world = old_brokers(quirks=Quirks(malformed_znode_fails_the_event=is_kafka))
    store = world.open_store()
    client = KafkaZkClient(store)
    path = TopicPartitionStateZNode.path(T0)
    found = client.get_data_and_stat(path)
    assert found is not None
    client.set_data(path, found[0])
    notice = IsrChangeNotificationSequenceZNode.encode([T0])
    new = IsrChangeNotificationSequenceZNode.path()
    store.write([[Create(new, data, sequential=True)] for data in (b"{}", notice)])
    world.run_for(2_000)
    assert notices(world) == []
    version = active_controller(world).context.leaderships[T0].leader_and_isr.zk_version
    assert version == (0 if is_kafka else 1)
    failed = [row.detail for row in world.journal.rows if row.kind == "event_failed"]
    assert failed == (["IsrChangeNotification"] if is_kafka else [])
    malformed = [row.detail for row in world.journal.rows if row.kind == "znode_malformed"]
    assert malformed == ([] if is_kafka else [f"{new}0000000000"])
