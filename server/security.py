"""Access control of the API: checks Host, Origin, Sec-Fetch-Site and the bearer token.

Any web page can make a browser send requests to loopback. If the page uses DNS rebinding, its own
host name resolves to 127.0.0.1; the Host header then contains that name. Requests from the forms
and scripts of a page have an Origin header. Its other requests, e.g. for images, have only a
Sec-Fetch-Site header.
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
from klamm.server.answers import error_response

FORBIDDEN = 403
UNAUTHORIZED = 401
OWN_SITES = ("same-origin", "none")
"""Accepted Sec-Fetch-Site values: requests by klamm's own pages, and by the user directly."""


class Gatekeeper:
    """ASGI middleware that refuses requests from other web sites, and requests without the token.

    ``host_names`` are the accepted host names, in lower case, without ports and brackets.
    """

    def __init__(self, app: ASGIApp, host_names: Iterable[str], token: str | None) -> None:
        self._app = app
        self._host_names = frozenset(host_names)
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the application, or refuse it."""
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
                    FORBIDDEN, f"klamm does not accept requests from web pages of {origin}", None
                )
        for site in headers.getlist("sec-fetch-site"):
            if site.lower() not in OWN_SITES:
                return _refused(
                    FORBIDDEN,
                    "klamm does not accept requests from web pages of other sites "
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

    Only the owner may read the created file. Raises UsageError if the file contains no token, and
    EnvironmentProblem if it cannot be read or written.
    """
    try:
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            token = path.read_text(errors="replace")
        else:
            token = secrets.token_urlsafe(32)
            with open(file, "w") as created:
                created.write(f"{token}\n")
    except OSError as error:
        raise EnvironmentProblem(
            f"the token file {path} cannot be read or written: {error.strerror}",
            hint="use a file that this user may read; klamm creates a missing file, but not a "
            "missing directory",
        ) from error
    hint = "delete the file: klamm up then creates it with a new token"
    return stripped_token(token, f"the token in {path}", hint)


def stripped_token(text: str, what: str, hint: str | None = None) -> str:
    """Return a token without the white space around it. Raises UsageError if it cannot be sent."""
    token = text.strip()
    if not (token.isascii() and token.isprintable() and token):
        raise UsageError(f"{what} is not one line of printable ASCII", hint=hint)
    return token


def host_name(host: str) -> str | None:
    """Return the host name in a Host header, in lower case, without port and brackets.

    Returns None if the header is malformed.
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
    answer = error_response(status, Refused(message, hint=hint))
    if status == UNAUTHORIZED:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer
