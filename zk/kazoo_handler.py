"""Threads and sockets of one kazoo client: no worker threads, TLS, a connection that can pause.

zk/kazoo_session.py handles the data on the connection.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler


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
                # It closes the connection if the handshake fails.
                connection = self._tls.wrap_socket(connection, server_hostname=hostname)
        except OSError as error:
            self.connection_error = error
            raise
        self.connection_error = None
        return connection

    def select(
        self, readers: Any, writers: Any, _: Any, timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """As select.select; kazoo's own builds and closes an epoll each time.

        It returns only while the session is not suspended, so that not even a ping is sent.
        """
        if self._tls is not None:
            # Replies that TLS has decrypted already: the socket itself may have nothing more.
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
