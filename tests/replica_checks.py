"""Checks the replicas of several partitions at once, as a test reads them."""

from __future__ import annotations

from collections.abc import Iterable

from klamm.cluster.types import TopicPartition
from klamm.lab.checks.replicas import ReplicationChecker
from klamm.world.views.replica_view import ReplicaView, views_of_partition


def check_views(checker: ReplicationChecker, views: Iterable[ReplicaView]) -> None:
    """Check the replication invariants of all replicas, which may be on stopped brokers."""
    by_partition: dict[TopicPartition, list[ReplicaView]] = {}
    for view in views:
        by_partition.setdefault(view.partition, []).append(view)
    for tp, replicas in by_partition.items():
        checker.check_partition(tp, views_of_partition(tuple(replicas)))
