"""Manual assignments and added partitions against what 2.8.2 answered."""

from __future__ import annotations

import re

import pytest

from klamm.cluster.errors import (
    AdminError,
    AdminOperationError,
    InvalidReplicaAssignment,
    NoSuchElement,
)
from klamm.cluster.types import ReplicaAssignment
from klamm.placement.added_partitions import (
    create_new_partitions_assignment,
    drop_existing_partitions,
    number_added_lists,
)
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.placement.manual import check_new_topic_assignment, parse_replica_assignment
from tests.unit.placement.vectors import Case, assert_same_error, brokers_of, by_partition, cases

_BROKERS = [BrokerMetadata(id_) for id_ in range(3)]


@pytest.mark.parametrize("case", cases("assign_arg.jsonl"))
def test_reads_the_argument_as_kafka_does(case: Case) -> None:
    if "error" not in case:
        assert parse_replica_assignment(case["arg"]) == by_partition(case["result"])
        return
    with pytest.raises(AdminError) as raised:
        parse_replica_assignment(case["arg"])
    # Kafka prints an array's identity hash, which no two runs share.
    raised.value.message = re.sub(r"\[I@[0-9a-f]{1,8}$", "[I@HASH", raised.value.message)
    assert_same_error(raised.value, case["error"], case["error"]["message"])


def _members_sorted(message: str) -> str:
    """A list that Kafka prints in hash order, put into one order."""
    match = re.search(r"available brokers: (-?\d[-\d, ]*)", message)
    if match is None:
        return message
    members = ",".join(sorted(re.split(r", ?", match[1])))
    return message[: match.start(1)] + members + message[match.end(1) :]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (",", {}),
        ("\u0661:2", {0: (1, 2)}),
        ("+1:2", {0: (1, 2)}),
        ("-2147483648", {0: (-2147483648,)}),
    ],
)
def test_reads_corners_as_java_does(text: str, expected: dict[int, tuple[int, ...]]) -> None:
    assert parse_replica_assignment(text) == expected


@pytest.mark.parametrize(
    "text", ["1_0", "2147483648", "\u00a01", "1 2", "-", "+", "²", "\U0001d7ce", "1::2", "1" * 5000]
)
def test_refuses_what_java_does_not_read_as_a_number(text: str) -> None:
    with pytest.raises(AdminError, match="For input string: "):
        parse_replica_assignment(text)


def test_the_hint_names_the_list_of_another_length() -> None:
    with pytest.raises(AdminOperationError) as raised:
        parse_replica_assignment("0:1,7")
    assert raised.value.hint == "partition 1 lists 1 replicas (7), partition 0 lists 2"


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ({}, "All partitions should have the same number of replicas"),
        ({0: (1,), 1: (1, 2)}, "All partitions should have the same number of replicas"),
        ({0: (1, 1)}, "Duplicate replica assignment found: Map(0 -> List(1, 1))"),
        (
            {0: (1, 1), 1: (1, 2), 2: (1, 2), 3: (1, 2)},
            "Duplicate replica assignment found: Map(0 -> List(1, 1), 1 -> List(1, 2), "
            "2 -> List(1, 2), 3 -> List(1, 2))",
        ),
        ({0: (1,), 2: (1,)}, "partitions should be a consecutive 0-based integer sequence"),
        ({-1: (1,), 0: (1,)}, "partitions should be a consecutive 0-based integer sequence"),
    ],
)
def test_refuses_a_new_topics_inconsistent_lists(
    assignment: dict[int, tuple[int, ...]], message: str
) -> None:
    with pytest.raises(InvalidReplicaAssignment, match=re.escape(message)):
        check_new_topic_assignment(assignment)


def test_the_lists_of_a_request_are_mutable_in_kafka() -> None:
    lists = dict.fromkeys(range(3), (1, 2)) | {1: (2, 2)}
    with pytest.raises(InvalidReplicaAssignment) as raised:
        check_new_topic_assignment(lists, is_request=True)
    assert raised.value.message == (
        "Duplicate replica assignment found: HashMap(0 -> ArrayBuffer(1, 2), "
        "1 -> ArrayBuffer(2, 2), 2 -> ArrayBuffer(1, 2))"
    )


