"""What every Store tells of changes: which watch fires, once, and before a later answer.

The same cases for the store in memory and for the one on a real ZooKeeper.
"""

from __future__ import annotations

import pytest

from klamm.zk.store import (
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    ReadOp,
    SetData,
    Store,
    WatchEvent,
    WatchKind,
    WriteOp,
)
from tests.conformance.factories import Events, StoreFactory, ok

CREATED, DELETED = WatchKind.CREATED, WatchKind.DELETED
DATA_CHANGED, CHILDREN_CHANGED = WatchKind.DATA_CHANGED, WatchKind.CHILDREN_CHANGED

# So many reads that a store goes about them in bulk.
MANY = 40


def padded(*ops: ReadOp) -> list[ReadOp]:
    return [*ops, *(Exists("/p") for _ in range(MANY))]


@pytest.mark.parametrize("bulk", [False, True], ids=["few", "many"])
@pytest.mark.parametrize(
    ("watched", "change", "event"),
    [
        (GetData("/p/c", True), SetData("/p/c", b"x"), (DATA_CHANGED, "/p/c")),
        (GetData("/p/c", True), Delete("/p/c"), (DELETED, "/p/c")),
        (Exists("/p/c", True), SetData("/p/c", b"x"), (DATA_CHANGED, "/p/c")),
        (Exists("/p/c", True), Delete("/p/c"), (DELETED, "/p/c")),
        (Exists("/p/no", True), Create("/p/no", None), (CREATED, "/p/no")),
        (GetData("/p/no", True), Create("/p/no", None), (CREATED, "/p/no")),
        (GetChildren("/p", True), Create("/p/no", None), (CHILDREN_CHANGED, "/p")),
        (GetChildren("/p", True), Delete("/p/c"), (CHILDREN_CHANGED, "/p")),
        (GetChildren("/p/c", True), Delete("/p/c"), (DELETED, "/p/c")),
        (GetChildren("/p", True), SetData("/p", b"x"), None),
        (GetChildren("/p", True), SetData("/p/c", b"x"), None),
        (GetChildren("/p", True), Create("/p/c/below", None), None),
        (GetChildren("/p/no", True), Create("/p/no", None), None),
        (GetData("/p", True), Create("/p/no", None), None),
        (GetData("/p", True), Delete("/p/c"), None),
        (GetData("/p/c"), SetData("/p/c", b"x"), None),
    ],
)
def test_which_change_fires_which_watch(
    store_factory: StoreFactory,
    watched: ReadOp,
    change: WriteOp,
    event: tuple[WatchKind, str] | None,
    bulk: bool,
) -> None:
    store, other = store_factory.open(), store_factory.open()
    ok(other, Create("/p", None), Create("/p/c", b""))
    events = Events(store)
    store.read(padded(watched) if bulk else [watched])
    ok(other, change)
    assert events.watches() == ([WatchEvent(*event)] if event else [])


def test_a_watch_fires_once(store_factory: StoreFactory) -> None:
    store, other = store_factory.open(), store_factory.open()
    ok(other, Create("/a", b""))
    events = Events(store)
    store.read([GetData("/a", True), GetData("/a", True), Exists("/a", True)])
    ok(other, SetData("/a", b"1"), SetData("/a", b"2"), Delete("/a"))
    assert events.watches() == [WatchEvent(DATA_CHANGED, "/a")]


def test_a_deletion_is_one_event_for_a_session_and_one_for_the_parent(
    store_factory: StoreFactory,
) -> None:
    store, other = store_factory.open(), store_factory.open()
    ok(other, Create("/p", None), Create("/p/c", None))
    events, others = Events(store), Events(other)
    watched = [GetData("/p/c", True), GetChildren("/p/c", True), GetChildren("/p", True)]
    store.read(watched)
    other.read([GetData("/p/c", True)])
    ok(other, Delete("/p/c"))
    assert sorted(events.watches(), key=str) == [
        WatchEvent(CHILDREN_CHANGED, "/p"),
        WatchEvent(DELETED, "/p/c"),
    ]
    assert others.watches() == [WatchEvent(DELETED, "/p/c")]


def test_a_transaction_fires_each_watch_once_in_order(store_factory: StoreFactory) -> None:
    store, other = store_factory.open(), store_factory.open()
    ok(other, Create("/a", b""), Create("/b", b""))
    events = Events(store)
    store.read([GetData("/a", True), GetData("/b", True), Exists("/c", True)])
    ops: list[WriteOp] = [
        SetData("/b", b"1"),
        SetData("/a", b"1"),
        Delete("/a"),
        Create("/c", None),
        Delete("/c"),
    ]
    assert other.write([ops])[0].failed_index == -1
    assert events.watches() == [
        WatchEvent(DATA_CHANGED, "/b"),
        WatchEvent(DATA_CHANGED, "/a"),
        WatchEvent(CREATED, "/c"),
    ]


def test_a_failed_transaction_fires_nothing(store: Store) -> None:
    ok(store, Create("/a", b""))
    events = Events(store)
    store.read([GetData("/a", True), GetChildren("/", False)])
    assert store.write([[SetData("/a", b"1"), Delete("/no")]])[0].failed_index == 1
    assert events.watches() == []
    ok(store, SetData("/a", b"1"))
    assert events.watches() == [WatchEvent(DATA_CHANGED, "/a")]


def test_an_event_comes_before_an_answer_that_shows_the_change(
    store_factory: StoreFactory,
) -> None:
    store, other = store_factory.open(), store_factory.open()
    ok(other, Create("/a", b"0"))
    heard: list[object] = []
    store.add_listener(heard.append)
    for turn in range(20):
        store.read([GetData("/a", True)])
        ok(other, SetData("/a", b"%d" % turn))
        assert store.read([GetData("/a")])[0].data == b"%d" % turn
        assert heard.count(WatchEvent(DATA_CHANGED, "/a")) == turn + 1


def test_a_removed_listener_hears_nothing(store: Store) -> None:
    ok(store, Create("/a", b""))
    heard: list[object] = []
    listener = heard.append
    store.add_listener(listener)
    events = Events(store)
    store.remove_listener(listener)
    store.read([GetData("/a", True)])
    ok(store, SetData("/a", b"1"))
    assert events.watches() == [WatchEvent(DATA_CHANGED, "/a")]
    assert heard == []


def test_the_end_of_a_session_notifies_watchers_of_its_ephemerals(
    store_factory: StoreFactory,
) -> None:
    store, other = store_factory.open(), store_factory.open()
    ok(store, Create("/controller", b"1", ephemeral=True), Create("/ids", None))
    ok(store, Create("/ids/1", None, ephemeral=True))
    events = Events(other)
    other.read([Exists("/controller", True), GetChildren("/ids", True)])
    store_factory.expire(store)
    assert sorted(events.watches(), key=str) == [
        WatchEvent(CHILDREN_CHANGED, "/ids"),
        WatchEvent(DELETED, "/controller"),
    ]


def test_watches_do_not_outlive_their_session(store_factory: StoreFactory) -> None:
    store, other = store_factory.open(), store_factory.open()
    ok(other, Create("/a", b""))
    store.read([GetData("/a", True), GetChildren("/a", True), Exists("/no", True)])
    events = Events(store)
    store_factory.expire(store)
    store.reopen()
    ok(other, SetData("/a", b"1"), Create("/no", None), Delete("/a"))
    assert events.watches() == []
