"""Where the stores of the conformance suite come from: one class a backend, the same methods.

Everything a test sees is below an empty root of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Protocol

from kazoo.client import KazooClient

from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.memory_store import MemoryServer, MemoryStore
from klamm.zk.store import (
    Create,
    Delete,
    GetData,
    SessionEvent,
    SessionState,
    Store,
    StoreEvent,
    WatchEvent,
)
from tests.waiting import wait_until

SESSION_TIMEOUT_MS = 4_000
_flushes = itertools.count()


class StoreFactory(Protocol):
    """Opens stores on one server, and does to their sessions what a server or a network does."""

    def open(self) -> Store:
        """A store with a session of its own, closed at the end of the test."""

    def expire(self, store: Store) -> None:
        """Have the server end the store's session, and wait until the store knows."""

    def wait_for_timeout(self, store: Store) -> None:
        """Wait until the session of an abandoned store has timed out."""

    def close(self) -> None:
        """Close every store."""


class Events:
    """What one store's listener heard, in order."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._heard: list[StoreEvent] = []
        store.add_listener(self._heard.append)

    def watches(self) -> list[WatchEvent]:
        """Every watch event of what was done before this call.

        A sentinel is changed and waited for: events of one session come in order.
        """
        path = f"/flush-{next(_flushes)}"
        ok(self._store, Create(path, None))
        self._store.read([GetData(path, watch=True)])
        ok(self._store, Delete(path))
        wait_until(lambda: any(e.path == path for e in self._watch_events()), what=path)
        return [event for event in self._watch_events() if not event.path.startswith("/flush-")]

    def sessions(self) -> list[SessionState]:
        """Every session event so far."""
        return [event.state for event in list(self._heard) if isinstance(event, SessionEvent)]

    def _watch_events(self) -> list[WatchEvent]:
        return [event for event in list(self._heard) if isinstance(event, WatchEvent)]


def ok(store: Store, *ops: Create | Delete | object) -> None:
    """Do the operations one by one; each must succeed."""
    results = store.write([[op] for op in ops])  # type: ignore[list-item]
    assert [result.code.name for result in results] == ["OK"] * len(ops)


class ManualClock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def now_ms(self) -> int:
        """The time."""
        return self.now

    def monotonic_ms(self) -> float:
        """The same time."""
        return float(self.now)


class MemoryFactory:
    """Stores on a server in memory."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.server = MemoryServer(self.clock)

    def open(self) -> MemoryStore:
        """A store."""
        return MemoryStore(self.server, SESSION_TIMEOUT_MS)

    def expire(self, store: Store) -> None:
        """Expire its session."""
        self.server.expire_session(store.session_id)

    def wait_for_timeout(self, store: Store) -> None:
        """Let the time pass."""
        self.clock.now += SESSION_TIMEOUT_MS
        assert self.server.expire_due() == [store.session_id]

    def close(self) -> None:
        """Nothing holds anything."""


class KazooFactory:
    """Stores on a real server, below a chroot."""

    def __init__(self, connect_string: str) -> None:
        self._connect_string = connect_string
        self._sessions: dict[int, KazooSession] = {}
        self._stores: list[KazooStore] = []

    def open(self) -> KazooStore:
        """A store."""
        session = KazooSession(self._connect_string, SESSION_TIMEOUT_MS)
        store = KazooStore(session)
        self._sessions[id(store)] = session
        self._stores.append(store)
        return store

    def expire(self, store: Store) -> None:
        """Take the session over with its password, and close it.

        Again, if the store has taken the session back before it was closed.
        """
        events = Events(store)
        client_id = self._sessions[id(store)]._client.client_id

        def is_expired_by_thief() -> bool:
            thief = KazooClient(self._connect_string, client_id=client_id)
            thief.start()
            thief.stop()
            thief.close()
            return SessionState.EXPIRED in events.sessions()

        wait_until(is_expired_by_thief, what="expiry")

    def wait_for_timeout(self, store: Store) -> None:
        """The server does it."""
        session_id = store.session_id
        watcher = KazooClient(self._connect_string)
        watcher.start()
        try:
            wait_until(lambda: not _owned(watcher, session_id), what="the session's timeout")
        finally:
            watcher.stop()
            watcher.close()

    def close(self) -> None:
        """Close every store."""
        for store in self._stores:
            store.close()


def _owned(client: KazooClient, session_id: int) -> list[str]:
    """Ephemeral znodes of a session at the top of the root."""
    found: list[str] = []
    names: Iterable[str] = client.get_children("/")
    for name in names:
        stat = client.exists(f"/{name}")
        if stat is not None and stat.ephemeralOwner == session_id:
            found.append(name)
    return found
