"""From a message to the event that it means: requests to the controller, and brokers' answers.

Nothing is processed or answered here. The counterpart of what kafka/server/KafkaApis.scala hands to
the controller, and of the callbacks of kafka/controller/ControllerChannelManager.scala.
"""

from __future__ import annotations

from cluster.requests import (
    AlterIsrRequest,
    AlterPartitionReassignmentsRequest,
    ControlledShutdownRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    LeaderAndIsrResponse,
    ListPartitionReassignmentsRequest,
    Message,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from controller.events import (
    AlterIsrReceived,
    ApiPartitionReassignment,
    ControlledShutdown,
    ControllerEvent,
    CreateTopicsReceived,
    DeleteTopicsReceived,
    ElectLeadersReceived,
    LeaderAndIsrResponseReceived,
    ListPartitionReassignments,
    StopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)


def event_of_message(message: Message) -> ControllerEvent | None:
    """The event that a message means; None for what a controller never gets."""
    body, broker_id, number = message.body, message.source.id, message.correlation_id
    match body:
        case AlterIsrRequest():
            return AlterIsrReceived(message, body)
        case CreateTopicsRequest():
            return CreateTopicsReceived(message, body)
        case AlterPartitionReassignmentsRequest():
            return ApiPartitionReassignment(message, body)
        case ListPartitionReassignmentsRequest():
            return ListPartitionReassignments(message, body)
        case ElectLeadersRequest():
            return ElectLeadersReceived(message, body)
        case ControlledShutdownRequest():
            return ControlledShutdown(message, body)
        case DeleteTopicsRequest():
            return DeleteTopicsReceived(message, body)
        case LeaderAndIsrResponse():
            return LeaderAndIsrResponseReceived(broker_id, number, body)
        case UpdateMetadataResponse():
            return UpdateMetadataResponseReceived(broker_id, number, body)
        case StopReplicaResponse():
            return StopReplicaResponseReceived(broker_id, number, body)
        case _:
            return None
