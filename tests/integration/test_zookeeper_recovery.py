"""Recovery after ZooKeeper was lost: how soon sessions reconnect, and when they must not."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from klamm.brokers.logs.file_log_store import LOCK
from klamm.brokers.storage.disk import LOCAL_DISK
from klamm.cluster.errors import ZooKeeperUnavailable
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.journal.journal import MemoryJournal
from klamm.world.live import sessions
from klamm.world.real.cluster import RealCluster
from klamm.zk.embedded import EmbeddedZooKeeper
from klamm.zk.kazoo_pipeline import within
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore, newest_zxid
from klamm.zk.store import Create, Exists, GetData, ResultCode, SessionEvent, SessionState
from tests.fault_proxy import FaultProxy
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("servers_hurry")
LONG_MS = 30_000
MARGIN_S = 2.0


@pytest.fixture
def proxy(zookeeper: EmbeddedZooKeeper) -> Iterator[FaultProxy]:
    with FaultProxy(zookeeper.port) as proxy:
        yield proxy


def states_of(session: KazooSession) -> list[SessionState]:
    """The list of the session's states from now on, which grows."""
    states: list[SessionState] = []
    session.add_listener(
        lambda event: states.append(event.state) if isinstance(event, SessionEvent) else None
    )
    return states


def test_an_attempt_at_a_black_hole_ends_long_before_a_long_session(proxy: FaultProxy) -> None:
    session = KazooSession(proxy.address, LONG_MS)
    try:
        states = states_of(session)
        assert proxy.black_hole().wait(5)
        proxy.up()
        back_s = time.monotonic()
        wait_until(lambda: states[-1:] == [SessionState.CONNECTED], 40, "the session's return")
        assert time.monotonic() - back_s < 3.0 + MARGIN_S
        assert SessionState.EXPIRED not in states
    finally:
        session.close()


def test_the_clusters_own_session_notices_a_hang_as_soon_as_the_brokers(proxy: FaultProxy) -> None:
    spec = ClusterSpec(broker_ids=(0,), session_timeout_ms=2_000, run_id="r")
    with RealCluster(spec, proxy.address, MemoryJournal()) as cluster:
        proxy.pause()
        wait_until(
            lambda: cluster.session_state is SessionState.DISCONNECTED, 6, "the hang to be noticed"
        )
        proxy.resume()
        wait_until(lambda: cluster.session_state is SessionState.CONNECTED, 5, "its end")
        assert cluster.errors == []


@pytest.mark.parametrize("end", [RealCluster.kill, RealCluster.shut_down])
def test_a_broker_that_ends_while_zookeeper_hangs_leaves_its_log_directory(
    proxy: FaultProxy,
    chroot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[RealCluster, int], None],
) -> None:
    monkeypatch.setattr(sessions, "UNPOOLED_AT_MOST", 0)
    monkeypatch.setattr(sessions, "STORE_TIMEOUT_S", 0.5)
    spec = ClusterSpec(broker_ids=(1,), candidates=(), segments=tmp_path)
    address = proxy.address + chroot[chroot.index("/") :]
    with RealCluster(spec, address, MemoryJournal()) as cluster:
        cluster.start(1)
        (lock,) = tmp_path.rglob(LOCK)
        with pytest.raises(BlockingIOError):
            LOCAL_DISK.lock(lock)
        proxy.pause()
        wait_until(
            lambda: cluster.session_state is SessionState.DISCONNECTED, 10, "the hang to be noticed"
        )
        with pytest.raises(ZooKeeperUnavailable):
            end(cluster, 1)
        LOCAL_DISK.lock(lock)()
        proxy.resume()


def test_requests_that_go_on_do_not_hide_a_hang(proxy: FaultProxy) -> None:
    session = KazooSession(proxy.address, LONG_MS, silence_limit_ms=1_500)
    try:
        states, store = states_of(session), KazooStore(session, within(0.1))
        proxy.pause()
        paused_s = time.monotonic()
        while not states and time.monotonic() - paused_s < 5:
            with pytest.raises(ZooKeeperUnavailable, match=r"did not answer within 0\.1 s"):
                store.read([Exists("/")])
        assert states == [SessionState.DISCONNECTED]
    finally:
        proxy.resume()
        session.close()


def emptied(server: EmbeddedZooKeeper) -> None:
    """Start a server again without its data."""
    server.kill()
    shutil.rmtree(server.data_dir / "version-2")
    server.start()


@pytest.mark.slow
def test_no_session_begins_on_a_server_that_was_emptied(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path) as server, FaultProxy(server.port) as proxy:
        session = KazooSession(proxy.address, 1_000)
        try:
            store = KazooStore(session)
            for name in range(20):
                assert store.write([[Create(f"/{name}", b"")]])[0].code is ResultCode.OK
            states, seen = states_of(session), session.last_zxid
            proxy.down()
            wait_until(lambda: "Expiring" in server.log_path.read_text(), 5, "the session's end")
            proxy.up()
            wait_until(lambda: states[-1:] == [SessionState.EXPIRED], 5, "the client to hear of it")
            emptied(server)
            reopening = threading.Thread(target=session.reopen)
            reopening.start()
            wait_until(lambda: session.refusals >= 3, 10, "the server to refuse the session")
            assert reopening.is_alive()
            assert newest_zxid(proxy.address, 2_000) < seen
            with pytest.raises(ZooKeeperUnavailable):
                KazooSession(proxy.address, 1_000, 1_000, zxid_seen=seen)
        finally:
            session.close()
        reopening.join()


def test_a_session_that_begins_with_an_old_zxid_hears_only_of_later_changes(chroot: str) -> None:
    first = KazooSession(chroot, LONG_MS)
    try:
        store = KazooStore(first)
        paths = [f"/{name}" for name in range(50)]
        old = first.last_zxid or newest_zxid(chroot, 5_000)
        store.write([[Create(path, b"")] for path in paths])
        second = KazooSession(chroot, LONG_MS, zxid_seen=old)
        try:
            events: list[object] = []
            second.has_multi_read = True  # as after reopen: the server is known
            second.add_listener(events.append)
            KazooStore(second).read([GetData(path, watch=True) for path in paths])
            KazooStore(second).read([Exists("/")])
            assert events == []
        finally:
            second.close()
    finally:
        first.close()
