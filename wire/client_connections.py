"""Connections from klamm's own clients to brokers of other processes.

Each client has one connection to each broker. Requests are sent at once; a broker handles and
answers the requests of a connection one after the other. When a connection cannot be opened or
ends, the client gets a Disconnected message, as from any transport of klamm.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from klamm.cluster.protocols import Transport
from klamm.cluster.requests import (
    NO_CORRELATION_ID,
    Address,
    Disconnected,
    Message,
    Request,
    Response,
)
from klamm.cluster.types import EndPoint
from klamm.wire.apis import BY_REQUEST
from klamm.wire.control_encoder import Exchange
from klamm.wire.frames import (
    CORRELATION_ID_BYTES,
    MAX_REQUEST_BYTES,
    InvalidRequestFrame,
    RequestKey,
    framed,
    parse_response,
    read_frame,
    request_body,
    request_header,
)

logger = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S: Final = 10.0


def exchange_of(request: Request, correlation_id: int, client_id: str) -> Exchange:
    """Encode a request in its newest version, which brokers of Kafka 2.8 serve."""
    api = BY_REQUEST[type(request)]
    key = RequestKey(api.key, api.versions[-1], correlation_id)
    body = request_body(key, api.request.write(request))
    return Exchange(key, framed(request_header(key, client_id), body))


def response_to(request: Request, key: RequestKey, frame: bytes) -> Response:
    """Translate the response to a request. Raises InvalidRequestFrame."""
    translation = BY_REQUEST[type(request)].response_to(request)
    response: Response = translation.read(parse_response(key, frame))
    return response


class _Sent(NamedTuple):
    message: Message
    exchange: Exchange


class _Connection:
    """One client's connection to one broker, with the requests that await a response."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[_Sent] = asyncio.Queue()
        self.sent: deque[_Sent] = deque()
        self.task: asyncio.Task[None] | None = None


class ClientConnections:
    """Sends clients' requests to brokers, and passes the responses to ``transport``.

    ``end_point_of`` returns where a broker listens. The connections live on a thread, from the
    constructor to ``close``.
    """

    def __init__(self, transport: Transport, end_point_of: Callable[[int], EndPoint]) -> None:
        self._transport = transport
        self._end_point_of = end_point_of
        self._connections: dict[tuple[Address, Address], _Connection] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="client-connections", daemon=True
        )
        self._thread.start()

    def send(self, message: Message) -> None:
        """Send a request to the broker with the id of its destination. Any thread may call this."""
        assert isinstance(message.body, Request)
        exchange = exchange_of(message.body, message.correlation_id, str(message.source))
        # The loop is closed first, when a client may still send.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._put, _Sent(message, exchange))

    def close(self) -> None:
        """Close all connections and end the thread; idempotent."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._cancel(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel(self) -> None:
        tasks = [one.task for one in self._connections.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _put(self, sent: _Sent) -> None:
        link = (sent.message.source, sent.message.destination)
        connection = self._connections.get(link)
        if connection is None:
            connection = self._connections[link] = _Connection()
            connection.task = self._loop.create_task(self._run(link, connection))
        connection.queue.put_nowait(sent)

    async def _run(self, link: tuple[Address, Address], connection: _Connection) -> None:
        client, broker = link
        try:
            end_point = self._end_point_of(broker.id)
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(end_point.host, end_point.port)
            sender = self._loop.create_task(_send_all(connection, writer))
            try:
                await self._receive_all(connection, reader)
            finally:
                sender.cancel()
                writer.transport.abort()
        except (OSError, InvalidRequestFrame, TimeoutError) as error:
            logger.info("%s lost its connection to %s: %s", client, broker, error)
        finally:
            del self._connections[link]
        self._transport.send(Message(broker, client, NO_CORRELATION_ID, Disconnected()))

    async def _receive_all(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        while True:
            frame = await read_frame(reader, MAX_REQUEST_BYTES, CORRELATION_ID_BYTES)
            if frame is None or not connection.sent:
                raise ConnectionResetError("the broker closed the connection")
            (message, exchange) = connection.sent.popleft()
            assert isinstance(message.body, Request)
            response = response_to(message.body, exchange.key, frame)
            self._transport.send(
                Message(message.destination, message.source, message.correlation_id, response)
            )


async def _send_all(connection: _Connection, writer: asyncio.StreamWriter) -> None:
    """Send requests until the connection fails, which its reader notices."""
    with contextlib.suppress(OSError):
        while True:
            sent = await connection.queue.get()
            if getattr(sent.message.body, "acks", None) != 0:
                connection.sent.append(sent)
            writer.write(sent.exchange.frame)
            await writer.drain()
