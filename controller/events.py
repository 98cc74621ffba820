"""What the controller's event thread can be told: frozen values, no behaviour.

An event names what happened, never what to do about it, and holds no closure: whoever must be
answered is named by address and correlation id. Mirrors the ControllerEvent case classes at the
end of kafka/controller/KafkaController.scala, and kafka/controller/ControllerState.scala.
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
    """What the event thread is busy with: Kafka's number, and its timer's name if it has one."""

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
        """The value of the ControllerState metric."""
        return self.value[0]

    @property
    def timer(self) -> str | None:
        """The name of the rate-and-time metric under ControllerStats."""
        return self.value[1]


class ControllerEvent(msgspec.Struct, frozen=True):
    """Base of all events; ``state`` is what the thread is busy with while it processes one.

    ``may_come_from_outside``: no other event need have caused it.
    """

    state: ClassVar[ControllerState] = ControllerState.CONTROLLER_CHANGE
    may_come_from_outside: ClassVar[bool] = True

    def __str__(self) -> str:
        fields = ",".join(str(getattr(self, name)) for name in self.__struct_fields__)
        name = type(self).__name__
        return f"{name}({fields})" if fields else name


class Startup(ControllerEvent, frozen=True):
    """The process came up: watch /controller and try to be elected."""


class ControllerChange(ControllerEvent, frozen=True):
    """/controller was created or changed."""


class Reelect(ControllerEvent, frozen=True):
    """/controller was deleted, or the candidacy has changed."""


class Expire(ControllerEvent, frozen=True):
    """The session is over. ``reopen`` False: the client only pretends, the session lives on."""

    reopen: bool = True


class RegisterBrokerAndReelect(ControllerEvent, frozen=True):
    """A new session began: register the broker again, then try to be elected."""

    may_come_from_outside: ClassVar[bool] = False


class ShutdownEventThread(ControllerEvent, frozen=True):
    """The process stops: resign, and process nothing more."""

    state: ClassVar[ControllerState] = ControllerState.CONTROLLER_SHUTDOWN


class BrokerChange(ControllerEvent, frozen=True):
    """The children of /brokers/ids changed."""

    state: ClassVar[ControllerState] = ControllerState.BROKER_CHANGE


class BrokerModifications(ControllerEvent, frozen=True):
    """The data of one broker's registration changed."""

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
    """A state znode that could not be read was written anew; no event of Kafka's."""

    topic_partition: TopicPartition
    state: ClassVar[ControllerState] = ControllerState.ISR_CHANGE


class UncleanLeaderElectionEnable(ControllerEvent, frozen=True):
    """This broker's config allows leaders out of sync from now on."""

    state: ClassVar[ControllerState] = ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE


class TopicUncleanLeaderElectionEnable(ControllerEvent, frozen=True):
    """The config of a topic was changed and allows leaders out of sync."""

    topic: str
    state: ClassVar[ControllerState] = ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE


class RequestReceived(ControllerEvent, frozen=True):
    """A request to the controller; ``message`` names the client to answer."""

    message: Message
    request: Request

    @classmethod
    def of(cls, message: Message) -> Self:
        """Return the event for the message that carries the request."""
        body: Any = message.body
        return cls(message, body)


class PendingRequestTimeout(ControllerEvent, frozen=True):
    """The time that a client gave for the pending request with this number is over."""

    number: int
    may_come_from_outside: ClassVar[bool] = False


class AlterIsrReceived(RequestReceived, frozen=True):
    """A leader proposes ISRs."""

    request: AlterIsrRequest
    state: ClassVar[ControllerState] = ControllerState.ISR_CHANGE

    def __str__(self) -> str:
        request = self.request
        return f"AlterIsrReceived({request.broker_id},{request.broker_epoch})"


class CreateTopicsReceived(RequestReceived, frozen=True):
    """A client asks for topics."""

    request: CreateTopicsRequest
    state: ClassVar[ControllerState] = ControllerState.TOPIC_CHANGE

    def __str__(self) -> str:
        return f"CreateTopicsReceived({','.join(topic.name for topic in self.request.topics)})"


