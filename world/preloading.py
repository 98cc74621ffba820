"""Preloading: fill a cluster's logs with records before a rehearsal, without produce requests.

It would take a million requests to produce a terabyte. Call these functions only while no broker
is handling an event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from klamm.brokers.broker import KafkaServer
from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.partitions.partition import Partition
from klamm.brokers.partitions.remote_replica import RemoteReplica
from klamm.cluster.errors import WrongState
from klamm.cluster.protocols import Clock
from klamm.cluster.records import Interval, IntervalRecords
from klamm.cluster.types import TopicPartition

_RECORD_BYTES: Final = 1000


def preload_replicas(
    brokers: Iterable[KafkaServer], tp: TopicPartition, size_bytes: int, clock: Clock
) -> None:
    """Add records to all replicas of a partition, as if they had been produced long ago.

    Raises WrongState if no running broker leads the partition, or if its logs are on disk.
    """
    replicas = [
        (broker, partition)
        for broker in brokers
        if (partition := broker.replica_manager.partitions.get(tp)) is not None
    ]
    if not any(partition.is_leader(broker.info.id) for broker, partition in replicas):
        raise WrongState(f"{tp} has no running leader, so its replicas cannot be preloaded")
    now_ms, wall_ms = clock.monotonic_ms(), clock.now_ms()
    for broker, partition in replicas:
        _preload(partition, broker.info.id, size_bytes, now_ms, wall_ms)


def _preload(
    partition: Partition, broker_id: int, size_bytes: int, now_ms: float, wall_ms: int
) -> None:
    """Add ``size_bytes`` of records to one replica.

    The caller must do the same for every replica in the ISR. ``now_ms`` is monotonic; ``wall_ms``
    is in milliseconds since the Unix epoch. Raises WrongState if the log is on disk.
    """
    log = partition.log
    if not isinstance(log, IntervalLog):
        raise WrongState("only in-memory logs can be preloaded, not log segments on disk")
    epoch = partition.leader_epoch
    per_segment = max(1, log.config.segment_bytes // _RECORD_BYTES)
    left = size_bytes // _RECORD_BYTES
    while left:
        count, start = min(left, per_segment), log.log_end_offset
        interval = Interval(epoch, start, start + count, count * _RECORD_BYTES, wall_ms)
        log.append_as_follower(IntervalRecords((interval,)))
        left -= count
    log.flush()
    end = log.log_end_offset
    partition.set_high_watermark(end, now_ms)
    if partition.is_leader(broker_id):
        partition.known = tuple(
            RemoteReplica(replica_id, now_ms, log_end_offset=end, last_fetched_epoch=epoch)
            for replica_id in partition.isr
            if replica_id != broker_id
        )
