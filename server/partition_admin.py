"""Reassignments and elections of the running cluster, as a Kafka Admin client asks for them.

All of it is the controller's work; here it is found and asked again if it moves. Mirrors
alterPartitionReassignments, listPartitionReassignments and electLeaders of
org.apache.kafka.clients.admin.KafkaAdminClient.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from admin.failures import Failure, admin_error
from cluster.api_errors import Errors
from cluster.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ApiError,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from cluster.types import ElectionType, ReplicaAssignment, TopicPartition
from server.cluster_calls import ClusterCalls


class PartitionCalls(ClusterCalls):
    """Calls that name partitions and that the controller answers."""

    def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """What is being reassigned: of ``partitions``, or all of it. Raises AdminError."""
        request = ListPartitionReassignmentsRequest(
            None if partitions is None else tuple(partitions)
        )
        response = self._ask_controller(
            "listPartitionReassignments",
            request,
            ListPartitionReassignmentsResponse,
            lambda answer: answer.error.error is Errors.NOT_CONTROLLER,
        )
        _raise(response.error)
        return response.partitions

    def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None], timeout_ms: int
    ) -> Mapping[TopicPartition, Failure]:
        """Start reassignments; a target of None cancels. Gives the partitions refused.

        ``timeout_ms`` is Kafka's, whose controller does not look at it either. Raises AdminError.
        """
        response = self._ask_controller(
            "alterPartitionReassignments",
            AlterPartitionReassignmentsRequest(targets),
            AlterPartitionReassignmentsResponse,
            lambda answer: answer.error.error is Errors.NOT_CONTROLLER,
        )
        _raise(response.error)
        return {
            tp: failure
            for tp, error in response.partitions.items()
            if (failure := _failure(error)) is not None
        }

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Collection[TopicPartition] | None,
        timeout_ms: int,
    ) -> Mapping[TopicPartition, Failure | None]:
        """Elect leaders; None asks for all partitions that need it.

        Gives each partition's failure, None for an election that took place. Raises AdminError.
        """
        response = self._ask_controller(
            "electLeaders",
            ElectLeadersRequest(
                election_type, None if partitions is None else tuple(partitions), timeout_ms
            ),
            ElectLeadersResponse,
            lambda answer: answer.error is Errors.NOT_CONTROLLER,
            timeout_ms=timeout_ms,
        )
        _raise(ApiError(response.error))
        return {tp: _failure(error) for tp, error in response.partitions.items()}


def _failure(error: ApiError) -> Failure | None:
    return None if error.error is Errors.NONE else Failure(error.error, error.message)


def _raise(error: ApiError) -> None:
    failure = _failure(error)
    if failure is not None:
        raise admin_error(failure)
