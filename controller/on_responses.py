"""What brokers answered to control requests, and those who did not answer in time.

Every answer first lets the channel send what waits. Mirrors processLeaderAndIsrResponseReceived
and processUpdateMetadataResponseReceived of kafka/controller/KafkaController.scala, and
RequestSendThread of ControllerChannelManager.scala.
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
    """Take replicas answered with KAFKA_STORAGE_ERROR offline: they are on a failed directory.

    Those that were offline and are answered with NONE are back.
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
    """Put replicas online that are no longer on a failed directory; go on with the deletion of
    topics that waited for them. In Kafka 2.8.2 only a broker that starts again has such replicas.
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
    """This broker's own metadata may now show the leaders that somebody waits for, or no longer
    the topics that somebody wants gone."""
    if _answered(controller, event) is None or not controller.is_active:
        return
    if event.response.error is not Errors.NONE:
        _log_error(controller, event, "UpdateMetadata", event.response.error)
    if event.broker_id == controller.config.broker_id:
        for kind in (CreateTopicsTimeout, DeleteTopicsTimeout, ElectLeadersTimeout):
            controller.pending_requests.complete(kind)


def process_pending_request_timeout(
    controller: KafkaController, event: PendingRequestTimeout
) -> None:
    """The time that a client gave is over: answer with what the metadata shows by now."""
    controller.pending_requests.expire(event)


def process_stop_replica_response(
    controller: KafkaController, event: StopReplicaResponseReceived
) -> None:
    """A broker stopped replicas, or deleted them; a topic may be gone with its last one."""
    answered = _answered(controller, event)
    if answered is not None and controller.is_active:
        process_deleted_replicas(controller, event.broker_id, answered.request, event.response)


def process_request_timeout(controller: KafkaController, event: RequestTimeout) -> None:
    """Ask again a broker that owes an answer for too long."""
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
    """The request that was answered, None if the answer comes too late to matter."""
    answered = controller.channels.on_response(event.broker_id, event.correlation_id)
    if answered is None:
        return None
    # What follows from the answer was caused by the event that sent the request.
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
