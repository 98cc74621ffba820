"""A follower's fetch position, and the application of fetched data to its log.

The functions here act on one partition; fetchers.py decides when to fetch and from which leader.
The log is truncated on fetch, as in 2.8 between brokers of the same version
(isTruncationOnFetchSupported): if the follower's log diverges from the leader's, the leader
responds with the end offset of the follower's last epoch. Mirrors processFetchRequest,
getOffsetTruncationState and fetchOffsetAndTruncate of kafka.server.AbstractFetcherThread.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from klamm.brokers.logs.errors import UnexpectedAppendOffset
from klamm.brokers.logs.record_parts import pieces
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import FetchedPartition, FetchPartition
from klamm.cluster.records import EpochEndOffset, Records
from klamm.cluster.types import NO_EPOCH


class NextFetch(Enum):
    """Condition or time of a follower's next fetch.

    - ``ON_NOTIFICATION``: after the leader's next unsolicited response.
    - ``AT_ONCE``: as soon as no fetch to the leader is in flight.
    - ``DELAYED``: after replica.fetch.backoff.ms.
    - ``NEVER``: not before the next LeaderAndIsr request for the partition.
    """

    ON_NOTIFICATION = "on notification"
    AT_ONCE = "at once"
    DELAYED = "delayed"
    NEVER = "never"


def fetch_position(partition: Partition) -> FetchPartition:
    """Return the follower's fetch position, which is the end of its log."""
    log = partition.log
    assert log is not None
    epoch = log.latest_epoch
    return FetchPartition(
        log.log_end_offset,
        partition.leader_epoch,
        NO_EPOCH if epoch is None else epoch,
        log.log_start_offset,
    )


def take_fetched(partition: Partition, fetched: FetchedPartition, now_ms: float) -> NextFetch:
    """Append to or truncate the follower's log, as the leader's response requires.

    Return the condition of the next fetch.

    - Data fetched from an offset other than the log end is ignored: it is late or a duplicate.
    - A fenced follower waits for the next LeaderAndIsr request.
    - Any other error is retried: perhaps the leader has not received its LeaderAndIsr request yet.
    """
    match fetched.error:
        case Errors.NONE:
            return _take(partition, fetched, now_ms)
        case Errors.OFFSET_OUT_OF_RANGE:
            return _reset(partition, fetched, now_ms)
        case Errors.FENCED_LEADER_EPOCH:
            return NextFetch.NEVER
        case _:
            return NextFetch.DELAYED


def _take(partition: Partition, fetched: FetchedPartition, now_ms: float) -> NextFetch:
    log = partition.log
    assert log is not None
    here = fetch_position(partition)
    is_empty = here.fetch_offset == here.log_start_offset
    if fetched.fetch_offset != here.fetch_offset or (
        not is_empty and fetched.last_fetched_epoch != here.last_fetched_epoch
    ):
        return NextFetch.AT_ONCE
    if fetched.diverging is not None:
        _truncate(partition, truncation_offset(log, fetched.diverging), now_ms)
        return NextFetch.AT_ONCE
    if fetched.records is not None:
        append_fetched(log, fetched.records)
    partition.set_high_watermark(min(fetched.high_watermark, log.log_end_offset), now_ms)
    has_new_start = log.increment_log_start_offset(fetched.log_start_offset)
    # The next fetch tells the leader where this log ends and starts.
    is_news = has_new_start or fetched.records is not None
    return NextFetch.AT_ONCE if is_news else NextFetch.ON_NOTIFICATION


def _parts(log: ReplicaLog, records: Records) -> Iterable[Records]:
    """Split the records into parts that are appended separately.

    A response for an offset-only log may contain the records of many segments.
    """
    return (records,) if isinstance(records, bytes) else pieces(records, log.config.segment_bytes)


def append_fetched(log: ReplicaLog, records: Records) -> None:
    """Append records that were read from another log of the same partition."""
    for part in _parts(log, records):
        _append(log, part)


def _append(log: ReplicaLog, records: Records) -> None:
    """Append records to a follower's log.

    If the log is empty and the first batch starts before the log end, the log first moves its start
    offset back to the offset of that batch.
    """
    try:
        log.append_as_follower(records)
    except UnexpectedAppendOffset as error:
        is_empty = log.log_start_offset == log.log_end_offset
        if not is_empty or not error.first_offset < log.log_end_offset <= error.last_offset:
            raise
        log.truncate_fully_and_start_at(error.first_offset)
        log.append_as_follower(records)


def truncation_offset(log: ReplicaLog, diverging: EpochEndOffset) -> int:
    """Return the offset to which a follower truncates a log that diverges from the leader's.

    ``diverging`` is the leader's largest epoch up to the follower's last epoch, with the end offset
    of that epoch. If the follower's log does not contain this epoch, the follower truncates to the
    end of the largest smaller epoch in its log. The leader's next response then names an earlier
    epoch (KIP-279).
    """
    epoch, leader_end = diverging
    mine = log.end_offset_for(epoch)
    if mine.leader_epoch == epoch:
        return min(mine.end_offset, leader_end, log.log_end_offset)
    if mine.leader_epoch < 0:
        return min(leader_end, log.log_end_offset)
    return min(mine.end_offset, log.log_end_offset)


def _truncate(partition: Partition, offset: int, now_ms: float) -> None:
    assert partition.log is not None
    partition.log.truncate_to(offset)
    if partition.high_watermark > partition.log.log_end_offset:
        partition.set_high_watermark(partition.log.log_end_offset, now_ms)


def _reset(partition: Partition, fetched: FetchedPartition, now_ms: float) -> NextFetch:
    """Truncate the follower's log after the error OFFSET_OUT_OF_RANGE.

    Either the leader's log ends before the follower's, or retention has deleted the records that
    the follower needs next. Return the condition of the next fetch.
    """
    log = partition.log
    assert log is not None
    if fetched.fetch_offset != log.log_end_offset:
        return NextFetch.AT_ONCE
    if fetched.log_end_offset < log.log_end_offset:
        _truncate(partition, fetched.log_end_offset, now_ms)
    elif fetched.log_start_offset > log.log_end_offset:
        log.truncate_fully_and_start_at(fetched.log_start_offset)
        partition.set_high_watermark(fetched.log_start_offset, now_ms)
    else:
        return NextFetch.DELAYED
    return NextFetch.AT_ONCE
