"""Automatic assignment against what AdminUtils of 2.8.2 answered."""

from __future__ import annotations

import pytest

from klamm.cluster.errors import AdminError, AdminOperationError
from klamm.placement.assign import (
    assign_replicas_to_brokers,
    get_inverse_map,
    get_rack_alternated_broker_list,
    replica_index,
    starting_point,
)
from klamm.placement.broker_metadata import BrokerMetadata, broker_metadatas
from klamm.placement.draws import JavaRandom
from tests.unit.placement.vectors import Case, assert_same_error, brokers_of, by_partition, cases


class Scripted:
    """Draws the given numbers and remembers the bounds."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)
        self.bounds: list[int] = []

    def next_int(self, bound: int) -> int:
        self.bounds.append(bound)
        return self.numbers.pop(0)


@pytest.mark.parametrize("case", cases("assign.jsonl"))
def test_assigns_as_kafka_does_from_a_fixed_start_index(case: Case) -> None:
    def assign() -> dict[int, tuple[int, ...]]:
        return assign_replicas_to_brokers(
            brokers_of(case),
            case["partitions"],
            case["replication_factor"],
            start_index=case["fixed_start_index"],
            next_replica_shift=case["fixed_start_index"],
            start_partition_id=case["start_partition_id"],
        )

    if "error" in case:
        with pytest.raises(AdminError) as raised:
            assign()
        assert_same_error(raised.value, case["error"], case["error"]["message"])
    else:
        assert assign() == by_partition(case["result"])


@pytest.mark.parametrize("case", cases("assign_random_start.jsonl"))
def test_draws_and_assigns_as_kafka_does_from_a_seed(case: Case) -> None:
    brokers = brokers_of(case)
    drawn = starting_point(len(brokers), None, None, JavaRandom(case["java_seed"]))
    assert drawn == (case["drawn_start_index"], case["drawn_next_replica_shift"])
    assert assign_replicas_to_brokers(
        brokers,
        case["partitions"],
        case["replication_factor"],
        start_partition_id=case["start_partition_id"],
        source=JavaRandom(case["java_seed"]),
    ) == by_partition(case["result"])


@pytest.mark.parametrize("case", cases("rack_alternated.jsonl"))
def test_alternates_racks_as_kafka_does(case: Case) -> None:
    racks = {broker_id: rack for broker_id, rack in case["broker_racks"]}
    assert get_rack_alternated_broker_list(racks) == tuple(case["alternated"])
    inverse = {rack: tuple(ids) for rack, ids in case["inverse"].items()}
    assert get_inverse_map(racks) == inverse


def test_racks_are_in_javas_string_order() -> None:
    # U+FF41 is below U+1F600 as a code point and above it as UTF-16 code units.
    assert list(get_inverse_map({0: "\uff41", 1: "\U0001f600"})) == ["\U0001f600", "\uff41"]


@pytest.mark.parametrize(
    ("start_index", "shift", "numbers", "expected", "draws"),
    [
        (None, None, (4, 2), (4, 2), 2),
        (3, None, (2,), (3, 2), 1),
        (None, 1, (4,), (4, 1), 1),
        (3, 1, (), (3, 1), 0),
    ],
)
def test_missing_values_are_drawn_and_the_start_index_first(
    start_index: int | None,
    shift: int | None,
    numbers: tuple[int, ...],
    expected: tuple[int, int],
    draws: int,
) -> None:
    source = Scripted(*numbers)
    assert starting_point(5, start_index, shift, source) == expected
    assert source.bounds == [5] * draws


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (-1, [0, 3, 9, 894294477, 857465478, 121412731, 1730951808, 332610256]),
        (42, [0, 0, 8, 102948884, 662969970, 595021505, 1519796918, 714627759]),
        (1 << 50, [0, 6, 9, 663681053, 251269761, 715581077, 542832677, 413593736]),
    ],
)
def test_java_random_draws_javas_numbers(seed: int, expected: list[int]) -> None:
    # 2^30 + 1 fits only once into 2^31: about half of the draws for it are thrown away.
    rejecting = 2**30 + 1
    bounds = (1, 8, 10, rejecting, rejecting, rejecting, 2**31 - 1, 2**30)
    source = JavaRandom(seed)
    assert [source.next_int(bound) for bound in bounds] == expected


@pytest.mark.parametrize(
    ("first", "shift", "follower", "expected"),
    [(0, 0, 0, 1), (4, 0, 0, 0), (0, 3, 0, 4), (0, 4, 0, 1), (2, 1, 2, 1)],
)
def test_the_index_of_a_follower_skips_the_first_replica(
    first: int, shift: int, follower: int, expected: int
) -> None:
    assert replica_index(first, shift, follower, 5) == expected


def test_broker_metadatas_sort_and_keep_or_drop_racks() -> None:
    all_racked = [BrokerMetadata(2, "b"), BrokerMetadata(1, "a")]
    some_racked = [BrokerMetadata(2, "b"), BrokerMetadata(1)]
    bare = (BrokerMetadata(1), BrokerMetadata(2))
    assert broker_metadatas(all_racked) == (BrokerMetadata(1, "a"), BrokerMetadata(2, "b"))
    assert broker_metadatas(all_racked, ignores_racks=True) == bare
    assert broker_metadatas(some_racked, ignores_racks=True) == bare
    assert broker_metadatas(bare) == bare
    with pytest.raises(AdminOperationError, match="Add --disable-rack-aware in command line"):
        broker_metadatas(some_racked)
