"""The HTTP API of a running cluster: which path does what, and how values become JSON.

What the handlers do is in handlers.py and admin_handlers.py. Errors are JSON too:
{"error": {"error", "code", "message", "hint", "definite", "retriable"}}, with Kafka's name of the
error as code where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from admin.command_result import describe_error
from cluster.errors import (
    AdminError,
    EnvironmentProblem,
    KlammError,
    RequestTimedOut,
    StoreError,
    UnknownTopicOrPartition,
    UsageError,
)
from cluster.requests import CreateTopicsRequest
from server import admin_handlers, client_handlers, handlers
from server.bodies import (
    AlterReassignments,
    CreatePartitions,
    ElectLeaders,
    PartitionsOrAll,
    Topics,
)
from server.client_bodies import CloseProducer, NewConsumer, NewProducer, Poll, SendRecords
from server.cluster_server import ClusterServer
from server.config_bodies import ConfigsOfEntities, Entities, Entity
from server.handlers import AddBroker, Handler, Network, StartBroker
from server.log_dir_bodies import AlterLogDirs, Brokers, FailLogDir, Replicas
from server.security import Gatekeeper

MAX_BODY_BYTES: Final = 64 << 20
_STATUS_OF_ERRORS: Final[tuple[tuple[type[KlammError], int], ...]] = (
    (UsageError, 400),
    (UnknownTopicOrPartition, 404),
    (RequestTimedOut, 504),
    (AdminError, 409),
    (EnvironmentProblem, 503),
    (StoreError, 409),
    (KlammError, 503),
)


class ApiRoute(NamedTuple):
    """A path, what answers there, and what is asked of it in the request's body."""

    method: str
    path: str
    handler: Handler
    body: Any = None


ROUTES: Final = (
    ApiRoute("GET", "/status", handlers.status),
    ApiRoute("GET", "/metrics", handlers.metrics),
    ApiRoute("GET", "/journal", handlers.journal),
    ApiRoute("POST", "/controller/move", handlers.move_controller),
    ApiRoute("GET", "/brokers", handlers.list_brokers),
    ApiRoute("POST", "/brokers", handlers.add_broker, AddBroker),
    ApiRoute("GET", "/brokers/live", handlers.live_brokers),
    ApiRoute("GET", "/brokers/{id:int}", handlers.describe_broker),
    ApiRoute("GET", "/brokers/{id:int}/metadata", handlers.broker_metadata),
    ApiRoute("POST", "/brokers/{id:int}/start", handlers.start_broker, StartBroker),
    ApiRoute("POST", "/brokers/{id:int}/fail-log-dir", handlers.fail_log_dir, FailLogDir),
    ApiRoute("POST", "/brokers/{id:int}/{action:str}", handlers.act_on_broker),
    ApiRoute("POST", "/network", handlers.set_network, Network),
    ApiRoute("GET", "/topics", handlers.list_topics),
    ApiRoute("POST", "/topics", handlers.create_topics, CreateTopicsRequest),
    ApiRoute("POST", "/topics/describe", handlers.describe_topics, Topics),
    ApiRoute("POST", "/topics/partitions", handlers.create_partitions, CreatePartitions),
    ApiRoute("POST", "/topics/delete", handlers.delete_topics, Topics),
    ApiRoute("GET", "/topics/{topic:str}", handlers.describe_topic),
    ApiRoute("GET", "/reassignments", admin_handlers.list_reassignments, PartitionsOrAll),
    ApiRoute("POST", "/reassignments", admin_handlers.alter_reassignments, AlterReassignments),
    ApiRoute("POST", "/reassignments/list", admin_handlers.list_reassignments, PartitionsOrAll),
    ApiRoute("POST", "/elections", admin_handlers.elect_leaders, ElectLeaders),
    ApiRoute("GET", "/log-dirs", admin_handlers.describe_log_dirs, Brokers),
    ApiRoute("POST", "/log-dirs", admin_handlers.alter_log_dirs, AlterLogDirs),
    ApiRoute("POST", "/log-dirs/describe", admin_handlers.describe_log_dirs, Brokers),
    ApiRoute("POST", "/log-dirs/replicas", admin_handlers.describe_replicas, Replicas),
    ApiRoute("POST", "/configs", admin_handlers.alter_configs, ConfigsOfEntities),
    ApiRoute("POST", "/configs/describe", admin_handlers.describe_configs, Entity),
    ApiRoute("POST", "/configs/overrides", admin_handlers.config_overrides, Entities),
    ApiRoute("POST", "/producers", client_handlers.open_producer, NewProducer),
    ApiRoute("POST", "/producers/{id:int}/records", client_handlers.send_records, SendRecords),
    ApiRoute("POST", "/producers/{id:int}/close", client_handlers.close_producer, CloseProducer),
    ApiRoute("POST", "/consumers", client_handlers.open_consumer, NewConsumer),
    ApiRoute("POST", "/consumers/{id:int}/poll", client_handlers.poll, Poll),
    ApiRoute("POST", "/consumers/{id:int}/close", client_handlers.close_consumer),
)
"""A table of contents. Fixed paths stand before those with a name in them."""


def create_app(server: ClusterServer) -> Starlette:
    """The ASGI application of an open cluster."""
    routes = [
        Route(route.path, _endpoint(server, route), methods=[route.method]) for route in ROUTES
    ]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(Gatekeeper, host_names=server.config.host_names(), token=server.config.token)
        ],
        exception_handlers={KlammError: _on_error, HTTPException: _on_http_error},
    )


def _endpoint(server: ClusterServer, route: ApiRoute) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise HTTPException(413)
        except ClientDisconnect:
            # Half a request is none, and nobody is there to hear so.
            return Response(status_code=400)
        answer = await run_in_threadpool(_answer, server, route, request, body)
        return answer if isinstance(answer, Response) else _json(200, answer)

    return endpoint


def _answer(server: ClusterServer, route: ApiRoute, request: Request, body: bytearray) -> Any:
    """What the handler answers. Raises KlammError, HTTPException."""
    wanted = None
    if route.body is not None:
        try:
            wanted = msgspec.json.decode(body or b"{}", type=route.body)
        except msgspec.DecodeError as error:
            raise UsageError(f"malformed request: {error}") from error
    return route.handler(server, request, wanted)


def _json(status: int, value: object) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, KlammError)
    status = next(code for kind, code in _STATUS_OF_ERRORS if isinstance(error, kind))
    return _json(status, {"error": describe_error(error)})


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail.lower()}"
    described = {**describe_error(KlammError(message)), "error": error.detail}
    return _json(error.status_code, {"error": described})
