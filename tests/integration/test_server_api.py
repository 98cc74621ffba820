"""server/api.py on a real cluster: every path, its values, its errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from kazoo.client import KazooClient
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from klamm.cluster.journal import JournalRow
from klamm.cluster.requests import Address
from klamm.cluster.types import TopicPartition
from klamm.controller.candidacy import FIRST_PAUSE_MS
from klamm.server.api import ROUTES, create_app
from klamm.server.cluster_server import ClusterServer
from klamm.server.openapi import ApiRoute, plain_path
from klamm.server.zookeeper import why_no_controller
from klamm.zk.embedded import EmbeddedZooKeeper
from klamm.zk.store import SessionState
from tests.asgi import AsgiClient
from tests.server_configs import server_config
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def server(zookeeper: EmbeddedZooKeeper) -> Iterator[ClusterServer]:
    """Four brokers for all tests of this file, each of which leaves them running."""
    config = server_config(
        brokers=4,
        racks=("a", "b"),
        controllers=2,
        zookeeper=f"{zookeeper.connect_string}/server-api/deep",
        config={"num.partitions": "3", "min.insync.replicas": "2"},
        session_timeout_ms=3000,
    )
    with ClusterServer(config) as running:
        yield running


@pytest.fixture(scope="module")
def api(server: ClusterServer) -> AsgiClient:
    return AsgiClient(create_app(server))


def create(api: AsgiClient, topic: dict[str, Any], timeout_ms: int = 20_000) -> dict[str, Any]:
    body = {"topics": [topic], "timeout_ms": timeout_ms}
    response = api.post("/topics", json=body)
    assert response.status_code == 200, response.text
    result: dict[str, Any] = response.json()["topics"][0]
    return result


def test_the_status_shows_zookeeper_brokers_and_controller(
    api: AsgiClient, server: ClusterServer
) -> None:
    status = api.get("/status").json()
    assert status["zookeeper"]["embedded"] is False
    assert status["zookeeper"]["connect"].endswith("/server-api/deep")
    assert [broker["rack"] for broker in status["brokers"]] == ["a", "b", "a", "b"]
    assert [broker["is_candidate"] for broker in status["brokers"]] == [True, True, False, False]
    assert status["controller"]["controller_id"] in (0, 1)
    assert status["errors"] == []
    assert status["run_id"] == server.cluster.spec.run_id


@pytest.mark.parametrize(
    ("state", "is_stale"), [(SessionState.DISCONNECTED, True), (SessionState.EXPIRED, False)]
)
def test_known_values_are_stale_while_no_server_responds(
    api: AsgiClient, server: ClusterServer, state: SessionState, is_stale: bool
) -> None:
    server.cluster.own_session.state = state
    try:
        status = api.get("/status").json()
    finally:
        server.cluster.own_session.state = SessionState.CONNECTED
    assert status["zookeeper"]["is_stale"] is is_stale
    assert [broker["live"] for broker in status["brokers"]] == [None if is_stale else True] * 4


def test_failed_failovers_are_counted_and_named(api: AsgiClient, server: ClusterServer) -> None:
    cluster = server.cluster
    assert why_no_controller(cluster).startswith("no broker is the controller")
    try:
        for _ in range(2):
            cluster.candidacy.failover_failed("StoreError: x")
        assert why_no_controller(cluster) == "the last 2 failovers failed: StoreError: x"
        shown = api.get("/status").json()["failovers"]
        assert (shown["failed"], shown["failure"]) == (2, "StoreError: x")
        assert 0 <= shown["pause_ms"] <= 2 * FIRST_PAUSE_MS
        assert "\nklamm_failed_failovers 2.0\n" in api.get("/metrics").text
    finally:
        cluster.candidacy.failover_succeeded()
    assert "\nklamm_failed_failovers 0.0\n" in api.get("/metrics").text


def test_a_topic_is_created_by_the_controller_and_described(api: AsgiClient) -> None:
    created = create(api, {"name": "defaults", "configs": {"retention.ms": "5"}})
    assert (created["code"], created["num_partitions"], created["replication_factor"]) == (
        "NONE",
        3,
        1,
    )
    described = api.get("/topics/defaults").json()
    assert described["topic_id"] == created["topic_id"]
    assert described["configs"] == {"min.insync.replicas": "2", "retention.ms": "5"}
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2]
    for partition in described["partitions"]:
        assert partition["leader"] == partition["replicas"][0]
        assert partition["isr"] == partition["replicas"]
        assert partition["min_isr"] == 2
    topics = api.get("/topics").json()["topics"]
    assert "defaults" in topics
    close, unlike = (api.get(f"/topics/{name}").json()["error"] for name in ("defalts", "zzz"))
    assert close["hint"] == "topic defalts does not exist; did you mean defaults?"
    assert unlike["hint"].startswith(f"topic zzz does not exist; topics: {topics[0]}")


def test_isolated_brokers_are_one_group_and_at_least_one_broker_is_left(
    api: AsgiClient, server: ClusterServer
) -> None:
    assert api.post("/network", json={"isolated": [1, 0, 1]}).json() == {
        "isolated": [0, 1],
        "faults": [],
    }
    links = ((0, 1), (2, 3), (0, 2), (3, 1))
    brokers = [[Address("broker", id_) for id_ in link] for link in links]
    reached = [server.cluster.transport.reaches(*link) for link in brokers]
    assert reached == [True, True, False, False]
    everyone = [broker["id"] for broker in api.get("/brokers").json()["brokers"]]
    assert api.post("/network", json={"isolated": everyone}).status_code == 409
    assert api.get("/status").json()["isolated_brokers"] == [0, 1]
    answer = api.post("/network/cut", json={"from": [2], "to": ["others"], "only": "control"})
    assert answer.json() == {"isolated": [0, 1], "faults": ["cut: 2 -> others (only control)"]}
    assert api.post("/network", json={"isolated": []}).json()["isolated"] == []
    refused = api.post("/network/cut", json={"between": [[0], [0, 1]]})
    assert (refused.status_code, "0 is named twice" in refused.text) == (400, True)
    assert api.post("/network/delay", json={"between": [[0], ["x"]], "ms": 1}).status_code == 400
    late = api.post("/network/delay", json={"from": ["zookeeper"], "to": [0], "ms": 1})
    assert (late.status_code, "requires the simulated world" in late.text) == (400, True)
    assert api.get("/status").json()["network_faults"] == ["cut: 2 -> others (only control)"]
    assert api.post("/network/heal").json() == {"isolated": [], "faults": []}


def test_a_topic_that_is_refused(api: AsgiClient) -> None:
    create(api, {"name": "taken", "num_partitions": 1, "replication_factor": 1})
    again = create(api, {"name": "taken", "num_partitions": 1, "replication_factor": 1})
    assert (again["code"], again["message"]) == (
        "TOPIC_ALREADY_EXISTS",
        "Topic 'taken' already exists.",
    )
    large = create(api, {"name": "large", "num_partitions": 1, "replication_factor": 5})
    assert large["code"] == "INVALID_REPLICATION_FACTOR"
    assert "large" not in api.get("/topics").json()["topics"]


def test_a_client_that_does_not_wait_gets_an_error(api: AsgiClient) -> None:
    assert (
        create(api, {"name": "hasty", "num_partitions": 1}, timeout_ms=0)["code"]
        == "REQUEST_TIMED_OUT"
    )
    wait_until(lambda: "hasty" in api.get("/topics").json()["topics"])


def test_partitions_are_added(api: AsgiClient) -> None:
    create(api, {"name": "grows", "assignments": {"0": [0, 1]}})

    def add(total: int, lists: list[list[int]] | None = None) -> list[dict[str, Any]]:
        wanted = {"total_count": total, "new_assignments": lists}
        body = {"topics": {"grows": wanted}, "timeout_ms": 20_000}
        answer: dict[str, list[dict[str, Any]]] = api.post("/topics/partitions", json=body).json()
        return answer["failures"]

    assert add(3, [[2, 3], [3, 2]]) == []
    assert add(4) == []
    partitions = api.get("/topics/grows").json()["partitions"]
    assert [p["replicas"] for p in partitions[:3]] == [[0, 1], [2, 3], [3, 2]]
    assert all(p["leader"] is not None for p in partitions)
    assert len(partitions) == 4
    for asked, code, message in (
        ((4,), "INVALID_PARTITIONS", "Topic already has 4 partitions."),
        (
            (2,),
            "INVALID_PARTITIONS",
            "Topic currently has 4 partitions, which is higher than the requested 2.",
        ),
        (
            (5, [[9]]),
            "INVALID_REPLICA_ASSIGNMENT",
            "Unknown broker(s) in replica assignment: 9.",
        ),
    ):
        assert add(*asked) == [{"topic": "grows", "code": code, "message": message}]
    nowhere = {"topics": {"nowhere": {"total_count": 2}}, "timeout_ms": 1000}
    assert api.post("/topics/partitions", json=nowhere).json()["failures"] == [
        {
            "topic": "nowhere",
            "code": "UNKNOWN_TOPIC_OR_PARTITION",
            "message": "The topic 'nowhere' does not exist.",
        }
    ]


def test_a_deleted_topic_is_gone_when_the_answer_comes(api: AsgiClient) -> None:
    new = {"topics": [{"name": "goes", "num_partitions": 3, "replication_factor": 2}]}
    api.post("/topics", json={**new, "timeout_ms": 30_000})
    answer = api.post("/topics/delete", json={"topics": ["goes", "nowhere"]}).json()
    unknown = {"topic": "nowhere", "code": "UNKNOWN_TOPIC_OR_PARTITION", "message": None}
    assert answer["failures"] == [unknown]
    assert "goes" not in api.get("/topics").json()["topics"]
    assert api.get("/topics/goes").status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "named", "hint"),
    [
        (
            "/topics",
            b'{"topics":[{"name":"typo"}],"timeout_ms":1,"validateOnly":true}',
            "validateOnly",
            "did you mean validate_only?",
        ),
        (
            "/topics",
            b'{"topics":[{"name":"typo","partitions":1}],"timeout_ms":1}',
            "partitions",
            "did you mean num_partitions?",
        ),
        (
            "/topics/delete",
            b'{"topics":["typo"],"timeoutMs":1}',
            "timeoutMs",
            "did you mean timeout_ms?",
        ),
        (
            "/topics/partitions",
            b'{"topics":{"typo":{"total_count":2,"count":3}}}',
            "count",
            "did you mean total_count?",
        ),
        (
            "/reassignments/list",
            b'{"partitions":[{"topic":"t","partition":0,"x":1}]}',
            "x",
            "known: topic, partition;",
        ),
        ("/brokers/0/start", b'{"await":true}', "await", "did you mean wait?"),
        ("/brokers/0/kill", b'{"force":true}', "force", "the request takes no fields"),
        ("/controller/move", b'{"to":1}', "to", "the request takes no fields"),
    ],
)
def test_a_field_or_parameter_that_does_not_exist_is_refused(
    api: AsgiClient, path: str, body: bytes, named: str, hint: str
) -> None:
    refused = api.request("POST", path, body)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert f"unknown field `{named}" in error["message"]
    assert error["hint"].startswith(hint)
    assert "; GET /openapi.json describes" in error["hint"]
    assert "typo" not in api.get("/topics").json()["topics"]


@pytest.mark.parametrize(
    ("path", "body", "choices"),
    [
        ("/disks/fail", b'{"kind":"x"}', "enospc, eio, short-write, fsync"),
        ("/network/cut", b'{"between":[[0],[1]],"only":"x"}', "records, control"),
        ("/elections", b'{"election_type":"x"}', "PREFERRED, UNCLEAN"),
        ("/producers", b'{"acks":5}', "-1, 0, 1"),
        ("/consumers", b'{"start":"x"}', "beginning, end, offset, time"),
    ],
)
def test_the_hint_of_an_invalid_choice_lists_the_choices(
    api: AsgiClient, path: str, body: bytes, choices: str
) -> None:
    refused = api.request("POST", path, body)
    assert refused.status_code == 400
    assert refused.json()["error"]["hint"].startswith(f"use one of {choices}; GET /openapi.json")


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_refuses_an_unknown_field_by_name(api: AsgiClient, route: ApiRoute) -> None:
    path = plain_path(route.path).format(id=0, topic="t", server="1", action="kill")
    refused = api.request(route.method, path, b'{"surprise": 1}')
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["message"] == "malformed request: unknown field `surprise`"
    fields = () if route.body is None else msgspec.structs.fields(route.body)
    known = ", ".join(field.encode_name for field in fields)
    hint = f"known: {known}; " if known else "the request takes no fields; "
    assert error["hint"].startswith(hint)


def test_a_query_is_checked(api: AsgiClient) -> None:
    for method, path in (
        ("GET", "/journal?foo=1"),
        ("GET", "/journal?last=1&foo=1"),
        ("GET", "/status?foo=1"),
        ("POST", "/controller/move?foo=1"),
    ):
        refused = api.request(method, path)
        assert refused.status_code == 400
        assert "unknown parameter `foo`" in refused.json()["error"]["message"]
    assert len(api.get("/journal?last=1").json()["rows"]) == 1


def test_a_body_that_is_not_utf_8_is_refused_with_the_place(api: AsgiClient) -> None:
    refused = api.request("POST", "/topics/delete", b'{"topics":["\xff"]}')
    assert refused.status_code == 400
    message = "malformed request: byte 12 of the body is not UTF-8"
    assert refused.json()["error"]["message"] == message


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "error", "code"),
    [
        ("GET", "/topics/nowhere", None, 404, "UnknownTopicOrPartition", "UNKNOWN_TOPIC"),
        ("POST", "/topics", b"{", 400, "UsageError", None),
        ("POST", "/topics", b'{"topics":[{"name":1}],"timeout_ms":1}', 400, "UsageError", None),
        ("POST", "/brokers/9/kill", b"", 404, "NotFound", None),
        ("POST", "/brokers/1/resume", b"", 409, "WrongState", None),
        ("POST", "/brokers/1/start", b"", 409, "WrongState", None),
        ("POST", "/brokers", b'{"id": 1}', 409, "WrongState", None),
        ("POST", "/brokers", b'{"id": 60000}', 400, "UsageError", None),
        ("POST", "/brokers/1/explode", b"", 404, "NotFound", None),
        ("GET", "/brokers/9", None, 404, "NotFound", None),
        ("POST", "/network", b'{"isolated": [0, 9]}', 404, "NotFound", None),
        ("POST", "/zookeeper/1/explode", b"", 404, "NotFound", None),
        ("POST", "/topics/describe", b'{"topics": ["nowhere"]}', 404, "UnknownTopicOr", None),
        ("POST", "/producers", b'{"topic": "nowhere"}', 404, "UnknownTopicOrPartition", None),
        ("POST", "/consumers/9/poll", b"", 404, "NotFound", None),
        ("GET", "/journal?after=x", None, 400, "UsageError", None),
        ("GET", "/journal?last=-1", None, 400, "UsageError", None),
        ("GET", "/journal?last=10001", None, 400, "UsageError", None),
        ("GET", "/nothing", None, 404, "NotFound", None),
        ("DELETE", "/topics", None, 405, "MethodNotAllowed", None),
    ],
)
def test_errors_are_json(
    api: AsgiClient,
    method: str,
    path: str,
    body: bytes | None,
    status: int,
    error: str,
    code: str | None,
) -> None:
    response = api.request(method, path, content=body)
    assert response.status_code == status
    described = response.json()["error"]
    assert described["error"].startswith(error)
    assert (described["code"] or "").startswith(code or "")
    assert described["message"]


BODIES = {
    "fail-log-dir": {"log_dir": "d0"},
    "records": {"record_count": 1},
    "skew-clock": {"ms": 1},
}


@pytest.mark.parametrize(
    "route",
    [route for route in ROUTES if re.search(r"\{(id|topic)", route.path)],
    ids=lambda route: f"{route.method} {route.path}",
)
def test_every_route_to_something_that_is_not_there_is_404(
    api: AsgiClient, route: ApiRoute
) -> None:
    path = plain_path(route.path).format(id=60, topic="nowhere")
    body = BODIES.get(path.rpartition("/")[2])
    missing = api.request(route.method, path, None if body is None else msgspec.json.encode(body))
    assert missing.status_code == 404
    assert missing.json()["error"]["error"] in ("NotFound", "UnknownTopicOrPartition")


def test_metrics_are_prometheus_text_with_kafkas_names(api: AsgiClient) -> None:
    create(api, {"name": "counted", "num_partitions": 2, "replication_factor": 2})
    status = api.get("/status").json()
    partitions = sum(status["controller"]["partitions"].values())

    def scraped() -> dict[str, Metric]:
        response = api.get("/metrics")
        assert response.headers["content-type"].startswith("text/plain; version=")
        return {family.name: family for family in text_string_to_metric_families(response.text)}

    def values(name: str) -> dict[str, float]:
        samples = scraped()[name].samples
        return {s.labels.get("controller") or s.labels["broker"]: s.value for s in samples}

    # The controller has created them before brokers have heard of it.
    leader_count = "kafka_server_ReplicaManager_LeaderCount"
    wait_until(lambda: sum(values(leader_count).values()) == partitions)

    prefix = "kafka_controller_KafkaController_"
    active = status["controller"]["controller_id"]
    assert values(f"{prefix}ActiveControllerCount") == {
        "0": float(active == 0),
        "1": float(active == 1),
    }
    assert values(f"{prefix}GlobalPartitionCount")[str(active)] == partitions
    assert values(f"{prefix}OfflinePartitionsCount")[str(active)] == 0
    assert set(values(leader_count)) == {"0", "1", "2", "3"}
    names = set(scraped())
    assert "kafka_controller_ControllerEventManager_EventQueueSize" in names
    assert "kafka_controller_ControllerChannelManager_TotalQueueSize" in names


def test_the_journal_in_pages(api: AsgiClient, server: ClusterServer) -> None:
    place = api.get("/journal?last=0").json()["next"]
    create(api, {"name": "journalled", "num_partitions": 1, "replication_factor": 1})

    def arrived() -> list[JournalRow]:
        page = api.get(f"/journal?after={place}").json()
        rows = msgspec.convert(page["rows"], list[JournalRow])
        return rows if any(row.to == "OnlineReplica" for row in rows) else []

    rows = wait_until(arrived)
    assert {row.topic for row in rows if row.topic} == {"journalled"}
    assert {row.cluster_id for row in rows} == {server.cluster.spec.cluster_id}
    online = next(row for row in rows if row.to == "OnlinePartition")
    causes = {row.event_id: row.detail for row in rows if row.kind == "event"}
    assert causes[online.event_id] is not None
    first = api.get("/journal?after=0").json()["rows"][0]
    assert first["kind"] == "run_start"
    assert msgspec.json.decode(first["detail"])["brokers"] == 4


def test_a_broker_is_added_and_used(api: AsgiClient) -> None:
    added = api.post("/brokers", json={"rack": "c"}).json()
    assert (added["id"], added["state"]) == (4, "running")
    wait_until(lambda: 4 in api.get("/brokers").json()["live"])
    assert create(api, {"name": "there", "assignments": {"0": [4, 0]}})["code"] == "NONE"
    assert api.get("/topics/there").json()["partitions"][0]["leader"] == 4


def test_every_broker_shows_the_metadata_that_it_was_sent(api: AsgiClient) -> None:
    create(api, {"name": "everywhere", "assignments": {"0": [0, 1]}})
    for broker in (0, 3):

        def known(broker: int = broker) -> list[dict[str, Any]]:
            partitions = api.get(f"/brokers/{broker}/metadata").json()["partitions"]
            return [one for one in partitions if one["topic"] == "everywhere"]

        (partition,) = wait_until(known)
        assert (partition["leader"], partition["leader_epoch"]) == (0, 0)
        assert (partition["replicas"], partition["isr"]) == ([0, 1], [0, 1])
        live = api.get(f"/brokers/{broker}/metadata").json()["live_brokers"]
        assert live == api.get("/brokers").json()["live"]
    assert api.get("/brokers/99/metadata").status_code == 404


def test_actions_that_the_state_of_a_broker_excludes(api: AsgiClient) -> None:
    def refused(action: str) -> tuple[int, str, str | None]:
        response = api.post(f"/brokers/3/{action}")
        error = response.json()["error"]
        assert error["retriable"] is ("already" not in error["message"])
        return response.status_code, error["message"], error["hint"]

    assert refused("resume") == (409, "broker 3 is not paused", "its state is 'running'")
    assert refused("start") == (409, "broker 3 is already running", None)
    assert api.post("/brokers/3/pause").status_code == 200
    try:
        assert refused("pause") == (409, "broker 3 is already paused", None)
        assert refused("start") == (409, "broker 3 is paused", "klamm broker resume 3")
    finally:
        assert api.post("/brokers/3/resume").status_code == 200
    wait_until(lambda: api.get("/brokers/3").json()["registered"], what="broker 3 is registered")
    for rack, problem in ((" ", "is empty"), ("\0x", r"'\x00x' has control characters")):
        body = api.post("/brokers", json={"rack": rack}).json()
        assert body["error"]["message"] == f"the rack name {problem}"


def test_kill_refuses_its_id_until_the_session_is_over(api: AsgiClient) -> None:
    assert api.post("/brokers/3/kill").json()["state"] == "killed"
    described = api.get("/brokers/3").json()
    assert (described["state"], described["registered"]) == ("killed", True)
    refused = api.post("/brokers/3/start", json={"wait": False})
    assert refused.status_code == 409
    error = refused.json()["error"]
    assert error["message"] == "broker 3 cannot register: its previous session has not expired"
    assert error["hint"].startswith("the session expires within about 3000 ms; without --no-wait")
    assert api.get("/brokers/3").json()["state"] == "killed"
    assert api.post("/brokers/3/start").json()["state"] == "running"
    assert api.get("/brokers/3").json()["state"] == "running"


def test_a_topic_created_while_the_controller_dies(api: AsgiClient, server: ClusterServer) -> None:
    """The first request may be lost with its controller; the next one is asked again."""
    active = api.get("/status").json()["controller"]["controller_id"]
    api.post(f"/brokers/{active}/kill")
    created = create(api, {"name": "survivor", "num_partitions": 2, "replication_factor": 2})
    assert created["code"] == "NONE"
    assert api.get("/status").json()["controller"]["controller_id"] != active
    assert api.post(f"/brokers/{active}/start").json()["state"] == "running"

    def all_in_sync() -> bool:
        described = server.admin.describe_topics(api.get("/topics").json()["topics"])
        return all(set(p.isr) == set(p.replicas) for t in described for p in t.partitions)

    wait_until(all_in_sync)


def test_malformed_znodes_are_shown_and_the_rest_is_served(
    api: AsgiClient, server: ClusterServer, zookeeper_client: KazooClient
) -> None:
    root = "/server-api/deep/brokers/topics"
    zookeeper_client.create(f"{root}/broken", b"")
    wait_until(lambda: api.get("/status").json()["controller"]["malformed"])
    malformed = api.get("/status").json()["controller"]["malformed"]
    assert list(malformed) == ["/brokers/topics/broken"]
    assert create(api, {"name": "served", "num_partitions": 1})["code"] == "NONE"
    moved = api.post("/controller/move").json()
    assert moved["to"]["epoch"] == moved["from"]["epoch"] + 1
    assert list(api.get("/status").json()["controller"]["malformed"]) == list(malformed)
    assert api.get("/topics/served").json()["partitions"][0]["leader"] is not None
    zookeeper_client.delete(f"{root}/broken")


def test_a_reassignment_under_way_is_described(
    api: AsgiClient, server: ClusterServer, zookeeper_client: KazooClient
) -> None:
    """The added replica does not fetch, so it never joins the ISR and the move never ends."""
    create(api, {"name": "moving", "assignments": {"0": [0, 1]}})
    api.post("/network/clog", json={"between": [[2], ["others"]], "only": "records"})
    data = {"version": 1, "partitions": [{"topic": "moving", "partition": 0, "replicas": [2, 1]}]}
    path = "/server-api/deep/admin/reassign_partitions"
    zookeeper_client.create(path, msgspec.json.encode(data))
    tp = TopicPartition("moving", 0)

    def known() -> bool:
        active = server.cluster.active_controller
        if active is None:
            return False
        controller = server.cluster.nodes[active].node.controller
        return controller is not None and tp in controller.context.partitions_being_reassigned

    wait_until(known)
    partition = api.get("/topics/moving").json()["partitions"][0]
    assert partition["reassignment"] == {
        "replicas": [2, 1, 0],
        "adding_replicas": [2],
        "removing_replicas": [0],
    }
    api.post("/network/heal")
    wait_until(lambda: zookeeper_client.exists(path) is None)
