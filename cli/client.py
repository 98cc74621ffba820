"""HTTP client of the commands: finds a running klamm and sends requests to it.

The address comes from --server, --data-dir, KLAMM_SERVER or server.json in the default data
directory, in this order. ``--bootstrap-server`` of Kafka's tools is the same as --server: klamm's
tools use the HTTP API, not the listeners that ``klamm up --listen`` opens for Kafka's own clients.
"""

from __future__ import annotations

import http.client
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from klamm.admin.failures import admin_error
from klamm.cli.waiting import waiting
from klamm.cluster import errors
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import EnvironmentProblem, KlammError, UsageError
from klamm.cluster.journal import JOURNAL_FILE
from klamm.cluster.requests import ApiError
from klamm.lab.actions.action import Action, request_of
from klamm.server.data_dir import (
    ADDRESS_FILE,
    DATA_DIR_VARIABLE,
    DEFAULT_HOST,
    DEFAULT_PORT,
    ServerAddress,
    default_data_dir,
    is_held,
    read_address,
)
from klamm.server.states import Status
from klamm.tools.command_result import ErrorAnswer

_T = TypeVar("_T")
SERVER_VARIABLE: Final = "KLAMM_SERVER"
TOKEN_VARIABLE: Final = "KLAMM_TOKEN"  # noqa: S105 - the name of a variable
TIMEOUT_S: Final = 120.0
_CONNECT_TIMEOUT_S: Final = 5.0
_NOT_IN_HOSTS: Final = re.compile(r"[\x00-\x20\x7f]")
_UP_HINT: Final = "klamm up --brokers 3 starts a cluster"


class ServerUnavailable(EnvironmentProblem):
    """No klamm server responds at the address."""

    retriable = True


