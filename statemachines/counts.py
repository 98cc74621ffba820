"""What the controller's context counts, and which partitions count as imbalanced.

Values and one predicate; the counting itself is the context's. Mirrors hasPreferredLeader of
kafka/controller/ControllerContext.scala.
"""

from __future__ import annotations

import msgspec

from cluster.types import LeaderIsrAndControllerEpoch, ReplicaAssignment


class Counts(msgspec.Struct, frozen=True):
    """What the context counts. Topics queued for deletion have no imbalance; topics whose deletion
    has started have no offline partitions."""

    offline_partition_count: int
    preferred_replica_imbalance_count: int
    replicas_per_broker: dict[int, int]


def has_preferred_leader(
    assignment: ReplicaAssignment, leadership: LeaderIsrAndControllerEpoch
) -> bool:
    """False if another than the first replica leads.

    A first replica that is being added counts as led until it is in the ISR. An empty assignment
    has no preferred leader to miss.
    """
    if not assignment.replicas:
        return True
    preferred = assignment.replicas[0]
    if preferred in assignment.adding_replicas:
        return preferred not in leadership.leader_and_isr.isr
    return leadership.leader_and_isr.leader == preferred
