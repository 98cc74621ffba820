"""Requests of consumer groups and of their tools, and the responses, as plain values.

Mirrors the request schemas of Kafka 2.8: FindCoordinator v3 (groups only), JoinGroup v7, SyncGroup
v5, Heartbeat v4, LeaveGroup v4, OffsetCommit v8, OffsetFetch v7, ListGroups v4, DescribeGroups v5,
DeleteGroups v2, OffsetDelete v0. An unknown member id is an empty string, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import UNKNOWN_OFFSET
from klamm.cluster.records import NO_TIMESTAMP
from klamm.cluster.types import NO_EPOCH, Broker, TopicPartition

UNKNOWN_MEMBER_ID: Final = ""
NO_GENERATION: Final = -1


class FindCoordinatorRequest(msgspec.Struct, frozen=True):
    """Request to any broker for the coordinator of a group, or of a transactional id.

    ``key`` is the group id, or the transactional id if ``is_transactional``.
    """

    key: str
    is_transactional: bool = False


class FindCoordinatorResponse(msgspec.Struct, frozen=True):
    """Response to FindCoordinator: the coordinator, or an error."""

    error: Errors
    coordinator: Broker | None = None


class Protocol(NamedTuple):
    """A protocol (for consumers, a partition assignor) that a member supports, with metadata."""

    name: str
    metadata: bytes


class JoinGroupRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to join a group.

    ``requires_known_member_id`` is True from version 4 on: a dynamic member without a member id
    then gets MEMBER_ID_REQUIRED and has to join again (KIP-394).
    """

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    requires_known_member_id: bool = True
    client_id: str = ""
    client_host: str = ""


class JoinedMember(msgspec.Struct, frozen=True):
    """A member of a group, as sent to the leader, with the metadata of the chosen protocol."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinGroupResponse(msgspec.Struct, frozen=True):
    """Response to JoinGroup. Only the leader gets ``members``."""

    error: Errors
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()


class SyncGroupRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request for a member's assignment. The leader sends ``assignments`` by member id.

    A ``protocol_type`` or ``protocol_name`` of None is not checked (versions before 5).
    """

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = {}


class SyncGroupResponse(msgspec.Struct, frozen=True):
    """Response to SyncGroup: the member's assignment, or an error."""

    error: Errors
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class HeartbeatRequest(msgspec.Struct, frozen=True):
    """A member's sign of life."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class HeartbeatResponse(msgspec.Struct, frozen=True):
    """Response to Heartbeat. REBALANCE_IN_PROGRESS asks the member to join again."""

    error: Errors


class MemberIdentity(NamedTuple):
    """A member that leaves; the member id may be empty if the group instance id is given."""

    member_id: str
    group_instance_id: str | None = None


class LeaveGroupRequest(msgspec.Struct, frozen=True):
    """Request to remove members from a group."""

    group_id: str
    members: tuple[MemberIdentity, ...]


class LeaveGroupResponse(msgspec.Struct, frozen=True):
    """Response to LeaveGroup: an error, or one for each member in the order of the request."""

    error: Errors
    members: tuple[tuple[MemberIdentity, Errors], ...] = ()


class CommittedOffset(msgspec.Struct, frozen=True):
    """A committed offset. ``timestamp_ms`` is the time of the commit, -1 for the broker's time.

    ``expire_timestamp_ms`` is set only by commits with a retention time (versions 2 to 4).
    """

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    timestamp_ms: int = NO_TIMESTAMP
    expire_timestamp_ms: int = NO_TIMESTAMP


class OffsetCommitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to commit offsets. A ``generation_id`` of -1 is a commit without membership.

    A ``retention_time_ms`` of -1 means the broker's retention.
    """

    group_id: str
    offsets: Mapping[TopicPartition, CommittedOffset]
    generation_id: int = NO_GENERATION
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    retention_time_ms: int = -1


class OffsetCommitResponse(msgspec.Struct, frozen=True):
    """Response to OffsetCommit, with an error or NONE for each partition."""

    partitions: Mapping[TopicPartition, Errors]


class OffsetFetchRequest(msgspec.Struct, frozen=True):
    """Request for committed offsets of ``partitions``, or of all partitions if None.

    With ``require_stable``, a commit in progress gets UNSTABLE_OFFSET_COMMIT.
    """

    group_id: str
    partitions: tuple[TopicPartition, ...] | None = None
    require_stable: bool = False


class FetchedOffset(msgspec.Struct, frozen=True):
    """Committed offset of one partition; the offset is -1 if none is committed."""

    error: Errors = Errors.NONE
    offset: int = UNKNOWN_OFFSET
    leader_epoch: int = NO_EPOCH
    metadata: str = ""


class OffsetFetchResponse(msgspec.Struct, frozen=True):
    """Response to OffsetFetch: a top-level ``error``, or committed offsets."""

    error: Errors
    partitions: Mapping[TopicPartition, FetchedOffset] = {}


class ListGroupsRequest(msgspec.Struct, frozen=True):
    """Request for the groups that a broker coordinates, in any state or in one of ``states``."""

    states: tuple[str, ...] = ()


class ListedGroup(msgspec.Struct, frozen=True):
    """A group in a ListGroupsResponse."""

    group_id: str
    protocol_type: str
    state: str


class ListGroupsResponse(msgspec.Struct, frozen=True):
    """Response to ListGroups. The error may be COORDINATOR_LOAD_IN_PROGRESS."""

    error: Errors
    groups: tuple[ListedGroup, ...] = ()


class DescribeGroupsRequest(msgspec.Struct, frozen=True):
    """Request to describe groups that the receiving broker coordinates.

    A listener answers with the authorized operations.
    """

    group_ids: tuple[str, ...]
    include_authorized_operations: bool = False


class DescribedMember(msgspec.Struct, frozen=True):
    """A member in a DescribedGroup. Metadata and assignment are empty unless it is Stable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


class DescribedGroup(msgspec.Struct, frozen=True):
    """Description of one group. A missing group has the state Dead and no error."""

    error: Errors
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


class DescribeGroupsResponse(msgspec.Struct, frozen=True):
    """Response to DescribeGroups, in the order of the request."""

    groups: tuple[DescribedGroup, ...]


class DeleteGroupsRequest(msgspec.Struct, frozen=True):
    """Request to delete groups without members, with their offsets."""

    group_ids: tuple[str, ...]


class DeleteGroupsResponse(msgspec.Struct, frozen=True):
    """Response to DeleteGroups, with an error or NONE for each group."""

    results: Mapping[str, Errors]


class OffsetDeleteRequest(msgspec.Struct, frozen=True):
    """Request to delete committed offsets of partitions that the group is not subscribed to."""

    group_id: str
    partitions: tuple[TopicPartition, ...]


class OffsetDeleteResponse(msgspec.Struct, frozen=True):
    """Response to OffsetDelete: a top-level ``error``, or one for each partition."""

    error: Errors
    partitions: Mapping[TopicPartition, Errors] = {}


GroupRequest = (
    FindCoordinatorRequest
    | JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | OffsetFetchRequest
    | ListGroupsRequest
    | DescribeGroupsRequest
    | DeleteGroupsRequest
    | OffsetDeleteRequest
)
GroupResponse = (
    FindCoordinatorResponse
    | JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | OffsetCommitResponse
    | OffsetFetchResponse
    | ListGroupsResponse
    | DescribeGroupsResponse
    | DeleteGroupsResponse
    | OffsetDeleteResponse
)
