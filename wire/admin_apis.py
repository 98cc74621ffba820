"""Translation of the admin APIs that the controller or a broker handles.

These are reassignments, elections and log directories. Mirrors the request and response classes of
org.apache.kafka.common.requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    ApiError,
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
from klamm.wire.frames import InvalidRequestFrame
from klamm.wire.schema import Values, by_topic, milliseconds

_ELECTION_TYPES: Final = {0: ElectionType.PREFERRED, 1: ElectionType.UNCLEAN}


def alter_reassignments_request(body: Any) -> AlterPartitionReassignmentsRequest:
    """Translate AlterPartitionReassignments. The controller ignores the timeout, as in Kafka."""
    return AlterPartitionReassignmentsRequest(
        {
            TopicPartition(topic.name, one.partition_index): one.replicas
            for topic in body.topics
            for one in topic.partitions
        }
    )


def alter_reassignments_response(response: AlterPartitionReassignmentsResponse) -> Values:
    """Translate the response to AlterPartitionReassignments."""
    return {
        **_error(response.error),
        "responses": [
            {"name": topic, "partitions": results}
            for topic, results in _errors(response.partitions, "partition_index")
        ],
    }


def list_reassignments_request(body: Any) -> ListPartitionReassignmentsRequest:
    """Translate ListPartitionReassignments; null means all partitions."""
    if body.topics is None:
        return ListPartitionReassignmentsRequest()
    return ListPartitionReassignmentsRequest(
        tuple(
            TopicPartition(topic.name, partition)
            for topic in body.topics
            for partition in topic.partition_indexes
        )
    )


def list_reassignments_response(response: ListPartitionReassignmentsResponse) -> Values:
    """Translate the response to ListPartitionReassignments."""

    def values(partition: int, assignment: ReplicaAssignment) -> Values:
        return {
            "partition_index": partition,
            "replicas": assignment.replicas,
            "adding_replicas": assignment.adding_replicas,
            "removing_replicas": assignment.removing_replicas,
        }

    return {
        **_error(response.error),
        "topics": [
            {"name": topic, "partitions": results}
            for topic, results in by_topic(response.partitions, values)
        ],
    }


def elect_leaders_request(body: Any) -> ElectLeadersRequest:
    """Translate ElectLeaders. Version 0 has only preferred elections."""
    election_type = _ELECTION_TYPES.get(getattr(body, "election_type", 0))
    if election_type is None:
        raise InvalidRequestFrame(f"unknown election type {body.election_type}")
    return ElectLeadersRequest(
        election_type,
        None if body.topic_partitions is None else _partitions(body.topic_partitions),
        milliseconds(body.timeout),
    )


def elect_leaders_response(response: ElectLeadersResponse) -> Values:
    """Translate the response to ElectLeaders."""
    return {
        "error_code": response.error,
        "replica_election_results": [
            {"topic": topic, "partition_result": results}
            for topic, results in _errors(response.partitions, "partition_id")
        ],
    }


def describe_log_dirs_request(body: Any) -> DescribeLogDirsRequest:
    """Translate DescribeLogDirs; null means all partitions."""
    return DescribeLogDirsRequest(None if body.topics is None else _partitions(body.topics))


def describe_log_dirs_response(response: DescribeLogDirsResponse) -> Values:
    """Translate the response to DescribeLogDirs."""
    return {
        "error_code": Errors.NONE,
        "results": [
            {"error_code": one.error, "log_dir": one.path, "topics": _logs(one)}
            for one in response.log_dirs
        ],
    }


def alter_replica_log_dirs_request(body: Any) -> AlterReplicaLogDirsRequest:
    """Translate AlterReplicaLogDirs."""
    return AlterReplicaLogDirsRequest(
        {
            TopicPartition(topic.name, partition): log_dir.path
            for log_dir in body.dirs
            for topic in log_dir.topics
            for partition in topic.partitions
        }
    )


def alter_replica_log_dirs_response(response: AlterReplicaLogDirsResponse) -> Values:
    """Translate the response to AlterReplicaLogDirs."""

    def values(partition: int, error: Errors) -> Values:
        return {"partition_index": partition, "error_code": error}

    return {
        "results": [
            {"topic_name": topic, "partitions": results}
            for topic, results in by_topic(response.results, values)
        ]
    }


def _partitions(topics: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(one.topic, partition) for one in topics for partition in one.partitions
    )


def _error(error: ApiError) -> Values:
    return {"error_code": error.error, "error_message": error.message}


def _errors(
    errors: Mapping[TopicPartition, ApiError], id_field: str
) -> list[tuple[str, list[Values]]]:
    return by_topic(errors, lambda partition, error: {id_field: partition, **_error(error)})


def _logs(log_dir: LogDirResult) -> list[Values]:
    # A log directory may have the current and the future log of a partition.
    logs: dict[str, list[DescribedLog]] = {}
    for log in log_dir.logs:
        logs.setdefault(log.topic_partition.topic, []).append(log)
    return [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": log.topic_partition.partition,
                    "partition_size": log.size_bytes,
                    "offset_lag": log.offset_lag,
                    "is_future_key": log.is_future,
                }
                for log in found
            ],
        }
        for topic, found in logs.items()
    ]
