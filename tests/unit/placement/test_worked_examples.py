"""The tables of the articles klamm comes from, where Kafka 2.8.2 bears them out."""

from __future__ import annotations

import pytest

from klamm.placement.assign import assign_replicas_to_brokers, get_rack_alternated_broker_list
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.placement.manual import check_new_topic_assignment, parse_replica_assignment
from klamm.placement.table import broker_shares, takeovers

Columns = tuple[tuple[int, ...], ...]


def plain(*ids: int) -> list[BrokerMetadata]:
    return [BrokerMetadata(id_) for id_ in ids]


def table(rows: list[Columns]) -> dict[int, tuple[int, ...]]:
    """{partition: columns it stands in}, replica by replica, of a figure that shows for each
    replica number what partitions each broker's column holds."""
    partitions = {partition for column in rows[0] for partition in column}
    return {
        partition: tuple(
            index for row in rows for index, column in enumerate(row) if partition in column
        )
        for partition in partitions
    }


def test_the_worked_example_of_five_brokers_is_reproduced() -> None:
    expected = table(
        [
            ((0, 5), (1, 6), (2, 7), (3, 8), (4, 9)),
            ((4, 8), (0, 9), (1, 5), (2, 6), (3, 7)),
            ((3, 7), (4, 8), (0, 9), (1, 5), (2, 6)),
        ]
    )
    assigned = assign_replicas_to_brokers(
        plain(0, 1, 2, 3, 4), 10, 3, start_index=0, next_replica_shift=0
    )
    assert assigned == expected
    # The text beside that table names broker 1 as the third replica and is wrong.
    assert assigned[3] == (3, 4, 0)


def test_the_worked_example_of_three_racks_is_reproduced() -> None:
    racks = {0: "rack1", 5: "rack1", 3: "rack2", 4: "rack2", 1: "rack3", 2: "rack3"}
    brokers = [BrokerMetadata(id_, rack) for id_, rack in racks.items()]
    assert get_rack_alternated_broker_list(racks) == (0, 3, 1, 5, 4, 2)
    assert assign_replicas_to_brokers(brokers, 7, 3, start_index=0, next_replica_shift=0) == {
        0: (0, 3, 1),
        1: (3, 1, 5),
        2: (1, 5, 4),
        3: (5, 4, 2),
        4: (4, 2, 0),
        5: (2, 0, 3),
        6: (0, 4, 2),
    }


@pytest.mark.parametrize(
    ("start_index", "expected"),
    [(0, ((0, 5), (1, 6), (2, 7), (3, 8), (4, 9))), (2, ((3, 8), (4, 9), (0, 5), (1, 6), (2, 7)))],
)
def test_leaders_go_round_from_the_start_index(start_index: int, expected: Columns) -> None:
    ids = (1000, 1001, 1002, 1003, 1004)
    assigned = assign_replicas_to_brokers(
        plain(*ids), 10, 1, start_index=start_index, next_replica_shift=0
    )
    assert tuple(share.leads for share in broker_shares(assigned, ids)) == expected


def test_followers_need_start_index_and_shift_to_differ() -> None:
    expected = table(
        [
            ((0, 5), (1, 6), (2, 7), (3, 8), (4, 9)),
            ((1, 9), (2, 5), (3, 6), (4, 7), (0, 8)),
            ((4, 8), (0, 9), (1, 5), (2, 6), (3, 7)),
        ]
    )
    ids = (1000, 1001, 1002, 1003, 1004)
    assigned = assign_replicas_to_brokers(plain(*ids), 10, 3, start_index=0, next_replica_shift=3)
    assert assigned == {
        partition: tuple(ids[column] for column in columns)
        for partition, columns in expected.items()
    }
    # The article walks through these three.
    assert (assigned[1][0], set(assigned[1][1:])) == (1001, {1000, 1002})
    assert (assigned[3][0], set(assigned[3][1:])) == (1003, {1002, 1004})
    assert (assigned[7][0], set(assigned[7][1:])) == (1002, {1003, 1004})


def test_all_partitions_may_be_assigned_to_one_broker_manually() -> None:
    assigned = parse_replica_assignment("1000,1000,1000,1000,1000")
    assert assigned == {partition: (1000,) for partition in range(5)}
    check_new_topic_assignment(assigned)


def test_i_plus_j_mod_n_is_kafkas_only_for_the_first_n_partitions() -> None:
    n = 4
    assigned = assign_replicas_to_brokers(
        plain(*range(n)), n + 1, 3, start_index=0, next_replica_shift=0
    )
    for i in range(n):
        assert assigned[i] == tuple((i + j) % n for j in range(3))
    assert assigned[n] == (0, 2, 3)


def test_the_first_live_replica_takes_over() -> None:
    assigned = {4: (0, 3, 5), 5: (), 0: (0, 3, 1), 1: (3, 1, 5), 2: (0, 1, 5), 3: (0,)}
    dead_0, dead_1 = takeovers(assigned, (0, 1))
    assert (dead_0.dead, dead_0.leaderless) == (0, (3,))
    assert list(dead_0.new_leaders.items()) == [(1, (2,)), (3, (0, 4))]
    assert (dead_1.dead, dead_1.new_leaders, dead_1.leaderless) == (1, {}, ())
    share_0, share_1 = broker_shares(assigned, (0, 1))
    assert (share_0.leads, share_0.follows) == ((0, 2, 3, 4), ())
    assert (share_1.leads, share_1.follows) == ((), (0, 1, 2))
