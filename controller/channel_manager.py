"""Channels from the controller to the brokers: one queue and one request in flight per broker.

Requests are sent in the order in which they were queued; this file neither builds requests nor
reads responses. A request that times out is sent again until the broker is removed. Mirrors
kafka/controller/ControllerChannelManager.scala.
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
    """A request without a response yet, and the id of the event that caused it."""

    request: ControlRequest
    correlation_id: int
    event_id: int
    sent_ms: float


class _Channel:
    """Queue of one broker. ``waited`` measures the time that requests spent in it."""

    __slots__ = ("in_flight", "is_timeout_scheduled", "queue", "waited")

    def __init__(self) -> None:
        self.queue: deque[tuple[ControlRequest, int, float]] = deque()
        self.in_flight: InFlight | None = None
        self.is_timeout_scheduled = False
        self.waited = Timer()


class ChannelManager:
    """Channels by broker id. ``schedule`` enqueues an event after a delay in milliseconds.

    Only the event thread may call methods, except ``queue_sizes``, which any thread may call.
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
        """Open a channel to a broker, unless it has one."""
        self._channels.setdefault(broker_id, _Channel())

    def remove_broker(self, broker_id: int) -> None:
        """Close the channel to a broker and drop its queued requests."""
        self._channels.pop(broker_id, None)

    def shutdown(self) -> None:
        """Close every channel."""
        self._channels.clear()

    def send_request(self, broker_id: int, request: ControlRequest, event_id: int) -> bool:
        """Queue a request, or send it at once if nothing is in flight.

        Returns False if the broker has no channel.
        """
        channel = self._channels.get(broker_id)
        if channel is None:
            return False
        channel.queue.append((request, event_id, self._clock.monotonic_ms()))
        if channel.in_flight is None:
            self._send_next(broker_id, channel)
        return True

    def on_response(self, broker_id: int, correlation_id: int) -> InFlight | None:
        """Take a response and send the broker's next queued request.

        Returns the request that was answered; None if the response does not belong to the request
        in flight.
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
        """Send the request in flight again if it has timed out.

        Returns that request, or None if there is nothing to send again.
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
        """Return {broker id: (number of queued requests, time that requests were queued)}."""
        return {id_: (len(c.queue), c.waited) for id_, c in list(self._channels.items())}

    def is_idle(self) -> bool:
        """Return True if no request is queued or in flight."""
        return not any(c.in_flight or c.queue for c in self._channels.values())

    def _send_next(self, broker_id: int, channel: _Channel) -> None:
        # Two requests in flight could overtake each other: the broker would apply the older leader
        # epoch last.
        assert channel.in_flight is None, f"broker {broker_id} has a request in flight"
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
