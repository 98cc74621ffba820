"""Pools: who may hold a topic, what breaks that, and the article's nine brokers in three pools."""

from __future__ import annotations

from collections import Counter

import pytest

from klamm.cluster.errors import AdminOperationError, InvalidReplicationFactor
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.placement.added_partitions import create_new_partitions_assignment
from klamm.placement.assign import assign_replicas_to_brokers
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.placement.minimal_moves import PlannedMove, PlanOptions, Unplanned, plan_moves
from klamm.placement.pools import (
    ClusterPlacement,
    PartitionPlace,
    Pool,
    Pools,
    TopicRule,
    ViolationKind,
    brokers_for_topic,
    legal_brokers,
    topics_without_pool,
    violations,
)

POOLS = Pools(
    {
        "pool1": Pool("pool1", (1, 2, 3)),
        "pool2": Pool("pool2", (4, 5, 6)),
        "pool3": Pool("pool3", (7, 8, 9)),
    },
    (TopicRule("T[1-3]", "pool1"), TopicRule("T[4-6]", "pool2"), TopicRule("T[7-9]", "pool3")),
)
NINE = tuple(BrokerMetadata(id_) for id_ in range(1, 10))
TOPICS = {f"T{number}": f"pool{(number + 2) // 3}" for number in range(1, 10)}


def cluster(
    partitions: dict[tuple[str, int], tuple[int, ...]],
    brokers: tuple[BrokerMetadata, ...] = NINE,
    leaders: dict[tuple[str, int], int] | None = None,
) -> ClusterPlacement:
    return ClusterPlacement(
        brokers,
        {
            TopicPartition(*key): PartitionPlace(replicas, (leaders or {}).get(key))
            for key, replicas in sorted(partitions.items())
        },
    )


def after(before: ClusterPlacement, plan: tuple[PlannedMove, ...]) -> ClusterPlacement:
    moved = {move.partition: PartitionPlace(move.new, move.new[0]) for move in plan}
    return ClusterPlacement(before.live_brokers, {**before.partitions, **moved})


def racked(racks: str) -> tuple[BrokerMetadata, ...]:
    return tuple(BrokerMetadata(id_, rack) for id_, rack in enumerate(racks, 1))


def created_over_all_nine() -> ClusterPlacement:
    """T1-T9 of nine partitions with one replica, as Kafka spreads them: one on each broker."""
    partitions = {}
    for start, topic in enumerate(TOPICS):
        assigned = assign_replicas_to_brokers(NINE, 9, 1, start_index=start, next_replica_shift=0)
        partitions |= {(topic, partition): ids for partition, ids in assigned.items()}
    return cluster(partitions)


def test_the_articles_topics_move_into_their_pools() -> None:
    before = created_over_all_nine()
    assert len(violations(POOLS, before)) == 9 * 6
    plan = plan_moves(POOLS, before).moves
    assert len(plan) == sum(len(move.added) for move in plan) == 9 * 6
    moved = after(before, plan)
    assert violations(POOLS, moved) == ()
    assert plan_moves(POOLS, moved).moves == ()
    on_broker = Counter(place.replicas[0] for place in moved.partitions.values())
    assert on_broker == dict.fromkeys(range(1, 10), 9)
    of_topic = Counter((tp.topic, place.replicas[0]) for tp, place in moved.partitions.items())
    assert set(of_topic.values()) == {3}


def test_when_broker_2_dies_only_its_pools_topics_are_touched() -> None:
    before = created_over_all_nine()
    struck = {tp.topic for tp, place in before.partitions.items() if 2 in place.replicas}
    assert struck == set(TOPICS)
    moved = after(before, plan_moves(POOLS, before).moves)
    struck = {tp.topic for tp, place in moved.partitions.items() if 2 in place.replicas}
    assert struck == {"T1", "T2", "T3"}
    eight = tuple(broker for broker in NINE if broker.id != 2)
    bereft = ClusterPlacement(eight, moved.partitions)
    assert [(one.kind, one.pool, one.brokers) for one in violations(POOLS, bereft)] == [
        (ViolationKind.MISSING_BROKER, "pool1", (2,))
    ]
    assert plan_moves(POOLS, bereft).moves == ()
    healed = plan_moves(POOLS, bereft, PlanOptions(replace_dead=True)).moves
    assert {move.partition.topic for move in healed} == {"T1", "T2", "T3"}
    assert all(move.old == (2,) and move.new[0] in (1, 3) for move in healed)
    assert Counter(move.new for move in healed) == {(1,): 5, (3,): 4}


