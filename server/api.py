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
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admin.topic_command import describe_error
from cluster.errors import (
    AdminError,
    EnvironmentProblem,
    KlammError,
    RequestTimedOut,
    StoreError,
    UnknownTopicOrPartition,
    UsageError,
)
from server import admin_handlers, handlers
from server.cluster_server import ClusterServer
from server.handlers import Handler
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
    """A path, and what answers there."""

    method: str
    path: str
    handler: Handler


ROUTES: Final = (
    ApiRoute("GET", "/status", handlers.status),
    ApiRoute("GET", "/metrics", handlers.metrics),
    ApiRoute("GET", "/journal", handlers.journal),
    ApiRoute("POST", "/controller/move", handlers.move_controller),
    ApiRoute("GET", "/brokers", handlers.list_brokers),
    ApiRoute("POST", "/brokers", handlers.add_broker),
    ApiRoute("GET", "/brokers/{id:int}", handlers.describe_broker),
    ApiRoute("POST", "/brokers/{id:int}/start", handlers.start_broker),
    ApiRoute("POST", "/brokers/{id:int}/fail-log-dir", handlers.fail_log_dir),
    ApiRoute("POST", "/brokers/{id:int}/{action:str}", handlers.act_on_broker),
    ApiRoute("GET", "/topics", handlers.list_topics),
    ApiRoute("POST", "/topics", handlers.create_topics),
    ApiRoute("POST", "/topics/describe", handlers.describe_topics),
    ApiRoute("POST", "/topics/partitions", handlers.create_partitions),
    ApiRoute("POST", "/topics/delete", handlers.delete_topics),
    ApiRoute("GET", "/topics/{topic:str}", handlers.describe_topic),
    ApiRoute("GET", "/reassignments", admin_handlers.list_reassignments),
    ApiRoute("POST", "/reassignments", admin_handlers.alter_reassignments),
    ApiRoute("POST", "/reassignments/list", admin_handlers.list_reassignments),
    ApiRoute("POST", "/elections", admin_handlers.elect_leaders),
    ApiRoute("GET", "/log-dirs", admin_handlers.describe_log_dirs),
    ApiRoute("POST", "/log-dirs", admin_handlers.alter_log_dirs),
    ApiRoute("POST", "/log-dirs/describe", admin_handlers.describe_log_dirs),
    ApiRoute("POST", "/log-dirs/replicas", admin_handlers.describe_replicas),
    ApiRoute("POST", "/configs", admin_handlers.alter_configs),
    ApiRoute("POST", "/configs/describe", admin_handlers.describe_configs),
    ApiRoute("POST", "/configs/overrides", admin_handlers.config_overrides),
)
"""A table of contents. Fixed paths stand before those with a name in them."""


def create_app(server: ClusterServer) -> Starlette:
    """The ASGI application of an open cluster."""
    routes = [
        Route(path, _endpoint(server, handler), methods=[method])
        for method, path, handler in ROUTES
    ]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(Gatekeeper, host_names=server.config.host_names(), token=server.config.token)
        ],
        exception_handlers={KlammError: _on_error, HTTPException: _on_http_error},
    )


def _endpoint(server: ClusterServer, handler: Handler) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise HTTPException(413)
        answer = await run_in_threadpool(handler, server, request, bytes(body))
        return answer if isinstance(answer, Response) else _json(200, answer)

    return endpoint


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
