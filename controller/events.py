"""Controller events: frozen values without behaviour.

An event states what happened, not how to react to it. It holds no callback: the client of a request
is identified by address and correlation id. Mirrors the ControllerEvent case classes at the end of
kafka/controller/KafkaController.scala, and kafka/controller/ControllerState.scala.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, Self

import msgspec

from klamm.cluster.requests import (
    AlterIsrRequest,
    AlterPartitionReassignmentsRequest,
    ControlledShutdownRequest,
    ControlResponse,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    LeaderAndIsrResponse,
    ListPartitionReassignmentsRequest,
    Message,
    Request,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from klamm.cluster.types import TopicPartition


class ControllerState(Enum):
    """Activity of the event thread, as reported by Kafka's ControllerState metric.

    Each value is a pair: the number that the metric reports, and the name of the rate-and-time
    metric that measures this activity, or None if Kafka has no such metric.
    """

    IDLE = (0, None)
    CONTROLLER_CHANGE = (1, "ControllerChangeRateAndTimeMs")
    BROKER_CHANGE = (2, "LeaderElectionRateAndTimeMs")
    TOPIC_CHANGE = (3, "TopicChangeRateAndTimeMs")
    TOPIC_DELETION = (4, "TopicDeletionRateAndTimeMs")
    ALTER_PARTITION_REASSIGNMENT = (5, "PartitionReassignmentRateAndTimeMs")
    AUTO_LEADER_BALANCE = (6, "AutoLeaderBalanceRateAndTimeMs")
    MANUAL_LEADER_BALANCE = (7, "ManualLeaderBalanceRateAndTimeMs")
    CONTROLLED_SHUTDOWN = (8, "ControlledShutdownRateAndTimeMs")
    ISR_CHANGE = (9, "IsrChangeRateAndTimeMs")
    LEADER_AND_ISR_RESPONSE_RECEIVED = (10, "LeaderAndIsrResponseReceivedRateAndTimeMs")
    LOG_DIR_CHANGE = (11, "LogDirChangeRateAndTimeMs")
    CONTROLLER_SHUTDOWN = (12, "ControllerShutdownRateAndTimeMs")
    UNCLEAN_LEADER_ELECTION_ENABLE = (13, "UncleanLeaderElectionEnableRateAndTimeMs")
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = (14, "TopicUncleanLeaderElectionEnableRateAndTimeMs")
    LIST_PARTITION_REASSIGNMENT = (15, None)
    UPDATE_METADATA_RESPONSE_RECEIVED = (16, None)

    @property
    def number(self) -> int:
        """The number that Kafka's ControllerState metric reports for this state."""
        return self.value[0]

    @property
    def timer(self) -> str | None:
        """Name of this state's rate-and-time metric under ControllerStats, or None."""
        return self.value[1]


class ControllerEvent(msgspec.Struct, frozen=True):
    """Base class of all controller events.

    ``state`` is the state of the event thread while it processes the event.
    ``may_come_from_outside``: if True, the event need not be caused by another event.
    ``survives_clearing``: if True, the event stays in the queue when the queue is cleared.
    """

    state: ClassVar[ControllerState] = ControllerState.CONTROLLER_CHANGE
    may_come_from_outside: ClassVar[bool] = True
    survives_clearing: ClassVar[bool] = False

    def __str__(self) -> str:
        fields = ",".join(str(getattr(self, name)) for name in self.__struct_fields__)
        name = type(self).__name__
        return f"{name}({fields})" if fields else name


class Startup(ControllerEvent, frozen=True):
    """The process of this controller candidate started."""


class ControllerChange(ControllerEvent, frozen=True):
    """The /controller znode was created or changed."""


class Reelect(ControllerEvent, frozen=True):
    """The /controller znode was deleted, or elections were suspended or resumed."""


class Expire(ControllerEvent, frozen=True):
    """The ZooKeeper session expired.

    If ``reopen`` is False, the session is alive but is treated as expired (KAFKA-13461).
    """

    reopen: bool = True


class RegisterBrokerAndReelect(ControllerEvent, frozen=True):
    """A new ZooKeeper session started: the broker must be registered again."""

    may_come_from_outside: ClassVar[bool] = False


