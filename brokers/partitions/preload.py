"""Records that were there before anybody looked: fill a replica without a message.

For rehearsals, in which what is on the disks matters and not how it came there. Only logs that
count can be filled. Kafka has no such file.
"""

from __future__ import annotations

from brokers.logs.interval_log import IntervalLog
from brokers.partitions.partition import Partition
from brokers.partitions.remote_replica import RemoteReplica
from cluster.errors import UsageError
from cluster.records import Interval, IntervalRecords


def preload(
    partition: Partition,
    broker_id: int,
    size_bytes: int,
    record_bytes: int,
    now_ms: float,
    wall_ms: int,
) -> None:
    """Let a replica have ``size_bytes`` more, which its whole ISR is to be given alike.

    ``now_ms`` is monotonic, ``wall_ms`` since the epoch. Raises UsageError if its log has real
    files.
    """
    log = partition.log
    if not isinstance(log, IntervalLog):
        raise UsageError("only logs without files can be filled")
    epoch = partition.leader_epoch
    per_segment = max(1, log.config.segment_bytes // record_bytes)
    left = size_bytes // record_bytes
    while left:
        count, start = min(left, per_segment), log.log_end_offset
        interval = Interval(epoch, start, start + count, count * record_bytes, wall_ms)
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
