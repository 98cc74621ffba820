"""Reassignments, elections, directories and configs over HTTP: values, errors, lost controllers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from klamm.cluster.requests import Address, Message
from klamm.cluster.types import TopicPartition
from klamm.server import admin_channel
from klamm.server.admin_channel import admin_of
from klamm.server.api import create_app
from klamm.server.cluster_server import ClusterServer
from klamm.zk.embedded import EmbeddedZooKeeper
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.asgi import AsgiClient
from tests.server_configs import server_config
from tests.waiting import wait_until

API_TIMEOUT_S = 0.3


@pytest.fixture(scope="module")
def server(zookeeper: EmbeddedZooKeeper) -> Iterator[ClusterServer]:
    """Three brokers for all tests of this file, each of which leaves them running."""
    config = server_config(
        brokers=3,
        controllers=2,
        zookeeper=f"{zookeeper.connect_string}/server-admin-api",
        config={"log.dirs": "/a,/b", "auto.leader.rebalance.enable": "false"},
        session_timeout_ms=3000,
    )
    with ClusterServer(config) as running:
        yield running


@pytest.fixture(scope="module")
def api(server: ClusterServer) -> AsgiClient:
    return AsgiClient(create_app(server))


def create(api: AsgiClient, name: str, *replicas: list[int]) -> None:
    topic = {"name": name, "assignments": {str(n): ids for n, ids in enumerate(replicas)}}
    answer = api.post("/topics", json={"topics": [topic], "timeout_ms": 20_000}).json()
    assert answer["topics"][0]["code"] == "NONE", answer


def move(topic: str, partition: int, replicas: list[int] | None) -> dict[str, Any]:
    wanted = {"topic": topic, "partition": partition, "replicas": replicas}
    return {"reassignments": [wanted]}


def replicas_of(api: AsgiClient, topic: str) -> list[int]:
    replicas: list[int] = api.get(f"/topics/{topic}").json()["partitions"][0]["replicas"]
    return replicas


def test_a_partition_is_reassigned_listed_and_cancelled(api: AsgiClient) -> None:
    create(api, "moves", [0, 1])
    api.post("/network/clog", json={"between": [[2], ["others"]], "only": "records"})
    try:
        assert api.post("/reassignments", json=move("moves", 0, [0, 2])).json() == {
            "partitions": []
        }
        running = {
            "topic": "moves",
            "partition": 0,
            "replicas": [0, 2, 1],
            "adding_replicas": [2],
            "removing_replicas": [1],
        }
        assert api.get("/reassignments").json() == {"reassignments": [running]}
        other = {"partitions": [{"topic": "moves", "partition": 1}]}
        assert api.post("/reassignments/list", json=other).json() == {"reassignments": []}
        assert api.post("/reassignments", json=move("moves", 0, None)).json() == {"partitions": []}
    finally:
        api.post("/network/heal")
    wait_until(lambda: replicas_of(api, "moves") == [0, 1])
    again = api.post("/reassignments", json=move("moves", 0, None)).json()
    assert again["partitions"][0]["code"] == "NO_REASSIGNMENT_IN_PROGRESS"
    unknown = api.post("/reassignments", json=move("nowhere", 0, [0])).json()
    assert unknown["partitions"] == [
        {
            "topic": "nowhere",
            "partition": 0,
            "code": "UNKNOWN_TOPIC_OR_PARTITION",
            "message": "The partition does not exist.",
        }
    ]


def test_leaders_are_elected(api: AsgiClient) -> None:
    create(api, "elects", [1, 0], [0, 1])
    body = {"election_type": "PREFERRED", "partitions": [{"topic": "elects", "partition": 0}]}
    answer = api.post("/elections", json=body).json()
    assert [one["code"] for one in answer["partitions"]] == ["ELECTION_NOT_NEEDED"]
    body = {"election_type": "PREFERRED", "partitions": [{"topic": "elects", "partition": -1}]}
    (unknown,) = api.post("/elections", json=body).json()["partitions"]
    assert unknown["code"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert api.post("/elections", json={"election_type": "UNCLEAN"}).json() == {"partitions": []}


def test_directories_are_described_and_changed(api: AsgiClient) -> None:
    create(api, "lies", [2])
    asked = {"replicas": [{"topic": "lies", "partition": 0, "broker": 2}]}
    [place] = api.post("/log-dirs/replicas", json=asked).json()["replicas"]
    other = "/b" if place["current"] == "/a" else "/a"
    wanted = {"replicas": [{**asked["replicas"][0], "log_dir": other}]}
    assert api.post("/log-dirs", json=wanted).json() == {"failures": []}
    moved = {**place, "current": other, "future": None}
    wait_until(lambda: api.post("/log-dirs/replicas", json=asked).json()["replicas"] == [moved])
    described = api.get("/log-dirs").json()["brokers"]
    assert [broker["broker"] for broker in described] == [0, 1, 2]
    assert [log_dir["path"] for log_dir in described[2]["log_dirs"]] == ["/a", "/b"]
    nowhere = {"replicas": [{**asked["replicas"][0], "log_dir": "/nowhere"}]}
    [refused] = api.post("/log-dirs", json=nowhere).json()["failures"]
    assert refused["code"] == "LOG_DIR_NOT_FOUND"


def test_a_move_between_directories_is_seen_and_taken_back(api: AsgiClient) -> None:
    create(api, "stays", [1])
    producer = api.post("/producers", json={"topic": "stays"}).json()["id"]
    api.post(f"/producers/{producer}/records", json={"record_count": 1, "max_undecided": 0})
    api.post(f"/producers/{producer}/close")
    replica = {"topic": "stays", "partition": 0, "broker": 1}

    def place() -> Any:
        return api.post("/log-dirs/replicas", json={"replicas": [replica]}).json()["replicas"][0]

    before = place()
    other = "/b" if before["current"] == "/a" else "/a"
    api.post("/disks/slow", json={"broker": 1, "bytes_per_s": 1})
    try:
        api.post("/log-dirs", json={"replicas": [{**replica, "log_dir": other}]})
        assert place() == {**before, "future": other}
        [broker] = api.post("/log-dirs/describe", json={"brokers": [1]}).json()["brokers"]
        assert [
            one["is_future"]
            for log_dir in broker["log_dirs"]
            for one in log_dir["replicas"]
            if log_dir["path"] == other and one["topic"] == "stays"
        ] == [True]
        api.post("/log-dirs", json={"replicas": [{**replica, "log_dir": before["current"]}]})
        assert place() == before
    finally:
        api.post("/disks/heal")


def test_configs_are_changed_and_announced(api: AsgiClient, server: ClusterServer) -> None:
    create(api, "configured", [0])
    entity = {"type": "topics", "name": "configured"}
    zk = KafkaZkClient(server.cluster.store)
    before = len(zk.get_children("/config/changes"))

    def alter(configs: dict[str, str | None]) -> Any:
        return api.post("/configs", json={"entities": [{**entity, "configs": configs}]})

    assert alter({"retention.ms": "7"}).json()["entities"][0]["configs"] == {"retention.ms": "7"}
    assert {**entity, "configs": {"retention.ms": "7"}} in api.post(
        "/configs/overrides", json={}
    ).json()["entities"], "of all that have configs"
    assert alter({"retention.ms": None, "flush.ms": None}).json()["entities"][0]["configs"] == {}
    assert alter({"flush.ms": None}).status_code == 200
    assert len(zk.get_children("/config/changes")) == before + 3, "also where nothing changes"
    refused = alter({"flush.ms": "x"})
    assert refused.status_code == 409
    assert refused.json()["error"]["message"] == (
        "Invalid config value for resource ConfigResource(type=TOPIC, name='configured'): "
        "Invalid value x for configuration flush.ms: Not a number of type LONG"
    )
    entries = api.post("/configs/describe", json=entity).json()["entries"]
    assert {entry["name"]: entry["value"] for entry in entries}["retention.ms"] == "604800000"


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/reassignments", {"reassignments": [{"topic": "t"}]}, 400, "malformed request"),
        ("/reassignments", {"reassignments": [{}, {}]}, 400, "malformed request"),
        ("/elections", {"election_type": "CLEAN"}, 400, "malformed request"),
        ("/configs/describe", {"type": "users", "name": "u"}, 409, "Unsupported resource type"),
        ("/configs/describe", {"type": "brokers", "name": "x"}, 409, "must be an integer"),
        ("/configs/describe", {"type": "topics", "name": "none"}, 404, "topic none does not exist"),
        ("/brokers/0/fail-log-dir", {"log_dir": "/nowhere"}, 404, "/nowhere"),
        ("/brokers/9/fail-log-dir", {"log_dir": "/a"}, 404, "broker 9 does not exist"),
        ("/disks/fail", {"broker": 0, "kind": "enospc", "log_dir": "/x"}, 404, "directory '/x'"),
        ("/disks/fail", {"broker": 9, "kind": "eio"}, 404, "broker 9 does not exist"),
        ("/disks/fail", {"broker": 0, "kind": "rust"}, 400, "malformed request"),
        ("/disks/fail", {"kind": "eio"}, 400, "give either 'broker'"),
        ("/disks/fail", {"broker": 0, "journal": True, "kind": "eio"}, 400, "give either 'broker'"),
        ("/disks/fail", {"broker": 0, "kind": "eio", "times": 0}, 400, ">= 1 - at `$.times`"),
        ("/disks/slow", {"broker": 0, "bytes_per_s": 0}, 400, ">= 1 - at `$.bytes_per_s`"),
    ],
)
def test_a_malformed_admin_request_is_refused(
    api: AsgiClient, path: str, body: object, status: int, said: str
) -> None:
    answer = api.post(path, json=body)
    assert (answer.status_code, said in answer.json()["error"]["message"]) == (status, True)


def test_a_partition_named_twice_is_refused(api: AsgiClient) -> None:
    create(api, "twice", [0])
    one, two = move("twice", 0, [1]), move("twice", 0, [2])
    body = {"reassignments": one["reassignments"] + two["reassignments"]}
    assert api.post("/reassignments", json=body).status_code == 400
    assert replicas_of(api, "twice") == [0]


@pytest.mark.parametrize(("end", "again"), [("kill", "start"), ("pause", "resume")])
def test_brokers_that_are_away_are_named_when_the_time_is_over(
    api: AsgiClient, server: ClusterServer, end: str, again: str
) -> None:
    patient = server.admin
    server.admin = admin_of(server.cluster, server.closing, API_TIMEOUT_S)
    getattr(server.cluster, end)(2)
    try:
        answer = api.post("/log-dirs/describe", json={"brokers": [0, 2]})
        assert answer.status_code == 504
        error = answer.json()["error"]
        assert error["message"].startswith("Call(callName=describeLogDirs, deadlineMs=")
        assert (error["hint"], error["code"]) == ("no response from broker 2", "REQUEST_TIMED_OUT")
        assert error["definite"] is True
        answer = api.post("/configs/describe", json={"type": "brokers", "name": "2"})
        assert (answer.status_code, answer.json()["error"]["hint"]) == (
            *(504, "broker 2 does not respond"),
        )
    finally:
        getattr(server.cluster, again)(2)
        server.admin = patient
    assert api.post("/configs/describe", json={"type": "brokers", "name": "2"}).status_code == 200


def test_brokers_that_do_not_exist_are_named_at_once(api: AsgiClient) -> None:
    """Kafka's Admin client waits for them until its timeout; the text of the error is Kafka's."""
    replica = {"topic": "t", "partition": 0, "broker": 9}
    for path, body, hint in (
        ("/log-dirs/describe", {"brokers": [0, 8, 9]}, "brokers 8, 9 do not exist"),
        ("/log-dirs/replicas", {"replicas": [replica]}, "broker 9 does not exist"),
        ("/configs/describe", {"type": "brokers", "name": "9"}, "broker 9 does not exist"),
    ):
        answer = api.post(path, json=body)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (404, "REQUEST_TIMED_OUT")
        assert (error["error"], error["hint"]) == ("UnknownBroker", f"{hint}; brokers: 0, 1, 2")
        assert error["message"].startswith("Call(callName=describe")
        assert error["definite"] is True
    rate = {"leader.replication.throttled.rate": "5"}
    entities = [{"type": "brokers", "name": name, "configs": rate} for name in ("9", "0")]
    answer = api.post("/configs", json={"entities": entities})
    assert (answer.status_code, answer.json()["error"]["definite"]) == (404, False)
    asked = {"entities": [{"type": "brokers", "name": "0"}]}
    found = api.post("/configs/overrides", json=asked).json()["entities"][0]
    assert found["configs"] == rate, "brokers that exist are changed, in any order"


@pytest.mark.parametrize(
    ("end", "again", "is_back_at_once"),
    [("kill", "start", False), ("pause", "resume", False), ("kill", "start", True)],
)
def test_another_controller_is_asked_if_one_is_lost_before_it_answers(
    api: AsgiClient,
    server: ClusterServer,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
    again: str,
    is_back_at_once: bool,
) -> None:
    if is_back_at_once:  # before anyone looks
        monkeypatch.setattr(admin_channel, "POLL_S", 1.0)
    topic = f"survives-{end}-{is_back_at_once}"
    create(api, topic, [2])
    cluster = server.cluster
    controller_id = cluster.active_controller
    assert controller_id is not None
    thread = cluster.nodes[controller_id].event_thread
    assert thread is not None
    asked = threading.Event()

    def on_message(message: Message) -> None:
        if message.source.role == "client":
            asked.set()

    cluster.transport.add_tap(on_message)
    thread.pause()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(
            server.admin.alter_partition_reassignments,
            {TopicPartition(topic, 0): (2, 1 - controller_id)},
            20_000,
        )
        assert asked.wait(10)
        assert not answer.done()
        getattr(cluster, end)(controller_id)
        if is_back_at_once:
            getattr(cluster, again)(controller_id)
        assert answer.result(20) == {}
    wait_until(lambda: not server.admin.list_partition_reassignments())
    wait_until(lambda: replicas_of(api, topic) == [2, 1 - controller_id])
    if not is_back_at_once:
        getattr(cluster, again)(controller_id)


def test_a_broker_that_was_restarted_before_it_answered_is_asked_again(
    server: ClusterServer,
) -> None:
    cluster, asked = server.cluster, threading.Event()

    def on_message(message: Message) -> None:
        if message.source.role == "client" and message.destination == Address("broker", 2):
            asked.set()

    cluster.transport.add_tap(on_message)
    cluster.pause(2)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.admin.describe_log_dirs, [0, 2])
        assert asked.wait(10)
        cluster.kill(2)
        cluster.start(2)
        assert sorted(answer.result(20)) == [0, 2]
