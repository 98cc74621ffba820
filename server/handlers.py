"""What the API answers about the cluster, brokers, topics, producers and consumers.

A handler gets the server, the request and its decoded body or query. It runs on a thread or is a
coroutine, and only delegates. Its docstring becomes the text in docs/http-api.md. Paths and body
types are in api.py; so are the handlers of actions.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from admin.topics.text import TopicDescription
from cluster.integers import Count
from server import client_bodies as bodies
from server.bodies import RequestBody
from server.cluster_server import ClusterServer
from server.journal_tail import last_rows, rows_after
from server.metrics import CONTENT_TYPE, metrics_text
from zk.ensemble import SINGLE_SERVER

MAX_ROWS: Final = 10_000
MAX_PLACE: Final = 1 << 42
"""Largest position in the journal, beyond the file size of any file system."""


class AddBroker(RequestBody, frozen=True):
    """Body of POST /brokers. ``id`` None: the next one."""

    id: Count | None = None
    rack: str | None = None


class JournalQuery(RequestBody, frozen=True):
    """Query of GET /journal."""

    after: Annotated[int, Meta(ge=0, le=MAX_PLACE)] | None = None
    last: Annotated[int, Meta(ge=0, le=MAX_ROWS)] = 20


class JournalPage(msgspec.Struct, frozen=True):
    """Answer of GET /journal: rows as they are in the file, and where to continue. ``damaged``
    lists lines between them that are not rows: file, line, and reason."""

    rows: list[msgspec.Raw]
    next: int
    damaged: tuple[str, ...] = ()


# The cluster


def status(server: ClusterServer, request: Request, _: None) -> dict[str, Any]:
    """What `klamm status` shows."""
    return server.status()


def openapi(server: ClusterServer, request: Request, _: None) -> dict[str, Any]:
    """This API as an OpenAPI document."""
    document: dict[str, Any] = request.app.state.openapi
    return document


def metrics(server: ClusterServer, request: Request, _: None) -> Response:
    """The controller's metrics under Kafka's names, as Prometheus reads them."""
    return Response(
        metrics_text(server.cluster, server.answer_counts), headers={"Content-Type": CONTENT_TYPE}
    )


def journal(server: ClusterServer, request: Request, wanted: JournalQuery) -> JournalPage:
    """Rows of the journal: the last ones (`?last=20`), or those after a position (`?after=`, the
    `next` of an earlier answer)."""
    path = server.data_dir.journal
    if wanted.after is None:
        part = last_rows(path, wanted.last)
    else:
        part = rows_after(path, wanted.after)
    return JournalPage([msgspec.Raw(line) for line in part.lines], part.next, part.damaged)


# Brokers


def list_brokers(server: ClusterServer, request: Request, _: None) -> dict[str, Any]:
    """All brokers, and the live ones by a broker's metadata cache."""
    live = [broker.id for broker in server.admin.live_brokers()]
    return {"brokers": server.status()["brokers"], "live": live}


def describe_broker(server: ClusterServer, request: Request, _: None) -> dict[str, Any]:
    """One broker."""
    return server.operations.describe(request.path_params["id"])


def broker_metadata(server: ClusterServer, request: Request, _: None) -> dict[str, Any]:
    """One broker's metadata cache: the brokers and partitions that the controller sent."""
    return server.operations.metadata_of(request.path_params["id"])


def add_broker(server: ClusterServer, request: Request, wanted: AddBroker) -> dict[str, Any]:
    """Add a broker and start it."""
    return server.operations.add(wanted.id, wanted.rack)


def zookeeper_servers(server: ClusterServer, request: Request, _: None) -> dict[str, Any]:
    """The embedded ZooKeeper servers: leader, follower, down, paused or without a quorum."""
    return server.zookeeper_servers.describe()


def act_on_zookeeper(server: ClusterServer, request: Request, _: None) -> dict[str, Any]:
    """`kill`, `start`, `pause` or `resume` an embedded ZooKeeper server: its id, `leader` or
    `follower`. A killed server stays down until it is started."""
    action = request.path_params["action"]
    if action not in SINGLE_SERVER:
        raise HTTPException(404)
    return server.zookeeper_servers.act(request.path_params["server"], action)


# Topics


def describe_topic(server: ClusterServer, request: Request, _: None) -> TopicDescription:
    """Describe one topic."""
    return server.admin.describe_topics([request.path_params["topic"]])[0]


# Producers and consumers


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
