"""Executed requests whose responses are delayed until this broker's metadata shows the outcome.

A pending request is a plain value with a timer for the timeout that its client set. The subclasses
beside the handlers define when a request is done and what its response is. Mirrors the part of
kafka.server.DelayedOperationPurgatory that the controller needs.
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
        """Return the topics or partitions whose outcome the metadata does not show yet."""
        raise NotImplementedError

    def response(self, late: Collection[Any]) -> Response:
        """Return the response, with REQUEST_TIMED_OUT for each item of ``late``."""
        raise NotImplementedError


class PendingRequests:
    """The pending requests of one controller; for the event thread only."""

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller
        self._by_timeout: dict[PendingRequestTimeout, PendingRequest] = {}
        self._last_number: Counter[type[PendingRequestTimeout]] = Counter()

    def __len__(self) -> int:
        return len(self._by_timeout)

    def add(self, pending: PendingRequest, timeout_ms: float) -> None:
        """Register a request to be answered when it is done or has timed out."""
        kind = pending.timeout
        self._last_number[kind] += 1
        timeout = kind(self._last_number[kind])
        self._by_timeout[timeout] = pending
        self._controller.events.schedule(timeout, timeout_ms)

    def complete(self, kind: type[PendingRequestTimeout]) -> None:
        """Answer all requests of one kind that are done, in order of arrival.

        Their timers are cancelled.
        """
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
        """Answer a request that has timed out, unless it has been answered already."""
        pending = self._by_timeout.pop(timeout, None)
        if pending is not None:
            late = pending.late(self._controller.metadata)
            self._controller.reply(pending.message, pending.response(late))
