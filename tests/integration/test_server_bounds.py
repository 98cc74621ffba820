"""Requests that the HTTP API refuses early: sizes, numbers, bytes, times, other sites."""

from __future__ import annotations

import logging
import logging.handlers
import socket
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from klamm.cluster.partition_limits import PartitionLimits
from klamm.server.api import MAX_PLACE, create_app
from klamm.server.cluster_server import ClusterServer
from klamm.server.request_bodies import MAX_BODY_BYTES, MAX_BODY_VALUES
from klamm.zk.embedded import EmbeddedZooKeeper
from tests.api_server import ApiServer
from tests.asgi import AsgiClient
from tests.server_configs import server_config
from tests.waiting import wait_until

HEADER_TIMEOUT_S = 0.3
WRITE_TIMEOUT_S = 0.5


@pytest.fixture(scope="module")
def server(zookeeper: EmbeddedZooKeeper) -> Iterator[ClusterServer]:
    """One broker, and few partitions; one of them is that of the topic polled."""
    config = server_config(
        brokers=1,
        zookeeper=f"{zookeeper.connect_string}/server-bounds",
        session_timeout_ms=3000,
        partition_limits=PartitionLimits(per_request=20, cluster=51),
    )
    with ClusterServer(config) as running:
        yield running


@pytest.fixture(scope="module")
def api(server: ClusterServer) -> Iterator[ApiServer]:
    api = ApiServer(server, HEADER_TIMEOUT_S, WRITE_TIMEOUT_S)
    api.request("POST", "/topics", topics(name="polled", num_partitions=1))
    yield api
    api.close()


def topics(*, timeout_ms: int = 20_000, **topic: Any) -> bytes:
    body = {"topics": [{"name": "t", **topic}], "timeout_ms": timeout_ms}
    return msgspec.json.encode(body)


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/topics", topics(num_partitions=2**31 - 1), 409, "at most 20"),
        ("/topics", topics(num_partitions=2**31), 400, "`int` <= 2147483647"),
        ("/topics", topics(num_partitions=1, replication_factor=40_000), 400, "`int` <= 32767"),
        ("/topics", topics(timeout_ms=10**40), 400, "int"),
        ("/topics/partitions", b'{"topics":{"t":{"total_count":2147483647}}}', 409, "at most 20"),
        ("/topics", b'{"topics":[],"timeout_ms":NaN}', 400, "malformed"),
        ("/topics", b'{"topics":[],"timeout_ms":1e999}', 400, "malformed"),
        ("/topics/delete", b'{"topics":["\xff\xfe"]}', 400, "malformed"),
        ("/topics/delete", rb'{"topics":["\ud800"]}', 400, "malformed"),
        ("/topics/delete", b'{"x":' + b"[" * 500_000, 400, "malformed"),
        ("/topics/delete", b'{"topics":[' + b'"",' * (MAX_BODY_VALUES + 1), 400, "values"),
        ("/topics/delete", b" " * (MAX_BODY_BYTES + 1), 413, "exceeds 32 MiB"),
        ("/elections", b'{"election_type":0,"partitions":[{"topic":"t","partition":-1}]}', 400, ""),
        ("/consumers", b'{"topic":"t","start":"offset","offset":-5}', 400, "`int` >= 0"),
        ("/consumers", b'{"topic":"t","start":"time"}', 400, "`timestamp_ms` and "),
        ("/consumers", b'{"topic":"t","offset":1}', 400, '`offset` and "start": "offset" require'),
        ("/producers/1/records", b'{"record_count":4611686018427387904}', 400, "`int` <="),
        ("/producers/1/records", b'{"record_size_bytes":1048577}', 400, "`int` <="),
        ("/network", b'{"isolated":[99999999999999999999]}', 400, "malformed"),
        (f"/brokers/{'9' * 5000}/start", b"", 404, "not found"),
        ("/brokers/2147483648/start", b"", 404, "broker 2147483648 does not exist"),
        (f"/brokers/{'9' * 20}/kill", b"", 404, f"broker {'9' * 20} does not exist"),
        ("/producers/9999999999/close", b"", 404, "producer 9999999999 does not exist"),
    ],
)
def test_a_post_is_refused(api: ApiServer, path: str, body: bytes, status: int, words: str) -> None:
    answered, value = api.request("POST", path, body)
    assert (answered, words in value["error"]["message"]) == (status, True), value


