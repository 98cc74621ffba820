"""klamm up whose ZooKeeper dies: its own is started again, another's is waited for."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from klamm.zk.embedded import EmbeddedZooKeeper
from tests.serving import Up, klamm_up, processes_naming
from tests.waiting import wait_until

JAVA, SUPERVISOR = "java", "supervisor"


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """Two brokers over klamm's own ZooKeeper."""
    with klamm_up(tmp_path, "--brokers", "2", "--session-timeout-ms", "6000") as running:
        yield running


def zookeeper_pids(folder: Path) -> dict[str, int]:
    """The server's process and the one that watches over it."""
    listed = subprocess.run(
        ["ps", "-e", "-ww", "-o", "pid,args"], capture_output=True, text=True, check=True
    ).stdout
    pids = {}
    for line in listed.splitlines():
        pid, _, command = line.strip().partition(" ")
        if str(folder) in command and "ZooKeeperServerMain" in command:
            pids[SUPERVISOR if "supervisor.py" in command else JAVA] = int(pid)
    return pids


def create_topic(up: Up, name: str) -> bool:
    """Whether a topic could be created."""
    server = ("--bootstrap-server", up.url.removeprefix("http://"))
    wanted = ("--partitions", "2", "--replication-factor", "2")
    done = up.run("topics", *server, "--create", "--topic", name, *wanted)
    return f"Created topic {name}." in done.stdout or "already exists" in done.stdout


def zookeeper_of(up: Up) -> dict[str, object]:
    """What klamm status says of ZooKeeper."""
    return msgspec.convert(up.json("status")["zookeeper"], dict[str, object])


@pytest.mark.slow
@pytest.mark.parametrize("victim", [JAVA, SUPERVISOR])
def test_its_own_zookeeper_is_started_again(up: Up, victim: str) -> None:
    assert create_topic(up, "before")
    before = zookeeper_pids(up.data_dir)
    os.kill(before[victim], signal.SIGKILL)
    wait_until(
        lambda: len(now := zookeeper_pids(up.data_dir)) == 2 and now[JAVA] != before[JAVA],
        20,
        "another server",
    )
    wait_until(lambda: create_topic(up, "after"), 30, "a topic to be created again")
    wait_until(lambda: zookeeper_of(up)["is_stale"] is False, 20)
    server = ("--bootstrap-server", up.url.removeprefix("http://"))
    assert up.ok("topics", *server, "--list").split() == ["after", "before"]
    # Sessions may be back before the server's own start was seen to be over.
    wait_until(lambda: "is running again" in up.output(), 20)
    told = [line for line in up.end().splitlines() if ": ZooKeeper at" in line]
    expected = {
        "has ended: restarting it": "warning",
        "does not respond": "warning",
        "is running again": "info",
        "is back after": "info",
    }
    for words, level in expected.items():
        (line,) = [line for line in told if words in line]
        assert line.startswith(f"{level}: ")
    assert not processes_naming(str(up.data_dir))


@pytest.mark.slow
def test_a_zookeeper_that_cannot_be_started_again_ends_klamm(up: Up) -> None:
    version = up.data_dir / "zookeeper" / "version-2"
    for log in version.glob("log.*"):
        log.write_bytes(b"no log at all" * 100)
    for snapshot in version.glob("snapshot.*"):
        snapshot.write_bytes(b"no snapshot")
    os.kill(zookeeper_pids(up.data_dir)[JAVA], signal.SIGKILL)
    output = up.wait()
    assert up.process.returncode == 1
    assert output.count("has ended: restarting it") == 3
    error, hint = output.splitlines()[-2:]
    assert error.startswith("error: ZooKeeper at 127.0.0.1:")
    assert "has ended and cannot be restarted: ZooKeeper did not start: " in error
    assert hint.startswith("hint: its log is ")
    assert not processes_naming(str(up.data_dir))


@pytest.mark.slow
def test_a_dead_zookeeper_neither_hides_the_status_nor_holds_up_the_end(tmp_path: Path) -> None:
    with EmbeddedZooKeeper() as server:
        where = server.connect_string
        with klamm_up(tmp_path, "--brokers", "2", "--zookeeper", f"{where}/k") as up:
            up.ok("topics", "--create", "--topic", "t", "--replica-assignment", "0:1,1:0")
            assert "last" not in up.ok("status")
            before = msgspec.convert(up.json("status")["controller"], dict[str, object])
            dead = 1 if before["controller_id"] == 0 else 0
            up.ok("broker", "kill", str(dead))
            server.kill()
            wait_until(lambda: zookeeper_of(up)["is_stale"] is True, 20)
            status = up.json("status")
            brokers = msgspec.convert(status["brokers"], list[dict[str, object]])
            assert [broker["live"] for broker in brokers] == [None, None]
            lines = up.ok("status").splitlines()
            assert lines[1] == f"ZooKeeper:   {where}/k (disconnected)"
            assert "is unreachable; the values below are the last known ones" in lines[2]
            assert lines[3].startswith("Controller:  last known: broker ")
            leads = [{"broker": dead, "partition_count": 1, "partitions": [f"t-{dead}"]}]
            assert status["dead_leaders"] == leads
            assert any("0 partitions; 1 without a live leader; " in line for line in lines)
            assert lines[-1] == (
                f"Broker {dead} is dead but leads t-{dead}: the controller elects other leaders "
                "when ZooKeeper is reachable again and the broker's session expires, after at most "
                "6000 ms"
            )
            refused = up.run("broker", "start", str(dead))
            assert refused.returncode == 1
            assert "does not respond" in refused.stderr
            up.end()
    assert up.process.returncode == 130
    assert not processes_naming(str(tmp_path))
