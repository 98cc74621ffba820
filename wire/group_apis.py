"""Translation of the APIs of consumer groups: JoinGroup, OffsetCommit and others.

Mirrors the request and response classes of org.apache.kafka.common.requests.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from klamm.cluster.api_errors import Errors
from klamm.cluster.group_requests import (
    CommittedOffset,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchedOffset,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Protocol,
    SyncGroupRequest,
)
from klamm.cluster.types import NO_EPOCH
from klamm.wire.schema import (
    OPERATIONS_OMITTED,
    Values,
    by_topic,
    in_topics,
    listed_in_topics,
    milliseconds,
    values_of,
)

_GROUP: Final = 0
_KNOWN_MEMBER_ID_VERSION: Final = 4
"""The version of JoinGroup from which on members need a member id (KIP-394)."""
_BROKERS_RETENTION: Final = timedelta(milliseconds=-1)


def find_coordinator_request(body: Any) -> FindCoordinatorRequest:
    """Translate FindCoordinator. Version 0 has only groups."""
    return FindCoordinatorRequest(body.key, getattr(body, "key_type", _GROUP) != _GROUP)


def find_coordinator_response(response: FindCoordinatorResponse) -> Values:
    """Translate the response to FindCoordinator."""
    found = response.coordinator
    return {
        "error_code": response.error,
        "error_message": None,
        "node_id": -1 if found is None else found.id,
        "host": "" if found is None else found.end_points[0].host,
        "port": -1 if found is None else found.end_points[0].port,
    }


def join_group_request(body: Any) -> JoinGroupRequest:
    """Translate JoinGroup, without the client's id and host."""
    return JoinGroupRequest(
        group_id=body.group_id,
        session_timeout_ms=milliseconds(body.session_timeout),
        rebalance_timeout_ms=milliseconds(getattr(body, "rebalance_timeout", body.session_timeout)),
        protocol_type=body.protocol_type,
        protocols=tuple(Protocol(one.name, bytes(one.metadata)) for one in body.protocols),
        member_id=body.member_id,
        group_instance_id=getattr(body, "group_instance_id", None),
        requires_known_member_id=body.__version__ >= _KNOWN_MEMBER_ID_VERSION,
    )


def join_group_response(response: JoinGroupResponse) -> Values:
    """Translate the response to JoinGroup."""
    return {
        **values_of(response),
        "members": [values_of(member) for member in response.members],
    }


def sync_group_request(body: Any) -> SyncGroupRequest:
    """Translate SyncGroup."""
    return SyncGroupRequest(
        group_id=body.group_id,
        generation_id=body.generation_id,
        member_id=body.member_id,
        group_instance_id=getattr(body, "group_instance_id", None),
        protocol_type=getattr(body, "protocol_type", None),
        protocol_name=getattr(body, "protocol_name", None),
        assignments={one.member_id: bytes(one.assignment) for one in body.assignments},
    )


def heartbeat_request(body: Any) -> HeartbeatRequest:
    """Translate Heartbeat."""
    instance_id = getattr(body, "group_instance_id", None)
    return HeartbeatRequest(body.group_id, body.generation_id, body.member_id, instance_id)


def leave_group_request_of_one(body: Any) -> LeaveGroupRequest:
    """Translate LeaveGroup before version 3, with one member."""
    return LeaveGroupRequest(body.group_id, (MemberIdentity(body.member_id),))


def leave_group_response_of_one(response: LeaveGroupResponse) -> Values:
    """Translate the response to LeaveGroup before version 3: the member's error is the error."""
    errors = [response.error, *(error for _, error in response.members)]
    return {"error_code": next(filter(None, errors), Errors.NONE)}


def leave_group_request(body: Any) -> LeaveGroupRequest:
    """Translate LeaveGroup."""
    return LeaveGroupRequest(
        body.group_id,
        tuple(MemberIdentity(one.member_id, one.group_instance_id) for one in body.members),
    )


