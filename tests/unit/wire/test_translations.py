"""Requests and responses of all versions, translated between kio's schemas and klamm's values."""

from __future__ import annotations

import dataclasses
import uuid
from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import (
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetForLeaderPartition,
    OffsetsForLeaderEpochRequest,
    TopicMetadata,
)
from klamm.cluster.data_requests import (
    FetchedPartition,
    FetchMetadata,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProducedPartition,
    ProduceResponse,
)
from klamm.cluster.group_requests import (
    CommittedOffset,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchedOffset,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    JoinedMember,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListGroupsRequest,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Protocol,
    SyncGroupRequest,
)
from klamm.cluster.records import EpochEndOffset
from klamm.cluster.refusals import refusal
from klamm.cluster.requests import (
    AlterPartitionReassignmentsResponse,
    ApiError,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsResponse,
    LogDirResult,
    ReplicaInfo,
)
from klamm.cluster.types import Broker, ElectionType, EndPoint, ReplicaAssignment, TopicPartition
from klamm.wire.api import Api
from klamm.wire.apis import APIS
from klamm.wire.frames import InvalidRequestFrame
from klamm.wire.schema import RefusedRequest, fill

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SECOND = timedelta(seconds=1)


def api(key: int, version: int) -> Api:
    found = APIS[key, version]
    assert isinstance(found, Api)
    return found


def request(key: int, version: int, values: dict[str, Any]) -> Any:
    """The request that klamm makes of a request of Kafka's protocol."""
    return api(key, version).request.read(fill(load_request_schema(key, version), values))


def plain(value: Any) -> Any:
    """A kio value as nested dicts and lists, with the names of errors."""
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return [plain(one) for one in value] if isinstance(value, tuple) else value


def response(key: int, version: int, value: Any, to: Any = None) -> dict[str, Any]:
    """The fields of the response of Kafka's protocol ``to`` a request."""
    values = api(key, version).response_to(to).write(value)
    found = plain(fill(load_response_schema(key, version), values))
    assert isinstance(found, dict)
    return found


JOIN = {
    "group_id": "g",
    "session_timeout": SECOND,
    "rebalance_timeout": 2 * SECOND,
    "member_id": "m",
    "group_instance_id": "i",
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b"x"}],
}


@pytest.mark.parametrize(
    ("version", "rebalance_ms", "instance", "needs_id"),
    [
        (0, 1_000, None, False),
        (3, 2_000, None, False),
        (4, 2_000, None, True),
        (7, 2_000, "i", True),
    ],
)
def test_join_group_is_translated_by_its_version(
    version: int, rebalance_ms: int, instance: str | None, needs_id: bool
) -> None:
    assert request(11, version, JOIN) == JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1_000,
        rebalance_timeout_ms=rebalance_ms,
        protocol_type="consumer",
        protocols=(Protocol("range", b"x"),),
        member_id="m",
        group_instance_id=instance,
        requires_known_member_id=needs_id,
    )
    members = (JoinedMember("m", "i", b"x"),)
    joined = JoinGroupResponse(Errors.NONE, "m", 3, "consumer", "range", "l", members)
    answer = response(11, version, joined)
    assert (answer["generation_id"], answer["protocol_name"]) == (3, "range")
    assert (answer["leader"], answer["member_id"]) == ("l", "m")
    assert answer.get("protocol_type", "consumer") == "consumer"
    (member,) = answer["members"]
    assert (member["member_id"], member["metadata"]) == ("m", b"x")
    assert member.get("group_instance_id", "i") == "i"


@pytest.mark.parametrize("absent", ["protocol_type", "protocol_name"])
def test_a_sync_names_its_protocol_from_version_5_on(absent: str) -> None:
    values = {
        "group_id": "g",
        "generation_id": 3,
        "member_id": "m",
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": (),
        absent: None,
    }
    with pytest.raises(RefusedRequest) as refused:
        request(14, 5, values)
    assert refused.value.values["error_code"] is Errors.INCONSISTENT_GROUP_PROTOCOL
    assert isinstance(request(14, 4, values), SyncGroupRequest)


