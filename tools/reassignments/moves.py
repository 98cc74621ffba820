"""Source and destination brokers of a reassignment, and the throttle configs derived from them.

The functions are pure. Mirrors ReassignPartitionsCommand.calculate*MoveMap, calculate*Throttles
and calculateReassigningBrokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.tools.jopt import UncaughtException


class PartitionMove(NamedTuple):
    """Brokers that hold a partition's data (sources), and brokers to copy it to (destinations)."""

    sources: frozenset[int]
    destinations: frozenset[int]


MoveMap = dict[str, dict[int, PartitionMove]]


def calculate_proposed_move_map(
    current_reassignments: Mapping[TopicPartition, ReplicaAssignment],
    proposed: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> MoveMap:
    """Return the running and the proposed moves as {topic: {partition: move}}.

    A partition that is already being reassigned keeps its sources. Raises UncaughtException if a
    proposed partition does not exist.
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
    """Return the value of leader.replication.throttled.replicas for each topic.

    The value lists the replicas on source brokers as "partition:broker,...", sorted as text.
    """
    return {
        topic: _throttled((partition, move.sources) for partition, move in partitions.items())
        for topic, partitions in moves.items()
    }


def calculate_follower_throttles(moves: MoveMap) -> dict[str, str]:
    """Return the value of follower.replication.throttled.replicas for each topic.

    The value lists the new replicas as "partition:broker,...", sorted as text.
    """
    return {
        topic: _throttled((n, move.destinations - move.sources) for n, move in partitions.items())
        for topic, partitions in moves.items()
    }


def calculate_reassigning_brokers(moves: MoveMap) -> list[int]:
    """Return the ids of all source and destination brokers, in ascending order."""
    return sorted(
        {
            broker
            for partitions in moves.values()
            for move in partitions.values()
            for broker in move.sources | move.destinations
        }
    )


def _throttled(replicas: Iterable[tuple[int, frozenset[int]]]) -> str:
    return ",".join(
        sorted(f"{partition}:{broker}" for partition, brokers in replicas for broker in brokers)
    )
