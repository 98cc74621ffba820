"""Why a cluster refused something: an error code on the wire, an exception in Kafka's tools.

One table says what Kafka's Admin client makes of a code. Mirrors the exceptions and default texts
of org.apache.kafka.common.protocol.Errors, and how java.util.concurrent.Future hands on what a call
ended with.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from cluster.api_errors import Errors
from cluster.errors import (
    AdminError,
    BrokerNotAvailable,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidTopic,
    PolicyViolation,
    RequestTimedOut,
    TopicExists,
    UnknownTopicOrPartition,
)
from cluster.requests import ApiError

T = TypeVar("T")
_PACKAGE: Final = "org.apache.kafka.common.errors"


class InvalidConfiguration(InvalidConfig):
    """Kafka's InvalidConfigurationException: a config that nobody knows, or two that conflict."""

    kafka_class = f"{_PACKAGE}.InvalidConfigurationException"


class InvalidRequest(AdminError):
    """A request that makes no sense, or a broker's word for configs of the wrong form."""

    code = Errors.INVALID_REQUEST
    kafka_class = f"{_PACKAGE}.InvalidRequestException"


class ExecutionException(AdminError):
    """What a Java future throws: it names the exception that the call ended with."""

    kafka_class = "java.util.concurrent.ExecutionException"

    def __init__(self, cause: AdminError) -> None:
        super().__init__(f"{cause.kafka_class}: {cause.message}", hint=cause.hint)
        self.cause = cause


class ReassignmentInProgress(AdminError):
    """Partitions cannot be added to a topic while others of it move."""

    code = Errors.REASSIGNMENT_IN_PROGRESS
    kafka_class = f"{_PACKAGE}.ReassignmentInProgressException"


def _kind(code: Errors, name: str) -> type[AdminError]:
    members = {"code": code, "kafka_class": f"{_PACKAGE}.{name}"}
    return type(name, (AdminError,), members)


_KINDS: Final[Mapping[Errors, tuple[type[AdminError], str]]] = {
    kind.code: (kind, text)
    for kind, text in (
        (AdminError, "The server experienced an unexpected error when processing the request."),
        (UnknownTopicOrPartition, "This server does not host this topic-partition."),
        (RequestTimedOut, "The request timed out."),
        (BrokerNotAvailable, "The broker is not available."),
        (
            _kind(Errors.REPLICA_NOT_AVAILABLE, "ReplicaNotAvailableException"),
            "The replica is not available for the requested topic-partition. Produce/Fetch "
            "requests and other requests intended only for the leader or follower return "
            "NOT_LEADER_OR_FOLLOWER if the broker is not a replica of the topic-partition.",
        ),
        (InvalidTopic, "The request attempted to perform an operation on an invalid topic."),
        (TopicExists, "Topic with this name already exists."),
        (InvalidPartitions, "Number of partitions is below 1."),
        (
            InvalidReplicationFactor,
            "Replication factor is below 1 or larger than the number of available brokers.",
        ),
        (InvalidReplicaAssignment, "Replica assignment is invalid."),
        (InvalidConfiguration, "Configuration is invalid."),
        (PolicyViolation, "Request parameters do not satisfy the configured policy."),
        (
            _kind(Errors.NOT_CONTROLLER, "NotControllerException"),
            "This is not the correct controller for this cluster.",
        ),
        (
            InvalidRequest,
            "This most likely occurs because of a request being malformed by the client library "
            "or the message was sent to an incompatible broker. See the broker logs for more "
            "details.",
        ),
        (
            _kind(Errors.KAFKA_STORAGE_ERROR, "KafkaStorageException"),
            "Disk error when trying to access log file on the disk.",
        ),
        (
            _kind(Errors.LOG_DIR_NOT_FOUND, "LogDirNotFoundException"),
            "The user-specified log directory is not found in the broker config.",
        ),
        (ReassignmentInProgress, "A partition reassignment is in progress."),
        (
            _kind(Errors.TOPIC_DELETION_DISABLED, "TopicDeletionDisabledException"),
            "Topic deletion is disabled.",
        ),
        (
            _kind(Errors.PREFERRED_LEADER_NOT_AVAILABLE, "PreferredLeaderNotAvailableException"),
            "The preferred leader was not available.",
        ),
        (
            _kind(Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE, "EligibleLeadersNotAvailableException"),
            "Eligible topic partition leaders are not available.",
        ),
        (
            _kind(Errors.ELECTION_NOT_NEEDED, "ElectionNotNeededException"),
            "Leader election not needed for topic partition.",
        ),
        (
            _kind(Errors.NO_REASSIGNMENT_IN_PROGRESS, "NoReassignmentInProgressException"),
            "No partition reassignment is in progress.",
        ),
    )
}


def admin_error(failure: ApiError) -> AdminError:
    """The error that Kafka's Admin client makes of an answer."""
    kind, text = _KINDS.get(failure.error, (AdminError, failure.error.name))
    return kind(text if failure.message is None else failure.message)


def as_futures(admin: T) -> T:
    """The same cluster, each of whose calls fails as a Java future does: ExecutionException."""
    return cast(T, _Futures(admin))


class _Futures:
    def __init__(self, admin: object) -> None:
        self._admin = admin

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._admin, name)

        @functools.wraps(call)
        def get(*args: Any, **named: Any) -> Any:
            try:
                return call(*args, **named)
            except AdminError as error:
                raise ExecutionException(error) from error

        return get
