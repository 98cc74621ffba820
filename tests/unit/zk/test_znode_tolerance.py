"""What Jackson takes and refuses beyond the recorded cases, and znodes that read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.cluster.types import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicIdReplicaAssignment,
    TopicPartition,
)
from klamm.zk.znodes import (
    BrokerIdZNode,
    ClusterIdZNode,
    ConfigEntityZNode,
    ControllerEpochZNode,
    ControllerZNode,
    FeatureZNode,
    MalformedZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
    TopicPartitionStateZNode,
    TopicZNode,
    UnparsableJson,
)

ints = st.integers(-(2**31), 2**31 - 1)
ids = st.lists(st.integers(0, 2**31 - 1), max_size=5).map(tuple)


@pytest.mark.parametrize(
    "text",
    [
        '{"brokerid":3} and more',
        ' \n\t{"brokerid":3}}',
        '{"brokerid":1,"brokerid":3}',
        '{"brokerid":"x","brokerid":3}',
        '{"brokerid":3,"other":[1.5,null,{}]}',
        '\ufeff{"brokerid":3}',
    ],
)
def test_json_that_jackson_tolerates_is_read(text: str) -> None:
    assert ControllerZNode.decode(text.encode()) == 3


@pytest.mark.parametrize(
    "text", ["{'brokerid':3}", '{"brokerid":03}', '{"brokerid":NaN}', "nope", '{"brokerid":3', "3x"]
)
def test_text_that_is_not_json_to_jackson_is_none(text: str) -> None:
    assert ControllerZNode.decode(text.encode()) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"brokerid":3.0}',
        '{"brokerid":3e0}',
        '{"brokerid":true}',
        '{"brokerid":2147483648}',
        pytest.param(f'{{"brokerid":{"[" * 700}{"]" * 700}}}', id="deeply nested"),
        "",
        " ",
    ],
)
def test_json_without_a_broker_id_is_malformed(text: str) -> None:
    with pytest.raises(MalformedZNode):
        ControllerZNode.decode(text.encode())


@pytest.mark.parametrize("data", [b"\xff", b'{"a":"\xff"}', b"[" * 100_000])
def test_bytes_that_are_not_utf_8_are_none(data: bytes) -> None:
    assert TopicPartitionStateZNode.decode(data, 0) is None


def test_json_in_utf_16_is_read() -> None:
    assert ControllerZNode.decode('{"brokerid":3}'.encode("utf-16")) == 3


@pytest.mark.parametrize("text", ["", " 1", "1_0", "+", "²", "0x1"])
def test_an_epoch_that_java_does_not_parse_is_malformed(text: str) -> None:
    with pytest.raises(MalformedZNode, match="For input string"):
        ControllerEpochZNode.decode(text.encode())


def test_a_null_znode_is_refused_where_jackson_gets_it() -> None:
    decoders = (
        lambda: TopicPartitionStateZNode.decode(None, 0),
        lambda: BrokerIdZNode.decode(1, None),
        lambda: ControllerZNode.decode(None),
        lambda: ControllerEpochZNode.decode(None),
        lambda: ClusterIdZNode.decode(None),
        lambda: FeatureZNode.decode(None),
    )
    for decode in decoders:
        with pytest.raises(MalformedZNode):
            decode()
    assert ConfigEntityZNode.decode(None) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"version":1,"partitions":[{"topic":5,"partition":" 7 ","replicas":[2]}]}', ("5", 7)),
        ('{"partitions":[{"topic":"t","partition":1.9,"replicas":[2]}]}', ("t", 1)),
        ('{"partitions":[{"topic":"t","replicas":[2]}]}', ("t", 0)),
    ],
)
def test_fields_of_reassignments_are_coerced_as_by_jackson(
    text: str, expected: tuple[str, int]
) -> None:
    assert ReassignPartitionsZNode.decode(text.encode()) == {TopicPartition(*expected): (2,)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"partitions":{}}',
        '{"partitions":[{"topic":"t","partition":"x","replicas":[1]}]}',
        '{"partitions":[{"topic":"t","partition":1e400,"replicas":[1]}]}',
        '{"partitions":[{"topic":"t","partition":2147483647.5,"replicas":[1]}]}',
        '{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["any"]}]}',
        '{"partitions":[],"more":1}',
    ],
)
def test_text_that_kafka_takes_for_no_reassignments_is_not_json(text: str) -> None:
    with pytest.raises(UnparsableJson):
        ReassignPartitionsZNode.decode(text.encode())


@pytest.mark.parametrize("text", ["null", '{"partitions":[null]}'])
def test_null_reassignments_are_malformed(text: str) -> None:
    with pytest.raises(MalformedZNode):
        ReassignPartitionsZNode.decode(text.encode())


def test_an_entry_without_replicas_has_null() -> None:
    null = {TopicPartition("t", 0): None}
    assert ReassignPartitionsZNode.decode(b'{"partitions":[{"topic":"t"}]}') == null
    text = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":null}]}'
    assert ReassignPartitionsZNode.decode(text) == null
    assert ReassignPartitionsZNode.encode(null) == text


@pytest.mark.parametrize("replica", ['"1"', "1.0", "null", "true", "[1]", "2147483648"])
def test_an_entry_with_other_values_than_broker_ids_has_null(replica: str) -> None:
    entries = (
        f'{{"topic":"t","partition":{partition},"replicas":[1,{other}]}}'
        for partition, other in ((0, replica), (1, 2))
    )
    text = f'{{"version":1,"partitions":[{",".join(entries)}]}}'
    decoded = ReassignPartitionsZNode.decode(text.encode())
    assert decoded == {TopicPartition("t", 0): None, TopicPartition("t", 1): (1, 2)}


@given(ints, ints, st.lists(ints, max_size=6).map(tuple), ints, st.integers(0, 2**31 - 1))
def test_a_state_reads_back(
    leader: int, leader_epoch: int, isr: tuple[int, ...], controller_epoch: int, zk_version: int
) -> None:
    state = LeaderAndIsr(leader, leader_epoch, isr, zk_version)
    data = TopicPartitionStateZNode.encode(state, controller_epoch)
    expected = LeaderIsrAndControllerEpoch(state, controller_epoch)
    assert TopicPartitionStateZNode.decode(data, zk_version) == expected
    # What follows the value is ignored, but not by the quick way of reading it.
    assert TopicPartitionStateZNode.decode(data + b" x", zk_version) == expected


@given(
    st.dictionaries(
        st.integers(0, 2**31 - 1), st.builds(ReplicaAssignment, ids, ids, ids), max_size=12
    ),
    st.sampled_from([None, "P22SxLbARtavHwABAgMEBQ"]),
)
def test_a_topic_reads_back(replicas: dict[int, ReplicaAssignment], topic_id: str | None) -> None:
    assignment = {TopicPartition("t", partition): r for partition, r in replicas.items()}
    data = TopicZNode.encode(topic_id, assignment)
    assert TopicZNode.decode("t", data) == TopicIdReplicaAssignment("t", topic_id, assignment)


@given(st.lists(st.builds(TopicPartition, st.text(), ints), unique=True))
def test_a_list_of_partitions_reads_back(partitions: list[TopicPartition]) -> None:
    data = PreferredReplicaElectionZNode.encode(partitions)
    assert PreferredReplicaElectionZNode.decode(data) == partitions
