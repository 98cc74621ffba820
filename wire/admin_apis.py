"""Translation of the admin APIs that the controller or a broker handles.

These are reassignments, elections and log directories. Mirrors the request and response classes of
org.apache.kafka.common.requests.
"""

from __future__ import annotations

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
from klamm.wire.frames import InvalidRequestFrame
from klamm.wire.schema import (
    Values,
    by_topic,
    error_fields,
    in_topics,
    listed_in_topics,
    milliseconds,
)

_ELECTION_TYPES: Final = {0: ElectionType.PREFERRED, 1: ElectionType.UNCLEAN}


def alter_reassignments_request(body: Any) -> AlterPartitionReassignmentsRequest:
    """Translate AlterPartitionReassignments. The controller ignores the timeout, as in Kafka."""
    return AlterPartitionReassignmentsRequest(
        {tp: one.replicas for tp, one in in_topics(body.topics)}
    )


def alter_reassignments_response(response: AlterPartitionReassignmentsResponse) -> Values:
    """Translate the response to AlterPartitionReassignments."""
    return {
        **error_fields(response.error),
        "responses": by_topic(
            response.partitions,
            lambda partition, error: {"partition_index": partition, **error_fields(error)},
        ),
    }


def list_reassignments_request(body: Any) -> ListPartitionReassignmentsRequest:
    """Translate ListPartitionReassignments; null means all partitions."""
    if body.topics is None:
        return ListPartitionReassignmentsRequest()
    return ListPartitionReassignmentsRequest(
        listed_in_topics(body.topics, partitions="partition_indexes")
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
        **error_fields(response.error),
        "topics": by_topic(response.partitions, values),
    }


def elect_leaders_request(body: Any) -> ElectLeadersRequest:
    """Translate ElectLeaders. Version 0 has only preferred elections."""
    election_type = _ELECTION_TYPES.get(getattr(body, "election_type", 0))
    if election_type is None:
        raise InvalidRequestFrame(f"unknown election type {body.election_type}")
    return ElectLeadersRequest(
        election_type,
        _partitions(body.topic_partitions),
        milliseconds(body.timeout),
    )


def elect_leaders_response(response: ElectLeadersResponse) -> Values:
    """Translate the response to ElectLeaders."""
    return {
        "error_code": response.error,
        "replica_election_results": by_topic(
            response.partitions,
            lambda partition, error: {"partition_id": partition, **error_fields(error)},
            topic="topic",
            partitions="partition_result",
        ),
    }


def describe_log_dirs_request(body: Any) -> DescribeLogDirsRequest:
    """Translate DescribeLogDirs; null means all partitions."""
    return DescribeLogDirsRequest(_partitions(body.topics))


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
        {tp: log_dir.path for log_dir in body.dirs for tp in listed_in_topics(log_dir.topics)}
    )


def alter_replica_log_dirs_response(response: AlterReplicaLogDirsResponse) -> Values:
    """Translate the response to AlterReplicaLogDirs."""

    def values(partition: int, error: Errors) -> Values:
        return {"partition_index": partition, "error_code": error}

    return {"results": by_topic(response.results, values, topic="topic_name")}


def _partitions(topics: Any) -> tuple[TopicPartition, ...] | None:
    return None if topics is None else listed_in_topics(topics, topic="topic")


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