def test_sync_group_is_translated_by_its_version() -> None:
    values = {
        "group_id": "g",
        "generation_id": 3,
        "member_id": "m",
        "group_instance_id": "i",
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": "m", "assignment": b"x"}],
    }
    assert request(14, 5, values) == SyncGroupRequest(**{**values, "assignments": {"m": b"x"}})
    oldest = request(14, 0, values)
    assert (oldest.group_instance_id, oldest.protocol_type, oldest.protocol_name) == (None,) * 3


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (LeaveGroupResponse(Errors.NOT_COORDINATOR), "not_coordinator"),
        (
            LeaveGroupResponse(Errors.NONE, ((MemberIdentity("m"), Errors.UNKNOWN_MEMBER_ID),)),
            "unknown_member_id",
        ),
        (LeaveGroupResponse(Errors.NONE, ((MemberIdentity("m"), Errors.NONE),)), "none"),
    ],
)
def test_an_older_member_that_leaves_gets_its_own_error(
    left: LeaveGroupResponse, expected: str
) -> None:
    assert request(13, 2, {"group_id": "g", "member_id": "m"}).members == (MemberIdentity("m"),)
    assert response(13, 2, left)["error_code"].name == expected
    if left.members:
        (member,) = response(13, 4, left)["members"]
        assert (member["member_id"], member["error_code"].name) == ("m", expected)


@pytest.mark.parametrize(
    ("version", "epoch", "timestamp_ms", "member", "kept_ms"),
    [
        (0, -1, -1, (-1, "", None), -1),
        (1, -1, 7, (3, "m", None), -1),
        (2, -1, -1, (3, "m", None), 1_000),
        (6, 5, -1, (3, "m", None), -1),
        (8, 5, -1, (3, "m", "i"), -1),
    ],
)
def test_offset_commit_is_translated_by_its_version(
    version: int, epoch: int, timestamp_ms: int, member: tuple[int, str, str | None], kept_ms: int
) -> None:
    committed = {
        "partition_index": 0,
        "committed_offset": 42,
        "committed_leader_epoch": 5,
        "committed_metadata": "note",
        "commit_timestamp": 7,
    }
    values = {
        "group_id": "g",
        "generation_id_or_member_epoch": 3,
        "member_id": "m",
        "group_instance_id": "i",
        "retention_time": SECOND,
        "topics": [{"name": "t", "partitions": [committed]}],
    }
    generation_id, member_id, instance = member
    assert request(8, version, values) == OffsetCommitRequest(
        group_id="g",
        offsets={T0: CommittedOffset(42, epoch, "note", timestamp_ms)},
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=instance,
        retention_time_ms=kept_ms,
    )


@pytest.mark.parametrize(("version", "partitions"), [(0, 2), (1, 2), (2, 0), (7, 0)])
def test_an_old_offset_fetch_that_fails_has_the_error_at_each_partition(
    version: int, partitions: int
) -> None:
    asked = OffsetFetchRequest("g", (T0, T1))
    failed = response(9, version, OffsetFetchResponse(Errors.NOT_COORDINATOR), asked)
    found = [one for topic in failed["topics"] for one in topic["partitions"]]
    assert [(one["error_code"].name, one["committed_offset"]) for one in found] == [
        ("not_coordinator", -1)
    ] * partitions
    fetched = OffsetFetchResponse(Errors.NONE, {T0: FetchedOffset(Errors.NONE, 4)})
    (topic,) = response(9, version, fetched, asked)["topics"]
    assert [one["committed_offset"] for one in topic["partitions"]] == [4]


def test_an_offset_may_be_committed_without_metadata() -> None:
    committed = {
        "partition_index": 0,
        "committed_offset": 42,
        "committed_leader_epoch": 5,
        "committed_metadata": None,
    }
    values = {
        "group_id": "g",
        "generation_id_or_member_epoch": 3,
        "member_id": "m",
        "group_instance_id": None,
        "topics": [{"name": "t", "partitions": [committed]}],
    }
    assert request(8, 8, values).offsets == {T0: CommittedOffset(42, 5, "")}


