"""Errors of Admin calls: maps the error codes in responses to the exceptions of Kafka's client.

Mirrors the exceptions and default messages of org.apache.kafka.common.protocol.Errors, and the
ExecutionException in which java.util.concurrent.Future wraps an exception.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import (
    KAFKA_ERRORS,
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
from klamm.cluster.requests import ApiError

T = TypeVar("T")


class InvalidConfiguration(InvalidConfig):
    """Kafka's InvalidConfigurationException: unknown config, or conflicting values."""

    code = Errors.INVALID_CONFIG


class InvalidRequest(AdminError):
    """Kafka's InvalidRequestException: invalid request, or invalid value of a config."""

    code = Errors.INVALID_REQUEST


class UnsupportedVersion(AdminError):
    """Kafka's UnsupportedVersionException: the broker's version does not support the request."""

    code = Errors.UNSUPPORTED_VERSION


class ExecutionException(AdminError):
    """Java's ExecutionException, thrown by Future.get(); the cause is why the call failed."""

    kafka_class = "java.util.concurrent.ExecutionException"

    def __init__(self, cause: AdminError) -> None:
        super().__init__(f"{cause.kafka_class}: {cause.message}", hint=cause.hint)
        self.cause = cause


class ReassignmentInProgress(AdminError):
    """Partitions cannot be added to a topic while its partitions are being reassigned."""

    code = Errors.REASSIGNMENT_IN_PROGRESS


_TEXTS: Final = {
    Errors.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the "
    "request.",
    Errors.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    Errors.REQUEST_TIMED_OUT: "The request timed out.",
    Errors.BROKER_NOT_AVAILABLE: "The broker is not available.",
    Errors.REPLICA_NOT_AVAILABLE: "The replica is not available for the requested "
    "topic-partition. Produce/Fetch requests and other requests intended only for the leader or "
    "follower return NOT_LEADER_OR_FOLLOWER if the broker is not a replica of the topic-partition.",
    Errors.INVALID_TOPIC_EXCEPTION: "The request attempted to perform an operation on an invalid "
    "topic.",
    Errors.TOPIC_ALREADY_EXISTS: "Topic with this name already exists.",
    Errors.INVALID_PARTITIONS: "Number of partitions is below 1.",
    Errors.INVALID_REPLICATION_FACTOR: "Replication factor is below 1 or larger than the number "
    "of available brokers.",
    Errors.INVALID_REPLICA_ASSIGNMENT: "Replica assignment is invalid.",
    Errors.INVALID_CONFIG: "Configuration is invalid.",
    Errors.NOT_CONTROLLER: "This is not the correct controller for this cluster.",
    Errors.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the "
    "client library or the message was sent to an incompatible broker. See the broker logs for "
    "more details.",
    Errors.POLICY_VIOLATION: "Request parameters do not satisfy the configured policy.",
    Errors.KAFKA_STORAGE_ERROR: "Disk error when trying to access log file on the disk.",
    Errors.LOG_DIR_NOT_FOUND: "The user-specified log directory is not found in the broker config.",
    Errors.REASSIGNMENT_IN_PROGRESS: "A partition reassignment is in progress.",
    Errors.TOPIC_DELETION_DISABLED: "Topic deletion is disabled.",
    Errors.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
    Errors.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    Errors.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
    Errors.UNSUPPORTED_VERSION: "The version of API is not supported.",
    Errors.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
}
_KINDS: Final[Mapping[Errors, type[AdminError]]] = {
    kind.code: kind
    for kind in (
        AdminError,
        UnknownTopicOrPartition,
        RequestTimedOut,
        BrokerNotAvailable,
        InvalidTopic,
        TopicExists,
        InvalidPartitions,
        InvalidReplicationFactor,
        InvalidReplicaAssignment,
        InvalidConfiguration,
        InvalidRequest,
        PolicyViolation,
        ReassignmentInProgress,
    )
}
"""Exception classes, keyed by error code.

For any other error code, the name of Kafka's exception is derived from the name of the code.
"""


@functools.cache
def _kind(code: Errors) -> type[AdminError]:
    if code in _KINDS or code not in _TEXTS:
        return _KINDS.get(code, AdminError)
    name = code.name.removesuffix("_ERROR").title().replace("_", "") + "Exception"
    return type(name, (AdminError,), {"code": code, "kafka_class": f"{KAFKA_ERRORS}.{name}"})


def message_of(failure: ApiError) -> str:
    """Return the message of an error, or the default message of its code."""
    if failure.message is not None:
        return failure.message
    return _TEXTS.get(failure.error, failure.error.name)


def admin_error(failure: ApiError) -> AdminError:
    """Return the exception that Kafka's Admin client throws for an error in a response."""
    return _kind(failure.error)(message_of(failure))


def as_futures(admin: T) -> T:
    """Return a proxy of ``admin`` that wraps every AdminError in an ExecutionException.

    Kafka's tools see such exceptions because they call the Admin client through Java futures.
    """
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
