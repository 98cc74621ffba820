"""Connections from klamm's controllers to brokers of other processes.

A controller has one connection to each broker. The controller's channels
(controller/channel_manager.py) queue requests and have one in flight. This module sends that
request over TCP, and sends it again on a new connection whenever the connection fails, until the
broker responds. Mirrors kafka.controller.RequestSendThread.

A change of one partition is a request to every broker, so that requests and responses are written
and read without a task or a stream for each.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from klamm.cluster.errors import EnvironmentProblem
from klamm.cluster.protocols import Transport
from klamm.cluster.requests import ControlRequest, Message
from klamm.cluster.types import EndPoint
from klamm.wire.broker_connection import BrokerConnection, open_connection
from klamm.wire.broker_security import UNSECURED, BrokerSecurity
from klamm.wire.control_encoder import ControlEncoder, Exchange, combined_response
from klamm.wire.frames import InvalidRequestFrame, RequestKey

logger = logging.getLogger(__name__)

RETRY_S: Final = 0.1
"""Pause before a request is sent again, as in RequestSendThread.backoff."""


class BrokerConnections:
    """Sends the controllers' requests to the brokers, and passes responses to ``transport``.

    ``end_point_of`` is called with the ids of a controller and a broker, and returns where the
    broker listens, or None if the controller does not consider the broker live; its requests are
    then dropped. ``timeout_s``: how long a broker may take to respond before its connection is
    closed. ``security``: of all connections. All methods but ``send`` are for the event loop's
    thread.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: Transport,
        encoder: ControlEncoder,
        end_point_of: Callable[[int, int], EndPoint | None],
        timeout_s: float,
        security: BrokerSecurity = UNSECURED,
    ) -> None:
        self.loop = loop
        self.transport = transport
        self.encoder = encoder
        self.end_point_of = end_point_of
        self.timeout_s = timeout_s
        self.security = security
        self._channels: dict[tuple[int, int], _Channel] = {}
        self._unsent: deque[Message] = deque()
        self._is_woken = False
        self._responses: list[Message] = []
        # Of the channels that wait for a broker, the earliest first: one timer serves them all.
        self._deadlines_s: dict[_Channel, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def send(self, message: Message) -> None:
        """Send a control request to the broker that is its destination. Any thread may call this.

        The request replaces an earlier one to which the broker has not responded yet. A message of
        another kind is lost, as if the broker did not exist.
        """
        if not isinstance(message.body, ControlRequest):
            return
        self._unsent.append(message)
        # Waking the loop is a system call. The loop clears the flag before it takes the messages,
        # so that it finds those that were appended while the flag was set.
        if not self._is_woken:
            self._is_woken = True
            # The loop is closed last, when a controller may still send.
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._send_all)

    async def close(self) -> None:
        """Close all connections."""
        self._unsent.clear()
        self._responses.clear()
        for channel in self._channels.values():
            channel.disconnect()
        if self._timer is not None:
            self._timer.cancel()

    def deliver(self, response: Message) -> None:
        """Pass on a response, together with those of other brokers that can be read now.

        The controller's thread wakes up once for all of them. If it woke up for each, both threads
        would wait for each other all the time.
        """
        if not self._responses:
            self.loop.call_soon(self._deliver_all)
        self._responses.append(response)

    def _deliver_all(self) -> None:
        responses, self._responses = self._responses, []
        for response in responses:
            self.transport.send(response)

    def start_timeout(self, channel: _Channel) -> None:
        """Call ``channel.on_timeout`` after ``timeout_s``, unless ``stop_timeout`` is called."""
        self._deadlines_s[channel] = self.loop.time() + self.timeout_s
        if self._timer is None:
            self._timer = self.loop.call_later(self.timeout_s, self._check_deadlines)

    def stop_timeout(self, channel: _Channel) -> None:
        """Do not call ``channel.on_timeout``; idempotent."""
        self._deadlines_s.pop(channel, None)

    def _check_deadlines(self) -> None:
        self._timer = None
        now_s = self.loop.time()
        for channel, deadline_s in tuple(self._deadlines_s.items()):
            if deadline_s > now_s:
                self._timer = self.loop.call_at(deadline_s, self._check_deadlines)
                return
            del self._deadlines_s[channel]
            channel.on_timeout()

    def _send_all(self) -> None:
        self._is_woken = False
        while self._unsent:
            message = self._unsent.popleft()
            link = (message.source.id, message.destination.id)
            channel = self._channels.get(link)
            if channel is None:
                channel = self._channels[link] = _Channel(self)
            channel.send(message)