def leave_group_response(response: LeaveGroupResponse) -> Values:
    """Translate the response to LeaveGroup."""
    return {
        "error_code": response.error,
        "members": [
            {**member._asdict(), "error_code": error} for member, error in response.members
        ],
    }


def offset_commit_request(body: Any) -> OffsetCommitRequest:
    """Translate OffsetCommit."""
    return OffsetCommitRequest(
        group_id=body.group_id,
        offsets={
            tp: CommittedOffset(
                one.committed_offset,
                getattr(one, "committed_leader_epoch", NO_EPOCH),
                one.committed_metadata or "",
            )
            for tp, one in in_topics(body.topics)
        },
        generation_id=getattr(body, "generation_id_or_member_epoch", -1),
        member_id=getattr(body, "member_id", ""),
        group_instance_id=getattr(body, "group_instance_id", None),
        retention_time_ms=milliseconds(getattr(body, "retention_time", _BROKERS_RETENTION)),
    )


def offset_commit_response(response: OffsetCommitResponse) -> Values:
    """Translate the response to OffsetCommit."""
    return {"topics": _errors_by_topic(response.partitions)}


def offset_fetch_request(body: Any) -> OffsetFetchRequest:
    """Translate OffsetFetch."""
    partitions = None
    if body.topics is not None:
        partitions = listed_in_topics(body.topics, partitions="partition_indexes")
    return OffsetFetchRequest(body.group_id, partitions, getattr(body, "require_stable", False))


def offset_fetch_response(response: OffsetFetchResponse) -> Values:
    """Translate the response to OffsetFetch."""

    def values(partition: int, result: FetchedOffset) -> Values:
        return {
            "partition_index": partition,
            "committed_offset": result.offset,
            "committed_leader_epoch": result.leader_epoch,
            "metadata": result.metadata,
            "error_code": result.error,
        }

    return {
        "error_code": response.error,
        "topics": by_topic(response.partitions, values),
    }


def list_groups_request(body: Any) -> ListGroupsRequest:
    """Translate ListGroups."""
    return ListGroupsRequest(tuple(getattr(body, "states_filter", ())))


def list_groups_response(response: ListGroupsResponse) -> Values:
    """Translate the response to ListGroups."""
    return {
        "error_code": response.error,
        "groups": [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
            }
            for group in response.groups
        ],
    }


def describe_groups_request(body: Any) -> DescribeGroupsRequest:
    """Translate DescribeGroups."""
    return DescribeGroupsRequest(tuple(body.groups))


def describe_groups_response(response: DescribeGroupsResponse) -> Values:
    """Translate the response to DescribeGroups."""
    return {"groups": [_described(group) for group in response.groups]}


def delete_groups_request(body: Any) -> DeleteGroupsRequest:
    """Translate DeleteGroups."""
    return DeleteGroupsRequest(tuple(body.groups_names))


def delete_groups_response(response: DeleteGroupsResponse) -> Values:
    """Translate the response to DeleteGroups."""
    return {
        "results": [
            {"group_id": group_id, "error_code": error}
            for group_id, error in response.results.items()
        ]
    }


def offset_delete_request(body: Any) -> OffsetDeleteRequest:
    """Translate OffsetDelete."""
    return OffsetDeleteRequest(body.group_id, tuple(tp for tp, _ in in_topics(body.topics)))


def offset_delete_response(response: OffsetDeleteResponse) -> Values:
    """Translate the response to OffsetDelete."""
    return {"error_code": response.error, "topics": _errors_by_topic(response.partitions)}


def _errors_by_topic(errors: Any) -> list[Values]:
    return by_topic(
        errors, lambda partition, error: {"partition_index": partition, "error_code": error}
    )


def _described(group: DescribedGroup) -> Values:
    return {
        "error_code": group.error,
        "group_id": group.group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol,
        "authorized_operations": OPERATIONS_OMITTED,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in group.members
        ],
    }
