"""Handlers for responses to control requests, and for control requests that timed out.

Before a handler processes a response, the next queued request is sent to the broker. Mirrors
processLeaderAndIsrResponseReceived and processUpdateMetadataResponseReceived of
kafka/controller/KafkaController.scala, and RequestSendThread of ControllerChannelManager.scala.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import Kind
from klamm.cluster.types import TopicPartition
from klamm.controller.channel_manager import InFlight
from klamm.controller.events import (
    CreateTopicsTimeout,
    DeleteTopicsTimeout,
    ElectLeadersTimeout,
    LeaderAndIsrResponseReceived,
    MetadataUpdated,
    PendingRequestTimeout,
    RequestTimeout,
    ResponseReceived,
    StopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from klamm.controller.on_broker_change import on_replicas_become_offline
from klamm.controller.request_sender import request_name
from klamm.controller.state_change_log import Source
from klamm.controller.topic_deletion_manager import process_deleted_replicas
from klamm.statemachines.replica_state import ReplicaState

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController

_OFFLINE: Final = ReplicaState.OFFLINE


def process_leader_and_isr_response(
    controller: KafkaController, event: LeaderAndIsrResponseReceived
) -> None:
    """Take replicas with the error KAFKA_STORAGE_ERROR offline: their log directory has failed.

    Offline replicas for which the response has no error are brought back online.
    """
    if _answered(controller, event) is None or not controller.is_active:
        return
    context, broker_id, response = controller.context, event.broker_id, event.response
    if response.error is not Errors.NONE:
        _log_error(controller, event, "LeaderAndIsr", response.error)
        return
    before = context.replicas_on_offline_dirs.get(broker_id, set())
    errors = response.partition_errors
    failed = {tp for tp, error in errors.items() if error is Errors.KAFKA_STORAGE_ERROR}
    if not before and not failed:
        return
    now = before.difference(tp for tp, error in errors.items() if error is Errors.NONE) | failed
    if now:
        context.replicas_on_offline_dirs[broker_id] = now
    else:
        context.replicas_on_offline_dirs.pop(broker_id, None)
    if before - now:
        _on_replicas_restored(controller, broker_id, sorted(before - now))
    newly_offline = sorted(now - before)
    if newly_offline:
        shown = ",".join(map(str, newly_offline))
        controller.log.state_change(
            "INFO",
            [f"Mark replicas {shown} on broker {broker_id} as offline"],
            with_epoch=False,
        )
        on_replicas_become_offline(controller, {broker_id: newly_offline})


def _on_replicas_restored(
    controller: KafkaController, broker_id: int, partitions: Sequence[TopicPartition]
) -> None:
    """Bring replicas back online after their log directory has recovered.

    Topic deletions that waited for these replicas are resumed. In Kafka 2.8.2 such replicas come
    back online only when the broker restarts.
    """
    context = controller.context
    offline = [tp for tp in partitions if context.replica_state(broker_id, tp) is _OFFLINE]
    if offline:
        controller.replica_state_machine.handle_state_changes(
            {broker_id: offline}, ReplicaState.ONLINE
        )
    controller.topic_deletion_manager.resume_deletion_for_topics({tp.topic for tp in partitions})


def process_update_metadata_response(
    controller: KafkaController, event: UpdateMetadataResponseReceived
) -> None:
    """Respond to the pending client requests whose outcome this broker's metadata now shows."""
    if _answered(controller, event) is None or not controller.is_active:
        return
    if event.response.error is not Errors.NONE:
        _log_error(controller, event, "UpdateMetadata", event.response.error)
    if event.broker_id == controller.config.broker_id:
        _complete_pending_requests(controller)


def process_metadata_updated(controller: KafkaController, _: MetadataUpdated) -> None:
    """Respond to the pending client requests of a former controller, as the metadata shows them.

    The broker was sent the metadata by the next controller, which gets the broker's response.
    """
    _complete_pending_requests(controller)


def _complete_pending_requests(controller: KafkaController) -> None:
    for kind in (CreateTopicsTimeout, DeleteTopicsTimeout, ElectLeadersTimeout):
        controller.pending_requests.complete(kind)


def process_pending_request_timeout(
    controller: KafkaController, event: PendingRequestTimeout
) -> None:
    """Respond to a pending client request that has timed out."""
    controller.pending_requests.expire(event)


def process_stop_replica_response(
    controller: KafkaController, event: StopReplicaResponseReceived
) -> None:
    """Record which replicas a broker has deleted, and delete topics that have no replicas left."""
    answered = _answered(controller, event)
    if answered is not None and controller.is_active:
        process_deleted_replicas(controller, event.broker_id, answered.request, event.response)


def process_request_timeout(controller: KafkaController, event: RequestTimeout) -> None:
    """Resend a control request if the broker has not responded within the timeout."""
    broker_id = event.broker_id
    overdue = controller.channels.on_timeout(broker_id)
    if overdue is not None:
        controller.log.warn(
            f"Controller {controller.config.broker_id} epoch {controller.context.epoch} fails to "
            f"send request {request_name(overdue.request)} to broker {broker_id}. "
            "Reconnecting to broker.",
            Source.CHANNEL_MANAGER,
        )


def _answered(controller: KafkaController, event: ResponseReceived) -> InFlight | None:
    """Return the request that the response belongs to, or None if the response came too late.

    A response is too late if the request was resent after a timeout, or if the broker was removed.
    """
    answered = controller.channels.on_response(event.broker_id, event.correlation_id)
    if answered is None:
        return None
    # The cause of everything that follows is the event that sent the request.
    controller.events.attribute_to(answered.event_id)
    name = request_name(answered.request)
    if controller.config.journal_messages:
        controller.recorder.occurrence(
            Kind.RESPONSE_RECEIVED,
            replica=event.broker_id,
            detail=name,
            outcome=_error_of(event).name,
        )
    if controller.log.is_trace:
        controller.log.state_change(
            "TRACE",
            [
                f"Received response {type(event.response).__name__}Data"
                f"(errorCode={int(_error_of(event))}) for request {name} with correlation id "
                f"{event.correlation_id} sent to broker {event.broker_id}"
            ],
        )
    return answered


def _error_of(event: ResponseReceived) -> Errors:
    return event.response.error


def _log_error(
    controller: KafkaController, event: ResponseReceived, kind: str, error: Errors
) -> None:
    controller.log.state_change(
        "ERROR",
        [
            f"Received error {error.name} in {kind} response "
            f"{type(event.response).__name__} from broker {event.broker_id}"
        ],
        with_epoch=False,
    )
