"""HTTP/1.1 protocol of one connection, with limits that uvicorn lacks.

A connection is closed if the client does not send a complete request header in time, or does not
read the response: otherwise a client that transfers a byte now and then could hold a connection
forever. Connections above the limit are closed at once. The response to data that is not HTTP is a
JSON error, as for every other error.
"""

from __future__ import annotations

import asyncio
import http
from typing import Any, Final

import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from klamm.cluster.errors import UsageError
from klamm.tools.command_result import ErrorAnswer, describe_error

MAX_CONNECTIONS: Final = 1_000
MAX_REQUESTS: Final = 900
"""Concurrent requests above this limit get status 503.

The limit is less than MAX_CONNECTIONS, so that a connection is left for sending the 503.
"""
MAX_HEADER_BYTES: Final = 1 << 16
HEADER_TIMEOUT_S: Final = 10.0
WRITE_TIMEOUT_S: Final = 30.0
KEEP_ALIVE_S: Final = 5


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, with a limit on connections and timeouts for headers and responses."""

    def __init__(
        self,
        *args: Any,
        header_timeout_s: float = HEADER_TIMEOUT_S,
        write_timeout_s: float = WRITE_TIMEOUT_S,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._header_timeout_s = header_timeout_s
        self._header_timer: asyncio.TimerHandle | None = None
        self._write_timeout_s = write_timeout_s
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the header timeout, or abort the connection if too many are open."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
            return
        self._await_header()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of a closed connection."""
        self._await_no_header()
        self._cancel_write_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the write timeout: the buffer is full because the client does not read."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self._write_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Cancel the write timeout: the buffer has drained."""
        self._cancel_write_timer()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, which may be part of a request or several requests."""
        try:
            super().data_received(data)
        except UnicodeDecodeError:
            self.send_400_response("the path has bytes that must be percent-encoded (%XX)")
        if self._is_answering():
            self._await_no_header()
        elif self._header_timer is None:
            self._await_header()

    def on_response_complete(self) -> None:
        """Restart the header timeout if part of the next request has already arrived."""
        super().on_response_complete()
        if not self._is_answering() and self.conn.trailing_data[0] and self._header_timer is None:
            self._await_header()

    def send_400_response(self, msg: str) -> None:
        """Respond with status 400 to data that is not HTTP/1.1."""
        self._refuse(http.HTTPStatus.BAD_REQUEST, msg)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_header(self) -> None:
        self._header_timer = self.loop.call_later(self._header_timeout_s, self._on_header_timeout)

    def _await_no_header(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _cancel_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _on_header_timeout(self) -> None:
        self._header_timer = None
        if not self._is_answering():
            self._refuse(
                http.HTTPStatus.REQUEST_TIMEOUT,
                f"no complete request header arrived within {self._header_timeout_s:g} s",
            )

    def _refuse(self, status: http.HTTPStatus, message: str) -> None:
        if self.transport.is_closing():
            return
        body = msgspec.json.encode(ErrorAnswer(describe_error(UsageError(message))))
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        # If a response has begun, the client would read the error as part of that response.
        if not self._is_answering():
            self.transport.write(head.encode() + body)
        self.transport.close()
