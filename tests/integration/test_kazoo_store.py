"""The Store on a real ZooKeeper: what the conformance suite cannot ask of every backend.

Sizes, permissions, old servers, shared sessions, ways to wait, and that nothing is left behind.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from bench.kafka.locate import SKIP_REASON
from klamm.cluster.errors import OperationTooBig, StoreError, UsageError, ZooKeeperUnavailable
from klamm.world.kafka.jars import kafka_libs
from klamm.zk import embedded, kazoo_session
from klamm.zk.embedded import EmbeddedZooKeeper
from klamm.zk.kazoo_pipeline import Completion
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.request_size import MAX_TRANSACTION_BYTES, transaction_size
from klamm.zk.store import (
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    ReadOp,
    ResultCode,
    SessionEvent,
    SessionState,
    SetData,
    StoreEvent,
    WatchEvent,
    WatchKind,
)
from tests.fault_proxy import FaultProxy
from tests.waiting import wait_until

OK = ResultCode.OK
TIMEOUT_MS = 20_000
MANY = 50


@pytest.fixture
def session(chroot: str) -> Iterator[KazooSession]:
    session = KazooSession(chroot, TIMEOUT_MS)
    yield session
    session.close()


@pytest.fixture
def store(session: KazooSession) -> KazooStore:
    return KazooStore(session)


@pytest.fixture
def proxy(zookeeper: EmbeddedZooKeeper) -> Iterator[FaultProxy]:
    with FaultProxy(zookeeper.port) as proxy:
        yield proxy


def open_sockets() -> set[int]:
    """Descriptors of sockets; another session's epoll descriptors come and go."""
    found = set()
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                found.add(int(name))
    return found


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Threads and sockets after the test are those before it."""
    threads, sockets = set(threading.enumerate()), open_sockets()
    yield
    assert set(threading.enumerate()) <= threads
    assert open_sockets() <= sockets


def ok(store: KazooStore, *ops: Create | SetData | Delete) -> None:
    assert [result.code for result in store.write([[op] for op in ops])] == [OK] * len(ops)


def proxied(proxy: FaultProxy, chroot: str) -> str:
    return proxy.address + chroot[chroot.index("/") :]


@pytest.mark.parametrize(
    "address",
    ["", ":2181", "host:port", "host:99999", "/only/a/chroot", "host:1//x", "host:2181/a//b"],
)
def test_a_malformed_address_is_one_clear_line(address: str) -> None:
    with pytest.raises(UsageError) as raised:
        KazooSession(address, TIMEOUT_MS)
    assert "not a ZooKeeper" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.usefixtures("nothing_left")
def test_no_server_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(ZooKeeperUnavailable) as raised:
        KazooSession(f"127.0.0.1:{port}", TIMEOUT_MS, connection_timeout_ms=200)
    assert str(raised.value) == f"no ZooKeeper server responds at 127.0.0.1:{port} within 200 ms"


@pytest.mark.usefixtures("nothing_left")
def test_an_unknown_host_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    with pytest.raises(ZooKeeperUnavailable) as raised:
        KazooSession("garbage", TIMEOUT_MS, connection_timeout_ms=1000)
    said = "no ZooKeeper server responds at garbage within 1000 ms: unknown host"
    assert str(raised.value) == said


def test_the_biggest_transaction_goes_and_one_byte_more_does_not(
    session: KazooSession, store: KazooStore
) -> None:
    room = MAX_TRANSACTION_BYTES - transaction_size([Create("/big", b"")])
    room -= len(session.chroot.path)
    with pytest.raises(OperationTooBig, match="it was not sent"):
        store.write([[Create("/small", None)], [Create("/big", b"x" * (room + 1))]])
    assert [r.code for r in store.read([Exists("/small"), Exists("/big")])] == [
        ResultCode.NONODE
    ] * 2
    ok(store, Create("/big", b"x" * room))
    [found] = store.read([GetData("/big")])
    assert found.data == b"x" * room


def test_a_chroot_is_created_with_null_data_and_deleted_when_it_is_empty(
    zookeeper_client: KazooClient, chroot: str
) -> None:
    session = KazooSession(f"{chroot}/a/b/", TIMEOUT_MS)
    try:
        store = KazooStore(session)
        assert store.read([Exists("/")])[0].code is ResultCode.NONODE
        created = session.create_chroot()
        assert session.create_chroot() == []
        [found] = store.read([GetData("/")])
        assert (found.code, found.data) == (OK, None)
        ok(store, Create("/c", None))
        assert store.read([GetChildren("/")])[0].children == ["c"]
        session.delete_chroot(created)
        ok(store, Delete("/c"))
        session.delete_chroot(created)
        assert zookeeper_client.get_children(chroot[chroot.index("/") :]) == []
    finally:
        session.close()


def test_a_chroot_is_created_although_a_reply_is_lost(proxy: FaultProxy, chroot: str) -> None:
    session = KazooSession(f"{proxied(proxy, chroot)}/a/b", TIMEOUT_MS)
    proxy.lose_reply()
    session.create_chroot()
    [found] = KazooStore(session).read([Exists("/")])
    session.close()
    assert found.code is OK


def test_a_chroot_below_an_ephemeral_is_an_error(store: KazooStore, chroot: str) -> None:
    ok(store, Create("/gone-soon", None, ephemeral=True))
    session = KazooSession(f"{chroot}/gone-soon/below", TIMEOUT_MS)
    try:
        with pytest.raises(StoreError, match="gone-soon/below: NOCHILDRENFOREPHEMERALS"):
            session.create_chroot()
    finally:
        session.close()


@pytest.mark.parametrize("padding", [0, MANY], ids=["few", "many"])
def test_a_znode_that_may_not_be_read(
    store: KazooStore, zookeeper_client: KazooClient, chroot: str, padding: int
) -> None:
    secret = chroot[chroot.index("/") :] + "/secret"
    zookeeper_client.create(secret, b"x", acl=[make_acl("world", "anyone", write=True)])
    ops: list[ReadOp] = [GetData("/secret", watch=True), Exists("/"), *[Exists("/no")] * padding]
    assert [result.code for result in store.read(ops)[:2]] == [ResultCode.NOAUTH, OK]


def test_a_change_between_a_batch_and_its_watches_is_notified(
    session: KazooSession, store: KazooStore
) -> None:
    paths = [f"/n{index}" for index in range(MANY)]
    ok(store, *(Create(path, b"before") for path in paths))
    events: list[StoreEvent] = []
    session.add_listener(events.append)
    changed = threading.Event()

    def change_after_the_reads(completion: Completion) -> None:
        completion.wait()
        if not changed.is_set():
            changed.set()
            ok(store, SetData(paths[0], b"after"), Delete(paths[1]), Create("/absent", None))

    store.read([GetData("/")] * MANY)  # the first batch of a session asks for more than its reads
    ops = [GetData(path, watch=True) for path in (*paths, "/absent")]
    ops += [GetChildren(path, watch=True) for path in paths]  # type: ignore[misc]
    results = KazooStore(session, change_after_the_reads).read(ops)
    assert {result.data for result in results[:MANY]} == {b"before"}
    store.read([Exists("/")])
    assert sorted(events, key=str) == sorted(
        [
            WatchEvent(WatchKind.DATA_CHANGED, paths[0]),
            WatchEvent(WatchKind.DELETED, paths[1]),
            WatchEvent(WatchKind.CREATED, "/absent"),
        ],
        key=str,
    )


def test_stores_share_a_session_and_its_events(session: KazooSession, store: KazooStore) -> None:
    other = KazooStore(session)
    heard: list[StoreEvent] = []
    others: list[StoreEvent] = []
    store.add_listener(heard.append)
    other.add_listener(others.append)
    assert store.session_id == other.session_id != 0
    store.read([Exists("/a", watch=True)])
    ok(other, Create("/a", None))
    store.read([Exists("/")])
    assert heard == others == [WatchEvent(WatchKind.CREATED, "/a")]
    other.remove_listener(others.append)
    store.read([Exists("/a", watch=True)])
    ok(store, SetData("/a", b""))
    store.read([Exists("/")])
    assert (len(heard), len(others)) == (2, 1)


def test_every_call_waits_as_long_as_requested(session: KazooSession) -> None:
    finished: queue.Queue[Completion] = queue.Queue()
    waited: list[Completion] = []

    def by_a_queue(completion: Completion) -> None:
        waited.append(completion)
        completion.add_done_callback(finished.put)
        assert finished.get(timeout=20) is completion
        assert completion.done
        completion.add_done_callback(finished.put)
        assert finished.get_nowait() is completion, "of a finished one it is called at once"

    store = KazooStore(session, by_a_queue)
    assert store.write([[Create("/a", b"1")]])[0].code is OK
    assert store.read([GetData("/a")])[0].data == b"1"
    assert store.read([GetData("/a", watch=True)] * MANY)[-1].data == b"1"
    assert len(waited) == 1 + 1 + 3  # the last: what the server knows, the reads, the watches


def test_a_listener_that_fails_is_reported_and_harms_no_other(
    session: KazooSession, store: KazooStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    heard: list[StoreEvent] = []

    def fail(event: StoreEvent) -> None:
        raise RuntimeError("listener's own")

    store.add_listener(fail)
    store.add_listener(heard.append)
    store.read([Exists("/a", watch=True)])
    ok(store, Create("/a", None))
    store.read([Exists("/")])
    assert heard == [WatchEvent(WatchKind.CREATED, "/a")]
    (args,) = reported
    assert str(args.exc_value) == "listener's own"
    assert args.thread is not None and args.thread.name == "klamm-zookeeper"


def test_failed_authentication_is_an_event_and_the_end_until_reopened(
    session: KazooSession, store: KazooStore
) -> None:
    events: list[StoreEvent] = []
    store.add_listener(events.append)
    session._client.add_auth_async("no-such-scheme", "x")
    wait_until(lambda: events, what="AUTH_FAILED")
    assert events == [SessionEvent(SessionState.AUTH_FAILED)]
    assert store.read([Exists("/")])[0].code is ResultCode.AUTHFAILED
    assert store.write([[Create("/a", None)]])[0].code is ResultCode.AUTHFAILED
    store.reopen()
    assert events[1:] == [SessionEvent(SessionState.CONNECTED)]
    ok(store, Create("/a", None))


def test_after_expiry_no_session_begins_by_itself(
    zookeeper: EmbeddedZooKeeper, session: KazooSession
) -> None:
    events: list[StoreEvent] = []
    session.add_listener(events.append)
    client = session._client
    ok(KazooStore(session), Create("/a", None))
    zxid = session.last_zxid
    thief = KazooClient(zookeeper.connect_string, client_id=client.client_id)
    thief.start()
    thief.stop()
    thief.close()
    wait_until(client._connection.connection_stopped.is_set, what="the end of the connection")
    assert events[-1] == SessionEvent(SessionState.EXPIRED)
    session.run([], repeat=True)
    assert KazooStore(session).read([Exists("/")])[0].code is ResultCode.SESSIONEXPIRED
    assert session.last_zxid >= zxid > 0, "the next session must not start on an older server"


def test_an_answer_cut_in_the_middle_is_asked_for_again(proxy: FaultProxy, chroot: str) -> None:
    session = KazooSession(proxied(proxy, chroot), TIMEOUT_MS)
    try:
        store = KazooStore(session)
        ok(store, Create("/a", b"x" * 5_000))
        for few_or_many in (1, MANY):
            lost = proxy.lose_reply_after_bytes(2_000)
            results = store.read([GetData("/a")] * few_or_many)
            assert lost.is_set()
            assert {result.data for result in results} == {b"x" * 5_000}
    finally:
        session.close()


def test_lost_connections_are_events_not_log_lines(
    proxy: FaultProxy, chroot: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    session = KazooSession(proxied(proxy, chroot), TIMEOUT_MS)
    events: list[StoreEvent] = []
    session.add_listener(events.append)
    proxy.cut()
    wait_until(lambda: len(events) == 2, what="loss and reconnect")
    session.close()
    assert caplog.records == []


def test_a_server_that_says_nothing_is_left_before_the_session_times_out(
    proxy: FaultProxy, chroot: str
) -> None:
    session = KazooSession(proxied(proxy, chroot), TIMEOUT_MS, silence_limit_ms=600)
    events: list[StoreEvent] = []
    session.add_listener(events.append)
    proxy.pause()
    dropped = SessionEvent(SessionState.DISCONNECTED)
    wait_until(lambda: events, 5, "the silent connection to be dropped")
    session.abandon()
    assert events == [dropped]


def test_a_call_gives_up_when_the_connection_is_lost_for_too_long(
    proxy: FaultProxy, chroot: str
) -> None:
    session = KazooSession(proxied(proxy, chroot), TIMEOUT_MS, lost_limit_ms=200)
    store = KazooStore(session)
    ok(store, Create("/a", None))
    proxy.down()
    with pytest.raises(ZooKeeperUnavailable, match=r"lost for more than 0\.2 s"):
        store.write([[Delete("/a")]])
    session.abandon()


def _close(session: KazooSession, proxy: FaultProxy) -> None:
    session.close()


def _abandon(session: KazooSession, proxy: FaultProxy) -> None:
    session.abandon()


def _close_while_down(session: KazooSession, proxy: FaultProxy) -> None:
    proxy.down()
    session.close()


def _abandon_while_down(session: KazooSession, proxy: FaultProxy) -> None:
    proxy.down()
    session.abandon()


def _close_while_paused(session: KazooSession, proxy: FaultProxy) -> None:
    proxy.pause()
    session.close()


def _expire_and_reopen(session: KazooSession, proxy: FaultProxy) -> None:
    thief = KazooClient(proxy.address, client_id=session._client.client_id)
    thief.start()
    thief.stop()
    thief.close()
    wait_until(lambda: session._dead, what="expiry")
    session.reopen()
    session.close()


def _close_twice(session: KazooSession, proxy: FaultProxy) -> None:
    session.close()
    session.close()
    session.abandon()
    session.reopen()


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    "end",
    [
        _close,
        _abandon,
        _close_while_down,
        _abandon_while_down,
        _close_while_paused,
        _close_twice,
        _expire_and_reopen,
    ],
)
def test_nothing_is_left_and_no_call_waits(
    zookeeper: EmbeddedZooKeeper,
    chroot: str,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[KazooSession, FaultProxy], None],
) -> None:
    monkeypatch.setattr(kazoo_session, "CLOSE_TIMEOUT_MS", 100)
    with FaultProxy(zookeeper.port) as proxy:
        session = KazooSession(proxied(proxy, chroot), TIMEOUT_MS)
        store = KazooStore(session)
        store.read([Exists("/", watch=True)] * MANY)
        begun_s = time.monotonic()
        end(session, proxy)
        # A connection to a silent server is dropped after a third of the session timeout.
        assert time.monotonic() - begun_s < TIMEOUT_MS / 1000 / 4
        assert store.read([Exists("/")])[0].code is ResultCode.SESSIONEXPIRED
        assert store.write([[Create("/a", None)]])[0].code is ResultCode.SESSIONEXPIRED


@pytest.mark.parametrize("end", [KazooSession.close, KazooSession.abandon])
def test_the_end_of_a_session_releases_who_waits_for_it(
    proxy: FaultProxy, chroot: str, end: Callable[[KazooSession], None]
) -> None:
    session = KazooSession(proxied(proxy, chroot), TIMEOUT_MS)
    store = KazooStore(session)
    proxy.pause()
    codes: list[ResultCode] = []
    sent = threading.Event()

    def wait(completion: Completion) -> None:
        sent.set()
        completion.wait()

    def read() -> None:
        codes.extend(r.code for r in KazooStore(session, wait).read([Exists("/")]))

    reader = threading.Thread(target=read)
    reader.start()
    assert sent.wait(20)
    proxy.down()
    end(session)
    reader.join(20)
    assert codes == [ResultCode.SESSIONEXPIRED]
    assert store.session_id != 0


def test_closing_ends_a_reopening_that_waits(proxy: FaultProxy, chroot: str) -> None:
    session = KazooSession(proxied(proxy, chroot), TIMEOUT_MS)
    thief = KazooClient(proxy.address, client_id=session._client.client_id)
    thief.start()
    thief.stop()
    thief.close()
    wait_until(lambda: session._dead, what="expiry")
    proxy.down()
    begun = threading.Event()

    def wait(completion: Completion) -> None:
        begun.set()
        completion.wait()

    reopening = threading.Thread(target=lambda: session.reopen(wait))
    reopening.start()
    assert begun.wait(20)
    session.close()
    reopening.join(20)
    assert not reopening.is_alive()


def test_a_suspended_session_can_be_closed(
    zookeeper_client: KazooClient, chroot: str, store: KazooStore, session: KazooSession
) -> None:
    ok(store, Create("/mine", None, ephemeral=True))
    session.suspend()
    session.close()
    assert zookeeper_client.exists(chroot[chroot.index("/") :] + "/mine") is None


def test_abandoning_sends_no_close(
    zookeeper_client: KazooClient, chroot: str, store: KazooStore, session: KazooSession
) -> None:
    ok(store, Create("/mine", None, ephemeral=True))
    session.abandon()
    found = zookeeper_client.exists(chroot[chroot.index("/") :] + "/mine")
    assert found is not None
    assert found.ephemeralOwner == session.session_id


def everything(store: KazooStore) -> list[ResultCode]:
    """Reads of every kind, few and many, and what they give."""
    ops: list[ReadOp] = [
        GetData("/a"),
        Exists("/a"),
        GetChildren("/"),
        GetData("/no"),
        Exists("/no"),
    ]
    few = [store.read([op])[0] for op in ops]
    many = store.read([*ops, *[GetData("/a")] * MANY])
    assert many[: len(ops)] == few
    assert (few[0].data, few[2].children) == (b"1", ["a"])
    assert few[0].stat == few[1].stat
    return [result.code for result in few]


def test_without_multi_read_the_answers_are_the_same(
    session: KazooSession, store: KazooStore
) -> None:
    ok(store, Create("/a", b"1"))
    expected = everything(store)
    assert session.has_multi_read
    session.has_multi_read = False
    assert everything(store) == expected


@pytest.mark.kafka
def test_a_server_older_than_multi_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libs = kafka_libs()
    if libs is None:
        pytest.skip(SKIP_REASON)
    monkeypatch.setattr(embedded, "_class_path", lambda: f"{libs}/*")
    with EmbeddedZooKeeper(tmp_path) as server:
        session = KazooSession(server.connect_string, TIMEOUT_MS)
        try:
            store = KazooStore(session)
            ok(store, Create("/a", b"1"))
            events: list[StoreEvent] = []
            results = store.read([GetData("/a", watch=True)] * MANY + [GetData("/b", watch=True)])
            assert [result.code for result in results] == [OK] * MANY + [ResultCode.NONODE]
            assert session.has_multi_read is False
            store.add_listener(events.append)
            ok(store, SetData("/a", b"2"), Create("/b", None))
            store.read([Exists("/")])
            assert events == [
                WatchEvent(WatchKind.DATA_CHANGED, "/a"),
                WatchEvent(WatchKind.CREATED, "/b"),
            ]
        finally:
            session.close()


@pytest.mark.parametrize("is_mute", [True, False])
def test_a_cut_link_loses_a_write_or_only_its_reply(
    chroot: str, zookeeper_client: KazooClient, is_mute: bool
) -> None:
    session = KazooSession(chroot, 4_000)
    states: list[StoreEvent] = []
    session.add_listener(states.append)
    path = f"{session.chroot.path}/a"
    session.cut(is_mute=is_mute, is_deaf=not is_mute)
    results: list[ResultCode] = []
    thread = threading.Thread(
        target=lambda: results.append(KazooStore(session).write([[Create("/a", None)]])[0].code)
    )
    thread.start()
    dropped = SessionEvent(SessionState.DISCONNECTED)
    wait_until(lambda: dropped in states, what="the silent connection to be dropped")
    assert (zookeeper_client.exists(path) is None) == is_mute
    session.cut(is_mute=False, is_deaf=False)
    thread.join(20)
    assert results == [ResultCode.CONNECTIONLOSS]
    assert SessionEvent(SessionState.EXPIRED) not in states
    session.close()


def test_no_write_arrives_on_a_connection_that_has_lost_one(
    session: KazooSession, zookeeper_client: KazooClient
) -> None:
    session.cut(is_mute=True, is_deaf=False)
    lost: list[ResultCode] = []
    thread = threading.Thread(
        target=lambda: lost.append(KazooStore(session).write([[Create("/a", None)]])[0].code)
    )
    thread.start()
    wait_until(lambda: session._link.has_lost, what="the write to be lost")
    session.cut(is_mute=False, is_deaf=False)
    later = KazooStore(session).write([[Create("/b", None)]])[0].code
    thread.join(20)
    assert [*lost, later] == [ResultCode.CONNECTIONLOSS] * 2
    assert zookeeper_client.get_children(session.chroot.path) == []


def test_what_was_not_received_arrives_as_soon_as_the_silence_ends(chroot: str) -> None:
    session = KazooSession(chroot, 30_000)  # kazoo would look after 10 s
    session.cut(is_mute=False, is_deaf=True)
    results: list[ResultCode] = []
    thread = threading.Thread(
        target=lambda: results.append(KazooStore(session).write([[Create("/a", None)]])[0].code)
    )
    thread.start()
    wait_until(lambda: session._client._pending, what="the request to be sent")
    session.cut(is_mute=False, is_deaf=False)
    thread.join(5)
    assert results == [OK]
    session.close()


def test_cuts_of_other_links_leave_an_idle_session_connected(chroot: str) -> None:
    session = KazooSession(chroot, TIMEOUT_MS, silence_limit_ms=600)
    events: list[StoreEvent] = []
    session.add_listener(events.append)
    end_s = time.monotonic() + 1.5  # more than three times the limit

    def cut_none() -> bool:
        session.cut(is_mute=False, is_deaf=False)
        return bool(events) or time.monotonic() > end_s

    wait_until(cut_none, what="cuts")
    assert events == []
    session.close()
