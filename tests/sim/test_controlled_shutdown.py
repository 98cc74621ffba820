"""Brokers that stop are relieved first: nothing is ever without a leader that need not be."""

from __future__ import annotations

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    Address,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    Message,
    Response,
)
from klamm.cluster.types import TopicPartition
from klamm.world.simulated.world import SimulatedWorld
from tests.sim.deletions import delete_topics
from tests.sim.elections import assert_in_agreement, depose
from tests.sim.reassignments import brokers_up
from tests.sim.worlds import active_controller, create_topic, state_of, three_brokers

T0, U0, W0 = ALL = tuple(TopicPartition(topic, 0) for topic in "tuw")
BACKOFF_MS = 1000
CONFIG = {"controlled.shutdown.retry.backoff.ms": str(BACKOFF_MS)}
CLIENT = Address("client", 0)


def with_topic(**spec: object) -> SimulatedWorld:
    """Broker 2 leads t-0 and follows u-0; of w-0 it has the only replica."""
    world = three_brokers(config=CONFIG, **spec)
    for topic, replicas in (("t", (2, 1)), ("u", (0, 2, 1)), ("w", (2,))):
        create_topic(world, topic, {0: replicas})
    world.run_for(2_000)
    assert [state_of(world, *tp).isr for tp in ALL] == [(2, 1), (0, 2, 1), (2,)]
    return world


def ask(world: SimulatedWorld, request: ControlledShutdownRequest, to: int = 0) -> list[Response]:
    """Ask as a broker does; the answer is in the list once it is there."""
    answers: list[Response] = []
    world.transport.register(CLIENT, lambda message: answers.append(message.body))
    world.transport.send(Message(CLIENT, Address("controller", to), 1, request))
    world.run_for(500)
    return answers


def rows(world: SimulatedWorld, kind: str) -> list[tuple[str | None, int, str | None]]:
    return [(r.topic, r.partition, r.to) for r in world.journal.rows if r.kind == kind]


def test_a_broker_is_relieved_before_it_ends() -> None:
    world = with_topic()
    world.shut_down(2)
    assert world.run_until(lambda: 2 not in world.nodes, timeout_ms=BACKOFF_MS / 2)
    world.run_for(2_000)
    for tp, leader, isr in ((T0, 1, (1,)), (U0, 0, (0, 1))):
        state = state_of(world, *tp)
        assert (state.leader, state.isr) == (leader, isr)
        # One change for the shutdown, none for the broker's end.
        assert (state.leader_epoch, state.zk_version) == (1, 1)
    assert state_of(world, *W0).leader == -1
    offline = [row for row in rows(world, "partition_transition") if row[2] == "OfflinePartition"]
    assert offline == [("w", 0, "OfflinePartition")]
    assert not active_controller(world).context.shutting_down_broker_ids
    assert_in_agreement(world)


def test_a_broker_that_was_shut_down_rejoins_as_any_other() -> None:
    world = with_topic()
    world.shut_down(2)
    world.run_for(2_000)
    world.start(2)
    world.run_for(5_000)
    assert [state_of(world, *tp).leader for tp in ALL] == [1, 0, 2]
    assert [sorted(state_of(world, *tp).isr) for tp in ALL] == [[1, 2], [0, 1, 2], [2]]
    assert_in_agreement(world)


def test_the_controller_itself_is_relieved_by_itself() -> None:
    world = with_topic()
    world.shut_down(0)
    world.run_for(3_000)
    assert 0 not in world.nodes
    state = state_of(world, *U0)
    assert state.leader == 2
    assert sorted(state.isr) == [1, 2]
    assert active_controller(world).config.broker_id in (1, 2)
    assert_in_agreement(world)


def test_a_takeover_that_is_impossible_is_tried_three_times() -> None:
    world = with_topic()
    world.stop(1)
    world.run_for(1_000)
    began_ms = world.clock.monotonic_ms()
    world.shut_down(2)
    assert world.run_until(lambda: 2 not in world.nodes)
    took_ms = world.clock.monotonic_ms() - began_ms
    assert 3 * BACKOFF_MS <= took_ms < 3.5 * BACKOFF_MS
    failed = [row for row in rows(world, "partition_failed") if row[:2] == T0]
    assert len(failed) >= 3
    world.run_for(1_000)
    assert (state_of(world, *T0).leader, state_of(world, *T0).isr) == (-1, (2,))
    world.start(2)
    world.run_for(2_000)
    assert state_of(world, *T0).leader == 2


