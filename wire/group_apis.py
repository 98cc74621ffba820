"""The APIs of consumer groups: JoinGroup, OffsetCommit and others.

Mirrors the request and response classes of org.apache.kafka.common.requests.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from klamm.admin.failures import message_of
from klamm.cluster.api_errors import Errors
from klamm.cluster.group_requests import (
    CommittedOffset,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchedOffset,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinedMember,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListedGroup,
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
    SyncGroupResponse,
)
from klamm.cluster.requests import ApiError
from klamm.wire.api import Api
from klamm.wire.schema import (
    OPERATIONS_OMITTED,
    RefusedRequest,
    Values,
    in_topics,
    milliseconds,
    operations,
)
from klamm.wire.translations import (
    BYTES,
    ERROR,
    MILLISECONDS,
    Field,
    Translation,
    broker,
    each,
    keyed,
    listed_partitions,
    only,
    per_partition,
    struct,
)

_GROUP_OPERATIONS: Final = operations(3, 6, 8)
_NO_COORDINATOR: Final = {"node_id": -1, "host": "", "port": -1}
_KNOWN_MEMBER_ID_VERSION: Final = 4
"""The version of JoinGroup from which on members need a member id (KIP-394)."""
_NAMED_PROTOCOL_VERSION: Final = 5
"""The version of SyncGroup from which on the protocol and its type are mandatory (KIP-559)."""
_ERRORS: Final = per_partition("topics", only("error_code", ERROR))
_NODE: Final = broker("node_id")


# -- members

_FIND_COORDINATOR: Final = struct(
    FindCoordinatorRequest, is_transactional=Field("key_type", Translation(bool))
)
_KEY_TYPES: Final = (0, 1)
"""Groups and transactional ids: FindCoordinatorRequest.CoordinatorType."""
_COORDINATOR: Final = struct(
    FindCoordinatorResponse,
    coordinator=Field(
        None, Translation(write=lambda one: _NO_COORDINATOR if one is None else _NODE.write(one))
    ),
)


def _found(response: FindCoordinatorResponse) -> Values:
    """Translate the response to FindCoordinator. NONE has a message, too: its name."""
    message = message_of(ApiError(response.error))
    return {**_COORDINATOR.write(response), "error_message": message}


def _find(body: Any) -> FindCoordinatorRequest:
    if getattr(body, "key_type", 0) not in _KEY_TYPES:
        raise RefusedRequest(_found(FindCoordinatorResponse(Errors.INVALID_REQUEST, None)))
    request: FindCoordinatorRequest = _FIND_COORDINATOR.read(body)
    return request


def _read_sync(body: Any) -> SyncGroupRequest:
    """Translate SyncGroup. From version 5 on, it must name the protocol and its type."""
    request: SyncGroupRequest = _SYNC.read(body)
    is_named = request.protocol_type is not None and request.protocol_name is not None
    if body.__version__ >= _NAMED_PROTOCOL_VERSION and not is_named:
        refused = SyncGroupResponse(Errors.INCONSISTENT_GROUP_PROTOCOL)
        raise RefusedRequest(_SYNCED.write(refused))
    return request


_JOIN: Final = struct(
    JoinGroupRequest,
    session_timeout_ms=Field("session_timeout", MILLISECONDS),
    rebalance_timeout_ms=Field(
        None,
        Translation(
            lambda body: milliseconds(getattr(body, "rebalance_timeout", body.session_timeout))
        ),
    ),
    protocols=each("protocols", struct(Protocol, metadata=Field("metadata", BYTES))),
    requires_known_member_id=Field(
        None, Translation(lambda body: body.__version__ >= _KNOWN_MEMBER_ID_VERSION)
    ),
)
_JOINED: Final = struct(JoinGroupResponse, members=each("members", struct(JoinedMember)))
_SYNC: Final = struct(
    SyncGroupRequest, assignments=keyed("assignments", "member_id", only("assignment", BYTES))
)
_SYNCED: Final = struct(SyncGroupResponse)
_LEAVE_OF_ONE: Final = struct(
    LeaveGroupRequest,
    members=Field(None, Translation(lambda body: (MemberIdentity(body.member_id),))),
)
_MEMBER: Final = struct(MemberIdentity)
_LEAVE: Final = struct(LeaveGroupRequest, members=each("members", _MEMBER))
_LEFT: Final = struct(
    LeaveGroupResponse,
    members=each(
        "members",
        Translation(write=lambda one: {**_MEMBER.write(one[0]), "error_code": one[1]}),
    ),
)


def _one_left(response: LeaveGroupResponse) -> Values:
    """Translate the response to LeaveGroup before version 3: the member's error is the error."""
    errors = [response.error, *(error for _, error in response.members)]
    return {"error_code": next(filter(None, errors), Errors.NONE)}


