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
from typing import Final

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
from klamm.wire.broker_connection import BrokerConnection, open_connection
from klamm.wire.broker_security import UNSECURED
from klamm.wire.control_encoder import Exchange
from klamm.wire.frames import (
    InvalidRequestFrame,
    RequestKey,
    framed,
    parse_response,
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


class ClientConnections:
    """Sends clients' requests to brokers, and passes the responses to ``transport``.

    ``end_point_of`` returns where a broker listens. The connections live on a thread, from the
    constructor to ``close``.
    """

    def __init__(self, transport: Transport, end_point_of: Callable[[int], EndPoint]) -> None:
        self.transport = transport
        self.end_point_of = end_point_of
        self.channels: dict[tuple[Address, Address], _Channel] = {}
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
            self._loop.call_soon_threadsafe(self._put, message, exchange)

    def close(self) -> None:
        """Close all connections and end the thread; idempotent."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._close_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close_all(self) -> None:
        await asyncio.gather(*map(_Channel.close, self.channels.values()))

    def _put(self, message: Message, exchange: Exchange) -> None:
        link = (message.source, message.destination)
        channel = self.channels.get(link) or _Channel(self, link)
        channel.send(message, exchange)


class _Channel:
    """One client's connection to one broker, with the requests that await a response."""

    def __init__(self, network: ClientConnections, link: tuple[Address, Address]) -> None:
        self._network = network
        self._link = link
        self._unsent: deque[tuple[Message, Exchange]] = deque()
        self._sent: deque[tuple[Message, RequestKey]] = deque()
        self._connection: BrokerConnection | None = None
        network.channels[link] = self
        self._connecting = asyncio.create_task(self._connect())

    def send(self, message: Message, exchange: Exchange) -> None:
        """Send a request at once, or when the connection is open."""
        if self._connection is None:
            self._unsent.append((message, exchange))
            return
        if getattr(message.body, "acks", None) != 0:
            self._sent.append((message, exchange.key))
        self._connection.write(exchange)

    async def close(self) -> None:
        """Close the connection at once."""
        self._connecting.cancel()
        await asyncio.wait([self._connecting])
        if self._connection is not None:
            self._connection.close()

    async def _connect(self) -> None:
        end_point = self._network.end_point_of(self._link[1].id)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                self._connection = await open_connection(
                    end_point, UNSECURED, self._receive, self._fail
                )
        except (OSError, TimeoutError) as error:
            self._fail(error)
            return
        while self._unsent:
            self.send(*self._unsent.popleft())

    def _receive(self, frame: bytes) -> None:
        try:
            if not self._sent:
                raise InvalidRequestFrame("a response without a request")
            message, key = self._sent.popleft()
            assert isinstance(message.body, Request)
            response = response_to(message.body, key, frame)
        except InvalidRequestFrame as error:
            self._fail(error)
        else:
            self._network.transport.send(
                Message(message.destination, message.source, message.correlation_id, response)
            )

    def _fail(self, error: Exception) -> None:
        client, broker = self._link
        logger.info("%s lost its connection to %s: %s", client, broker, error)
        if self._connection is not None:
            self._connection.close()
        del self._network.channels[self._link]
        self._network.transport.send(Message(broker, client, NO_CORRELATION_ID, Disconnected()))
