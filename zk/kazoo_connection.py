"""Kazoo's connection to a ZooKeeper server, with separate time limits.

Kazoo derives all limits from the session timeout. With a session timeout of 30 s, kazoo waits 30 s
to connect to a server that hangs, and 20 s before it notices that a connected server hangs. Here
each step of a connection attempt takes at most ATTEMPT_TIMEOUT_MAX_S, and the caller sets for how
long a connected server may send nothing. Mirrors the limits in org.apache.zookeeper.ClientCnxn
(connectTimeout, readTimeout).
"""

from __future__ import annotations

import math
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler

ATTEMPT_TIMEOUT_MIN_S: Final = 0.5
ATTEMPT_TIMEOUT_MAX_S: Final = 3.0
"""Limit in seconds for each step of an attempt: the TCP connection, and the handshake response."""
_SILENCE_SHARE: Final = 2 / 3
_DEAF_POLL_S: Final = 0.05
"""How often a client that receives nothing checks whether this has ended."""


def attempt_timeout_s(session_timeout_ms: float, host_count: int) -> float:
    """Return the time limit in seconds for each step of an attempt to connect to a server.

    As in ZooKeeper's Java client, the limit is short enough to try all servers before the session
    expires. It is at most ATTEMPT_TIMEOUT_MAX_S, even if the session timeout is long.
    """
    share_s = session_timeout_ms / 1000 / host_count
    return max(ATTEMPT_TIMEOUT_MIN_S, min(share_s, ATTEMPT_TIMEOUT_MAX_S))


class LinkCut:
    """Which directions of a session's connection are cut, to inject faults.

    - ``is_mute``: what the client sends is lost.
    - ``is_deaf``: the client receives nothing. As with TCP, what the server has sent arrives when
      the cut ends, unless the client has dropped the silent connection.
    - ``has_lost``: something was lost, so the connection cannot be used any more.
    """

    def __init__(self) -> None:
        self.is_mute = False
        self.is_deaf = False
        self.has_lost = False

    @property
    def is_cut(self) -> bool:
        """True if no connection can be opened."""
        return self.is_mute or self.is_deaf


class KazooConnection(ConnectionHandler):
    """Connection of a KazooClient, used instead of kazoo's ConnectionHandler.

    - ``silence_limit_ms``: the connection is dropped if the server does not respond within two
      thirds of this limit. A limit longer than the session timeout has no effect.
    - ``on_watch_event``: called with the bytes of every watch event.
    - ``is_resolved``: False if no address of any server was found at the last attempt.
    - ``refusals``: number of consecutive connections that a server accepted but closed instead of
      responding to the handshake.
    """

    def __init__(
        self,
        client: KazooClient,
        silence_limit_ms: float,
        on_watch_event: Callable[[bytes, int], None],
    ) -> None:
        kazoos_own = client._connection
        super().__init__(
            client,
            kazoos_own.retry_sleeper,
            logger=kazoos_own.logger,
            sasl_options=kazoos_own.sasl_options,
        )
        self._silence_limit_ms = silence_limit_ms
        self._on_watch_event = on_watch_event
        self._unanswered_since_s: float | None = None
        self.refusals = 0
        self.is_resolved = True
        client._connection = self

    def _expand_client_hosts(self) -> list[tuple[str, str, int]]:
        found: list[tuple[str, str, int]] = super()._expand_client_hosts()
        self.is_resolved = bool(found)
        return found

    @property
    def attempt_timeout_s(self) -> float:
        """Time limit in seconds for each step of an attempt to connect to a server."""
        return attempt_timeout_s(self.client._session_timeout, len(self.client.hosts))

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        refusals, self.refusals = self.refusals, 0
        try:
            read_timeout_ms, connect_timeout_ms = super()._connect(host, hostip, port)
        except ConnectionDropped:
            if self._socket is not None:
                self.refusals = refusals + 1
            raise
        self._unanswered_since_s = None
        silence_ms = self._silence_limit_ms * _SILENCE_SHARE
        return min(read_timeout_ms, silence_ms), connect_timeout_ms

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        return super()._invoke(min(timeout, self.attempt_timeout_s), request, xid)

    def _read_socket(self, read_timeout: float) -> Any:
        self._unanswered_since_s = None
        return super()._read_socket(read_timeout)

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        # Kazoo pings only while nothing is sent: without this check, a steady flow of requests to a
        # hung server would keep the connection forever.
        since_s = self._unanswered_since_s
        if since_s is not None and time.monotonic() - since_s > read_timeout:
            raise ConnectionDropped("the server does not answer")
        super()._send_request(read_timeout, connect_timeout)

    def _write(self, msg: bytes, timeout: float) -> None:
        if self._unanswered_since_s is None:
            self._unanswered_since_s = time.monotonic()
        link = self.handler.link
        if link.is_mute:
            link.has_lost = True
        elif link.has_lost:
            raise ConnectionDropped("a request was lost while the connection was cut")
        else:
            super()._write(msg, timeout)

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        self._on_watch_event(buffer, offset)


