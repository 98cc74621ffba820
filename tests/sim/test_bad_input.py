"""Whatever is left in ZooKeeper by hand: it is answered or set apart, and the controller serves on,
the next one too."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import ReadOp, Transaction
from klamm.zk.znodes import ReassignPartitionsZNode, TopicPartitionStateZNode
from tests.held_followers import hold, release
from tests.sim.bad_input import (
    DELETE,
    LEFT,
    NOTICES,
    ODD_TOPICS,
    PREFERRED,
    REASSIGN,
    REQUESTS,
    Bad,
)
from tests.sim.crash_points import (
    GROUP_SIZES,
    Case,
    Record,
    count_cases,
    lose_everywhere,
    sizes,
    stored_in,
)
from tests.sim.elections import T0, T1, assert_in_agreement, depose
from tests.sim.isr_changes import old_brokers
from tests.sim.reassignments import alter, reassign, reassignment_znode
from tests.sim.snapshots import Snapshot
from tests.sim.worlds import active_controller, create_topic, state_of, three_brokers


@cache
def world_before() -> Snapshot:
    """Brokers 0 to 2, 0 is the controller; topics t and u, whose leaders are the preferred ones."""
    config = {"auto.leader.rebalance.enable": "false"}
    world = three_brokers(config=config)
    create_topic(world, "t", {0: (1, 2), 1: (2, 0)})
    create_topic(world, "u", {0: (0, 1)})
    world.run_for(10_000)
    return Snapshot(world)


def put(world: SimulatedWorld, bad: Bad) -> None:
    """Write it by hand: over what is there, or anew with those above it."""
    store = world.open_store()
    KafkaZkClient(store).set_or_create(bad.path, bad.data)
    store.close()


def tree_of(world: SimulatedWorld) -> Mapping[str, bytes | None]:
    """Every znode that outlives sessions."""
    return stored_in(world).tree


def failed_events(world: SimulatedWorld) -> list[str]:
    """Events that ended with an error."""
    rows = world.journal.rows
    return [f"{r.detail}: {r.outcome}" for r in rows if r.kind == "event_failed"]


def assert_serves(world: SimulatedWorld, topic: str) -> None:
    """A topic that is created now is served by all its brokers, and nothing has failed."""
    create_topic(world, topic, {0: (1, 2), 1: (2, 0), 2: (0, 1)})
    world.run_for(3_000)
    for partition, replicas in enumerate(((1, 2), (2, 0), (0, 1))):
        state = state_of(world, topic, partition)
        assert (state.leader, sorted(state.isr)) == (replicas[0], sorted(replicas))
    assert failed_events(world) == []
    assert world.errors == []


def assert_serves_on(world: SimulatedWorld) -> None:
    """The controller serves, and so does the next, who is elected once."""
    assert_serves(world, "after")
    epoch = active_controller(world).context.epoch
    depose(world)
    world.run_for(3_000)
    assert active_controller(world).context.epoch == epoch + 1
    assert_serves(world, "later")
    context = active_controller(world).context
    assert context.counts() == context.recount()


@pytest.mark.parametrize("bad", [*REQUESTS, *NOTICES], ids=str)
def test_what_asks_for_nothing_that_can_be_done_goes(bad: Bad) -> None:
    world = world_before().restore()
    before = tree_of(world)
    for found_at_failover in (False, True):
        if found_at_failover:
            depose(world)
        put(world, bad)
        world.run_for(3_000)
        left = {path for path, data in tree_of(world).items() ^ before.items()}
        assert left == set()
        assert active_controller(world).malformed == {}
    assert_serves_on(world)


@pytest.mark.parametrize("bad", LEFT, ids=str)
def test_files_that_must_not_be_removed_stay(bad: Bad) -> None:
    world = world_before().restore()
    put(world, bad)
    before = stored_in(world)
    world.run_for(3_000)
    after = stored_in(world)
    assert {path for path, data in after.tree.items() ^ before.tree.items()} == set()
    assert {tp: s.leader for tp, s in after.states.items()} == {
        tp: s.leader for tp, s in before.states.items()
    }
    assert_serves_on(world)
    store = world.open_store()
    found = KafkaZkClient(store).get_data_and_stat(bad.path)
    assert found is not None
    assert found[0] == bad.data


@pytest.mark.parametrize("bad", ODD_TOPICS, ids=str)
def test_a_topic_that_is_odd_but_readable_delays_no_other(bad: Bad) -> None:
    world = world_before().restore()
    put(world, bad)
    world.run_for(3_000)
    assert_serves_on(world)
    store = world.open_store()
    client = KafkaZkClient(store)
    name = bad.path.rpartition("/")[2]
    client.create_delete_topic_path(name)
    world.run_for(3_000)
    assert active_controller(world).malformed == {}
    assert client.get_topic_deletions() == ([name] if b"77" in (bad.data or b"") else [])


def test_what_is_said_twice_is_done_once() -> None:
    world = world_before().restore()
    put(
        world,
        Bad(
            REASSIGN,
            b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,2]},'
            b'{"topic":"t","partition":0,"replicas":[0,2]},'
            b'{"topic":"u","partition":0,"replicas":[1,1]}]}',
        ),
    )
    put(
        world,
        Bad(
            PREFERRED,
            b'{"version":1,"by":"hand","partitions":[{"topic":"t","partition":1,"why":1},'
            b'{"topic":"t","partition":1}]}',
        ),
    )
    before = tree_of(world)
    world.run_for(5_000)
    assert before.keys() - tree_of(world).keys() == {REASSIGN, PREFERRED}
    # As in Kafka the last entry of a partition counts.
    assert [sorted(state_of(world, t, 0).isr) for t in ("t", "u")] == [[0, 2], [1]]
    assert_serves_on(world)


def test_a_request_to_delete_that_has_children_is_carried_out() -> None:
    world = world_before().restore()
    put(world, Bad(f"{DELETE}/t/odd/er", b"{}"))
    world.run_for(5_000)
    assert not {path for path in tree_of(world) if "/t/" in path or path.endswith("/t")}
    assert_serves_on(world)


@pytest.mark.parametrize("data", [b"no json", b"{}"])
def test_a_plan_that_is_overwritten_with_nonsense_goes_on(data: bytes) -> None:
    world = world_before().restore()
    hold(world, 0)
    reassign(world, {T0: (0, 2)})
    world.run_for(1_000)
    put(world, Bad(REASSIGN, data))
    world.run_for(1_000)
    assert reassignment_znode(world) is None
    assert active_controller(world).context.partitions_being_reassigned == {T0}
    release(world, 0)
    world.run_for(5_000)
    assert sorted(state_of(world, *T0).isr) == [0, 2]
    assert_serves_on(world)


def test_a_second_plan_while_one_runs() -> None:
    world = world_before().restore()
    hold(world, 0)
    reassign(world, {T0: (0, 2)})
    world.run_for(1_000)
    store = world.open_store()
    client = KafkaZkClient(store)
    assert not client.create_partition_reassignment({T1: (1,)})
    put(world, Bad(REASSIGN, ReassignPartitionsZNode.encode({T0: (0, 2), T1: (1,)})))
    world.run_for(3_000)
    assert state_of(world, *T1).isr == (1,)
    assert reassignment_znode(world) == {T0: (0, 2)}
    release(world, 0)
    world.run_for(5_000)
    assert reassignment_znode(world) is None
    assert sorted(state_of(world, *T0).isr) == [0, 2]
    assert_serves_on(world)


def test_a_cancel_of_nothing_is_refused() -> None:
    world = world_before().restore()
    before = tree_of(world)
    answers = alter(world, {T0: None, TopicPartition("no", 0): None, TopicPartition("t", 9): None})
    assert [answer.error for answer in answers.values()] == [Errors.NO_REASSIGNMENT_IN_PROGRESS] * 3
    assert tree_of(world) == before
    assert_serves_on(world)


@pytest.mark.parametrize("data", [b"no json", b'{"leader":1}'])
@pytest.mark.parametrize("found_at_failover", [False, True], ids=["seen", "found"])
def test_a_state_that_is_mended_is_served(data: bytes, found_at_failover: bool) -> None:
    world = world_before().restore()
    path = TopicPartitionStateZNode.path(T0)
    put(world, Bad(path, data))
    if found_at_failover:
        depose(world)
        world.run_for(1_000)
    world.stop(1)
    world.run_for(1_000)
    assert list(active_controller(world).malformed) == [path]
    put(world, Bad(path, b"[]"))
    world.run_for(1_000)
    assert list(active_controller(world).malformed) == [path]
    put(world, Bad(path, TopicPartitionStateZNode.encode(LeaderAndIsr(1, 4, (1, 2), 0), 1)))
    world.run_for(1_000)
    assert active_controller(world).malformed == {}
    state = state_of(world, *T0)
    assert (state.leader, state.isr) == (2, (2,))
    assert state.leader_epoch > 4
    world.start(1)
    world.run_for(20_000)
    assert_in_agreement(world)
    assert_serves_on(world)


@pytest.mark.parametrize("in_sync", [False, True])
def test_a_reassignment_goes_on_once_the_state_is_mended(in_sync: bool) -> None:
    """Old brokers write the states themselves, so that the controller watches them; elsewhere it
    finds at a failover what cannot be read."""
    world = world_before().restore() if in_sync else old_brokers()
    hold(world, 0)
    reassign(world, {T0: (0, 2)})
    world.run_for(1_000)
    path = TopicPartitionStateZNode.path(T0)
    store = world.open_store()
    found = KafkaZkClient(store).get_data_and_stat(path)
    assert found is not None
    put(world, Bad(path, b"{}"))
    if in_sync:
        depose(world)
    world.run_for(1_000)
    assert list(active_controller(world).malformed) == [path]
    state = TopicPartitionStateZNode.decode(found[0], 0)
    assert state is not None
    at = state.leader_and_isr
    isr = (1, 2, 0) if in_sync else (1, 2)
    put(
        world,
        Bad(path, TopicPartitionStateZNode.encode(LeaderAndIsr(1, at.leader_epoch, isr, 0), 1)),
    )
    world.run_for(1_000)
    assert active_controller(world).malformed == {}
    assert active_controller(world).context.partitions_being_reassigned == (
        set() if in_sync else {T0}
    )
    release(world, 0)
    # Too soon for a notice of the leader's.
    world.run_for(2_000)
    assert reassignment_znode(world) is None
    assert sorted(state_of(world, *T0).isr) == [0, 2]
    assert_in_agreement(world)


def test_a_malformed_state_that_is_removed_is_made_anew() -> None:
    world = world_before().restore()
    store = world.open_store()
    path = "/brokers/topics/v/partitions/0/state"
    put(world, Bad(path, b"no json"))
    put(world, Bad("/brokers/topics/v", b'{"version":3,"partitions":{"0":[1,2]}}'))
    world.run_for(1_000)
    assert list(active_controller(world).malformed) == [path]
    KafkaZkClient(store).delete(path)
    world.run_for(1_000)
    assert active_controller(world).malformed == {}
    assert state_of(world, "v", 0) == LeaderAndIsr(1, 0, (1, 2), 0)
    assert_serves_on(world)
    assert_in_agreement(world)


@pytest.mark.parametrize("is_mended_before", [False, True])
def test_a_malformed_state_that_is_mended_at_once_is_not_missed(is_mended_before: bool) -> None:
    """Between being read and being watched, or between a deletion and the next creation."""
    world = world_before().restore()
    path = TopicPartitionStateZNode.path(T0)
    store = world.open_store()
    found = KafkaZkClient(store).get_data_and_stat(path)
    assert found is not None
    reads: list[int] = []

    def mend(_: int, op: ReadOp | Transaction) -> None:
        if not isinstance(op, list | tuple) and op.path == path:
            reads.append(1)
            if len(reads) == 2:
                world.server.before_op = None
                KafkaZkClient(store).set_data(path, found[0])

    if is_mended_before:
        world.server.before_op = mend
    put(world, Bad(path, b"{}"))
    depose(world)
    world.run_for(3_000)
    if not is_mended_before:
        assert list(active_controller(world).malformed) == [path]
        KafkaZkClient(store).set_data(path, found[0])
        world.run_for(1_000)
    assert active_controller(world).malformed == {}
    world.stop(1)
    world.run_for(1_000)
    assert state_of(world, *T0).leader == 2
    assert_in_agreement(world)


def with_a_malformed_state(group_size: int | None) -> SimulatedWorld:
    """t-0 has a state that cannot be read, which controller 0 found when it was elected."""
    config = {"auto.leader.rebalance.enable": "false"}
    world = three_brokers(config=config, **sizes(group_size))
    create_topic(world, "t", {0: (1, 2), 1: (2, 0)})
    world.run_for(10_000)
    put(world, Bad(TopicPartitionStateZNode.path(T0), b"{}"))
    world.stop(1)
    world.run_for(1_000)
    assert list(active_controller(world).malformed) == [TopicPartitionStateZNode.path(T0)]
    return world


def mend_the_state(world: SimulatedWorld) -> None:
    data = TopicPartitionStateZNode.encode(LeaderAndIsr(1, 0, (1, 2), 0), 1)
    put(world, Bad(TopicPartitionStateZNode.path(T0), data))
    world.run_for(20_000)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("group_size", GROUP_SIZES)
def test_the_next_controller_serves_what_was_mended(
    group_size: int | None, before: bool, record_property: Record
) -> None:
    # The next controller takes the dead broker out of the ISR before it elects the other.
    case = Case(with_a_malformed_state, mend_the_state, 3, {T0: 1})
    assert count_cases(case, group_size, before, record_property, "a mended state") > 0
    record_property("lost connections: a mended state", lose_everywhere(case, group_size, before))
