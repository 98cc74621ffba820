"""The fault proxy before a real server: it breaks what it is told to, and nothing else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from klamm.zk.embedded import EmbeddedZooKeeper
from klamm.zk.kazoo_pipeline import Completion
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.store import Create, Exists, GetData, ResultCode, SetData, Transaction, TxnResult
from tests.fault_proxy import HOST, FaultProxy
from tests.waiting import wait_until

TIMEOUT_MS = 20_000


@pytest.fixture
def proxy(zookeeper: EmbeddedZooKeeper) -> Iterator[FaultProxy]:
    with FaultProxy(zookeeper.port) as proxy:
        yield proxy


@pytest.fixture
def session(proxy: FaultProxy, chroot: str) -> Iterator[KazooSession]:
    session = KazooSession(proxy.address + chroot[chroot.index("/") :], TIMEOUT_MS)
    yield session
    session.close()


class Written(threading.Thread):
    """A batch of writes in a separate thread; ``sent`` is set once the batch has been sent."""

    def __init__(self, session: KazooSession, *transactions: Transaction) -> None:
        super().__init__()
        self.sent = threading.Event()
        self.results: list[TxnResult] = []
        self._session = session
        self._transactions = transactions
        self.start()
        assert self.sent.wait(20)

    def run(self) -> None:
        self.results = KazooStore(self._session, self._wait).write(self._transactions)

    def codes(self) -> list[ResultCode]:
        self.join(20)
        return [result.code for result in self.results]

    def _wait(self, completion: Completion) -> None:
        self.sent.set()
        completion.wait()


def test_a_pause_holds_everything_and_loses_nothing(
    proxy: FaultProxy, session: KazooSession, zookeeper_client: KazooClient
) -> None:
    session_id, path = session.session_id, f"{session.chroot.path}/a"
    proxy.pause()
    written = Written(session, [Create("/a", b"1")])
    zookeeper_client.sync("/")
    assert zookeeper_client.exists(path) is None
    assert written.is_alive()
    proxy.resume()
    assert written.codes() == [ResultCode.OK]
    assert session.session_id == session_id


def test_what_is_cut_in_a_pause_never_arrives(proxy: FaultProxy, session: KazooSession) -> None:
    proxy.pause()
    written = Written(session, [Create("/a", b"1")])
    wait_until(lambda: session._client._pending, what="the request to leave the client")
    proxy.cut()
    proxy.resume()
    assert written.codes() == [ResultCode.CONNECTIONLOSS]
    assert KazooStore(session).read([Exists("/a")])[0].code is ResultCode.NONODE


def test_the_reply_that_is_lost_is_the_one_that_was_named(
    session: KazooSession, proxy: FaultProxy
) -> None:
    store = KazooStore(session)
    store.write([[Create("/a", b"0")]])
    lost = proxy.lose_reply(replies_before=2)
    for value in (b"1", b"2"):
        assert store.write([[SetData("/a", value)]])[0].code is ResultCode.OK
        assert not lost.is_set()
    assert store.write([[SetData("/a", b"3")]])[0].code is ResultCode.CONNECTIONLOSS
    assert lost.is_set()
    assert store.read([GetData("/a")])[0].data == b"3"


def test_no_client_gets_through_while_it_is_down(proxy: FaultProxy, session: KazooSession) -> None:
    proxy.down()
    with socket.create_connection((HOST, proxy.port)) as refused:
        assert refused.recv(1) == b""
    proxy.up()
    assert KazooStore(session).read([Exists("/")])[0].code is ResultCode.OK


def test_a_server_that_is_not_there_ends_the_connection() -> None:
    with socket.create_server((HOST, 0)) as unused:
        port = unused.getsockname()[1]
    with FaultProxy(port) as proxy, socket.create_connection((HOST, proxy.port)) as refused:
        assert refused.recv(1) == b""


def test_close_ends_its_threads_and_its_port(zookeeper: EmbeddedZooKeeper) -> None:
    before = set(threading.enumerate())
    proxy = FaultProxy(zookeeper.port)
    with socket.create_connection((HOST, proxy.port)) as client:
        wait_until(lambda: len(set(threading.enumerate()) - before) == 3, what="its threads")
        proxy.close()
        assert client.recv(1) == b""
    proxy.close()
    assert set(threading.enumerate()) <= before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, proxy.port))
