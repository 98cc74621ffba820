"""Producers and consumers that live in the server: their paths, their ends, what they refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest

from klamm.server import client_sessions
from klamm.server.api import create_app
from klamm.server.client_sessions import IDLE_S
from klamm.server.cluster_server import ClusterServer
from klamm.zk.embedded import EmbeddedZooKeeper
from tests.asgi import AsgiClient
from tests.server_configs import server_config
from tests.waiting import wait_until

LOCALHOST = (b"host", b"localhost")
COUNTS = ("sent", "acknowledged", "failed", "in_doubt", "undecided")


@pytest.fixture(scope="module")
def server(zookeeper: EmbeddedZooKeeper) -> Iterator[ClusterServer]:
    """Two brokers."""
    address = f"{zookeeper.connect_string}/server-clients"
    config = server_config(brokers=2, zookeeper=address, session_timeout_ms=3000)
    with ClusterServer(config) as running:
        yield running


@pytest.fixture(scope="module")
def api(server: ClusterServer) -> AsgiClient:
    """With two topics of two partitions; ``own`` is for one test."""
    api = AsgiClient(create_app(server))
    assignments = {"0": [0, 1], "1": [1, 0]}
    topics = [{"name": name, "assignments": assignments} for name in ("t", "own")]
    body = {"topics": topics, "timeout_ms": 20_000}
    assert api.post("/topics", json=body).status_code == 200
    return api


def ok(api: AsgiClient, path: str, **body: Any) -> dict[str, Any]:
    response = api.post(path, json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def error(api: AsgiClient, path: str, **body: Any) -> tuple[int, str]:
    response = api.post(path, json=body)
    return response.status_code, response.json()["error"]["message"]


def test_a_producer_and_a_consumer_from_their_beginning_to_their_end(api: AsgiClient) -> None:
    opened = ok(api, "/producers", topic="own", enable_idempotence=True)
    assert (opened["partitions"], opened["has_values"]) == ([0, 1], False)
    producer = f"/producers/{opened['id']}"
    ok(api, f"{producer}/records", record_count=10, record_size_bytes=4_000)
    records = [{"key": None, "value": "no key"}, {"key": "foobar", "value": "partition 0"}]
    ok(api, f"{producer}/records", records=records)
    status = ok(api, f"{producer}/close", wait_ms=20_000)
    assert [status[name] for name in COUNTS] == [12, 12, 0, 0, 0]
    assert sum(one["end"] - one["start"] for one in status["offsets"]) == 12
    assert {one["partition"] for one in status["offsets"]} == {0, 1}

    consumer = f"/consumers/{ok(api, '/consumers', topic='own', start='beginning')['id']}"
    counted: list[dict[str, int]] = []
    while sum(one["end"] - one["start"] for one in counted) < 12:
        polled = ok(api, f"{consumer}/poll", wait_ms=20_000)
        assert polled["counted"], "it came to the end too soon"
        counted += polled["counted"]
    assert sum(one["size_bytes"] for one in counted) == 40_000 + len("no keyfoobarpartition 0")
    assert polled["errors"] == polled["truncations"] == []
    ends = {one["partition"]: one["end"] for one in status["offsets"]}
    assert {int(tp): at for tp, at in ok(api, f"{consumer}/close")["positions"].items()} == ends
    for path in (f"{producer}/records", f"{producer}/close", f"{consumer}/poll"):
        code, message = error(api, path)
        assert (code, message.endswith(" does not exist")) == (404, True)


def test_records_without_keys_fill_batches_that_go_to_the_partitions_in_turn(
    api: AsgiClient,
) -> None:
    producer = f"/producers/{ok(api, '/producers', topic='t')['id']}"
    for wanted in (
        {"records": [{"value": "x" * 8_192}] * 2},  # one batch of 16 KiB
        {"records": [{"value": "x" * 8_193}] * 2},  # two batches
        {"record_count": 9, "record_size_bytes": 4_096},  # 4 + 4 + 1 records
        {"record_count": 1, "record_size_bytes": 20_000},
    ):
        ok(api, f"{producer}/records", **wanted)
    status = ok(api, f"{producer}/close", wait_ms=20_000)
    counts = {0: 0, 1: 0}
    for one in status["offsets"]:
        counts[one["partition"]] += one["end"] - one["start"]
    assert counts == {0: 1 + 4 + 1, 1: 2 + 1 + 4 + 1}


def test_a_consumer_starts_where_it_is_told(api: AsgiClient) -> None:
    producer = f"/producers/{ok(api, '/producers', topic='t', partition=1)['id']}"
    sent = ok(api, f"{producer}/records", record_count=5, max_undecided=0, wait_ms=20_000)
    assert {one["partition"] for one in sent["offsets"]} == {1}
    end = max(one["end"] for one in sent["offsets"])
    place = {"topic": "t", "partition": 1}
    starts = (
        ({"start": "offset", "offset": end - 2}, end - 2),
        ({"start": "beginning"}, 0),
        ({"start": "time", "timestamp_ms": 0}, 0),
        ({"start": "end"}, end),
    )
    consumers = []
    for wanted, _ in starts:
        opened = ok(api, "/consumers", **place, **wanted)
        assert opened["partitions"] == [1]
        consumers.append(f"/consumers/{opened['id']}")
    # The consumer at the end must know its position before more records come.
    wait_until(
        lambda: ok(api, f"{consumers[-1]}/poll", wait_ms=100)["positions"] == {"1": end},
        what="the consumer is at the end",
    )
    ok(api, f"{producer}/close", wait_ms=20_000, gives_up=True)
    more = f"/producers/{ok(api, '/producers', **place)['id']}"
    ok(api, f"{more}/records", record_count=1, max_undecided=0, wait_ms=20_000)
    ok(api, f"{more}/close")
    for consumer, (_, start) in zip(consumers, starts, strict=True):
        assert ok(api, f"{consumer}/poll", wait_ms=20_000)["counted"][0]["start"] == start
        ok(api, f"{consumer}/close")


def test_more_clients_than_allowed_are_refused_until_some_are_closed(
    api: AsgiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = ok(api, "/producers", topic="t")["id"]
    monkeypatch.setattr(client_sessions, "MAX_CLIENTS", 1)
    response = api.post("/consumers", json={"topic": "t"})
    described = response.json()["error"]
    assert (response.status_code, described["retriable"]) == (503, True)
    assert described["message"] == "1 producers and consumers are open"
    ok(api, f"/producers/{number}/close")
    ok(api, f"/consumers/{ok(api, '/consumers', topic='t')['id']}/close")


def test_clients_of_absent_partitions_or_with_contradicting_options_are_refused(
    api: AsgiClient,
) -> None:
    for path in ("/producers", "/consumers"):
        assert error(api, path, topic="absent") == (404, "topic absent does not exist")
        assert error(api, path, topic="t", partition=2) == (404, "topic t has no partition 2")
        hint = api.post(path, json={"topic": "t", "partition": 2}).json()["error"]["hint"]
        assert hint == "the topic's partitions are 0 to 1"
    code, message = error(api, "/producers", topic="t", acks=1, enable_idempotence=True)
    assert (code, message.split(".")[0]) == (
        409,
        "Must set acks to all in order to use the idempotent producer",
    )
    number = ok(api, "/producers", topic="t")["id"]
    assert error(api, f"/producers/{number}/records", record_count=-1)[0] == 400
    much = {"record_count": 2**20 + 1, "record_size_bytes": 1024}
    assert error(api, f"/producers/{number}/records", **much) == (
        400,
        "1048577 records of 1024 bytes exceed the limit of 1024 MiB per request",
    )
    both = {"record_count": 1, "records": [{"value": "v"}]}
    assert error(api, f"/producers/{number}/records", **both)[0] == 400
    ok(api, f"/producers/{number}/close")


def test_clients_that_are_no_longer_used_are_closed(api: AsgiClient, server: ClusterServer) -> None:
    number = ok(api, "/producers", topic="t")["id"]
    ok(api, f"/producers/{number}/records", record_count=1)
    server.client_sessions.idle_s = -1.0
    other = ok(api, "/consumers", topic="t")["id"]
    assert error(api, f"/producers/{number}/records")[0] == 404
    server.client_sessions.idle_s = IDLE_S
    ok(api, f"/consumers/{other}/close")


def test_a_client_that_is_used_stays(api: AsgiClient, server: ClusterServer) -> None:
    number = ok(api, "/producers", topic="t")["id"]
    server.client_sessions._sessions[number].used_s -= 2 * IDLE_S
    ok(api, f"/producers/{number}/records", record_count=1)
    other = ok(api, "/consumers", topic="t")["id"]
    ok(api, f"/producers/{number}/records", record_count=1)
    assert ok(api, f"/producers/{number}/close", wait_ms=20_000)["acknowledged"] == 2
    ok(api, f"/consumers/{other}/close")


def test_who_goes_before_all_of_a_request_has_come_is_no_error(server: ClusterServer) -> None:
    parts = iter(
        [
            {"type": "http.request", "body": b'{"topic":', "more_body": True},
            {"type": "http.disconnect"},
        ]
    )
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return next(parts)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/producers",
        "query_string": b"",
        "headers": [LOCALHOST],
    }
    asyncio.run(create_app(server)(scope, receive, send))
    assert sent[0]["status"] == 400 and next(parts, None) is None


@pytest.fixture(scope="module")
def keeping(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """The API of two brokers that keep keys and values, with topics that either or both have."""
    config = server_config(
        brokers=2,
        controllers=1,
        zookeeper=f"{zookeeper.connect_string}/server-clients-keeping",
        data_dir=tmp_path_factory.mktemp("keeping"),
        segments=True,
        session_timeout_ms=3000,
    )
    with ClusterServer(config) as running:
        api = AsgiClient(create_app(running))
        replicas = {"read": [[0], [0], [0]], "lost": [[1], [0]]}
        topics = [
            {"name": name, "assignments": {str(n): ids for n, ids in enumerate(lists)}}
            for name, lists in replicas.items()
        ]
        ok(api, "/topics", topics=topics, timeout_ms=20_000)
        yield api


def consumed(api: AsgiClient, count: int, **start: Any) -> list[dict[str, Any]]:
    """So many records of a topic from a place onward, after which no more come."""
    consumer = f"/consumers/{ok(api, '/consumers', **start)['id']}"
    records: list[dict[str, Any]] = []
    while len(records) < count:
        records += ok(api, f"{consumer}/poll", wait_ms=20_000)["records"]
    ok(api, f"{consumer}/close")
    return records


def test_keys_values_and_times_are_kept(keeping: AsgiClient) -> None:
    opened = ok(keeping, "/producers", topic="read")
    assert opened["has_values"]
    producer = f"/producers/{opened['id']}"
    # -973932308 and -790332482 are the hashes of the first two in Kafka's own UtilsTest.
    records = [
        {"key": "21", "value": "a"},
        {"key": "foobar", "value": ""},
        {"key": "21", "value": "\N{SNOWMAN}"},
    ]
    ok(keeping, f"{producer}/records", records=records, max_undecided=0, wait_ms=20_000)
    last = ok(keeping, f"{producer}/records", record_count=3, record_size_bytes=6_000)
    assert last["sent"] == 6
    status = ok(keeping, f"{producer}/close", wait_ms=20_000)
    assert status["acknowledged"] == 6
    offsets = [(one["partition"], one["start"]) for one in status["offsets"]]
    assert offsets == sorted(offsets)
    read = consumed(keeping, 6, topic="read", start="beginning")
    keyed = [(one["key"], one["value"]) for one in read if one["key"] is not None]
    assert sorted(keyed) == [("21", "a"), ("21", "\N{SNOWMAN}"), ("foobar", "")]
    assert len({one["partition"] for one in read if one["key"] == "21"}) == 1
    assert [one["value"] for one in read if one["key"] is None] == ["k" * 6_000] * 3
    assert {one["leader_epoch"] for one in read} == {0}
    times_ms = {one["timestamp_ms"] for one in read}
    assert max(times_ms) - min(times_ms) < 60_000 and min(times_ms) > 1_700_000_000_000


def test_a_consumer_begins_in_the_middle_of_a_batch(keeping: AsgiClient) -> None:
    place = {"topic": "read", "partition": 2}
    producer = f"/producers/{ok(keeping, '/producers', **place)['id']}"
    values = [f"value {n}" for n in range(5)]
    records = [{"value": value} for value in values]
    sent = ok(keeping, f"{producer}/records", records=records, max_undecided=0, wait_ms=20_000)
    ok(keeping, f"{producer}/close", wait_ms=20_000)
    end = sent["offsets"][-1]["end"]
    read = consumed(keeping, 2, **place, start="offset", offset=end - 2)
    assert [(one["offset"], one["value"]) for one in read] == [
        (end - 2, "value 3"),
        (end - 1, "value 4"),
    ]
    late_ms = read[0]["timestamp_ms"] + 1
    assert consumed(keeping, 2, **place, start="time", timestamp_ms=late_ms - 1)[-1] == read[-1]
    outside = ok(keeping, "/consumers", **place, start="offset", offset=end + 1)["id"]
    polled = ok(keeping, f"/consumers/{outside}/poll", wait_ms=20_000)
    assert polled["records"] == [] and len(polled["errors"]) == 1
    assert f"Fetch position {end + 1} is out of range for partition read-2" in polled["errors"][0]
    assert polled["waiting_for"] == []
    ok(keeping, f"/consumers/{outside}/close")


def test_what_has_no_leader_is_waited_for_and_given_up(keeping: AsgiClient) -> None:
    ok(keeping, "/brokers/1/stop")
    producer = f"/producers/{ok(keeping, '/producers', topic='lost', partition=0)['id']}"
    consumer = f"/consumers/{ok(keeping, '/consumers', topic='lost')['id']}"
    ok(keeping, f"{producer}/records", record_count=7, wait_ms=0)
    why = "lost-0 has no leader (brokers alive: 0)"
    for request in (f"{producer}/records", f"{consumer}/poll"):
        wait_until(lambda request=request: ok(keeping, request, wait_ms=10)["waiting_for"] == [why])
    status = ok(keeping, f"{producer}/close", wait_ms=1)
    assert [status[name] for name in COUNTS] == [7, 0, 0, 0, 7]
    status = ok(keeping, f"{producer}/close", wait_ms=1, gives_up=True)
    assert [status[name] for name in COUNTS][1] == 0
    assert status["undecided"] == 0 and status["failed"] + status["in_doubt"] == 7
    assert {one["partition"] for one in status["not_acknowledged"]} == {0}
    assert sum(one["record_count"] for one in status["not_acknowledged"]) == 7
    assert error(keeping, f"{producer}/close")[0] == 404
    ok(keeping, f"{consumer}/close")
    ok(keeping, "/brokers/1/start")


def test_undecided_records_use_no_more_memory_than_allowed(
    keeping: AsgiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_sessions, "MAX_UNDECIDED_BYTES", 30_000)
    ok(keeping, "/brokers/1/stop")
    first, second = (
        f"/producers/{ok(keeping, '/producers', topic='lost', partition=0)['id']}" for _ in range(2)
    )
    ok(keeping, f"{first}/records", record_count=1, record_size_bytes=20_000, wait_ms=0)
    response = keeping.post(f"{second}/records", json={"record_count": 1_000, "wait_ms": 0})
    described = response.json()["error"]
    assert (response.status_code, described["retriable"]) == (503, True)
    assert described["message"].startswith("the records that are neither acknowledged nor failed")
    assert ok(keeping, f"{second}/records", record_count=1, wait_ms=0)["sent"] == 1
    assert ok(keeping, f"{second}/records", wait_ms=0)["sent"] == 1
    for producer in (first, second):
        ok(keeping, f"{producer}/close", wait_ms=0, gives_up=True)
    ok(keeping, "/brokers/1/start")


def test_clients_that_are_closed_leave_nothing(api: AsgiClient, server: ClusterServer) -> None:
    producer = ok(api, "/producers", topic="t")["id"]
    consumer = ok(api, "/consumers", topic="t")["id"]
    assert error(api, f"/producers/{consumer}/close")[0] == 404
    assert error(api, f"/consumers/{producer}/poll")[0] == 404
    sessions = server.client_sessions._sessions
    addresses = {sessions[number].client.address for number in (producer, consumer)}
    assert addresses <= server.cluster.clients._actors.keys()
    ok(api, f"/producers/{producer}/close")
    ok(api, f"/consumers/{consumer}/close")
    assert sessions.keys().isdisjoint({producer, consumer})
    assert server.cluster.clients._actors.keys().isdisjoint(addresses)
