"""Requests that a leader answers later, found by the partitions that they wait for.

Mirrors kafka.server.DelayedOperationPurgatory. Its subclasses decide when a request is answered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Generic, TypeVar

from klamm.cluster.requests import Message
from klamm.cluster.types import TopicPartition

_Waiting = TypeVar("_Waiting")
_Response = TypeVar("_Response")


class Purgatory(Generic[_Waiting, _Response]):
    """Delayed requests, numbered in the order in which they came, and the answers to send.

    ``_due_ms``: the earliest time at which one may have to be answered.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, _Waiting] = {}
        self._by_partition: dict[TopicPartition, dict[int, None]] = {}
        self._answers: list[tuple[Message, _Response]] = []
        self._added = 0
        self._due_ms = math.inf

    def take_answers(self) -> list[tuple[Message, _Response]]:
        """Remove and return the requests that can be answered, with their responses."""
        answers, self._answers = self._answers, []
        return answers

    def next_due_ms(self) -> float | None:
        """Return the earliest time at which a delayed request may be answered.

        The time is in monotonic milliseconds; it is None if no request is delayed.
        """
        return self._due_ms if self._waiting else None

    def _watch(self, waiting: _Waiting, tps: Iterable[TopicPartition]) -> int:
        """Delay a request that waits for these partitions. Return its number."""
        self._added += 1
        self._waiting[self._added] = waiting
        for tp in tps:
            self._by_partition.setdefault(tp, {})[self._added] = None
        return self._added

    def _unwatch(self, number: int, tp: TopicPartition) -> None:
        numbers = self._by_partition[tp]
        del numbers[number]
        if not numbers:
            del self._by_partition[tp]