class CreateTopicsTimeout(PendingRequestTimeout, frozen=True):
    """The time a client gave for the creation with this number is over."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_CHANGE


class TopicDeletion(ControllerEvent, frozen=True):
    """The children of /admin/delete_topics changed."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_DELETION


class DeleteTopicsReceived(RequestReceived, frozen=True):
    """A client asks for the deletion of topics."""

    request: DeleteTopicsRequest
    state: ClassVar[ControllerState] = ControllerState.TOPIC_DELETION

    def __str__(self) -> str:
        return f"DeleteTopicsReceived({','.join(self.request.topics)})"


class DeleteTopicsTimeout(PendingRequestTimeout, frozen=True):
    """The time a client gave for the deletion with this number is over."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_DELETION


class ZkPartitionReassignment(ControllerEvent, frozen=True):
    """/admin/reassign_partitions was created, or may have changed."""

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT


class ElectLeadersReceived(RequestReceived, frozen=True):
    """A client asks for elections."""

    request: ElectLeadersRequest
    state: ClassVar[ControllerState] = ControllerState.MANUAL_LEADER_BALANCE

    def __str__(self) -> str:
        named = self.request.partitions
        shown = "all" if named is None else ",".join(map(str, named))
        return f"ElectLeadersReceived({self.request.election_type.value},{shown})"


class ElectLeadersTimeout(PendingRequestTimeout, frozen=True):
    """The time a client gave for the elections with this number is over."""

    state: ClassVar[ControllerState] = ControllerState.MANUAL_LEADER_BALANCE


class AutoPreferredReplicaLeaderElection(ControllerEvent, frozen=True):
    """It is time to see whether brokers lack leaderships that they are preferred for."""

    state: ClassVar[ControllerState] = ControllerState.AUTO_LEADER_BALANCE
    may_come_from_outside: ClassVar[bool] = False


class ControlledShutdown(RequestReceived, frozen=True):
    """A broker is about to stop."""

    request: ControlledShutdownRequest
    state: ClassVar[ControllerState] = ControllerState.CONTROLLED_SHUTDOWN

    def __str__(self) -> str:
        return f"ControlledShutdown({self.request.broker_id},{self.request.broker_epoch})"


class ReplicaLeaderElection(ControllerEvent, frozen=True):
    """/admin/preferred_replica_election was created, or may be there."""

    state: ClassVar[ControllerState] = ControllerState.MANUAL_LEADER_BALANCE


class PartitionReassignmentIsrChange(ControllerEvent, frozen=True):
    """The state znode of a partition that is being reassigned changed."""

    topic_partition: TopicPartition
    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT


class ApiPartitionReassignment(RequestReceived, frozen=True):
    """A client asks for other replicas."""

    request: AlterPartitionReassignmentsRequest
    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT

    def __str__(self) -> str:
        return f"ApiPartitionReassignment({','.join(map(str, self.request.reassignments))})"


class ListPartitionReassignments(RequestReceived, frozen=True):
    """A client asks what is being reassigned."""

    request: ListPartitionReassignmentsRequest
    state: ClassVar[ControllerState] = ControllerState.LIST_PARTITION_REASSIGNMENT

    def __str__(self) -> str:
        return "ListPartitionReassignments"


class ResponseReceived(ControllerEvent, frozen=True):
    """A broker answered a control request: its id, the request's correlation id, the answer."""

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
    """A broker answered a LeaderAndIsr request."""

    response: LeaderAndIsrResponse
    state: ClassVar[ControllerState] = ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED


class UpdateMetadataResponseReceived(ResponseReceived, frozen=True):
    """A broker answered an UpdateMetadata request."""

    response: UpdateMetadataResponse


class StopReplicaResponseReceived(ResponseReceived, frozen=True):
    """A broker answered a StopReplica request."""

    response: StopReplicaResponse
    state: ClassVar[ControllerState] = ControllerState.TOPIC_DELETION


class RequestTimeout(ControllerEvent, frozen=True):
    """It is time to see whether a broker still owes an answer."""

    broker_id: int
    state: ClassVar[ControllerState] = ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED
    may_come_from_outside: ClassVar[bool] = False
