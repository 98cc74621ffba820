"""Runs a cluster and its HTTP API in the foreground until a signal ends the process.

Owns the process's signal handlers and the listening socket; ClusterServer owns everything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any, Final

import uvicorn

from klamm.cluster.errors import EnvironmentProblem
from klamm.interrupts import ending_signals_handled
from klamm.server.api import create_app
from klamm.server.cluster_server import ClusterServer
from klamm.server.config import ServerConfig
from klamm.server.data_dir import DataDir
from klamm.server.dump_loading import Say
from klamm.server.http_protocol import (
    HEADER_TIMEOUT_S,
    KEEP_ALIVE_S,
    MAX_HEADER_BYTES,
    MAX_REQUESTS,
    WRITE_TIMEOUT_S,
    BoundedProtocol,
)
from klamm.server.thread_failures import threads_watched

INTERRUPTED: Final = 130
TERMINATED: Final = 0
_BACKLOG: Final = 128


class _Ended(BaseException):
    """Raised in the main thread by a signal that arrives during startup."""


class _Server(uvicorn.Server):
    """uvicorn's server without its own signal handlers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Signals:
    """Handler for termination signals; only the first signal has an effect."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.on_signal: Callable[[], None] | None = None

    def catch(self, number: int, _: FrameType | None) -> None:
        """Handle a signal; signals during the shutdown have no effect."""
        if self.first is not None:
            return
        self.first = number
        if self.on_signal is None:
            raise _Ended
        self.on_signal()

    @property
    def exit_code(self) -> int:
        """Exit code of the process after the first signal."""
        return INTERRUPTED if self.first == signal.SIGINT else TERMINATED


def serve(config: ServerConfig, say: Say, on_up: Callable[[ClusterServer], None]) -> int:
    """Start a cluster, call ``on_up``, serve until a signal arrives, and return the exit code.

    If the cluster cannot start or continue, closes all of its parts and raises KlammError.
    """
    signals = _Signals()
    server: ClusterServer | None = None
    with ending_signals_handled(signals.catch), contextlib.ExitStack() as stack:
        try:
            listener = stack.enter_context(_listen(config))
            server = ClusterServer(config, say, _end_process)
            stack.enter_context(threads_watched(server.fail))
            stack.callback(server.close)
            server.open()
            _serve_http(server, listener, signals, on_up)
        except _Ended:
            pass
        finally:
            # From here on, signals must not interrupt the shutdown.
            if signals.first is None:
                signals.first = 0
    if server is not None and server.failure is not None:
        raise server.failure
    return signals.exit_code


def _end_process() -> None:
    """Send SIGTERM to the main thread; this interrupts the thread if it is waiting."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _serve_http(
    server: ClusterServer,
    listener: socket.socket,
    signals: _Signals,
    on_up: Callable[[ClusterServer], None],
) -> None:
    http = http_server(server)

    def end() -> None:
        server.closing.set()
        http.should_exit = True

    signals.on_signal = end
    # A client may send a signal as soon as it reads the address: the server must be up by then.
    server.publish(url_of(*listener.getsockname()[:2]))
    on_up(server)
    asyncio.run(http.serve([listener]))


def http_server(
    server: ClusterServer,
    header_timeout_s: float = HEADER_TIMEOUT_S,
    write_timeout_s: float = WRITE_TIMEOUT_S,
) -> uvicorn.Server:
    """Return a web server for an open cluster; the caller runs it on a listening socket."""
    # Config's type only allows classes, but the server calls any callable.
    protocol: Any = partial(
        BoundedProtocol, header_timeout_s=header_timeout_s, write_timeout_s=write_timeout_s
    )
    # Clients can trigger uvicorn's warnings at any rate, with malformed or too many requests.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return _Server(
        uvicorn.Config(
            create_app(server),
            http=protocol,
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            limit_concurrency=MAX_REQUESTS,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=2,
        )
    )


def _listen(config: ServerConfig) -> socket.socket:
    try:
        return listen(config.host, config.port)
    except EnvironmentProblem:
        # Usually klamm is already running in this directory; that error is more helpful.
        if config.data_dir is not None:
            DataDir(config.data_dir).check_not_held()
        raise


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on ``host`` and ``port``.

    Raises EnvironmentProblem, e.g. if the port is in use.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _cannot_listen(host, port, error) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _cannot_listen(host, port, error) from error
    return listener


def url_of(host: str, port: int) -> str:
    """Return the API's URL for clients on this machine. ``host``: an IP address."""
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        host = "127.0.0.1" if address.version == 4 else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _cannot_listen(host: str, port: int, error: OSError) -> EnvironmentProblem:
    if error.errno == errno.EADDRINUSE:
        return EnvironmentProblem(
            f"port {port} on {host} is in use",
            hint="choose another port with --port; --port 0 selects a free port",
        )
    return EnvironmentProblem(f"cannot listen on {host}, port {port}: {error.strerror}")
