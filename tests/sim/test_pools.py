"""Pools in a running cluster: the article's nine brokers, and who may place what where.

Nine brokers in three pools hold T1 to T9. Whether the topics were moved into their pools or made
there, the death of broker 2 is seen in T1, T2 and T3 alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.admin.topics import TopicAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import Kind
from klamm.cluster.requests import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from klamm.cluster.types import LeaderAndIsr, ReplicaAssignment, TopicPartition
from klamm.lab.checks.agreement import check_simulated_world
from klamm.placement.draws import JavaRandom
from klamm.placement.minimal_moves import plan_moves
from klamm.placement.pools import NO_POOLS, ClusterPlacement, Pools, violations
from klamm.tools.pools.pool_cluster import read_cluster
from klamm.tools.pools.pool_file import read_pools
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.held_followers import hold
from tests.sim.reassignments import (
    alter,
    ask,
    reassign,
    reassignment_znode,
    reassignments,
    stored,
    with_topic,
)

POOLS = read_pools(Path(__file__).parents[1] / "data" / "pools" / "article.yaml")
NINE = tuple(range(1, 10))
TOPICS = tuple(f"T{number}" for number in range(1, 10))
OF_POOL1 = TOPICS[:3]
T0 = TopicPartition("T1", 0)
OUTSIDE = "Partition T1-0 would leave pool pool1 (brokers 1,2,3): broker 4 is not in it."


def nine_brokers(pools: Pools) -> SimulatedWorld:
    """Brokers 1 to 9; 9 is the controller, so that the death of 2 moves none. Leaders stay."""
    spec = ClusterSpec(
        broker_ids=NINE,
        candidates=(9,),
        config={"auto.leader.rebalance.enable": "false"},
        pools=pools,
    )
    world = SimulatedWorld(spec)
    for broker_id in NINE:
        world.start(broker_id)
    world.run_for(5_000)
    assert not world.errors
    return world


@pytest.fixture
def pooled() -> SimulatedWorld:
    return nine_brokers(POOLS)


def create(world: SimulatedWorld, *topics: CreatableTopic) -> list[CreatableTopicResult]:
    answer = ask(world, CreateTopicsRequest(topics, 5_000))
    assert isinstance(answer, CreateTopicsResponse)
    return list(answer.topics)


def create_articles_topics(world: SimulatedWorld, replication_factor: int) -> None:
    for topic in TOPICS:
        (result,) = create(world, CreatableTopic(topic, 9, replication_factor))
        assert result.error is Errors.NONE, result
    world.run_for(3_000)


def placement(world: SimulatedWorld) -> ClusterPlacement:
    store = world.open_store()
    found = read_cluster(store)
    store.close()
    assert not found.warnings
    return found.placement


def states(world: SimulatedWorld) -> dict[TopicPartition, LeaderAndIsr]:
    store = world.open_store()
    found = KafkaZkClient(store).get_partition_states(list(placement(world).partitions))
    store.close()
    return {tp: state.leader_and_isr for tp, state in found.values.items()}


def assert_death_of_2_touches_pool1_alone(world: SimulatedWorld) -> None:
    """Kill broker 2: states and journal of T4 to T9 stay as they are, those of T1 to T3 do not."""
    before = states(world)
    rows = len(world.journal.rows)
    world.kill(2)
    world.run_for(20_000)
    after = states(world)
    changed = {tp.topic for tp, state in after.items() if state != before[tp]}
    assert changed == set(OF_POOL1)
    assert all(state.leader != 2 for state in after.values())
    told = {row.topic for row in world.journal.rows[rows:] if row.topic is not None}
    assert told == set(OF_POOL1)
    assert not world.errors
    assert check_simulated_world(world) == []


@pytest.mark.parametrize("replication_factor", [1, 3])
def test_the_articles_topics_are_moved_into_their_pools(replication_factor: int) -> None:
    world = nine_brokers(NO_POOLS)
    create_articles_topics(world, replication_factor)
    spread = placement(world)
    assert {id_ for p in spread.partitions.values() for id_ in p.replicas} == set(NINE)
    assert violations(POOLS, spread)
    plan = plan_moves(POOLS, spread).moves
    reassign(world, {move.partition: move.new for move in plan})
    assert world.run_until(lambda: reassignment_znode(world) is None, timeout_ms=120_000)
    world.run_for(5_000)
    moved = placement(world)
    assert violations(POOLS, moved) == ()
    assert all(moved.partitions[move.partition].replicas == move.new for move in plan)
    assert_death_of_2_touches_pool1_alone(world)


def test_without_pools_the_death_of_a_broker_touches_all_topics() -> None:
    world = nine_brokers(NO_POOLS)
    create_articles_topics(world, 2)
    before = states(world)
    world.kill(2)
    world.run_for(20_000)
    after = states(world)
    assert {tp.topic for tp in after if after[tp] != before[tp]} == set(TOPICS)


def test_the_articles_topics_are_made_inside_their_pools(pooled: SimulatedWorld) -> None:
    create_articles_topics(pooled, 3)
    assert violations(POOLS, placement(pooled)) == ()
    assert not [row for row in pooled.journal.rows if row.kind == Kind.REASSIGNMENT_PHASE]
    assert_death_of_2_touches_pool1_alone(pooled)


def test_creation_by_hand_outside_the_pool_is_refused(pooled: SimulatedWorld) -> None:
    bad, good, free = create(
        pooled,
        CreatableTopic("T1", assignments={0: (4, 1)}),
        CreatableTopic("T2", assignments={0: (3, 1)}),
        CreatableTopic("other", assignments={0: (1, 9)}),
    )
    assert (bad.error, bad.error_message) == (Errors.INVALID_REPLICA_ASSIGNMENT, OUTSIDE)
    assert (good.error, free.error) == (Errors.NONE, Errors.NONE)
    assert placement(pooled).topics() == ("T2", "other")


def test_a_pool_too_small_for_the_replication_factor(pooled: SimulatedWorld) -> None:
    def refusal() -> tuple[Errors, str | None]:
        (result,) = create(pooled, CreatableTopic("T1", 1, 3 if 2 not in pooled.nodes else 4))
        return result.error, result.error_message

    larger = "Replication factor: {} larger than available brokers: {}. "
    pool = "Topic T1 belongs to pool pool1 (brokers 1,2,3)."
    assert refusal() == (Errors.INVALID_REPLICATION_FACTOR, larger.format(4, 3) + pool)
    pooled.stop(2)
    pooled.run_for(2_000)
    assert refusal() == (Errors.INVALID_REPLICATION_FACTOR, larger.format(3, 2) + pool)
    assert placement(pooled).topics() == ()


@pytest.fixture
def with_t1(pooled: SimulatedWorld) -> Iterator[SimulatedWorld]:
    """T1 in its pool; T4, made by somebody who knows no pools, is not in its own."""
    with_topic(pooled, (1, 2), topic="T1")
    with_topic(pooled, (1, 4), topic="T4")
    yield pooled
    assert not pooled.errors


def test_a_request_out_of_the_pool_is_refused(with_t1: SimulatedWorld) -> None:
    t4 = TopicPartition("T4", 0)
    answers = alter(with_t1, {T0: (1, 4), t4: (5, 4)})
    assert (answers[T0].error, answers[T0].message) == (Errors.INVALID_REPLICA_ASSIGNMENT, OUTSIDE)
    assert answers[t4].error is Errors.NONE
    with_t1.run_for(10_000)
    assert stored(with_t1, T0).assignment == ReplicaAssignment((1, 2))
    assert stored(with_t1, t4).assignment == ReplicaAssignment((5, 4))


def test_a_replica_that_is_outside_already_may_stay(with_t1: SimulatedWorld) -> None:
    t4 = TopicPartition("T4", 0)
    assert alter(with_t1, {t4: (4, 1)})[t4].error is Errors.NONE
    assert alter(with_t1, {t4: (4, 2)})[t4].error is Errors.INVALID_REPLICA_ASSIGNMENT


def test_a_move_into_the_pool_can_be_cancelled(with_t1: SimulatedWorld) -> None:
    t4 = TopicPartition("T4", 0)
    hold(with_t1, 5)
    assert alter(with_t1, {t4: (5, 4)})[t4].error is Errors.NONE
    with_t1.run_for(2_000)
    assert t4 in reassignments(with_t1)
    assert alter(with_t1, {t4: None})[t4].error is Errors.NONE
    with_t1.run_for(5_000)
    assert sorted(stored(with_t1, t4).assignment.replicas) == [1, 4]
    assert t4 not in reassignments(with_t1)


def test_an_entry_of_the_znode_out_of_the_pool_is_taken_away(with_t1: SimulatedWorld) -> None:
    t4 = TopicPartition("T4", 0)
    reassign(with_t1, {T0: (1, 4), t4: (5, 4)})
    with_t1.run_for(10_000)
    assert reassignment_znode(with_t1) is None
    assert stored(with_t1, T0).assignment == ReplicaAssignment((1, 2))
    assert stored(with_t1, t4).assignment == ReplicaAssignment((5, 4))


def test_added_partitions_stay_inside(with_t1: SimulatedWorld) -> None:
    store = with_t1.open_store()
    admin = TopicAdmin(KafkaZkClient(store), JavaRandom(0), POOLS)
    admin.add_partitions("T1", admin.existing_assignment("T1"), 9)
    store.close()
    with_t1.run_for(5_000)
    of_t1 = [p.replicas for tp, p in placement(with_t1).partitions.items() if tp.topic == "T1"]
    assert len(of_t1) == 9
    assert {id_ for replicas in of_t1 for id_ in replicas} == {1, 2, 3}
