"""One client's connection to a broker.

Requests are handled one after the other, as by kafka.network.SocketServer, which reads no request
of a connection until the previous one has its response.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from klamm.admin.kafka_admin import ListenerAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataRequest
from klamm.cluster.data_requests import ProduceRequest
from klamm.cluster.group_requests import JoinGroupRequest
from klamm.cluster.protocols import Transport
from klamm.cluster.refusals import refusal
from klamm.cluster.request_faults import RequestFault, RequestFaults
from klamm.cluster.requests import (
    Address,
    ApiError,
    ControllerRequest,
    Disconnected,
    Message,
    Request,
)
from klamm.wire.api import Api, Asked, ListenerCall
from klamm.wire.apis import (
    API_VERSIONS,
    API_VERSIONS_RANGE,
    APIS,
    api_versions,
    error_of_versions,
)
from klamm.wire.config import ListenerConfig
from klamm.wire.frames import (
    IncomingRequest,
    InvalidRequestFrame,
    TooManyElements,
    api_name,
    encoded_response,
    parse_request,
    read_body,
    read_size,
    request_key,
)
from klamm.wire.metadata_apis import on_listener
from klamm.wire.request_memory import ARRIVAL_S, LARGE_BYTES, RequestMemory
from klamm.wire.request_metrics import MALFORMED, RequestMetrics
from klamm.wire.sasl import MAX_RECEIVE_BYTES, AuthenticationFailed, SaslAuthenticator
from klamm.wire.schema import RefusedRequest, Values

WRITE_S: Final = 30.0
"""How long a client may take to accept a response."""
AUTHENTICATION_S: Final = 30.0
"""How long the authentication of a client may take."""
FEW_ELEMENTS: Final = 10_000
"""A broker handles one request at a time that has more elements, which take memory and time."""
_WATCH_S: Final = 1.0
"""How often to check that a client whose request is being handled is still there."""


class Served(NamedTuple):
    """The broker behind a listener.

    ``has_controller``: it is a controller candidate. ``many_elements`` is held by the request with
    more than FEW_ELEMENTS elements that is being handled.
    """

    broker_id: int
    listener_name: str
    cluster_id: str
    has_controller: bool
    config: ListenerConfig
    memory: RequestMemory
    metrics: RequestMetrics
    many_elements: asyncio.Lock


class ClientTransport(Transport, Protocol):
    """The transport of a cluster, as a client's connection uses it.

    ``request_faults`` are the faults of requests, and ``client_ids`` the client ids by address.
    """

    request_faults: RequestFaults
    client_ids: dict[Address, str]

    def take_request_fault(
        self, api: str, client_id: str | None, broker_id: int
    ) -> RequestFault | None:
        """Return the fault of a request that is answered without a message; None if it has none."""
        ...


class ConnectionLost(Exception):
    """The broker stopped, a fault of the network broke the connection to it, or the client left.

    A connection is also ended if records that need no acknowledgement are refused.
    """


class Connection:
    """Answers the requests that arrive on one connection.

    ``address`` is the client's address on ``transport``, and ``client_host`` its IP address.
    ``admin`` is for the answers of ListenerCall. Any thread may call ``receive``; all else runs
    on the event loop's thread.
    """

    def __init__(
        self,
        served: Served,
        address: Address,
        transport: ClientTransport,
        admin: ListenerAdmin,
        client_host: str,
    ) -> None:
        self._served = served
        self._admin = admin
        self._client_host = client_host
        self._address = address
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._correlation_id = 0
        self._answer: asyncio.Future[object] | None = None
        self._reader: asyncio.StreamReader
        self._watch: asyncio.TimerHandle

    async def serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        authenticator: SaslAuthenticator | None = None,
    ) -> None:
        """Answer requests until the client hangs up, or no request arrives in time.

        ``authenticator``: authenticates the client first. Raises AuthenticationFailed,
        InvalidRequestFrame, ConnectionLost, TimeoutError, ConnectionError.
        """
        config, loop = self._served.config, self._loop
        self._reader = reader
        if authenticator is not None:
            await self._authenticate(authenticator, writer)
        while True:
            due_s = loop.time() + config.connections_max_idle_ms / 1000
            async with asyncio.timeout_at(due_s):
                size = await read_size(reader, config.socket_request_max_bytes)
            if size is None:
                return
            async with self._served.memory.reserved(size):
                is_large = size > LARGE_BYTES
                async with asyncio.timeout_at(loop.time() + ARRIVAL_S if is_large else due_s):
                    frame = await read_body(reader, size)
                response = await self._timed_response(frame)
            if response is not None:
                writer.write(response)
                async with asyncio.timeout(WRITE_S):
                    await writer.drain()

    def receive(self, message: Message) -> None:
        """Pass a message for this connection to the event loop."""
        self._loop.call_soon_threadsafe(self._on_message, message)

    async def _authenticate(
        self, authenticator: SaslAuthenticator, writer: asyncio.StreamWriter
    ) -> None:
        """Read and answer until the client is authenticated."""
        try:
            async with asyncio.timeout(AUTHENTICATION_S):
                while not authenticator.is_complete:
                    size = await read_size(self._reader, MAX_RECEIVE_BYTES, min_bytes=0)
                    if size is None:
                        raise ConnectionLost
                    frame = await read_body(self._reader, size)
                    # A paused broker does not answer.
                    await self._ask(MetadataRequest(()), "broker")
                    answer = await self._refused(authenticator, frame)
                    if answer is None:
                        answer = await asyncio.to_thread(authenticator.receive, frame)
                    writer.write(answer)
                    await writer.drain()
        except AuthenticationFailed as failed:
            # As in Kafka, so that the client is slow to try again.
            delay_ms = self._served.config.connection_failed_authentication_delay_ms
            await asyncio.sleep(delay_ms / 1000)
            if failed.response is not None:
                writer.write(failed.response)
                await writer.drain()
            raise
        except TimeoutError:
            raise AuthenticationFailed("it took too long") from None

    async def _refused(self, authenticator: SaslAuthenticator, frame: bytes) -> bytes | None:
        """Carry out the fault of a request before the client is authenticated.

        Return the answer that refuses the request, or None if it is not refused.
        """
        if not self._transport.request_faults:
            return None
        incoming = authenticator.request(frame)
        error = Errors.NONE if incoming is None else await self._error_of_fault(incoming)
        if incoming is None or error is Errors.NONE:
            return None
        key, values = incoming.key, api_versions(error)
        if key.api_key != API_VERSIONS:
            call = APIS[key.api_key, key.api_version]
            assert isinstance(call, ListenerCall)
            values = call.refuse(incoming.body, ApiError(error))
        return encoded_response(key, values)

    async def _timed_response(self, frame: bytes) -> bytes | None:
        """Return the response to a request, and count the request in the metrics."""
        key, began_s = request_key(frame), self._loop.time()
        if key.api_key == API_VERSIONS and key.api_version not in API_VERSIONS_RANGE:
            return encoded_response(
                key._replace(api_version=0), api_versions(Errors.UNSUPPORTED_VERSION)
            )
        api = APIS.get((key.api_key, key.api_version))
        if api is None and key.api_key != API_VERSIONS:
            raise InvalidRequestFrame(
                f"API key {key.api_key}, version {key.api_version} is not supported"
            )
        broker_id, metrics, name = self._served.broker_id, self._served.metrics, api_name(key)
        try:
            values = await self._handled(api, frame)
            response = None if values is None else encoded_response(key, values)
        except InvalidRequestFrame:
            metrics.count_error(broker_id, name, MALFORMED)
            raise
        metrics.observe(broker_id, name, (self._loop.time() - began_s) * 1000)
        if values is not None:
            metrics.count_errors(broker_id, name, values)
        return response

    async def _handled(self, api: Api | ListenerCall | None, frame: bytes) -> Values | None:
        """Parse a request, and return the response to it, or None if the request gets none."""
        try:
            incoming = parse_request(frame, FEW_ELEMENTS)
        except TooManyElements:
            async with self._served.many_elements:
                # On a thread, so that other connections are served.
                incoming = await asyncio.to_thread(parse_request, frame)
                return await self._respond(api, incoming)
        return await self._respond(api, incoming)

    async def _respond(
        self, api: Api | ListenerCall | None, incoming: IncomingRequest
    ) -> Values | None:
        """Return the response to a request, or None if the request gets none."""
        if api is None:
            error = await self._error_of_fault(incoming)
            return api_versions(error or error_of_versions(incoming.body))
        if isinstance(api, ListenerCall):
            values: Values | None = await self._carry_out(api, incoming)
        else:
            values = await self._values(api, incoming)
        if values is None:
            return None
        return {"cluster_id": self._served.cluster_id, **values}

    async def _values(self, api: Api, incoming: IncomingRequest) -> Values | None:
        self._transport.client_ids[self._address] = incoming.client_id or ""
        try:
            request = api.request.read(incoming.body)
        except RefusedRequest as refused:
            return refused.values
        if isinstance(request, JoinGroupRequest):
            request = msgspec.structs.replace(
                request, client_id=incoming.client_id or "", client_host=f"/{self._client_host}"
            )
        is_unanswered = isinstance(request, ProduceRequest) and request.acks == 0
        if is_unanswered:
            # The broker has to answer, because after an error the connection is closed. Such a
            # producer learns of the error in no other way.
            request = msgspec.structs.replace(request, acks=1)
        for_controller = isinstance(request, ControllerRequest)
        if for_controller and not self._served.has_controller:
            response: Any = refusal(request, Errors.NOT_CONTROLLER)
        else:
            response = await self._ask(request, "controller" if for_controller else "broker")
        if is_unanswered:
            if any(one.error for one in response.partitions.values()):
                raise ConnectionLost
            return None
        response = on_listener(response, self._served.listener_name)
        values: Values = api.response_to(request).write(response)
        if api.complete is None:
            return values
        return await asyncio.to_thread(
            api.complete, self._admin, self._served.broker_id, request, values
        )

    async def _carry_out(self, call: ListenerCall, incoming: IncomingRequest) -> Values:
        """Answer a request here, once the broker has answered for its metadata.

        So a paused broker does not answer, and an isolated one names the controller that it knows.
        """
        error = await self._error_of_fault(incoming)
        known = await self._ask(MetadataRequest(()), "broker")
        if error is not Errors.NONE:
            return call.refuse(incoming.body, ApiError(error))
        metadata = on_listener(known, self._served.listener_name)
        asked = Asked(incoming.body, self._served.broker_id, metadata)
        return await asyncio.to_thread(call.answer, self._admin, asked)

    async def _error_of_fault(self, incoming: IncomingRequest) -> Errors:
        """Carry out the fault of a request that gets its response here.

        Return the error with which it is refused, or NONE. Raises ConnectionLost.
        """
        fault = self._transport.take_request_fault(
            api_name(incoming.key), incoming.client_id, self._served.broker_id
        )
        if fault is None:
            return Errors.NONE
        if fault.error is not None:
            return fault.error
        if fault.is_cut:
            raise ConnectionLost
        if fault.delay_ms:
            await asyncio.sleep(fault.delay_ms / 1000)
        else:  # The request is lost.
            await self._answered()
        return Errors.NONE

    async def _ask(self, request: Request, role: str) -> Any:
        self._send(request, role)
        return await self._answered()

    async def _answered(self) -> Any:
        """Return the answer to the last message. Raises ConnectionLost."""
        answer = self._answer = self._loop.create_future()
        due_s = self._loop.time() + self._served.config.connections_max_idle_ms / 1000
        self._watch = self._loop.call_later(_WATCH_S, self._watch_client, due_s)
        try:
            return await answer
        finally:
            self._watch.cancel()

    def _watch_client(self, due_s: float) -> None:
        """Lose a client that hangs up while it waits for an answer, or waits too long.

        Otherwise a client could hold many connections with requests that wait for hours.
        """
        is_gone = self._reader.at_eof() or self._reader.exception() is not None
        if not is_gone and self._loop.time() < due_s:
            self._watch = self._loop.call_later(_WATCH_S, self._watch_client, due_s)
        elif self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionLost())

    def _send(self, request: Request, role: str) -> None:
        self._correlation_id += 1
        broker = Address(role, self._served.broker_id)
        self._transport.send(Message(self._address, broker, self._correlation_id, request))

    def _on_message(self, message: Message) -> None:
        answer = self._answer
        if answer is None or answer.done():
            return
        if isinstance(message.body, Disconnected):
            answer.set_exception(ConnectionLost())
        elif message.correlation_id == self._correlation_id:
            answer.set_result(message.body)
