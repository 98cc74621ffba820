"""zk/ensemble.py on played servers: their states, which one is meant, what may be done to it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from klamm.cluster.errors import NotFound, UsageError, WrongState, ZooKeeperUnavailable
from klamm.zk.ensemble import EmbeddedEnsemble, ServerState, check_size
from tests.played_zookeeper import GARBAGE, PlayedServer, played_ensemble

THREE = ("follower", "leader", "follower")


@pytest.mark.parametrize(
    ("role", "state"),
    [
        ("leader", "leader"),
        ("follower", "follower"),
        ("standalone", "standalone"),
        ("", "no quorum"),
        (GARBAGE, "no answer"),
    ],
)
def test_the_answer_of_a_server_is_its_state(tmp_path: Path, role: str, state: str) -> None:
    with played_ensemble(tmp_path, [role]) as (ensemble, servers):
        assert ensemble.states() == [ServerState(1, servers[1].connect_string, state)]
        servers[1].is_starting = True
        assert ensemble.state(1) == "starting"
        servers[1].crash()
        assert ensemble.state(1) == "down"
        servers[1].start()
        servers[1].pause()
        assert ensemble.state(1) == "paused"
    servers[1].is_paused = servers[1].is_starting = False
    assert ensemble.state(1) == "no answer"


def test_a_majority_is_more_than_half_of_the_servers() -> None:
    sizes = {size: EmbeddedEnsemble(Path(), size).majority for size in (1, 3, 5)}
    assert sizes == {1: 1, 3: 2, 5: 3}


def test_servers_are_found_by_id_and_by_role(tmp_path: Path) -> None:
    with played_ensemble(tmp_path, THREE) as (ensemble, servers):
        addresses = [server.connect_string for server in servers.values()]
        assert ensemble.connect_string == ",".join(addresses)
        assert [ensemble.find(word) for word in ("3", "leader", "follower")] == [3, 2, 1]
        assert ensemble.leader_id() == 2
        with pytest.raises(NotFound, match="there is no ZooKeeper server 4") as missing:
            ensemble.find("4")
        assert missing.value.hint == "ZooKeeper servers: 1, 2, 3"
        with pytest.raises(UsageError, match="'boss' is not a ZooKeeper server"):
            ensemble.find("boss")
        for server in servers.values():
            server.role = ""
        servers[3].kill()
        with pytest.raises(WrongState) as none:
            ensemble.find("leader")
        assert none.value.message == (
            "no ZooKeeper server is the leader now (1: no quorum, 2: no quorum, 3: down)"
        )
        with pytest.raises(WrongState, match="no ZooKeeper server is a follower now"):
            ensemble.find("follower")
        assert ensemble.leader_id() is None


def test_a_single_server_is_its_leader(tmp_path: Path) -> None:
    with played_ensemble(tmp_path, ["standalone"]) as (ensemble, _):
        assert (ensemble.find("leader"), ensemble.leader_id()) == (1, 1)
        with pytest.raises(WrongState, match=r"a follower now \(1: standalone\)"):
            ensemble.find("follower")


@pytest.mark.parametrize(
    ("action", "allowed"),
    [
        ("kill", {"running", "paused"}),
        ("start", {"down"}),
        ("pause", {"running"}),
        ("resume", {"paused"}),
    ],
)
def test_the_state_of_a_server_decides_what_may_be_done_to_it(
    tmp_path: Path, action: str, allowed: set[str]
) -> None:
    with played_ensemble(tmp_path, ["standalone"]) as (ensemble, servers):
        for state in ("running", "paused", "down"):
            _bring_into(servers[1], state)
            if state in allowed:
                ensemble.act(action, 1)
                assert servers[1].calls == [action]
            else:
                with pytest.raises(WrongState) as refused:
                    ensemble.act(action, 1)
                shown = {"running": "standalone"}.get(state, state)
                assert refused.value.message == (
                    f"cannot {action} ZooKeeper server 1: its state is '{shown}'"
                )
                wanted = [one for one in ("running", "paused", "down") if one in allowed]
                assert refused.value.hint == f"the server must be {' or '.join(wanted)}"
                assert servers[1].calls == []


def _bring_into(server: PlayedServer, state: str) -> None:
    server.start()
    if state == "paused":
        server.pause()
    elif state == "down":
        server.kill()
    else:
        server.is_paused = False
    server.calls.clear()


@pytest.mark.parametrize(
    ("roles", "down", "killed"),
    [
        (THREE, (), [1, 2]),
        (THREE, (1,), [2]),
        (THREE, (1, 2), []),
        (("follower", "follower", "follower", "follower", "leader"), (), [1, 2, 5]),
        (("standalone",), (), [1]),
    ],
)
def test_a_quorum_is_lost_with_its_leader_and_no_server_more(
    tmp_path: Path, roles: tuple[str, ...], down: tuple[int, ...], killed: list[int]
) -> None:
    with played_ensemble(tmp_path, roles) as (ensemble, servers):
        for id_ in down:
            servers[id_].kill()
            servers[id_].calls.clear()
        ensemble.lose_quorum()
        assert [id_ for id_, server in servers.items() if server.calls == ["kill"]] == killed


def test_a_quorum_is_regained_with_all_servers(tmp_path: Path) -> None:
    with played_ensemble(tmp_path, THREE) as (ensemble, servers):
        servers[1].pause()
        servers[3].kill()
        for server in servers.values():
            server.calls.clear()
        ensemble.regain_quorum()
        assert [server.calls for server in servers.values()] == [["resume"], [], ["start"]]
        ensemble.close()
        assert all(server.calls[-1] == "kill" for server in servers.values())


def test_a_quorum_that_is_not_regained_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ZooKeeperUnavailable("no start")

    monkeypatch.setattr("klamm.zk.ensemble.QUORUM_TIMEOUT_S", 0.05)
    with played_ensemble(tmp_path, THREE) as (ensemble, servers):
        servers[3].kill()
        servers[3].starts.append(fail)
        with pytest.raises(ZooKeeperUnavailable, match="no start"):
            ensemble.regain_quorum()
        servers[2].role = "follower"
        with pytest.raises(ZooKeeperUnavailable, match="no ZooKeeper server was elected leader"):
            ensemble.regain_quorum()


def test_the_error_about_a_missing_quorum_describes_its_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("klamm.zk.ensemble.QUORUM_TIMEOUT_S", 0.05)
    with (
        played_ensemble(tmp_path, ("follower", "", "follower")) as (ensemble, _),
        pytest.raises(ZooKeeperUnavailable) as late,
    ):
        ensemble.await_quorum()
    assert late.value.message == (
        "no ZooKeeper server was elected leader in 0.05 s (1: follower, 2: no quorum, 3: follower)"
    )
    assert late.value.hint == f"their logs are in {tmp_path}"


def test_the_number_of_servers_is_kept(tmp_path: Path) -> None:
    for size in (1, 3, 5):
        check_size(tmp_path / str(size), size)
    assert (tmp_path / "3" / "servers").read_text() == "3\n"
    assert not (tmp_path / "1" / "servers").exists()
    with pytest.raises(UsageError, match="has the data of 5 ZooKeeper servers, not of 3 ZooKeeper"):
        check_size(tmp_path / "5", 3)
    (tmp_path / "1" / "version-2").mkdir()
    with pytest.raises(UsageError, match="has the data of 1 ZooKeeper server, not of 3 ZooKeeper"):
        check_size(tmp_path / "1", 3)
    (tmp_path / "3" / "servers").write_text("many")
    with pytest.raises(ZooKeeperUnavailable, match="cannot be used: invalid literal"):
        check_size(tmp_path / "3", 3)
    (tmp_path / "file").touch()
    with pytest.raises(ZooKeeperUnavailable, match=r"cannot be used: .*exists"):
        check_size(tmp_path / "file", 1)


@pytest.mark.parametrize("size", [1, 3])
def test_a_port_that_is_in_use_is_named_before_a_server_starts(tmp_path: Path, size: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        with pytest.raises(ZooKeeperUnavailable, match=f"{port}.*in use") as raised:
            EmbeddedEnsemble(tmp_path, size, first_port=port).start()
    assert "choose another port with --zookeeper-port" in str(raised.value.hint)
    assert list(tmp_path.iterdir()) == []
