"""server/broker_operations.py: what the actions on brokers do and answer, on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from klamm.server.api import create_app
from klamm.server.cluster_server import ClusterServer
from klamm.zk.embedded import EmbeddedZooKeeper
from tests.asgi import AsgiClient
from tests.server_configs import server_config
from tests.waiting import wait_until

SESSION: dict[str, Any] = {"session_timeout_ms": 1000, "is_session_shared": False}


@pytest.fixture(scope="module")
def server(zookeeper: EmbeddedZooKeeper) -> Iterator[ClusterServer]:
    """Three brokers with two log directories, of which broker 0 is the controller; each test leaves
    them running."""
    config = server_config(
        brokers=3,
        controllers=1,
        zookeeper=f"{zookeeper.connect_string}/server-actions",
        config={
            "log.dirs": "/a,/b",
            "auto.leader.rebalance.enable": "false",
            "controlled.shutdown.max.retries": "1",
            "controlled.shutdown.retry.backoff.ms": "10",
        },
        session_timeout_ms=1000,
    )
    with ClusterServer(config) as running:
        yield running


@pytest.fixture(scope="module")
def api(server: ClusterServer) -> AsgiClient:
    client = AsgiClient(create_app(server))
    wait_until(lambda: all(shown(client, broker)["live"] for broker in range(3)))
    return client


def do(api: AsgiClient, path: str, **body: Any) -> dict[str, Any]:
    response = api.post(path, json=body or None)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def restart(api: AsgiClient, broker: int) -> None:
    """Start a broker, and wait until the controller has it."""
    started = do(api, f"/brokers/{broker}/start")
    assert (started["id"], started["state"]) == (broker, "running")
    wait_until(lambda: shown(api, broker)["live"], what=f"broker {broker} to be live")


def shown(api: AsgiClient, broker: int) -> dict[str, Any]:
    """A broker in the status."""
    found: dict[str, Any] = api.get("/status").json()["brokers"][broker]
    return found


def test_a_broker_is_stopped_and_started(api: AsgiClient) -> None:
    assert do(api, "/brokers/2/stop") == {
        **{"id": 2, "state": "stopped", **SESSION},
        "controlled_shutdown": {"outcome": "succeeded", "error": "NONE", "remaining": []},
    }
    assert api.get("/brokers/2").json() == {
        **{"id": 2, "state": "stopped", "registered": False, "session": None},
        "session_timeout_ms": 1000,
    }
    wait_until(lambda: shown(api, 2)["live"] is False)
    assert shown(api, 2)["reason"] is None
    for action in ("kill", "stop", "pause", "power-off"):
        refused = api.post(f"/brokers/2/{action}").json()["error"]
        assert refused["message"] == "broker 2 is not running", action
        assert refused["hint"] == "its state is 'stopped'"
    unknown = api.get("/brokers/2/metadata")
    assert unknown.json()["error"]["message"] == "broker 2 is not running"
    started = do(api, "/brokers/2/start")
    # Nothing that it waits for: its session was closed.
    assert 1 <= started["took_ms"] < 900
    described = api.get("/brokers/2").json()
    assert (described["state"], described["registered"]) == ("running", True)
    assert int(described["session"], 16) != 0
    wait_until(lambda: shown(api, 2)["live"])


def test_a_broker_that_still_leads_says_what(api: AsgiClient) -> None:
    topics = [{"name": "led", "assignments": {"0": [2, 1], "1": [0, 1]}}]
    do(api, "/topics", topics=topics, timeout_ms=20_000)
    do(api, "/brokers/1/stop")
    assert do(api, "/brokers/2/stop")["controlled_shutdown"] == {
        **{"outcome": "failed", "error": "NONE"},
        "remaining": ["led-0"],
    }
    restart(api, 1)
    restart(api, 2)
    do(api, "/topics/delete", topics=["led"])


def test_a_paused_broker_is_stopped_without_asking(api: AsgiClient) -> None:
    paused = do(api, "/brokers/2/pause")
    assert paused == {"id": 2, "state": "paused", "session_timeout_ms": 1000}
    assert shown(api, 2)["state"] == "paused"
    stopped = do(api, "/brokers/2/stop")
    assert (stopped["state"], stopped["is_session_shared"]) == ("stopped", False)
    assert stopped["controlled_shutdown"]["outcome"] == "not attempted"
    restart(api, 2)


@pytest.mark.parametrize(("action", "state"), [("kill", "killed"), ("power-off", "powered off")])
def test_a_broker_that_dies_keeps_its_session(api: AsgiClient, action: str, state: str) -> None:
    assert do(api, f"/brokers/1/{action}") == {"id": 1, "state": state, **SESSION}
    described = api.get("/brokers/1").json()
    assert (described["state"], described["registered"]) == (state, True)
    restart(api, 1)


def test_a_broker_that_is_resumed_runs(api: AsgiClient) -> None:
    do(api, "/brokers/1/pause")
    assert do(api, "/brokers/1/resume") == {"id": 1, "state": "running"}
    for ms in (-5, 0):
        answer = do(api, "/brokers/1/skew-clock", ms=ms)
        assert answer == {"id": 1, "state": "running", "clock_skew_ms": ms}
        assert shown(api, 1)["clock_skew_ms"] == ms


def test_log_directories_fail_until_the_last(api: AsgiClient) -> None:
    first = do(api, "/brokers/2/fail-log-dir", log_dir="/a")
    alive = {"halted": False, "state": "running"}
    assert first == {"id": 2, "log_dir": "/a", **alive, **SESSION}
    assert api.get("/status").json()["failed_log_dirs"] == [{"broker": 2, "log_dir": "/a"}]
    last = do(api, "/brokers/2/fail-log-dir", log_dir="/b")
    assert (last["halted"], last["state"]) == (True, "failed")
    assert shown(api, 2)["reason"].startswith("all log directories have failed: ")
    unknown = api.post("/brokers/1/fail-log-dir", json={"log_dir": "/c"}).json()["error"]
    assert unknown["message"] == "broker 1 has no log directory '/c'"
    ended = api.post("/brokers/2/fail-log-dir", json={"log_dir": "/a"}).json()["error"]
    assert (ended["message"], ended["hint"]) == ("broker 2 is not running", "its state is 'failed'")
    restart(api, 2)
    assert (shown(api, 2)["state"], shown(api, 2)["reason"]) == ("running", None)
    assert api.get("/status").json()["failed_log_dirs"] == []


def test_the_last_log_directory_of_a_paused_broker(api: AsgiClient) -> None:
    do(api, "/brokers/1/pause")
    assert not do(api, "/brokers/1/fail-log-dir", log_dir="/a")["halted"]
    last = do(api, "/brokers/1/fail-log-dir", log_dir="/b")
    assert (last["halted"], last["state"]) == (True, "paused")
    do(api, "/brokers/1/resume")
    wait_until(lambda: shown(api, 1)["state"] == "failed")
    restart(api, 1)
    assert not do(api, "/brokers/1/fail-log-dir", log_dir="/a")["halted"]
    do(api, "/brokers/1/stop")
    restart(api, 1)


def test_disk_faults_are_listed_and_end(api: AsgiClient) -> None:
    slow = do(api, "/disks/slow", broker=1, bytes_per_s=500, log_dir="/b")["disk_faults"]
    assert slow == [{"broker": 1, "log_dir": "/b", "kind": "slow", "bytes_per_s": 500}]
    assert api.get("/status").json()["disk_faults"] == slow
    assert do(api, "/disks/heal") == {"disk_faults": []}


def test_the_controller_moves(api: AsgiClient) -> None:
    before = api.get("/status").json()["controller"]["epoch"]
    moved = do(api, "/controller/move")
    assert moved["from"] == {"id": 0, "epoch": before}
    assert moved["to"] == {"id": 0, "epoch": before + 1}


def test_an_unknown_broker_could_be_added(api: AsgiClient) -> None:
    missing = api.post("/brokers/7/kill").json()["error"]
    assert missing["message"] == "broker 7 does not exist"
    assert missing["hint"] == "brokers: 0, 1, 2; klamm broker add 7 adds it"
    impossible = api.post("/brokers/70000/kill").json()["error"]
    assert impossible["hint"] == "brokers: 0, 1, 2"


def test_brokers_are_added_with_the_next_id(api: AsgiClient, server: ClusterServer) -> None:
    added = do(api, "/brokers", id=8, rack="r")
    assert (added["id"], added["state"], added["rack"]) == (8, "running", "r")
    added = do(api, "/brokers")
    assert (added["id"], added["rack"]) == (9, None)
    states = {one["id"]: one for one in api.get("/brokers").json()["brokers"]}
    assert [*states] == [0, 1, 2, 8, 9]
    assert (states[8]["rack"], states[8]["is_candidate"]) == ("r", False)
    assert server.cluster.nodes.keys() == {0, 1, 2, 8, 9}
