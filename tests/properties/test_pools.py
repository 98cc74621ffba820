"""Plans into pools against brute force: no legal arrangement needs fewer moves, none is evener."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from klamm.cluster.types import TopicPartition
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.placement.minimal_moves import PlannedMove, PlanOptions, plan_moves
from klamm.placement.pools import (
    ClusterPlacement,
    PartitionPlace,
    Pool,
    Pools,
    TopicRule,
    ViolationKind,
    violations,
)

MAX_BROKERS = 6
MAX_PARTITIONS = 6


class Case(NamedTuple):
    """At most 6 brokers in at most 2 pools, at most 6 partitions of topics a and b."""

    pools: Pools
    cluster: ClusterPlacement


@st.composite
def cases(draw: st.DrawFn, with_racks: bool) -> Case:
    brokers = draw(st.integers(1, MAX_BROKERS))
    first = draw(st.integers(1, brokers))
    members = {"p": tuple(range(first)), "q": tuple(range(first, brokers))}
    weights = draw(st.dictionaries(st.integers(0, brokers - 1), st.sampled_from([0.5, 2.0, 3.0])))
    pools = Pools(
        {name: Pool(name, ids) for name, ids in members.items()},
        (TopicRule("a", "p"), TopicRule("b", "q")),
        weights,
    )
    live = [
        BrokerMetadata(id_, draw(st.sampled_from("xyz")) if with_racks else None)
        for id_ in range(brokers)
    ]
    partitions = {}
    for number in range(draw(st.integers(1, MAX_PARTITIONS))):
        topic = draw(st.sampled_from("ab" if members["q"] else "a"))
        largest = len(members["p" if topic == "a" else "q"])
        ids = draw(st.permutations(range(brokers)))
        replicas = tuple(ids[: draw(st.integers(1, largest))])
        leader = draw(st.sampled_from((*replicas, None)))
        partitions[TopicPartition(topic, number)] = PartitionPlace(replicas, leader)
    return Case(pools, ClusterPlacement(tuple(live), dict(sorted(partitions.items()))))


def legal_sets(case: Case, partition: TopicPartition) -> list[frozenset[int]]:
    """All sets of brokers that this partition may be on, said independently of the planner."""
    pool = case.pools.pool_of(partition.topic)
    assert pool is not None
    racks = {
        broker.id: broker.rack or broker.id
        for broker in case.cluster.live_brokers
        if broker.id in pool.broker_ids
    }
    size = len(case.cluster.partitions[partition].replicas)
    sets = [frozenset(ids) for ids in combinations(racks, size)]
    most = max(len({racks[id_] for id_ in ids}) for ids in sets)
    return [ids for ids in sets if len({racks[id_] for id_ in ids}) == most]


def every_outcome(case: Case) -> set[tuple[int, tuple[int, ...]]]:
    """(replica moves, replicas on each broker) of every legal arrangement of all partitions."""
    outcomes = {(0, (0,) * len(case.cluster.live_brokers))}
    for partition, place in case.cluster.partitions.items():
        old = set(place.replicas)
        outcomes = {
            (moves + len(ids - old), tuple(n + (id_ in ids) for id_, n in enumerate(loads)))
            for moves, loads in outcomes
            for ids in legal_sets(case, partition)
        }
    return outcomes


def cost(case: Case, loads: Iterable[int]) -> float:
    return sum(load**2 / case.pools.weight(id_) for id_, load in enumerate(loads))


def moves_of(plan: Iterable[PlannedMove]) -> int:
    return sum(len(set(move.new) - set(move.old)) for move in plan)


def carried_out(case: Case, plan: Iterable[PlannedMove]) -> ClusterPlacement:
    moved = {move.partition: PartitionPlace(move.new) for move in plan}
    return ClusterPlacement(case.cluster.live_brokers, {**case.cluster.partitions, **moved})


def loads_of(cluster: ClusterPlacement) -> list[int]:
    count = Counter(id_ for place in cluster.partitions.values() for id_ in place.replicas)
    return [count[broker.id] for broker in cluster.live_brokers]


@settings(max_examples=150)
@given(cases(with_racks=False))
def test_no_arrangement_needs_fewer_moves_and_none_of_so_few_is_evener(case: Case) -> None:
    plan = plan_moves(case.pools, case.cluster).moves
    outcomes = every_outcome(case)
    fewest = min(moves for moves, _ in outcomes)
    assert moves_of(plan) == fewest
    least = min(cost(case, loads) for moves, loads in outcomes if moves == fewest)
    assert abs(cost(case, loads_of(carried_out(case, plan))) - least) < 1e-9


@settings(max_examples=150)
@given(cases(with_racks=True))
def test_with_racks_no_legal_arrangement_needs_fewer_moves(case: Case) -> None:
    plan = plan_moves(case.pools, case.cluster).moves
    assert moves_of(plan) == min(moves for moves, _ in every_outcome(case))
    after = carried_out(case, plan)
    assert violations(case.pools, after) == ()
    for partition, place in after.partitions.items():
        assert frozenset(place.replicas) in legal_sets(case, partition)


@settings(max_examples=150)
@given(cases(with_racks=True), st.booleans())
def test_what_every_plan_keeps(case: Case, racks_count: bool) -> None:
    options = PlanOptions(ignores_racks=not racks_count)
    plan = plan_moves(case.pools, case.cluster, options).moves
    assert [move.partition for move in plan] == sorted({move.partition for move in plan})
    for move in plan:
        place = case.cluster.partitions[move.partition]
        pool = case.pools.pool_of(move.partition.topic)
        assert pool is not None
        assert move.old == place.replicas
        assert len(set(move.new)) == len(move.new) == len(move.old)
        assert set(move.new) <= set(pool.broker_ids)
        assert set(move.new) != set(move.old)
        if move.old[0] in pool.broker_ids:
            assert move.new[0] == move.old[0]
        elif not racks_count and place.leader in pool.broker_ids:
            assert move.new[0] == place.leader
    broken = {
        one.partition for one in violations(case.pools, case.cluster, ignores_racks=not racks_count)
    }
    assert {move.partition for move in plan} == broken
    assert plan_moves(case.pools, carried_out(case, plan), options).moves == ()


@settings(max_examples=150)
@given(cases(with_racks=False))
def test_no_other_choice_of_leaders_is_evener(case: Case) -> None:
    plan = plan_moves(case.pools, case.cluster).moves
    after = carried_out(case, plan)
    free = set()
    for move in plan:
        leader = case.cluster.partitions[move.partition].leader
        if move.old[0] not in move.new and leader not in move.new:
            free.add(move.partition)
    outcomes = {(0,) * len(case.cluster.live_brokers)}
    for partition, place in after.partitions.items():
        choices = place.replicas if partition in free else place.replicas[:1]
        outcomes = {
            tuple(n + (id_ == leader) for id_, n in enumerate(loads))
            for loads in outcomes
            for leader in choices
        }
    count = Counter(place.replicas[0] for place in after.partitions.values())
    loads = [count[broker.id] for broker in case.cluster.live_brokers]
    assert abs(cost(case, loads) - min(cost(case, some) for some in outcomes)) < 1e-9


@settings(max_examples=150)
@given(cases(with_racks=True), st.integers(1, 3))
@example(
    Case(
        Pools({"p": Pool("p", (0,)), "q": Pool("q", (1,))}, (TopicRule("a", "p"),)),
        ClusterPlacement(
            (BrokerMetadata(0, "x"), BrokerMetadata(1, "x")),
            {TopicPartition("a", 0): PartitionPlace((1, 0), 1)},
        ),
    ),
    1,
)
def test_another_replication_factor_stays_inside_with_the_fewest_copies(
    case: Case, wanted: int
) -> None:
    pool = case.pools.pool_of("a")
    assert pool is not None
    wanted = min(wanted, len(pool.broker_ids))
    plan = plan_moves(case.pools, case.cluster, PlanOptions(["a"], wanted)).moves
    after = carried_out(case, plan)
    of_a = [tp for tp in after.partitions if tp.topic == "a"]
    assert {move.partition.topic for move in plan} <= {"a"}
    for partition in of_a:
        place = after.partitions[partition]
        old = set(case.cluster.partitions[partition].replicas)
        assert len(place.replicas) == wanted
        resized = Case(case.pools, ClusterPlacement(after.live_brokers, {partition: place}))
        sets = legal_sets(resized, partition)
        assert frozenset(place.replicas) in sets
        assert len(set(place.replicas) - old) == min(len(ids - old) for ids in sets)
    kinds = {one.kind for one in violations(case.pools, after) if one.partition in of_a}
    assert not kinds & {ViolationKind.OUTSIDE_POOL, ViolationKind.RACKS}
