"""A future log: how it comes to hold what the current log of the same replica holds.

Acts on two logs and knows neither their directories nor their broker; when, and what becomes of
errors, is replica_alter_log_dirs.py's business. The current log may be truncated, begin
later, or be emptied between any two chunks, so before each one the future log is cut to what both
have in common: what has the same offset and leader epoch in both is the same. (2.8.2 marks the
future log for truncation when the current one is cut, and compares epochs when a move begins.)
Mirrors truncate, processPartitionData and fetchOffsetAndTruncate as
kafka.server.ReplicaAlterLogDirsThread has them.
"""

from __future__ import annotations

from brokers.followers.follower import append_fetched
from brokers.logs.replica_log import ReplicaLog
from cluster.records import Records


def truncate_to_common(future: ReplicaLog, current: ReplicaLog) -> None:
    """Cut the future log to a beginning of the current one; with nothing in common it is emptied,
    and begins where the current one does."""
    if not _truncate_by_epochs(future, current) or not (
        future.log_start_offset <= current.log_start_offset
        and current.log_start_offset <= future.log_end_offset <= current.log_end_offset
    ):
        future.truncate_fully_and_start_at(current.log_start_offset)


def _truncate_by_epochs(future: ReplicaLog, current: ReplicaLog) -> bool:
    """Cut what is of another leader epoch in the current log; False if there is no common epoch."""
    while (epoch := future.latest_epoch) is not None:
        theirs = current.end_offset_for(epoch)
        mine = future.end_offset_for(theirs.leader_epoch)
        if mine.leader_epoch < 0:
            return False
        is_common = mine.leader_epoch == theirs.leader_epoch
        end = min(mine.end_offset, theirs.end_offset) if is_common else mine.end_offset
        if end < future.log_end_offset or mine.leader_epoch < epoch:
            future.truncate_to(end)
        if is_common:
            break
    return True


def append_chunk(future: ReplicaLog, current: ReplicaLog, records: Records) -> bool:
    """Append what was read from the current log at the future one's end; True if it holds
    everything now, and begins where the current one does."""
    append_fetched(future, records)
    if future.log_start_offset < current.log_start_offset:
        future.increment_log_start_offset(current.log_start_offset)
    return future.log_end_offset == current.log_end_offset


def take_over_epoch(future: ReplicaLog, current: ReplicaLog) -> None:
    """Note the leader epoch that has no records yet, which no chunk brings.

    Without it a leader could not tell a follower of that epoch where the epochs before it end.
    """
    epoch = current.latest_epoch
    if epoch is not None and epoch != future.latest_epoch:
        future.start_epoch(epoch)
