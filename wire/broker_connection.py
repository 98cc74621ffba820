"""One connection of a controller or client to a broker: TLS, SASL, frames in both directions.

Mirrors org.apache.kafka.common.network.Selector for one channel, and
org.apache.kafka.common.security.authenticator.SaslClientAuthenticator.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import ssl
import struct
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiokafka.conn import BaseSaslAuthenticator, SaslPlainAuthenticator, ScramAuthenticator

from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import EnvironmentProblem
from klamm.cluster.types import EndPoint
from klamm.wire.broker_security import BrokerLogin, BrokerSecurity, broker_tls_failure
from klamm.wire.control_encoder import Exchange
from klamm.wire.frames import (
    CORRELATION_ID_BYTES,
    MAX_REQUEST_BYTES,
    InvalidRequestFrame,
    RequestKey,
    framed,
    parse_response,
    request_body,
    request_header,
)
from klamm.wire.schema import Values

CLIENT_ID: Final = "klamm"
_API_VERSIONS: Final = RequestKey(18, 0, 0)
_SASL_HANDSHAKE: Final = RequestKey(17, 1, 0)
_SASL_AUTHENTICATE: Final = RequestKey(36, 1, 0)
_SIZE: Final = struct.Struct(">i")
_CHUNK_BYTES: Final = 1 << 16
"""Requests up to this size, all but a few, are written in one piece."""
_RECEIVED_BYTES: Final = 1 << 14
"""Bytes to read at a time. A Protocol would allocate 256 KiB for each response of 12 bytes."""
_RENEWAL: Final = 0.85
"""Share of a login's lifetime after which a client logs in again, as in Kafka (KIP-368)."""


