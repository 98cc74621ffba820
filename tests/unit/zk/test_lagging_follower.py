"""A session that reads from a lagging follower keeps ZooKeeper's guarantees of order."""

from __future__ import annotations

import random

import pytest

from klamm.world.clock import VirtualClock
from klamm.zk.memory_store import MemoryServer, MemoryStore
from klamm.zk.store import (
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    SetData,
    StoreEvent,
    WatchEvent,
    WatchKind,
)


class Lagging:
    """A store whose follower is 100 ms behind, and another one that is not."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = MemoryServer(self.clock)
        self.store, self.other = MemoryStore(self.server), MemoryStore(self.server)
        self.events: list[StoreEvent] = []
        self.store.add_listener(self.events.append)
        self.other.write([[Create("/a", b"0")]])
        self.store.read([GetData("/a", watch=True)])
        self.server.set_lag(self.store.session_id, 100)

    def data(self) -> bytes | None:
        return self.store.read([GetData("/a")])[0].data

    def advance(self, ms: float) -> None:
        self.clock.advance_to(self.clock.monotonic_ms() + ms)
        self.server.apply_lagging()


CHANGED = WatchEvent(WatchKind.DATA_CHANGED, "/a")


def test_a_change_is_read_late_and_not_before_its_watch_event() -> None:
    lagging = Lagging()
    lagging.other.write([[SetData("/a", b"1")]])
    lagging.advance(99)
    assert (lagging.data(), lagging.events) == (b"0", [])
    assert lagging.server.next_lagging_ms() == 100
    lagging.advance(1)
    assert (lagging.data(), lagging.events) == (b"1", [CHANGED])


def test_a_late_change_has_the_stat_of_the_leader() -> None:
    lagging = Lagging()
    told: list[float | None] = []
    lagging.server.on_lagging = lambda: told.append(lagging.server.next_lagging_ms())
    lagging.advance(5)
    lagging.other.write([[SetData("/a", b"1")]])
    assert told == [105]
    lagging.advance(100)
    reads = [store.read([GetData("/a")]) for store in (lagging.store, lagging.other)]
    assert reads[0] == reads[1]


@pytest.mark.parametrize("version", [-1, 7])
def test_the_reply_to_an_own_write_comes_after_all_earlier_changes(version: int) -> None:
    lagging = Lagging()
    lagging.other.write([[SetData("/a", b"1")], [Create("/b", None, ephemeral=True)]])
    lagging.store.write([[SetData("/a", b"2", version)]])
    assert lagging.data() == (b"2" if version == -1 else b"1")
    assert lagging.store.read([Exists("/b")])[0].stat is not None
    assert lagging.events == [CHANGED]


def test_the_end_of_a_session_is_seen_late_too() -> None:
    lagging = Lagging()
    lagging.other.write([[Create("/b", None, ephemeral=True)]])
    lagging.advance(100)
    lagging.other.close()
    assert lagging.store.read([Exists("/b", watch=True)])[0].stat is not None
    lagging.advance(100)
    assert lagging.events == [WatchEvent(WatchKind.DELETED, "/b")]


def test_a_reconnected_session_hears_of_what_it_has_missed() -> None:
    lagging = Lagging()
    lagging.other.write([[SetData("/a", b"1")]])
    lagging.server.disconnect(lagging.store.session_id)
    lagging.server.reconnect(lagging.store.session_id)
    assert (lagging.data(), lagging.events[-1]) == (b"1", CHANGED)


@pytest.mark.parametrize("seed", range(20))
def test_no_session_ever_goes_back_and_no_change_is_missed(seed: int) -> None:
    rng, lagging = random.Random(seed), Lagging()
    known = 0
    for number in range(1, 60):
        lagging.other.write([[SetData("/a", str(number).encode())]])
        if rng.random() < 0.3:
            lagging.other.write([[Create(f"/n{number}", None)]])
        if rng.random() < 0.2:
            lagging.other.write([[Delete(f"/n{number}")]])
        lagging.advance(rng.choice((0, 10, 50)))
        if rng.random() < 0.1:
            lagging.store.write([[Create(f"/own{number}", None)]])
        if rng.random() < 0.1:
            lagging.server.set_lag(lagging.store.session_id, rng.choice((0, 50, 300)))
        fired, lagging.events[:] = CHANGED in lagging.events, []
        read = lagging.store.read([GetData("/a", watch=True), GetChildren("/")])
        value = int(read[0].data or b"")
        assert value >= known
        assert fired == (value > known)
        known = value
    lagging.server.set_lag(lagging.store.session_id, 0)
    assert lagging.data() == b"59"
    assert lagging.server.next_lagging_ms() is None
