"""The HTTP API of a running cluster: which path does what, and how values become JSON.

Every handler runs on a thread of its own and only calls what does the work. Errors are JSON too:
{"error": {"error", "code", "message", "hint", "definite", "retriable"}}, with Kafka's name of the
error as code where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admin.cluster_topics import NewPartitions
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
from cluster.requests import CreateTopicsRequest
from server.cluster_server import ClusterServer
from server.journal_tail import last_rows, rows_after
from server.metrics import CONTENT_TYPE, metrics_text
from server.security import Gatekeeper

MAX_BODY_BYTES: Final = 64 << 20
MAX_ROWS: Final = 10_000
_STATUS_OF_ERRORS: Final[tuple[tuple[type[KlammError], int], ...]] = (
    (UsageError, 400),
    (UnknownTopicOrPartition, 404),
    (RequestTimedOut, 504),
    (AdminError, 409),
    (EnvironmentProblem, 503),
    (StoreError, 409),
    (KlammError, 503),
)

Handler = Callable[[Request, bytes], Any]


class StartBroker(msgspec.Struct, frozen=True):
    """Body of POST /brokers/N/start. ``wait``: until the former session has expired."""

    wait: bool = True


class AddBroker(msgspec.Struct, frozen=True):
    """Body of POST /brokers. ``id`` None: the next one."""

    id: int | None = None
    rack: str | None = None


class Topics(msgspec.Struct, frozen=True):
    """Body of POST /topics/describe and /topics/delete."""

    topics: tuple[str, ...]
    timeout_ms: int = 30_000


class CreatePartitions(msgspec.Struct, frozen=True):
    """Body of POST /topics/partitions."""

    topics: dict[str, NewPartitions]
    timeout_ms: int = 30_000


class JournalPage(msgspec.Struct, frozen=True):
    """Answer of GET /journal: rows as they are in the file, and where to go on."""

    rows: list[msgspec.Raw]
    next: int


def create_app(server: ClusterServer) -> Starlette:
    """The ASGI application of an open cluster."""
    routes = [
        Route(path, _endpoint(handler), methods=[method])
        for method, path, handler in _table(server)
    ]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(Gatekeeper, host_names=server.config.host_names(), token=server.config.token)
        ],
        exception_handlers={KlammError: _on_error, HTTPException: _on_http_error},
    )


def _table(server: ClusterServer) -> list[tuple[str, str, Handler]]:
    """A table of contents. Fixed paths stand before those with a name in them."""
    topics, brokers = _TopicHandlers(server), _BrokerHandlers(server)
    return [
        ("GET", "/status", lambda *_: server.status()),
        ("GET", "/metrics", lambda *_: _metrics(server)),
        ("GET", "/journal", lambda request, _: _journal(server, request.query_params)),
        ("POST", "/controller/move", lambda *_: server.operations.move_controller()),
        ("GET", "/brokers", brokers.list),
        ("POST", "/brokers", brokers.add),
        ("GET", "/brokers/{id:int}", brokers.describe),
        ("POST", "/brokers/{id:int}/start", brokers.start),
        ("POST", "/brokers/{id:int}/{action:str}", brokers.act),
        ("GET", "/topics", topics.list),
        ("POST", "/topics", topics.create),
        ("POST", "/topics/describe", topics.describe),
        ("POST", "/topics/partitions", topics.create_partitions),
        ("POST", "/topics/delete", topics.delete),
        ("GET", "/topics/{topic:str}", topics.describe_one),
    ]


class _BrokerHandlers:
    def __init__(self, server: ClusterServer) -> None:
        self._server = server

    def list(self, request: Request, body: bytes) -> dict[str, Any]:
        """All brokers, and those that a broker knows to live."""
        live = self._server.admin.live_broker_ids()
        return {"brokers": self._server.status()["brokers"], "live": live}

    def describe(self, request: Request, body: bytes) -> dict[str, Any]:
        """One broker."""
        return self._server.operations.describe(request.path_params["id"])

    def add(self, request: Request, body: bytes) -> dict[str, Any]:
        """Add a broker and start it."""
        wanted = _decode(body, AddBroker)
        return self._server.operations.add(wanted.id, wanted.rack)

    def start(self, request: Request, body: bytes) -> dict[str, Any]:
        """Start a broker."""
        wait = _decode(body, StartBroker).wait
        return self._server.operations.start(request.path_params["id"], wait)

    def act(self, request: Request, body: bytes) -> dict[str, Any]:
        """Kill, stop, pause or resume a broker."""
        operations = self._server.operations
        actions: dict[str, Callable[[int], dict[str, Any]]] = {
            "kill": operations.kill,
            "stop": operations.stop,
            "pause": operations.pause,
            "resume": operations.resume,
        }
        action = actions.get(request.path_params["action"])
        if action is None:
            raise HTTPException(404)
        return action(request.path_params["id"])


class _TopicHandlers:
    def __init__(self, server: ClusterServer) -> None:
        self._admin = server.admin

    def list(self, request: Request, body: bytes) -> dict[str, Any]:
        """Names of all topics."""
        return {"topics": self._admin.list_topics()}

    def create(self, request: Request, body: bytes) -> object:
        """Create topics; the body is a CreateTopicsRequest, the answer its response."""
        return self._admin.create_topics(_decode(body, CreateTopicsRequest))

    def describe(self, request: Request, body: bytes) -> object:
        """Describe the topics of the body."""
        return {"topics": self._admin.describe_topics(_decode(body, Topics).topics)}

    def describe_one(self, request: Request, body: bytes) -> object:
        """Describe one topic."""
        return self._admin.describe_topics([request.path_params["topic"]])[0]

    def create_partitions(self, request: Request, body: bytes) -> object:
        """Add partitions; the answer names the topics that were refused."""
        wanted = _decode(body, CreatePartitions)
        return {"failures": self._admin.create_partitions(wanted.topics, wanted.timeout_ms)}

    def delete(self, request: Request, body: bytes) -> object:
        """Delete topics; the answer names those that were refused."""
        wanted = _decode(body, Topics)
        return {"failures": self._admin.delete_topics(wanted.topics, wanted.timeout_ms)}


def _metrics(server: ClusterServer) -> Response:
    return Response(metrics_text(server.cluster), headers={"Content-Type": CONTENT_TYPE})


def _journal(server: ClusterServer, params: Mapping[str, str]) -> JournalPage:
    """``after``: a place that an answer gave as ``next``; without it the last ``last`` rows."""
    path = server.data_dir.journal
    if "after" in params:
        part = rows_after(path, _number(params, "after", 0, None))
    else:
        part = last_rows(path, _number({"last": "20", **params}, "last", 0, MAX_ROWS))
    return JournalPage([msgspec.Raw(line) for line in part.lines], part.next)


def _number(params: Mapping[str, str], name: str, least: int, most: int | None) -> int:
    word = params[name]
    value = int(word) if word.isdecimal() else -1
    if value < least or (most is not None and value > most):
        above = "" if most is None else f" to {most}"
        raise UsageError(f"{name}={word}", hint=f"a whole number from {least}{above}")
    return value


def _decode(body: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.DecodeError as error:
        raise UsageError(f"malformed request: {error}") from error


def _endpoint(handler: Handler) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise HTTPException(413)
        answer = await run_in_threadpool(handler, request, bytes(body))
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
