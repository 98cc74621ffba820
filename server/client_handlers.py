"""What the API answers to `klamm produce` and `klamm consume`.

A handler only delegates; its docstring becomes the text in docs/http-api.md. Handlers that
wait for brokers are coroutines: thousands may wait without holding threads.
"""

from __future__ import annotations

from starlette.requests import Request

from server import client_bodies as bodies
from server.cluster_server import ClusterServer


def open_producer(
    server: ClusterServer, request: Request, wanted: bodies.NewProducer
) -> bodies.ClientOpened:
    """Open a producer for a topic; `id` in the answer is the producer's."""
    return server.client_sessions.open_producer(wanted)


async def send_records(
    server: ClusterServer, request: Request, wanted: bodies.SendRecords
) -> bodies.ProducerStatus:
    """Send the given or generated records; the answer counts all records of the producer so far."""
    return await server.client_sessions.send(request.path_params["id"], wanted)


async def close_producer(
    server: ClusterServer, request: Request, wanted: bodies.CloseProducer
) -> bodies.ProducerStatus:
    """Wait until all records are decided, then close the producer; it stays open if `undecided` is
    not 0, unless `gives_up` is set."""
    return await server.client_sessions.close_producer(request.path_params["id"], wanted)


def open_consumer(
    server: ClusterServer, request: Request, wanted: bodies.NewConsumer
) -> bodies.ClientOpened:
    """Open a consumer of a topic; `id` in the answer is the consumer's."""
    return server.client_sessions.open_consumer(wanted)


async def poll(server: ClusterServer, request: Request, wanted: bodies.Poll) -> bodies.Polled:
    """Fetch the next records."""
    return await server.client_sessions.poll(request.path_params["id"], wanted)


async def close_consumer(server: ClusterServer, request: Request, _: None) -> bodies.Polled:
    """Close the consumer."""
    return await server.client_sessions.close_consumer(request.path_params["id"])
