"""Channels from the controller to the brokers: one queue and one request in flight per broker.

Requests are sent in the order in which they were queued. A request that times out is resent until
the broker responds or is removed. This file neither builds requests nor interprets responses.
Mirrors kafka/controller/ControllerChannelManager.scala.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from klamm.cluster.protocols import Clock, Transport
from klamm.cluster.requests import Address, ControlRequest, Message
from klamm.controller.events import RequestTimeout
from klamm.controller.timer import Timer

Schedule = Callable[[RequestTimeout, float], None]


class InFlight(msgspec.Struct, frozen=True):
    """Control request that waits for its response, and the id of the event that caused it."""

    request: ControlRequest
    correlation_id: int
    event_id: int
    sent_ms: float


class _Channel:
    """Request queue of one broker. ``waited``: metric of the time that requests spend queued."""

    __slots__ = ("in_flight", "is_timeout_scheduled", "queue", "waited")

    def __init__(self) -> None:
        self.queue: deque[tuple[ControlRequest, int, float]] = deque()
        self.in_flight: InFlight | None = None
        self.is_timeout_scheduled = False
        self.waited = Timer()


class ChannelManager:
    """Channels of one controller, one per live broker.

    ``schedule`` enqueues a controller event after a delay in milliseconds. Any thread may call
    ``queue_sizes``; the other methods are for the event thread only.
    """

    def __init__(
        self,
        controller_id: int,
        transport: Transport,
        clock: Clock,
        schedule: Schedule,
        request_timeout_ms: float,
    ) -> None:
        self._source = Address("controller", controller_id)
        self._transport = transport
        self._clock = clock
        self._schedule = schedule
        self._request_timeout_ms = request_timeout_ms
        self._channels: dict[int, _Channel] = {}
        # Never reused: a late response for a closed channel must not match a newer request.
        self._next_correlation_id = 0

    @property
    def broker_ids(self) -> list[int]:
        """Ids of the brokers that have a channel, ascending."""
        return sorted(self._channels)

    def add_broker(self, broker_id: int) -> None:
        """Open a channel to a broker, unless the broker already has a channel."""
        self._channels.setdefault(broker_id, _Channel())

    def remove_broker(self, broker_id: int) -> None:
        """Close the channel to a broker and drop the queued requests."""
        self._channels.pop(broker_id, None)

    def shutdown(self) -> None:
        """Close all channels and drop their requests."""
        self._channels.clear()

    def send_request(self, broker_id: int, request: ControlRequest, event_id: int) -> bool:
        """Queue a request, or send it immediately if no request is in flight to the broker.

        Return False if the broker has no channel.
        """
        channel = self._channels.get(broker_id)
        if channel is None:
            return False
        channel.queue.append((request, event_id, self._clock.monotonic_ms()))
        if channel.in_flight is None:
            self._send_next(broker_id, channel)
        return True

    def on_response(self, broker_id: int, correlation_id: int) -> InFlight | None:
        """Complete the request in flight to the broker, and send the next queued request.

        Return the completed request. If ``correlation_id`` is not that of the request in flight,
        do nothing and return None.
        """
        channel = self._channels.get(broker_id)
        if channel is None or channel.in_flight is None:
            return None
        answered = channel.in_flight
        if answered.correlation_id != correlation_id:
            return None
        channel.in_flight = None
        self._send_next(broker_id, channel)
        return answered

    def on_timeout(self, broker_id: int) -> InFlight | None:
        """Resend the request in flight to the broker if the request has timed out.

        Return the resent request, or None if no request has timed out.
        """
        channel = self._channels.get(broker_id)
        if channel is None:
            return None
        channel.is_timeout_scheduled = False
        overdue = channel.in_flight
        if overdue is None:
            return None
        left_ms = overdue.sent_ms + self._request_timeout_ms - self._clock.monotonic_ms()
        if left_ms > 0:
            self._schedule_timeout(broker_id, channel, left_ms)
            return None
        self._send(broker_id, channel, overdue.request, overdue.event_id)
        return overdue

    def queue_sizes(self) -> dict[int, tuple[int, Timer]]:
        """Return {broker id: (number of queued requests, metric of the time spent queued)}."""
        return {id_: (len(c.queue), c.waited) for id_, c in list(self._channels.items())}

    def is_idle(self) -> bool:
        """Return True if no request is queued or in flight."""
        return not any(c.in_flight or c.queue for c in self._channels.values())

    def _send_next(self, broker_id: int, channel: _Channel) -> None:
        # Two requests in flight could overtake each other: the broker would apply the older leader
        # epoch last.
        assert channel.in_flight is None, f"a request to broker {broker_id} is already in flight"
        if channel.queue:
            request, event_id, queued_ms = channel.queue.popleft()
            channel.waited.update(self._clock.monotonic_ms() - queued_ms)
            self._send(broker_id, channel, request, event_id)

    def _send(
        self, broker_id: int, channel: _Channel, request: ControlRequest, event_id: int
    ) -> None:
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        now_ms = self._clock.monotonic_ms()
        channel.in_flight = InFlight(request, correlation_id, event_id, now_ms)
        if not channel.is_timeout_scheduled:
            self._schedule_timeout(broker_id, channel, self._request_timeout_ms)
        destination = Address("broker", broker_id)
        self._transport.send(Message(self._source, destination, correlation_id, request))

    def _schedule_timeout(self, broker_id: int, channel: _Channel, delay_ms: float) -> None:
        channel.is_timeout_scheduled = True
        self._schedule(RequestTimeout(broker_id), delay_ms)