@pytest.mark.parametrize("version", [0, 3])
def test_find_coordinator_is_translated_by_its_version(version: int) -> None:
    values = {"key": "g", "key_type": 1}
    assert request(10, version, values) == FindCoordinatorRequest("g", version > 0)
    found = response(
        10, version, FindCoordinatorResponse(Errors.NONE, Broker(1, (EndPoint("h", 9092),)))
    )
    assert [found[name] for name in ("node_id", "host", "port")] == [1, "h", 9092]
    unknown = response(10, version, FindCoordinatorResponse(Errors.COORDINATOR_NOT_AVAILABLE))
    assert [unknown[name] for name in ("node_id", "host", "port")] == [-1, "", -1]
    assert unknown["error_code"].name == "coordinator_not_available"


def test_offset_fetch_is_translated_by_its_version() -> None:
    values = {
        "group_id": "g",
        "topics": [{"name": "t", "partition_indexes": [0]}],
        "require_stable": True,
    }
    assert request(9, 7, values) == OffsetFetchRequest("g", (T0,), True)
    assert request(9, 6, values) == OffsetFetchRequest("g", (T0,), False)
    assert request(9, 2, {**values, "topics": None}) == OffsetFetchRequest("g", None, False)
    fetched = FetchedOffset(Errors.UNSTABLE_OFFSET_COMMIT, 42, 5, "note")
    (topic,) = response(9, 7, OffsetFetchResponse(Errors.NONE, {T0: fetched}))["topics"]
    (one,) = topic["partitions"]
    assert (one["committed_offset"], one["committed_leader_epoch"]) == (42, 5)
    assert (one["metadata"], one["error_code"].name) == ("note", "unstable_offset_commit")


def test_groups_are_listed_and_described() -> None:
    assert request(16, 4, {"states_filter": ["Stable"]}) == ListGroupsRequest(("Stable",))
    assert request(16, 3, {}) == ListGroupsRequest(())
    member = DescribedMember("m", "i", "client", "/host", b"metadata", b"assignment")
    group = DescribedGroup(Errors.NONE, "g", "Stable", "consumer", "range", (member,))
    asked = DescribeGroupsRequest(("g",))
    (described,) = response(15, 5, DescribeGroupsResponse((group,)), asked)["groups"]
    expected = {
        "error_code": described["error_code"],
        "group_id": "g",
        "group_state": "Stable",
        "protocol_type": "consumer",
        "protocol_data": "range",
        "authorized_operations": -(2**31),
        "members": [
            {
                "member_id": "m",
                "group_instance_id": "i",
                "client_id": "client",
                "client_host": "/host",
                "member_metadata": b"metadata",
                "member_assignment": b"assignment",
            }
        ],
    }
    assert described == expected


def fetch(version: int, **limits: object) -> Any:
    one = {
        "partition": 0,
        "current_leader_epoch": 4,
        "fetch_offset": 10,
        "last_fetched_epoch": 3,
        "log_start_offset": 0,
        "partition_max_bytes": 7,
    }
    values = {
        "replica_id": -1,
        "max_wait": SECOND,
        "min_bytes": 2,
        "max_bytes": 9,
        "session_id": 0,
        "topics": [{"topic": "t", "partitions": [one]}],
        "forgotten_topics_data": [],
        **limits,
    }
    return request(1, version, values)


def test_a_fetch_has_the_epochs_of_its_version() -> None:
    limits = {"max_wait_ms": 1_000, "min_bytes": 2, "max_bytes": 9}
    for version, epochs in ((12, (4, 3)), (9, (4, -1)), (4, (-1, -1))):
        asked = {T0: FetchPartition(10, *epochs, max_bytes=7)}
        assert fetch(version).partitions == asked
        assert fetch(version) == FetchRequest(-1, asked, **limits)


def test_a_fetch_names_its_session_and_the_partitions_that_leave_it() -> None:
    forgotten = [{"topic": "t", "partitions": [1, 2]}]
    found = fetch(12, session_id=5, session_epoch=3, forgotten_topics_data=forgotten)
    assert found.metadata == FetchMetadata(5, 3)
    assert found.forgotten == (TopicPartition("t", 1), TopicPartition("t", 2))
    answer = response(1, 12, FetchResponse({}, error=Errors.NOT_CONTROLLER, session_id=5))
    assert (answer["error_code"], answer["session_id"]) == (41, 5)


