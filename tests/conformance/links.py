"""A store, the connection under it, and somebody else's store: what the reconnect cases need.

One class for each backend, with the same methods, so that the cases cannot tell them apart.
"""

from __future__ import annotations

from typing import Protocol

from kazoo.client import KazooClient

from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.store import Exists, SessionEvent, SessionState, Store, StoreEvent, WatchEvent
from tests.fault_proxy import FaultProxy
from tests.waiting import wait_until

SESSION_TIMEOUT_MS = 30_000


class Link(Protocol):
    """``store`` is under test; ``other`` has a session and a connection of its own.

    ``base`` goes before every path, and exists.
    """

    base: str
    store: Store
    other: Store
    events: list[StoreEvent]

    def disconnect(self) -> None:
        """Cut the connection, and keep it cut."""

    def reconnect(self) -> None:
        """Let the store connect again, and wait until it has."""

    def lose_reply(self, replies_before: int = 0) -> None:
        """Cut instead of delivering the next answer but ``replies_before``; then let it connect."""

    def expire(self) -> None:
        """Have the server end the store's session, and wait until the store knows."""

    def close(self) -> None:
        """Free everything."""


def watch_events(link: Link) -> list[WatchEvent]:
    """Every watch event so far; an event the server sent before now is among them."""
    link.store.read([Exists("/")])
    return [event for event in link.events if isinstance(event, WatchEvent)]


def session_states(link: Link) -> list[SessionState]:
    """Every session event so far."""
    return [event.state for event in link.events if isinstance(event, SessionEvent)]


class KazooLink:
    """A KazooStore through a proxy, under a chroot or with none."""

    def __init__(self, server_port: int, chroot: str, base: str) -> None:
        self.base = base
        self._direct = f"127.0.0.1:{server_port}{chroot}"
        self.proxy = FaultProxy(server_port)
        self.session = KazooSession(self.proxy.address + chroot, SESSION_TIMEOUT_MS)
        self.store: Store = KazooStore(self.session)
        self.other: Store = KazooStore(KazooSession(self._direct, SESSION_TIMEOUT_MS))
        self.events: list[StoreEvent] = []
        self.store.add_listener(self.events.append)

    def disconnect(self) -> None:
        """Cut, and refuse new connections."""
        self.proxy.down()
        self._wait_for(SessionState.DISCONNECTED)

    def reconnect(self) -> None:
        """Accept connections again."""
        seen = len(session_states(self))
        self.proxy.up()
        wait_until(lambda: len(session_states(self)) > seen, what="a session event")

    def lose_reply(self, replies_before: int = 0) -> None:
        """Have the proxy lose it."""
        self.proxy.lose_reply(replies_before)

    def expire(self) -> None:
        """Take the session over with its password, and close it."""
        victim = self.session._client
        owner = (victim._session_id, victim._session_passwd)
        thief = KazooClient(self._direct, client_id=owner)
        thief.start()
        thief.stop()
        thief.close()
        self.proxy.up()
        self._wait_for(SessionState.EXPIRED)

    def close(self) -> None:
        """Close both sessions and the proxy."""
        self.store.close()
        self.other.close()
        self.proxy.close()

    def _wait_for(self, state: SessionState) -> None:
        wait_until(lambda: session_states(self)[-1:] == [state], what=state.name)
