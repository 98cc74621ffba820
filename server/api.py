"""Routes of the HTTP API of a running cluster, and their handlers.

The arguments of a handler are the server, the request and the decoded body or query. Handlers are
coroutines or run on threads, and leave the actual work to other modules. Their docstrings become
the text of docs/http-api.md. The calls of KafkaAdmin are in admin_calls.py, actions in
lab/actions/. endpoint.py reads requests and runs handlers, answers.py builds the responses.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from klamm.admin.topic_description import TopicDescription
from klamm.brokers.status import CachedMetadata
from klamm.cluster.errors import KlammError
from klamm.cluster.integers import Count
from klamm.lab.actions.action import Action, about
from klamm.lab.actions.table import ACTIONS
from klamm.server import client_bodies as bodies
from klamm.server import states
from klamm.server.admin_calls import CALLS, AdminCall
from klamm.server.answers import CountedAnswers, on_error, on_http_error
from klamm.server.bodies import RequestBody, body_of
from klamm.server.broker_operations import answer_of
from klamm.server.cluster_server import ClusterServer
from klamm.server.endpoint import Endpoints
from klamm.server.journal_tail import JournalPage, last_rows, rows_after
from klamm.server.metrics import CONTENT_TYPE, metrics_text
from klamm.server.openapi import ApiRoute, openapi_document
from klamm.server.security import Gatekeeper
from klamm.zk.ensemble import SINGLE_SERVER

MAX_ROWS: Final = 10_000
_LAST_ROWS: Final = 20
MAX_PLACE: Final = 1 << 42
"""Largest journal position that a query may contain; it exceeds any possible file size."""


class AddBroker(RequestBody, frozen=True):
    """Body of POST /brokers; if ``id`` is null, the broker gets the highest id plus 1."""

    id: Count | None = None
    rack: str | None = None


class JournalQuery(RequestBody, frozen=True):
    """Query of GET /journal."""

    after: Annotated[int, Meta(ge=0, le=MAX_PLACE)] | None = None
    last: Annotated[int, Meta(ge=0, le=MAX_ROWS)] | None = None

    def __post_init__(self) -> None:
        if self.after is not None and self.last is not None:
            raise ValueError("`after` and `last` are mutually exclusive")


class IdConvertor(IntegerConvertor):
    """Matches an id in a path; refuses numbers that are too long for Python to convert."""

    regex = f"[0-9]{{1,{sys.int_info.str_digits_check_threshold}}}"


register_url_convertor("id", IdConvertor())


def _admin_route(call: AdminCall) -> ApiRoute:
    def handler(server: ClusterServer, request: Request, wanted: Any) -> Any:
        return call.answer_to(server.admin, wanted)

    method, _, path = call.route.partition(" ")
    handler.__name__, handler.__doc__ = call.operation, call.about
    handler.__annotations__ = {"return": call.answer}
    return ApiRoute(method, path, handler, call.body)


def action_route(word: str, action: type[Action]) -> ApiRoute:
    """Return the API route of an action such as kill or isolate."""

    def handler(server: ClusterServer, request: Request, wanted: msgspec.Struct | None) -> Any:
        arguments = {} if wanted is None else msgspec.structs.asdict(wanted)
        if "id" in request.path_params:
            arguments["broker"] = request.path_params["id"]
        return server.operations.perform(action(**arguments))

    handler.__name__, handler.__doc__ = word, about(action)
    handler.__annotations__ = {"return": answer_of(action)}
    return ApiRoute("POST", str(action.PATH).replace("{id}", "{id:id}"), handler, body_of(action))


# The cluster


def status(server: ClusterServer, request: Request, _: None) -> states.Status:
    """Return the state of the cluster, as `klamm status` shows it."""
    return server.status()


def openapi(server: ClusterServer, request: Request, _: None) -> dict[str, Any]:
    """Return this API as an OpenAPI document."""
    document: dict[str, Any] = request.app.state.openapi
    return document


def metrics(server: ClusterServer, request: Request, _: None) -> Response:
    """Return the metrics of controllers and brokers in the Prometheus text format.

    Controller and broker metrics have Kafka's names.
    """
    return Response(
        metrics_text(server.cluster, *server.collectors), headers={"Content-Type": CONTENT_TYPE}
    )


def journal(server: ClusterServer, request: Request, wanted: JournalQuery) -> JournalPage:
    """Return the last rows of the journal (`?last=20`), or the rows after a position (`?after=`).

    The position is the value of `next` in an earlier response.
    """
    path = server.data_dir.journal
    if wanted.after is not None:
        part = rows_after(path, wanted.after)
    else:
        part = last_rows(path, _LAST_ROWS if wanted.last is None else wanted.last)
    return JournalPage([msgspec.Raw(line) for line in part.lines], part.next, part.damaged)


# Brokers


def list_brokers(server: ClusterServer, request: Request, _: None) -> states.BrokerStates:
    """List all brokers with their states, and the live brokers that a running broker has cached."""
    live = [broker.id for broker in server.admin.live_brokers()]
    return {"brokers": server.status().brokers, "live": live}


def describe_broker(server: ClusterServer, request: Request, _: None) -> states.BrokerRegistration:
    """Describe one broker: its state, and its registration in ZooKeeper."""
    return server.operations.describe(request.path_params["id"])


def broker_metadata(server: ClusterServer, request: Request, _: None) -> CachedMetadata:
    """Return one broker's metadata cache: the brokers and partitions that the controller sent."""
    return server.operations.metadata_of(request.path_params["id"])


