"""A connection of a client by itself: which requests go where, and what ends the connection."""

from __future__ import annotations

import asyncio
import struct
import threading
import uuid
from datetime import timedelta
from typing import Any, cast

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataRequest, MetadataResponse, TopicMetadata
from klamm.cluster.data_requests import ProducedPartition, ProduceRequest, ProduceResponse
from klamm.cluster.group_requests import DescribedGroup, DescribeGroupsResponse, JoinGroupRequest
from klamm.cluster.request_faults import RequestFault
from klamm.cluster.requests import ControllerRequest, DeleteTopicsRequest, DeleteTopicsResponse
from klamm.cluster.types import TopicPartition
from klamm.wire import connection as connections
from klamm.wire.config import listener_config
from klamm.wire.connection import FEW_ELEMENTS, ConnectionLost
from klamm.wire.frames import InvalidRequestFrame, RequestKey, framed
from klamm.wire.request_memory import LARGE_BYTES
from tests.unit.wire.talk import (
    ALL_TOPICS,
    BROKER,
    CLIENT,
    CONTROLLER,
    KNOWN,
    METADATA,
    metadata_key,
    talking,
)

PRODUCE, JOIN_GROUP, DESCRIBE_GROUPS, API_VERSIONS, DELETE_TOPICS = 0, 11, 15, 18, 20
CREATE_ACLS, DESCRIBE_CLIENT_QUOTAS, DESCRIBE_CLUSTER = 30, 48, 60
SECOND = timedelta(seconds=1)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def test_a_request_is_answered_by_the_broker_with_the_addresses_of_the_listener() -> None:
    async with talking(has_controller=False) as talk:
        talk.send(metadata_key(7), **ALL_TOPICS)
        asked = await talk.next_asked()
        assert (asked.source, asked.destination) == (CLIENT, BROKER)
        assert asked.body == MetadataRequest(None, False)
        assert talk.transport.client_ids == {CLIENT: "me"}
        # Late answers to earlier requests are none to this one.
        talk.answer(asked, MetadataResponse((), -1, ()), asked.correlation_id - 1)
        await asyncio.sleep(0.05)
        talk.answer(asked, KNOWN)
        talk.answer(asked, MetadataResponse((), -1, ()))
        found = await talk.response(metadata_key(7))
        assert [(one.host, one.port) for one in found.brokers] == [("b", 9093)]
        assert (found.controller_id, found.cluster_id) == (1, "the cluster")
        assert talk.connection._watch.cancelled(), "the next request has its own time"
        talk.send(metadata_key(8), **ALL_TOPICS)
        talk.answer(await talk.next_asked(), KNOWN)
        assert (await talk.response(metadata_key(8))).controller_id == 1
        talk.writer.close()
        assert await talk.end() is None


OMITTED = -(2**31)
GROUPS = DescribeGroupsResponse(
    (DescribedGroup(Errors.NONE, "g"), DescribedGroup(Errors.NOT_COORDINATOR, "h"))
)


@pytest.mark.parametrize("is_asked", [True, False])
async def test_a_client_that_asks_may_do_everything(is_asked: bool) -> None:
    topics = MetadataResponse((), 1, (TopicMetadata(Errors.NONE, "t"),))
    async with talking() as talk:
        both = {
            "include_cluster_authorized_operations": is_asked,
            "include_topic_authorized_operations": is_asked,
        }
        talk.send(metadata_key(1), **{**ALL_TOPICS, **both})
        talk.answer(await talk.next_asked(), topics)
        found = await talk.response(metadata_key(1))
        (topic,) = found.topics
        key = RequestKey(DESCRIBE_CLUSTER, 0, 2)
        talk.send(key, include_cluster_authorized_operations=is_asked)
        talk.answer(await talk.next_asked(), KNOWN)
        cluster = await talk.response(key)
        key = RequestKey(DESCRIBE_GROUPS, 5, 3)
        talk.send(key, groups=("g", "h"), include_authorized_operations=is_asked)
        talk.answer(await talk.next_asked(), GROUPS)
        groups = (await talk.response(key)).groups
        # The numbers are those of Kafka without an authorizer.
        assert [
            found.cluster_authorized_operations,
            topic.topic_authorized_operations,
            cluster.cluster_authorized_operations,
            *(group.authorized_operations for group in groups),
        ] == ([8096, 3576, 8096, 328, OMITTED] if is_asked else [OMITTED] * 5)