class SessionHandler(SequentialThreadingHandler):
    """Kazoo's SequentialThreadingHandler without its worker threads, which klamm does not need."""

    def __init__(
        self,
        running: threading.Event,
        tls: ssl.SSLContext | None,
        attempt_timeout_s: float,
        link: LinkCut,
    ) -> None:
        super().__init__()
        self.link = link
        self._connection: socket.socket | None = None
        self._connection_may_run = running
        self._tls = tls
        self._attempt_timeout_s = attempt_timeout_s
        self.connection_error: OSError | None = None

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def spawn(self, func: Callable[..., None], *args: Any, **kwargs: Any) -> threading.Thread:
        thread = threading.Thread(
            target=func, args=args, kwargs=kwargs, name="klamm-zookeeper", daemon=True
        )
        thread.start()
        return thread

    def create_connection(self, address: tuple[str, int], hostname: str, **_: Any) -> socket.socket:
        """Open a socket to a server, with TLS if configured.

        Raises OSError, which is also stored in ``connection_error``.
        """
        try:
            if self.link.is_cut:
                raise TimeoutError("the link is cut")
            self.link.has_lost = False
            connection = socket.create_connection(address, self._attempt_timeout_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                # wrap_socket closes the connection if the handshake fails.
                connection = self._tls.wrap_socket(connection, server_hostname=hostname)
        except OSError as error:
            self.connection_error = error
            raise
        self.connection_error = None
        self._connection = connection
        return connection

    def select(
        self, readers: Any, writers: Any, _: Any, timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait for sockets like select.select, but block as long as the session is suspended.

        Kazoo calls this function before it sends anything, so that not even pings are sent during a
        suspension. Kazoo's version is slower: it creates and closes an epoll object in each call.
        """
        until_s = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            most_s = _DEAF_POLL_S if self.link.is_deaf else math.inf
            left_s = until_s - time.monotonic()
            ready = self._poll(self._heard(readers), writers, max(0.0, min(left_s, most_s)))
            if any(ready) or left_s <= 0:
                return (*ready, [])

    def _poll(
        self, readers: list[Any], writers: Any, timeout_s: float
    ) -> tuple[list[Any], list[Any]]:
        if self._tls is not None:
            # TLS may have decrypted replies that select cannot see on the socket.
            decrypted = [r for r in readers if isinstance(r, ssl.SSLSocket) and r.pending()]
            if decrypted:
                self._connection_may_run.wait()
                return decrypted, []
        poll = select.poll()
        for reader in readers:
            poll.register(reader, select.POLLIN)
        for writer in writers:
            poll.register(writer, select.POLLOUT)
        ready = {fd for fd, _ in poll.poll(None if timeout_s == math.inf else timeout_s * 1000)}
        self._connection_may_run.wait()
        return (
            [reader for reader in self._heard(readers) if reader.fileno() in ready],
            [writer for writer in writers if writer.fileno() in ready],
        )

    def _heard(self, readers: list[Any]) -> list[Any]:
        """Leave out the connection to the server while the client receives nothing."""
        if not self.link.is_deaf:
            return readers
        return [reader for reader in readers if reader is not self._connection]
