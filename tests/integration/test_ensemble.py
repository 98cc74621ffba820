"""zk/ensemble.py and its guard: a real quorum that loses and regains servers."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from klamm.cluster.errors import KlammError, NotFound, UsageError, WrongState, ZooKeeperUnavailable
from klamm.server.zookeeper_guard import ZooKeeperGuard
from klamm.zk import ports
from klamm.zk.embedded import EmbeddedZooKeeper
from klamm.zk.ensemble import FOLLOWER, LEADER, NO_QUORUM, EmbeddedEnsemble, check_size
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.store import Create, Exists, GetChildren, ResultCode
from tests.listeners import free_ports
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("servers_hurry")
TIMEOUT_MS = 15_000


@contextmanager
def store_on(ensemble: EmbeddedEnsemble) -> Iterator[KazooStore]:
    store = KazooStore(KazooSession(ensemble.connect_string, TIMEOUT_MS))
    try:
        yield store
    finally:
        store.close()


def states(ensemble: EmbeddedEnsemble) -> list[str]:
    return sorted(server.state for server in ensemble.states())


@pytest.mark.slow
def test_a_quorum_survives_its_leader_and_waits_for_a_majority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = free_ports(10)
    # No two of the ensemble's nine ports may be the same, not even when hardly any others are free.
    monkeypatch.setattr(ports, "FREE_PORTS", range(first, first + 10))
    with EmbeddedEnsemble(tmp_path, 3, first) as ensemble:
        addresses = [f"127.0.0.1:{first + n}" for n in range(3)]
        assert ensemble.connect_string == ",".join(addresses)
        with pytest.raises(ZooKeeperUnavailable, match=f"port {first + 2} is in use"):
            EmbeddedEnsemble(tmp_path / "other", 1, first + 2).start()
        wait_until(lambda: states(ensemble) == [FOLLOWER, FOLLOWER, LEADER], 20)
        with store_on(ensemble) as store:
            assert store.write([[Create("/before", b"")]])[0].code is ResultCode.OK
            session_id, leader_id = store.session_id, ensemble.find(LEADER)
            ensemble.act("kill", leader_id)
            assert store.read([Exists("/before")])[0].code is ResultCode.OK
            assert store.write([[Create("/without-leader", b"")]])[0].code is ResultCode.OK
            ensemble.lose_quorum()
            wait_until(lambda: states(ensemble) == ["down", "down", NO_QUORUM], 20)
            with pytest.raises(WrongState, match="no ZooKeeper server is the leader now"):
                ensemble.find(LEADER)
            ensemble.regain_quorum()
            children = store.read([GetChildren("/")])[0].children
            assert set(children or ()) == {"before", "without-leader", "zookeeper"}
            assert store.session_id == session_id
    assert states(ensemble) == ["down"] * 3
    assert not any(server.is_running for server in ensemble.servers.values())


@pytest.mark.slow
def test_the_guard_starts_what_crashed_or_hangs_and_leaves_what_was_killed(tmp_path: Path) -> None:
    failures: list[KlammError] = []
    with EmbeddedEnsemble(tmp_path, 3) as ensemble:
        guard = ZooKeeperGuard(ensemble, failures.append, hang_s=2.0)
        try:
            leader_id = ensemble.find(LEADER)
            ensemble.crash(leader_id)
            wait_until(lambda: ensemble.state(leader_id) == FOLLOWER, 30, "the crashed leader")
            killed, hanging = ensemble.find(FOLLOWER), ensemble.find(LEADER)
            ensemble.act("kill", killed)
            server = ensemble.servers[hanging]
            server.pause()
            server.is_paused = False  # the guard must not know that it was paused
            wait_until(lambda: ensemble.leader_id() not in (None, hanging), 40, "another leader")
            wait_until(lambda: ensemble.state(hanging) == FOLLOWER, 30, "the server that hung")
            assert ensemble.state(killed) == "down"
            assert failures == []
        finally:
            guard.close()


def spoil_and_crash(ensemble: EmbeddedEnsemble) -> int:
    """Crash a server that can never start again; returns its id."""
    server_id = next(id_ for id_, server in ensemble.servers.items() if server.is_running)
    data = ensemble.servers[server_id].data_dir / "version-2"
    ensemble.crash(server_id)
    shutil.rmtree(data)
    data.write_text("not a directory")
    return server_id


@pytest.mark.slow
def test_the_guard_ends_the_cluster_only_without_a_quorum(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[KlammError] = []
    with EmbeddedEnsemble(tmp_path, 3) as ensemble:
        guard = ZooKeeperGuard(ensemble, failures.append)
        try:
            spoil_and_crash(ensemble)
            wait_until(lambda: "the other servers continue" in caplog.text, 60, "the first")
            assert failures == []
            spoiled = spoil_and_crash(ensemble)
            wait_until(lambda: failures, 60, "the end")
        finally:
            guard.close()
        (failure,) = failures
        assert ensemble.servers[spoiled].connect_string in failure.message


def test_a_frozen_server_answers_again_when_it_is_resumed(tmp_path: Path) -> None:
    with EmbeddedEnsemble(tmp_path, 1) as ensemble:
        assert ensemble.state(1) == "standalone"
        ensemble.act("pause", 1)
        assert ensemble.state(1) == "paused"
        with pytest.raises(WrongState, match="cannot pause ZooKeeper server 1: its state is 'pau"):
            ensemble.act("pause", 1)
        ensemble.act("resume", 1)
        wait_until(lambda: ensemble.state(1) == "standalone", 10)
        with pytest.raises(WrongState, match="cannot resume ZooKeeper server 1") as refused:
            ensemble.act("resume", 1)
        assert refused.value.hint == "the server must be paused"
        with pytest.raises(NotFound, match="there is no ZooKeeper server 2"):
            ensemble.find("2")


def test_another_number_of_servers_is_refused(tmp_path: Path) -> None:
    check_size(tmp_path / "in" / "three", 3)
    check_size(tmp_path / "in" / "three", 3)
    with pytest.raises(UsageError, match="has the data of 3 ZooKeeper servers, not of 1") as caught:
        EmbeddedEnsemble(tmp_path / "in" / "three", 1).start()
    assert caught.value.hint == "use --zookeeper-servers 3, or another data directory"
    (tmp_path / "one" / "version-2").mkdir(parents=True)
    with pytest.raises(UsageError, match="has the data of 1 ZooKeeper server, not of 3"):
        EmbeddedEnsemble(tmp_path / "one", 3).start()
    with pytest.raises(UsageError, match="an ensemble cannot have 2 ZooKeeper servers"):
        EmbeddedEnsemble(tmp_path, 2)


@pytest.mark.slow
def test_the_servers_die_with_a_parent_killed_while_one_is_frozen(tmp_path: Path) -> None:
    with EmbeddedEnsemble(tmp_path, 3) as ensemble:
        frozen = ensemble.servers[1]
        frozen.pause()
        supervisors = [server._supervisor for server in ensemble.servers.values()]
        for supervisor in supervisors:
            assert supervisor is not None
            assert supervisor.stdin is not None
            supervisor.stdin.close()  # as the system does for a parent that is killed
        for supervisor in supervisors:
            assert supervisor is not None
            assert supervisor.wait(10) == -signal.SIGKILL or supervisor.returncode != 0
    # The directories are free again: no server process is left.
    with EmbeddedZooKeeper(tmp_path / "server-1", quorum={}) as again:
        assert again.is_running
    assert os.listdir(tmp_path / "server-1")