async def test_topics_are_not_found_by_topic_id() -> None:
    topic_id = uuid.UUID(int=7)
    async with talking() as talk:
        key = RequestKey(METADATA, 10, 1)
        for topics in (
            [{"name": None, "topic_id": topic_id}, {"name": "t", "topic_id": None}],
            [{"name": "", "topic_id": topic_id}, {"name": "t", "topic_id": None}],
        ):
            talk.send(key, **{**ALL_TOPICS, "topics": topics})
            found = await talk.response(key)
            assert [(one.name, one.topic_id, one.error_code.name) for one in found.topics] == [
                ("", topic_id, "invalid_request"),
                ("t", None, "invalid_request"),
            ]
            assert (found.brokers, found.cluster_id, found.controller_id) == ((), None, -1)
        talk.send(key, **{**ALL_TOPICS, "topics": [{"name": None, "topic_id": None}]})
        (topic,) = (await talk.response(key)).topics
        assert (topic.name, topic.error_code.name) == ("", "invalid_request")
        assert talk.asked == []


DELETE = RequestKey(DELETE_TOPICS, 1, 3)
DELETION: dict[str, Any] = {"topic_names": ("t",)}


@pytest.mark.parametrize("has_controller", [True, False])
async def test_only_a_candidate_passes_requests_to_its_controller(has_controller: bool) -> None:
    async with talking(has_controller=has_controller) as talk:
        talk.send(DELETE, **DELETION, timeout=SECOND)
        if has_controller:
            asked = await talk.next_asked()
            assert asked.destination == CONTROLLER
            assert isinstance(asked.body, ControllerRequest)
            assert asked.body == DeleteTopicsRequest(("t",), 1_000)
            talk.answer(asked, DeleteTopicsResponse(()))
            assert (await talk.response(DELETE)).responses == ()
        else:
            (one,) = (await talk.response(DELETE)).responses
            assert (one.name, one.error_code.name) == ("t", "not_controller")
            assert talk.errors() == {("DeleteTopics", "NOT_CONTROLLER"): 1}
        assert talk.asked == []


async def test_records_that_need_no_acknowledgement_get_none() -> None:
    async with talking() as talk:
        key = RequestKey(PRODUCE, 3, 1)
        talk.send(key, transactional_id=None, acks=0, timeout=SECOND, topic_data=())
        asked = await talk.next_asked()
        assert isinstance(asked.body, ProduceRequest)
        talk.answer(asked, ProduceResponse({T0: ProducedPartition(Errors.NONE)}))
        talk.send(metadata_key(2), **ALL_TOPICS)
        talk.answer(await talk.next_asked(), KNOWN)
        assert (await talk.response(metadata_key(2))).controller_id == 1


async def test_an_error_ends_the_connection_of_a_producer_that_needs_no_acknowledgement() -> None:
    async with talking() as talk:
        key = RequestKey(PRODUCE, 3, 1)
        talk.send(key, transactional_id=None, acks=0, timeout=SECOND, topic_data=())
        fine, bad = (
            ProducedPartition(error) for error in (Errors.NONE, Errors.NOT_LEADER_OR_FOLLOWER)
        )
        talk.answer(await talk.next_asked(), ProduceResponse({T0: fine, T1: bad}))
        assert await talk.end() is ConnectionLost


async def test_the_coordinator_knows_the_client_and_its_host() -> None:
    async with talking() as talk:
        talk.send(
            RequestKey(JOIN_GROUP, 0, 1),
            group_id="g",
            session_timeout=SECOND,
            member_id="",
            protocol_type="consumer",
            protocols=(),
        )
        body = (await talk.next_asked()).body
        assert isinstance(body, JoinGroupRequest)
        assert (body.client_id, body.client_host) == ("me", "/1.2.3.4")


@pytest.mark.parametrize(
    ("version", "software", "answered_in", "error"),
    [
        (2, b"", 2, "none"),
        (3, b"\2a\4b-1\0", 3, "none"),
        (3, b"\3a-\4b-1\0", 3, "invalid_request"),
        (3, b"\2a\1\0", 3, "invalid_request"),
        (9, b"?", 0, "unsupported_version"),
    ],
)
async def test_the_versions_of_apis_need_no_broker(
    version: int, software: bytes, answered_in: int, error: str
) -> None:
    async with talking() as talk:
        header = struct.pack(">hhih", API_VERSIONS, version, 5, 2) + b"me"
        # Version 3 has a flexible header and the name and version of the client's software.
        talk.writer.write(framed(header + (b"\0" if version == 3 else b"") + software))
        # An unknown version is answered in version 0.
        answered = await talk.response(RequestKey(API_VERSIONS, answered_in, 5))
        assert answered.error_code.name == error
        if error == "none":
            assert len(answered.api_keys) > 40
        else:
            keys = [API_VERSIONS] if error == "unsupported_version" else []
            assert [one.api_key for one in answered.api_keys] == keys
        assert talk.asked == []


