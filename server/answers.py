"""Builds the API's responses from values and errors, and counts responses by status code.

Errors are JSON: {"error": {"error", "code", "message", "hint", "definite", "retriable"}}; "code" is
the name of Kafka's error code, if there is one. If a request fails because of a bug, the response
has status 500 and no traceback; klamm.log has the traceback, once per location in the code.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from klamm.cluster.errors import (
    AdminError,
    EnvironmentProblem,
    KlammError,
    NotFound,
    RequestTimedOut,
    StoreError,
    UnknownBroker,
    UnknownTopicOrPartition,
    UsageError,
    WrongState,
)
from klamm.server.request_bodies import BodyTooLarge, BodyTooSlow
from klamm.tools.command_result import ErrorAnswer, describe_error

logger = logging.getLogger(__name__)

INTERNAL_ERROR: Final = 500
_STATUS_OF_ERRORS: Final[tuple[tuple[type[KlammError], int], ...]] = (
    (BodyTooLarge, 413),
    (BodyTooSlow, 408),
    (NotFound, 404),
    (UsageError, 400),
    (UnknownTopicOrPartition, 404),
    (UnknownBroker, 404),
    (RequestTimedOut, 504),
    (AdminError, 409),
    (WrongState, 409),
    (EnvironmentProblem, 503),
    (StoreError, 409),
    (KlammError, 503),
)


class UnexpectedError(KlammError):
    """A request failed because of a bug in klamm."""

    definite = False


def json_answer(status: int, value: object) -> Response:
    """Return a response whose body is ``value`` as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def error_response(status: int, error: KlammError) -> Response:
    """Return a response whose body describes an error."""
    return json_answer(status, ErrorAnswer(describe_error(error)))


async def on_error(request: Request, error: Exception) -> Response:
    """Return the response to a request that was refused or failed."""
    assert isinstance(error, KlammError)
    status = next(code for kind, code in _STATUS_OF_ERRORS if isinstance(error, kind))
    return error_response(status, error)


async def on_http_error(request: Request, error: Exception) -> Response:
    """Return the response to a request with an unknown path or method."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail.lower()}"
    problem = KlammError(message, hint="GET /openapi.json lists all requests")
    kind = error.detail.replace(" ", "")
    described = msgspec.structs.replace(describe_error(problem), error=kind)
    return json_answer(error.status_code, ErrorAnswer(described))


class AnswerCounts(Collector):
    """Counts the API's responses by status code, as a Prometheus collector. Thread-safe."""

    def __init__(self) -> None:
        self._by_status: Counter[int] = Counter()
        self._logged: set[tuple[type[BaseException], str, int]] = set()
        self._lock = threading.Lock()

    def add(self, status: int) -> None:
        """Count a response."""
        with self._lock:
            self._by_status[status] += 1

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "klamm_http_answers", "Responses of the HTTP API by status code", labels=["status"]
        )
        with self._lock:
            for status, count in sorted(self._by_status.items()):
                family.add_metric([str(status)], count)
        yield family

    def unexpected(self, scope: Scope, error: Exception) -> Response:
        """Return the response to a request that hit a bug.

        The traceback is logged, but only once for each kind of failure.
        """
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        where = ("", 0) if at is None else (at.tb_frame.f_code.co_filename, at.tb_lineno)
        kind = (type(error), *where)
        what = f"{scope['method']} {scope['path']}"
        with self._lock:
            is_new = kind not in self._logged
            self._logged.add(kind)
        if is_new:
            logger.error("%s failed", ascii(what), exc_info=error)
        answered = UnexpectedError(
            f"{what} failed because of an internal error: {type(error).__name__}",
            hint="this is a bug in klamm; klamm.log in the data directory has the details",
        )
        return error_response(INTERNAL_ERROR, answered)


class CountedAnswers:
    """ASGI middleware that counts responses and turns unhandled exceptions into status 500."""

    def __init__(self, app: ASGIApp, counts: AnswerCounts) -> None:
        self._app = app
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request and count its response."""
        has_begun = False

        async def counted_send(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                self._counts.add(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, counted_send)
        except Exception as error:
            if scope["type"] != "http":
                raise
            answer = self._counts.unexpected(scope, error)
            if has_begun:
                raise
            await answer(scope, receive, counted_send)


def environment_problem(error: OSError) -> EnvironmentProblem:
    """Return the error to raise for an OSError, e.g. if a file cannot be read."""
    place = f": {error.filename}" if error.filename else ""
    return EnvironmentProblem(f"{error.strerror or type(error).__name__}{place}")
