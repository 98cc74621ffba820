"""Requests of klamm's own clients over the network: klamm's listeners read what was sent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import (
    DeletedRecords,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    LeaderEpochEnd,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetForLeaderPartition,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
    PartitionMetadata,
    TopicMetadata,
)
from klamm.cluster.data_requests import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProducedPartition,
    ProduceRequest,
    ProduceResponse,
)
from klamm.cluster.group_requests import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    FetchedOffset,
    HeartbeatRequest,
    HeartbeatResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from klamm.cluster.records import EpochEndOffset
from klamm.cluster.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    ApiError,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    LogDirResult,
    ReplicaInfo,
)
from klamm.cluster.types import Broker, ElectionType, EndPoint, ReplicaAssignment, TopicPartition
from klamm.wire.api import Api
from klamm.wire.apis import APIS
from klamm.wire.client_connections import exchange_of, response_to
from klamm.wire.frames import encoded_response, parse_request

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SIZE_BYTES = 4
TOPIC_ID = "0123456789abcdefABCDEw"
REFUSED = ApiError(Errors.INVALID_REPLICA_ASSIGNMENT, "no")

EXCHANGES: list[tuple[Any, Any]] = [
    (
        ProduceRequest(-1, 1000, {T0: b"abc", T1: b"d"}),
        ProduceResponse(
            {
                T0: ProducedPartition(
                    Errors.NONE, 7, log_start_offset=3, log_append_time_ms=1_700_000_000_000
                ),
                T1: ProducedPartition(Errors.NOT_LEADER_OR_FOLLOWER),
            }
        ),
    ),
    (
        FetchRequest(
            -1, {T0: FetchPartition(3, 1, max_bytes=99), T1: FetchPartition(4, 1)}, 500, 1
        ),
        FetchResponse(
            {
                T0: FetchedPartition(
                    Errors.NONE,
                    1,
                    3,
                    records=b"xyz",
                    high_watermark=9,
                    log_start_offset=2,
                    log_end_offset=9,
                ),
                T1: FetchedPartition(Errors.OFFSET_OUT_OF_RANGE, 1, 4),
            },
            session_id=5,
        ),
    ),
    (
        ListOffsetsRequest({T0: ListOffsetsPartition(-2, 1)}),
        ListOffsetsResponse({T0: ListedOffset(Errors.NONE, 5, 6, 7)}),
    ),
    (
        OffsetsForLeaderEpochRequest({T0: OffsetForLeaderPartition(1, 2)}),
        OffsetsForLeaderEpochResponse({T0: LeaderEpochEnd(Errors.NONE, EpochEndOffset(1, 8))}),
    ),
    (
        DeleteRecordsRequest({T0: 5}, 1000),
        DeleteRecordsResponse({T0: DeletedRecords(Errors.NONE, 5)}),
    ),
    (HeartbeatRequest("g", 1, "m", "i"), HeartbeatResponse(Errors.REBALANCE_IN_PROGRESS)),
    (
        OffsetFetchRequest("g", (T0, T1)),
        OffsetFetchResponse(Errors.NONE, {T0: FetchedOffset(Errors.NONE, 4, 1, "here")}),
    ),
    (DeleteGroupsRequest(("g",)), DeleteGroupsResponse({"g": Errors.NON_EMPTY_GROUP})),
    (InitProducerIdRequest(), InitProducerIdResponse(Errors.NONE, 4000, 1)),
    (
        MetadataRequest(),
        MetadataResponse(
            (Broker(1, (EndPoint("h", 9092),), "a"), Broker(2, (EndPoint("h", 9093),))),
            2,
            (
                TopicMetadata(
                    Errors.NONE,
                    "t",
                    TOPIC_ID,
                    (PartitionMetadata(Errors.NONE, 0, 1, 3, (1, 2), (1,), (2,)),),
                ),
            ),
        ),
    ),
    (
        MetadataRequest(("gone",)),
        MetadataResponse((), -1, (TopicMetadata(Errors.UNKNOWN_TOPIC_OR_PARTITION, "gone"),)),
    ),
    (
        CreateTopicsRequest(
            (CreatableTopic("t", assignments={0: (1, 2)}, configs={"retention.ms": "1"}),), 1000
        ),
        CreateTopicsResponse(
            (CreatableTopicResult("t", Errors.TOPIC_ALREADY_EXISTS, "it exists", None, 1, 2),)
        ),
    ),
    (
        DeleteTopicsRequest(("t",), 1000),
        DeleteTopicsResponse((DeletableTopicResult("t", Errors.TOPIC_DELETION_DISABLED),)),
    ),
    (
        AlterPartitionReassignmentsRequest({T0: (1, 2), T1: None}),
        AlterPartitionReassignmentsResponse(ApiError(), {T0: ApiError(), T1: REFUSED}),
    ),
    (
        ElectLeadersRequest(ElectionType.UNCLEAN, (T0, T1), 1000),
        ElectLeadersResponse(Errors.NONE, {T0: ApiError(), T1: REFUSED}),
    ),
    (
        ElectLeadersRequest(ElectionType.PREFERRED, (T0,), 1000),
        ElectLeadersResponse(Errors.NOT_CONTROLLER, {T0: ApiError(Errors.NOT_CONTROLLER)}),
    ),
    (
        DescribeLogDirsRequest((T0, T1)),
        DescribeLogDirsResponse(
            (
                LogDirResult("/d0", Errors.NONE, {T0: ReplicaInfo(10, 1, True)}),
                LogDirResult("/d1", Errors.KAFKA_STORAGE_ERROR),
            )
        ),
    ),
    (
        AlterReplicaLogDirsRequest({T0: "/d0", T1: "/d1"}),
        AlterReplicaLogDirsResponse({T0: Errors.NONE, T1: Errors.LOG_DIR_NOT_FOUND}),
    ),
    (
        ListPartitionReassignmentsRequest((T0, T1)),
        ListPartitionReassignmentsResponse(
            ApiError(), {T0: ReplicaAssignment((3, 1, 2), (3,), (2,))}
        ),
    ),
    (
        ListPartitionReassignmentsRequest(),
        ListPartitionReassignmentsResponse(
            ApiError(Errors.NOT_CONTROLLER, "This is not the correct controller for this cluster.")
        ),
    ),
]


@pytest.mark.parametrize(("request_", "response"), EXCHANGES)
def test_a_listener_reads_the_request_and_the_client_its_response(
    request_: Any, response: Any
) -> None:
    exchange = exchange_of(request_, 7, "client-1")
    arrived = parse_request(exchange.frame[SIZE_BYTES:])
    api = APIS[arrived.key.api_key, arrived.key.api_version]
    assert isinstance(api, Api)
    assert (arrived.key, arrived.client_id) == (exchange.key, "client-1")
    assert api.request.read(arrived.body) == request_
    values = api.response_to(request_).write(response)
    frame = encoded_response(exchange.key, values)[SIZE_BYTES:]
    assert response_to(request_, exchange.key, frame) == response


def test_an_error_that_klamm_does_not_know_is_an_unknown_error() -> None:
    request = DeleteTopicsRequest(("t",), 1000)
    exchange = exchange_of(request, 1, "c")
    values = {"responses": [{"name": "t", "topic_id": None, "error_code": 107}]}
    frame = encoded_response(exchange.key, values)
    response = response_to(request, exchange.key, frame[SIZE_BYTES:])
    assert msgspec.to_builtins(response)["topics"][0]["error"] == Errors.UNKNOWN_SERVER_ERROR


def test_a_broker_may_send_null_instead_of_no_records() -> None:
    request = FetchRequest(-1, {T0: FetchPartition(3, 1)}, 500, 1)
    exchange = exchange_of(request, 7, "c")
    failed = FetchResponse({T0: FetchedPartition(Errors.OFFSET_OUT_OF_RANGE, 1, 3)})
    api = APIS[exchange.key.api_key, exchange.key.api_version]
    assert isinstance(api, Api)
    values = api.response_to(request).write(failed)
    values["responses"][0]["partitions"][0]["records"] = None
    frame = encoded_response(exchange.key, values)[SIZE_BYTES:]
    assert response_to(request, exchange.key, frame) == failed
