"""DeleteRecords at a leader: moves log start offsets, and waits until the followers follow.

A follower's log start offset is known from its fetches. Mirrors deleteRecords of
kafka.server.ReplicaManager, kafka.server.DelayedDeleteRecords, and deleteRecordsOnLeader and
lowWatermarkIfLeader of kafka.cluster.Partition.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from klamm.brokers.leaders.delayed_requests import DelayedRequests
from klamm.brokers.logs.errors import OffsetOutOfRange, OnLogError, ReplicaLogError
from klamm.brokers.metadata_cache import MetadataCache
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import (
    DeletedRecords,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from klamm.cluster.data_requests import UNKNOWN_OFFSET
from klamm.cluster.requests import Message
from klamm.cluster.topic_names import is_internal
from klamm.cluster.types import NO_EPOCH, TopicPartition

HIGH_WATERMARK: Final = -1
"""In a request, stands for the high watermark of a partition."""


class RecordDeletion:
    """Handles the DeleteRecords requests that one broker receives.

    ``find`` returns the partition if this broker leads it, or an error. ``notify_followers`` tells
    the followers of a partition that its log start offset has changed. ``delayed``: the requests
    that wait for the followers.
    """

    def __init__(
        self,
        find: Callable[[TopicPartition, int], Partition | Errors],
        notify_followers: Callable[[TopicPartition, Partition, float], None],
        on_log_error: OnLogError,
        metadata_cache: MetadataCache,
    ) -> None:
        self._find = find
        self._notify_followers = notify_followers
        self._on_log_error = on_log_error
        self._metadata_cache = metadata_cache
        self.delayed = DelayedRequests(DeleteRecordsResponse)

    def delete(
        self, message: Message, body: DeleteRecordsRequest, now_ms: float
    ) -> DeleteRecordsResponse | None:
        """Delete records; return the response, or None if the response is delayed.

        The response is delayed until the logs of all live replicas start at the offsets requested.
        ``now_ms`` is in monotonic milliseconds.
        """
        results: dict[TopicPartition, DeletedRecords] = {}
        required: dict[TopicPartition, int] = {}
        for tp, offset in body.offsets.items():
            partition = self._partition(tp)
            if isinstance(partition, Errors):
                results[tp] = DeletedRecords(partition)
                continue
            if offset == HIGH_WATERMARK:
                offset = partition.high_watermark
            results[tp] = self._delete(tp, partition, offset, now_ms)
            if not results[tp].error and results[tp].low_watermark < offset:
                required[tp] = offset
        if not required:
            return DeleteRecordsResponse(results)
        self.delayed.add(message, body.timeout_ms, results, required, now_ms)
        return None

    def _partition(self, tp: TopicPartition) -> Partition | Errors:
        if is_internal(tp.topic):
            return Errors.INVALID_TOPIC_EXCEPTION
        partition = self._find(tp, NO_EPOCH)
        if isinstance(partition, Partition):
            assert partition.log is not None
            if not partition.log.config.delete:
                return Errors.POLICY_VIOLATION
        return partition

    def _delete(
        self, tp: TopicPartition, partition: Partition, offset: int, now_ms: float
    ) -> DeletedRecords:
        log = partition.log
        assert log is not None
        try:
            if not 0 <= offset <= partition.high_watermark:
                raise OffsetOutOfRange(
                    f"cannot delete the records of {tp} before offset {offset}: its high watermark "
                    f"is {partition.high_watermark}"
                )
            if log.increment_log_start_offset(offset):
                self._notify_followers(tp, partition, now_ms)
        except ReplicaLogError as error:
            return DeletedRecords(self._on_log_error(tp, error))
        return DeletedRecords(Errors.NONE, self._low_watermark(partition))

    def _low_watermark(self, partition: Partition) -> int:
        """Return the smallest log start offset of the live replicas; 0 if one is unknown."""
        state, log, alive = partition.state, partition.log, self._metadata_cache.alive_brokers
        assert state is not None and log is not None
        starts = [log.log_start_offset]
        for replica_id in state.replicas:
            if replica_id != state.leader and replica_id in alive:
                remote = partition.remote(replica_id)
                starts.append(0 if remote is None else remote.log_start_offset)
        return min(starts)

    def on_fetch(self, tp: TopicPartition, partition: Partition) -> None:
        """Answer the delayed requests of a partition if the follower that has fetched allows it."""
        if self.delayed.waits_for(tp):
            low = self._low_watermark(partition)
            self.delayed.complete(tp, low, error=Errors.NONE, low_watermark=low)

    def end(self, tp: TopicPartition, error: Errors) -> None:
        """Answer all delayed requests of a partition that this broker no longer leads."""
        self.delayed.complete(tp, math.inf, error=error, low_watermark=UNKNOWN_OFFSET)