class _Channel:
    """Connection to one broker, and the request in flight."""

    def __init__(self, network: BrokerConnections) -> None:
        self._network = network
        self._message: Message | None = None
        self._exchanges: deque[Exchange] = deque()
        self._answers: list[tuple[RequestKey, bytes]] = []
        self._connection: BrokerConnection | None = None
        self._end_point: EndPoint | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._is_reported = False

    def send(self, message: Message) -> None:
        """Send a request until the broker responds."""
        if self._message is not None:
            # The controller gave up on the earlier request, whose response may still arrive.
            self.disconnect()
        self._message = message
        self._is_reported = False
        self._attempt()

    def disconnect(self) -> None:
        """Close the connection at once, and stop sending the request in flight."""
        if self._connection is not None:
            self._connection.close()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._retry is not None:
            self._retry.cancel()
        self._network.stop_timeout(self)
        self._connection = self._connecting = self._retry = self._end_point = None

    def on_timeout(self) -> None:
        """Give up waiting for the broker's response, and send the request again."""
        self._fail(TimeoutError(f"no response within {self._network.timeout_s:g} s"))

    def _attempt(self) -> None:
        message, network = self._message, self._network
        assert message is not None
        end_point = network.end_point_of(message.source.id, message.destination.id)
        if end_point != self._end_point:
            self.disconnect()
        if end_point is None:
            self._message = None
            return
        if self._connection is not None and network.loop.time() >= self._connection.expires_s:
            self.disconnect()
        network.start_timeout(self)
        if self._connection is None:
            self._end_point = end_point
            self._connecting = network.loop.create_task(self._connect(end_point))
        else:
            self._start(message)

    async def _connect(self, end_point: EndPoint) -> None:
        try:
            self._connection = await open_connection(
                end_point, self._network.security, self._receive, self._fail
            )
        except (OSError, InvalidRequestFrame, EnvironmentProblem) as error:
            self._connecting = None
            self._fail(error)
        else:
            self._connecting = None
            assert self._message is not None
            self._start(self._message)

    def _start(self, message: Message) -> None:
        assert isinstance(message.body, ControlRequest)
        self._exchanges = deque(
            self._network.encoder.exchanges(message.body, message.correlation_id)
        )
        self._answers = []
        self._write_next()

    def _write_next(self) -> None:
        assert self._connection is not None
        self._connection.write(self._exchanges[0])

    def _receive(self, frame: bytes) -> None:
        message = self._message
        if message is None:
            self._fail(InvalidRequestFrame("a response without a request"))
            return
        self._answers.append((self._exchanges.popleft().key, frame))
        if self._exchanges:
            self._write_next()
            return
        assert isinstance(message.body, ControlRequest)
        try:
            response = combined_response(message.body, self._answers)
        except InvalidRequestFrame as error:
            self._fail(error)
            return
        self._message = None
        self._network.stop_timeout(self)
        self._network.deliver(
            Message(message.destination, message.source, message.correlation_id, response)
        )

    def _fail(self, error: Exception) -> None:
        """Close the connection, and send the request in flight again after a pause."""
        message, end_point = self._message, self._end_point
        self.disconnect()
        if message is None:
            return
        assert end_point is not None
        if not self._is_reported:
            self._is_reported = True
            logger.warning(
                "controller %d cannot reach broker %d at %s:%d, and will try again: %s",
                message.source.id,
                message.destination.id,
                end_point.host,
                end_point.port,
                error,
            )
        self._retry = self._network.loop.call_later(RETRY_S, self._attempt)
