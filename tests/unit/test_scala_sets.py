"""Orders of Scala 2.13's sets, as its own classes printed them."""

from __future__ import annotations

from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.scala_sets import (
    duplicates,
    hash_set_order,
    immutable_order,
    int_hash,
    mutable_order,
    topic_partition_hash,
)
from klamm.cluster.types import TopicPartition


def shown(items: list[object]) -> str:
    return ",".join(map(str, items))


def test_sets_of_integers_have_scalas_order() -> None:
    assert immutable_order([3, 1, 3, 2, 0], int_hash) == [3, 1, 2, 0]
    assert immutable_order(range(12), int_hash) == [0, 5, 10, 1, 6, 9, 2, 7, 3, 11, 8, 4]
    many = hash_set_order(range(0, 100100, 1001), int_hash)
    assert many[:8] == [93093, 45045, 78078, 29029, 0, 47047, 94094, 18018]
    assert many[-4:] == [60060, 19019, 22022, 65065]


def test_sets_of_texts_and_partitions_have_scalas_order() -> None:
    texts = hash_set_order((f"topic-{n * 7}" for n in range(40)), string_hash)
    assert texts[:4] == ["topic-266", "topic-98", "topic-168", "topic-147"]
    assert texts[-2:] == ["topic-273", "topic-91"]
    partitions = [TopicPartition(f"t{n % 3}", n) for n in range(5)]
    assert shown([*hash_set_order(partitions, topic_partition_hash)]) == (
        "t1-1,t2-2,t0-0,t0-3,t1-4"
    )


def test_mutable_sets_have_scalas_order() -> None:
    partitions = [TopicPartition(f"topic{n % 3}", n) for n in range(24)]
    assert shown([*mutable_order(partitions[:3], topic_partition_hash)]) == (
        "topic1-1,topic2-2,topic0-0"
    )
    # The table grows once it is three quarters full.
    assert shown([*mutable_order(partitions, topic_partition_hash)][:6]) == (
        "topic1-1,topic1-22,topic1-16,topic0-18,topic2-20,topic2-14"
    )
    assert shown([*mutable_order(partitions[:13], topic_partition_hash)]) == (
        "topic1-1,topic2-2,topic0-0,topic0-12,topic1-10,topic2-11,"
        "topic0-9,topic0-3,topic1-4,topic2-5,topic0-6,topic1-7,topic2-8"
    )


def test_duplicates_are_in_scalas_order() -> None:
    assert duplicates([5, 1, 5, 2, 1, 5], int_hash) == [5, 1]
    assert duplicates([1, 1, 20, 20, 29], int_hash) == [20, 1]
