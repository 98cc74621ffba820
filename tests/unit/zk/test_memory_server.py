"""The server in memory as a tool: copies, fingerprints, hooks, time, and giving way to others."""

from __future__ import annotations

import copy

import pytest

from klamm.zk.memory_store import Crashed, MemoryServer, MemoryStore
from klamm.zk.store import (
    Create,
    Delete,
    GetChildren,
    GetData,
    ResultCode,
    SessionEvent,
    SessionState,
    SetData,
    StoreEvent,
    WatchEvent,
    WatchKind,
)
from tests.conformance.factories import ManualClock, ok
from tests.sim.snapshots import server_fingerprint


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server(clock: ManualClock) -> MemoryServer:
    return MemoryServer(clock)


class Inbox:
    """A listener that a copy of the world copies with it."""

    def __init__(self) -> None:
        self.events: list[StoreEvent] = []

    def put(self, event: StoreEvent) -> None:
        self.events.append(event)


def test_a_copy_lives_its_own_life(server: MemoryServer) -> None:
    store, inbox = MemoryStore(server), Inbox()
    store.add_listener(inbox.put)
    ok(store, Create("/a", b"0"), Create("/a/b", None), Create("/e", None, ephemeral=True))
    store.read([GetData("/a", True)])
    server2, store2, inbox2 = copy.deepcopy((server, store, inbox))
    assert server_fingerprint(server2) == server_fingerprint(server)
    ok(store2, SetData("/a", b"1"), Delete("/a/b"), Create("/c", None))
    assert inbox2.events == [WatchEvent(WatchKind.DATA_CHANGED, "/a")]
    assert inbox.events == []
    assert sorted(server.tree.nodes) == ["/", "/a", "/a/b", "/e"]
    assert server_fingerprint(server2) != server_fingerprint(server)
    ok(store, SetData("/a", b"1"), Delete("/a/b"), Create("/c", None))
    assert server_fingerprint(server2) == server_fingerprint(server)
    server.expire_session(store.session_id)
    assert "/e" not in server.tree.nodes
    assert "/e" in server2.tree.nodes


def test_a_failed_transaction_leaves_the_same_fingerprint_but_its_zxid(
    server: MemoryServer,
) -> None:
    store = MemoryStore(server)
    ok(store, Create("/p", None), Create("/p/a", b"x"), Create("/p/b", None, ephemeral=True))
    twin = copy.deepcopy(server)
    bad = [Delete("/p/a"), Delete("/p/b"), Create("/p/c", None), SetData("/p", b"y"), Delete("/no")]
    assert store.write([bad])[0].code is ResultCode.NONODE
    twin.zxid += 1
    assert server_fingerprint(server) == server_fingerprint(twin)
    store.close()
    assert sorted(server.tree.nodes) == ["/", "/p", "/p/a"]


def test_a_crash_passes_every_handler_of_errors(server: MemoryServer) -> None:
    store = MemoryStore(server)

    def crash(session_id: int, op: object) -> None:
        raise Crashed

    server.before_op = crash
    with pytest.raises(Crashed):
        try:
            store.write([[Create("/a", None)]])
        except Exception as error:
            raise AssertionError("a crash was handled") from error
    assert "/a" not in server.tree.nodes


def test_hooks_see_every_operation(server: MemoryServer) -> None:
    store = MemoryStore(server)
    seen: list[object] = []
    server.before_op = lambda session_id, op: seen.append((session_id, op))
    server.after_op = lambda session_id, op, result: seen.append(result.code)
    transaction = [Create("/a", None), SetData("/a", b"", 5)]
    store.write([transaction])
    store.read([GetData("/a")])
    assert seen == [
        (store.session_id, transaction),
        ResultCode.BADVERSION,
        (store.session_id, GetData("/a")),
        ResultCode.NONODE,
    ]


def test_a_session_without_connection_times_out(server: MemoryServer, clock: ManualClock) -> None:
    store, other = MemoryStore(server, timeout_ms=6_000), MemoryStore(server, timeout_ms=9_000)
    inbox = Inbox()
    store.add_listener(inbox.put)
    assert server.next_expiry_ms() is None
    server.disconnect(store.session_id)
    clock.now += 1_000
    server.disconnect(other.session_id)
    assert server.next_expiry_ms() == clock.now + 5_000
    clock.now += 4_999
    assert server.expire_due() == []
    clock.now += 1
    assert server.expire_due() == [store.session_id]
    assert inbox.events == [SessionEvent(SessionState.DISCONNECTED)]
    assert server.next_expiry_ms() == clock.now + 4_000
    server.reconnect(other.session_id)
    assert server.next_expiry_ms() is None
    server.reconnect(store.session_id)
    assert inbox.events[1:] == [SessionEvent(SessionState.EXPIRED)]
    assert store.read([GetData("/")])[0].code is ResultCode.SESSIONEXPIRED
    assert len(inbox.events) == 2


