"""Who may call the API: the right Host, no foreign web page, the token where there is one.

A web page can make a browser call loopback. DNS rebinding gives such a page a name of its own for
127.0.0.1, which shows in Host; a form or a script of it shows in Origin, and what else it loads,
which has no Origin, in Sec-Fetch-Site. It knows no endpoint.
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
"""Sec-Fetch-Site of requests from klamm's pages, and of addresses that a user typed."""


class Gatekeeper:
    """ASGI middleware. ``host_names`` are in lower case, without ports and brackets."""

    def __init__(self, app: ASGIApp, host_names: Iterable[str], token: str | None) -> None:
        self._app = app
        self._host_names = frozenset(host_names)
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        refusal = None if scope["type"] == "lifespan" else self._refusal(Headers(scope=scope))
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: Headers) -> Response | None:
        hosts = headers.getlist("host")
        name = host_name(hosts[0]) if len(hosts) == 1 else None
        if name not in self._host_names:
            return _refused(
                FORBIDDEN,
                f"unexpected Host header: {', '.join(hosts)}" if hosts else "no Host header",
                "klamm up --allowed-host NAME accepts another name",
            )
        for origin in headers.getlist("origin"):
            if _netloc(origin) != hosts[0].lower():
                return _refused(FORBIDDEN, f"refused: a page of {origin} may not call klamm", None)
        for site in headers.getlist("sec-fetch-site"):
            if site.lower() not in OWN_SITES:
                return _refused(
                    FORBIDDEN,
                    f"refused: a page of another site may not call klamm (Sec-Fetch-Site: {site})",
                    None,
                )
        if self._token is not None and not self._has_token(headers):
            return _refused(
                UNAUTHORIZED, "the token is missing or wrong", "set KLAMM_TOKEN to the server's"
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
            hint="name a file that this user may read; klamm creates it if it is missing and the "
            "directory exists",
        ) from error
    if not (token.isascii() and token.isprintable() and token):
        raise UsageError(
            f"the token file {path} does not hold one line of printable ASCII",
            hint="delete the file to get a new token",
        )
    return token


def host_name(host: str) -> str | None:
    """The name in a Host header, in lower case, without port and brackets; None if malformed."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018 - raises ValueError for a port that is none
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
