"""Pending requests: requests that the controller has executed but not yet responded to.

The response is sent when this broker's metadata shows the outcome of the request, or when the
request times out; the client sets the timeout. Subclasses of PendingRequest, which are defined next
to the handlers, decide whether the metadata shows the outcome, and build the response. Mirrors the
part of kafka.server.DelayedOperationPurgatory that the controller needs.
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
    """Base class of pending requests. ``timeout`` is the type of event enqueued on a timeout."""

    message: Message
    timeout: ClassVar[type[PendingRequestTimeout]]

    def late(self, metadata: MetadataView) -> Collection[Any]:
        """Return the topics or partitions for which the outcome is not in ``metadata`` yet."""
        raise NotImplementedError

    def response(self, late: Collection[Any]) -> Response:
        """Return the response, with REQUEST_TIMED_OUT for each topic or partition in ``late``."""
        raise NotImplementedError


class PendingRequests:
    """Pending requests of one controller. For the event thread only."""

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller
        self._by_timeout: dict[PendingRequestTimeout, PendingRequest] = {}
        self._last_number: Counter[type[PendingRequestTimeout]] = Counter()

    def __len__(self) -> int:
        return len(self._by_timeout)

    def add(self, pending: PendingRequest, timeout_ms: float) -> None:
        """Add a request that times out after ``timeout_ms``."""
        kind = pending.timeout
        self._last_number[kind] += 1
        timeout = kind(self._last_number[kind])
        self._by_timeout[timeout] = pending
        self._controller.events.schedule(timeout, timeout_ms)

    def complete(self, kind: type[PendingRequestTimeout]) -> None:
        """Respond to the requests whose outcome this broker's metadata shows, in order of arrival.

        ``kind`` is the timeout type of the requests to check. The timers of the completed requests
        are cancelled.
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
        """Respond to a request that has timed out, unless a response has already been sent."""
        pending = self._by_timeout.pop(timeout, None)
        if pending is not None:
            late = pending.late(self._controller.metadata)
            self._controller.reply(pending.message, pending.response(late))
