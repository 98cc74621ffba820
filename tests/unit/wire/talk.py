"""Both ends of a connection of a client to a broker, whose actors the test plays."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from klamm.admin.kafka_admin import ListenerAdmin
from klamm.cluster.client_requests import MetadataResponse
from klamm.cluster.requests import Address, Message
from klamm.cluster.types import Broker, EndPoint
from klamm.wire.config import listener_config
from klamm.wire.connection import Connection, Served
from klamm.wire.frames import RequestKey, framed, parse_response, request_body, request_header
from klamm.wire.request_memory import RequestMemory
from klamm.wire.request_metrics import RequestMetrics
from klamm.wire.sasl import SaslAuthenticator
from klamm.world.transport import RoutedTransport

METADATA = 3
CLIENT, BROKER, CONTROLLER = Address("client", 9), Address("broker", 1), Address("controller", 1)
KNOWN = MetadataResponse((Broker(1, (EndPoint("a", 9092), EndPoint("b", 9093, "INNER"))),), 1, ())


class Talk:
    """Both ends of a connection to broker 1. ``asked`` are the messages that reach its actors."""

    def __init__(
        self,
        *,
        has_controller: bool,
        config: dict[str, str],
        authenticator: SaslAuthenticator | None = None,
        admin: object = None,
    ) -> None:
        self.asked: list[Message] = []
        self.transport = RoutedTransport(random.Random(0))
        for address in (BROKER, CONTROLLER):
            self.transport.register(address, self.asked.append)
        self.metrics = RequestMetrics()
        self._config = listener_config(config)
        self._has_controller = has_controller
        self._authenticator = authenticator
        self._admin = admin

    async def open(self) -> None:
        self.many_elements = asyncio.Lock()
        ours, theirs = socket.socketpair()
        self.reader, self.writer = await asyncio.open_connection(sock=ours)
        served = Served(
            1,
            "INNER",
            "the cluster",
            self._has_controller,
            self._config,
            RequestMemory(self._config.socket_request_max_bytes),
            self.metrics,
            self.many_elements,
        )
        self.connection = Connection(
            served, CLIENT, self.transport, cast("ListenerAdmin", self._admin), "1.2.3.4"
        )
        self.transport.register(CLIENT, self.connection.receive, notify_disconnects=True)
        reader, self.far = await asyncio.open_connection(sock=theirs)
        self.serving = asyncio.create_task(
            self.connection.serve(reader, self.far, self._authenticator)
        )

    async def close(self) -> None:
        self.serving.cancel()
        await asyncio.gather(self.serving, return_exceptions=True)
        for writer in (self.writer, self.far):
            writer.close()

    def send(self, key: RequestKey, **values: Any) -> None:
        self.writer.write(framed(request_header(key, "me"), request_body(key, values)))

    async def next_asked(self) -> Message:
        for _ in range(500):
            if self.asked:
                return self.asked.pop(0)
            await asyncio.sleep(0.01)
        raise AssertionError("nothing was asked")

    def answer(self, message: Message, body: Any, number: int | None = None) -> None:
        correlation_id = message.correlation_id if number is None else number
        self.transport.send(Message(message.destination, CLIENT, correlation_id, body))

    async def response(self, key: RequestKey) -> Any:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return parse_response(key, await self.reader.readexactly(size))

    async def end(self) -> type[BaseException] | None:
        """How the connection ends: the type of the exception, or None."""
        async with asyncio.timeout(10):
            (result,) = await asyncio.gather(self.serving, return_exceptions=True)
        return None if result is None else type(result)

    def errors(self) -> dict[tuple[str, ...], float]:
        """Return the number of each API's errors."""
        return self.counted("Errors_total")

    def counted(self, name: str) -> dict[tuple[str, ...], float]:
        """Return the values of a metric, keyed by API and, of errors, by error."""
        return {
            tuple(
                value for label, value in sample.labels.items() if label != "broker"
            ): sample.value
            for metric in self.metrics.collect()
            for sample in metric.samples
            if sample.name.endswith(name)
        }


@asynccontextmanager
async def talking(
    *,
    has_controller: bool = True,
    authenticator: SaslAuthenticator | None = None,
    admin: object = None,
    **config: str,
) -> AsyncIterator[Talk]:
    """Open a connection; ``config`` has Kafka's names with underscores."""
    named = {name.replace("_", "."): value for name, value in config.items()}
    talk = Talk(
        has_controller=has_controller, config=named, authenticator=authenticator, admin=admin
    )
    await talk.open()
    try:
        async with asyncio.timeout(20):
            yield talk
    finally:
        await talk.close()


def metadata_key(number: int) -> RequestKey:
    return RequestKey(METADATA, 8, number)


ALL_TOPICS: dict[str, Any] = {
    "topics": None,
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}
