"""The cluster's own ZooKeeper session, separate from those of its brokers.

Commands, checks and the ZooKeeper monitor use it. It owns no ephemeral znode.
"""

from __future__ import annotations

from typing import Final

from runtime.cluster_spec import ClusterSpec
from zk.kazoo_session import KazooSession
from zk.kazoo_store import KazooStore
from zk.kazoo_waves import Wait, within
from zk.store import SessionEvent, SessionState, StoreEvent

# Long, because nothing waits for its expiry: a busy machine must not lose the session.
_TIMEOUT_MIN_MS: Final = 30_000
STORE_TIMEOUT_S: Final = 15.0
"""How long a command waits for ZooKeeper."""


class OwnSession:
    """``state``: the session's last reported state."""

    def __init__(self, connect_string: str, spec: ClusterSpec) -> None:
        # A server that hangs counts as lost as soon as the brokers' sessions lose it.
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
        """The zxid of ZooKeeper's last answer."""
        return self._session.last_zxid

    @property
    def refusals(self) -> int:
        """Number of consecutive times that ZooKeeper refused the session."""
        return self._session.refusals

    def store(self, wait: Wait | None = None) -> KazooStore:
        """Return the session as a store whose calls ``wait``; a new session if it expired."""
        store = KazooStore(self._session, wait or within(STORE_TIMEOUT_S))
        if self.state is SessionState.EXPIRED:
            store.reopen()
        return store

    def close(self) -> None:
        """End the session."""
        self._session.close()
