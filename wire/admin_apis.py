"""The admin APIs that the controller or a broker handles.

These are reassignments, elections and log directories. Mirrors the request and response classes of
org.apache.kafka.common.requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribedLog,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    LogDirResult,
)
from klamm.cluster.types import ElectionType, ReplicaAssignment, TopicPartition
from klamm.wire.api import Api
from klamm.wire.frames import InvalidRequestFrame
from klamm.wire.schema import Values, in_topics
from klamm.wire.translations import (
    API_ERROR,
    ERROR,
    Field,
    Translation,
    each,
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


def _read_logs(topics: Any) -> tuple[DescribedLog, ...]:
    return tuple(
        DescribedLog(tp, one.partition_size, one.offset_lag, one.is_future_key)
        for tp, one in in_topics(topics)
    )


def _write_logs(found: Iterable[DescribedLog]) -> list[Values]:
    # A log directory may have the current and the future log of a partition.
    logs: dict[str, list[Values]] = {}
    for log in found:
        values = {
            "partition_index": log.topic_partition.partition,
            "partition_size": log.size_bytes,
            "offset_lag": log.offset_lag,
            "is_future_key": log.is_future,
        }
        logs.setdefault(log.topic_partition.topic, []).append(values)
    return [{"name": topic, "partitions": values} for topic, values in logs.items()]


def _read_log_dirs(dirs: Any) -> dict[TopicPartition, str]:
    return {tp: one.path for one in dirs for tp in _MOVED.read(one.topics)}


def _write_log_dirs(log_dirs: Mapping[TopicPartition, str]) -> list[Values]:
    by_path: dict[str, list[TopicPartition]] = {}
    for tp, path in log_dirs.items():
        by_path.setdefault(path, []).append(tp)
    return [{"path": path, "topics": _MOVED.write(moved)} for path, moved in by_path.items()]


_MOVED: Final = listed_partitions("topics").translation
_REASSIGN: Final = struct(
    AlterPartitionReassignmentsRequest,
    # The controller ignores the timeout, as in Kafka.
    _REASSIGNMENTS,
    reassignments=per_partition("topics", only("replicas")),
)
_REASSIGNED: Final = struct(
    AlterPartitionReassignmentsResponse,
    error=Field(None, API_ERROR),
    partitions=per_partition("responses", API_ERROR),
)
_LIST_REASSIGNMENTS: Final = struct(
    ListPartitionReassignmentsRequest,
    _REASSIGNMENTS,
    partitions=listed_partitions("topics", partitions="partition_indexes"),
)
_LISTED_REASSIGNMENTS: Final = struct(
    ListPartitionReassignmentsResponse,
    error=Field(None, API_ERROR),
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
        API_ERROR,
        topic="topic",
        partitions="partition_result",
        partition="partition_id",
    ),
)
_DESCRIBE_LOG_DIRS: Final = struct(
    DescribeLogDirsRequest, partitions=listed_partitions("topics", topic="topic")
)
_LOG_DIR: Final = struct(
    LogDirResult, path="log_dir", logs=Field("topics", Translation(_read_logs, _write_logs))
)
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
    Api(43, range(3), _ELECT, _ELECTED),
    Api(45, range(1), _REASSIGN, _REASSIGNED),
    Api(46, range(1), _LIST_REASSIGNMENTS, _LISTED_REASSIGNMENTS),
)