def test_a_fetch_that_is_refused_has_no_high_watermark() -> None:
    def answered(error: Errors) -> dict[str, Any]:
        answer = FetchedPartition(
            error,
            4,
            10,
            records=b"x",
            high_watermark=12,
            log_start_offset=3,
            diverging=EpochEndOffset(2, 8),
        )
        (topic,) = response(1, 12, FetchResponse({T0: answer}))["responses"]
        (one,) = topic["partitions"]
        assert isinstance(one, dict)
        return one

    fetched = answered(Errors.NONE)
    assert (fetched["high_watermark"], fetched["last_stable_offset"]) == (12, 12)
    assert (fetched["log_start_offset"], fetched["records"]) == (3, b"x")
    assert fetched["diverging_epoch"] == {"epoch": 2, "end_offset": 8}
    refused = answered(Errors.OFFSET_OUT_OF_RANGE)
    assert (refused["high_watermark"], refused["last_stable_offset"]) == (-1, -1)


@pytest.mark.parametrize(
    ("key", "versions", "answer", "expected"),
    [
        (
            1,
            (5, 6),
            FetchResponse({T0: FetchedPartition(Errors.KAFKA_STORAGE_ERROR, 1, 0)}),
            ("not_leader_or_follower", "kafka_storage_error"),
        ),
        (
            2,
            (4, 5),
            ListOffsetsResponse({T0: ListedOffset(Errors.OFFSET_NOT_AVAILABLE)}),
            ("leader_not_available", "offset_not_available"),
        ),
        (
            20,
            (2, 3),
            DeleteTopicsResponse((DeletableTopicResult("t", Errors.TOPIC_DELETION_DISABLED),)),
            ("invalid_request", "topic_deletion_disabled"),
        ),
    ],
)
def test_clients_of_older_versions_get_errors_that_they_know(
    key: int, versions: tuple[int, int], answer: Any, expected: tuple[str, str]
) -> None:
    for version, name in zip(versions, expected, strict=True):
        (one,) = response(key, version, answer)["responses" if key != 2 else "topics"]
        if key != 20:
            (one,) = one["partitions"]
        assert one["error_code"].name == name
    other = DeleteTopicsResponse((DeletableTopicResult("t", Errors.NOT_CONTROLLER),))
    assert response(20, 2, other)["responses"][0]["error_code"].name == "not_controller"


def test_offsets_are_listed_with_the_fields_of_the_version() -> None:
    asked = {"partition_index": 0, "current_leader_epoch": 4, "timestamp": -1}
    values = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": "t", "partitions": [asked]}],
    }
    assert request(2, 5, values) == ListOffsetsRequest({T0: ListOffsetsPartition(-1, 4)})
    assert request(2, 1, values) == ListOffsetsRequest({T0: ListOffsetsPartition(-1, -1)})
    for version, offset, expected in ((0, 7, [7]), (0, -1, []), (5, 7, (1, 7, 4))):
        listed = ListOffsetsResponse({T0: ListedOffset(Errors.NONE, 1, offset, 4)})
        (topic,) = response(2, version, listed)["topics"]
        (one,) = topic["partitions"]
        found = (
            one["old_style_offsets"]
            if version == 0
            else (one["timestamp"], one["offset"], one["leader_epoch"])
        )
        assert found == expected


def test_a_fetch_without_records_has_none_instead_of_null() -> None:
    found = FetchResponse({T0: FetchedPartition(Errors.NONE, 4, 10, high_watermark=10)})
    (topic,) = response(1, 12, found)["responses"]
    assert topic["partitions"][0]["records"] == b""


def test_offsets_for_leader_epochs_are_asked_with_both_epochs() -> None:
    asked = {"partition": 0, "current_leader_epoch": 4, "leader_epoch": 2}
    values = {"replica_id": -1, "topics": [{"topic": "t", "partitions": [asked]}]}
    for version, current in ((3, 4), (0, -1)):
        expected = OffsetsForLeaderEpochRequest({T0: OffsetForLeaderPartition(2, current)})
        assert request(23, version, values) == expected