@pytest.mark.parametrize("counts", [[20], [1] * 20, [-1] * 20])
def test_as_many_partitions_as_allowed(api: ApiServer, counts: list[int]) -> None:
    wanted = [
        {"name": f"n{number}", "num_partitions": count, "replication_factor": 1}
        for number, count in enumerate(counts)
    ]
    body = {"topics": wanted, "timeout_ms": 20_000, "validate_only": True}
    answered, value = api.request("POST", "/topics", msgspec.json.encode(body))
    assert (answered, {one["code"] for one in value["topics"]}) == (200, {"NONE"}), value


@pytest.mark.parametrize("path", ["/nosuch", "/brokers/1/dance", "/zookeeper/1/dance"])
def test_an_unknown_request_has_a_hint(api: ApiServer, path: str) -> None:
    answered, value = api.request("POST", path, b"")
    assert (answered, value["error"]["hint"]) == (404, "GET /openapi.json lists all requests")


@pytest.mark.parametrize(
    "query",
    [
        "after=-1",
        "after=x",
        f"after={2**63 - 1}",
        f"after={'9' * 5000}",
        "last=10001",
        "last=",
        "after=0&last=1",
    ],
)
def test_a_place_in_the_journal_is_refused(api: ApiServer, query: str) -> None:
    assert api.request("GET", f"/journal?{query}")[0] == 400


def test_a_place_after_the_end_of_the_journal_is_none(api: ApiServer) -> None:
    assert api.request("GET", f"/journal?after={MAX_PLACE}")[1]["rows"] == []


def test_a_cluster_takes_so_many_partitions(api: ApiServer) -> None:
    def create(name: str, count: int) -> tuple[int, Any]:
        return api.request("POST", "/topics", topics(name=name, num_partitions=count))

    for name in ("a", "b"):
        assert create(name, 20)[1]["topics"][0]["code"] == "NONE"
    # A topic that would shrink makes no room for another.
    body = b'{"topics":{"a":{"total_count":41},"b":{"total_count":1}}}'
    status, value = api.request("POST", "/topics/partitions", body)
    assert (status, "The request adds 21" in value["error"]["message"]) == (409, True), value
    status, value = create("c", 11)
    assert (status, value["error"]["code"]) == (409, "POLICY_VIOLATION")
    assert create("c", 10)[1]["topics"][0]["code"] == "NONE"
    more = {"topics": {"a": {"total_count": 21}}}
    assert api.request("POST", "/topics/partitions", msgspec.json.encode(more))[0] == 409


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /status HTTP/1.1\r\nHost: local", b"GET /status HTTP/1.1\r\nHost: localhost\r\n"],
)
def test_a_header_that_does_not_come_ends_the_connection(api: ApiServer, sent: bytes) -> None:
    begun_s = time.monotonic()
    answered = api.exchange(sent)
    assert HEADER_TIMEOUT_S <= time.monotonic() - begun_s < 10
    assert answered.startswith(b"HTTP/1.1 408 ") and b"request header" in answered


def test_a_second_header_that_does_not_come_ends_the_connection(api: ApiServer) -> None:
    request = b"GET /brokers/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answered = api.exchange(request + request[:30])
    assert answered.startswith(b"HTTP/1.1 200 ") and b"HTTP/1.1 408 " in answered


def test_a_client_that_does_not_read_its_answers_loses_its_connection(api: ApiServer) -> None:
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    wait_until(lambda: api.open_connections == 0)
    with socket.create_connection(("127.0.0.1", api.port)) as connection:
        # A client that reads late keeps its connection, and only as long as it reads.
        connection.sendall(200 * request + request.replace(b"openapi.json", b"nowhere"))
        wait_until(lambda: api.is_waiting_for_a_reader)
        received = b""
        while b"HTTP/1.1 404 " not in received:
            received = received[-20:] + connection.recv(1 << 20)
        connection.sendall(200 * request)
        wait_until(lambda: api.open_connections == 1)
        wait_until(lambda: api.open_connections == 0, 10, "the connection to be cut")
    assert api.open_connections == 0