# -- offsets

_COMMITTED: Final = struct(
    CommittedOffset,
    offset="committed_offset",
    leader_epoch="committed_leader_epoch",
    metadata=Field("committed_metadata", Translation(lambda text: text or "")),
    timestamp_ms="commit_timestamp",
)
_COMMIT: Final = struct(
    OffsetCommitRequest,
    offsets=per_partition("topics", _COMMITTED),
    generation_id="generation_id_or_member_epoch",
    retention_time_ms=Field("retention_time", MILLISECONDS),
)
_FETCH: Final = struct(
    OffsetFetchRequest, partitions=listed_partitions("topics", partitions="partition_indexes")
)
_FETCHED: Final = struct(
    FetchedOffset, offset="committed_offset", leader_epoch="committed_leader_epoch"
)
_OFFSETS: Final = struct(OffsetFetchResponse, partitions=per_partition("topics", _FETCHED))


def _old_offsets(request: OffsetFetchRequest) -> Translation:
    """Return the translation of a response before version 2: its error is at each partition."""

    def write(response: OffsetFetchResponse) -> Values:
        if response.error is not Errors.NONE:
            refused = dict.fromkeys(request.partitions or (), FetchedOffset(response.error))
            response = msgspec.structs.replace(response, partitions=refused)
        return cast("Values", _OFFSETS.write(response))

    return Translation(write=write)


_DELETE_OFFSETS: Final = struct(
    OffsetDeleteRequest,
    partitions=Field(
        "topics", Translation(lambda topics: tuple(tp for tp, _ in in_topics(topics)))
    ),
)


# -- groups

_GROUPS: Final = struct(
    ListGroupsResponse, groups=each("groups", struct(ListedGroup, state="group_state"))
)
_DESCRIBED: Final = struct(
    DescribedGroup,
    state="group_state",
    protocol="protocol_data",
    members=each(
        "members",
        struct(DescribedMember, metadata="member_metadata", assignment="member_assignment"),
    ),
)


def _groups(request: DescribeGroupsRequest) -> Translation:
    """Return the translation of the response to DescribeGroups."""

    def described(group: DescribedGroup) -> Values:
        has_operations = request.include_authorized_operations and group.error is Errors.NONE
        allowed = _GROUP_OPERATIONS if has_operations else OPERATIONS_OMITTED
        return {**_DESCRIBED.write(group), "authorized_operations": allowed}

    def write(response: DescribeGroupsResponse) -> Values:
        return {"groups": [described(group) for group in response.groups]}

    return Translation(write=write)


_DELETED: Final = struct(
    DeleteGroupsResponse, results=keyed("results", "group_id", only("error_code", ERROR))
)
APIS: Final = (
    Api(8, range(9), _COMMIT, struct(OffsetCommitResponse, partitions=_ERRORS)),
    Api(9, range(2), _FETCH, _old_offsets),
    Api(9, range(2, 8), _FETCH, _OFFSETS),
    Api(10, range(4), _FIND_COORDINATOR._replace(read=_find), Translation(write=_found)),
    Api(11, range(8), _JOIN, _JOINED),
    Api(12, range(5), struct(HeartbeatRequest), struct(HeartbeatResponse)),
    Api(13, range(3), _LEAVE_OF_ONE, Translation(write=_one_left)),
    Api(13, range(3, 5), _LEAVE, _LEFT),
    Api(14, range(6), _SYNC._replace(read=_read_sync), _SYNCED),
    Api(
        15,
        range(6),
        struct(DescribeGroupsRequest, group_ids="groups"),
        _groups,
    ),
    Api(16, range(5), struct(ListGroupsRequest, states="states_filter"), _GROUPS),
    Api(42, range(3), struct(DeleteGroupsRequest, group_ids="groups_names"), _DELETED),
    Api(47, range(1), _DELETE_OFFSETS, struct(OffsetDeleteResponse, partitions=_ERRORS)),
)
