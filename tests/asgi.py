"""Calls an ASGI application as a web server does, without a socket in between."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.responses import Response as StarletteResponse
from starlette.types import ASGIApp

from klamm.admin.kafka_admin import KafkaAdmin
from klamm.cli.client import answered_error
from klamm.server.admin_calls import http_admin
from klamm.server.api import ROUTES
from klamm.server.openapi import ApiRoute, answer_type

Headers = Mapping[str, str] | Sequence[tuple[str, str]]


class Response(msgspec.Struct):
    """What the application answered; names of headers are in lower case."""

    status_code: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode()

    def json(self) -> Any:
        """The body as values."""
        return msgspec.json.decode(self.content)


class AsgiClient:
    """Requests come from localhost unless their headers say otherwise."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def get(self, path: str, headers: Headers | None = None) -> Response:
        """A GET."""
        return self.request("GET", path, headers=headers)

    def post(self, path: str, json: object = None, headers: Headers | None = None) -> Response:
        """A POST of values, or of nothing."""
        content = b"" if json is None else msgspec.json.encode(json)
        return self.request("POST", path, content, headers)

    def request(
        self, method: str, path: str, content: bytes | None = b"", headers: Headers | None = None
    ) -> Response:
        """Any request, with the bytes of its body."""
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers or ())
        if not any(name.lower() == "host" for name, _ in pairs):
            pairs.append(("Host", "localhost"))
        plain, _, query = path.partition("?")
        scope: MutableMapping[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(plain),
            "raw_path": plain.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in pairs],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8282),
        }
        answered = asyncio.run(self._exchange(scope, content or b""))
        if answered.status_code == 200:
            assert_is_described(method, plain, answered)
        return answered

    async def _exchange(self, scope: MutableMapping[str, Any], content: bytes) -> Response:
        sent: list[MutableMapping[str, Any]] = []

        parts = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            # The client stays until it is answered.
            return parts.pop() if parts else await asyncio.Event().wait()

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        start, *parts = sent
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        body = b"".join(part.get("body", b"") for part in parts)
        return Response(start["status"], headers, body)


def assert_is_described(method: str, path: str, answered: Response) -> None:
    """Compare an answer of the API with its type in the OpenAPI document: no field is missing
    there, and none is of another type."""
    route = route_of(method, path)
    if route is None:
        return
    kind = answer_type(route)
    if kind is not StarletteResponse:
        typed = msgspec.json.decode(answered.content, type=kind)
        assert msgspec.json.decode(msgspec.json.encode(typed)) == answered.json()


def route_of(method: str, path: str) -> ApiRoute | None:
    """The route that answers a request; None if there is none."""
    for route in ROUTES:
        pattern = re.sub(r"\{[^}]*\}", "[^/]+", route.path.replace("{id:id}", "[0-9]+"))
        if route.method == method and re.fullmatch(pattern, path):
            return route
    return None


def in_process_admin(client: AsgiClient) -> KafkaAdmin:
    """What Kafka's tools ask of a cluster, without a socket in between."""

    def request(method: str, path: str, body: object) -> bytes:
        content = b"" if body is None else msgspec.json.encode(body)
        response = client.request(method, path, content)
        if response.status_code >= 400:
            raise answered_error(response.content)
        return response.content

    return http_admin(request)
