"""A listening port for each running broker of a cluster.

One thread with an event loop serves all connections. A broker's port is open exactly while the
broker runs: it closes, with all connections, when the broker is killed or stopped. A paused broker
accepts requests and does not answer. Mirrors kafka.network.SocketServer.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from typing import Final

from klamm.cluster.errors import EnvironmentProblem
from klamm.cluster.requests import Address
from klamm.runtime.real.cluster import RealCluster
from klamm.wire.connection import Connection, ConnectionLost, Served
from klamm.wire.frames import InvalidRequestFrame

logger = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 1_000
"""Maximum number of connections to one broker; further ones are closed at once."""


class Listeners:
    """The listeners of a cluster, from ``open`` to ``close``.

    Each broker listens where its first end point says. ``new_address`` returns an address on the
    cluster's transport that no other client has.
    """

    _loop: asyncio.AbstractEventLoop
    _thread: threading.Thread

    def __init__(self, cluster: RealCluster, new_address: Callable[[], Address]) -> None:
        self._cluster = cluster
        self._new_address = new_address
        # Used only on the event loop's thread.
        self._servers: dict[int, asyncio.Server] = {}
        self._connections: dict[int, set[asyncio.Task[None]]] = {}

    def open(self) -> None:
        """Begin to open and close ports as brokers start and stop.

        Raises EnvironmentProblem if a port cannot be used.
        """
        for broker_id in self._cluster.spec.broker_ids:
            self._check_port(broker_id)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="listeners")
        self._thread.start()
        self._cluster.nodes.on_change = self._on_change

    def close(self) -> None:
        """Close all ports and connections, and end the thread."""
        self._cluster.nodes.on_change = None
        asyncio.run_coroutine_threadsafe(self._close_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _check_port(self, broker_id: int) -> None:
        host, port = self._place(broker_id)
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                raise EnvironmentProblem(
                    f"broker {broker_id} cannot listen on {host}:{port}: {error.strerror}",
                    hint="choose another first port with --listen",
                ) from error

    def _place(self, broker_id: int) -> tuple[str, int]:
        end_point = self._cluster.spec.broker_info(broker_id).end_points[0]
        return end_point.host, end_point.port

    # -- brokers

    def _on_change(self, broker_id: int, is_running: bool) -> None:
        """Open or close a broker's port and wait until that is done; called on any thread."""
        change = self._open_port(broker_id) if is_running else self._close_port(broker_id)
        asyncio.run_coroutine_threadsafe(change, self._loop).result()

    async def _open_port(self, broker_id: int) -> None:
        host, port = self._place(broker_id)
        try:
            self._servers[broker_id] = await asyncio.start_server(
                lambda reader, writer: self._on_connection(broker_id, reader, writer), host, port
            )
        except OSError as error:
            logger.error("broker %d cannot listen on %s:%d: %s", broker_id, host, port, error)

    async def _close_port(self, broker_id: int) -> None:
        server = self._servers.pop(broker_id, None)
        if server is not None:
            server.close()
        for task in self._connections.pop(broker_id, ()):
            task.cancel()

    async def _close_all(self) -> None:
        tasks = [task for tasks in self._connections.values() for task in tasks]
        for broker_id in list(self._servers):
            await self._close_port(broker_id)
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- connections

    async def _on_connection(
        self, broker_id: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        tasks = self._connections.setdefault(broker_id, set())
        assert task is not None
        tasks.add(task)
        address = self._new_address()
        try:
            running = self._cluster.nodes.get(broker_id)
            if running is None or len(tasks) > MAX_CONNECTIONS:
                return
            node = running.node
            served = Served(broker_id, node.broker.cluster_id or "", node.controller is not None)
            client_host = writer.get_extra_info("peername")[0]
            connection = Connection(served, address, self._cluster.transport, client_host)
            self._cluster.transport.register(address, connection.receive, notify_disconnects=True)
            await connection.serve(reader, writer)
        except InvalidRequestFrame as error:
            logger.warning("broker %d closed a connection: %s", broker_id, error)
        except (asyncio.CancelledError, ConnectionLost, ConnectionError, TimeoutError):
            pass  # the broker stopped, or the client is gone
        finally:
            self._cluster.transport.unregister(address)
            tasks.discard(task)
            writer.transport.abort()
