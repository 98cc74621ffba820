"""Plans of kafka-reassign-partitions, klamm's own options, and the report of --verify.

The functions are pure. Mirrors ReassignPartitionsCommand.calculateAssignment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from klamm.cluster.errors import AdminError
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.scala_sets import (
    SMALL_SET,
    hash_set_order,
    mutable_order,
    topic_partition_hash,
)
from klamm.cluster.types import TopicPartition, TopicPartitionReplica
from klamm.placement.assign import Replicas
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.placement.draws import IntSource
from klamm.placement.pool_rules import assign_in_pool, check_moves_in_pool
from klamm.placement.pools import NO_POOLS, Pools
from klamm.tools.reassignments.text import LogDirMoveState, PartitionReassignmentState

COMPLETE: Final = "complete"
IN_PROGRESS: Final = "in_progress"
DIFFERENT: Final = "different"

Assignment = Mapping[TopicPartition, Replicas]


class TerseFailure(AdminError):
    """Kafka's TerseReassignmentFailureException: the tool prints only its message."""


class OwnOptions(msgspec.Struct, frozen=True):
    """Options that klamm adds to kafka-reassign-partitions.

    ``save_throttles`` is the file to which the previous throttles are saved, ``restore_throttles``
    the file from which they are restored. With ``pools``, no partition may gain a replica outside
    its topic's pool.
    """

    save_throttles: Path | None = None
    restore_throttles: Path | None = None
    show_throttles: bool = False
    pools: Pools = NO_POOLS


def calculate_assignment(
    current: Assignment,
    first: Callable[[Sequence[TopicPartition], int], TopicPartition],
    brokers: Sequence[BrokerMetadata],
    source: IntSource,
    pools: Pools,
) -> dict[TopicPartition, Replicas]:
    """Compute a new replica assignment for each topic, inside the topic's pool.

    The partitions in the result are numbered from 0, even if those in ``current`` are not. All
    partitions of a topic get the replication factor of its first partition, which ``first`` returns
    given the topic's partitions and the number of all partitions. As in Kafka, topics are in the
    iteration order of Scala's maps. Raises InvalidReplicationFactor, AdminOperationError.
    """
    proposed: dict[TopicPartition, Replicas] = {}
    for topic in hash_set_order([tp.topic for tp in current], string_hash):
        of_topic = [tp for tp in current if tp.topic == topic]
        factor = len(current[first(of_topic, len(current))])
        assigned = assign_in_pool(pools, topic, brokers, len(of_topic), factor, source)
        proposed |= {
            TopicPartition(topic, partition): replicas for partition, replicas in assigned.items()
        }
    return proposed


def first_in_zookeeper(of_topic: Sequence[TopicPartition], count: int) -> TopicPartition:
    """Return the first partition of a topic in Scala's immutable map of ``count`` partitions."""
    # groupBy splits a HashMap into HashMaps, however small these are.
    is_hashed = count > SMALL_SET
    return hash_set_order(of_topic, topic_partition_hash)[0] if is_hashed else of_topic[0]


def first_on_cluster(of_topic: Sequence[TopicPartition], count: int) -> TopicPartition:
    """Return the first partition of a topic in Scala's mutable map of ``count`` partitions."""
    # The maps of Java's Admin client become mutable ones in Scala.
    return mutable_order(of_topic, topic_partition_hash)[0]


def check_plan_in_pools(proposed: Assignment, current: Assignment, pools: Pools) -> None:
    """Raise InvalidReplicaAssignment if a partition gains a replica outside its pool."""
    check_moves_in_pool(
        pools,
        {
            tp: [id_ for id_ in proposed[tp] if id_ not in current.get(tp, ())]
            for tp in sorted(proposed)
        },
    )


def verified_report(
    partitions: Mapping[TopicPartition, PartitionReassignmentState],
    replicas: Mapping[TopicPartitionReplica, LogDirMoveState],
) -> dict[str, Any]:
    """Return the part of the report that tells the states of all moves.

    Its ``state`` is IN_PROGRESS if any move is in progress, otherwise DIFFERENT if a partition or
    replica is not as planned, otherwise COMPLETE.
    """
    states = [_partition_state(state) for state in partitions.values()]
    states += [_replica_state(state) for state in replicas.values()]
    return {
        "state": next((state for state in (IN_PROGRESS, DIFFERENT) if state in states), COMPLETE),
        "partitions": [
            {
                **tp._asdict(),
                "replicas": partitions[tp].current_replicas,
                "target": partitions[tp].target_replicas,
                "state": _partition_state(partitions[tp]),
            }
            for tp in sorted(partitions)
        ],
        "log_dirs": [
            {**replica._asdict(), **replicas[replica]._asdict(), "state": _replica_state(state)}
            for replica, state in sorted(replicas.items(), key=lambda item: item[0].order)
        ],
    }


def _partition_state(state: PartitionReassignmentState) -> str:
    if not state.done:
        return IN_PROGRESS
    return COMPLETE if state.is_complete else DIFFERENT


def _replica_state(state: LogDirMoveState) -> str:
    if state.done:
        return COMPLETE if state.current == state.target else DIFFERENT
    return IN_PROGRESS if state.is_active else DIFFERENT
