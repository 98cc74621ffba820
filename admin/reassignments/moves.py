"""Which brokers a reassignment moves from and to, and the throttle configs that follow from it.

Pure. Mirrors ReassignPartitionsCommand.calculate*MoveMap, calculate*Throttles,
calculateReassigningBrokers and calculateMovingBrokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from klamm.admin.jopt import UncaughtException
from klamm.admin.reassignments.reassignment_json import TopicPartitionReplica
from klamm.cluster.types import ReplicaAssignment, TopicPartition


class PartitionMove(NamedTuple):
    """Brokers that hold the data, and brokers that will."""

    sources: frozenset[int]
    destinations: frozenset[int]


MoveMap = dict[str, dict[int, PartitionMove]]


def calculate_proposed_move_map(
    current_reassignments: Mapping[TopicPartition, ReplicaAssignment],
    proposed: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> MoveMap:
    """{topic: {partition: move}} of what moves already and of what is proposed.

    A partition that moves already keeps its sources. Raises UncaughtException if a proposed
    partition has no replicas.
    """
    moves: MoveMap = {}
    for tp, assignment in current_reassignments.items():
        moves.setdefault(tp.topic, {})[tp.partition] = PartitionMove(
            frozenset(assignment.origin_replicas), frozenset(assignment.adding_replicas)
        )
    for tp, replicas in proposed.items():
        of_topic = moves.setdefault(tp.topic, {})
        if tp.partition in of_topic:
            sources = of_topic[tp.partition].sources
        elif tp in current:
            sources = frozenset(current[tp])
        else:
            raise UncaughtException(
                "java.lang.RuntimeException",
                f"Trying to reassign a topic partition {tp} with 0 replicas",
            )
        of_topic[tp.partition] = PartitionMove(sources, frozenset(replicas) - sources)
    return moves


def calculate_leader_throttles(moves: MoveMap) -> dict[str, str]:
    """{topic: "partition:broker,..."} of all sources, in the order of text."""
    return {
        topic: _throttled((partition, move.sources) for partition, move in partitions.items())
        for topic, partitions in moves.items()
    }


def calculate_follower_throttles(moves: MoveMap) -> dict[str, str]:
    """{topic: "partition:broker,..."} of all new replicas, in the order of text."""
    return {
        topic: _throttled((n, move.destinations - move.sources) for n, move in partitions.items())
        for topic, partitions in moves.items()
    }


def calculate_reassigning_brokers(moves: MoveMap) -> list[int]:
    """Every broker that takes part, ascending."""
    return sorted(
        {
            broker
            for partitions in moves.values()
            for move in partitions.values()
            for broker in move.sources | move.destinations
        }
    )


def calculate_moving_brokers(replicas: Iterable[TopicPartitionReplica]) -> list[int]:
    """The brokers on which replicas change their directory, ascending."""
    return sorted({replica.broker_id for replica in replicas})


def _throttled(replicas: Iterable[tuple[int, frozenset[int]]]) -> str:
    return ",".join(
        sorted(f"{partition}:{broker}" for partition, brokers in replicas for broker in brokers)
    )