class ServerClient:
    """Client of one server's HTTP API; opens one connection per request.

    Every call raises ServerUnavailable if no klamm server responds at the address. If the response
    describes a KlammError, the call raises that error.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url, self._is_tls, self._host, self._port = _parse_url(url)
        self._token = token
        self._has_answered = False

    # -- any request

    def get(self, path: str) -> Any:
        """Send a GET request and return the decoded response."""
        return msgspec.json.decode(self.request("GET", path))

    def status(self) -> Status:
        """Return the status of the cluster."""
        answer = self.request("GET", "/status")
        try:
            return msgspec.json.decode(answer, type=Status)
        except msgspec.DecodeError as error:
            raise self._not_klamm(error) from error

    def post(self, path: str, body: object = None) -> Any:
        """Send a POST request and return the decoded response."""
        return msgspec.json.decode(self.request("POST", path, body))

    def ask(self, kind: type[_T], path: str, body: object = None) -> _T:
        """Send a POST request and return the response, which is of a type of server/."""
        return msgspec.json.decode(self.request("POST", path, body), type=kind)

    def act(self, action: Action) -> Any:
        """Apply an action to the cluster and return the decoded response."""
        return self.post(*request_of(action))

    def request(self, method: str, path: str, body: object = None) -> bytes:
        """Send a request and return the body of the response."""
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Accept": "application/json", "Connection": "close"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        with waiting(f"{self.url} to respond to {method} {path}"), self._connected() as connection:
            try:
                connection.request(method, path, data, headers)
                response = connection.getresponse()
                answer = response.read()
            except (http.client.HTTPException, ConnectionError) as error:
                gone = self._gone(error) if self._has_answered else self._not_klamm(error)
                # The request was sent at least in part, so the server may have carried it out.
                gone.definite = False
                raise gone from error
            except TimeoutError as error:
                raise ServerUnavailable(
                    f"{self.url} did not respond within {TIMEOUT_S:g} s", definite=False
                ) from error
        if response.status >= http.client.BAD_REQUEST:
            try:
                raise answered_error(answer)
            except msgspec.DecodeError as error:
                raise self._not_klamm(error) from error
        self._has_answered = True
        return answer

    # -- helpers

    @contextmanager
    def _connected(self) -> Iterator[http.client.HTTPConnection]:
        kind = http.client.HTTPSConnection if self._is_tls else http.client.HTTPConnection
        with closing(kind(self._host, self._port, timeout=_CONNECT_TIMEOUT_S)) as connection:
            try:
                connection.connect()
            except OSError as error:
                if self._has_answered:
                    raise self._gone(error) from error
                raise ServerUnavailable(
                    f"no klamm server responds at {self.url}: {_reason(error)}", hint=_UP_HINT
                ) from error
            connection.sock.settimeout(TIMEOUT_S)
            yield connection

    def _gone(self, error: Exception) -> ServerUnavailable:
        return ServerUnavailable(
            f"the klamm server at {self.url} has ended: {_reason(error)}", hint=_UP_HINT
        )

    def _not_klamm(self, error: Exception) -> ServerUnavailable:
        return ServerUnavailable(
            f"{self.url} is not a klamm server ({_reason(error)})",
            hint="use the HTTP address that klamm up prints; only Kafka's own tools and clients "
            "connect to the ports of --listen",
        )


def find_server(
    server: str | None, data_dir: Path | None, environ: Mapping[str, str] | None = None
) -> ServerClient:
    """Return a client for the running klamm selected by the options or the environment.

    ``server`` and ``data_dir`` are the options --server and --data-dir. They take precedence over
    KLAMM_SERVER, which is used only if neither is given. Raises EnvironmentProblem if no address is
    found.
    """
    environ = os.environ if environ is None else environ
    folder = data_dir or default_data_dir(environ)
    named = server_variable(data_dir, environ) if server is None else server
    if named is not None:
        return ServerClient(named, _token_for(named, folder, environ))
    address = read_address(folder)
    if address is None and is_held(folder):
        raise EnvironmentProblem(
            f"the klamm that runs in {folder} has no HTTP API: klamm up opens it when its cluster "
            "is up, and klamm controller run has none",
            hint=f"klamm journal tail and klamm explain read {folder / JOURNAL_FILE}; --server "
            "selects a klamm up",
        )
    if address is None:
        raise EnvironmentProblem(
            f"no running klamm found: {_not_named(data_dir)}, and {folder / ADDRESS_FILE} does "
            "not exist",
            hint=f"{_UP_HINT}; --data-dir or {DATA_DIR_VARIABLE} selects another data directory",
        )
    if not _is_alive(address):
        raise ServerUnavailable(
            f"the klamm server in {folder / ADDRESS_FILE} (process {address.pid}) has ended; "
            f"{_not_named(data_dir)}",
            hint=_UP_HINT,
        )
    return ServerClient(address.url, environ.get(TOKEN_VARIABLE) or address.token)


def server_variable(data_dir: Path | None, environ: Mapping[str, str]) -> str | None:
    """Return the address in KLAMM_SERVER, or None if it is not set or --data-dir is given."""
    return None if data_dir is not None else environ.get(SERVER_VARIABLE) or None


def _token_for(url: str, folder: Path, environ: Mapping[str, str]) -> str | None:
    """Return the token from the environment, or the one in ``folder`` if it belongs to ``url``.

    A token in ``folder`` that belongs to a different server is not returned.
    """
    token = environ.get(TOKEN_VARIABLE)
    if token:
        return token
    address = read_address(folder)
    if address is None or _by_number(address.url) != _by_number(_parse_url(url)[0]):
        return None
    return address.token


def _by_number(url: str) -> str:
    """Return a URL with localhost replaced by the IP address that klamm listens on."""
    return url.replace("//localhost:", f"//{DEFAULT_HOST}:")


def _not_named(data_dir: Path | None) -> str:
    if data_dir is not None:
        return "--server is not given"
    return f"--server is not given, {SERVER_VARIABLE} is not set"


def _is_alive(address: ServerAddress) -> bool:
    try:
        with suppress(PermissionError):  # a live process of another user
            os.kill(address.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _parse_url(url: str) -> tuple[str, bool, str, int]:
    """Parse ``http://host:port``, ``host:port`` or ``host`` into (url, uses TLS, host, port).

    An http address without a port gets klamm's default port; an https address gets port 443,
    because only a proxy in front of klamm can provide TLS. Raises UsageError for a malformed
    address.
    """
    first = url.split(",")[0].strip()
    try:
        parts = urlsplit(first if "://" in first else f"http://{first}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    is_malformed = not host or _NOT_IN_HOSTS.search(host) or parts.path.strip("/")
    if host is None or is_malformed or parts.scheme not in ("http", "https"):
        raise UsageError(
            f"'{url}' is not the address of a klamm server",
            hint="write HOST, HOST:PORT or http://HOST:PORT",
        )
    is_tls = parts.scheme == "https"
    if port is None:
        port = http.client.HTTPS_PORT if is_tls else DEFAULT_PORT
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{port}", is_tls, host, port


def _reason(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "unknown host"
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def answered_error(answer: bytes) -> KlammError:
    """Return the error that a server's response describes.

    Raises msgspec.DecodeError if the response is not from a klamm server.
    """
    body = msgspec.json.decode(answer, type=ErrorAnswer).error
    kind = getattr(errors, body.error, KlammError)
    error: KlammError
    if body.code is not None:
        error = admin_error(ApiError(Errors[body.code], body.message))
    elif isinstance(kind, type) and issubclass(kind, KlammError):
        error = kind(body.message)
    else:
        error = KlammError(body.message)
    error.hint, error.definite, error.retriable = body.hint, body.definite, body.retriable
    return error
