"""Topics deleted in a simulated cluster: begun, halted, resumed, completed, and made again."""

from __future__ import annotations

import pytest

from klamm.cluster.quirks import NO_QUIRKS
from klamm.cluster.requests import Message, StopReplicaRequest
from klamm.cluster.types import TopicPartition
from klamm.statemachines.replica_state import ReplicaState
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.store import Create, Delete, SetData
from klamm.zk.znodes import TopicPartitionStateZNode, TopicPartitionZNode, TopicZNode
from tests.held_followers import hold, release
from tests.sim.deletions import (
    assert_gone,
    assert_in_agreement,
    delete_topics,
    hosts,
    topic_id,
    topic_znodes,
)
from tests.sim.reassignment_drills import crash_at_the_cancel, pending
from tests.sim.reassignments import alter, reassign, reassignment_znode
from tests.sim.worlds import active_controller, create_topic, state_of, three_brokers

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def world_with(*topics: str, **spec: object) -> SimulatedWorld:
    """Three brokers, 0 the controller, and topics of two partitions on all of them."""
    world = three_brokers(**spec)
    for topic in topics:
        create_topic(world, topic, {0: (0, 1, 2), 1: (1, 2, 0)})
    world.run_for(5_000)
    return world


def write(world: SimulatedWorld, *ops: Delete | SetData) -> None:
    """Write by hand, each operation by itself."""
    store = world.open_store()
    assert [result.code.value for result in store.write([[op] for op in ops])] == [0] * len(ops)
    store.close()


def assert_halted(world: SimulatedWorld, topic: str = "t") -> None:
    """The deletion was begun and waits."""
    context = active_controller(world).context
    assert topic in context.topics_to_be_deleted
    assert topic in context.topics_ineligible_for_deletion
    assert len(topic_znodes(world, topic)) == 3


def test_nothing_is_left_of_topics_deleted_together() -> None:
    names = [f"t{number}" for number in range(20)]
    world = world_with("kept", *names)
    before = state_of(world, "kept", 0)
    delete_topics(world, *names)
    world.run_for(5_000)
    assert_gone(world, *names)
    assert state_of(world, "kept", 0) == before
    assert active_controller(world).context.counts() == active_controller(world).context.recount()


def test_a_dead_broker_halts_its_topics_alone_until_it_is_back() -> None:
    world = world_with("t")
    create_topic(world, "elsewhere", {0: (0, 1)})
    world.run_for(1_000)
    world.stop(2)
    world.run_for(5_000)
    delete_topics(world, "t", "elsewhere")
    world.run_for(20_000)
    assert_halted(world)
    assert topic_znodes(world, "elsewhere") == []
    assert hosts(world, "t") == []
    world.start(2)
    world.run_for(5_000)
    assert_gone(world, "t", "elsewhere")


def test_a_failover_takes_up_a_halted_deletion() -> None:
    world = world_with("t")
    world.stop(2)
    world.run_for(5_000)
    delete_topics(world, "t")
    world.run_for(5_000)
    write(world, Delete("/controller"))
    world.run_for(20_000)
    assert active_controller(world).context.epoch == 2
    assert_halted(world)
    world.start(2)
    world.run_for(5_000)
    assert_gone(world, "t")


@pytest.mark.parametrize("failover", [False, True], ids=["same controller", "failover"])
@pytest.mark.parametrize("answered", [False, True], ids=["before it deletes", "after it deleted"])
def test_a_deletion_waits_for_a_broker_that_dies_during_it(answered: bool, failover: bool) -> None:
    """KAFKA-10548: the deletion waits for the broker, and goes on when it is back."""
    world = world_with("t")
    told: list[Message] = []

    def tap(message: Message) -> None:
        body = message.body
        is_told = isinstance(body, StopReplicaRequest) and message.destination.id == 2
        if is_told and body.partition_states[0].delete_partition and not told:
            told.append(message)
            if not answered:
                world.kill(2)

    world.transport.add_tap(tap)
    delete_topics(world, "t")
    assert world.run_until(lambda: bool(told), timeout_ms=5_000)
    if answered:
        assert world.run_until(lambda: hosts(world, "t") in ([0, 1], [0], [1], []))
        world.kill(2)
    world.run_for(20_000)
    if not answered:
        assert_halted(world)
    if failover:
        write(world, Delete("/controller"))
        world.run_for(5_000)
    world.start(2)
    world.run_for(20_000)
    assert_gone(world, "t")


@pytest.mark.parametrize(
    "absent",
    [
        [TopicPartitionStateZNode.path(T0)],
        [TopicPartitionStateZNode.path(T0), TopicPartitionZNode.path(T0)],
    ],
    ids=["a state", "a partition"],
)
@pytest.mark.parametrize("failover", [False, True], ids=["same controller", "failover"])
def test_a_partially_deleted_topic_is_deleted_wholly(absent: list[str], failover: bool) -> None:
    """KAFKA-6650: without a state znode there is no leader and ISR to take a replica out of."""
    world = world_with("t")
    if failover:
        for broker_id in (0, 1, 2):
            world.stop(broker_id)
    write(world, *(Delete(path) for path in absent))
    delete_topics(world, "t")
    for broker_id in (0, 1, 2):
        if broker_id not in world.nodes:
            world.start(broker_id)
            world.run_for(1_000)
    world.run_for(20_000)
    assert_gone(world, "t")


@pytest.mark.parametrize("data", [b"", b"{}", b"no json"])
def test_a_topic_that_cannot_be_read_can_be_deleted(data: bytes) -> None:
    world = world_with("kept")
    store = world.open_store()
    store.write([[Create(TopicZNode.path("bad"), data)]])
    store.close()
    world.run_for(1_000)
    delete_topics(world, "bad")
    world.run_for(5_000)
    assert topic_znodes(world, "bad") == []
    assert active_controller(world).malformed == {}
    assert_in_agreement(world)


def test_a_topic_made_again_has_another_id_and_is_served() -> None:
    world = world_with("t")
    first = topic_id(world, "t")
    delete_topics(world, "t")
    world.run_for(5_000)
    create_topic(world, "t", {0: (2, 0), 1: (0, 1), 2: (1, 2)})
    world.run_for(5_000)
    assert topic_id(world, "t") not in (None, first)
    assert [state_of(world, "t", n).leader_epoch for n in range(3)] == [0, 0, 0]
    assert sorted(state_of(world, "t", 0).isr) == [0, 2]
    assert_in_agreement(world)


def test_partitions_added_to_a_topic_to_be_deleted_are_taken_away_and_its_id_kept() -> None:
    world = world_with("t")
    first = topic_id(world, "t")
    world.stop(2)
    delete_topics(world, "t")
    world.run_for(20_000)
    more = b'{"version":1,"partitions":{"0":[0,1,2],"1":[1,2,0],"2":[0,1]}}'
    write(world, SetData(TopicZNode.path("t"), more))
    world.run_for(5_000)
    assert topic_id(world, "t") == first
    context = active_controller(world).context
    assert [tp.partition for tp in context.partitions_for_topic("t")] == [0, 1]
    world.start(2)
    world.run_for(5_000)
    assert_gone(world, "t")


def test_a_broker_that_comes_and_goes_never_completes_what_another_has_not_deleted() -> None:
    """A replica that was deleted stays so while its broker is down; the dead one is waited for."""
    world = world_with("t")
    world.stop(2)
    world.run_for(5_000)
    delete_topics(world, "t")
    world.run_for(5_000)
    world.stop(1)
    world.run_for(5_000)
    context = active_controller(world).context
    assert context.replica_state(1, T0) is ReplicaState.DELETION_SUCCESSFUL
    world.start(1)
    world.run_for(5_000)
    assert_halted(world)
    world.start(2)
    world.run_for(5_000)
    assert_gone(world, "t")


def test_a_request_left_without_its_topic_is_taken_away() -> None:
    world = world_with("t")
    world.stop(2)
    delete_topics(world, "t")
    world.run_for(5_000)
    write(
        world,
        *(Delete(TopicPartitionStateZNode.path(TopicPartition("t", n))) for n in (0, 1)),
        *(Delete(TopicPartitionZNode.path(TopicPartition("t", n))) for n in (0, 1)),
        Delete("/brokers/topics/t/partitions"),
        Delete("/brokers/topics/t"),
    )
    world.run_for(5_000)
    assert topic_znodes(world, "t") == []
    world.start(2)
    world.run_for(5_000)
    create_topic(world, "u", {0: (0, 1, 2)})
    world.run_for(5_000)
    assert sorted(state_of(world, "u", 0).isr) == [0, 1, 2]


