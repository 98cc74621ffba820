"""A client's in-flight requests, their timeouts, reconnect backoffs, and its metadata requests.

Messages are passed in and returned as values: no connection is opened and no clock is read. At most
one metadata request is in flight, and successive metadata requests go to different brokers. When a
request times out, the connection is closed, and all other requests on that connection fail. Mirrors
org.apache.kafka.clients.NetworkClient.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from klamm.cluster.client_requests import MetadataRequest, MetadataResponse
from klamm.cluster.requests import Address, Disconnected, Message, Request, Response
from klamm.world.clients.config import ClientConfig
from klamm.world.clients.metadata import Metadata


class InFlightRequest(msgspec.Struct, frozen=True):
    """A request that awaits its response."""

    broker_id: int
    body: Request
    due_ms: float


class Ended(msgspec.Struct, frozen=True):
    """A request that is no longer in flight.

    If ``answer`` is None, the connection was lost, and the broker may or may not have executed the
    request.
    """

    correlation_id: int
    broker_id: int
    answer: Response | None


class NetworkClient:
    """The connections and requests of one client. Times are in monotonic milliseconds."""

    def __init__(self, address: Address, config: ClientConfig, bootstrap: Iterable[int]) -> None:
        self.address = address
        self.metadata = Metadata(config, bootstrap)
        self._config = config
        self._in_flight: dict[int, InFlightRequest] = {}
        self._outbox: list[Message] = []
        self._sent = 0
        self._asked = 0
        self._failures: dict[int, int] = {}
        self._ready_ms: dict[int, float] = {}

    # -- requests

    def send(
        self, broker_id: int, body: Request, now_ms: float, *, is_answered: bool = True
    ) -> int:
        """Send a request; return its correlation id.

        If ``is_answered`` is False, no response is expected.
        """
        self._sent += 1
        destination = Address("broker", broker_id)
        self._outbox.append(Message(self.address, destination, self._sent, body))
        if is_answered:
            due_ms = now_ms + self._config.request_timeout_ms
            self._in_flight[self._sent] = InFlightRequest(broker_id, body, due_ms)
        return self._sent

    def ready_ms(self, broker_id: int) -> float:
        """Return the time at which the reconnect backoff of a broker ends."""
        return self._ready_ms.get(broker_id, 0.0)

    def in_flight_of(self, kind: type[Request]) -> list[int]:
        """Return the brokers of the in-flight requests of one type, once for each request."""
        return [one.broker_id for one in self._in_flight.values() if isinstance(one.body, kind)]

    def take_messages(self) -> list[Message]:
        """Remove and return the messages to be sent."""
        messages, self._outbox = self._outbox, []
        return messages

    # -- responses and disconnections

    def receive(self, message: Message, now_ms: float) -> list[Ended]:
        """Process a response or a lost connection; return the requests that completed or failed.

        Metadata requests are not returned. A response to a request that is no longer in flight is
        ignored.
        """
        number, body = message.correlation_id, message.body
        if isinstance(body, Disconnected):
            return self.on_disconnected(message.source.id, now_ms)
        request = self._in_flight.get(number)
        if request is None or message.source.id != request.broker_id:
            return []
        del self._in_flight[number]
        self._failures.pop(request.broker_id, None)
        if isinstance(body, MetadataResponse):
            self.metadata.update(body, now_ms)
            return []
        assert isinstance(body, Response)
        return [Ended(number, request.broker_id, body)]

    def on_disconnected(self, broker_id: int, now_ms: float) -> list[Ended]:
        """Process a lost connection; return the requests that were in flight on it.

        Metadata requests are not returned.
        """
        failures = self._failures[broker_id] = self._failures.get(broker_id, 0) + 1
        config = self._config
        backoff_ms = config.reconnect_backoff_ms * 2.0 ** min(failures - 1, 16)
        self._ready_ms[broker_id] = now_ms + min(backoff_ms, config.reconnect_backoff_max_ms)
        lost = [n for n, one in self._in_flight.items() if one.broker_id == broker_id]
        ended = []
        for number in lost:
            request = self._in_flight.pop(number)
            if isinstance(request.body, MetadataRequest):
                self.metadata.on_asked(now_ms)
            else:
                ended.append(Ended(number, broker_id, None))
        self.metadata.request_update()
        return ended

    def on_timer(self, now_ms: float) -> list[Ended]:
        """Time out requests, and send a metadata request if one is due.

        Return the requests that failed.
        """
        ended: list[Ended] = []
        late = {one.broker_id: None for one in self._in_flight.values() if one.due_ms <= now_ms}
        for broker_id in late:
            ended += self.on_disconnected(broker_id, now_ms)
        if self._metadata_due_ms() <= now_ms:
            topics = tuple(self.metadata.topics)
            self.metadata.on_asked(now_ms)
            self.send(self.any_broker(), MetadataRequest(topics), now_ms)
        return ended

    def any_broker(self) -> int:
        """Return the broker to use for a request that any broker can answer.

        Brokers take turns; brokers in a reconnect backoff come last.
        """
        self._asked += 1
        brokers = self.metadata.brokers
        turned = [brokers[(self._asked + n) % len(brokers)] for n in range(len(brokers))]
        return min(turned, key=self.ready_ms)

    def any_ready_ms(self) -> float:
        """Return the earliest time at which a request may be sent to ``any_broker``."""
        return min(map(self.ready_ms, self.metadata.brokers))

    def next_due_ms(self) -> float:
        """Return when to call ``on_timer`` next, in monotonic milliseconds."""
        due = [one.due_ms for one in self._in_flight.values()]
        return min([self._metadata_due_ms(), *due])

    def _metadata_due_ms(self) -> float:
        if any(isinstance(one.body, MetadataRequest) for one in self._in_flight.values()):
            return math.inf
        return max(self.metadata.next_update_ms(), self.any_ready_ms())
