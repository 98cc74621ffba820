"""Produce requests with acks -1 that wait until the whole ISR has their records.

A waiting request is plain values: whom to answer, which offsets are needed, until when. It reads
no log; who knows that an offset was reached says so. Mirrors kafka.server.DelayedProduce and its
purgatory.
"""

from __future__ import annotations

import math

import msgspec

from cluster.api_errors import Errors
from cluster.data_requests import ProducedPartition, ProduceRequest, ProduceResponse
from cluster.requests import Message
from cluster.types import TopicPartition


class _Waiting(msgspec.Struct):
    request: Message
    produced: dict[TopicPartition, ProducedPartition]
    required: dict[TopicPartition, int]
    due_ms: float


class DelayedProduces:
    """Requests that wait, by partition."""

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
        """Answer a request once each partition in ``required`` is completed, or in its time.

        ``produced``: the answers as they are if all goes well; for the others they are final.
        """
        assert isinstance(request.body, ProduceRequest)
        due_ms = now_ms + request.body.timeout_ms
        self._added += 1
        self._waiting[self._added] = _Waiting(request, produced, required, due_ms)
        self._due_ms = min(self._due_ms, due_ms)
        for tp in required:
            self._by_partition.setdefault(tp, {})[self._added] = None

    def waits_for(self, tp: TopicPartition) -> bool:
        """True if a request waits for this partition."""
        return tp in self._by_partition

    def complete(self, tp: TopicPartition, offset: float, error: Errors) -> None:
        """Everything before ``offset`` of a partition is decided: it has this error, or none."""
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
        """Requests that wait no more, and what they are to be answered; from now on none."""
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
        """When a request may have waited long enough: not later than one does."""
        return self._due_ms if self._waiting else None

    def on_timer(self, now_ms: float) -> None:
        """Answer REQUEST_TIMED_OUT for what has waited too long: the records stay in the log."""
        if now_ms < self._due_ms:
            return
        over = [n for n, waiting in self._waiting.items() if waiting.due_ms <= now_ms]
        for number in over:
            waiting = self._waiting[number]
            for tp in list(waiting.required):
                self._decide(number, waiting, tp, Errors.REQUEST_TIMED_OUT)
            self._answer(number, waiting)
        self._due_ms = min((w.due_ms for w in self._waiting.values()), default=math.inf)