def test_create_topics_is_translated_by_its_version() -> None:
    topic = {
        "name": "t",
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 0, "broker_ids": [2, 1]}],
        "configs": [{"name": "a", "value": "b"}, {"name": "c", "value": None}],
    }
    values = {"topics": [topic], "timeout": SECOND, "validate_only": True}
    created = CreatableTopic("t", -1, -1, {0: (2, 1)}, {"a": "b", "c": None})
    assert request(19, 7, values) == CreateTopicsRequest((created,), 1_000, True)
    assert request(19, 0, values) == CreateTopicsRequest((created,), 1_000, False)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ApiError(), None),
        (ApiError(Errors.ELECTION_NOT_NEEDED), "Leader election not needed for topic partition."),
        (ApiError(Errors.INVALID_TOPIC_EXCEPTION, "deleted"), "deleted"),
        (ApiError(Errors.NOT_CONTROLLER), None),
        (ApiError(Errors.REQUEST_TIMED_OUT), None),
    ],
)
def test_results_of_elections_have_kafkas_messages(error: ApiError, message: str | None) -> None:
    answer = response(43, 2, ElectLeadersResponse(Errors.NONE, {T0: error}))
    ((one,),) = (topic["partition_result"] for topic in answer["replica_election_results"])
    assert one["error_message"] == message
    assert one["error_code"].name == error.error.name.lower()


def test_only_partitions_say_that_a_broker_is_not_the_controller() -> None:
    refused = ApiError(Errors.NOT_CONTROLLER)
    answer = response(43, 2, ElectLeadersResponse(Errors.NOT_CONTROLLER, {T0: refused}))
    assert answer["error_code"].name == "none"
    failed = response(43, 2, ElectLeadersResponse(Errors.UNKNOWN_SERVER_ERROR))
    assert failed["error_code"].name == "unknown_server_error"


def test_results_of_reassignments_have_kafkas_messages() -> None:
    idle, unknown = ApiError(Errors.NO_REASSIGNMENT_IN_PROGRESS), ApiError()
    partitions = {T0: idle, TopicPartition("t", 1): unknown}
    answer = response(45, 0, AlterPartitionReassignmentsResponse(ApiError(), partitions))
    assert answer["error_message"] == ""
    (topic,) = answer["responses"]
    assert [one["error_message"] for one in topic["partitions"]] == [
        "No partition reassignment is in progress.",
        None,
    ]
    elsewhere = ApiError(Errors.NOT_CONTROLLER)
    for key, kind in (
        (45, AlterPartitionReassignmentsResponse),
        (46, ListPartitionReassignmentsResponse),
    ):
        message = response(key, 0, kind(elsewhere))["error_message"]
        assert message == "This is not the correct controller for this cluster."
        assert response(key, 0, kind(ApiError()))["error_message"] == ""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Errors.NONE, "NONE"),
        (Errors.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available."),
    ],
)
def test_a_coordinator_has_the_message_of_its_error(error: Errors, message: str) -> None:
    found = response(10, 3, FindCoordinatorResponse(error, None))
    assert (found["error_message"], found["node_id"]) == (message, -1)


@pytest.mark.parametrize(("key_type", "is_transactional"), [(0, False), (1, True), (2, None)])
def test_only_known_types_of_coordinators_are_found(
    key_type: int, is_transactional: bool | None
) -> None:
    values = {"key": "g", "key_type": key_type}
    if is_transactional is None:
        with pytest.raises(RefusedRequest) as refused:
            request(10, 3, values)
        assert refused.value.values["error_code"] is Errors.INVALID_REQUEST
    else:
        assert request(10, 3, values).is_transactional is is_transactional
    assert request(10, 0, values).is_transactional is False


def test_a_topic_that_is_created_elsewhere_has_an_empty_message() -> None:
    for error, message in ((Errors.NOT_CONTROLLER, ""), (Errors.REQUEST_TIMED_OUT, None)):
        answer = response(19, 5, CreateTopicsResponse((CreatableTopicResult("t", error),)))
        assert [one["error_message"] for one in answer["topics"]] == [message]


@pytest.mark.parametrize("has_cluster", [False, True])
@pytest.mark.parametrize("has_topics", [False, True])
def test_authorized_operations_are_described_if_asked_for(
    *, has_cluster: bool, has_topics: bool
) -> None:
    values = {
        "topics": None,
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": has_cluster,
        "include_topic_authorized_operations": has_topics,
    }
    asked = request(3, 8, values)
    known = MetadataResponse((), 1, (TopicMetadata(Errors.UNKNOWN_TOPIC_OR_PARTITION, "t"),))
    found = response(3, 8, known, asked)
    assert found["cluster_authorized_operations"] == (8096 if has_cluster else -(2**31))
    (topic,) = found["topics"]
    assert topic["topic_authorized_operations"] == (3576 if has_topics else -(2**31))


