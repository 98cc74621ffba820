"""ZooKeeper sessions of a real cluster: the brokers' sessions, and one for the cluster itself.

In a small cluster each broker has a separate session; in a large cluster brokers share sessions. A
controller candidate always has a separate session, because its ephemeral znodes (registration and
/controller) must disappear when it dies. Commands, checks and the ZooKeeper monitor use the
cluster's own session, which has no ephemeral znodes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

from klamm.world.cluster_spec import ClusterSpec
from klamm.zk.kazoo_pipeline import Wait, within
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.store import SessionEvent, SessionState, StoreEvent

UNPOOLED_AT_MOST = 40
BROKERS_PER_SESSION = 25


class SessionPool:
    """Opens ZooKeeper sessions for brokers. Shared sessions stay open until ``close``.

    ``newest_zxid`` returns the newest zxid that the cluster has seen. A session does not connect to
    a ZooKeeper server that is behind this zxid.
    """

    def __init__(
        self, connect_string: str, spec: ClusterSpec, newest_zxid: Callable[[], int]
    ) -> None:
        self._connect_string = connect_string
        self._spec = spec
        self._newest_zxid = newest_zxid
        self._shared: dict[int, KazooSession] = {}

    def session_of(self, broker_id: int) -> tuple[KazooSession, bool]:
        """Return a session for this broker, and whether other brokers share it.

        Raises ZooKeeperUnavailable.
        """
        spec = self._spec
        if len(spec.broker_ids) <= UNPOOLED_AT_MOST or spec.is_candidate(broker_id):
            return self._open(), False
        number = broker_id // BROKERS_PER_SESSION
        if number not in self._shared:
            self._shared[number] = self._open()
        return self._shared[number], True

    def close(self) -> None:
        """Close the shared sessions."""
        with contextlib.ExitStack() as stack:
            for session in self._shared.values():
                stack.callback(session.close)
        self._shared.clear()

    def _open(self) -> KazooSession:
        return KazooSession(
            self._connect_string,
            self._spec.session_timeout_ms,
            security=self._spec.zookeeper_security,
            zxid_seen=self._newest_zxid(),
        )


# The timeout is long, because no failover waits for this session to expire, and a busy machine must
# not lose it.
_TIMEOUT_MIN_MS: Final = 30_000
STORE_TIMEOUT_S: Final = 15.0
"""How long commands and checks wait for a response from ZooKeeper."""


class OwnSession:
    """The cluster's own session, without ephemeral znodes. ``state``: its last reported state."""

    def __init__(self, connect_string: str, spec: ClusterSpec) -> None:
        # If a server hangs, this session counts as lost at the same time as the brokers' sessions.
        self._session = KazooSession(
            connect_string,
            max(spec.session_timeout_ms, _TIMEOUT_MIN_MS),
            security=spec.zookeeper_security,
            silence_limit_ms=spec.session_timeout_ms,
        )
        self.state = SessionState.CONNECTED
        self._session.add_listener(self._on_event)

    def _on_event(self, event: StoreEvent) -> None:
        if isinstance(event, SessionEvent):
            self.state = event.state

    @property
    def last_zxid(self) -> int:
        """The zxid in ZooKeeper's most recent response."""
        return self._session.last_zxid

    @property
    def refusals(self) -> int:
        """How many times in succession ZooKeeper has refused the session."""
        return self._session.refusals

    def store(self, wait: Wait | None = None) -> KazooStore:
        """Return a store that uses the session. An expired session is replaced first.

        The store waits for results with ``wait``, by default for up to STORE_TIMEOUT_S."""
        store = KazooStore(self._session, wait or within(STORE_TIMEOUT_S))
        if self.state is SessionState.EXPIRED:
            store.reopen()
        return store

    def close(self) -> None:
        """Close the session."""
        self._session.close()