def test_without_a_controller_it_is_over_after_all_attempts() -> None:
    world = with_topic(candidates=(0,))
    world.stop(0)
    world.run_for(100)
    world.shut_down(2)
    world.run_for(3 * BACKOFF_MS - 100)
    assert 2 in world.nodes
    world.run_for(500)
    assert 2 not in world.nodes


def test_a_new_controller_is_asked_again() -> None:
    world = with_topic()
    world.scheduler.actors[Address("controller", 0)].paused = True
    world.shut_down(2)
    world.run_for(100)
    depose(world)
    assert world.run_until(lambda: 2 not in world.nodes, timeout_ms=60_000)
    world.run_for(1_000)
    assert state_of(world, *T0).leader == 1


def test_a_shutdown_may_be_turned_off() -> None:
    world = three_brokers(config={"controlled.shutdown.enable": "false"})
    create_topic(world, "t", {0: (2, 1)})
    world.run_for(2_000)
    world.shut_down(2)
    world.run_for(2_000)
    assert 2 not in world.nodes
    offline = [row for row in rows(world, "partition_transition") if row[2] == "OfflinePartition"]
    assert offline == [("t", 0, "OfflinePartition")]


def test_an_old_or_unknown_broker_is_refused() -> None:
    world = with_topic()
    epoch = world.nodes[2].node.broker.broker_epoch
    for request, to, error in (
        (ControlledShutdownRequest(2, epoch - 1), 0, Errors.STALE_BROKER_EPOCH),
        (ControlledShutdownRequest(7, epoch), 0, Errors.BROKER_NOT_AVAILABLE),
        (ControlledShutdownRequest(2, epoch), 1, Errors.STALE_CONTROLLER_EPOCH),
    ):
        assert ask(world, request, to) == [ControlledShutdownResponse(error)]
    assert not active_controller(world).context.shutting_down_broker_ids
    assert state_of(world, *T0).leader == 2


@pytest.mark.parametrize("epoch_known", [True, False])
def test_what_remains_is_answered(epoch_known: bool) -> None:
    world = with_topic()
    world.stop(1)
    world.run_for(1_000)
    epoch = world.nodes[2].node.broker.broker_epoch if epoch_known else -1
    (answer,) = ask(world, ControlledShutdownRequest(2, epoch))
    assert answer == ControlledShutdownResponse(Errors.NONE, (T0,))
    assert active_controller(world).context.shutting_down_broker_ids == {2}


def test_a_broker_leaves_every_isr_before_it_is_answered() -> None:
    world = with_topic()
    epoch = world.nodes[2].node.broker.broker_epoch
    assert ask(world, ControlledShutdownRequest(2, epoch)) == [
        ControlledShutdownResponse(Errors.NONE)
    ]
    assert 2 in world.nodes
    assert [state_of(world, *tp).isr for tp in ALL] == [(1,), (0, 1), (2,)]


def test_a_deposed_controller_says_so_and_resigns() -> None:
    world = with_topic()
    controller = world.scheduler.actors[Address("controller", 0)]
    controller.paused = True
    epoch = world.nodes[2].node.broker.broker_epoch
    answers = ask(world, ControlledShutdownRequest(2, epoch))
    depose(world)
    world.run_for(2_000)
    controller.paused = False
    world.run_for(2_000)
    assert answers == [ControlledShutdownResponse(Errors.STALE_CONTROLLER_EPOCH)]
    assert active_controller(world).config.broker_id != 0
    assert state_of(world, *T0).leader == 2


def test_a_broker_that_is_stopped_again_and_again_ends_after_its_attempts() -> None:
    """No other broker can lead t-0, so that every attempt fails."""
    world = with_topic()
    for broker_id in (0, 1):
        world.kill(broker_id)
    world.run_for(15_000)
    for _ in range(5):
        world.shut_down(2)
    world.run_for(60_000)
    assert world.nodes == {}


def test_a_shutdown_leaves_the_topics_that_are_being_deleted_alone() -> None:
    world = brokers_up()
    create_topic(world, "t", {0: (2, 1, 3)})
    world.run_for(3_000)
    world.kill(3)
    world.run_for(20_000)
    delete_topics(world, "t")
    world.run_for(3_000)
    begin = len(world.journal.rows)
    world.shut_down(2)
    world.run_for(1_000)
    refused = [
        (row.replica, row.to)
        for row in world.journal.rows[begin:]
        if row.topic == "t" and row.kind == "replica_failed"
    ]
    assert (2, "OfflineReplica") not in refused
    assert not world.errors