@pytest.mark.parametrize(
    ("frame", "errors"),
    [
        (struct.pack(">hhih", METADATA, 99, 5, -1), {}),
        (struct.pack(">hhih", 999, 0, 5, -1), {}),
        (struct.pack(">hhih", METADATA, 8, 5, -1) + b"\0", {("Metadata", "MALFORMED"): 1}),
        (b"\0" * 3, {}),
        (b"\0" * 2_000, {}),
    ],
)
async def test_bytes_that_are_no_request_end_the_connection(
    frame: bytes, errors: dict[tuple[str, str], float]
) -> None:
    async with talking(socket_request_max_bytes="1000") as talk:
        talk.writer.write(framed(frame))
        assert await talk.end() is InvalidRequestFrame
        assert talk.errors() == errors


async def test_a_request_that_is_cut_off_ends_the_connection() -> None:
    async with talking() as talk:
        talk.writer.write(framed(b"\0" * 40)[:-1])
        talk.writer.close()
        assert await talk.end() is InvalidRequestFrame


async def test_a_connection_is_lost_with_the_broker() -> None:
    async with talking() as talk:
        talk.send(metadata_key(1), **ALL_TOPICS)
        await talk.next_asked()
        talk.transport.unregister(BROKER)
        assert await talk.end() is ConnectionLost


