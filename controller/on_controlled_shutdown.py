"""Handler for ControlledShutdown: moves leadership off a broker that is about to shut down.

The broker's follower replicas are stopped and removed from the ISRs.

Mirrors processControlledShutdown and doControlledShutdown of
kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import ControllerMoved
from klamm.cluster.refusals import refusal
from klamm.cluster.requests import ControlledShutdownRequest, ControlledShutdownResponse
from klamm.cluster.types import NO_BROKER_EPOCH, TopicPartition
from klamm.controller.events import ControlledShutdown
from klamm.controller.state_change_log import id_list
from klamm.statemachines.election import ControlledShutdownElection
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.replica_state import ReplicaState

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController

_ELECTION: Final = ControlledShutdownElection()


def process_controlled_shutdown(controller: KafkaController, event: ControlledShutdown) -> None:
    """Move leadership off a broker, and respond with the partitions that the broker still leads.

    Raises ControllerMoved, after the response was sent, if another controller was elected.
    """
    request = event.request
    error = _fence_broker(controller, request)
    if error is not None:
        controller.reply(event.message, refusal(request, error))
        return
    try:
        with controller.answering_failure(event):
            remaining = _drain(controller, request.broker_id)
    except ControllerMoved:
        if controller.quirks.fenced_controller_does_not_resign:
            return
        raise
    response = ControlledShutdownResponse(Errors.NONE, tuple(remaining))
    controller.reply(event.message, response)


def _fence_broker(controller: KafkaController, request: ControlledShutdownRequest) -> Errors | None:
    broker_id, broker_epoch = request.broker_id, request.broker_epoch
    known = controller.context.live_broker_epochs.get(broker_id)
    if known is None:
        controller.log.info(f"Broker id {broker_id} does not exist.")
        return Errors.BROKER_NOT_AVAILABLE
    if NO_BROKER_EPOCH != broker_epoch < known:
        controller.log.info(
            f"Received controlled shutdown request from an old broker epoch {broker_epoch} for "
            f"broker {broker_id}. Current broker epoch is {known}."
        )
        return Errors.STALE_BROKER_EPOCH
    return None


def _drain(controller: KafkaController, broker_id: int) -> list[TopicPartition]:
    """Move leadership off a broker, and stop the follower replicas on it.

    Return the partitions that the broker still leads. Partitions that have a single replica, never
    had a leader, or belong to a topic being deleted are not changed.
    """
    context, log = controller.context, controller.log
    log.info(f"Shutting down broker {broker_id}")
    context.add_shutting_down_broker(broker_id)
    log.debug(f"All shutting down brokers: {id_list(sorted(context.shutting_down_broker_ids))}")
    log.debug(f"Live brokers: {id_list(sorted(context.live_broker_ids))}")
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    for tp in context.replicas_on_broker(broker_id):
        leadership = context.partition_leadership_info(tp)
        if (
            leadership is not None
            and len(context.partition_replica_assignment(tp)) > 1
            and tp.topic not in context.topics_to_be_deleted
        ):
            (led if leadership.leader_and_isr.leader == broker_id else followed).append(tp)
    machine = controller.partition_state_machine
    machine.handle_state_changes(led, PartitionState.ONLINE, _ELECTION)
    if controller.quirks.stop_replica_before_the_epoch_bump:
        _stop_following(controller, broker_id, followed)
    if followed:
        offline = {broker_id: followed}
        controller.replica_state_machine.handle_state_changes(offline, ReplicaState.OFFLINE)
    if not controller.quirks.stop_replica_before_the_epoch_bump:
        # Send StopReplica after the leader epoch was incremented, because the broker rejects a
        # StopReplica with the leader epoch that it already has.
        _stop_following(controller, broker_id, followed)
    return context.partition_leaders_on_broker(broker_id)


def _stop_following(
    controller: KafkaController, broker_id: int, partitions: Sequence[TopicPartition]
) -> None:
    controller.begin_batch()
    for tp in partitions:
        controller.batch.add_stop_replica_request_for_brokers((broker_id,), tp, False)
    controller.sender.send(controller.batch)
