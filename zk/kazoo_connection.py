"""Kazoo's connection to a ZooKeeper server, with separate time limits.

Kazoo derives all limits from the session timeout: a session of 30 s waits 30 s for one attempt to
connect to a server that hangs, and 20 s before it notices that the server hangs. Here an attempt
takes at most ATTEMPT_TIMEOUT_MAX_S, and the caller says how long a server may be silent. Mirrors
the limits of org.apache.zookeeper.ClientCnxn (connectTimeout, readTimeout).
"""

from __future__ import annotations

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
"""Limits of one attempt: first the TCP connection, then the answer to the handshake."""
_SILENCE_SHARE: Final = 2 / 3


def attempt_timeout_s(session_timeout_ms: float, host_count: int) -> float:
    """Return the time limit of one attempt to connect.

    As in ZooKeeper's own client, all servers can be tried before the session expires. A long
    session timeout does not make an attempt longer than ATTEMPT_TIMEOUT_MAX_S.
    """
    share_s = session_timeout_ms / 1000 / host_count
    return max(ATTEMPT_TIMEOUT_MIN_S, min(share_s, ATTEMPT_TIMEOUT_MAX_S))


class Connection(ConnectionHandler):
    """Connection of one KazooClient, which replaces kazoo's own.

    ``silence_limit_ms``: the connection is dropped if the server does not answer a request within
    two thirds of this limit; the session timeout is the upper limit. ``on_watch_event``: called
    with the bytes of every watch event. ``refusals``: number of consecutive connections that a
    server accepted and then closed instead of answering the handshake.
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
        client._connection = self

    @property
    def attempt_timeout_s(self) -> float:
        """Time limit of one attempt to connect, in seconds."""
        return attempt_timeout_s(self.client._session_timeout, len(self.client.hosts))

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        self._unanswered_since_s = None
        refusals, self.refusals = self.refusals, 0
        try:
            read_timeout_ms, connect_timeout_ms = super()._connect(host, hostip, port)
        except ConnectionDropped:
            if self._socket is not None:
                self.refusals = refusals + 1
            raise
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
        now_s = time.monotonic()
        if self._unanswered_since_s is None:
            self._unanswered_since_s = now_s
        elif now_s - self._unanswered_since_s > read_timeout:
            raise ConnectionDropped("the server does not answer")
        super()._send_request(read_timeout, connect_timeout)

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        self._on_watch_event(buffer, offset)


class SessionHandler(SequentialThreadingHandler):
    """Kazoo's thread handler without its two worker threads, which klamm does not need."""

    def __init__(
        self, running: threading.Event, tls: ssl.SSLContext | None, attempt_timeout_s: float
    ) -> None:
        super().__init__()
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
        """Connect, including TLS. Raises OSError, which is kept as ``connection_error``."""
        try:
            connection = socket.create_connection(address, self._attempt_timeout_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                # wrap_socket closes the connection if the handshake fails.
                connection = self._tls.wrap_socket(connection, server_hostname=hostname)
        except OSError as error:
            self.connection_error = error
            raise
        self.connection_error = None
        return connection

    def select(
        self, readers: Any, writers: Any, _: Any, timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Like select.select; kazoo's own version creates and closes an epoll object each time.

        Blocks while the session is suspended, so that not even a ping is sent.
        """
        if self._tls is not None:
            # TLS may have decrypted replies that select cannot see on the socket.
            decrypted = [r for r in readers if isinstance(r, ssl.SSLSocket) and r.pending()]
            if decrypted:
                self._connection_may_run.wait()
                return decrypted, [], []
        poll = select.poll()
        for reader in readers:
            poll.register(reader, select.POLLIN)
        for writer in writers:
            poll.register(writer, select.POLLOUT)
        ready = {fd for fd, _ in poll.poll(None if timeout is None else max(0.0, timeout * 1000))}
        self._connection_may_run.wait()
        return (
            [reader for reader in readers if reader.fileno() in ready],
            [writer for writer in writers if writer.fileno() in ready],
            [],
        )
