"""Produce requests at a leader: checks, appends, and delayed acknowledgements.

leader_replicas.py appends to the logs. Mirrors appendRecords of kafka.server.ReplicaManager,
kafka.server.DelayedProduce, and the checks of kafka.cluster.Partition.appendRecordsToLeader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from klamm.brokers.logs.errors import OnLogError, ReplicaLogError
from klamm.brokers.logs.replica_log import Appended
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProducedPartition, ProduceRequest, ProduceResponse
from klamm.cluster.records import Produced
from klamm.cluster.requests import Message
from klamm.cluster.types import TopicPartition


class _Waiting(msgspec.Struct):
    request: Message
    produced: dict[TopicPartition, ProducedPartition]
    required: dict[TopicPartition, int]
    due_ms: float


class DelayedProduces:
    """Produce requests with acks -1 that wait until the ISR has replicated their records."""

    def __init__(self) -> None:
        self._answers: list[tuple[Message, ProduceResponse]] = []
        self._waiting: dict[int, _Waiting] = {}
        self._by_partition: dict[TopicPartition, dict[int, None]] = {}
        self._added = 0
        self._due_ms = math.inf

    def __len__(self) -> int:
        return len(self._waiting)

    def add(
        self,
        request: Message,
        produced: dict[TopicPartition, ProducedPartition],
        required: dict[TopicPartition, int],
        now_ms: float,
    ) -> None:
        """Delay a request until all partitions in ``required`` have a result, or until a timeout.

        - ``produced``: results of all partitions. The results of partitions that are not in
          ``required`` are final.
        - ``required``: offset that the high watermark of each partition must reach.
        """
        assert isinstance(request.body, ProduceRequest)
        due_ms = now_ms + request.body.timeout_ms
        self._added += 1
        self._waiting[self._added] = _Waiting(request, produced, required, due_ms)
        self._due_ms = min(self._due_ms, due_ms)
        for tp in required:
            self._by_partition.setdefault(tp, {})[self._added] = None

    def waits_for(self, tp: TopicPartition) -> bool:
        """Return True if a delayed request waits for this partition."""
        return tp in self._by_partition

    def complete(self, tp: TopicPartition, offset: float, error: Errors) -> None:
        """Set a partition's result in delayed requests whose records end at or below ``offset``.

        The result is ``error``, which may be NONE. A request is answered once all its partitions
        have a result.
        """
        numbers = self._by_partition.get(tp)
        if not numbers:
            return
        for number in list(numbers):
            waiting = self._waiting[number]
            if waiting.required[tp] > offset:
                continue
            self._decide(number, waiting, tp, error)
            if not waiting.required:
                self._answer(number, waiting)

    def take_answers(self) -> list[tuple[Message, ProduceResponse]]:
        """Remove and return the requests that can be answered, with their responses."""
        answers, self._answers = self._answers, []
        return answers

    def _decide(self, number: int, waiting: _Waiting, tp: TopicPartition, error: Errors) -> None:
        del waiting.required[tp]
        waiting.produced[tp] = msgspec.structs.replace(waiting.produced[tp], error=error)
        numbers = self._by_partition[tp]
        del numbers[number]
        if not numbers:
            del self._by_partition[tp]

    def _answer(self, number: int, waiting: _Waiting) -> None:
        del self._waiting[number]
        self._answers.append((waiting.request, ProduceResponse(waiting.produced)))

    def next_due_ms(self) -> float | None:
        """Return the earliest time at which a delayed request may time out.

        The time is in monotonic milliseconds; it is None if no request is delayed.
        """
        return self._due_ms if self._waiting else None

    def on_timer(self, now_ms: float) -> None:
        """Answer timed-out requests with REQUEST_TIMED_OUT; their records stay in the log."""
        if now_ms < self._due_ms:
            return
        over = [n for n, waiting in self._waiting.items() if waiting.due_ms <= now_ms]
        for number in over:
            waiting = self._waiting[number]
            for tp in list(waiting.required):
                self._decide(number, waiting, tp, Errors.REQUEST_TIMED_OUT)
            self._answer(number, waiting)
        self._due_ms = min((w.due_ms for w in self._waiting.values()), default=math.inf)


Append = Callable[[TopicPartition, Partition, Produced, float, int], Appended]
"""Function that appends a batch to the log of a partition that this broker leads.

The last two arguments are the current time in milliseconds: monotonic, and since the Unix epoch.
"""

_ACKS: Final = (0, 1, -1)


class Produces:
    """Handles the produce requests that one broker receives.

    ``not_hosted`` returns the error for a partition that the broker does not host.
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
        self._delayed = DelayedProduces()

    def produce(
        self, request: Message, body: ProduceRequest, now_ms: float, wall_ms: int
    ) -> ProduceResponse | None:
        """Append the records of a request; return the response.

        Return None if the request gets no response (acks 0) or its response is delayed. ``now_ms``
        is in monotonic milliseconds, ``wall_ms`` in milliseconds since the Unix epoch.
        """
        if body.acks not in _ACKS:
            refused = ProducedPartition(Errors.INVALID_REQUIRED_ACKS)
            return ProduceResponse(dict.fromkeys(body.partitions, refused))
        answers: dict[TopicPartition, ProducedPartition] = {}
        required: dict[TopicPartition, int] = {}
        for tp, produced in body.partitions.items():
            if error := self._check(tp, body.acks):
                answers[tp] = ProducedPartition(error)
                continue
            partition = self._partitions[tp]
            try:
                appended = self._append(tp, partition, produced, now_ms, wall_ms)
            except ReplicaLogError as log_error:
                answers[tp] = ProducedPartition(self._on_log_error(tp, log_error))
            else:
                epoch = partition.epoch_of(appended)
                answers[tp] = ProducedPartition(Errors.NONE, appended.first_offset, epoch)
                required[tp] = appended.last_offset + 1
        if body.acks == 0:
            return None
        if body.acks == 1 or not required:
            return ProduceResponse(answers)
        self._delayed.add(request, answers, required, now_ms)
        for tp in list(required):
            self.complete(tp, self._partitions[tp])
        return None

    def check_rate(self, tp: TopicPartition) -> Errors:
        """Return NONE if a partition can accept a constant-rate workload, or else the error.

        Constant-rate workloads use acks -1.
        """
        return self._check(tp, acks=-1)

    def _check(self, tp: TopicPartition, acks: int) -> Errors:
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
        if not self._delayed.waits_for(tp):
            return
        enough = partition.min_insync_replicas <= len(partition.maximal_isr)
        error = Errors.NONE if enough else Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        self._delayed.complete(tp, partition.high_watermark, error)

    def end(self, tp: TopicPartition, error: Errors) -> None:
        """Answer all delayed requests of a partition that this broker no longer leads."""
        self._delayed.complete(tp, math.inf, error)

    def take_answers(self) -> list[tuple[Message, ProduceResponse]]:
        """Remove and return the requests that can be answered, with their responses."""
        return self._delayed.take_answers()

    def next_due_ms(self) -> float | None:
        """Return when to call ``on_timer`` next, in monotonic milliseconds."""
        return self._delayed.next_due_ms()

    def on_timer(self, now_ms: float) -> None:
        """Answer requests that have timed out."""
        self._delayed.on_timer(now_ms)
