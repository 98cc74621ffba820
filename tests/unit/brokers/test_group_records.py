"""Keys and values of __consumer_offsets: round trips, and bytes of the schemas."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.brokers.groups.group import Group, GroupState, Member
from klamm.brokers.groups.group_coordinator import partition_for
from klamm.brokers.groups.group_records import (
    RecordKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
    group_key,
    group_value,
    offset_key,
    offset_value,
)
from klamm.brokers.logs.errors import CorruptRecord
from klamm.cluster.group_requests import CommittedOffset, Protocol
from klamm.cluster.types import TopicPartition

texts = st.text(st.characters(codec="utf-8"), max_size=20)
ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
members = st.builds(
    Member,
    texts,
    st.none() | texts,
    texts,
    texts,
    ints,
    ints,
    st.binary().map(lambda subscription: (Protocol("range", subscription),)),
    st.binary(),
)


def group_of(
    protocol_type: str | None,
    generation_id: int,
    leader: str | None,
    timestamp_ms: int,
    members: list[Member],
) -> Group:
    """A group as it is stored."""
    group = Group("g", timestamp_ms)
    group.protocol_type, group.generation_id, group.leader = protocol_type, generation_id, leader
    for member in members:
        group.add(member)
    if group.members:
        group.state, group.protocol_name = GroupState.STABLE, "range"
    group.compute_subscribed_topics()
    return group


groups = st.builds(
    group_of,
    st.none() | texts.filter(bool),
    ints,
    st.none() | texts,
    longs,
    st.lists(members, max_size=3, unique_by=lambda one: one.member_id),
)


@given(texts, texts, ints)
def test_keys_are_read_back(group_id: str, topic: str, partition: int) -> None:
    tp = TopicPartition(topic, partition)
    assert decode_key(offset_key(group_id, tp)) == RecordKey(group_id, tp)
    assert decode_key(group_key(group_id)) == RecordKey(group_id)


@given(groups)
def test_groups_are_read_back(group: Group) -> None:
    assert vars(decode_group_value("g", group_value(group))) == vars(group)


@given(longs, ints, texts, longs)
def test_offsets_are_read_back(offset: int, epoch: int, metadata: str, at_ms: int) -> None:
    committed = CommittedOffset(offset, epoch, metadata, at_ms)
    assert decode_offset_value(offset_value(committed)) == committed
    expiring = CommittedOffset(offset, -1, metadata, at_ms, 7)
    assert decode_offset_value(offset_value(expiring)) == expiring


def test_bytes_are_those_of_the_schemas() -> None:
    key = offset_key("g", TopicPartition("t", 1))
    assert key == bytes.fromhex("0001 0001 67 0001 74 00000001")
    assert group_key("g") == bytes.fromhex("0002 0001 67")
    value = offset_value(CommittedOffset(5, 2, "m", 9))
    assert value == bytes.fromhex("0003 0000000000000005 00000002 0001 6d 0000000000000009")
    member = Member("m", None, "c", "h", 3, 4, (Protocol("range", b"s"),), b"a")
    stored = group_value(group_of("consumer", 1, "m", 9, [member]))
    assert stored == bytes.fromhex(
        "0003 0008 636f6e73756d6572 00000001 0005 72616e6765 0001 6d 0000000000000009 00000001"
        "0001 6d ffff 0001 63 0001 68 00000003 00000004 00000001 73 00000001 61"
    )


@pytest.mark.parametrize("version", range(4))
def test_values_of_older_versions_are_read(version: int) -> None:
    parts = {
        "header": f"000{version} 0008 636f6e73756d6572 00000001 0005 72616e6765 0001 6d",
        "timestamp": "0000000000000009" if version >= 2 else "",
        "member": "00000001 0001 6d" + ("0001 69" if version >= 3 else "") + "0001 63 0001 68",
        "rebalance": "00000003" if version >= 1 else "",
        "session": "00000004 00000001 73 00000001 61",
    }
    member = Member(
        "m",
        "i" if version >= 3 else None,
        "c",
        "h",
        3 if version >= 1 else 4,
        4,
        (Protocol("range", b"s"),),
        b"a",
    )
    expected = group_of("consumer", 1, "m", 9 if version >= 2 else -1, [member])
    found = decode_group_value("g", bytes.fromhex("".join(parts.values())))
    assert vars(found) == vars(expected)
    epoch = "00000002" if version >= 3 else ""
    expires = "0000000000000008" if version == 1 else ""
    value = bytes.fromhex(
        f"000{version} 0000000000000005 {epoch} 0001 6d 0000000000000009 {expires}"
    )
    assert decode_offset_value(value) == CommittedOffset(
        5, 2 if version >= 3 else -1, "m", 9, 8 if version == 1 else -1
    )


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (decode_key, "0003 0001 67"),
        (decode_key, "0002 0002 67"),
        (decode_key, "0002 0001 ff"),
        (partial(decode_group_value, "g"), "0004"),
        (decode_offset_value, "0004"),
        (decode_offset_value, "ffff"),
    ],
)
def test_malformed_keys_and_values_are_refused(
    decode: Callable[[bytes], object], data: str
) -> None:
    with pytest.raises(CorruptRecord):
        decode(bytes.fromhex(data))


def test_a_group_is_in_the_partition_of_its_hash_code() -> None:
    # "polygenelubricants" has the hash code -2^31, whose absolute value is no Java int.
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("group", 50) == 98629247 % 50
