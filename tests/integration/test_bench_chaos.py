"""bench/chaos.py and bench/kill9.py on a real cluster, and planted faults for their checker."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from bench import chaos, kill9, kill9_model
from bench.chaos_checker import Checker
from bench.live_cluster import held_locks, is_port_free, processes_naming
from bench.live_ledger import Produced, Stretch
from tests.waiting import wait_until

STATE = {"version": 1, "leader": 1, "isr": [1, 2], "leader_epoch": 4, "controller_epoch": 3}
STATE_PATH = "/brokers/topics/t/partitions/0/state"


@pytest.fixture
def client(chroot: str) -> Iterator[KazooClient]:
    """Znodes of a cluster that does not run: two brokers, a controller, a partition."""
    session = KazooClient(hosts=chroot)
    session.start()

    def create(path: str, value: object, *, ephemeral: bool = False) -> None:
        session.create(path, json.dumps(value).encode(), ephemeral=ephemeral, makepath=True)

    for broker in (1, 2):
        create(f"/brokers/ids/{broker}", {}, ephemeral=True)
    create("/controller", {"brokerid": 1}, ephemeral=True)
    create("/controller_epoch", 3)
    create("/brokers/topics/t", {"version": 3, "partitions": {"0": [1, 2]}})
    create(STATE_PATH, STATE)
    yield session
    session.stop()
    session.close()


@pytest.fixture
def checker(chroot: str, client: KazooClient) -> Iterator[Checker]:
    """The checker on this cluster, after a first sweep without violations."""
    looking = Checker(chroot)
    looking.start()
    wait_until(lambda: looking.judge.samples > 1)
    assert looking.judge.violations == []
    yield looking
    looking.close()
    assert looking.failure is None


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"isr": [1, 2, 99]}, "ISR outside the replicas"),
        ({"leader": 98}, "leader outside the ISR"),
        ({"leader": 2}, "two leaders in one leader epoch"),
        ({"leader_epoch": 3}, "leader epoch went back"),
        ({"controller_epoch": 2}, "written by a deposed controller"),
    ],
)
def test_a_planted_state_is_found(
    checker: Checker, client: KazooClient, changed: dict[str, object], kind: str
) -> None:
    checker.plant(STATE_PATH, lambda state: {**state, **changed})
    wait_until(lambda: kind in checker.judge.counts, what=kind)


def test_a_planted_controller_epoch_is_found(checker: Checker, client: KazooClient) -> None:
    checker.plant("/controller_epoch", lambda epoch: epoch - 1)
    wait_until(lambda: "controller epoch went back" in checker.judge.counts)


def test_a_dead_controller_is_found(checker: Checker, client: KazooClient) -> None:
    client.delete("/brokers/ids/1")
    wait_until(lambda: "/controller is held by a dead broker" in checker.judge.counts)


def test_a_znode_that_cannot_be_read_is_found(checker: Checker, client: KazooClient) -> None:
    client.set(STATE_PATH, b"{")
    wait_until(lambda: "a znode that cannot be read" in checker.judge.counts)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_short_chaos(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--minutes", "0.3", "--seed", "7", "--brokers", "4", "--session-timeout-ms", "1500"]
    code = chaos.main([*words, "--segments", "--json", "--data-dir", str(tmp_path / "data")])
    result = json.loads(capsys.readouterr().out)
    assert (code, result["safety"], result["liveness"]) == (0, [], [])
    assert result["figures"]["records acknowledged"] == result["figures"]["records read"] > 0
    assert result["figures"]["actions"] > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_fault_that_is_planted_in_a_running_cluster_ends_chaos_with_10(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--minutes", "0.05", "--brokers", "4", "--session-timeout-ms", "1500", "--json"]
    code = chaos.main([*words, "--plant", "controller-epoch", "--data-dir", str(tmp_path / "data")])
    result = json.loads(capsys.readouterr().out)
    assert code == 10
    assert any(line.startswith("written by a deposed controller") for line in result["safety"])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_few_kills(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = kill9.main(["--kills", "2", "--json", "--data-dir", str(tmp_path / "data")])
    result = json.loads(capsys.readouterr().out)
    assert (code, result["safety"], result["liveness"]) == (0, [], [])
    assert result["figures"]["kills"] == 2


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_few_kills_with_files_and_what_is_lost_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--seed", "4", "--segments", "--cluster-seed", "7"]
    run = kill9.Kill9(kill9.parse([*words, "--kills", "3"]), tmp_path / "data", lambda _: None)
    run.go()
    assert (run.outcome.safety, run.outcome.liveness) == ([], [])
    assert any(one.acknowledged_count for one in run.produced["load-0"])

    run.options = kill9.parse([*words, "--kills", "0"])
    run.produced["load-0"].append(Produced("never", [Stretch(0, 0, 10**6, 10**6 + 1)]))
    run.model.topics["never"] = 1
    monkeypatch.setattr(kill9, "READ_TIMEOUT_S", 3.0)
    monkeypatch.setattr(kill9_model, "MISSING_TIMEOUT_S", 1.0)
    run.go()
    assert "topic never has None partitions, not 1" in run.outcome.safety[0]
    assert "load-0: 1 acknowledged records lost" in run.outcome.safety[1]


def test_what_a_cluster_left_is_found(tmp_path: Path) -> None:
    lock = tmp_path / "klamm.lock"
    lock.touch()
    assert held_locks(tmp_path) == []
    assert processes_naming(str(tmp_path)) == []
    program = "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_EX)"
    words = [sys.executable, "-c", f"{program}; print(flush=True); input()", str(lock)]
    with (
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        assert held_locks(tmp_path) == ["klamm.lock"]
        assert len(processes_naming(str(tmp_path))) == 1
        assert not is_port_free(listener.getsockname()[1])
        process.communicate(b"\n")
