"""The controller's connections to brokers, on real sockets: a request arrives in the end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.api_version import ApiVersion
from klamm.cluster.errors import EnvironmentProblem
from klamm.cluster.requests import Address, Message, UpdateMetadataRequest, UpdateMetadataResponse
from klamm.cluster.types import Broker, EndPoint
from klamm.wire.broker_connection import check_log_in
from klamm.wire.broker_connections import BrokerConnections
from klamm.wire.broker_security import UNSECURED, BrokerLogin, BrokerSecurity
from klamm.wire.control_encoder import ControlEncoder
from klamm.wire.frames import (
    CORRELATION_ID_BYTES,
    MAX_REQUEST_BYTES,
    RequestKey,
    encoded_response,
    parse_request,
    read_body,
    read_size,
    request_key,
)
from tests.zookeeper_tls import Certificates

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
CONTROLLER, BROKER = Address("controller", 9), Address("broker", 1)
DONE = UpdateMetadataResponse(Errors.NONE)


class Delivered:
    """Transport that keeps the responses, in order of arrival."""

    def __init__(self) -> None:
        self.arrived: asyncio.Queue[Message] = asyncio.Queue()

    def send(self, message: Message) -> None:
        self.arrived.put_nowait(message)


class ListeningBroker:
    """A listening socket that answers UpdateMetadata as ``answers`` say.

    ``answers`` is called with the number of each request, from 0 on, and returns whether the broker
    responds and how, hangs up, or does neither. ``lifetime``: of each login with SASL.
    """

    def __init__(self, answers: Callable[[int], str], lifetime: timedelta = timedelta(0)) -> None:
        self._answers = answers
        self._lifetime = lifetime
        self.proofs: list[bytes] = []
        """What each login contained."""
        self.received: list[tuple[int, int]] = []
        """Correlation id and controller epoch of each request."""
        self.changed = asyncio.Event()
        self.connections: list[asyncio.Task[object] | None] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(asyncio.current_task())
        try:
            while (size := await read_size(reader, MAX_REQUEST_BYTES)) is not None:
                frame = await read_body(reader, size)
                key = request_key(frame)
                if key.api_key in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
                    writer.write(self._login(key, frame))
                    continue
                number = len(self.received)
                epoch = parse_request(frame).body.controller_epoch
                self.received.append((key.correlation_id, epoch))
                self.changed.set()
                match self._answers(number):
                    case "responds":
                        writer.write(_response(key))
                    case "responds in pieces":
                        for byte in _response(key):
                            writer.write(bytes([byte]))
                            await writer.drain()
                            await asyncio.sleep(0)
                    case "responds with a frame that is too small":
                        writer.write((CORRELATION_ID_BYTES - 1).to_bytes(4))
                    case "responds and hangs up":
                        writer.write(_response(key))
                        return
                    case "hangs up":
                        return
        except ConnectionError:
            pass  # the controller's end was closed
        finally:
            writer.close()

    def _login(self, key: RequestKey, frame: bytes) -> bytes:
        values: dict[str, Any] = {"error_code": Errors.NONE}
        if key.api_key == SASL_HANDSHAKE:
            return encoded_response(key, {**values, "mechanisms": ("PLAIN",)})
        self.proofs.append(parse_request(frame).body.auth_bytes)
        values |= {"error_message": None, "auth_bytes": b"", "session_lifetime": self._lifetime}
        return encoded_response(key, values)


def _response(key: RequestKey) -> bytes:
    return encoded_response(key, {"error_code": Errors.NONE})


def update(correlation_id: int, epoch: int) -> Message:
    return Message(
        CONTROLLER, BROKER, correlation_id, UpdateMetadataRequest(9, epoch, 70, (), (), {})
    )


class Link:
    """A broker, the controller's connections to it, and the responses that arrive."""

    def __init__(self, broker: ListeningBroker) -> None:
        self.broker = broker
        self.delivered = Delivered()
        self.connections: BrokerConnections

    async def exchange(self, request: Message) -> None:
        """Send a request. The next response is that to it."""
        self.connections.send(request)
        response = Message(request.destination, CONTROLLER, request.correlation_id, DONE)
        assert await self.delivered.arrived.get() == response