def test_creation_and_added_partitions_stay_in_the_pool() -> None:
    brokers = racked("abcabcabc")
    inside = brokers_for_topic(POOLS, "T5", reversed(brokers))
    assert [(broker.id, broker.rack) for broker in inside] == [(4, "a"), (5, "b"), (6, "c")]
    made = assign_replicas_to_brokers(inside, 5, 3, start_index=1, next_replica_shift=1)
    assert {id_ for ids in made.values() for id_ in ids} == {4, 5, 6}
    existing = {partition: ReplicaAssignment(ids) for partition, ids in made.items()}
    added = create_new_partitions_assignment("T5", existing, inside, 9)
    assert list(added) == [5, 6, 7, 8]
    assert {id_ for one in added.values() for id_ in one.replicas} == {4, 5, 6}


def test_a_topic_of_no_pool_may_be_anywhere_and_breaks_nothing() -> None:
    assert brokers_for_topic(POOLS, "T10", NINE) == NINE
    free = cluster({("T10", 0): (1, 4, 7), ("xT1", 0): (9,)})
    assert topics_without_pool(POOLS, free) == ("T10", "xT1")
    assert violations(POOLS, free) == ()
    assert plan_moves(POOLS, free).moves == ()


def test_a_pool_whose_brokers_are_down_refuses_with_kafkas_text() -> None:
    inside = brokers_for_topic(POOLS, "T1", NINE[3:])
    with pytest.raises(InvalidReplicationFactor) as refused:
        assign_replicas_to_brokers(inside, 1, 1, start_index=0, next_replica_shift=0)
    said = "Replication factor: 1 larger than available brokers: 0."
    assert refused.value.message == said
    planned = plan_moves(POOLS, cluster({("T1", 0): (4,), ("T4", 0): (9,)}, NINE[3:]))
    reason = "replication factor 1 needs 1 live broker in pool pool1; it has 0"
    assert planned.unplanned == (Unplanned(TopicPartition("T1", 0), reason),)
    assert [move.partition.topic for move in planned.moves] == ["T4"]


def test_the_first_rule_that_matches_decides() -> None:
    pools = Pools(POOLS.by_name, (TopicRule("orders-eu", "pool2"), TopicRule("orders.*", "pool1")))
    named = [pools.pool_of(topic) for topic in ("orders-eu", "orders-us", "my-orders")]
    assert [pool and pool.name for pool in named] == ["pool2", "pool1", None]
    assert [rule.pool for rule in pools.rules_of("orders-eu")] == ["pool2", "pool1"]


def test_every_kind_of_violation_is_reported_in_one_line() -> None:
    brokers = (*racked("aabbbb"), BrokerMetadata(9, "a"))
    found = violations(
        POOLS,
        cluster(
            {
                ("T1", 0): (1, 4, 9),
                ("T1", 1): (1, 2),
                ("T4", 0): (4, 5, 6),
                ("T4", 1): (4, 5, 6, 1),
                ("T7", 0): (8,),
            },
            brokers,
        ),
    )
    assert [(one.kind.value, one.brokers, one.text) for one in found] == [
        ("missing-broker", (7, 8), "pool pool3 has unregistered brokers 7,8"),
        ("outside-pool", (4, 9), "T1-0 has replicas outside pool pool1: brokers 4,9"),
        ("racks", (1, 2), "T1-1 is on 1 rack of pool pool1 instead of 2"),
        ("outside-pool", (1,), "T4-1 has replicas outside pool pool2: broker 1"),
        (
            "too-few-brokers",
            (4, 5, 6),
            "T4-1 (replication factor 4) needs 4 live brokers in pool pool2; it has 3",
        ),
    ]


def test_racks_of_only_some_brokers_are_refused_unless_racks_do_not_count() -> None:
    brokers = (BrokerMetadata(1, "a"), BrokerMetadata(2), BrokerMetadata(3, "b"))
    mixed = cluster({("T1", 0): (1, 2)}, brokers)
    with pytest.raises(AdminOperationError, match="Not all brokers have rack information"):
        violations(POOLS, mixed)
    (unplanned,) = plan_moves(POOLS, mixed).unplanned
    assert unplanned.reason.startswith("Not all brokers have rack information")
    kinds = {one.kind for one in violations(POOLS, mixed, ignores_racks=True)}
    assert kinds == {ViolationKind.MISSING_BROKER}
    assert plan_moves(POOLS, mixed, PlanOptions(ignores_racks=True)).moves == ()


@pytest.mark.parametrize(
    ("racks", "ignores_racks", "legal"),
    [
        ((None, None), False, {1: 1, 2: 2}),
        (("a", "a"), False, {1: "a", 2: "a"}),
        (("a", "a"), True, {1: 1, 2: 2}),
        (("a", None), True, {1: 1, 2: 2}),
    ],
)
def test_a_broker_without_a_rack_is_in_a_rack_of_its_own(
    racks: tuple[str | None, str | None], ignores_racks: bool, legal: dict[int, str | int]
) -> None:
    brokers = [BrokerMetadata(2, racks[1]), BrokerMetadata(1, racks[0])]
    found = legal_brokers(brokers, ignores_racks=ignores_racks)
    assert (found.ids, found.racks) == ((1, 2), legal)
    assert found.racks_to_use(3) == len(set(legal.values()))