@pytest.mark.parametrize(
    ("error", "is_asked", "operations"),
    [
        (Errors.NONE, True, 328),
        (Errors.NONE, False, -(2**31)),
        (Errors.NOT_COORDINATOR, True, -(2**31)),
    ],
)
def test_authorized_operations_of_a_group_are_described_if_asked_for(
    error: Errors, *, is_asked: bool, operations: int
) -> None:
    asked = request(15, 5, {"groups": ("g",), "include_authorized_operations": is_asked})
    answer = DescribeGroupsResponse((DescribedGroup(error, "g"),))
    (group,) = response(15, 5, answer, asked)["groups"]
    assert group["authorized_operations"] == operations


def test_the_time_of_appending_has_milliseconds() -> None:
    for time_ms, seconds in ((1_700_000_000_001, 1_700_000_000.001), (-1, None)):
        produced = ProducedPartition(Errors.NONE, 3, log_append_time_ms=time_ms)
        answer = response(0, 8, ProduceResponse({T0: produced}))
        ((one,),) = (topic["partition_responses"] for topic in answer["responses"])
        time = one["log_append_time"]
        assert (None if time is None else time.timestamp()) == seconds


def test_topics_are_deleted_by_name_or_by_id() -> None:
    def asked(*topics: tuple[str | None, uuid.UUID | None]) -> Any:
        named = [{"name": name, "topic_id": topic_id} for name, topic_id in topics]
        return request(20, 6, {"topics": named, "timeout": SECOND})

    id_ = uuid.UUID(bytes=bytes(range(16)))
    text = "AAECAwQFBgcICQoLDA0ODw"
    wanted = asked(("t", None), (None, id_))
    assert wanted == DeleteTopicsRequest(("t",), 1_000, (text,))
    for topics in ((("t", id_),), ((None, None),)):
        with pytest.raises(RefusedRequest) as refused:
            asked(*topics)
        (result,) = refused.value.values["responses"]
        assert result["error_code"] is Errors.INVALID_REQUEST
    unsent = refusal(wanted, Errors.NOT_CONTROLLER)
    results = response(20, 6, unsent)["responses"]
    assert [(one["name"], one["topic_id"]) for one in results] == [("t", None), (None, id_)]
    assert {one["error_code"].name for one in results} == {"not_controller"}


def test_elect_leaders_is_translated_by_its_version() -> None:
    values = {"election_type": 1, "topic_partitions": None, "timeout": SECOND}
    unclean, preferred = ElectionType.UNCLEAN, ElectionType.PREFERRED
    assert request(43, 2, values) == ElectLeadersRequest(unclean, None, 1_000)
    assert request(43, 0, values) == ElectLeadersRequest(preferred, None, 1_000)
    for unknown in (-1, 2):
        with pytest.raises(InvalidRequestFrame, match=f"unknown election type {unknown}"):
            request(43, 2, {**values, "election_type": unknown})


def test_log_directories_and_reassignments_are_described() -> None:
    logs = {T0: ReplicaInfo(100, 3, False), T1: ReplicaInfo(50, 7, True)}
    described = DescribeLogDirsResponse((LogDirResult("/d", Errors.NONE, logs),))
    (log_dir,) = response(35, 2, described)["results"]
    (topic,) = log_dir["topics"]
    found = [
        (p["partition_size"], p["offset_lag"], p["is_future_key"]) for p in topic["partitions"]
    ]
    assert found == [(100, 3, False), (50, 7, True)]
    moving = ReplicaAssignment((1, 2, 3), adding_replicas=(3,), removing_replicas=(1,))
    listed = ListPartitionReassignmentsResponse(ApiError(), {T0: moving})
    (topic,) = response(46, 0, listed)["topics"]
    (one,) = topic["partitions"]
    assert (one["replicas"], one["adding_replicas"], one["removing_replicas"]) == (
        [1, 2, 3],
        [3],
        [1],
    )
