"""A controller crashes before and after every ZooKeeper operation of a reassignment, a cancel and
an override, at several group sizes: the next one comes to the same end, and the brokers with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from cluster.api_errors import Errors
from cluster.types import TopicPartition
from runtime.checks import check_simulated_world
from runtime.simulated_world import SimulatedWorld, Snapshot
from tests.sim.reassignments import (
    alter,
    brokers_up,
    hold,
    reassign,
    reassignment_znode,
    release,
    stored,
    with_topic,
)
from tests.sim.worlds import active_controller
from zk.memory_store import Crashed
from zk.store import ReadOp, ReadResult, Transaction, TxnResult

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
U0, U1 = TopicPartition("u", 0), TopicPartition("u", 1)
GROUP_SIZES = (1, None)
MORE_EPOCHS = 3
"""A failover begins a reassignment's phase A or B anew: a leader epoch each."""


class Case(NamedTuple):
    """``prepare`` comes before anything may crash, ``act`` is what is to reach the same end."""

    prepare: Callable[[SimulatedWorld], None]
    act: Callable[[SimulatedWorld], None]


def nothing(_: SimulatedWorld) -> None:
    """The topic alone."""


def by_znode(world: SimulatedWorld) -> None:
    reassign(world, {T0: (2, 3), T1: (1, 2), U0: (2,), U1: (2, 1, 0)})


def pending(world: SimulatedWorld) -> None:
    """Of each partition's new replicas one has caught up and one has not."""
    hold(world, 3)
    reassign(world, {T0: (2, 3), T1: (3, 2)})
    world.run_for(2_000)
    assert 2 in stored(world, T0).state.isr


def cancel(world: SimulatedWorld) -> None:
    answers = alter(world, {T0: None, T1: None})
    for answer in answers.values():
        assert answer.error in (Errors.NONE, Errors.NO_REASSIGNMENT_IN_PROGRESS)


def override(world: SimulatedWorld) -> None:
    answers = alter(world, {T0: (1, 2), T1: (1, 3)})
    assert {answer.error for answer in answers.values()} == {Errors.NONE}


CASES = {
    "reassign": Case(nothing, by_znode),
    "cancel": Case(pending, cancel),
    "override": Case(pending, override),
}


class Crash:
    """Hooks that crash the controller before or after its n-th operation; None only counts."""

    def __init__(self, world: SimulatedWorld, at: int | None, before: bool) -> None:
        self.count = 0
        self.happened = False
        self._at = at
        self._before = before
        self._session_id = world.nodes[0].store.session_id
        world.on_crash = world.crash_controller
        world.server.before_op = self.before_op
        world.server.after_op = self.after_op

    def before_op(self, session_id: int, _: ReadOp | Transaction) -> None:
        if self._before:
            self._maybe_crash(session_id)

    def after_op(
        self, session_id: int, _: ReadOp | Transaction, __: ReadResult | TxnResult
    ) -> None:
        if not self._before:
            self._maybe_crash(session_id)

    def _maybe_crash(self, session_id: int) -> None:
        if session_id != self._session_id or self.happened:
            return
        if self.count == self._at:
            self.happened = True
            raise Crashed
        self.count += 1


def world_before(case: Case, group_size: int | None) -> Snapshot:
    sizes = {} if group_size is None else {"write_group_size": group_size}
    world = brokers_up(**sizes)
    with_topic(world, (0, 1), (1, 0))
    with_topic(world, (0, 1, 2), (0, 1, 2), topic="u")
    case.prepare(world)
    return world.snapshot()


def run(
    snapshot: Snapshot, case: Case, at: int | None, before: bool
) -> tuple[SimulatedWorld, Crash]:
    world = snapshot.restore()
    crash = Crash(world, at, before)
    case.act(world)
    world.run_for(8_000)
    release(world, 3)
    world.run_for(8_000)
    return world, crash


def assert_same_end(world: SimulatedWorld, expected: SimulatedWorld) -> None:
    assert not world.errors
    assert check_simulated_world(world) == []
    assert reassignment_znode(world) is None
    context = active_controller(world).context
    assert context.partitions_being_reassigned == set()
    assert context.recount() == context.counts()
    for tp in (T0, T1, U0, U1):
        found, wanted = stored(world, tp), stored(expected, tp)
        assert found.assignment == wanted.assignment
        assert found.state.leader == wanted.state.leader
        assert sorted(found.state.isr) == sorted(wanted.state.isr)
        assert found.state.zk_version >= wanted.state.zk_version
        more = found.state.leader_epoch - wanted.state.leader_epoch
        assert 0 <= more <= MORE_EPOCHS


@pytest.mark.slow
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("group_size", GROUP_SIZES)
@pytest.mark.parametrize("name", CASES)
def test_the_next_controller_comes_to_the_same_end(
    name: str, group_size: int | None, before: bool
) -> None:
    case = CASES[name]
    snapshot = world_before(case, group_size)
    expected, counted = run(snapshot, case, None, before)
    assert_same_end(expected, expected)
    assert counted.count >= 10
    for number in range(counted.count):
        world, crash = run(snapshot, case, number, before)
        assert crash.happened, f"operation {number} was never reached"
        assert active_controller(world).config.broker_id != 0
        assert_same_end(world, expected)
    print(f"{name}: {counted.count} crashes")
