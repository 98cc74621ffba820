"""What holds of every automatic assignment, whatever the brokers, racks and starting point."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from klamm.placement.assign import Assignment, assign_replicas_to_brokers
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.placement.manual import check_new_topic_assignment, parse_replica_assignment
from klamm.placement.table import broker_shares, takeovers

Request = tuple[list[BrokerMetadata], int, int, int, int, int]


@st.composite
def racked_brokers(draw: st.DrawFn) -> list[BrokerMetadata]:
    ids = draw(st.lists(st.integers(0, 200), min_size=1, max_size=12, unique=True))
    return [BrokerMetadata(id_, draw(st.sampled_from("abcd"))) for id_ in ids]


@st.composite
def bare_brokers(draw: st.DrawFn) -> list[BrokerMetadata]:
    return [BrokerMetadata(broker.id) for broker in draw(racked_brokers())]


@st.composite
def equal_racks(draw: st.DrawFn) -> list[BrokerMetadata]:
    """Racks of the same number of brokers, ids in any order."""
    racks, each = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    ids = draw(st.permutations(range(racks * each)))
    return [BrokerMetadata(id_, f"rack{index % racks}") for index, id_ in enumerate(ids)]


def requests(brokers: st.SearchStrategy[list[BrokerMetadata]]) -> st.SearchStrategy[Request]:
    """Brokers, partitions, replication factor, start index, shift and first partition id."""
    return brokers.flatmap(
        lambda chosen: st.tuples(
            st.just(chosen),
            st.integers(1, 40),
            st.integers(1, len(chosen)),
            st.integers(0, 30),
            st.integers(0, 30),
            st.integers(0, 30),
        )
    )


def assign(request: Request) -> Assignment:
    brokers, partitions, replication_factor, start, shift, first = request
    return assign_replicas_to_brokers(
        brokers,
        partitions,
        replication_factor,
        start_index=start,
        next_replica_shift=shift,
        start_partition_id=first,
    )


@given(requests(st.one_of(racked_brokers(), bare_brokers())))
def test_every_partition_has_distinct_known_replicas_and_leaders_are_level(
    request: Request,
) -> None:
    brokers, partitions, replication_factor, _, _, first = request
    assignment = assign(request)
    ids = [broker.id for broker in brokers]
    assert list(assignment) == list(range(first, first + partitions))
    for replicas in assignment.values():
        assert len(set(replicas)) == len(replicas) == replication_factor
        assert set(replicas) <= set(ids)
    leads = [len(share.leads) for share in broker_shares(assignment, ids)]
    assert max(leads) - min(leads) <= 1


@given(requests(racked_brokers()))
def test_each_rack_gets_a_replica_or_no_rack_gets_two(request: Request) -> None:
    brokers, _, replication_factor, _, _, _ = request
    rack_of = {broker.id: broker.rack for broker in brokers}
    racks = set(rack_of.values())
    for replicas in assign(request).values():
        used = Counter(rack_of[id_] for id_ in replicas)
        if replication_factor >= len(racks):
            assert set(used) == racks
        else:
            assert max(used.values()) == 1


@given(equal_racks(), st.integers(0, 20), st.integers(0, 20), st.integers(1, 3))
def test_equal_racks_spread_evenly(
    brokers: list[BrokerMetadata], start: int, shift: int, rounds: int
) -> None:
    racks = len({broker.rack for broker in brokers})
    partitions = rounds * len(brokers)
    assignment = assign((brokers, partitions, racks, start, shift, 0))
    ids = [broker.id for broker in brokers]
    shares = broker_shares(assignment, ids)
    assert {len(share.leads) for share in shares} == {rounds}
    assert {len(share.leads) + len(share.follows) for share in shares} == {rounds * racks}


@given(requests(bare_brokers()))
def test_without_racks_replicas_of_whole_rounds_are_even(request: Request) -> None:
    brokers, _, replication_factor, start, shift, _ = request
    whole_round = (brokers, len(brokers), replication_factor, start, shift, 0)
    shares = broker_shares(assign(whole_round), [broker.id for broker in brokers])
    assert {len(share.leads) + len(share.follows) for share in shares} == {replication_factor}


@given(requests(st.one_of(racked_brokers(), bare_brokers())))
def test_partitions_added_within_the_first_round_are_those_of_one_bigger_topic(
    request: Request,
) -> None:
    brokers, partitions, replication_factor, start, shift, first = request
    first %= len(brokers) + 1
    whole = assign((brokers, first + partitions, replication_factor, start, shift, 0))
    added = assign((brokers, partitions, replication_factor, start, shift, first))
    assert added == {partition: whole[partition] for partition in added}


@given(requests(racked_brokers()))
def test_the_written_argument_reads_back_and_passes_kafkas_checks(request: Request) -> None:
    brokers, partitions, replication_factor, start, shift, _ = request
    assignment = assign((brokers, partitions, replication_factor, start, shift, 0))
    text = ",".join(":".join(map(str, replicas)) for replicas in assignment.values())
    assert parse_replica_assignment(text) == assignment
    check_new_topic_assignment(assignment)


@given(requests(st.one_of(racked_brokers(), bare_brokers())))
def test_takeovers_move_exactly_what_the_dead_broker_led(request: Request) -> None:
    assignment = assign(request)
    ids = [broker.id for broker in request[0]]
    shares = broker_shares(assignment, ids)
    for share, takeover in zip(shares, takeovers(assignment, ids), strict=True):
        moved = [part for parts in takeover.new_leaders.values() for part in parts]
        assert sorted([*moved, *takeover.leaderless]) == list(share.leads)
        for leader, parts in takeover.new_leaders.items():
            for partition in parts:
                live = [id_ for id_ in assignment[partition] if id_ != takeover.dead]
                assert live[0] == leader
