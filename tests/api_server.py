"""The HTTP API of an open cluster on a real socket, as `klamm up` serves it."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
import time
from typing import Any

import msgspec

from klamm.server.cluster_server import ClusterServer
from klamm.server.http_protocol import HEADER_TIMEOUT_S, WRITE_TIMEOUT_S
from klamm.server.serve import http_server, listen


class ApiServer:
    """Serves on a thread until ``close``."""

    def __init__(
        self,
        server: ClusterServer,
        header_timeout_s: float = HEADER_TIMEOUT_S,
        write_timeout_s: float = WRITE_TIMEOUT_S,
    ) -> None:
        self._listener = listen("127.0.0.1", 0)
        self.port: int = self._listener.getsockname()[1]
        self._http = http_server(server, header_timeout_s, write_timeout_s)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._http.serve([self._listener]))
        )
        self._thread.start()

    def connect(self) -> http.client.HTTPConnection:
        """A connection of one client."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def exchange(self, *parts: bytes) -> bytes:
        """Send bytes as they are; all that comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            answered = b""
            for part in parts:
                connection.sendall(part)
            while received := connection.recv(1 << 16):
                answered += received
            return answered

    def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
        """Status and value of an answer."""
        connection = self.connect()
        connection.request(method, path, body)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        is_json = response.getheader("content-type") == "application/json"
        return response.status, msgspec.json.decode(content) if is_json else content.decode()

    def post(self, path: str, body: object) -> Any:
        """The value of an answer to a request that must succeed."""
        status, value = self.request("POST", path, msgspec.json.encode(body))
        assert status == http.client.OK, value
        return value

    def status_s(self) -> float:
        """How long the cluster's status takes."""
        begun_s = time.monotonic()
        status, _ = self.request("GET", "/status")
        assert status == http.client.OK
        return time.monotonic() - begun_s

    @property
    def open_connections(self) -> int:
        """How many connections there are."""
        return len(self._http.server_state.connections)

    @property
    def is_waiting_for_a_reader(self) -> bool:
        """Whether the buffer of an answer is full."""
        return any(one.flow.write_paused for one in list(self._http.server_state.connections))

    @property
    def open_requests(self) -> int:
        """How many requests are being answered."""
        return len(self._http.server_state.tasks)

    def close(self) -> None:
        """End it."""
        self._http.should_exit = True
        self._thread.join()
        self._listener.close()