def test_accepts_a_new_topics_consistent_lists() -> None:
    check_new_topic_assignment({1: (2, 1), 0: (1, 2)})
    check_new_topic_assignment({0: ()})
    check_new_topic_assignment({-1: (1,), 1: (1,), 2: (1,)})


@pytest.mark.parametrize("case", cases("add_partitions.jsonl"))
def test_adds_partitions_as_kafka_does(case: Case) -> None:
    existing = {
        partition: ReplicaAssignment(replicas)
        for partition, replicas in by_partition(case["existing"]).items()
    }
    manual = None if case["manual"] is None else by_partition(case["manual"])

    def add() -> dict[int, ReplicaAssignment]:
        return create_new_partitions_assignment(
            case["topic"], existing, brokers_of(case), case["num_partitions"], manual
        )

    if "error" in case:
        with pytest.raises(AdminError) as raised:
            add()
        raised.value.message = _members_sorted(raised.value.message)
        assert_same_error(raised.value, case["error"], _members_sorted(case["error"]["message"]))
    else:
        replicas = {partition: added.replicas for partition, added in add().items()}
        assert replicas == by_partition(case["result"])


def test_refuses_to_add_when_partition_0_is_missing() -> None:
    with pytest.raises(AdminOperationError) as raised:
        create_new_partitions_assignment("t", {1: ReplicaAssignment((0,))}, _BROKERS, 3)
    assert raised.value.message == (
        "Unexpected existing replica assignment for topic 't', partition id 0 is missing."
        " Assignment: Map(1 -> ReplicaAssignment(replicas=0, addingReplicas=, removingReplicas=))"
    )


def test_refuses_lists_of_another_length_than_partition_0s() -> None:
    with pytest.raises(InvalidReplicaAssignment) as raised:
        create_new_partitions_assignment(
            "t", {0: ReplicaAssignment((0, 1))}, _BROKERS, 4, {3: (0, 1, 2), 1: (0,), 2: (1, 2)}
        )
    assert raised.value.message == (
        "Inconsistent replication factor between partitions, partition 0 has 2 while partitions"
        " [1, 3] have replication factors [1, 3], respectively."
    )


def test_refuses_to_follow_a_partition_without_replicas() -> None:
    with pytest.raises(NoSuchElement, match=r"^head of empty list$") as raised:
        create_new_partitions_assignment("t", {0: ReplicaAssignment(())}, _BROKERS, 2)
    assert raised.value.kafka_class == "java.util.NoSuchElementException"


def test_goes_on_from_the_first_broker_when_all_ids_are_below_the_leaders() -> None:
    added = create_new_partitions_assignment("t", {0: ReplicaAssignment((9,))}, _BROKERS, 2)
    assert added == {1: ReplicaAssignment((1,))}


def test_the_argument_lists_existing_partitions_too() -> None:
    parsed = parse_replica_assignment("0,1,2")
    assert drop_existing_partitions(parsed, 2) == {2: (2,)}
    assert drop_existing_partitions(parsed, 3) is None


def test_numbers_the_lists_of_a_request() -> None:
    assert number_added_lists([[0], [2]], 3, 5, [0, 1, 2]) == {3: (0,), 4: (2,)}
    with pytest.raises(InvalidReplicaAssignment) as unknown:
        number_added_lists([[0, 9], [8]], 3, 5, [0, 1, 2])
    assert unknown.value.message == "Unknown broker(s) in replica assignment: 9, 8."
    for lists in ([[0]], [[0], [1], [2]]):
        with pytest.raises(InvalidReplicaAssignment) as count:
            number_added_lists(lists, 3, 5, [0, 1, 2])
        assert count.value.message == (
            f"Increasing the number of partitions by 2 but {len(lists)} assignments provided."
        )
