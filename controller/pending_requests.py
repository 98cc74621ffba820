"""Requests that were carried out and are answered once this broker's metadata shows the outcome.

A pending request is plain values, with a timer for the time its client gave. What a kind of request
waits for and how it is answered is decided where the request is processed. Mirrors
kafka.server.DelayedOperationPurgatory as far as the controller needs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from klamm.cluster.protocols import MetadataView
from klamm.cluster.requests import Message, Response
from klamm.controller.events import PendingRequestTimeout

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController


class PendingRequest(msgspec.Struct, frozen=True):
    """Base of pending requests; ``timeout`` is the event of its timer."""

    message: Message
    timeout: ClassVar[type[PendingRequestTimeout]]

    def late(self, metadata: MetadataView) -> Collection[Any]:
        """Return what the request waits for and the metadata does not show yet."""
        raise NotImplementedError

    def response(self, late: Collection[Any]) -> Response:
        """Return the answer; what is ``late`` has timed out."""
        raise NotImplementedError


class PendingRequests:
    """The pending requests of one controller. Belongs to the event thread."""

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller
        self._by_timeout: dict[PendingRequestTimeout, PendingRequest] = {}
        self._last_number: Counter[type[PendingRequestTimeout]] = Counter()

    def __len__(self) -> int:
        return len(self._by_timeout)

    def add(self, pending: PendingRequest, timeout_ms: float) -> None:
        """Answer a request once it is done, or after its timeout."""
        kind = pending.timeout
        self._last_number[kind] += 1
        timeout = kind(self._last_number[kind])
        self._by_timeout[timeout] = pending
        self._controller.events.schedule(timeout, timeout_ms)

    def complete(self, kind: type[PendingRequestTimeout]) -> None:
        """Answer the requests of a kind that are done, in order of arrival, and cancel their
        timers."""
        metadata = self._controller.metadata
        done = {
            timeout: pending
            for timeout, pending in self._by_timeout.items()
            if type(timeout) is kind and not pending.late(metadata)
        }
        if not done:
            return
        self._controller.events.cancel(lambda event: event in done)
        for timeout, pending in done.items():
            del self._by_timeout[timeout]
            self._controller.reply(pending.message, pending.response(()))

    def expire(self, timeout: PendingRequestTimeout) -> None:
        """Answer a request whose time is over; nothing if it has been answered."""
        pending = self._by_timeout.pop(timeout, None)
        if pending is not None:
            late = pending.late(self._controller.metadata)
            self._controller.reply(pending.message, pending.response(late))
