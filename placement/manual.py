"""Parses and checks manual replica assignments as Kafka does.

admin/ checks topic names, configs and whether topics exist. Mirrors
TopicCommand.parseReplicaAssignment, the assignment part of AdminZkClient.validateTopicCreate and
AdminZkClient.validateReplicaAssignment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from klamm.cluster.errors import (
    AdminCommandFailed,
    AdminOperationError,
    BrokerNotAvailable,
    InvalidNumber,
    InvalidReplicaAssignment,
)
from klamm.cluster.integers import INT32_MAX
from klamm.cluster.jvm.java_integer import parse_java_int
from klamm.cluster.jvm.java_strings import java_split, java_trim
from klamm.cluster.jvm.scala_sets import (
    SMALL_SET,
    duplicates,
    immutable_order,
    int_hash,
    mutable_order,
)
from klamm.placement.assign import Assignment, Replicas


def parse_replica_assignment(text: str) -> Assignment:
    """Parse the value of `--replica-assignment`.

    Partitions, counted from 0, are separated by ",", and the replicas of a partition by ":".
    Trailing empty parts are dropped, as by Java's split. Raises InvalidNumber, AdminCommandFailed
    (duplicate broker in a list) and AdminOperationError (lists of different lengths).
    """
    assignment: Assignment = {}
    for partition, piece in enumerate(java_split(text, ",")):
        replicas = tuple(_java_int(broker) for broker in java_split(piece, ":"))
        repeated = duplicates(replicas, int_hash)
        if repeated:
            raise AdminCommandFailed(
                "Partition replica lists may not contain duplicate entries:"
                f" {_joined(repeated, ',')}",
                hint=f"partition {partition} lists {_joined(replicas)}",
            )
        assignment[partition] = replicas
        if len(replicas) != len(assignment[0]):
            raise AdminOperationError(
                f"Partition {partition} has different replication factor:"
                f" {_java_array_text(replicas)}",
                hint=f"partition {partition} lists {len(replicas)} replicas ({_joined(replicas)}),"
                f" partition 0 lists {len(assignment[0])}",
            )
    return assignment


def check_new_topic_assignment(
    assignment: Mapping[int, Sequence[int]], *, is_request: bool = False
) -> None:
    """Check the manual assignment of a new topic, like AdminZkClient.validateTopicCreate.

    ``is_request``: it comes from a CreateTopics request, for which Kafka has mutable collections.

    As in Kafka, unknown brokers are accepted, and so are replica lists that are all empty, and
    partition ids such as {-1, 1, 2}: 2.8.2 checks only the sum of the non-negative ids. Raises
    InvalidReplicaAssignment.
    """
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise InvalidReplicaAssignment("All partitions should have the same number of replicas")
    for replicas in assignment.values():
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignment(
                f"Duplicate replica assignment found: {_scala_map_text(assignment, is_request)}"
            )
    count = len(assignment)
    if sum(partition for partition in assignment if partition >= 0) != count * (count - 1) // 2:
        raise InvalidReplicaAssignment(
            "partitions should be a consecutive 0-based integer sequence"
        )


def check_added_assignment(
    assignment: Mapping[int, Sequence[int]],
    expected_replication_factor: int,
    available_broker_ids: Collection[int],
) -> None:
    """Check the manual assignment of added partitions, like validateReplicaAssignment.

    Raises InvalidReplicaAssignment, or BrokerNotAvailable for a broker that is not in
    `available_broker_ids`.
    """
    for partition, replicas in assignment.items():
        if not replicas:
            raise InvalidReplicaAssignment(
                f"Cannot have replication factor of 0 for partition id {partition}."
            )
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignment(
                "Duplicate brokers not allowed in replica assignment:"
                f" {_joined(replicas)} for partition id {partition}."
            )
        if not set(replicas) <= set(available_broker_ids):
            raise BrokerNotAvailable(
                f"Some brokers specified for partition id {partition} are not available."
                f" Specified brokers: {_joined(replicas)},"
                f" available brokers: {_joined(available_broker_ids)}."
            )
    bad = {
        partition: len(assignment[partition])
        for partition in sorted(assignment)
        if len(assignment[partition]) != expected_replication_factor
    }
    if bad:
        raise InvalidReplicaAssignment(
            "Inconsistent replication factor between partitions,"
            f" partition 0 has {expected_replication_factor} while partitions [{_joined(bad)}]"
            f" have replication factors [{_joined(bad.values())}], respectively."
        )


def _java_int(text: str) -> int:
    digits = java_trim(text)
    number = parse_java_int(digits)
    if number is None:
        raise InvalidNumber(
            f'For input string: "{digits}"', hint="broker ids are integers, as in 0:1,1:2"
        )
    return number


def _java_array_text(replicas: Replicas) -> str:
    # Kafka prints the array object: its type and identity hash. klamm prints a repeatable hash.
    array_hash = 1
    for broker in replicas:
        array_hash = (31 * array_hash + broker) & INT32_MAX
    return f"[I@{array_hash:x}"


def _scala_map_text(assignment: Mapping[int, Sequence[int]], is_mutable: bool) -> str:
    ordered = (mutable_order if is_mutable else immutable_order)(assignment, int_hash)
    name = "HashMap" if is_mutable or len(assignment) > SMALL_SET else "Map"
    seq = "ArrayBuffer" if is_mutable else "List"
    entries = (f"{partition} -> {seq}({_joined(assignment[partition])})" for partition in ordered)
    return f"{name}({', '.join(entries)})"


def _joined(ids: Collection[int], separator: str = ", ") -> str:
    return separator.join(map(str, ids))
