"""Listening ports of the running brokers of a cluster.

One thread with an event loop serves all connections. A broker's ports are open exactly while the
broker runs: they close, with all connections, when the broker is killed or stopped. A paused broker
accepts requests and does not answer. Mirrors kafka.network.SocketServer.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Final, NamedTuple

from klamm.admin.configs.scram_credentials import SCRAM_MECHANISMS
from klamm.admin.kafka_admin import ListenerAdmin
from klamm.cluster.errors import EnvironmentProblem, WrongState
from klamm.cluster.requests import Address
from klamm.cluster.types import host_and_port
from klamm.wire.config import listener_config
from klamm.wire.connection import Connection, ConnectionLost, Served
from klamm.wire.frames import InvalidRequestFrame
from klamm.wire.listener_security import (
    UNSECURED,
    ListenerSecurity,
    TlsHandshakeFailed,
    handshake_failed,
)
from klamm.wire.request_memory import RequestMemory
from klamm.wire.request_metrics import RequestMetrics
from klamm.wire.sasl import AuthenticationFailed, PlainServer, SaslAuthenticator, SaslServer
from klamm.wire.scram import ScramServer, StoredCredentials
from klamm.world.real.cluster import RealCluster

HANDSHAKE_S: Final = 30.0
"""How long a TLS handshake may take."""
WARNING_INTERVAL_S: Final = 1.0
LONGEST_WARNING_INTERVAL_S: Final = 60.0
_WARNING_TEXTS_MAX: Final = 100

logger = logging.getLogger(__name__)


class Listener(NamedTuple):
    """A listener of every broker. ``place`` returns the host and port on which a broker listens."""

    name: str
    place: Callable[[int], tuple[str, int]]
    security: ListenerSecurity = UNSECURED


@dataclass(slots=True)
class _Repeated:
    interval_s: float
    next_s: float = 0.0
    not_logged: int = 0


class ConnectionWarnings:
    """Decides which warnings about closed connections are logged, so that no client fills the log.

    At most one is logged in each WARNING_INTERVAL_S. If one is repeated, its intervals double up to
    LONGEST_WARNING_INTERVAL_S, until it has not been repeated for that long.
    """

    def __init__(self) -> None:
        self._next_s = 0.0
        self._by_text: dict[str, _Repeated] = {}

    def to_log(self, text: str, now_s: float) -> str | None:
        """Return the text to log, with the number of times that it was not; None for nothing."""
        one = self._by_text.get(text)
        if one is None:
            if len(self._by_text) >= _WARNING_TEXTS_MAX:
                self._by_text.clear()
            one = self._by_text[text] = _Repeated(WARNING_INTERVAL_S)
        elif now_s >= one.next_s + LONGEST_WARNING_INTERVAL_S:
            one.interval_s = WARNING_INTERVAL_S
        if now_s < max(one.next_s, self._next_s):
            one.not_logged += 1
            return None
        more = f" (and {one.not_logged} more)" if one.not_logged else ""
        one.not_logged = 0
        one.next_s = now_s + one.interval_s
        one.interval_s = min(2 * one.interval_s, LONGEST_WARNING_INTERVAL_S)
        self._next_s = now_s + WARNING_INTERVAL_S
        return f"{text}{more}"


class Listeners:
    """The ``listeners`` of a cluster, from ``open`` to ``close``.

    ``new_address`` returns an address on the cluster's transport that no other client has, and
    ``admin`` is the cluster's admin client. ``metrics`` are the metrics of all listeners.
    """

    loop: asyncio.AbstractEventLoop
    _thread: threading.Thread
    _memory: RequestMemory

    def __init__(
        self,
        cluster: RealCluster,
        listeners: Sequence[Listener],
        new_address: Callable[[], Address],
        admin: ListenerAdmin,
    ) -> None:
        self._cluster = cluster
        self._listeners = listeners
        self._admin = admin
        self._new_address = new_address
        self._credentials = StoredCredentials(admin)
        self._config = listener_config(cluster.spec.config)
        self.metrics = RequestMetrics()
        # Used only on the event loop's thread.
        self._sockets: dict[int, list[socket.socket]] = {}
        self._connections: dict[int, set[asyncio.Task[None]]] = {}
        self._by_host: Counter[tuple[int, str]] = Counter()
        self._warnings = ConnectionWarnings()
        self._many_elements: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    def open(self) -> None:
        """Begin to open and close ports as brokers start and stop."""
        for listener in self._listeners:
            self._check_users(listener)
        self.loop = asyncio.new_event_loop()
        self._memory = RequestMemory(self._config.socket_request_max_bytes)
        self._thread = threading.Thread(target=self.loop.run_forever, name="listeners")
        self._thread.start()
        self._cluster.nodes.on_change = self._on_change

    def close(self) -> None:
        """Close all ports and connections, and end the thread."""
        self._cluster.nodes.on_change = None
        asyncio.run_coroutine_threadsafe(self._close_all(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def _check_users(self, listener: Listener) -> None:
        """Warn if no user can log in yet."""
        mechanisms, users = listener.security.mechanisms, listener.security.plain_users
        if not mechanisms or (users and "PLAIN" in mechanisms):
            return
        if not SCRAM_MECHANISMS.keys().isdisjoint(mechanisms) and self._credentials.has_any():
            return
        logger.warning(
            "no user can log in to the listener %s, because none is defined for %s: name a file "
            "of users in klamm.sasl.plain.users.location, or add users of SCRAM with klamm configs",
            listener.name,
            ", ".join(mechanisms),
        )

    # -- brokers

    def _on_change(self, broker_id: int, is_running: bool) -> None:
        """Open or close a broker's ports and wait until that is done; called on any thread."""
        change = self._open_ports(broker_id) if is_running else self._close_ports(broker_id)
        asyncio.run_coroutine_threadsafe(change, self.loop).result()

    async def _open_ports(self, broker_id: int) -> None:
        sockets = self._sockets[broker_id] = []
        for listener in self._listeners:
            try:
                opened = _listen(listener, broker_id)
            except OSError as error:
                logger.error("broker %d has no listener %s: %s", broker_id, listener.name, error)
            else:
                sockets.append(opened)
                self.loop.add_reader(opened, self._accept, broker_id, listener, opened)

    async def _close_ports(self, broker_id: int) -> None:
        for opened in self._sockets.pop(broker_id, ()):
            self.loop.remove_reader(opened)
            opened.close()
        tasks = self._connections.pop(broker_id, set())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _close_all(self) -> None:
        for broker_id in list(self._sockets):
            await self._close_ports(broker_id)

    # -- connections

    def _accept(self, broker_id: int, listener: Listener, opened: socket.socket) -> None:
        """Accept a connection. asyncio.Server would lose one that arrives while it closes."""
        try:
            client, (host, *_) = opened.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            logger.error("broker %d accepts no connection for a second: %s", broker_id, error)
            self.loop.remove_reader(opened)
            self.loop.call_later(1, self._accept_again, broker_id, listener, opened)
            return
        tasks = self._connections.setdefault(broker_id, set())
        config, place = self._config, (broker_id, host)
        if (
            len(tasks) >= config.max_connections
            or self._by_host[place] >= config.max_connections_per_ip
        ):
            client.close()
            return
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        task = self.loop.create_task(self._serve(broker_id, listener, client, host))
        tasks.add(task)
        self._by_host[place] += 1
        self.metrics.connections.labels(broker_id).inc()
        task.add_done_callback(partial(self._end, place, tasks, client))

    def _end(
        self,
        place: tuple[int, str],
        tasks: set[asyncio.Task[None]],
        client: socket.socket,
        task: asyncio.Task[None],
    ) -> None:
        """Release a connection, even if its task was cancelled before it began."""
        tasks.discard(task)
        self._by_host[place] -= 1
        if not self._by_host[place]:
            del self._by_host[place]
        self.metrics.connections.labels(place[0]).dec()
        client.close()

    def _accept_again(self, broker_id: int, listener: Listener, opened: socket.socket) -> None:
        if opened in self._sockets.get(broker_id, ()):
            self.loop.add_reader(opened, self._accept, broker_id, listener, opened)

    async def _serve(
        self, broker_id: int, listener: Listener, client: socket.socket, host: str
    ) -> None:
        """Answer a client's requests until the client hangs up or the broker stops.

        ``host``: the client's IP address.
        """
        transport, address = self._cluster.transport, self._new_address()
        try:
            running = self._cluster.running(broker_id)
            broker, controller = running.node.broker, running.node.controller
            served = Served(
                broker_id,
                listener.name,
                broker.cluster_id or "",
                controller is not None,
                self._config,
                self._memory,
                self.metrics,
                self._many_elements[broker_id],
            )
            reader, writer = await self._opened(client, listener.security.tls)
            connection = Connection(served, address, transport, self._admin, host)
            transport.register(address, connection.receive, notify_disconnects=True)
            try:
                await connection.serve(reader, writer, self._authenticator(listener.security))
            finally:
                writer.transport.abort()
        except InvalidRequestFrame as error:
            self._warn(broker_id, str(error))
        except TlsHandshakeFailed as error:
            self.metrics.failed_authentications.labels(broker_id).inc()
            self._warn(broker_id, f"TLS handshake with {host} failed: {error}")
        except AuthenticationFailed as error:
            self.metrics.failed_authentications.labels(broker_id).inc()
            reason = str(error).removeprefix("Authentication failed: ")
            self._warn(broker_id, f"authentication of {host} failed: {reason}")
        except (ConnectionLost, OSError, TimeoutError, WrongState):
            pass  # the broker stopped, or the client is gone
        finally:
            transport.unregister(address)

    def _authenticator(self, security: ListenerSecurity) -> SaslAuthenticator | None:
        """Return what authenticates the client of a new connection, or None without SASL."""
        if not security.mechanisms:
            return None
        servers: dict[str, Callable[[], SaslServer]] = {
            "PLAIN": partial(PlainServer, security.plain_users)
        }
        for name, one in SCRAM_MECHANISMS.items():
            servers[name] = partial(ScramServer, one, partial(self._credentials.find, one))
        return SaslAuthenticator({name: servers[name] for name in security.mechanisms})

    def _warn(self, broker_id: int, why: str) -> None:
        text = self._warnings.to_log(why, self.loop.time())
        if text is not None:
            logger.warning("broker %d closed a connection: %s", broker_id, text)

    async def _opened(
        self, client: socket.socket, tls: ssl.SSLContext | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the streams of a new connection, after its TLS handshake.

        Raises TlsHandshakeFailed, and OSError if the client is gone.
        """
        reader = asyncio.StreamReader(loop=self.loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self.loop)
        limit_s = None if tls is None else HANDSHAKE_S
        try:
            transport, _ = await self.loop.connect_accepted_socket(
                lambda: protocol, client, ssl=tls, ssl_handshake_timeout=limit_s
            )
        except (ssl.SSLError, ConnectionAbortedError) as error:
            raise handshake_failed(error) from error
        return reader, asyncio.StreamWriter(transport, protocol, reader, self.loop)


def check_ports(listeners: Iterable[Listener], broker_ids: Iterable[int]) -> None:
    """Raise EnvironmentProblem if the port of a broker cannot be used."""
    for broker_id, listener in product(broker_ids, listeners):
        try:
            _listen(listener, broker_id).close()
        except OSError as error:
            raise _unusable(listener, broker_id, error) from error


def _unusable(listener: Listener, broker_id: int, error: OSError) -> EnvironmentProblem:
    host, port = listener.place(broker_id)
    hint = f"{host} is no address of this machine: choose another host"
    if error.errno in (errno.EADDRINUSE, errno.EACCES):
        hint = "choose another port"
    reason, *_ = (error.strerror or "").partition(" (while ")  # which repeats the address
    return EnvironmentProblem(
        f"broker {broker_id} cannot listen on {host_and_port(host, port)}: {reason}", hint=hint
    )


def _listen(listener: Listener, broker_id: int) -> socket.socket:
    place = listener.place(broker_id)
    family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
    opened = socket.create_server(place, family=family)
    opened.setblocking(False)
    return opened
