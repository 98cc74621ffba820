"""Produce requests at a leader: checks, appends, and delayed acknowledgements.

leader_replicas.py appends to the logs. Mirrors appendRecords of kafka.server.ReplicaManager,
kafka.server.DelayedProduce, and the checks of kafka.cluster.Partition.appendRecordsToLeader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from klamm.brokers.leaders.delayed_requests import DelayedRequests
from klamm.brokers.logs.errors import OnLogError, ReplicaLogError
from klamm.brokers.logs.replica_log import Appended
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import (
    UNKNOWN_OFFSET,
    ProducedPartition,
    ProduceRequest,
    ProduceResponse,
)
from klamm.cluster.records import Produced
from klamm.cluster.requests import Message
from klamm.cluster.topic_names import is_internal
from klamm.cluster.types import TopicPartition

Append = Callable[[TopicPartition, Partition, Produced, float, int], Appended]
"""Function that appends a batch to the log of a partition that this broker leads.

The last two arguments are the current time in milliseconds: monotonic, and since the Unix epoch.
"""

_ACKS: Final = (0, 1, -1)
_UNKNOWN: Final = Errors.UNKNOWN_TOPIC_OR_PARTITION
_WITHOUT_START_OFFSET: Final = (
    _UNKNOWN,
    Errors.NOT_LEADER_OR_FOLLOWER,
    Errors.MESSAGE_TOO_LARGE,
    Errors.RECORD_LIST_TOO_LARGE,
    Errors.CORRUPT_MESSAGE,
    Errors.KAFKA_STORAGE_ERROR,
    Errors.INVALID_TOPIC_EXCEPTION,
)
"""Errors with which ReplicaManager.appendToLocalLog gives no log start offset."""


def _log_start_offset(partition: Partition) -> int:
    return UNKNOWN_OFFSET if partition.log is None else partition.log.log_start_offset


class Produces:
    """Handles the produce requests that one broker receives.

    ``not_hosted`` returns the error for a partition that the broker does not host. ``delayed``: the
    requests that wait for the followers.
    """

    def __init__(
        self,
        broker_id: int,
        partitions: Mapping[TopicPartition, Partition],
        not_hosted: Callable[[TopicPartition], Errors],
        append: Append,
        on_log_error: OnLogError,
    ) -> None:
        self._broker_id = broker_id
        self._partitions = partitions
        self._not_hosted = not_hosted
        self._append = append
        self._on_log_error = on_log_error
        self.delayed = DelayedRequests(ProduceResponse)

    def produce(
        self,
        request: Message,
        body: ProduceRequest,
        now_ms: float,
        wall_ms: int,
        *,
        internal_topics_allowed: bool = False,
    ) -> ProduceResponse | None:
        """Append the records of a request; return the response.

        Return None if the request gets no response (acks 0) or its response is delayed. ``now_ms``
        is in monotonic milliseconds, ``wall_ms`` in milliseconds since the Unix epoch.
        """
        if body.acks not in _ACKS:
            return ProduceResponse(
                {
                    tp: ProducedPartition(self._unless_unknown(tp, Errors.INVALID_REQUIRED_ACKS))
                    for tp in body.partitions
                }
            )
        answers: dict[TopicPartition, ProducedPartition] = {}
        required: dict[TopicPartition, int] = {}
        for tp, produced in body.partitions.items():
            error = self.check(tp, body.acks)
            if is_internal(tp.topic) and not internal_topics_allowed:
                error = self._unless_unknown(tp, Errors.INVALID_TOPIC_EXCEPTION)
            if error:
                answers[tp] = self._refused(tp, error)
                continue
            partition = self._partitions[tp]
            try:
                appended = self._append(tp, partition, produced, now_ms, wall_ms)
                epoch = partition.epoch_of(appended)
            except ReplicaLogError as log_error:
                answers[tp] = self._refused(tp, self._on_log_error(tp, log_error))
            else:
                answers[tp] = ProducedPartition(
                    Errors.NONE,
                    appended.first_offset,
                    epoch,
                    _log_start_offset(partition),
                    appended.log_append_time_ms,
                )
                required[tp] = appended.last_offset + 1
        if body.acks == 0:
            return None
        if body.acks == 1 or not required:
            return ProduceResponse(answers)
        self.delayed.add(request, body.timeout_ms, answers, required, now_ms)
        for tp in list(required):
            self.complete(tp, self._partitions[tp])
        return None

    def _unless_unknown(self, tp: TopicPartition, error: Errors) -> Errors:
        is_unknown = tp not in self._partitions and self._not_hosted(tp) is _UNKNOWN
        return _UNKNOWN if is_unknown else error

    def _refused(self, tp: TopicPartition, error: Errors) -> ProducedPartition:
        partition = self._partitions.get(tp)
        if partition is None or error in _WITHOUT_START_OFFSET:
            return ProducedPartition(error)
        return ProducedPartition(error, log_start_offset=_log_start_offset(partition))

    def check(self, tp: TopicPartition, acks: int) -> Errors:
        """Return NONE if a producer with ``acks`` may append to a partition, or else the error."""
        partition = self._partitions.get(tp)
        if partition is None:
            return self._not_hosted(tp)
        if not partition.is_leader(self._broker_id):
            return Errors.NOT_LEADER_OR_FOLLOWER
        if acks == -1 and len(partition.isr) < partition.min_insync_replicas:
            return Errors.NOT_ENOUGH_REPLICAS
        return Errors.NONE

    def complete(self, tp: TopicPartition, partition: Partition) -> None:
        """Answer the delayed requests of a partition whose records are below the high watermark."""
        if not self.delayed.waits_for(tp):
            return
        enough = partition.min_insync_replicas <= len(partition.maximal_isr)
        error = Errors.NONE if enough else Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        self.delayed.complete(tp, partition.high_watermark, error=error)

    def end(self, tp: TopicPartition, error: Errors) -> None:
        """Answer all delayed requests of a partition that this broker no longer leads."""
        self.delayed.complete(tp, math.inf, error=error)