def test_deletion_disabled_serves_the_topic_and_takes_the_request_away() -> None:
    world = world_with("t", config={"delete.topic.enable": "false"})
    before = state_of(world, "t", 0)
    delete_topics(world, "t")
    world.run_for(5_000)
    assert len(topic_znodes(world, "t")) == 2
    assert state_of(world, "t", 0) == before
    for broker_id in (0, 1, 2):
        world.stop(broker_id)
    delete_topics(world, "t")
    for broker_id in (0, 1, 2):
        world.start(broker_id)
    world.run_for(20_000)
    assert len(topic_znodes(world, "t")) == 2
    assert state_of(world, "t", 0).leader in (0, 1, 2)
    assert_in_agreement(world)


@pytest.mark.parametrize("end", ["caught up", "cancelled"])
@pytest.mark.parametrize("failover", [False, True], ids=["same controller", "failover"])
def test_a_deletion_waits_until_reassignments_have_ended(failover: bool, end: str) -> None:
    """KAFKA-8249: until then the topic is served, elections included."""
    world = three_brokers()
    create_topic(world, "t", {0: (0, 1), 1: (1, 0)})
    create_topic(world, "elsewhere", {0: (0, 1)})
    world.run_for(1_000)
    hold(world, 2)
    reassign(world, {T0: (1, 2), T1: (1, 2)})
    world.run_for(2_000)
    delete_topics(world, "t", "elsewhere")
    world.run_for(2_000)
    if failover:
        write(world, Delete("/controller"))
        world.run_for(5_000)
    context = active_controller(world).context
    assert context.topics_waiting_for_reassignment == {"t"}
    assert not context.topics_to_be_deleted
    assert topic_znodes(world, "elsewhere") == []
    assert len(topic_znodes(world, "t")) == 3
    gauges = active_controller(world).metrics.gauges()
    assert (gauges["TopicsToDeleteCount"], gauges["TopicsIneligibleToDeleteCount"]) == (1, 1)
    leader = state_of(world, "t", 0).leader
    assert all(
        running.node.broker.metadata_cache.leader_of(T0) == leader
        for running in world.nodes.values()
    )
    if end == "caught up":
        release(world, 2)
    else:
        alter(world, {T0: None, T1: None})
    world.run_for(10_000)
    assert_gone(world, "t", "elsewhere")
    assert reassignment_znode(world) is None


def test_a_reassigned_topic_that_waits_to_be_deleted_can_lose_its_leader() -> None:
    world = three_brokers()
    create_topic(world, "t", {0: (1, 0)})
    world.run_for(1_000)
    hold(world, 2)
    reassign(world, {T0: (0, 2)})
    world.run_for(2_000)
    delete_topics(world, "t")
    world.run_for(2_000)
    world.stop(1)
    world.run_for(5_000)
    assert state_of(world, "t", 0).leader == 0
    release(world, 2)
    world.run_for(10_000)
    assert_gone(world, "t")


def test_one_of_several_reassignments_that_ends_does_not_begin_the_deletion() -> None:
    world = three_brokers()
    create_topic(world, "t", {0: (0, 1), 1: (1, 0)})
    world.run_for(1_000)
    hold(world, 2)
    reassign(world, {T1: (1, 2)})
    world.run_for(1_000)
    delete_topics(world, "t")
    world.run_for(1_000)
    alter(world, {T0: (1, 0)})
    world.run_for(2_000)
    context = active_controller(world).context
    assert context.partitions_being_reassigned == {T1}
    assert context.topics_waiting_for_reassignment == {"t"}
    release(world, 2)
    world.run_for(10_000)
    assert_gone(world, "t")


def test_a_replica_that_a_crash_left_in_the_isr_goes_with_its_topic() -> None:
    world = pending(NO_QUIRKS)
    crash_at_the_cancel(world, and_then=lambda: delete_topics(world, "t"))
    alter(world, {T0: None})
    world.run_for(10_000)
    assert not topic_znodes(world, "t")
    # 4 was not in sync, so that the next controller could not know of its replica.
    assert hosts(world, "t") == [4]
