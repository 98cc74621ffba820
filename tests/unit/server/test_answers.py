"""Responses of the API to requests that are refused or fail, and their counts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from klamm.cluster.errors import (
    AdminError,
    EnvironmentProblem,
    KlammError,
    NotFound,
    PolicyViolation,
    RequestTimedOut,
    StoreError,
    UnknownBroker,
    UnknownTopicOrPartition,
    UsageError,
    WrongState,
    ZooKeeperUnavailable,
)
from klamm.server.answers import (
    AnswerCounts,
    CountedAnswers,
    environment_problem,
    on_error,
    on_http_error,
)
from klamm.server.request_bodies import BodyTooLarge, BodyTooSlow

SCOPE = {"type": "http", "method": "PUT", "path": "/x", "query_string": b"", "headers": []}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("m"), 400),
        (NotFound("m"), 404),
        (UnknownTopicOrPartition("m"), 404),
        (UnknownBroker("m"), 404),
        (BodyTooSlow("m"), 408),
        (AdminError("m"), 409),
        (PolicyViolation("m"), 409),
        (WrongState("m"), 409),
        (StoreError("m"), 409),
        (BodyTooLarge("m"), 413),
        (EnvironmentProblem("m"), 503),
        (ZooKeeperUnavailable("m"), 503),
        (KlammError("m"), 503),
        (RequestTimedOut("m"), 504),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, KlammError) else str(value),
)
def test_each_error_has_its_http_status(error: KlammError, status: int) -> None:
    answer = asyncio.run(on_error(Request(SCOPE), error))
    assert answer.status_code == status
    assert json.loads(bytes(answer.body))["error"]["message"] == "m"


def test_an_unknown_method_is_named_with_its_path() -> None:
    answer = asyncio.run(on_http_error(Request(SCOPE | {"headers": []}), HTTPException(405)))
    described = json.loads(bytes(answer.body))["error"]
    assert answer.status_code == 405
    assert (described["error"], described["message"]) == (
        "MethodNotAllowed",
        "PUT /x: method not allowed",
    )


def test_an_environment_problem_names_the_file() -> None:
    error = FileNotFoundError(2, "No such file or directory", "/f")
    assert environment_problem(error).message == "No such file or directory: /f"
    assert environment_problem(OSError(28, "No space left on device")).message == (
        "No space left on device"
    )
    assert environment_problem(TimeoutError()).message == "TimeoutError"


def test_a_bug_is_logged_once_for_each_place(caplog: pytest.LogCaptureFixture) -> None:
    counts = AnswerCounts()

    def fail(error: Exception) -> int:
        try:
            raise error
        except Exception as raised:
            with caplog.at_level(logging.ERROR):
                answer = counts.unexpected(SCOPE, raised)
        assert b"PUT /x failed because of an internal error" in bytes(answer.body)
        assert json.loads(bytes(answer.body))["error"]["definite"] is False
        return answer.status_code

    def fail_elsewhere() -> None:
        try:
            int("x")
        except ValueError as raised:
            counts.unexpected(SCOPE, raised)

    assert [fail(error) for error in (ValueError(), ValueError(), KeyError())] == [500] * 3
    assert [record.exc_info is not None for record in caplog.records] == [True] * 2
    fail_elsewhere()
    fail_elsewhere()
    assert len(caplog.records) == 3


@pytest.mark.parametrize(
    ("has_begun", "kind", "statuses", "is_raised"),
    [(False, "http", [500], False), (True, "http", [200], True), (False, "lifespan", [], True)],
)
def test_an_error_becomes_an_answer_unless_one_has_begun(
    has_begun: bool, kind: str, statuses: list[int], is_raised: bool
) -> None:
    sent: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if has_begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError

    async def receive() -> Any:
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    counted = CountedAnswers(app, AnswerCounts())
    raising = pytest.raises(ValueError) if is_raised else contextlib.nullcontext()
    with raising:
        asyncio.run(counted({**SCOPE, "type": kind}, receive, send))
    starts = [message for message in sent if message["type"] == "http.response.start"]
    assert [start["status"] for start in starts] == statuses


def test_answers_are_counted_by_status() -> None:
    counts = AnswerCounts()
    registry = CollectorRegistry()
    registry.register(counts)
    for status in (200, 404, 200):
        counts.add(status)
    found = {
        status: registry.get_sample_value("klamm_http_answers_total", {"status": status})
        for status in ("200", "404", "500")
    }
    assert found == {"200": 2, "404": 1, "500": None}
