"""Requests that wait for offsets of partitions: Produce with acks -1, and DeleteRecords.

The responses have a result for each partition. Mirrors kafka.server.{DelayedProduce,
DelayedDeleteRecords}.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from klamm.brokers.leaders.purgatory import Purgatory
from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import Message
from klamm.cluster.types import TopicPartition

_Result = TypeVar("_Result", bound=msgspec.Struct)
_Response = TypeVar("_Response")


class _Waiting(msgspec.Struct):
    request: Message
    results: dict[TopicPartition, Any]
    required: dict[TopicPartition, int]
    due_ms: float


class DelayedRequests(Purgatory[_Waiting, _Response], Generic[_Result, _Response]):
    """Requests that wait until every partition has a final result, or until their timeout.

    ``respond`` makes the response from the results of all partitions. A result has a field
    ``error``.
    """

    def __init__(self, respond: Callable[[dict[TopicPartition, _Result]], _Response]) -> None:
        super().__init__()
        self._respond = respond

    def __len__(self) -> int:
        return len(self._waiting)

    def add(
        self,
        request: Message,
        timeout_ms: int,
        results: dict[TopicPartition, _Result],
        required: dict[TopicPartition, int],
        now_ms: float,
    ) -> None:
        """Delay a request until all partitions in ``required`` have a result, or until a timeout.

        - ``results``: results of all partitions. The results of partitions that are not in
          ``required`` are final.
        - ``required``: the offset that each partition must reach.
        """
        due_ms = now_ms + timeout_ms
        self._due_ms = min(self._due_ms, due_ms)
        self._watch(_Waiting(request, results, required, due_ms), required)

    def waits_for(self, tp: TopicPartition) -> bool:
        """Return True if a delayed request waits for this partition."""
        return tp in self._by_partition

    def complete(self, tp: TopicPartition, offset: float, **result: object) -> None:
        """Set a partition's result in delayed requests that require at most ``offset``.

        ``result``: the fields of the result that change. A request is answered once all its
        partitions have a result.
        """
        numbers = self._by_partition.get(tp)
        if not numbers:
            return
        for number in list(numbers):
            waiting = self._waiting[number]
            if waiting.required[tp] > offset:
                continue
            self._decide(number, waiting, tp, result)
            if not waiting.required:
                self._answer(number, waiting)

    def _decide(
        self, number: int, waiting: _Waiting, tp: TopicPartition, result: dict[str, object]
    ) -> None:
        del waiting.required[tp]
        waiting.results[tp] = msgspec.structs.replace(waiting.results[tp], **result)
        self._unwatch(number, tp)

    def _answer(self, number: int, waiting: _Waiting) -> None:
        del self._waiting[number]
        self._answers.append((waiting.request, self._respond(waiting.results)))

    def on_timer(self, now_ms: float) -> None:
        """Answer timed-out requests with REQUEST_TIMED_OUT; what they changed stays changed."""
        if now_ms < self._due_ms:
            return
        over = [n for n, waiting in self._waiting.items() if waiting.due_ms <= now_ms]
        for number in over:
            waiting = self._waiting[number]
            for tp in list(waiting.required):
                self._decide(number, waiting, tp, {"error": Errors.REQUEST_TIMED_OUT})
            self._answer(number, waiting)
        self._due_ms = min((w.due_ms for w in self._waiting.values()), default=math.inf)
