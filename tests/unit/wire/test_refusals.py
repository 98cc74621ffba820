"""Every refusal of a request is translated to every version of its response."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import (
    DeleteRecordsRequest,
    InitProducerIdRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderPartition,
    OffsetsForLeaderEpochRequest,
)
from klamm.cluster.data_requests import FetchPartition, FetchRequest, ProduceRequest
from klamm.cluster.group_requests import (
    CommittedOffset,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from klamm.cluster.refusals import REFUSALS
from klamm.cluster.requests import (
    AlterIsrRequest,
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    ControlledShutdownRequest,
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from klamm.cluster.types import ElectionType, TopicPartition
from klamm.wire.api import Api
from klamm.wire.apis import APIS
from klamm.wire.frames import RequestKey, api_name, encoded_response
from klamm.wire.request_metrics import _errors

T0 = TopicPartition("t", 0)
REQUESTS = (
    ProduceRequest(-1, 0, {T0: b""}),
    FetchRequest(-1, {T0: FetchPartition(0, -1)}),
    ListOffsetsRequest({T0: ListOffsetsPartition(0, -1)}),
    MetadataRequest(("t",)),
    OffsetsForLeaderEpochRequest({T0: OffsetForLeaderPartition(0, -1)}),
    InitProducerIdRequest(),
    DeleteRecordsRequest({T0: 0}, 0),
    FindCoordinatorRequest("g"),
    JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        protocol_type="consumer",
        protocols=(),
    ),
    SyncGroupRequest(group_id="g", generation_id=1, member_id="m"),
    HeartbeatRequest("g", 1, "m"),
    LeaveGroupRequest("g", (MemberIdentity("m"),)),
    OffsetCommitRequest(group_id="g", offsets={T0: CommittedOffset(0)}),
    OffsetFetchRequest("g", (T0,)),
    ListGroupsRequest(),
    DescribeGroupsRequest(("g",)),
    DeleteGroupsRequest(("g",)),
    OffsetDeleteRequest("g", (T0,)),
    CreateTopicsRequest((CreatableTopic("t"),), 0),
    DeleteTopicsRequest(("t",), 0),
    AlterPartitionReassignmentsRequest({T0: (0,)}),
    ListPartitionReassignmentsRequest(),
    ElectLeadersRequest(ElectionType.PREFERRED, (T0,), 0),
    DescribeLogDirsRequest(),
    AlterReplicaLogDirsRequest({T0: "/d"}),
    AlterIsrRequest(0, 1, {}),
    ControlledShutdownRequest(0, 1),
)


def test_every_request_that_can_be_refused_is_here() -> None:
    assert [type(request) for request in REQUESTS] == list(REFUSALS)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: type(one).__name__)
def test_a_refusal_has_its_error_in_every_version(request_: Any) -> None:
    refusal = REFUSALS[type(request_)]
    # ControlledShutdownRequest.java gives NOT_CONTROLLER the name that brokers retry.
    is_shutdown = isinstance(request_, ControlledShutdownRequest)
    expected = Errors.STALE_CONTROLLER_EPOCH if is_shutdown else Errors.NOT_CONTROLLER
    versions = 0
    for (api_key, version), api in APIS.items():
        key = RequestKey(api_key, version, 1)
        if not isinstance(api, Api) or api_name(key) != refusal.api:
            continue
        values = api.response_to(request_).write(refusal.respond(request_, Errors.NOT_CONTROLLER))
        assert set(_errors(values)) == {expected}
        assert encoded_response(key, {**values, "cluster_id": "c"})
        versions += 1
    assert versions