def test_an_answer_may_take_longer_than_a_header(api: ApiServer) -> None:
    consumer = api.post("/consumers", {"topic": "polled"})["id"]
    connection = api.connect()
    wait = msgspec.json.encode({"wait_ms": int(HEADER_TIMEOUT_S * 1000) + 200})
    for _ in range(2):
        begun_s = time.monotonic()
        connection.request("POST", f"/consumers/{consumer}/poll", wait)
        response = connection.getresponse()
        assert (response.status, b'"records":[]' in response.read()) == (200, True)
        assert time.monotonic() - begun_s > HEADER_TIMEOUT_S
    connection.close()


def test_a_connection_may_wait_between_requests(api: ApiServer) -> None:
    connection = api.connect()
    connection.request("GET", "/brokers/live")
    assert connection.getresponse().read()
    quiet_s = time.monotonic() + HEADER_TIMEOUT_S + 0.1
    wait_until(lambda: time.monotonic() > quiet_s)
    connection.request("GET", "/brokers/live")
    assert connection.getresponse().status == 200
    connection.close()


def test_more_connections_than_allowed_are_closed_at_once(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_until(lambda: api.open_connections == 0)
    monkeypatch.setattr("klamm.server.http_protocol.MAX_CONNECTIONS", 1)
    first, second = api.connect(), api.connect()
    first.request("GET", "/brokers/live")
    assert first.getresponse().read()
    with pytest.raises(ConnectionError):
        second.request("GET", "/brokers/live")
        second.getresponse()
    first.request("GET", "/brokers/live")
    assert first.getresponse().status == 200
    first.close()
    second.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n" + b"X: " + b"x" * 100_000,
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
        b"GET /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused(api: ApiServer, sent: bytes) -> None:
    answered = api.exchange(sent)
    assert answered.startswith(b"HTTP/1.1 400 ")
    assert b'{"error":' in answered


def test_an_answer_names_no_software_and_is_not_logged(
    api: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    logged = logging.handlers.BufferingHandler(10)  # caplog sees also what klamm.log does not
    logging.getLogger().addHandler(logged)
    connection = api.connect()
    connection.request("GET", "/brokers/live")
    response = connection.getresponse()
    assert response.read()
    connection.close()
    logging.getLogger().removeHandler(logged)
    names = {name.lower() for name, _ in response.getheaders()}
    assert (names, logged.buffer) == ({"date", "content-length", "content-type"}, [])


@pytest.mark.parametrize("path", ["/topics/%ff%fe", "/topics/%00", "/topics/%ed%a0%80", "/%2f%2e"])
def test_a_name_in_a_path_may_be_anything(api: ApiServer, path: str) -> None:
    assert api.request("GET", path)[0] == 404


@pytest.mark.parametrize(
    ("site", "status"),
    [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403), ("", 403)],
)
def test_a_page_of_another_site_loads_nothing(
    server: ClusterServer, site: str, status: int
) -> None:
    client = AsgiClient(create_app(server))
    answer = client.get("/brokers/live", headers={"Sec-Fetch-Site": site})
    assert answer.status_code == status
    assert client.get("/status", headers={"Origin": "http://["}).status_code == 403


def test_a_bug_is_logged_once_counted_and_not_shown(
    server: ClusterServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("klamm.server.api.last_rows", None)
    client = AsgiClient(create_app(server))
    for _ in range(3):
        answer = client.get("/journal?last=1")
        assert answer.status_code == 500
        assert answer.json()["error"]["error"] == "UnexpectedError"
        assert "klamm.log" in answer.json()["error"]["hint"] and "Trace" not in answer.text
    logged = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert [one.getMessage() for one in logged] == ["'GET /journal' failed"]
    assert 'klamm_http_answers_total{status="500"} 3.0' in client.get("/metrics").text


def test_a_creation_without_a_live_broker_ends_at_its_timeout(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    address = f"{zookeeper.connect_string}/server-no-broker"
    config = server_config(brokers=1, zookeeper=address, session_timeout_ms=3000)
    with ClusterServer(config) as alone:
        client = AsgiClient(create_app(alone))
        client.post("/brokers/0/stop")
        begun_s = time.monotonic()
        body = {"topics": [{"name": "t", "num_partitions": 1}], "timeout_ms": 500}
        answer = client.post("/topics", json=body)
        assert 0.5 <= time.monotonic() - begun_s < 3
        assert answer.status_code == 504
        assert "no broker is the controller" in answer.json()["error"]["hint"]
