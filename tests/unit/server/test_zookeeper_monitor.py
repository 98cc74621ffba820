"""server/zookeeper_monitor.py: when it says that ZooKeeper is away, and when its data is lost."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from klamm.cluster.errors import KlammError, StoreError, ZooKeeperUnavailable
from klamm.server import zookeeper_monitor
from klamm.server.zookeeper_monitor import ZooKeeperMonitor
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryStore
from klamm.zk.store import SessionState
from klamm.zk.znodes import ClusterIdZNode
from tests.unit.tools.vectors import memory_server
from tests.waiting import wait_until

MINE = "AAAAAAAAAAAAAAAAAAAAAQ"


class Watched:
    """What a monitor looks at: a session in some state, and a store in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = MemoryStore(memory_server())
        self.client = KafkaZkClient(self.store)
        self.client.create("/cluster", None)
        self.set_id(MINE)
        self.now_s = 100.0
        self.probes: list[int | KlammError] = []
        own = SimpleNamespace(refusals=0, store=lambda _: self.store)
        spec = SimpleNamespace(cluster_id=MINE, zookeeper_security=None)
        self.cluster: Any = SimpleNamespace(
            connect_string="zk:1",
            session_state=SessionState.CONNECTED,
            own_session=own,
            spec=spec,
            newest_zxid=0x50,
        )
        monkeypatch.setattr("time.monotonic", lambda: self.now_s)
        monkeypatch.setattr(zookeeper_monitor, "newest_zxid", self.newest_zxid)
        self.monitor = ZooKeeperMonitor.__new__(ZooKeeperMonitor)
        monkeypatch.setattr("threading.Thread", lambda **_: SimpleNamespace(start=lambda: None))
        self.monitor.__init__(self.cluster, lambda _: None)  # type: ignore[misc]

    def set_id(self, cluster_id: str | None) -> None:
        if self.client.path_exists(ClusterIdZNode.path):
            self.client.delete(ClusterIdZNode.path)
        if cluster_id is not None:
            self.client.create(ClusterIdZNode.path, ClusterIdZNode.encode(cluster_id))

    def newest_zxid(self, where: str, timeout_ms: int, _: object) -> int:
        assert (where, timeout_ms) == ("zk:1", 3_000)
        found = self.probes.pop(0)
        if isinstance(found, KlammError):
            raise found
        return found

    def look(self, state: SessionState, after_s: float = 0.0) -> KlammError | None:
        self.now_s += after_s
        self.cluster.session_state = state
        return self.monitor._look()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Watched:
    caplog.set_level(logging.INFO)
    return Watched(monkeypatch)


def test_a_short_disconnection_is_not_reported(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    assert watched.look(SessionState.DISCONNECTED) is None
    assert watched.look(SessionState.DISCONNECTED, 0.4) is None
    assert watched.look(SessionState.CONNECTED, 0.2) is None
    assert watched.look(SessionState.DISCONNECTED, 5) is None
    assert caplog.messages == []


def test_an_outage_and_its_end_are_reported_once(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    for after_s in (0, 0.5, 0.5, 2.0):
        assert watched.look(SessionState.DISCONNECTED, after_s) is None
    assert watched.look(SessionState.CONNECTED, 0.25) is None
    assert watched.look(SessionState.CONNECTED, 1) is None
    said = [
        "ZooKeeper at zk:1 does not respond: the cluster waits for it",
        "ZooKeeper at zk:1 is back after 3.2 s",
    ]
    assert caplog.messages == said
    assert watched.look(SessionState.DISCONNECTED, 1) is None
    assert watched.look(SessionState.DISCONNECTED, 1) is None
    assert caplog.messages == [*said, said[0]]


@pytest.mark.parametrize(("found", "what"), [(None, "no cluster"), ("other", "cluster other")])
def test_a_zookeeper_that_comes_back_without_the_cluster_ends_it(
    watched: Watched, found: str | None, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    watched.look(SessionState.DISCONNECTED)
    watched.look(SessionState.DISCONNECTED, 1)
    caplog.clear()
    watched.set_id(found)
    failure = watched.look(SessionState.CONNECTED, 1)
    assert failure is not None
    assert failure.message == (
        f"ZooKeeper at zk:1 came back without its data: it has {what}, not {MINE}"
    )
    assert failure.hint is not None and failure.hint.startswith("it was emptied, or restored")
    assert caplog.messages == []


def test_a_session_that_expired_meanwhile_is_checked_too(watched: Watched) -> None:
    assert watched.look(SessionState.EXPIRED) is None
    watched.set_id(None)
    assert watched.look(SessionState.EXPIRED, 1) is not None


def test_a_damaged_cluster_id_is_not_lost_data(watched: Watched) -> None:
    watched.look(SessionState.DISCONNECTED)
    watched.client.delete(ClusterIdZNode.path)
    watched.client.create(ClusterIdZNode.path, b"?")
    assert watched.look(SessionState.CONNECTED) is None
    watched.set_id(None)
    assert watched.look(SessionState.CONNECTED) is None, "it is only checked after an outage"


def test_a_connection_that_is_lost_again_is_checked_again(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.look(SessionState.DISCONNECTED)
    watched.set_id(None)
    with monkeypatch.context() as patch:

        def lose(_: object) -> str:
            raise ZooKeeperUnavailable("lost")

        patch.setattr(KafkaZkClient, "get_cluster_id", lose)
        assert watched.look(SessionState.CONNECTED) is None
    assert watched.look(SessionState.CONNECTED) is not None


def test_the_zxid_of_a_server_that_refuses_the_session_is_asked_once_a_second(
    watched: Watched,
) -> None:
    watched.look(SessionState.DISCONNECTED)
    watched.cluster.own_session.refusals = 2
    assert watched.look(SessionState.DISCONNECTED) is None
    watched.cluster.own_session.refusals = 3
    watched.probes = [ZooKeeperUnavailable("no quorum"), StoreError("x"), 0x50, 0x4F]
    for left in (3, 2, 1):
        assert watched.look(SessionState.DISCONNECTED) is None
        assert len(watched.probes) == left
        assert watched.look(SessionState.DISCONNECTED, 0.9) is None
        assert len(watched.probes) == left, "it is asked once a second"
        watched.now_s += 0.1
    failure = watched.look(SessionState.DISCONNECTED)
    assert failure is not None
    assert failure.message == (
        "ZooKeeper at zk:1 has lost data: its last zxid is 0x4f, and this cluster has seen 0x50"
    )


def test_lost_data_ends_the_watch_and_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_monitor, "_LOOK_INTERVAL_S", 0.01)
    failures: list[KlammError] = []
    cluster: Any = SimpleNamespace(connect_string="zk:1")
    looked = iter([None, None, KlammError("gone"), KlammError("again")])
    monkeypatch.setattr(ZooKeeperMonitor, "_look", lambda _: next(looked))
    monitor = ZooKeeperMonitor(cluster, failures.append)
    wait_until(lambda: not monitor._thread.is_alive())
    monitor.close()
    assert [failure.message for failure in failures] == ["gone"]