class BrokerConnection(asyncio.BufferedProtocol):
    """Connection to a broker. ``receive`` is called with each frame of a response.

    ``fail`` is called once if the connection fails, but not after ``close``. While ``ask`` waits
    for a frame, it gets the frame or the error instead. ``expires_s``: when the broker requires a
    new login, in the event loop's time.
    """

    def __init__(self, receive: Callable[[bytes], None], fail: Callable[[Exception], None]) -> None:
        self._receive = receive
        self._fail = fail
        self._transport: asyncio.Transport
        self._received = memoryview(bytearray(_RECEIVED_BYTES))
        self._buffer = bytearray()
        self._unwritten = memoryview(b"")
        self._is_full = False
        self._is_closed = False
        self._asked: asyncio.Future[bytes] | None = None
        self.expires_s = math.inf

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the new connection."""
        self._transport = typing.cast("asyncio.Transport", transport)

    async def ask(self, key: RequestKey, values: Values) -> Any:
        """Send a request and return the response, kio's schema of its API and version.

        ``values``: the fields of the request. Raises OSError, InvalidRequestFrame.
        """
        assert self._asked is None
        asked = self._asked = asyncio.get_running_loop().create_future()
        header = request_header(key, CLIENT_ID)
        try:
            self._transport.write(framed(header, request_body(key, values)))
            return parse_response(key, await asked)
        finally:
            self._asked = None

    def write(self, exchange: Exchange) -> None:
        """Send a request; a large one only after all earlier ones have been answered.

        What the socket does not take at once is copied, unless it belongs to a large request: 200
        brokers may get one of 10 MB at the same time.
        """
        if len(exchange.rest) <= _CHUNK_BYTES:
            self._transport.write(exchange.frame)
            return
        self._unwritten = exchange.rest
        self._transport.write(exchange.head)
        self._write_chunks()

    def resume_writing(self) -> None:
        """Continue to send a large request."""
        self._is_full = False
        self._write_chunks()

    def pause_writing(self) -> None:
        """Wait until the socket takes more of a large request."""
        self._is_full = True

    def _write_chunks(self) -> None:
        while self._unwritten and not self._is_full and not self._is_closed:
            chunk, self._unwritten = (
                self._unwritten[:_CHUNK_BYTES],
                self._unwritten[_CHUNK_BYTES:],
            )
            self._transport.write(chunk)

    def close(self) -> None:
        """Close the connection at once."""
        self._is_closed = True
        self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to put the bytes that have arrived."""
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on each frame that is complete."""
        buffer = self._buffer
        buffer += self._received[:nbytes]
        while len(buffer) >= _SIZE.size and not self._is_closed:
            (size,) = _SIZE.unpack_from(buffer)
            if not CORRELATION_ID_BYTES <= size <= MAX_REQUEST_BYTES:
                self._on_failure(InvalidRequestFrame(f"a response of {size} bytes"))
                return
            end = _SIZE.size + size
            if len(buffer) < end:
                return
            frame = bytes(buffer[_SIZE.size : end])
            del buffer[:end]
            if self._asked is None:
                self._receive(frame)
            elif not self._asked.done():
                self._asked.set_result(frame)

    def connection_lost(self, error: Exception | None) -> None:
        """Report that the broker closed the connection."""
        if isinstance(error, ssl.SSLError):
            error = broker_tls_failure(error)
        if not self._is_closed:
            self._on_failure(error or ConnectionResetError("the broker closed the connection"))

    def _on_failure(self, error: Exception) -> None:
        if self._asked is None:
            self._fail(error)
        elif not self._asked.done():
            self._asked.set_exception(error)


async def open_connection(
    end_point: EndPoint,
    security: BrokerSecurity,
    receive: Callable[[bytes], None],
    fail: Callable[[Exception], None],
) -> BrokerConnection:
    """Return a connection that is open and authenticated.

    Raises OSError if the broker cannot be reached, InvalidRequestFrame if it does not speak Kafka's
    protocol, and EnvironmentProblem if TLS or SASL fails.
    """
    if end_point.security_protocol != security.protocol:
        raise EnvironmentProblem(
            f"its listener {end_point.listener_name} is {end_point.security_protocol}, not "
            f"{security.protocol}"
        )
    connection = BrokerConnection(receive, fail)
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: connection,
            end_point.host,
            end_point.port,
            ssl=security.tls,
            server_hostname=None if security.tls is None else end_point.host,
        )
    except ssl.SSLError as error:
        raise broker_tls_failure(error) from error
    try:
        if security.login is not None:
            await _authenticate(connection, security.login)
    except BaseException:
        connection.close()
        raise
    return connection


async def _authenticate(connection: BrokerConnection, login: BrokerLogin) -> None:
    """Log in, and set when the connection expires."""
    handshake = await connection.ask(_SASL_HANDSHAKE, {"mechanism": login.mechanism})
    if handshake.error_code != Errors.NONE:
        raise EnvironmentProblem(
            f"it does not accept the SASL mechanism {login.mechanism}; it accepts "
            f"{', '.join(handshake.mechanisms)}",
            hint="set sasl.mechanism.inter.broker.protocol as in the brokers' configs",
        )
    client, began_s = _sasl_client(login), asyncio.get_running_loop().time()
    lifetime_s, received = 0.0, None
    try:
        while (step := await client.step(received)) is not None:
            answer = await connection.ask(_SASL_AUTHENTICATE, {"auth_bytes": step[0]})
            if answer.error_code != Errors.NONE:
                text = answer.error_message or Errors(answer.error_code).name
                raise EnvironmentProblem(
                    f"it refused the user {login.user}: {text}",
                    hint=f"check the user and password in {login.path}",
                )
            received, lifetime_s = answer.auth_bytes, answer.session_lifetime.total_seconds()
    except (ArithmeticError, AssertionError, LookupError, ValueError) as error:
        # aiokafka raises these errors for a message that it cannot read or that is not signed.
        raise EnvironmentProblem(
            f"it answered {login.mechanism} with an invalid message: it may not be the broker that "
            "it seems to be"
        ) from error
    if lifetime_s:
        connection.expires_s = began_s + _RENEWAL * lifetime_s


def _sasl_client(login: BrokerLogin) -> BaseSaslAuthenticator:
    common = {
        "loop": asyncio.get_running_loop(),
        "sasl_plain_username": login.user,
        "sasl_plain_password": login.password,
    }
    if login.mechanism == "PLAIN":
        return SaslPlainAuthenticator(**common)
    return ScramAuthenticator(**common, sasl_mechanism=login.mechanism)


def check_log_in(
    end_points: Mapping[int, EndPoint], security: BrokerSecurity, timeout_s: float
) -> None:
    """Check that a controller can log in at brokers. ``end_points`` is keyed by broker id.

    Brokers that cannot be reached, or not in time, are skipped: the controller tries again later.
    Raises EnvironmentProblem for the first broker that refuses the controller, or that the
    controller does not trust.
    """

    async def check_all() -> None:
        checks = (_check(end_point, security, timeout_s) for end_point in end_points.values())
        results = await asyncio.gather(*checks, return_exceptions=True)
        for (broker_id, end_point), result in zip(end_points.items(), results, strict=True):
            if isinstance(result, EnvironmentProblem):
                raise EnvironmentProblem(
                    f"broker {broker_id} at {end_point.host}:{end_point.port}: {result}",
                    hint=result.hint,
                )
            if isinstance(result, BaseException):
                raise result

    asyncio.run(check_all())


async def _check(end_point: EndPoint, security: BrokerSecurity, timeout_s: float) -> None:
    def ignore(_: object) -> None:
        """Ignore what arrives after the check."""

    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(timeout_s):
            connection = await open_connection(end_point, security, ignore, ignore)
            try:
                # With TLS 1.3 a broker refuses a certificate only after the handshake.
                await connection.ask(_API_VERSIONS, {})
            finally:
                connection.close()
