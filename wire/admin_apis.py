"""The admin APIs that the controller or a broker handles.

These are reassignments, elections and log directories. Mirrors the request and response classes of
org.apache.kafka.common.requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, cast

import msgspec

from klamm.admin.failures import message_of
from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    ApiError,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    LogDirResult,
    ReplicaInfo,
)
from klamm.cluster.types import ElectionType, ReplicaAssignment, TopicPartition
from klamm.wire.api import Api
from klamm.wire.frames import InvalidRequestFrame
from klamm.wire.schema import Values
from klamm.wire.translations import (
    API_ERROR,
    ERROR,
    Field,
    Translation,
    each,
    error_fields,
    error_or_empty,
    listed_partitions,
    only,
    per_partition,
    struct,
)

_REASSIGNMENTS: Final = {"timeout": timedelta(seconds=30)}
_ELECTION_TYPES: Final = (ElectionType.PREFERRED, ElectionType.UNCLEAN)


def _election_type(code: int) -> ElectionType:
    if code not in range(len(_ELECTION_TYPES)):
        raise InvalidRequestFrame(f"unknown election type {code}")
    return _ELECTION_TYPES[code]


def _read_log_dirs(dirs: Any) -> dict[TopicPartition, str]:
    return {tp: one.path for one in dirs for tp in _MOVED.read(one.topics)}


def _write_log_dirs(log_dirs: Mapping[TopicPartition, str]) -> list[Values]:
    by_path: dict[str, list[TopicPartition]] = {}
    for tp, path in log_dirs.items():
        by_path.setdefault(path, []).append(tp)
    return [{"path": path, "topics": _MOVED.write(moved)} for path, moved in by_path.items()]


def _write_explained(error: ApiError) -> Values:
    """Return the fields of an error, with the default message of its code if it has none."""
    is_none = error.error is Errors.NONE
    return error_fields(error if is_none else ApiError(error.error, message_of(error)))


def _write_top_level(error: ApiError) -> Values:
    return error_or_empty(error) if error.error is Errors.NONE else _write_explained(error)


def _write_elected(error: ApiError) -> Values:
    """Kafka gives these two errors no message, unlike ELECTION_NOT_NEEDED."""
    is_bare = error.error in (Errors.NOT_CONTROLLER, Errors.REQUEST_TIMED_OUT)
    return error_fields(error) if is_bare else _write_explained(error)


def _read_elected(body: Any) -> ElectLeadersResponse:
    """Translate a response. A broker that is not the controller says so for each partition."""
    response: ElectLeadersResponse = _ELECTED.read(body)
    if any(one.error is Errors.NOT_CONTROLLER for one in response.partitions.values()):
        return msgspec.structs.replace(response, error=Errors.NOT_CONTROLLER)
    return response


def _write_elections(response: ElectLeadersResponse) -> Values:
    if response.error is Errors.NOT_CONTROLLER:
        response = msgspec.structs.replace(response, error=Errors.NONE)
    return cast("Values", _ELECTED.write(response))


_EXPLAINED: Final = API_ERROR._replace(write=_write_explained)
_TOP_LEVEL: Final = API_ERROR._replace(write=_write_top_level)
_MOVED: Final = listed_partitions("topics").translation
_REASSIGN: Final = struct(
    AlterPartitionReassignmentsRequest,
    # The controller ignores the timeout, as in Kafka.
    _REASSIGNMENTS,
    reassignments=per_partition("topics", only("replicas")),
)
_REASSIGNED: Final = struct(
    AlterPartitionReassignmentsResponse,
    error=Field(None, _TOP_LEVEL),
    partitions=per_partition("responses", _EXPLAINED),
)
_LIST_REASSIGNMENTS: Final = struct(
    ListPartitionReassignmentsRequest,
    _REASSIGNMENTS,
    partitions=listed_partitions("topics", partitions="partition_indexes"),
)
_LISTED_REASSIGNMENTS: Final = struct(
    ListPartitionReassignmentsResponse,
    error=Field(None, _TOP_LEVEL),
    partitions=per_partition("topics", struct(ReplicaAssignment)),
)
_ELECT: Final = struct(
    ElectLeadersRequest,
    # Version 0 has only preferred elections.
    election_type=Field(
        "election_type",
        Translation(_election_type, _ELECTION_TYPES.index),
        ElectionType.PREFERRED,
    ),
    partitions=listed_partitions("topic_partitions", topic="topic"),
)
_ELECTED: Final = struct(
    ElectLeadersResponse,
    partitions=per_partition(
        "replica_election_results",
        API_ERROR._replace(write=_write_elected),
        topic="topic",
        partitions="partition_result",
        partition="partition_id",
    ),
)
_DESCRIBE_LOG_DIRS: Final = struct(
    DescribeLogDirsRequest, partitions=listed_partitions("topics", topic="topic")
)
_REPLICA_INFO: Final = struct(ReplicaInfo, size_bytes="partition_size", is_future="is_future_key")
_LOG_DIR: Final = struct(LogDirResult, path="log_dir", logs=per_partition("topics", _REPLICA_INFO))
_LOG_DIRS: Final = struct(
    DescribeLogDirsResponse, {"error_code": Errors.NONE}, log_dirs=each("results", _LOG_DIR)
)
_ALTER_LOG_DIRS: Final = struct(
    AlterReplicaLogDirsRequest, log_dirs=Field("dirs", Translation(_read_log_dirs, _write_log_dirs))
)
_ALTERED_LOG_DIRS: Final = struct(
    AlterReplicaLogDirsResponse,
    results=per_partition("results", only("error_code", ERROR), topic="topic_name"),
)
APIS: Final = (
    Api(34, range(3), _ALTER_LOG_DIRS, _ALTERED_LOG_DIRS),
    Api(35, range(3), _DESCRIBE_LOG_DIRS, _LOG_DIRS),
    Api(43, range(3), _ELECT, _ELECTED._replace(read=_read_elected, write=_write_elections)),
    Api(45, range(1), _REASSIGN, _REASSIGNED),
    Api(46, range(1), _LIST_REASSIGNMENTS, _LISTED_REASSIGNMENTS),
)
