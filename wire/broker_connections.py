"""Connections from klamm's controllers to brokers of other processes.

A controller has one connection to each broker. The controller's channels
(controller/channel_manager.py) queue requests and have one in flight. This module sends that
request over TCP, and sends it again on a new connection whenever the connection fails, until the
broker responds. Mirrors kafka.controller.RequestSendThread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from klamm.cluster.protocols import Transport
from klamm.cluster.requests import ControlRequest, ControlResponse, Message
from klamm.cluster.types import EndPoint
from klamm.wire.control_encoder import ControlEncoder, combined_response
from klamm.wire.frames import (
    CORRELATION_ID_BYTES,
    MAX_REQUEST_BYTES,
    InvalidRequestFrame,
    RequestKey,
    read_frame,
)

logger = logging.getLogger(__name__)

RETRY_S: Final = 0.1
"""Pause before a request is sent again, as in RequestSendThread.backoff."""
PLAINTEXT: Final = "PLAINTEXT"


class BrokerConnections:
    """Sends the controllers' requests to the brokers, and passes responses to ``transport``.

    ``end_point_of`` is called with the ids of a controller and a broker, and returns where the
    broker listens, or None if the controller does not consider the broker live; its requests are
    then dropped. ``timeout_s``: how long a
    broker may take to respond before its connection is closed. All methods but ``send`` are for
    the event loop's thread.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: Transport,
        encoder: ControlEncoder,
        end_point_of: Callable[[int, int], EndPoint | None],
        timeout_s: float,
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._encoder = encoder
        self._end_point_of = end_point_of
        self._timeout_s = timeout_s
        self._channels: dict[tuple[int, int], _Channel] = {}

    def send(self, message: Message) -> None:
        """Send a control request to the broker that is its destination. Any thread may call this.

        The request replaces an earlier one to which the broker has not responded yet. A message of
        another kind is lost, as if the broker did not exist.
        """
        if isinstance(message.body, ControlRequest):
            # The loop is closed last, when a controller may still send.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._put, message)

    async def close(self) -> None:
        """Close all connections."""
        tasks = [channel.task for channel in self._channels.values() if channel.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for channel in self._channels.values():
            channel.disconnect()

    def _put(self, message: Message) -> None:
        link = (message.source.id, message.destination.id)
        channel = self._channels.setdefault(link, _Channel())
        if channel.task is not None and not channel.task.done():
            # The controller gave up on the earlier request, whose connection ends with its task.
            channel.task.cancel()
            channel = self._channels[link] = _Channel()
        channel.task = self._loop.create_task(self._deliver(channel, message))

    async def _deliver(self, channel: _Channel, message: Message) -> None:
        controller_id, broker_id = message.source.id, message.destination.id
        is_reported = False
        while (end_point := self._end_point_of(controller_id, broker_id)) is not None:
            try:
                async with asyncio.timeout(self._timeout_s):
                    response = await self._exchange(channel, end_point, message)
            except (OSError, InvalidRequestFrame, TimeoutError) as error:
                channel.disconnect()
                if not is_reported:
                    is_reported = True
                    logger.warning(
                        "controller %d cannot reach broker %d at %s:%d, and will try again: %s",
                        controller_id,
                        broker_id,
                        end_point.host,
                        end_point.port,
                        error or type(error).__name__,
                    )
                await asyncio.sleep(RETRY_S)
            except asyncio.CancelledError:
                channel.disconnect()
                raise
            else:
                self._transport.send(
                    Message(message.destination, message.source, message.correlation_id, response)
                )
                return
        channel.disconnect()

    async def _exchange(
        self, channel: _Channel, end_point: EndPoint, message: Message
    ) -> ControlResponse:
        """Send a request and return its response. Raises OSError and InvalidRequestFrame."""
        assert isinstance(message.body, ControlRequest)
        reader, writer = await channel.connect(end_point)
        frames: list[tuple[RequestKey, bytes]] = []
        for key, frame in self._encoder.exchanges(message.body, message.correlation_id):
            writer.write(frame)
            await writer.drain()
            answer = await read_frame(reader, MAX_REQUEST_BYTES, CORRELATION_ID_BYTES)
            if answer is None:
                raise ConnectionResetError("the broker closed the connection")
            frames.append((key, answer))
        return combined_response(message.body, frames)


class _Channel:
    """Connection to one broker, and the task of the request in flight."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._end_point: EndPoint | None = None

    async def connect(
        self, end_point: EndPoint
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the connection, opening it if it is not open to ``end_point``."""
        if end_point != self._end_point:
            self.disconnect()
        if self._streams is None:
            if end_point.security_protocol != PLAINTEXT:
                raise InvalidRequestFrame(
                    f"klamm has no {end_point.security_protocol} connections to brokers"
                )
            self._streams = await asyncio.open_connection(end_point.host, end_point.port)
            self._end_point = end_point
        return self._streams

    def disconnect(self) -> None:
        """Close the connection at once."""
        streams, self._streams, self._end_point = self._streams, None, None
        if streams is not None:
            streams[1].transport.abort()
