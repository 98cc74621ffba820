"""Let a cluster begin with full disks, as the one that is rehearsed for has.

A terabyte that is produced is a million requests; this is none. No broker may be inside an event.
"""

from __future__ import annotations

from collections.abc import Iterable

from brokers.broker import Broker
from brokers.partitions.preload import preload
from cluster.errors import UsageError
from cluster.protocols import Clock
from cluster.types import TopicPartition


def preload_replicas(
    brokers: Iterable[Broker],
    tp: TopicPartition,
    size_bytes: int,
    clock: Clock,
    record_bytes: int = 1000,
) -> None:
    """Let all replicas of a partition hold as much more, as if it had been produced long ago.

    Raises UsageError if the partition has no leader among the brokers, or logs with files.
    """
    replicas = [
        (broker, partition)
        for broker in brokers
        if (partition := broker.replica_manager.partitions.get(tp)) is not None
    ]
    if not any(partition.is_leader(broker.info.id) for broker, partition in replicas):
        raise UsageError(f"{tp} has no leader, so its replicas cannot be filled")
    now_ms, wall_ms = clock.monotonic_ms(), clock.now_ms()
    for broker, partition in replicas:
        preload(partition, broker.info.id, size_bytes, record_bytes, now_ms, wall_ms)
