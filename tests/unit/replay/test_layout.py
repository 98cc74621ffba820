"""The layout of a generated cluster: its topics, its groups of brokers and what is copied where."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from klamm.cluster.journal import Kind
from klamm.placement.assign import assign_replicas_to_brokers
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.replay.generate.layout import ANOMALOUS, DELETED, Layout, spread
from klamm.replay.generate.options import HistoryOptions, Planted
from klamm.replay.generate.tiling import new_row


def layout(partitions: int = 120, **options: object) -> Layout:
    return Layout(HistoryOptions(partitions, 100_000, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("brokers", range(4, 13))
def test_replicas_are_spread_as_kafka_spreads_them(brokers: int) -> None:
    metadata = [BrokerMetadata(broker_id) for broker_id in range(1, brokers + 1)]
    expected = assign_replicas_to_brokers(metadata, 40, 3, start_index=0, next_replica_shift=7)
    assert spread(40, brokers) == list(expected.values())


@pytest.mark.parametrize(
    ("brokers", "of_a_group", "groups"),
    [
        (3, 3, 1),
        (11, 11, 1),
        (12, 6, 2),
        (13, 6, 2),
        (14, 7, 2),
        (21, 7, 3),
        (22, 11, 2),
        (23, 11, 2),
    ],
)
def test_as_few_brokers_as_possible_are_in_no_group(
    brokers: int, of_a_group: int, groups: int
) -> None:
    made = layout(brokers=brokers)
    assert (made.brokers, made.groups) == (of_a_group, groups)
    used = {broker for p in range(120) for broker in made.assignment(p)}
    assert used <= set(range(1, of_a_group * groups + 1))
    assert made.copies_of_broker(2) == [2 + of_a_group * group for group in range(groups)]


def test_one_topic_in_ten_is_deleted_again_and_again() -> None:
    made = layout(200, partitions_per_topic=10)
    deleted = {made.names[p].topic for p in range(200) if made.is_deleted[p]}
    assert deleted == {"topic-00009", "topic-00019"}
    assert made.partitions_of(9) == (90, 100)
    assert [made.names[p] for p in (0, 9, 10)] == [
        ("topic-00000", 0),
        ("topic-00000", 9),
        ("topic-00001", 0),
    ]


@pytest.mark.parametrize(("planted", "is_deleted"), [(90, True), (91, False)])
def test_no_topic_is_deleted_if_anomalies_need_its_partitions(
    planted: int, is_deleted: bool
) -> None:
    made = layout(100, partitions_per_topic=10, planted={Planted.GAP: planted})
    assert bool(made.is_deleted.any()) == is_deleted


def test_a_large_topic_comes_first() -> None:
    made = layout(100, partitions_per_topic=10, skew=0.35)
    sizes = Counter(name.topic for name in made.names)
    assert sizes["topic-00000"] == 35
    assert [sizes[f"topic-{number:05d}"] for number in range(1, 8)] == [10] * 6 + [5]


def test_every_partition_is_a_copy_of_one_of_its_kind() -> None:
    made = layout(400, partitions_per_topic=10, brokers=21)
    for p in range(400):
        base = int(made.base[p])
        assert (base >= made.kept) == bool(made.is_deleted[p])
        shift = int(made.group[p]) * 7
        assert made.assignment(p) == tuple(one + shift for one in made.assignments[base])
    assert {int(group) for group in made.group} == {0, 1, 2}
    row = new_row(Kind.PARTITION_SNAPSHOT)
    found: list[int] = []
    for base in range(made.kept + made.deleted):
        name = made.recorded_name(base)
        about = replace(row, topic=name.topic, partition=name.partition)
        assert made.base_of(about) == base
        p, topic, group = made.targets(about)
        assert (made.base[p] == base).all() and (made.group[p] == group).all()
        assert set(topic.tolist()) == {-1}
        found += p.tolist()
    assert sorted(found) == list(range(400))


def test_a_row_about_a_topic_or_broker_has_a_target_for_each_copy() -> None:
    made = layout(200, partitions_per_topic=10, brokers=21)
    row = new_row(Kind.EVENT)
    assert made.targets(row).tolist() == [[-1], [-1], [0]]
    assert made.targets(replace(row, replica=2)).tolist() == [[-1] * 3, [-1] * 3, [0, 1, 2]]
    assert made.targets(replace(row, topic=DELETED)).tolist() == [[-1] * 2, [9, 19], [0] * 2]


def test_partitions_with_an_anomaly_are_copies_of_the_recorded_one_with_anomalies() -> None:
    planted = {Planted.GAP: 7, Planted.STUCK: 4}
    made = layout(100, partitions_per_topic=10, planted=planted, brokers=12)
    assert len(set(made.planted)) == 11
    assert made.recorded_name(0) == ANOMALOUS
    assert not made.base[made.planted].any()
    assert not made.is_deleted[made.planted].any()
    assert set(made.group[made.planted].tolist()) == {0, 1}
    assert layout(100, planted={Planted.GAP: 100}).kept == 1