class ShutdownEventThread(ControllerEvent, frozen=True):
    """The process is shutting down. This is the last event of a controller."""

    state: ClassVar[ControllerState] = ControllerState.CONTROLLER_SHUTDOWN


class BrokerChange(ControllerEvent, frozen=True):
    """The children of /brokers/ids changed."""

    state: ClassVar[ControllerState] = ControllerState.BROKER_CHANGE


class BrokerModifications(ControllerEvent, frozen=True):
    """The data of one broker's registration znode changed."""

    broker_id: int
    state: ClassVar[ControllerState] = ControllerState.BROKER_CHANGE


class TopicChange(ControllerEvent, frozen=True):
    """The children of /brokers/topics changed."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_CHANGE


class PartitionModifications(ControllerEvent, frozen=True):
    """The data of one topic znode changed."""

    topic: str
    state: ClassVar[ControllerState] = ControllerState.TOPIC_CHANGE


class IsrChangeNotification(ControllerEvent, frozen=True):
    """The children of /isr_change_notification changed."""

    state: ClassVar[ControllerState] = ControllerState.ISR_CHANGE


class LogDirEventNotification(ControllerEvent, frozen=True):
    """The children of /log_dir_event_notification changed."""

    state: ClassVar[ControllerState] = ControllerState.LOG_DIR_CHANGE


class PartitionStateModifications(ControllerEvent, frozen=True):
    """A malformed state znode was rewritten or deleted. Kafka has no such event."""

    topic_partition: TopicPartition
    state: ClassVar[ControllerState] = ControllerState.ISR_CHANGE


class UncleanLeaderElectionEnable(ControllerEvent, frozen=True):
    """Unclean leader election was enabled in the config of this broker."""

    state: ClassVar[ControllerState] = ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE


class TopicUncleanLeaderElectionEnable(ControllerEvent, frozen=True):
    """Unclean leader election was enabled in the config of a topic."""

    topic: str
    state: ClassVar[ControllerState] = ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE


class RequestReceived(ControllerEvent, frozen=True):
    """Base class of received requests. The response is sent to the sender of ``message``."""

    message: Message
    request: Request

    @classmethod
    def of(cls, message: Message) -> Self:
        """Return the event for the message that carries the request."""
        body: Any = message.body
        return cls(message, body)


class PendingRequestTimeout(ControllerEvent, frozen=True):
    """Base class of events for a pending request that has timed out, identified by ``number``."""

    number: int
    may_come_from_outside: ClassVar[bool] = False
    survives_clearing: ClassVar[bool] = True


class AlterIsrReceived(RequestReceived, frozen=True):
    """A leader proposes ISRs (KIP-497)."""

    request: AlterIsrRequest
    state: ClassVar[ControllerState] = ControllerState.ISR_CHANGE

    def __str__(self) -> str:
        request = self.request
        return f"AlterIsrReceived({request.broker_id},{request.broker_epoch})"


class CreateTopicsReceived(RequestReceived, frozen=True):
    """A client requests the creation of topics."""

    request: CreateTopicsRequest
    state: ClassVar[ControllerState] = ControllerState.TOPIC_CHANGE

    def __str__(self) -> str:
        return f"CreateTopicsReceived({','.join(topic.name for topic in self.request.topics)})"


class CreateTopicsTimeout(PendingRequestTimeout, frozen=True):
    """A pending CreateTopics request timed out."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_CHANGE


class TopicDeletion(ControllerEvent, frozen=True):
    """The children of /admin/delete_topics changed."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_DELETION


class DeleteTopicsReceived(RequestReceived, frozen=True):
    """A client requests the deletion of topics."""

    request: DeleteTopicsRequest
    state: ClassVar[ControllerState] = ControllerState.TOPIC_DELETION

    def __str__(self) -> str:
        return f"DeleteTopicsReceived({','.join(self.request.topics)})"


class DeleteTopicsTimeout(PendingRequestTimeout, frozen=True):
    """A pending DeleteTopics request timed out."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_DELETION


