"""The order of Java's maps, against what a Java printed."""

from __future__ import annotations

from klamm.cluster.configs import TOPIC_CONFIGS
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.java_maps import children_order, copied_order, hash_map_order


def test_strings_have_javas_hash() -> None:
    assert string_hash("") == 0
    assert string_hash("hello") == 99162322
    assert string_hash("klamm-topic") == 2361964002
    assert string_hash("€😀") == 9810703


def test_a_small_map_has_javas_order() -> None:
    assert hash_map_order(sorted(TOPIC_CONFIGS)[:9]) == [
        "compression.type",
        "cleanup.policy",
        "file.delete.delay.ms",
        "flush.ms",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "delete.retention.ms",
        "flush.messages",
    ]


def test_a_map_that_grew_twice_has_javas_order() -> None:
    order = hash_map_order(sorted(TOPIC_CONFIGS))
    assert order[:3] == [
        "compression.type",
        "leader.replication.throttled.replicas",
        "message.downconversion.enable",
    ]
    assert order[-3:] == [
        "segment.ms",
        "message.timestamp.difference.max.ms",
        "segment.index.bytes",
    ]
    part = hash_map_order(["segment.ms", "retention.ms"], entries=len(order))
    assert part == ["retention.ms", "segment.ms"]


def test_a_map_with_a_given_capacity_has_javas_order() -> None:
    names = sorted(f"topic-{number}" for number in range(20))
    for _ in range(2):
        names = hash_map_order(names, capacity=20)
    shown = [int(name.removeprefix("topic-")) for name in names]
    assert shown == [6, 7, 8, 9, 0, 1, 2, 10, 3, 11, 4, 12, 5, 13, 14, 15, 16, 17, 18, 19]


def test_a_copy_of_a_map_has_javas_order() -> None:
    # m3 and cf2 are in one bucket of 8, which the copy divides.
    names = hash_map_order(["a", "a.b", "cf2", "m3", "m4", "m7"], capacity=6)
    assert names == ["a", "m7", "a.b", "cf2", "m3", "m4"]
    copied = copied_order(names)
    assert hash_map_order(copied, capacity=6) == ["a", "m7", "a.b", "m3", "cf2", "m4"]


def test_children_of_a_znode_are_in_zookeepers_order() -> None:
    # As ZooKeeper 3.5.9 listed them.
    assert children_order(["__consumer_offsets", "dead", "t", "x-1"]) == [
        "dead",
        "t",
        "x-1",
        "__consumer_offsets",
    ]
    assert children_order(["a.b", "dead", "t", "x-1"]) == ["dead", "a.b", "t", "x-1"]