@contextlib.asynccontextmanager
async def linked(
    answers: Callable[[int], str],
    find: Callable[[EndPoint], EndPoint | None] = lambda end_point: end_point,
    timeout_s: float = 30.0,
    lifetime: timedelta | None = None,
) -> AsyncIterator[Link]:
    """Start a broker; ``find`` says where the controller believes it to be.

    ``lifetime``: that of a login with SASL. None: without security.
    """
    login = BrokerLogin("PLAIN", "klamm", "secret", "users.txt")
    security = UNSECURED if lifetime is None else BrokerSecurity("SASL_PLAINTEXT", login=login)
    link = Link(ListeningBroker(answers, lifetime or timedelta(0)))
    async with await asyncio.start_server(link.broker.serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        end_point = EndPoint("127.0.0.1", port, "PLAINTEXT", security.protocol)
        encoder = ControlEncoder(ApiVersion(), "PLAINTEXT")
        loop = asyncio.get_running_loop()
        link.connections = BrokerConnections(
            loop, link.delivered, encoder, lambda *_: find(end_point), timeout_s, security
        )
        try:
            async with asyncio.timeout(20):
                yield link
        finally:
            await link.connections.close()
            await asyncio.gather(*filter(None, link.broker.connections))


async def test_requests_share_a_connection() -> None:
    async with linked(lambda _: "responds") as link:
        for number in range(3):
            await link.exchange(update(number, 7))
    assert link.broker.received == [(0, 7), (1, 7), (2, 7)]
    assert len(link.broker.connections) == 1


@pytest.mark.parametrize("failure", ["hangs up", "responds with a frame that is too small"])
async def test_a_request_is_sent_again_when_its_connection_is_lost(
    failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with linked(lambda number: "responds in pieces" if number in (2, 4) else failure) as link:
        for number in (4, 5):
            await link.exchange(update(number, 7))
    assert link.broker.received == [(4, 7)] * 3 + [(5, 7)] * 2
    assert len(link.broker.connections) == 4
    (first, second) = caplog.messages  # one for each request
    assert first == second
    assert first.startswith("controller 9 cannot reach broker 1 at 127.0.0.1:")


async def test_requests_without_a_response_in_time_are_sent_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with linked(
        lambda number: "responds" if number >= 2 else "is silent", timeout_s=0.2
    ) as link:
        for round_ in range(2):  # in the first round the broker is silent
            for id_ in (1, 2):
                body = update(0, round_).body
                link.connections.send(Message(CONTROLLER, Address("broker", id_), id_, body))
            assert {(await link.delivered.arrived.get()).source.id for _ in range(2)} == {1, 2}
    assert len([epoch for _, epoch in link.broker.received if epoch == 0]) >= 4
    assert caplog.messages[0].endswith(", and will try again: no response within 0.2 s")


async def test_a_connection_stays_open_after_a_response_for_longer_than_its_timeout() -> None:
    other = Address("broker", 2)
    async with linked(
        lambda number: "is silent" if number == 1 else "responds", timeout_s=0.2
    ) as link:
        await link.exchange(update(1, 7))
        # The timeout of this later request ends after that of the first one would have ended.
        await link.exchange(Message(CONTROLLER, other, 2, update(2, 7).body))
        await link.exchange(update(3, 7))
    assert link.broker.received == [(1, 7), (2, 7), (2, 7), (3, 7)]
    assert len(link.broker.connections) == 3


async def test_a_large_request_arrives_while_the_broker_reads_slowly() -> None:
    brokers = tuple(Broker(number, (EndPoint("h" * 30_000, 1),)) for number in range(300))
    async with linked(lambda _: "responds") as link:
        body = UpdateMetadataRequest(9, 8, 70, (), brokers, {})
        await link.exchange(Message(CONTROLLER, BROKER, 1, body))
        await link.exchange(update(2, 9))
    assert link.broker.received == [(1, 8), (2, 9)]
    assert len(link.broker.connections) == 1


async def test_a_later_request_replaces_one_without_a_response() -> None:
    async with linked(lambda number: "responds" if number else "is silent") as link:
        link.connections.send(update(1, 7))
        await link.broker.changed.wait()
        await link.exchange(update(2, 8))
        assert link.delivered.arrived.empty()
    assert link.broker.received == [(1, 7), (2, 8)]
    assert len(link.broker.connections) == 2


async def test_a_later_request_replaces_one_that_is_to_be_sent_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with linked(lambda number: "hangs up" if number in (0, 2) else "responds") as link:
        link.connections.send(update(1, 7))
        while "will try again" not in caplog.text:
            await asyncio.sleep(0)
        await link.exchange(update(2, 8))
        # When this request is sent again, the first one would have been sent again already.
        other = Address("broker", 2)
        await link.exchange(Message(CONTROLLER, other, 3, update(3, 9).body))
    assert link.broker.received == [(1, 7), (2, 8), (3, 9), (3, 9)]


async def test_a_request_to_a_broker_that_is_not_live_any_more_is_dropped() -> None:
    is_live, dropped = True, asyncio.Event()

    def find(end_point: EndPoint) -> EndPoint | None:
        if not is_live:
            dropped.set()
        return end_point if is_live else None

    async with linked(lambda number: "responds" if number else "hangs up", find) as link:
        link.connections.send(update(1, 7))
        await link.broker.changed.wait()
        is_live = False
        await dropped.wait()
        is_live = True
        await link.exchange(update(2, 7))
    assert link.broker.received == [(1, 7), (2, 7)]


async def test_a_connection_that_ends_between_requests_is_opened_again() -> None:
    async with linked(lambda _: "responds and hangs up") as link:
        for number in range(3):
            await link.exchange(update(number, 7))
            serving = link.broker.connections[number]
            assert serving is not None
            await asyncio.wait([serving])
    assert link.broker.received == [(0, 7), (1, 7), (2, 7)]


async def test_a_message_that_is_no_control_request_is_lost() -> None:
    async with linked(lambda _: "responds") as link:
        for number in (1, 2):
            await link.exchange(update(number, 7))
            link.connections.send(Message(CONTROLLER, BROKER, 9, DONE))
            await asyncio.sleep(0)
    assert link.broker.received == [(1, 7), (2, 7)]


async def test_a_broker_that_listens_elsewhere_gets_the_next_request_there() -> None:
    moved = ListeningBroker(lambda _: "responds")
    ports: list[int] = []

    def find(end_point: EndPoint) -> EndPoint:
        return EndPoint(end_point.host, ports[0]) if ports else end_point

    async with linked(lambda _: "responds", find) as link:
        link.connections.send(update(1, 7))
        await link.delivered.arrived.get()
        async with await asyncio.start_server(moved.serve, "127.0.0.1", 0) as server:
            ports.append(server.sockets[0].getsockname()[1])
            await link.exchange(update(2, 7))
            await link.connections.close()
            await asyncio.gather(*filter(None, moved.connections))
    assert (link.broker.received, moved.received) == ([(1, 7)], [(2, 7)])


@pytest.mark.parametrize(
    ("lifetime", "logins"),
    [(timedelta(0), 1), (timedelta(milliseconds=1), 2), (timedelta(hours=1), 1)],
)
async def test_a_controller_logs_in_again_before_its_login_ends(
    lifetime: timedelta, logins: int
) -> None:
    async with linked(lambda _: "responds", lifetime=lifetime) as link:
        for number in (1, 2):
            await link.exchange(update(number, 7))
            ended_s = link.connections.loop.time() + 0.002
            while link.connections.loop.time() < ended_s:
                await asyncio.sleep(0)
    assert link.broker.received == [(1, 7), (2, 7)]
    assert link.broker.proofs == [b"klamm\0klamm\0secret"] * logins
    assert len(link.broker.connections) == logins


def test_a_controller_without_the_certificate_that_a_broker_requires_is_refused(
    tmp_path: Path,
) -> None:
    files = Certificates(tmp_path)
    broker = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files.ca)
    broker.load_cert_chain(files.server)
    broker.verify_mode = ssl.CERT_REQUIRED

    def serve(listener: socket.socket) -> None:
        opened, _ = listener.accept()
        with opened.dup() as same:
            with (
                contextlib.suppress(ssl.SSLError),
                broker.wrap_socket(opened, server_side=True) as connection,
            ):
                (size,) = struct.unpack(">i", connection.recv(4))
                key = request_key(connection.recv(size))
                response = {"error_code": Errors.NONE, "api_keys": ()}
                connection.sendall(encoded_response(key, response))
            while same.recv(1024):  # a reset would overtake the alert
                pass

    client = ssl.create_default_context(cafile=files.ca)
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        port = listener.getsockname()[1]
        check = partial(check_log_in, {3: EndPoint("127.0.0.1", port, "SSL", "SSL")})
        served = pool.submit(serve, listener)
        with pytest.raises(EnvironmentProblem, match="alert certificate required") as caught:
            check(BrokerSecurity("SSL", client), 10)
        served.result(10)
        assert caught.value.message.startswith(f"broker 3 at 127.0.0.1:{port}: TLS failed: ")
        assert "refused klamm's certificate" in (caught.value.hint or "")
        client.load_cert_chain(files.client, files.client_key)
        served = pool.submit(serve, listener)
        check(BrokerSecurity("SSL", client), 10)
        served.result(10)


def test_brokers_that_do_not_answer_do_not_keep_a_controller_from_starting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with socket.create_server(("127.0.0.1", 0)) as stopped:
            ports = [one.getsockname()[1] for one in (silent, stopped)]
        brokers = {id_: EndPoint("127.0.0.1", port) for id_, port in enumerate(ports)}
        check_log_in(brokers, UNSECURED, 0.05)