class ZkPartitionReassignment(ControllerEvent, frozen=True):
    """The znode /admin/reassign_partitions was created, or may have changed since it was read."""

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT


class ElectLeadersReceived(RequestReceived, frozen=True):
    """A client requests leader elections (KIP-460)."""

    request: ElectLeadersRequest
    state: ClassVar[ControllerState] = ControllerState.MANUAL_LEADER_BALANCE

    def __str__(self) -> str:
        named = self.request.partitions
        shown = "all" if named is None else ",".join(map(str, named))
        return f"ElectLeadersReceived({self.request.election_type.value},{shown})"


class ElectLeadersTimeout(PendingRequestTimeout, frozen=True):
    """A pending ElectLeaders request timed out."""

    state: ClassVar[ControllerState] = ControllerState.MANUAL_LEADER_BALANCE


class AutoPreferredReplicaLeaderElection(ControllerEvent, frozen=True):
    """The timer of the leader imbalance check fired."""

    state: ClassVar[ControllerState] = ControllerState.AUTO_LEADER_BALANCE
    may_come_from_outside: ClassVar[bool] = False


class ControlledShutdown(RequestReceived, frozen=True):
    """A broker requests a controlled shutdown."""

    request: ControlledShutdownRequest
    state: ClassVar[ControllerState] = ControllerState.CONTROLLED_SHUTDOWN

    def __str__(self) -> str:
        return f"ControlledShutdown({self.request.broker_id},{self.request.broker_epoch})"


class ReplicaLeaderElection(ControllerEvent, frozen=True):
    """The znode /admin/preferred_replica_election was created, or must be read again."""

    state: ClassVar[ControllerState] = ControllerState.MANUAL_LEADER_BALANCE


class PartitionReassignmentIsrChange(ControllerEvent, frozen=True):
    """The state znode of a partition that is being reassigned changed."""

    topic_partition: TopicPartition
    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT


class ApiPartitionReassignment(RequestReceived, frozen=True):
    """A client requests reassignments (KIP-455)."""

    request: AlterPartitionReassignmentsRequest
    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT

    def __str__(self) -> str:
        return f"ApiPartitionReassignment({','.join(map(str, self.request.reassignments))})"


class ListPartitionReassignments(RequestReceived, frozen=True):
    """A client requests the list of ongoing reassignments."""

    request: ListPartitionReassignmentsRequest
    state: ClassVar[ControllerState] = ControllerState.LIST_PARTITION_REASSIGNMENT

    def __str__(self) -> str:
        return "ListPartitionReassignments"


class ResponseReceived(ControllerEvent, frozen=True):
    """Base class of brokers' responses to control requests."""

    broker_id: int
    correlation_id: int
    response: ControlResponse
    state: ClassVar[ControllerState] = ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED
    may_come_from_outside: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.broker_id})"

    @classmethod
    def of(cls, message: Message) -> Self:
        """Return the event for the message that carries the response."""
        body: Any = message.body
        return cls(message.source.id, message.correlation_id, body)


class LeaderAndIsrResponseReceived(ResponseReceived, frozen=True):
    """A broker responded to a LeaderAndIsr request."""

    response: LeaderAndIsrResponse
    state: ClassVar[ControllerState] = ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED


class UpdateMetadataResponseReceived(ResponseReceived, frozen=True):
    """A broker responded to an UpdateMetadata request."""

    response: UpdateMetadataResponse


class MetadataUpdated(ControllerEvent, frozen=True):
    """The metadata of this broker, which is not the controller, was updated.

    Kafka has no such event: its brokers complete delayed requests when they update their metadata.
    """

    state: ClassVar[ControllerState] = ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED
    survives_clearing: ClassVar[bool] = True


class StopReplicaResponseReceived(ResponseReceived, frozen=True):
    """A broker responded to a StopReplica request."""

    response: StopReplicaResponse
    state: ClassVar[ControllerState] = ControllerState.TOPIC_DELETION


class RequestTimeout(ControllerEvent, frozen=True):
    """A control request may have timed out without a response from the broker."""

    broker_id: int
    state: ClassVar[ControllerState] = ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED
    may_come_from_outside: ClassVar[bool] = False
