"""Replica assignment of partitions that are added to a topic.

The caller writes the assignment. Mirrors AdminZkClient.createNewPartitionsAssignment and the checks
of replica lists in ZkAdminManager.createPartitions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from klamm.cluster.errors import (
    AdminOperationError,
    InvalidPartitions,
    InvalidReplicaAssignment,
    NoSuchElement,
)
from klamm.cluster.types import ReplicaAssignment
from klamm.placement.assign import Assignment, assign_replicas_to_brokers
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.placement.manual import check_added_assignment


def create_new_partitions_assignment(
    topic: str,
    existing: Mapping[int, ReplicaAssignment],
    brokers: Sequence[BrokerMetadata],
    num_partitions: int,
    manual: Mapping[int, Sequence[int]] | None = None,
) -> dict[int, ReplicaAssignment]:
    """Assign replicas to the partitions that are added to `topic`.

    Returns only the added partitions. `num_partitions` is the new total number of partitions.
    `brokers` are all live brokers, by ascending id. If `manual` is given, its replica lists are
    checked and returned; its partition ids are not checked. Otherwise Kafka's automatic assignment
    is used, starting at the preferred leader of partition 0.

    Raises AdminOperationError (partition 0 is missing, or only some brokers have racks),
    InvalidPartitions, NoSuchElement (partition 0 has no replicas), InvalidReplicationFactor and the
    errors of check_added_assignment.
    """
    if 0 not in existing:
        shown = ", ".join(f"{partition} -> {value}" for partition, value in existing.items())
        raise AdminOperationError(
            f"Unexpected existing replica assignment for topic '{topic}', partition id 0 is"
            f" missing. Assignment: Map({shown})"
        )
    to_add = num_partitions - len(existing)
    if to_add <= 0:
        raise InvalidPartitions(
            "The number of partitions for a topic can only be increased."
            f" Topic {topic} currently has {len(existing)} partitions,"
            f" {num_partitions} would not be an increase."
        )
    replicas_of_0 = existing[0].replicas
    if manual is not None:
        check_added_assignment(manual, len(replicas_of_0), [broker.id for broker in brokers])
        return {part: ReplicaAssignment(tuple(ids)) for part, ids in manual.items()}
    start = _index_of_first_leader(brokers, replicas_of_0)
    added = assign_replicas_to_brokers(
        brokers,
        to_add,
        len(replicas_of_0),
        start_index=start,
        next_replica_shift=start,
        start_partition_id=len(existing),
    )
    return {partition: ReplicaAssignment(replicas) for partition, replicas in added.items()}


def drop_existing_partitions(manual: Assignment, existing_count: int) -> Assignment | None:
    """Return only the added partitions of a `--replica-assignment` argument.

    The argument lists the existing partitions first. Returns None if no partition is added.
    Mirrors TopicCommand's alterTopic.
    """
    return dict(list(manual.items())[existing_count:]) or None


def number_added_lists(
    replica_lists: Sequence[Sequence[int]],
    existing_count: int,
    num_partitions: int,
    available_broker_ids: Collection[int],
) -> Assignment:
    """Assign partition ids to the replica lists of a CreatePartitions request.

    The first id is `existing_count`.

    Raises InvalidReplicaAssignment for unknown brokers and for a wrong number of lists. Mirrors
    ZkAdminManager.createPartitions.
    """
    known = set(available_broker_ids)
    unknown = dict.fromkeys(id_ for ids in replica_lists for id_ in ids if id_ not in known)
    if unknown:
        raise InvalidReplicaAssignment(
            f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}."
        )
    increment = num_partitions - existing_count
    if len(replica_lists) != increment:
        raise InvalidReplicaAssignment(
            f"Increasing the number of partitions by {increment}"
            f" but {len(replica_lists)} assignments provided."
        )
    return {existing_count + index: tuple(ids) for index, ids in enumerate(replica_lists)}


def _index_of_first_leader(brokers: Sequence[BrokerMetadata], replicas_of_0: Sequence[int]) -> int:
    if not replicas_of_0:
        raise NoSuchElement("head of empty list")
    at_or_above = (i for i, broker in enumerate(brokers) if broker.id >= replicas_of_0[0])
    return next(at_or_above, 0)
