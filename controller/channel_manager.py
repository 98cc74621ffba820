"""The channels to the brokers: a queue for each, one request in flight, answers as events.

Sends what it is given in the order it was given; never builds a request, never looks into a
response. A broker that does not answer in time gets the same request again, until the broker is
removed. Mirrors kafka/controller/ControllerChannelManager.scala.
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
    """A request that a broker has not answered yet, and the event that caused it."""

    request: ControlRequest
    correlation_id: int
    event_id: int
    sent_ms: float


class _Channel:
    """One broker's queue."""

    __slots__ = ("in_flight", "is_timeout_scheduled", "queue", "waited")

    def __init__(self) -> None:
        self.queue: deque[tuple[ControlRequest, int, float]] = deque()
        self.in_flight: InFlight | None = None
        self.is_timeout_scheduled = False
        self.waited = Timer()


class ChannelManager:
    """Channels by broker id. ``schedule`` puts an event after a delay in milliseconds.

    Belongs to the event thread; only ``queue_sizes`` may be called from elsewhere.
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
        # Never used twice, so that an answer meant for a closed channel matches nothing.
        self._next_correlation_id = 0

    @property
    def broker_ids(self) -> list[int]:
        """The brokers that have a channel, ascending."""
        return sorted(self._channels)

    def add_broker(self, broker_id: int) -> None:
        """Open a channel, unless there is one."""
        self._channels.setdefault(broker_id, _Channel())

    def remove_broker(self, broker_id: int) -> None:
        """Close a channel and forget what waited in it."""
        self._channels.pop(broker_id, None)

    def shutdown(self) -> None:
        """Close every channel."""
        self._channels.clear()

    def send_request(self, broker_id: int, request: ControlRequest, event_id: int) -> bool:
        """Queue a request; it is sent at once if nothing is in flight. False: no such channel."""
        channel = self._channels.get(broker_id)
        if channel is None:
            return False
        channel.queue.append((request, event_id, self._clock.monotonic_ms()))
        if channel.in_flight is None:
            self._send_next(broker_id, channel)
        return True

    def on_response(self, broker_id: int, correlation_id: int) -> InFlight | None:
        """The broker answered: send its next request.

        Gives the request that was answered, None if the answer is not to the one in flight.
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
        """Send again what has been in flight for too long, and give it; None if nothing has."""
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
        """{broker id: requests that wait, and how long requests have waited}."""
        return {id_: (len(c.queue), c.waited) for id_, c in list(self._channels.items())}

    def is_idle(self) -> bool:
        """True if nothing waits and every request was answered."""
        return not any(c.in_flight or c.queue for c in self._channels.values())

    def _send_next(self, broker_id: int, channel: _Channel) -> None:
        # Two in flight could overtake each other, and a broker act on an older leader epoch last.
        assert channel.in_flight is None, f"broker {broker_id} has not answered yet"
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