def test_a_session_that_is_opened_anew_while_the_link_is_cut_stays_cut(
    server: MemoryServer, clock: ManualClock
) -> None:
    store, inbox = MemoryStore(server), Inbox()
    store.add_listener(inbox.put)
    server.cut(store.session_id, is_heard=False)
    server.expire_session(store.session_id)
    assert inbox.events == [SessionEvent(SessionState.DISCONNECTED)], "no expiry gets through"
    store.reopen()
    assert server.is_cut(store.session_id)
    assert SessionEvent(SessionState.CONNECTED) not in inbox.events
    server.restore(store.session_id)
    assert inbox.events[-1] == SessionEvent(SessionState.CONNECTED)
    ok(store, Create("/e", None, ephemeral=True))
    server.cut(store.session_id, is_heard=False)
    store.close()
    assert "/e" in server.tree.nodes, "the server has not heard of the end of the session"
    expires_ms = server.next_expiry_ms()
    assert expires_ms is not None
    clock.now = expires_ms
    server.expire_due()
    assert "/e" not in server.tree.nodes


def test_a_second_disconnection_changes_nothing_and_sessions_expire_in_order(
    server: MemoryServer, clock: ManualClock
) -> None:
    first, second, inbox = MemoryStore(server), MemoryStore(server), Inbox()
    second.add_listener(inbox.put)
    server.disconnect(second.session_id)
    expires_ms = server.next_expiry_ms()
    assert expires_ms is not None
    clock.now += 10
    server.disconnect(second.session_id)
    assert server.next_expiry_ms() == expires_ms
    assert inbox.events == [SessionEvent(SessionState.DISCONNECTED)]
    server.disconnect(first.session_id)
    clock.now += 1_000_000
    assert server.expire_due() == [first.session_id, second.session_id]


def test_a_session_that_only_hears_nothing_is_heard_for_two_thirds_of_its_timeout(
    server: MemoryServer, clock: ManualClock
) -> None:
    store = MemoryStore(server, timeout_ms=6_000)
    began_ms = clock.now
    server.cut(store.session_id, is_heard=True)
    assert server.next_expiry_ms() == began_ms + 4_000 + 6_000
    clock.now += 3_999
    assert server.hears(store.session_id)
    clock.now += 1
    assert not server.hears(store.session_id)
    clock.now -= 1
    server.restore(store.session_id)
    assert not server.hears(store.session_id)
    assert server.next_expiry_ms() is None
    server.cut(store.session_id, is_heard=False)
    assert not server.hears(store.session_id)
    assert server.next_expiry_ms() == clock.now + 6_000


def test_recorders_of_commits_are_notified_before_watchers(server: MemoryServer) -> None:
    store = MemoryStore(server)
    told: list[str] = []
    server.commit_taps.append(lambda *_: told.append("recorded"))
    store.add_listener(lambda _: told.append("watched"))
    store.read([GetChildren("/", watch=True)])
    for name in "hgfedcba":
        ok(store, Create(f"/{name}", None))
    assert told == ["recorded", "watched", *["recorded"] * 7]
    assert store.read([GetChildren("/")])[0].children == [*"abcdefgh"]


def test_the_lag_of_a_session_changes_and_ends_with_it(
    server: MemoryServer, clock: ManualClock
) -> None:
    store, writer = MemoryStore(server), MemoryStore(server)
    server.set_lag(store.session_id, 1_000)
    server.set_lag(store.session_id, 50)
    ok(writer, Create("/a", None))
    assert server.next_lagging_ms() == clock.now + 50
    assert store.read([GetData("/a")])[0].code is ResultCode.NONODE
    server.set_lag(store.session_id, 0)
    assert store.read([GetData("/a")])[0].code is ResultCode.OK
    ok(writer, Create("/c", None))
    assert store.read([GetData("/c")])[0].code is ResultCode.OK
    server.set_lag(store.session_id, 50)
    server.expire_session(store.session_id, notify=False)
    ok(writer, Create("/b", None))
    assert server.next_lagging_ms() is None


def test_the_beginning_and_the_end_of_a_session_are_transactions(server: MemoryServer) -> None:
    store = MemoryStore(server)
    assert server.zxid == 1
    server.disconnect(store.session_id)
    store.close()
    assert (server.zxid, server.next_expiry_ms()) == (2, None)


