"""Builds the API's answers from values and errors, and counts answers by status.

Errors are JSON: {"error": {"error", "code", "message", "hint", "definite", "retriable"}}, with
Kafka's error name, if any, as code. Clients never see the traceback of a bug: it is answered with
500, counted, and logged once per location in the code.
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

from klamm.admin.command_result import ErrorAnswer, describe_error
from klamm.cluster.errors import (
    AdminError,
    EnvironmentProblem,
    KlammError,
    NotFound,
    RequestTimedOut,
    StoreError,
    UnknownTopicOrPartition,
    UsageError,
    WrongState,
)
from klamm.server.request_bodies import BodyTooLarge, BodyTooSlow

logger = logging.getLogger(__name__)

INTERNAL_ERROR: Final = 500
_STATUS_OF_ERRORS: Final[tuple[tuple[type[KlammError], int], ...]] = (
    (BodyTooLarge, 413),
    (BodyTooSlow, 408),
    (NotFound, 404),
    (UsageError, 400),
    (UnknownTopicOrPartition, 404),
    (RequestTimedOut, 504),
    (AdminError, 409),
    (WrongState, 409),
    (EnvironmentProblem, 503),
    (StoreError, 409),
    (KlammError, 503),
)


class UnexpectedError(KlammError):
    """A bug in klamm."""

    definite = False


def json_answer(status: int, value: object) -> Response:
    """Return an answer with a value."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def refusal(status: int, error: KlammError) -> Response:
    """Return the answer with an error."""
    return json_answer(status, ErrorAnswer(describe_error(error)))


async def on_error(request: Request, error: Exception) -> Response:
    """Return the answer to a refused or failed request."""
    assert isinstance(error, KlammError)
    status = next(code for kind, code in _STATUS_OF_ERRORS if isinstance(error, kind))
    return refusal(status, error)


async def on_http_error(request: Request, error: Exception) -> Response:
    """Return the answer to a request with an unknown path or method."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail.lower()}"
    problem = KlammError(message, hint="GET /openapi.json lists all requests")
    described = msgspec.structs.replace(describe_error(problem), error=error.detail)
    return json_answer(error.status_code, ErrorAnswer(described))


class AnswerCounts(Collector):
    """Counts answers by status. Thread-safe."""

    def __init__(self) -> None:
        self._by_status: Counter[int] = Counter()
        self._logged: set[tuple[type[BaseException], str, int]] = set()
        self._lock = threading.Lock()

    def add(self, status: int) -> None:
        """Count an answer."""
        with self._lock:
            self._by_status[status] += 1

    def collect(self) -> Iterator[Metric]:
        """Return the counts as Prometheus metrics."""
        family = CounterMetricFamily(
            "klamm_http_answers", "Answers of the HTTP API by status", labels=["status"]
        )
        with self._lock:
            for status, count in sorted(self._by_status.items()):
                family.add_metric([str(status)], count)
        yield family

    def unexpected(self, scope: Scope, error: Exception) -> Response:
        """Return the answer to a request that hit a bug; log each kind of failure once."""
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
            f"klamm failed to answer {what}: {type(error).__name__}",
            hint="this is a bug in klamm; klamm.log in the data directory has the details",
        )
        return refusal(INTERNAL_ERROR, answered)


class CountedAnswers:
    """ASGI middleware that counts answers and turns unhandled exceptions into a 500."""

    def __init__(self, app: ASGIApp, counts: AnswerCounts) -> None:
        self._app = app
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request and count its answer."""
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
    """Return the error for a refused system call, e.g. a file that cannot be read."""
    place = f": {error.filename}" if error.filename else ""
    return EnvironmentProblem(f"{error.strerror or type(error).__name__}{place}")
