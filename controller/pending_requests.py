"""Clients' requests that were carried out and whose answer waits for this broker's metadata.

A waiting request is plain values, with a timer for the time its client has. What is waited for, and
what is answered, is the business of on_create_topics.py, on_delete_topics.py and
on_elect_leaders.py. Mirrors kafka.server.DelayedOperationPurgatory as far as these need it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec

from cluster.api_errors import Errors
from cluster.requests import ApiError, CreatableTopicResult, Message
from cluster.types import TopicPartition
from controller.event_manager import EventManager
from controller.events import ControllerEvent

T = TypeVar("T")


class PendingCreation(msgspec.Struct, frozen=True):
    """A request whose topics are written and whose answer waits for leaders.

    ``waiting`` are the partitions of the topics without an error, by topic.
    """

    message: Message
    results: tuple[CreatableTopicResult, ...]
    waiting: dict[str, list[TopicPartition]]


class PendingDeletion(msgspec.Struct, frozen=True):
    """A request whose topics are marked and whose answer waits until the metadata lacks them."""

    message: Message
    results: dict[str, Errors]


class PendingElection(msgspec.Struct, frozen=True):
    """A request whose elections took place and whose answer waits until the metadata shows them."""

    message: Message
    results: dict[TopicPartition, ApiError]
    leaders: Mapping[TopicPartition, int]


class PendingRequests(Generic[T]):
    """Requests of one kind that wait for an answer. Belongs to the event thread.

    ``timeout`` makes the event that says that the time of a request, by its number, is over.
    """

    def __init__(self, events: EventManager, timeout: Callable[[int], ControllerEvent]) -> None:
        self._events = events
        self._timeout = timeout
        self._by_number: dict[int, T] = {}
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._by_number)

    def add(self, pending: T, timeout_ms: float) -> None:
        """Keep a request until it is done, or for so long."""
        self._last_number += 1
        self._by_number[self._last_number] = pending
        self._events.schedule(self._timeout(self._last_number), timeout_ms)

    def take_done(self, is_done: Callable[[T], bool]) -> list[T]:
        """The requests that need not wait any more, in the order they came; their time goes on
        for nobody."""
        done = {n: pending for n, pending in self._by_number.items() if is_done(pending)}
        for number in done:
            del self._by_number[number]
        if done:
            timeouts = [self._timeout(number) for number in done]
            self._events.cancel(lambda event: event in timeouts)
        return list(done.values())

    def take(self, number: int) -> T | None:
        """A request whose time is over; None if it is answered already."""
        return self._by_number.pop(number, None)
