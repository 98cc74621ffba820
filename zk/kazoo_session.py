"""One ZooKeeper session: connection, watches, events, and pipelined batches of requests.

The session uses kazoo's connection, handshake, pings and reconnects, but not its request retries,
watch table, worker threads or recipes. Replies and events are processed on the connection's thread
in the order in which the server sent them. Listeners are called on that thread, so they may only
enqueue events.

Mirrors kafka.zookeeper.ZooKeeperClient (connection, reinitialization) and
org.apache.zookeeper.ClientCnxn (requests that are sent first on a new connection).
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from kazoo.client import KazooClient
from kazoo.hosts import collect_hosts
from kazoo.protocol.serialization import CloseInstance
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry

from klamm.cluster.errors import StoreError, UsageError, ZooKeeperUnavailable
from klamm.zk.data_tree import is_valid
from klamm.zk.kazoo_connection import KazooConnection, LinkCut, SessionHandler, attempt_timeout_s
from klamm.zk.kazoo_pipeline import Completion, PipelinedBatch, Wait, block, unless_lost
from klamm.zk.kazoo_watches import WatchTable
from klamm.zk.kazoo_wire import Chroot, Multi, ZooKeeperRequest, read_watch_event
from klamm.zk.security import UNSECURED, ZooKeeperSecurity, zookeeper_tls_failure
from klamm.zk.store import (
    Create,
    Delete,
    ResultCode,
    SessionEvent,
    SessionState,
    StoreEvent,
    StoreListener,
    WatchEvent,
    WatchKind,
)

CONNECTION_TIMEOUT_MS: Final = 15_000
CLOSE_TIMEOUT_MS: Final = 5_000
_RECONNECT_FIRST_DELAY_S: Final = 0.05
_RECONNECT_MAX_DELAY_S: Final = 0.5
_GONE: Final = (KeeperState.CLOSED, KeeperState.EXPIRED_SESSION, KeeperState.AUTH_FAILED)
_WATCH_KINDS: Final = {int(kind.value): kind for kind in WatchKind}

_log = logging.getLogger(__name__)
# Kazoo logs a warning for each lost connection and failed attempt; klamm has events for them.
_kazoo_log = logging.getLogger(f"{__name__}.kazoo")
_kazoo_log.setLevel(logging.ERROR)


class KazooSession:
    """ZooKeeper session that any number of KazooStores may share. Thread-safe."""

    def __init__(
        self,
        connect_string: str,
        session_timeout_ms: int,
        connection_timeout_ms: int = CONNECTION_TIMEOUT_MS,
        security: ZooKeeperSecurity = UNSECURED,
        *,
        silence_limit_ms: int | None = None,
        zxid_seen: int = 0,
        lost_limit_ms: int | None = None,
    ) -> None:
        """Connect to ``host:port[,host:port][/chroot]``.

        - ``silence_limit_ms``: how long a server may send nothing before the connection is dropped
          (see KazooConnection); by default the session timeout.
        - ``zxid_seen``: a zxid that this ZooKeeper cluster has reached. A server that has not yet
          reached this zxid rejects the session.
        - ``lost_limit_ms``: calls raise ZooKeeperUnavailable if the connection has been lost for
          this time. If it is None, calls wait until ZooKeeper is back.

        Raises UsageError for a malformed connect string or unusable TLS files, and
        ZooKeeperUnavailable if no server responds within ``connection_timeout_ms``.
        """
        self.security = security
        self._tls = None if security.tls is None else security.tls.context()
        self._hosts, self.chroot = parse_address(connect_string)
        self._session_timeout_ms = session_timeout_ms
        self._silence_limit_ms = silence_limit_ms or session_timeout_ms
        self.wait: Wait = block
        if lost_limit_ms is not None:
            self.wait = unless_lost(lost_limit_ms / 1000, lambda: bool(self._client.connected))
        self._listeners: tuple[StoreListener, ...] = ()
        self._lock = threading.Lock()
        self._held: list[PipelinedBatch] = []
        self._dead: ResultCode | None = ResultCode.SESSIONEXPIRED
        self._closed = False
        self._running = threading.Event()
        self._running.set()
        self._link = LinkCut()
        self.session_id = 0
        self.watches = WatchTable()
        self.has_multi_read: bool | None = None
        self._opening = Completion()
        self._zxid_seen = zxid_seen
        self._client = self._new_client()
        self._client.start_async()
        if not self._opening.wait(connection_timeout_ms / 1000):
            self.abandon()
            error = self._client.handler.connection_error
            if isinstance(error, ssl.SSLError | ConnectionResetError) and self._tls is not None:
                raise zookeeper_tls_failure(self._hosts, error)
            unknown = "" if self._client._connection.is_resolved else ": unknown host"
            raise ZooKeeperUnavailable(
                f"no ZooKeeper server responds at {self._hosts} within {connection_timeout_ms} ms"
                f"{unknown}",
                hint="start it, or name another server with --zookeeper host:port/chroot",
            )

    @property
    def last_zxid(self) -> int:
        """Zxid of the last reply, or 0 if there was none.

        Later reads see all transactions up to this zxid.
        """
        return max(int(self._client.last_zxid), self._zxid_seen)

    @property
    def is_zxid_current(self) -> bool:
        """True if ``last_zxid`` comes from a reply in the current session.

        Creating a session is a transaction, so the first reply in a session has a higher zxid than
        all earlier replies.
        """
        return int(self._client.last_zxid) > self._zxid_seen

    @property
    def refusals(self) -> int:
        """Number of consecutive connections that servers closed without accepting the session."""
        return int(self._client._connection.refusals)

    def add_listener(self, listener: StoreListener) -> None:
        """Call ``listener``, which must not block, for every event on the connection's thread."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def remove_listener(self, listener: StoreListener) -> None:
        """Stop calling ``listener``."""
        with self._lock:
            self._listeners = tuple(known for known in self._listeners if known != listener)

    def run(
        self, requests: Sequence[ZooKeeperRequest], repeat: bool, wait: Wait | None = None
    ) -> None:
        """Send ``requests`` as a pipelined batch, and wait for all replies.

        If the connection is lost, ``repeat`` decides about requests without a reply: if True, they
        are sent again on the next connection; if False, they fail with CONNECTIONLOSS once the
        session is connected again. If the session is over, all requests without a reply fail with
        SESSIONEXPIRED or AUTHFAILED.
        """
        if not requests:
            return
        batch = PipelinedBatch(requests, repeat, self._batch_completed)
        self._send(batch, requests)
        (wait or self.wait)(batch)
        for request in requests:
            if request.error is not None:
                raise request.error

    def reopen(self, wait: Wait = block) -> None:
        """If the session is over, open a new session, and wait until it is connected or closed."""
        with self._lock:
            opening = self._opening
            mine = opening.done and self._dead is not None and not self._closed
            if mine:
                opening = self._opening = Completion()
        if mine:
            # All requests of the old session must end before a new one starts: otherwise a lost
            # request might be sent again in the new session.
            _drop(self._client)
            with self._lock:
                if self._closed:
                    return
                self._client = self._new_client()
                self._client.start_async()
        wait(opening)

    def create_chroot(self) -> list[str]:
        """Create the missing znodes of the chroot, with null data as Kafka does; return them."""
        root, path, created = Chroot(""), "", list[str]()
        for name in filter(None, self.chroot.path.split("/")):
            path = f"{path}/{name}"
            code = ResultCode.CONNECTIONLOSS
            while code is ResultCode.CONNECTIONLOSS:
                request = Multi([Create(path, None)], root, sets_acls=self.security.sets_acls)
                self.run([request], repeat=False)
                code = request.result().code
            if code not in (ResultCode.OK, ResultCode.NODEEXISTS):
                raise StoreError(
                    f"cannot create the chroot {path}: {code.name}", definite=code.is_definite
                )
            if code is ResultCode.OK:
                created.append(path)
        return created

    def delete_chroot(self, created: Sequence[str]) -> None:
        """Delete the znodes that ``create_chroot`` created, unless others use them."""
        for path in reversed(created):
            request = Multi([Delete(path)], Chroot(""))
            self.run([request], repeat=False)
            if request.result().code is not ResultCode.OK:
                return

    def suspend(self) -> None:
        """Stall the connection, as a long GC pause would: nothing is sent or read."""
        self._running.clear()

    def resume(self) -> None:
        """End a stall. If the session has expired in the meantime, listeners are then notified."""
        self._running.set()

    def cut(self, *, is_mute: bool, is_deaf: bool) -> None:
        """Lose what the client sends (``is_mute``) or receives (``is_deaf``), until the next call.

        No connection can be opened meanwhile. The client drops a silent connection after two thirds
        of the session timeout."""
        self._link.is_mute, self._link.is_deaf = is_mute, is_deaf

    def close(self) -> None:
        """End the session, which deletes the session's ephemeral znodes, and free all resources."""
        client = self._begin_to_close()
        if client.connected:
            client._stopped.set()
            client._queue.append((CloseInstance, None))
            _wake(client)
            client._connection.connection_stopped.wait(CLOSE_TIMEOUT_MS / 1000)
        _drop(client)

    def abandon(self) -> None:
        """Drop the connection without ending the session, as if the process had been killed."""
        _drop(self._begin_to_close())

    def _begin_to_close(self) -> KazooClient:
        with self._lock:
            self._closed = True
            self._listeners = ()
            self._running.set()
            self._opening.finish()
            return self._client

    def _new_client(self) -> KazooClient:
        hosts, _ = collect_hosts(self._hosts)
        client = KazooClient(
            hosts=self._hosts,
            timeout=self._session_timeout_ms / 1000,
            handler=SessionHandler(
                self._running,
                self._tls,
                attempt_timeout_s(self._session_timeout_ms, len(hosts)),
                self._link,
            ),
            auth_data=[("digest", digest)] if (digest := self.security.digest) else [],
            connection_retry=KazooRetry(
                max_tries=-1,
                delay=_RECONNECT_FIRST_DELAY_S,
                max_delay=_RECONNECT_MAX_DELAY_S,
            ),
            logger=_kazoo_log,
        )
        client.last_zxid = self._zxid_seen
        KazooConnection(client, self._silence_limit_ms, self._on_watch_event)
        client.add_listener(lambda state: self._on_client_state(client, state))
        return client

    def _send(self, batch: PipelinedBatch, requests: Sequence[ZooKeeperRequest]) -> None:
        batch.sending(len(requests))
        dead, client = self._dead, self._client
        for request in requests:
            if dead is None:
                client._call(request, request)
            else:
                request.complete(dead, None)
        if client.client_state in _GONE:
            # Kazoo has discarded its queue: requests added since then would wait forever.
            for request in requests:
                request.complete(self._dead or ResultCode.SESSIONEXPIRED, None)

    def _batch_completed(self, batch: PipelinedBatch) -> None:
        if not batch.lost():
            batch.finish()
            return
        with self._lock:
            # Kazoo changes its state before it fails lost requests and before it notifies
            # listeners of a connection. So a batch is either held here in time, or continues.
            if self._dead is None and self._client.client_state != KeeperState.CONNECTED:
                self._held.append(batch)
                return
        self._resume(batch)

    def _resume(self, batch: PipelinedBatch) -> None:
        lost, dead = batch.lost(), self._dead
        if dead is None and batch.repeat:
            for request in lost:
                request.forget()
            self._send(batch, lost)
            return
        if dead is not None:
            for request in lost:
                request.code = dead
        batch.finish()

    def _on_client_state(self, client: KazooClient, state: str) -> None:
        # Kazoo would only log an error here, and then wait forever.
        with _failure_reported():
            self._on_state(client, state)

    def _on_state(self, client: KazooClient, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._on_connected(client)
        elif state == KazooState.SUSPENDED:
            self.watches.disconnected(client.last_zxid)
            self._dispatch(SessionEvent(SessionState.DISCONNECTED))
        else:
            self._on_lost(client)

    def _on_connected(self, client: KazooClient) -> None:
        # Any other reply would advance last_zxid past missed changes: SetWatches must go first.
        for request in reversed(self.watches.rearm(self.chroot)):
            client._queue.appendleft((request, request))
            _wake(client)
        with self._lock:
            self._dead = None
            self.session_id = client._session_id
            held, self._held = self._held, []
            self._opening.finish()
        self._dispatch(SessionEvent(SessionState.CONNECTED))
        for batch in held:
            self._resume(batch)

    def _on_lost(self, client: KazooClient) -> None:
        auth_failed = client.client_state == KeeperState.AUTH_FAILED
        # Otherwise kazoo would open a new session on its own.
        client._stopped.set()
        self.watches.clear()
        # Kazoo forgets the zxid here; a later session must not start on a server that lost data.
        self._zxid_seen = self.last_zxid
        with self._lock:
            self._dead = ResultCode.AUTHFAILED if auth_failed else ResultCode.SESSIONEXPIRED
            held, self._held = self._held, []
        self._dispatch(
            SessionEvent(SessionState.AUTH_FAILED if auth_failed else SessionState.EXPIRED)
        )
        for batch in held:
            self._resume(batch)

    def _on_watch_event(self, buffer: bytes, offset: int) -> None:
        number, full_path = read_watch_event(buffer, offset)
        kind = _WATCH_KINDS.get(number)
        if kind is None:
            _log.error("ZooKeeper sent an event of unknown type %d for %s", number, full_path)
            return
        path = self.chroot.strip(full_path)
        if self.watches.fired(kind, path):
            self._dispatch(WatchEvent(kind, path))

    def _dispatch(self, event: StoreEvent) -> None:
        for listener in self._listeners:
            with _failure_reported():
                listener(event)


@contextlib.contextmanager
def _failure_reported() -> Iterator[None]:
    """Context manager that reports an exception to threading.excepthook instead of raising it.

    The connection's thread continues after the exception.
    """
    try:
        yield
    except Exception as error:
        args = (type(error), error, error.__traceback__, threading.current_thread())
        threading.excepthook(threading.ExceptHookArgs(args))


def parse_address(connect_string: str) -> tuple[str, Chroot]:
    """Return the servers and the chroot of a ZooKeeper address. Raises UsageError if invalid."""
    try:
        hosts, chroot = collect_hosts(connect_string)
    except ValueError:
        hosts, chroot = [], None
    has_space = any(character.isspace() for character in connect_string.partition("/")[0])
    if not hosts or has_space or not all(_is_host_name(host) for host, _ in hosts):
        raise UsageError(
            f"not a ZooKeeper address: {connect_string!r}",
            hint="write host:port, host:port,host:port or host:port/chroot",
        )
    path = (chroot or "").rstrip("/")
    if path and not is_valid(path):
        raise UsageError(f"not a ZooKeeper chroot: {path!r} is not a valid znode path")
    return connect_string.partition("/")[0], Chroot(path)


def _is_host_name(text: str) -> bool:
    try:
        text.encode("idna")  # as socket.getaddrinfo does
    except UnicodeError:
        return False
    return True


def _wake(client: KazooClient) -> None:
    client._connection._write_sock.send(b"\0")


def _drop(client: KazooClient) -> None:
    """Stop the connection's thread, even if it is blocked, and close its sockets."""
    connection = client._connection
    client._stopped.set()
    client.handler.stop()
    # Repeatedly, because the thread may be opening a socket at this moment.
    while not connection.connection_stopped.wait(0.02):
        with contextlib.suppress(OSError, AttributeError, TypeError):
            # Not SSLSocket's own, which removes the TLS state that the reading thread still uses.
            socket.socket.shutdown(connection._socket, socket.SHUT_RDWR)
    connection.stop()
    connection.close()