def add_broker(server: ClusterServer, request: Request, wanted: AddBroker) -> states.AddedBroker:
    """Add a broker and start it."""
    return server.operations.add(wanted.id, wanted.rack)


def zookeeper_servers(server: ClusterServer, request: Request, _: None) -> states.ZooKeeperServers:
    """List the embedded ZooKeeper servers and their states.

    A state is leader, follower, standalone, starting, down, paused, no quorum or no answer.
    """
    return server.zookeeper_servers.describe()


def act_on_zookeeper(
    server: ClusterServer, request: Request, _: None
) -> states.ZooKeeperServerChange:
    """`kill`, `start`, `pause` or `resume` an embedded ZooKeeper server.

    The server is given by its id, or as `leader` or `follower`. A killed server stays down until it
    is started.
    """
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
    """Open a producer for a topic; the response has the producer's `id`."""
    return server.client_sessions.open_producer(wanted)


async def send_records(
    server: ClusterServer, request: Request, wanted: bodies.SendRecords
) -> bodies.ProducerStatus:
    """Send the records in the body, or generated records.

    The counts in the response include all earlier records of the producer.
    """
    return await server.client_sessions.send(request.path_params["id"], wanted)


async def close_producer(
    server: ClusterServer, request: Request, wanted: bodies.CloseProducer
) -> bodies.ProducerStatus:
    """Wait until every record is acknowledged or has failed, then close the producer.

    If records are still undecided (neither acknowledged nor failed) after `wait_ms`, the producer
    stays open, unless `gives_up` is true.
    """
    return await server.client_sessions.close_producer(request.path_params["id"], wanted)


def open_consumer(
    server: ClusterServer, request: Request, wanted: bodies.NewConsumer
) -> bodies.ClientOpened:
    """Open a consumer of a topic; the response has the consumer's `id`."""
    return server.client_sessions.open_consumer(wanted)


async def poll(server: ClusterServer, request: Request, wanted: bodies.Poll) -> bodies.Polled:
    """Fetch the consumer's next records."""
    return await server.client_sessions.poll(request.path_params["id"], wanted)


async def close_consumer(server: ClusterServer, request: Request, _: None) -> bodies.Polled:
    """Close the consumer and return its last records."""
    return await server.client_sessions.close_consumer(request.path_params["id"])


ROUTES: Final = (
    ApiRoute("GET", "/status", status, only_looks=True),
    ApiRoute("GET", "/openapi.json", openapi, only_looks=True),
    ApiRoute("GET", "/metrics", metrics, only_looks=True),
    ApiRoute("GET", "/journal", journal, None, JournalQuery, only_looks=True),
    ApiRoute("GET", "/brokers", list_brokers),
    ApiRoute("POST", "/brokers", add_broker, AddBroker),
    ApiRoute("GET", "/brokers/{id:id}", describe_broker),
    ApiRoute("GET", "/brokers/{id:id}/metadata", broker_metadata),
    *(
        action_route(word, kind.action)
        for word, kind in ACTIONS.items()
        if kind.action.PATH is not None
    ),
    ApiRoute("GET", "/zookeeper", zookeeper_servers),
    ApiRoute("POST", "/zookeeper/{server:str}/{action:str}", act_on_zookeeper),
    *map(_admin_route, CALLS),
    ApiRoute("GET", "/topics/{topic:str}", describe_topic),
    ApiRoute("POST", "/producers", open_producer, bodies.NewProducer),
    ApiRoute("POST", "/producers/{id:id}/records", send_records, bodies.SendRecords),
    ApiRoute("POST", "/producers/{id:id}/close", close_producer, bodies.CloseProducer),
    ApiRoute("POST", "/consumers", open_consumer, bodies.NewConsumer),
    ApiRoute("POST", "/consumers/{id:id}/poll", poll, bodies.Poll),
    ApiRoute("POST", "/consumers/{id:id}/close", close_consumer),
)
"""All routes. Fixed paths precede paths with a parameter, because the first match is used."""


def create_app(server: ClusterServer) -> Starlette:
    """Return the ASGI application that serves an open cluster."""
    endpoints = Endpoints()
    routes = [
        Route(route.path, endpoints.endpoint(route, server), methods=[route.method])
        for route in ROUTES
    ]
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(CountedAnswers, counts=server.answer_counts),
            Middleware(
                Gatekeeper, host_names=server.config.host_names(), token=server.config.token
            ),
        ],
        exception_handlers={KlammError: on_error, HTTPException: on_http_error},
    )
    app.state.openapi = api_document()
    return app


def api_document() -> dict[str, Any]:
    """Return the OpenAPI document of all routes."""
    return openapi_document(ROUTES, {"action": SINGLE_SERVER})
