"""Handler for AlterIsr requests, in which leaders propose new ISRs (KIP-497).

Mirrors processAlterIsr of kafka/controller/KafkaController.scala. Three bugs of Kafka 2.8.2 occur
only if the quirk with the bug's name is on: KAFKA-14140, KAFKA-14154 and
fenced_controller_does_not_resign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import ControllerMoved, StateChangeFailed
from klamm.cluster.refusals import refusal
from klamm.cluster.requests import AlterIsrRequest, AlterIsrResponse
from klamm.cluster.types import LeaderAndIsr, LeaderIsrAndControllerEpoch, TopicPartition
from klamm.controller.events import AlterIsrReceived
from klamm.controller.on_reassignment import maybe_complete_reassignments
from klamm.controller.recorder import IsrChange

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController

_Answers = dict[TopicPartition, LeaderAndIsr | Errors]


def process_alter_isr(controller: KafkaController, event: AlterIsrReceived) -> None:
    """Write the accepted ISRs to ZooKeeper, send UpdateMetadata to all brokers, and respond.

    Raises ControllerMoved, after the response was sent, if another controller was elected.
    """
    request = event.request
    error = _fence_broker(controller, request)
    if error is not None:
        controller.reply(event.message, refusal(request, error))
        return
    with controller.answering_failure(event):
        try:
            answers = _alter(controller, request)
        except ControllerMoved as moved:
            if not controller.quirks.fenced_controller_does_not_resign:
                raise
            controller.log.error("Error when processing AlterIsr", error=moved)
            controller.reply(event.message, refusal(request, Errors.UNKNOWN_SERVER_ERROR))
            return
    controller.reply(event.message, AlterIsrResponse(Errors.NONE, answers))
    maybe_complete_reassignments(
        controller, [tp for tp, answer in answers.items() if isinstance(answer, LeaderAndIsr)]
    )


def _fence_broker(controller: KafkaController, request: AlterIsrRequest) -> Errors | None:
    broker_id = request.broker_id
    broker_epoch = controller.context.live_broker_epochs.get(broker_id)
    if broker_epoch is None:
        controller.log.info(f"Ignoring AlterIsr due to unknown broker {broker_id}")
        return Errors.STALE_BROKER_EPOCH
    # The request was sent before the broker restarted, so it no longer leads those partitions.
    if broker_epoch != request.broker_epoch:
        controller.log.info(
            f"Ignoring AlterIsr due to stale broker epoch {request.broker_epoch} "
            f"for broker {broker_id}"
        )
        return Errors.STALE_BROKER_EPOCH
    return None


def _alter(controller: KafkaController, request: AlterIsrRequest) -> _Answers:
    """Write the accepted ISRs, and return a result for every partition of the request."""
    context, log = controller.context, controller.log
    answers: _Answers = {}
    accepted: dict[TopicPartition, LeaderAndIsr] = {}
    for tp, proposed in request.partitions.items():
        answer = _answer_without_writing(controller, tp, proposed)
        if answer is None:
            accepted[tp] = proposed
        else:
            answers[tp] = answer
    if log.is_debug:
        log.debug(f"Updating ISRs for partitions: {', '.join(map(str, accepted))}.")
    if accepted:
        written = controller.controller_zk.update_leader_and_isr(
            accepted, context.epoch, context.epoch_zk_version
        )
        changes: list[IsrChange] = []
        for tp, stored in (written.finished | written.missing).items():
            if isinstance(stored, StateChangeFailed):
                log.error(f"Failed to update ISR for partition {tp}: {stored.reason}")
                answers[tp] = Errors.UNKNOWN_SERVER_ERROR
            else:
                changes.append(_remember(controller, tp, stored))
                answers[tp] = stored
        controller.recorder.isrs_changed(changes)
        for tp in written.retry:
            log.info(f"Failed to update ISR to {accepted[tp]} for partition {tp}, bad ZK version.")
            answers[tp] = Errors.INVALID_UPDATE_VERSION
    for tp, answer in answers.items():
        if isinstance(answer, Errors):
            controller.recorder.alter_isr_refused(tp, request.partitions[tp], answer.name)
    controller.send_update_metadata_request(
        context.live_or_shutting_down_broker_ids, request.partitions
    )
    return answers


def _answer_without_writing(
    controller: KafkaController, tp: TopicPartition, proposed: LeaderAndIsr
) -> LeaderAndIsr | Errors | None:
    """Return the result if the proposed ISR is rejected, ineligible, or already the current ISR.

    Return None if the proposed ISR has to be written to ZooKeeper.
    """
    context, quirks = controller.context, controller.quirks
    leadership = context.partition_leadership_info(tp)
    if leadership is None:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    current = leadership.leader_and_isr
    if not quirks.kafka_14154 and (
        proposed.leader_epoch > current.leader_epoch or proposed.zk_version > current.zk_version
    ):
        # The leader's state was written by a newer controller.
        return Errors.NOT_CONTROLLER
    # The leader was replaced or its epoch incremented, and the LeaderAndIsr request is still on its
    # way to the old leader.
    if proposed.leader_epoch < current.leader_epoch:
        return Errors.FENCED_LEADER_EPOCH
    # This is a retry after a lost response: a second write would only increment the zkVersion.
    if proposed.equals_ignoring_zk_version(current):
        return current
    # A fetch that a broker sent before it died must not return its replica to the ISR. The answer
    # is the current ISR, as if there were nothing to change: Kafka 2.8.2 would never propose an ISR
    # again after an error like OPERATION_NOT_ATTEMPTED (Partition.handleAlterIsrResponse).
    if not quirks.kafka_14140 and not context.live_broker_ids.issuperset(proposed.isr):
        controller.recorder.alter_isr_refused(tp, proposed, Errors.OPERATION_NOT_ATTEMPTED.name)
        return current
    return None


def _remember(controller: KafkaController, tp: TopicPartition, stored: LeaderAndIsr) -> IsrChange:
    context = controller.context
    previous = context.partition_leadership_info(tp)
    # ZooKeeper accepted the proposal at the version that the leader knew. A newer cached state
    # would be reverted here, and the next election would fence the legitimate leader.
    assert previous is None or (
        stored.zk_version > previous.leader_and_isr.zk_version
        and stored.leader_epoch >= previous.leader_and_isr.leader_epoch
    ), f"{tp}: the stored state {stored} is not newer than the cached state {previous}"
    leadership = LeaderIsrAndControllerEpoch(stored, context.epoch)
    context.put_partition_leadership_info(tp, leadership)
    if controller.log.is_debug:
        isr = ",".join(map(str, stored.isr))
        controller.log.debug(
            f"ISR for partition {tp} updated to [{isr}] "
            f"and zkVersion updated to [{stored.zk_version}]"
        )
    return tp, leadership, previous
