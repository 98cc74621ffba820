"""What a leader tells a follower without being asked: what the follower does not know yet.

Looks at one partition and notes what it told; when to tell, and whom, is the business of
brokers/leaders/leader_replicas.py. Mirrors what a fetch that waits reads once it is completed
(kafka.server.ReplicaManager.readFromLocalLog).
"""

from __future__ import annotations

from brokers.logs.interval_log import IntervalLog
from brokers.logs.replica_log import ReplicaLog
from brokers.partitions.partition import Partition
from cluster.api_errors import Errors
from cluster.data_requests import UNKNOWN_OFFSET, FetchedPartition
from cluster.records import Records


def news_for(partition: Partition, replica_id: int, max_bytes: int) -> FetchedPartition | None:
    """What a follower that may fetch does not know yet: records, the high watermark, the log's
    start; None if it knows everything or has not acknowledged what it was sent.

    One that has not fetched at this epoch is asked to.
    """
    log, epoch = partition.log, partition.leader_epoch
    assert log is not None
    remote = partition.remote(replica_id)
    if remote is None:
        return FetchedPartition(Errors.NONE, epoch, UNKNOWN_OFFSET)
    offset, start = remote.log_end_offset, log.log_start_offset
    high_watermark = partition.high_watermark
    has_records = offset < log.log_end_offset
    if remote.owes_fetch or not (
        has_records
        or remote.told_high_watermark < high_watermark
        or remote.told_log_start_offset < start
    ):
        return None
    records = None
    if has_records:
        records = _read(log, offset, max_bytes, is_in_isr=replica_id in partition.isr)
    remote.owes_fetch = has_records
    remote.told_high_watermark = high_watermark
    remote.told_log_start_offset = start
    return FetchedPartition(
        Errors.NONE,
        epoch,
        offset,
        remote.last_fetched_epoch,
        records,
        high_watermark,
        start,
    )


def _read(log: ReplicaLog, offset: int, max_bytes: int, *, is_in_isr: bool) -> Records:
    """What a follower is sent: one outside the ISR, from a log that only counts, all at once,
    which stands for the many fetches of ``max_bytes`` that others need."""
    if isinstance(log, IntervalLog) and not is_in_isr:
        return log.read_all(offset)
    return log.read(offset, max_bytes)
