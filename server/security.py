"""Access control of the API: checks Host, Origin, Sec-Fetch-Site and the bearer token.

A web page can make a browser send requests to loopback. A page that uses DNS rebinding has its own
name for 127.0.0.1, which appears in Host. Requests of its forms and scripts carry its Origin; other
resources that it loads carry no Origin, but Sec-Fetch-Site. Independent of the endpoints.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from klamm.cluster.errors import EnvironmentProblem, Refused, UsageError
from klamm.server.answers import refusal

FORBIDDEN = 403
UNAUTHORIZED = 401
OWN_SITES = ("same-origin", "none")
"""Sec-Fetch-Site of requests from klamm's own pages, and of addresses typed by a user."""


class Gatekeeper:
    """ASGI middleware. ``host_names`` are in lower case, without ports and brackets."""

    def __init__(self, app: ASGIApp, host_names: Iterable[str], token: str | None) -> None:
        self._app = app
        self._host_names = frozenset(host_names)
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or refuse it."""
        refusal = None if scope["type"] == "lifespan" else self._refusal(Headers(scope=scope))
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: Headers) -> Response | None:
        hosts = headers.getlist("host")
        name = host_name(hosts[0]) if len(hosts) == 1 else None
        if name not in self._host_names:
            return _refused(
                FORBIDDEN,
                f"unexpected Host header: {', '.join(hosts)}" if hosts else "missing Host header",
                "klamm up --allowed-host NAME accepts another host name",
            )
        for origin in headers.getlist("origin"):
            if _netloc(origin) != hosts[0].lower():
                return _refused(
                    FORBIDDEN, f"web pages of {origin} may not send requests to klamm", None
                )
        for site in headers.getlist("sec-fetch-site"):
            if site.lower() not in OWN_SITES:
                return _refused(
                    FORBIDDEN,
                    "web pages of other sites may not send requests to klamm "
                    f"(Sec-Fetch-Site: {site})",
                    None,
                )
        if self._token is not None and not self._has_token(headers):
            return _refused(
                UNAUTHORIZED,
                "the bearer token is missing or wrong",
                "set KLAMM_TOKEN to the server's token",
            )
        return None

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        assert self._token is not None
        return scheme.lower() == "bearer" and hmac.compare_digest(
            given.strip().encode(), self._token.encode()
        )


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def read_or_create_token(path: Path) -> str:
    """Read the token in ``path``; create the file with a random token if it is missing.

    Only the file's owner may read a file that is created here. Raises UsageError for a file without
    a token, EnvironmentProblem for a file that cannot be read or written.
    """
    try:
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            token = path.read_text(errors="replace").strip()
        else:
            token = secrets.token_urlsafe(32)
            with open(file, "w") as created:
                created.write(f"{token}\n")
    except OSError as error:
        raise EnvironmentProblem(
            f"the token file {path} cannot be read or written: {error.strerror}",
            hint="use a file that this user may read; klamm creates a missing file in an existing "
            "directory",
        ) from error
    if not (token.isascii() and token.isprintable() and token):
        raise UsageError(
            f"the token file {path} does not contain one line of printable ASCII",
            hint="delete the file: klamm up then creates it with a new token",
        )
    return token


def host_name(host: str) -> str | None:
    """Return the host name of a Host header, in lower case, without port and brackets.

    None if the header is malformed.
    """
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018 - raises ValueError for a malformed port
    except ValueError:
        return None
    if parts.path or parts.query or parts.fragment or "@" in host or "\\" in host:
        return None
    return parts.hostname


def _refused(status: int, message: str, hint: str | None) -> Response:
    answer = refusal(status, Refused(message, hint=hint))
    if status == UNAUTHORIZED:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer
