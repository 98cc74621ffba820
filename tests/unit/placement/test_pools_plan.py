"""Which replicas a plan keeps, who leads, and where racks, weights and dead brokers lead it."""

from __future__ import annotations

from collections import Counter

import pytest

from klamm.cluster.types import TopicPartition
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.placement.minimal_moves import PlanOptions, plan_moves
from klamm.placement.pools import ClusterPlacement, PartitionPlace, Pool, Pools, TopicRule

POOLS = Pools({"p": Pool("p", (1, 2, 3, 4))}, (TopicRule("t.*", "p"),))


def place(
    *replicas: tuple[int, ...],
    racks: str = "",
    ids: range = range(1, 10),
    leader: int | None = None,
) -> ClusterPlacement:
    """Topic t with these replica lists, on brokers 1-9 or `ids`; a rack a letter."""
    return ClusterPlacement(
        tuple(BrokerMetadata(id_, racks[id_ - 1] if racks else None) for id_ in ids),
        {
            TopicPartition("t", partition): PartitionPlace(one, leader)
            for partition, one in enumerate(replicas)
        },
    )


def planned(cluster: ClusterPlacement, options: PlanOptions | None = None) -> list[tuple[int, ...]]:
    return [move.new for move in plan_moves(POOLS, cluster, options).moves]


def test_the_preferred_leader_stays_else_the_current_one() -> None:
    assert planned(place((3, 8, 9), leader=9)) == [(3, 1, 2)]
    assert planned(place((8, 2, 3), leader=3)) == [(3, 2, 1)]
    assert planned(place((8, 2, 3), leader=8)) == [(2, 3, 1)]


def test_leaders_that_stay_count_where_others_are_chosen() -> None:
    # t-0 keeps leader 1 and t-1 has none to keep; both brokers are in the lists of both.
    moved = plan_moves(POOLS, place((1, 2, 9), (8, 2, 1), leader=None)).moves
    assert [move.new[0] for move in moved] == [1, 2]
    moved = plan_moves(POOLS, place((2, 1, 9), (8, 2, 1), leader=None)).moves
    assert [move.new[0] for move in moved] == [2, 1]


def test_a_list_that_is_right_is_left_as_it_is() -> None:
    assert planned(place((2, 1, 3), (4,), leader=3)) == []


def test_the_leader_is_kept_and_the_follower_on_its_rack_goes() -> None:
    assert planned(place((2, 1, 3), racks="aabcddddd", leader=1)) == [(2, 3, 4)]
    assert planned(place((8, 1, 2), racks="aabcddddd", leader=2)) == [(2, 3, 4)]


def test_two_on_a_rack_stay_when_there_are_fewer_racks_than_replicas() -> None:
    assert planned(place((1, 2, 3), racks="aabbccccc")) == []
    assert planned(place((1, 2, 9), racks="aabbccccc")) == [(1, 2, 3)]
    disabled = PlanOptions(ignores_racks=True)
    assert planned(place((1, 2), racks="aabbccccc"), disabled) == []


def test_a_heavier_broker_takes_its_share() -> None:
    weighted = Pools(POOLS.by_name, POOLS.rules, {2: 2.0, 4: 0.5})
    moves = plan_moves(weighted, place(*[(9,)] * 18)).moves
    assert Counter(move.new for move in moves) == {(1,): 4, (2,): 8, (3,): 4, (4,): 2}


def test_new_replicas_make_up_for_what_brokers_hold_already() -> None:
    moves = plan_moves(POOLS, place(*[(1,)] * 4, *[(2,)] * 3, *[(9,)] * 9)).moves
    assert Counter(move.new for move in moves) == {(2,): 1, (3,): 4, (4,): 4}


def test_no_topic_is_heaped_on_the_heavier_broker() -> None:
    weighted = Pools(POOLS.by_name, POOLS.rules, {2: 3.0})
    brokers = tuple(BrokerMetadata(id_) for id_ in range(1, 10))
    topics = {
        TopicPartition(topic, number): PartitionPlace((9,))
        for topic in ("ta", "tb")
        for number in range(3)
    }
    moves = plan_moves(weighted, ClusterPlacement(brokers, topics)).moves
    assert Counter(move.new for move in moves) == {(1,): 1, (2,): 3, (3,): 1, (4,): 1}
    of_topic = Counter((move.partition.topic, move.new[0]) for move in moves)
    assert max(of_topic.values()) == 2


def test_a_dead_broker_of_the_pool_keeps_its_replicas_unless_the_partition_moves_anyway() -> None:
    alive = range(2, 10)
    assert planned(place((1, 2), ids=alive)) == []
    assert planned(place((1, 2), ids=alive), PlanOptions(replace_dead=True)) == [(2, 3)]
    assert planned(place((1, 2, 9), ids=alive)) == [(2, 3, 4)]


@pytest.mark.parametrize(
    ("wanted", "new"), [(1, [(3,)]), (2, [(3, 1)]), (3, [(3, 1, 2)]), (4, [(3, 1, 2, 4)])]
)
def test_a_replication_factor_is_changed_inside_the_pool(
    wanted: int, new: list[tuple[int, ...]]
) -> None:
    assert planned(place((3, 9, 1)), PlanOptions(["t"], wanted)) == new


def test_fewer_replicas_are_taken_evenly() -> None:
    lists = [(1, 2, 3), (2, 3, 4), (3, 4, 1), (4, 1, 2)] * 3
    moves = plan_moves(POOLS, place(*lists), PlanOptions(["t"], 2)).moves
    assert [move.new[0] for move in moves] == [ids[0] for ids in lists]
    assert not any(move.added for move in moves)
    assert set(Counter(id_ for move in moves for id_ in move.new).values()) == {6}


def test_the_heavier_broker_loses_replicas_only_until_it_is_no_longer() -> None:
    lists = {TopicPartition("t", number): PartitionPlace((4, 1, 2)) for number in range(7)}
    brokers = tuple(BrokerMetadata(id_) for id_ in range(1, 5))
    cluster = ClusterPlacement(brokers, lists | {TopicPartition("tu", 0): PartitionPlace((1,))})
    moves = plan_moves(POOLS, cluster, PlanOptions(["t"], 2)).moves
    assert Counter(move.new for move in moves) == {(4, 1): 3, (4, 2): 4}


def test_only_the_topics_asked_for_are_planned() -> None:
    assert planned(place((9,)), PlanOptions(["u"])) == []
    assert planned(place((9,)), PlanOptions(["t", "u"])) == [(1,)]


def test_a_topic_of_no_pool_gets_replicas_anywhere_when_asked() -> None:
    nowhere = Pools(POOLS.by_name, ())
    moves = plan_moves(nowhere, place((5, 6)), PlanOptions(["t"], 3)).moves
    assert [move.new for move in moves] == [(5, 6, 1)]
