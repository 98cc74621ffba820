"""Placing inside pools: what is placed automatically, and what is refused by hand."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from klamm.cluster.errors import (
    BrokerNotAvailable,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    UsageError,
)
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.placement.added_partitions import create_new_partitions_assignment
from klamm.placement.assign import assign_replicas_to_brokers
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.placement.draws import JavaRandom
from klamm.placement.pool_rules import (
    add_partitions_in_pool,
    assign_in_pool,
    check_brokers_exist,
    check_in_pool,
    check_moves_in_pool,
    outside_pool_text,
)
from klamm.placement.pools import NO_POOLS, Pool, Pools, TopicRule

POOLS = Pools({"a": Pool("a", (1, 2, 3)), "b": Pool("b", (4,))}, (TopicRule("t.*", "a"),))
FIVE = tuple(BrokerMetadata(id_) for id_ in (5, 4, 3, 2, 1))


def replicas(assignment: dict[int, tuple[int, ...]]) -> set[int]:
    return {id_ for ids in assignment.values() for id_ in ids}


def test_a_topic_is_placed_on_the_live_brokers_of_its_pool() -> None:
    assert replicas(assign_in_pool(POOLS, "t", FIVE, 6, 2, JavaRandom(1))) == {1, 2, 3}
    live = FIVE[:4]
    assert replicas(assign_in_pool(POOLS, "t", live, 6, 2, JavaRandom(1))) == {2, 3}


@pytest.mark.parametrize("pools", [NO_POOLS, POOLS])
def test_a_topic_without_a_pool_is_placed_as_kafka_places_it(pools: Pools) -> None:
    in_order = tuple(sorted(FIVE, key=lambda broker: broker.id))
    kafkas = assign_replicas_to_brokers(in_order, 6, 2, source=JavaRandom(1))
    assert assign_in_pool(pools, "other", in_order, 6, 2, JavaRandom(1)) == kafkas


def test_a_pool_too_small_is_named() -> None:
    with pytest.raises(InvalidReplicationFactor) as refused:
        assign_in_pool(POOLS, "t", FIVE, 1, 4, JavaRandom(1))
    assert refused.value.message == (
        "Replication factor: 4 larger than available brokers: 3."
        " Topic t belongs to pool a (brokers 1,2,3)."
    )
    existing = {0: ReplicaAssignment((1, 2, 3, 4))}
    with pytest.raises(InvalidReplicationFactor, match=r"brokers: 3\. Topic t belongs to pool a"):
        add_partitions_in_pool(POOLS, "t", existing, FIVE, 2)


@pytest.mark.parametrize(("topic", "rf"), [("t", 0), ("other", 6)])
def test_other_refusals_have_kafkas_texts(topic: str, rf: int) -> None:
    with pytest.raises(InvalidReplicationFactor) as refused:
        assign_in_pool(POOLS, topic, FIVE, 1, rf, JavaRandom(1))
    assert "pool" not in refused.value.message
    with pytest.raises(InvalidPartitions):
        add_partitions_in_pool(POOLS, "t", {0: ReplicaAssignment((1,))}, FIVE, 1)


def test_added_partitions_are_placed_inside_the_pool() -> None:
    existing = {0: ReplicaAssignment((2, 3)), 1: ReplicaAssignment((3, 1))}
    added = add_partitions_in_pool(POOLS, "t", existing, FIVE, 8)
    assert sorted(added) == [2, 3, 4, 5, 6, 7]
    assert {id_ for one in added.values() for id_ in one.replicas} == {1, 2, 3}
    pool = tuple(BrokerMetadata(id_) for id_ in (1, 2, 3))
    assert added == create_new_partitions_assignment("t", existing, pool, 8)


def test_manual_assignments_must_respect_pools() -> None:
    existing = {0: ReplicaAssignment((2, 3))}
    inside = add_partitions_in_pool(POOLS, "t", existing, FIVE, 2, {1: (1, 2)})
    assert inside == {1: ReplicaAssignment((1, 2))}
    with pytest.raises(InvalidReplicaAssignment, match="Partition t-1 would leave pool a"):
        add_partitions_in_pool(POOLS, "t", existing, FIVE, 2, {1: (1, 4)})
    with pytest.raises(BrokerNotAvailable):
        add_partitions_in_pool(POOLS, "t", existing, FIVE, 2, {1: (1, 9)})
    check_in_pool(POOLS, "other", {0: (4, 5)})
    check_in_pool(NO_POOLS, "t", {0: (4, 5)})
    with pytest.raises(InvalidReplicaAssignment) as refused:
        check_in_pool(POOLS, "t", {0: (1,), 1: (4, 1), 2: (5, 4)})
    assert refused.value.message == (
        "Partition t-1 would leave pool a (brokers 1,2,3): broker 4 is not in it."
        " (and 1 more partition)"
    )
    with pytest.raises(InvalidReplicaAssignment, match=r" \(and 2 more partitions\)$"):
        check_in_pool(POOLS, "t", {0: (4,), 1: (4, 1), 2: (5, 4)})


@pytest.mark.parametrize(
    ("added", "text"),
    [
        ((), None),
        ((1, 3), None),
        ((5,), "Partition t-7 would leave pool a (brokers 1,2,3): broker 5 is not in it."),
        ((5, 1, 4), "Partition t-7 would leave pool a (brokers 1,2,3): brokers 5,4 are not in it."),
    ],
)
def test_the_text_names_partition_pool_and_brokers(
    added: Collection[int], text: str | None
) -> None:
    assert outside_pool_text(POOLS, TopicPartition("t", 7), added) == text
    assert outside_pool_text(NO_POOLS, TopicPartition("t", 7), added) is None


def test_only_replicas_that_come_are_judged() -> None:
    check_moves_in_pool(POOLS, {TopicPartition("t", 0): (), TopicPartition("t", 1): (2,)})


def test_pools_of_brokers_that_are_not_there_are_refused() -> None:
    check_brokers_exist(POOLS, range(1, 5))
    with pytest.raises(
        UsageError, match=r"^brokers 2,3 of pool a are not in the cluster$"
    ) as found:
        check_brokers_exist(POOLS, (0, 1))
    assert found.value.hint == "the cluster has brokers 0 to 1"


def test_a_broker_without_replicas_is_never_chosen_and_may_not_be_named() -> None:
    pools = Pools({}, (), without_replicas=frozenset([3]))
    brokers = [BrokerMetadata(id_) for id_ in (1, 2, 3)]
    assigned = assign_in_pool(pools, "t", brokers, 6, 2, JavaRandom(0))
    assert {id_ for replicas in assigned.values() for id_ in replicas} == {1, 2}
    with pytest.raises(InvalidReplicationFactor, match="larger than available brokers: 2"):
        assign_in_pool(pools, "t", brokers, 6, 3, JavaRandom(0))
    check_in_pool(pools, "t", {0: (1, 2)})
    with pytest.raises(InvalidReplicaAssignment) as caught:
        check_in_pool(pools, "t", {0: (1, 2), 1: (2, 3)})
    assert caught.value.message == "Partition t-1: broker 3 hosts no replicas."
    several = Pools({}, (), without_replicas=frozenset([2, 3]))
    assert outside_pool_text(several, TopicPartition("t", 1), (3, 1, 2)) == (
        "Partition t-1: brokers 3,2 host no replicas."
    )
