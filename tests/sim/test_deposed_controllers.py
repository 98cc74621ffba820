"""A deposed controller writes nothing (KAFKA-6082, 1096, 4447): controllers are stopped in the
middle of an event, others take over, and the stopped ones go on, the last first or the first first.
"""

from __future__ import annotations

import itertools

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    Address,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    Message,
)
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.store import Check, Delete, ReadOp, ReadResult, ResultCode, Transaction, TxnResult
from tests.sim.worlds import active_controller, controllers, create_topic, state_of, three_brokers

ASSIGNMENT = {n: tuple((n + k) % 3 for k in range(3)) for n in range(6)}


class Writes:
    """Every transaction that succeeded, with its session."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.done: list[tuple[int, Transaction]] = []
        world.server.after_op = self._after_op

    def _after_op(
        self, session_id: int, op: ReadOp | Transaction, result: ReadResult | TxnResult
    ) -> None:
        if isinstance(result, TxnResult) and result.code is ResultCode.OK:
            assert isinstance(op, list | tuple)
            self.done.append((session_id, op))

    def on_topics(self, session_ids: set[int]) -> list[Transaction]:
        """Those of these sessions that changed something about a topic."""
        return [
            transaction
            for session_id, transaction in self.done
            if session_id in session_ids
            and any(op.path.startswith(("/brokers/topics", "/config")) for op in transaction)
        ]


def freeze_in_an_event(world: SimulatedWorld, broker_id: int, after_steps: int) -> None:
    """Stop a controller that is inside an event, some steps later; its session goes on living."""
    actor = world.scheduler.actors[Address("controller", broker_id)]
    inside = itertools.count()
    assert world.run_until(
        lambda: actor.task is not None and next(inside) >= after_steps, timeout_ms=20_000
    ), "the controller ended its event too early"
    actor.paused = True


def depose(world: SimulatedWorld) -> None:
    """Take /controller away, as an operator does."""
    world.open_store().write([[Delete("/controller")]])


@pytest.mark.parametrize("last_first", [True, False], ids=["last first", "first first"])
@pytest.mark.parametrize("after_steps", range(0, 14, 2))
def test_two_deposed_controllers_write_nothing(after_steps: int, last_first: bool) -> None:
    world = three_brokers()
    create_topic(world, "t", ASSIGNMENT)
    freeze_in_an_event(world, 0, after_steps)
    depose(world)
    assert world.run_until(lambda: elected_after(world, {0}) is not None)
    second = elected_after(world, {0})
    assert second is not None
    world.scheduler.actors[Address("controller", second)].paused = True
    depose(world)
    assert world.run_until(lambda: world_epoch(world) == 3)
    writes = Writes(world)
    deposed = [second, 0] if last_first else [0, second]
    sessions = {world.nodes[broker_id].store.session_id for broker_id in deposed}
    for broker_id in deposed:
        world.scheduler.actors[Address("controller", broker_id)].paused = False
        world.run_for(2_000)
    world.run_for(10_000)
    assert writes.on_topics(sessions) == []
    assert_only_the_last_one_leads(world, set(deposed))


@pytest.mark.parametrize("after_steps", range(0, 14, 2))
def test_a_controller_whose_session_expired_in_an_event_writes_nothing(after_steps: int) -> None:
    world = three_brokers()
    create_topic(world, "t", ASSIGNMENT)
    freeze_in_an_event(world, 0, after_steps)
    world.pause(0)
    assert world.run_until(lambda: world_epoch(world) == 2)
    world.run_for(5_000)
    writes = Writes(world)
    session_id = world.nodes[0].store.session_id
    world.resume(0)
    world.run_for(20_000)
    assert writes.on_topics({session_id}) == []
    assert_only_the_last_one_leads(world, {0})
    assert sorted(world.server.tree.nodes["/brokers/ids"].children or ()) == ["0", "1", "2"]


def test_every_write_about_a_topic_is_fenced() -> None:
    world = three_brokers()
    writes = Writes(world)
    create_topic(world, "t", ASSIGNMENT)
    written_by_the_tool = len(writes.done)
    world.run_for(2_000)
    world.kill(2)
    world.run_for(10_000)
    by_controller = writes.done[written_by_the_tool:]
    assert len(by_controller) > 3
    for _, transaction in by_controller:
        assert isinstance(transaction[0], Check)
        assert transaction[0].path == "/controller_epoch"


def elected_after(world: SimulatedWorld, deposed: set[int]) -> int | None:
    """The controller that was elected after these; it may still be loading."""
    elected = (id_ for id_, c in controllers(world).items() if c.is_elected and id_ not in deposed)
    return next(elected, None)


def world_epoch(world: SimulatedWorld) -> int:
    return int(world.server.tree.nodes["/controller_epoch"].data or b"0")


def assert_only_the_last_one_leads(world: SimulatedWorld, deposed: set[int]) -> None:
    """One controller is active, it is not a deposed one, and it finished what was begun."""
    assert not world.errors
    assert active_controller(world).config.broker_id not in deposed
    for partition, replicas in ASSIGNMENT.items():
        state = state_of(world, "t", partition)
        assert sorted(state.isr) == sorted(replicas)
        assert state.leader in replicas


def test_a_deposed_controller_answers_once_its_broker_knows_the_new_leaders() -> None:
    world = three_brokers()
    world.stop(2)
    world.run_for(1_000)
    answers: list[Message] = []
    client = Address("client", 0)
    world.transport.register(client, answers.append)
    request = CreateTopicsRequest((CreatableTopic("t", assignments={0: (2,)}),), 300_000)
    world.transport.send(Message(client, Address("controller", 0), 1, request))
    world.run_for(1_000)
    world.pause(0)
    world.run_for(20_000)
    world.resume(0)
    world.run_for(5_000)
    assert active_controller(world).config.broker_id == 1
    assert not answers
    world.start(2)
    world.run_for(5_000)
    (answer,) = answers
    assert isinstance(answer.body, CreateTopicsResponse)
    assert answer.body.topics[0].error is Errors.NONE
