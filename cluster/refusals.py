"""The responses with which a broker or controller refuses a request as a whole.

Mirrors getErrorResponse of the classes in org.apache.kafka.common.requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from klamm.cluster import client_requests as client
from klamm.cluster import data_requests as data
from klamm.cluster import group_requests as group
from klamm.cluster import requests as admin
from klamm.cluster.api_errors import Errors
from klamm.cluster.types import NO_CONTROLLER


class Refusal(NamedTuple):
    """Kafka's name of an API, and a function that returns the response with an error."""

    api: str
    respond: Callable[[Any, Errors], Any]


def _once(api: str, response: Callable[[Errors], Any]) -> Refusal:
    """Return the refusal of an API whose response has one error."""
    return Refusal(api, lambda _, error: response(error))


def _each(
    api: str, field: str, response: Callable[[Any], Any], result: Callable[[Errors], Any]
) -> Refusal:
    """Return the refusal of an API whose response has a result for each key of a field."""

    def respond(request: Any, error: Errors) -> Any:
        return response(dict.fromkeys(getattr(request, field), result(error)))

    return Refusal(api, respond)


def _fetch(request: data.FetchRequest, error: Errors) -> data.FetchResponse:
    refused = data.FetchedPartition.refused
    partitions = {tp: refused(error, asked) for tp, asked in request.partitions.items()}
    session_id = request.metadata.session_id
    return data.FetchResponse(partitions, error=error, session_id=session_id)


def _metadata(request: client.MetadataRequest, error: Errors) -> client.MetadataResponse:
    topics = (client.TopicMetadata(error, name, None, ()) for name in request.topics or ())
    return client.MetadataResponse((), NO_CONTROLLER, tuple(topics))


def _controlled_shutdown(_: object, error: Errors) -> admin.ControlledShutdownResponse:
    if error is Errors.NOT_CONTROLLER:  # As Kafka's controller answers
        error = Errors.STALE_CONTROLLER_EPOCH
    return admin.ControlledShutdownResponse(error)


def _offset_fetch(request: group.OffsetFetchRequest, error: Errors) -> group.OffsetFetchResponse:
    asked = dict.fromkeys(request.partitions or (), group.FetchedOffset(error))
    return group.OffsetFetchResponse(error, asked)


REFUSALS: Final[Mapping[type[Any], Refusal]] = {
    data.ProduceRequest: _each(
        "Produce", "partitions", data.ProduceResponse, data.ProducedPartition
    ),
    data.FetchRequest: Refusal("Fetch", _fetch),
    client.ListOffsetsRequest: _each(
        "ListOffsets", "partitions", client.ListOffsetsResponse, client.ListedOffset
    ),
    client.MetadataRequest: Refusal("Metadata", _metadata),
    client.OffsetsForLeaderEpochRequest: _each(
        "OffsetForLeaderEpoch",
        "partitions",
        client.OffsetsForLeaderEpochResponse,
        client.LeaderEpochEnd,
    ),
    client.InitProducerIdRequest: _once("InitProducerId", client.InitProducerIdResponse),
    client.DeleteRecordsRequest: _each(
        "DeleteRecords", "offsets", client.DeleteRecordsResponse, client.DeletedRecords
    ),
    group.FindCoordinatorRequest: _once("FindCoordinator", group.FindCoordinatorResponse),
    group.JoinGroupRequest: Refusal(
        "JoinGroup",
        lambda request, error: group.JoinGroupResponse(error, request.member_id),
    ),
    group.SyncGroupRequest: _once("SyncGroup", group.SyncGroupResponse),
    group.HeartbeatRequest: _once("Heartbeat", group.HeartbeatResponse),
    group.LeaveGroupRequest: Refusal(
        "LeaveGroup",
        lambda request, error: group.LeaveGroupResponse(
            error, tuple((member, error) for member in request.members)
        ),
    ),
    group.OffsetCommitRequest: _each("OffsetCommit", "offsets", group.OffsetCommitResponse, Errors),
    group.OffsetFetchRequest: Refusal("OffsetFetch", _offset_fetch),
    group.ListGroupsRequest: _once("ListGroups", group.ListGroupsResponse),
    group.DescribeGroupsRequest: Refusal(
        "DescribeGroups",
        lambda request, error: group.DescribeGroupsResponse(
            tuple(group.DescribedGroup(error, id_) for id_ in request.group_ids)
        ),
    ),
    group.DeleteGroupsRequest: _each(
        "DeleteGroups", "group_ids", group.DeleteGroupsResponse, Errors
    ),
    group.OffsetDeleteRequest: _once("OffsetDelete", group.OffsetDeleteResponse),
    admin.CreateTopicsRequest: Refusal(
        "CreateTopics",
        lambda request, error: admin.CreateTopicsResponse(
            tuple(admin.CreatableTopicResult(topic.name, error) for topic in request.topics)
        ),
    ),
    admin.DeleteTopicsRequest: Refusal(
        "DeleteTopics",
        lambda request, error: admin.DeleteTopicsResponse(
            (
                *(admin.DeletableTopicResult(name, error) for name in request.topics),
                *(admin.DeletableTopicResult(None, error, id_) for id_ in request.topic_ids),
            )
        ),
    ),
    admin.AlterPartitionReassignmentsRequest: Refusal(
        "AlterPartitionReassignments",
        lambda _, error: admin.AlterPartitionReassignmentsResponse(admin.ApiError(error)),
    ),
    admin.ListPartitionReassignmentsRequest: Refusal(
        "ListPartitionReassignments",
        lambda _, error: admin.ListPartitionReassignmentsResponse(admin.ApiError(error)),
    ),
    admin.ElectLeadersRequest: Refusal(
        "ElectLeaders",
        lambda request, error: admin.ElectLeadersResponse(
            error, dict.fromkeys(request.partitions or (), admin.ApiError(error))
        ),
    ),
    admin.DescribeLogDirsRequest: Refusal(
        # Before version 3 only log directories have errors.
        "DescribeLogDirs",
        lambda _, error: admin.DescribeLogDirsResponse((admin.LogDirResult("", error),)),
    ),
    admin.AlterReplicaLogDirsRequest: _each(
        "AlterReplicaLogDirs", "log_dirs", admin.AlterReplicaLogDirsResponse, Errors
    ),
    admin.AlterIsrRequest: Refusal("AlterIsr", lambda _, error: admin.AlterIsrResponse(error, {})),
    admin.ControlledShutdownRequest: Refusal("ControlledShutdown", _controlled_shutdown),
}
"""How each request is refused."""

APIS_OF_BROKERS: Final = frozenset({"AlterIsr", "ControlledShutdown"})
"""The APIs that only brokers call."""


def refusal(request: Any, error: Errors) -> Any:
    """Return the response to a request that fails as a whole."""
    return REFUSALS[type(request)].respond(request, error)
