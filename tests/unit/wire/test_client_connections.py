"""Connections of klamm's own clients to brokers, on real sockets."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
from collections.abc import Iterator

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import InitProducerIdRequest, InitProducerIdResponse
from klamm.cluster.data_requests import ProduceRequest
from klamm.cluster.requests import NO_CORRELATION_ID, Address, Disconnected, Message
from klamm.cluster.types import EndPoint
from klamm.wire.client_connections import ClientConnections
from klamm.wire.frames import RequestKey, encoded_response, request_key

CLIENT, BROKER = Address("client", 1), Address("broker", 5)
PATIENCE_S = 10.0


class Delivered:
    """Transport that keeps what arrives for the client."""

    def __init__(self) -> None:
        self.arrived: queue.Queue[Message] = queue.Queue()

    def send(self, message: Message) -> None:
        self.arrived.put(message)


class Broker:
    """A listening socket whose connections the test serves."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.port: int = listener.getsockname()[1]

    @contextlib.contextmanager
    def connection(self) -> Iterator[socket.socket]:
        connection, _ = self.listener.accept()
        with connection:
            connection.settimeout(PATIENCE_S)
            yield connection

    def read(self, connection: socket.socket) -> RequestKey:
        """Read the next request of a connection."""
        (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        return request_key(connection.recv(size, socket.MSG_WAITALL))

    def answer(self, connection: socket.socket, producer_id: int) -> None:
        """Answer the next request of a connection."""
        key = self.read(connection)
        values = {"error_code": Errors.NONE, "producer_id": producer_id, "producer_epoch": 0}
        connection.sendall(encoded_response(key, values))


@pytest.fixture
def broker() -> Iterator[Broker]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        yield Broker(listener)


@pytest.fixture
def delivered() -> Delivered:
    return Delivered()


@pytest.fixture
def connections(broker: Broker, delivered: Delivered) -> Iterator[ClientConnections]:
    one = ClientConnections(delivered, lambda _: EndPoint("127.0.0.1", broker.port))
    with contextlib.closing(one):
        yield one


def request(number: int) -> Message:
    return Message(CLIENT, BROKER, number, InitProducerIdRequest())


def response(number: int, producer_id: int) -> Message:
    return Message(BROKER, CLIENT, number, InitProducerIdResponse(Errors.NONE, producer_id, 0))


LOST = Message(BROKER, CLIENT, NO_CORRELATION_ID, Disconnected())


def test_requests_of_a_client_use_one_connection_and_are_answered_in_order(
    broker: Broker, connections: ClientConnections, delivered: Delivered
) -> None:
    for number in (1, 2, 3):
        connections.send(request(number))
    with broker.connection() as connection:
        for number in (1, 2, 3):
            broker.answer(connection, number * 10)
        arrived = [delivered.arrived.get(timeout=PATIENCE_S) for _ in range(3)]
    assert arrived == [response(number, number * 10) for number in (1, 2, 3)]


def test_no_response_is_expected_to_produced_records_without_acks(
    broker: Broker, connections: ClientConnections, delivered: Delivered
) -> None:
    connections.send(Message(CLIENT, BROKER, 1, ProduceRequest(0, 1_000, {})))
    connections.send(request(2))
    with broker.connection() as connection:
        broker.read(connection)
        broker.answer(connection, 20)
        assert delivered.arrived.get(timeout=PATIENCE_S) == response(2, 20)


def test_a_client_is_notified_of_a_lost_connection_and_connects_again(
    broker: Broker, connections: ClientConnections, delivered: Delivered
) -> None:
    connections.send(request(1))
    with broker.connection():
        pass
    assert delivered.arrived.get(timeout=PATIENCE_S) == LOST
    connections.send(request(2))
    with broker.connection() as connection:
        broker.answer(connection, 20)
        assert delivered.arrived.get(timeout=PATIENCE_S) == response(2, 20)


def test_a_client_is_notified_if_no_broker_listens(
    broker: Broker, connections: ClientConnections, delivered: Delivered
) -> None:
    broker.listener.close()
    connections.send(request(1))
    assert delivered.arrived.get(timeout=PATIENCE_S) == LOST


@pytest.mark.parametrize(
    ("answered", "invalid"),
    [
        pytest.param(0, struct.pack(">ii", 4, 99), id="a response to another request"),
        pytest.param(0, struct.pack(">i", 3), id="a frame that is too small"),
        pytest.param(1, struct.pack(">ii", 4, 1), id="a response without a request"),
    ],
)
def test_an_invalid_response_ends_the_connection(
    broker: Broker,
    connections: ClientConnections,
    delivered: Delivered,
    answered: int,
    invalid: bytes,
) -> None:
    connections.send(request(1))
    with broker.connection() as connection:
        for _ in range(answered):
            broker.answer(connection, 10)
            assert delivered.arrived.get(timeout=PATIENCE_S) == response(1, 10)
        connection.sendall(invalid)
        assert delivered.arrived.get(timeout=PATIENCE_S) == LOST
    connections.send(request(2))
    with broker.connection() as connection:
        broker.answer(connection, 20)
        assert delivered.arrived.get(timeout=PATIENCE_S) == response(2, 20)


def test_closing_twice_is_harmless_and_later_requests_are_lost(
    connections: ClientConnections, delivered: Delivered
) -> None:
    connections.close()
    connections.close()
    connections.send(request(1))
    assert delivered.arrived.empty()