@pytest.mark.parametrize("how", ["hangs up", "resets", "waits"])
async def test_a_client_that_waits_for_an_answer_may_leave_and_waits_only_so_long(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_WATCH_S", 0.02)
    async with talking(connections_max_idle_ms="1000" if how == "waits" else "600000") as talk:
        # What a client has not read when it closes resets the connection.
        transport = cast("asyncio.ReadTransport", talk.writer.transport)
        transport.pause_reading()
        if how == "resets":
            talk.send(metadata_key(0), **ALL_TOPICS)
            talk.answer(await talk.next_asked(), KNOWN)
        talk.send(metadata_key(1), **ALL_TOPICS)
        await talk.next_asked()
        if how != "waits":
            talk.writer.close()
        assert await talk.end() is ConnectionLost


@pytest.mark.parametrize("size", [LARGE_BYTES, LARGE_BYTES + 1])
async def test_only_a_large_request_must_arrive_soon(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "ARRIVAL_S", 0.02)
    async with talking() as talk:
        frame = framed(struct.pack(">hhih", 999, 0, 5, -1) + bytes(size - 10))
        talk.writer.write(frame[:-1])
        await asyncio.sleep(0.1)
        talk.writer.write(frame[-1:])
        assert await talk.end() is (TimeoutError if size > LARGE_BYTES else InvalidRequestFrame)


async def test_a_client_that_asks_nothing_waits_only_so_long() -> None:
    async with talking(connections_max_idle_ms="100") as talk:
        assert await talk.end() is TimeoutError


ACLS = RequestKey(CREATE_ACLS, 0, 4)
CREATION = {
    "resource_type": 2,
    "resource_name": "t",
    "principal": "User:a",
    "host": "*",
    "operation": 2,
    "permission_type": 3,
}


async def test_the_listener_answers_only_while_its_broker_does() -> None:
    async with talking() as talk:
        talk.send(ACLS, creations=())
        asked = await talk.next_asked()
        assert asked.body == MetadataRequest(())
        assert asked.destination == BROKER
        await asyncio.sleep(0.05)
        talk.answer(asked, KNOWN)
        assert (await talk.response(ACLS)).results == ()
        assert talk.counted("TotalTimeMs_count") == {("CreateAcls",): 1}
        assert 50 <= talk.counted("TotalTimeMs_sum")["CreateAcls",] < 20_000


async def test_answers_of_the_listener_have_its_own_addresses() -> None:
    async with talking() as talk:
        key = RequestKey(DESCRIBE_CLUSTER, 0, 4)
        talk.send(key, include_cluster_authorized_operations=False)
        talk.answer(await talk.next_asked(), KNOWN)
        described = await talk.response(key)
        assert [(one.host, one.port) for one in described.brokers] == [("b", 9093)]
        assert (described.controller_id, described.cluster_id) == (1, "the cluster")


class WaitingAdmin:
    """Describes quotas only when the event loop has gone on."""

    def __init__(self) -> None:
        self.client_quotas = self
        self.goes_on = threading.Event()

    def describe(self, *_: object, **__: object) -> dict[object, object]:
        return {} if self.goes_on.wait(10) else {frozenset(): {"late": 1.0}}


async def test_other_connections_are_served_while_the_listener_finds_an_answer() -> None:
    admin = WaitingAdmin()
    async with talking(admin=admin) as talk:
        key = RequestKey(DESCRIBE_CLIENT_QUOTAS, 0, 4)
        talk.send(key, components=(), strict=False)
        talk.answer(await talk.next_asked(), KNOWN)
        asyncio.get_running_loop().call_later(0.02, admin.goes_on.set)
        assert (await talk.response(key)).entries == ()


async def test_a_broker_handles_one_request_of_many_elements_at_a_time() -> None:
    async with talking() as talk:
        many = {**ALL_TOPICS, "topics": [{"name": "t"}] * (FEW_ELEMENTS + 1)}
        async with talk.many_elements:
            talk.send(metadata_key(1), **many)
            await asyncio.sleep(0.2)
            assert talk.asked == []
        asked = await talk.next_asked()
        assert talk.many_elements.locked()
        talk.answer(asked, KNOWN)
        await talk.response(metadata_key(1))
        assert not talk.many_elements.locked()
        few = {**ALL_TOPICS, "topics": [{"name": "t"}] * FEW_ELEMENTS}
        async with talk.many_elements:
            talk.send(metadata_key(2), **few)
            talk.answer(await talk.next_asked(), KNOWN)
            await talk.response(metadata_key(2))


async def test_request_faults_apply_to_requests_that_the_listener_answers() -> None:
    async with talking() as talk:
        faults = talk.transport.request_faults
        key = RequestKey(API_VERSIONS, 0, 4)
        faults.append(RequestFault("ApiVersions", None, None, 1, Errors.REQUEST_TIMED_OUT))
        talk.send(key)
        refused = await talk.response(key)
        assert refused.error_code.name == "request_timed_out"
        talk.send(key)
        assert (await talk.response(key)).error_code.name == "none"
        faults.append(RequestFault("ApiVersions", None, frozenset({2}), None, None, True))
        faults.append(RequestFault("ApiVersions", "you", None, None, None, True))
        faults.append(RequestFault("ApiVersions", "me", None, 1, delay_ms=50))
        talk.send(key)
        assert (await talk.response(key)).error_code.name == "none"
        faults.append(RequestFault("ApiVersions", "me", frozenset({1}), 1, None, True))
        talk.send(key)
        assert await talk.end() is ConnectionLost
        assert talk.asked == []


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (RequestFault("CreateAcls", None, None, 1, Errors.REQUEST_TIMED_OUT), "request_timed_out"),
        (RequestFault("CreateAcls", None, None, 1, delay_ms=20), "security_disabled"),
    ],
)
async def test_a_fault_refuses_or_delays_requests_that_the_listener_would_answer(
    fault: RequestFault, error: str
) -> None:
    async with talking() as talk:
        talk.transport.request_faults.append(fault)
        talk.send(ACLS, creations=[CREATION])
        talk.answer(await talk.next_asked(), KNOWN)
        (result,) = (await talk.response(ACLS)).results
        assert result.error_code.name == error


@pytest.mark.parametrize("is_cut", [True, False])
async def test_a_request_that_the_listener_would_answer_is_lost(
    is_cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_WATCH_S", 0.02)
    async with talking() as talk:
        talk.transport.request_faults.append(
            RequestFault("CreateAcls", None, None, 1, None, is_cut)
        )
        talk.send(ACLS, creations=())
        if not is_cut:
            await asyncio.sleep(0.05)
            talk.writer.close()
        assert await talk.end() is ConnectionLost
        assert talk.asked == []


@pytest.mark.parametrize(("configured", "limit"), [("999", 999), ("5000", 1000), (None, 1000)])
def test_a_broker_has_a_thousand_connections_at_most(configured: str | None, limit: int) -> None:
    config = listener_config({} if configured is None else {"max.connections": configured})
    assert config.max_connections == limit