def test_a_session_that_has_expired_is_not_heard(server: MemoryServer) -> None:
    store, inbox = MemoryStore(server), Inbox()
    store.add_listener(inbox.put)
    server.cut(store.session_id, is_heard=True)
    assert server.hears(store.session_id)
    server.expire_session(store.session_id)
    assert not server.hears(store.session_id)
    for _ in range(2):
        server.restore(store.session_id)
        server.reconnect(store.session_id)
    assert inbox.events[1:] == [SessionEvent(SessionState.EXPIRED)], "once"


def test_a_rejected_operation_is_reported_with_its_session(server: MemoryServer) -> None:
    store = MemoryStore(server)
    rejected: list[tuple[int, object]] = []
    server.rejection_taps.append(lambda session_id, op: rejected.append((session_id, op)))
    store.write([[Create("/a", None)], [SetData("/a", b""), Delete("/b")]])
    assert rejected == [(store.session_id, Delete("/b"))]


def test_an_abandoned_store_gets_no_notification(server: MemoryServer) -> None:
    store, inbox = MemoryStore(server), Inbox()
    store.add_listener(inbox.put)
    store.abandon()
    server.expire_session(store.session_id)
    assert inbox.events == []


def test_a_closed_session_leaves_no_watch_behind(server: MemoryServer) -> None:
    store = MemoryStore(server)
    store.read([GetData("/a", watch=True), GetChildren("/", watch=True)])
    assert len(server.watches.armed()) == 2
    store.close()
    assert server.watches.armed() == []


def test_a_listener_may_remove_itself(server: MemoryServer) -> None:
    store, inbox = MemoryStore(server), Inbox()

    def once(event: StoreEvent) -> None:
        store.remove_listener(once)

    store.add_listener(once)
    store.add_listener(inbox.put)
    server.disconnect(store.session_id)
    assert inbox.events == [SessionEvent(SessionState.DISCONNECTED)]


def test_a_silent_expiry_is_reported_at_the_next_call(server: MemoryServer) -> None:
    store, inbox = MemoryStore(server), Inbox()
    store.add_listener(inbox.put)
    server.expire_session(store.session_id, notify=False)
    assert inbox.events == []
    assert store.write([[Create("/a", None)]])[0].code is ResultCode.SESSIONEXPIRED
    assert inbox.events == [SessionEvent(SessionState.EXPIRED)]


def test_control_is_given_away_around_every_transaction(server: MemoryServer) -> None:
    seen: list[list[str]] = []
    store = MemoryStore(server, yield_control=lambda: seen.append(sorted(server.tree.nodes)))
    store.write([[Create("/a", None)], [Create("/b", None)]])
    assert seen == [["/"], ["/", "/a"], ["/", "/a", "/b"]]
    seen.clear()
    store.read([GetData("/a"), GetData("/b")])
    assert len(seen) == 2


def test_a_session_that_expires_while_control_is_away_writes_no_more(server: MemoryServer) -> None:
    turns = iter([False, True])

    def expire_at_the_second_turn() -> None:
        if next(turns, False):
            server.expire_session(store.session_id)

    store = MemoryStore(server, yield_control=expire_at_the_second_turn)
    results = store.write([[Create("/a", None)], [Create("/b", None)]])
    assert [r.code for r in results] == [ResultCode.OK, ResultCode.SESSIONEXPIRED]
    assert "/b" not in server.tree.nodes


def test_failed_authentication_is_notified_and_the_session_stays(server: MemoryServer) -> None:
    store, inbox = MemoryStore(server), Inbox()
    store.add_listener(inbox.put)
    session_id = store.session_id
    server.fail_authentication(session_id)
    assert inbox.events == [SessionEvent(SessionState.AUTH_FAILED)]
    store.reopen()
    ok(store, Create("/a", None))
    assert store.session_id == session_id


@pytest.mark.parametrize("op", [Create("a", None), Delete("/"), Delete("a")], ids=str)
def test_operations_that_zookeeper_cannot_name_a_parent_of(
    server: MemoryServer, op: Create | Delete
) -> None:
    assert MemoryStore(server).write([[op]])[0].code is ResultCode.BADARGUMENTS
    assert sorted(server.tree.nodes) == ["/"]


def test_an_expired_session_of_a_process_that_dies_does_not_expire_again(
    server: MemoryServer, clock: ManualClock
) -> None:
    store = MemoryStore(server, timeout_ms=1_000)
    server.disconnect(store.session_id, notify=False)
    assert server.next_expiry_ms() == clock.monotonic_ms() + 1_000
    server.expire_session(store.session_id, notify=False)
    store.abandon()
    assert server.next_expiry_ms() is None
    assert server.session_states() == [(store.session_id, "expired")]


def test_a_store_is_closed_once(server: MemoryServer) -> None:
    store = MemoryStore(server)
    for _ in range(2):
        store.close()
        assert server.session_states() == []
