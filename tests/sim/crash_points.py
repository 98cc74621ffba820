"""Crash points: one controller operation after the other is where the controller crashes, and each
time the cluster must come to the end that it reaches without a crash.

What is compared: every znode that outlives sessions, with its data (so assignments, topic ids,
configs and what is left of admin requests), and of each partition the leader, the ISR as a set, and
by how much leader epoch and version are higher: as often as the next controller raised the epoch,
and no version without an epoch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from klamm.cluster.requests import Address
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.lab.checks.agreement import check_simulated_world
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import Crashed, LostReply
from klamm.zk.store import GetChildren, GetData, Store
from tests.sim.snapshots import Snapshot
from tests.sim.worlds import active_controller

GROUP_SIZES = (1, None)
"""One partition a transaction, and as many as there is room for."""
Record = Callable[[str, object], None]
_OF_SESSIONS = ("/controller", "/controller_epoch", "/brokers/ids")


class CrashPoint:
    """Calls ``act`` with the actor's address before or after one ZooKeeper operation.

    Only operations of actors for which ``is_counted`` returns True count. ``at`` is the number of
    the operation, from 0; None only counts. ``act`` may raise Crashed or LostReply."""

    def __init__(
        self,
        world: SimulatedWorld,
        at: int | None,
        *,
        is_before: bool,
        act: Callable[[Address], None],
        is_counted: Callable[[Address], bool],
    ) -> None:
        self.operations = 0
        self.has_happened = False
        self._world = world
        self._at = at
        self._act = act
        self._is_counted = is_counted
        if is_before:
            world.server.before_op = self._on_operation
        else:
            world.server.after_op = self._on_operation

    def _on_operation(self, *_: object) -> None:
        address = self._world.scheduler.current
        if self.has_happened or address is None or not self._is_counted(address):
            return
        self.operations += 1
        if self.operations - 1 == self._at:
            self.has_happened = True
            self._act(address)


def crash_at(
    world: SimulatedWorld,
    at: int | None,
    before: bool,
    *,
    with_broker: bool = False,
    error: type[Crashed | LostReply] = Crashed,
) -> CrashPoint:
    """Crash broker 0's controller before or after its n-th operation; the broker stays up, unless
    ``with_broker``. ``at`` None only counts. ``error`` LostReply takes the connection away instead,
    so that the request or its answer is lost."""
    world.on_crash = world.kill if with_broker else world.crash_controller

    def act(_: Address) -> None:
        raise error

    first = Address("controller", 0)
    return CrashPoint(world, at, is_before=before, act=act, is_counted=first.__eq__)


def crash_twice(world: SimulatedWorld, at: int, again: int) -> list[CrashPoint]:
    """Crash the active controller after one of its operations, and the next one after its
    ``again``-th. The list has the crash points, the second one once the first has happened."""
    world.on_crash = world.crash_controller

    def is_active(address: Address) -> bool:
        running = world.nodes.get(address.id)
        controller = None if running is None else running.node.controller
        return address.role == "controller" and controller is not None and controller.is_active

    def crash_again(_: Address) -> None:
        raise Crashed

    def crash(_: Address) -> None:
        points.append(
            CrashPoint(world, again, is_before=False, act=crash_again, is_counted=is_active)
        )
        raise Crashed

    points = [CrashPoint(world, at, is_before=False, act=crash, is_counted=is_active)]
    return points


class Stored(NamedTuple):
    """What ZooKeeper holds."""

    tree: Mapping[str, bytes | None]
    states: Mapping[TopicPartition, LeaderAndIsr]


NO_MORE: Final[Mapping[TopicPartition, int]] = MappingProxyType({})


class Case(NamedTuple):
    """``begin`` makes the world for a group size, ``act`` is what is to come to the same end.

    ``more`` is by how much the leader epoch of a partition may be higher after a crash, where
    2.8.2's failover raises it; 0 for those that are not named.
    """

    begin: Callable[[int | None], SimulatedWorld]
    act: Callable[[SimulatedWorld], None]
    operations_least: int
    more: Mapping[TopicPartition, int] = NO_MORE
    with_broker: bool = False


def sizes(group_size: int | None) -> dict[str, int]:
    """The fields of a ClusterSpec that set a group size."""
    return {} if group_size is None else {"write_group_size": group_size}


def crash_everywhere(
    case: Case, group_size: int | None, before: bool
) -> Iterator[tuple[SimulatedWorld, Stored]]:
    """Run a case once for each operation; gives each world after its crash, checked, and what there
    was before it all."""
    world = case.begin(group_size)
    start = stored_in(world)
    snapshot = Snapshot(world)
    undisturbed, counted = _run(snapshot, case, None, before)
    expected = stored_in(undisturbed)
    assert_agreement(undisturbed)
    count = counted.operations
    assert count >= case.operations_least, count
    gone = {0} if case.with_broker else set()
    for number in range(count):
        world, crash = _run(snapshot, case, number, before)
        where = f"crash {'before' if before else 'after'} operation {number}"
        assert crash.has_happened, f"{where} never came"
        assert set(world.nodes) == set(undisturbed.nodes) - gone, where
        assert active_controller(world).config.broker_id != 0, where
        assert_agreement(world)
        assert_same_end(world, expected, case.more, where)
        yield world, start


def crash_twice_everywhere(case: Case) -> int:
    """Crash in the middle of a case, and then the next controller after each of its operations;
    gives how many there were."""
    world = case.begin(1)
    snapshot = Snapshot(world)
    undisturbed, counted = _run(snapshot, case, None, before=False)
    expected = stored_in(undisturbed)
    more = {tp: 2 * epochs for tp, epochs in case.more.items()}
    for number in itertools.count():
        world = snapshot.restore()
        points = crash_twice(world, counted.operations // 2, number)
        case.act(world)
        if not points[-1].has_happened:
            assert points[0].has_happened
            return number
        where = f"second crash after operation {number}"
        assert_agreement(world)
        assert_same_end(world, expected, more, where)
    raise AssertionError("the next controller never stops")


def lose_everywhere(case: Case, group_size: int | None, before: bool) -> int:
    """Lose the request or the reply of each operation once; gives how many there were.

    The controller stays, and comes to exactly the same end.
    """
    snapshot = Snapshot(case.begin(group_size))
    undisturbed, counted = _run(snapshot, case, None, before)
    expected = stored_in(undisturbed)
    for number in range(counted.operations):
        world = snapshot.restore()
        lost = crash_at(world, number, before, error=LostReply)
        case.act(world)
        where = f"loss {'before' if before else 'after'} operation {number}"
        assert lost.has_happened, f"{where} never came"
        if 0 in undisturbed.nodes:
            assert active_controller(world).config.broker_id == 0, where
        assert_agreement(world)
        assert_same_end(world, expected, NO_MORE, where)
    return counted.operations


def count_cases(case: Case, group_size: int | None, before: bool, record: Record, what: str) -> int:
    """Run a case to its end and record how often it crashed, for the summary of the run."""
    count = sum(1 for _ in crash_everywhere(case, group_size, before))
    record(f"crash points: {what}", count)
    return count


def _run(
    snapshot: Snapshot, case: Case, at: int | None, before: bool
) -> tuple[SimulatedWorld, CrashPoint]:
    world = snapshot.restore()
    crash = crash_at(world, at, before, with_broker=case.with_broker)
    case.act(world)
    return world, crash


# What is compared


def stored_in(world: SimulatedWorld) -> Stored:
    """What ZooKeeper holds now."""
    store = world.open_store()
    tree = dict(_walk(store, "/"))
    topics = KafkaZkClient(store).get_topic_assignments(_topics(tree)).values
    partitions = [tp for topic in topics.values() for tp in topic.assignment]
    states = KafkaZkClient(store).get_partition_states(partitions).values
    store.close()
    kept = {path: data for path, data in tree.items() if not path.endswith("/state")}
    return Stored(kept, {tp: state.leader_and_isr for tp, state in states.items()})


def assert_same_end(
    world: SimulatedWorld, expected: Stored, more: Mapping[TopicPartition, int], where: str
) -> None:
    """Check a world against the one without a crash."""
    found = stored_in(world)
    assert found.tree == expected.tree, where
    assert sorted(found.states) == sorted(expected.states), where
    for tp, wanted in expected.states.items():
        state = found.states[tp]
        about = f"{where}: {tp} is {state}, without a crash {wanted}"
        assert (state.leader, set(state.isr)) == (wanted.leader, set(wanted.isr)), about
        rise = state.leader_epoch - wanted.leader_epoch
        assert 0 <= rise <= more.get(tp, 0), about
        assert state.zk_version - wanted.zk_version == rise, about


def assert_agreement(world: SimulatedWorld) -> None:
    """Brokers, controller and ZooKeeper agree, counts are right, and no actor has failed."""
    assert world.errors == []
    assert check_simulated_world(world) == []
    context = active_controller(world).context
    assert context.recount() == context.counts()
    assert context.partitions_being_reassigned == set()
    assert not context.topics_to_be_deleted


def _walk(store: Store, path: str) -> Iterator[tuple[str, bytes | None]]:
    for child in sorted(store.read([GetChildren(path)])[0].children or ()):
        below = f"{path.rstrip('/')}/{child}"
        if below in _OF_SESSIONS:
            continue
        yield below, store.read([GetData(below)])[0].data
        yield from _walk(store, below)


def _topics(tree: Mapping[str, bytes | None]) -> list[str]:
    root = "/brokers/topics/"
    return [p.removeprefix(root) for p in tree if p.startswith(root) and p.count("/") == 3]
