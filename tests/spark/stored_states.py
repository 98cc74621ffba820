"""Partitions in ZooKeeper, to be changed one by one and given as topic and state znodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from klamm.cluster.types import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from klamm.lab.checks.agreement import StoredCluster

ZNodes = tuple[
    dict[TopicPartition, ReplicaAssignment], dict[TopicPartition, LeaderIsrAndControllerEpoch]
]


class StoredState(NamedTuple):
    """A partition; the fields from ``leader`` to ``zk_version`` are None without a state znode."""

    topic: str
    partition: int
    leader: int | None = None
    leader_epoch: int | None = None
    isr: Sequence[int] | None = None
    zk_version: int | None = None
    replicas: Sequence[int] = ()


def stored_states(stored: StoredCluster) -> list[StoredState]:
    """The partitions of a ZooKeeper."""
    found = []
    for tp, assignment in stored.assignments.items():
        state = StoredState(*tp, replicas=assignment.replicas)
        if tp in stored.states:
            at = stored.states[tp].leader_and_isr
            leadership = (at.leader, at.leader_epoch, at.isr, at.zk_version)
            state = StoredState(*tp, *leadership, assignment.replicas)
        found.append(state)
    return found


def znodes_of(stored: Iterable[StoredState]) -> ZNodes:
    """The assignments and the states in the znodes of these partitions."""
    assignments: dict[TopicPartition, ReplicaAssignment] = {}
    states: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
    for at in stored:
        tp = TopicPartition(at.topic, at.partition)
        assignments[tp] = ReplicaAssignment(tuple(at.replicas))
        if at.leader is not None:
            state = LeaderAndIsr(at.leader, at.leader_epoch, at.isr, at.zk_version)
            states[tp] = LeaderIsrAndControllerEpoch(state, 1)
    return assignments, states
