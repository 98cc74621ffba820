"""Handlers that start, resume, complete, cancel and list reassignments.

Reassignments are requested in /admin/reassign_partitions or through the API (KIP-455).

partition_reassignments.py executes the reassignments. Mirrors processZkPartitionReassignment,
processApiPartitionReassignment, processListPartitionReassignments,
maybeTriggerPartitionReassignment, maybeCompleteReassignment and maybeRemoveFromZkReassignment of
kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from klamm.admin.failures import message_of
from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import Kind
from klamm.cluster.requests import (
    NO_SUCH_PARTITION,
    AlterPartitionReassignmentsResponse,
    ApiError,
    ListPartitionReassignmentsResponse,
)
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.controller.events import (
    ApiPartitionReassignment,
    ListPartitionReassignments,
    PartitionReassignmentIsrChange,
    ZkPartitionReassignment,
)
from klamm.placement.pool_rules import outside_pool_text
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.reassignment import (
    NO_BROKER_IDS,
    Assignments,
    assignments_with_strays,
    build_reassignment,
    is_reassignment_complete,
    reassignment_id,
    refuse_reassignment,
    stray_replicas,
    unneeded_replicas,
    validate_replicas,
)
from klamm.statemachines.replica_state import ReplicaState
from klamm.zk.znodes import ReassignPartitionsZNode

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController

_Results = dict[TopicPartition, ApiError]
_PATH: Final = ReassignPartitionsZNode.path
_NONE: Final = ApiError()
_NOT_IN_PROGRESS: Final = ApiError(Errors.NO_REASSIGNMENT_IN_PROGRESS)
_UNKNOWN_ERROR: Final = ApiError(Errors.UNKNOWN_SERVER_ERROR)


# Requests


def process_zk_partition_reassignment(
    controller: KafkaController, _: ZkPartitionReassignment
) -> None:
    """Start the reassignments newly listed in /admin/reassign_partitions, and watch the znode."""
    _reassign_as_znode_asks(controller)


def _reassign_as_znode_asks(controller: KafkaController) -> set[TopicPartition]:
    """Start the reassignments newly listed in the znode, and remove invalid entries from it.

    Return the partitions whose reassignment was started.
    """
    if not controller.zk.path_exists(_PATH, watch=True):
        controller.reassignments.retain_acknowledged({})
        return set()
    entries = controller.reassignments.read_znode().entries
    targets = controller.reassignments.acknowledge(entries)
    asked = {tp: target for tp, target in targets.items() if target is not None}
    wanted, results = _build_reassignments(controller, asked, _refuse_no_brokers)
    results.update((tp, NO_BROKER_IDS) for tp in targets if tp not in asked)
    results.update(_maybe_trigger_partition_reassignment(controller, wanted))
    failed = {tp: error for tp, error in results.items() if error.error is not Errors.NONE}
    if failed:
        shown = ", ".join(
            f"{tp} -> ApiError(error={error.error.name}, message={message_of(error)})"
            for tp, error in failed.items()
        )
        controller.log.warn(
            f"Failed reassignment through zk with the following errors: Map({shown})"
        )
    if failed or (not entries and not controller.quirks.kafka_9478):
        controller.reassignments.maybe_remove_from_zk_reassignment(lambda tp, _: tp in failed)
    return {tp for tp in results if tp not in failed}


def process_api_partition_reassignment(
    controller: KafkaController, event: ApiPartitionReassignment
) -> None:
    """Start, override or cancel reassignments, and respond with the outcome for each partition.

    Any entries for these partitions in /admin/reassign_partitions are first removed. Raises
    ControllerMoved, after the response was sent, if another controller was elected.
    """
    with controller.answering_failure(event):
        results = _alter(controller, event.request.reassignments)
    controller.reply(event.message, AlterPartitionReassignmentsResponse(_NONE, results))


def _alter(
    controller: KafkaController, asked: Mapping[TopicPartition, tuple[int, ...] | None]
) -> _Results:
    wanted, results = _build_reassignments(controller, asked, validate_replicas)
    controller.reassignments.maybe_remove_from_zk_reassignment(lambda tp, _: tp in wanted)
    results.update(_maybe_trigger_partition_reassignment(controller, wanted))
    return {tp: results[tp] for tp in asked}


def _build_reassignments(
    controller: KafkaController,
    asked: Mapping[TopicPartition, tuple[int, ...] | None],
    refuse: Callable[[ControllerContext, TopicPartition, tuple[int, ...]], ApiError | None],
) -> tuple[Assignments, _Results]:
    """Return ({partition: new assignment} if the request is valid, {partition: error} if not)."""
    wanted: Assignments = {}
    refused: _Results = {}
    for tp, target in asked.items():
        error = None
        if target is not None:
            error = refuse(controller.context, tp, target)
            error = error or _refuse_outside_pool(controller, tp, target)
        reassignment = None if error else build_reassignment(controller.context, tp, target)
        if reassignment is None:
            refused[tp] = error or _NOT_IN_PROGRESS
        else:
            wanted[tp] = reassignment
    return wanted, refused


def _refuse_no_brokers(
    context: ControllerContext, tp: TopicPartition, target: tuple[int, ...]
) -> ApiError | None:
    """Return an error if a znode entry lists no brokers or negative broker ids, else None.

    Unlike an API request, an entry may list a dead broker: the reassignment waits until the broker
    returns. The quirk empty_reassignment_is_started allows an entry without replicas.
    """
    is_possible = min(target) >= 0 if target else context.quirks.empty_reassignment_is_started
    return None if is_possible else validate_replicas(context, tp, target)


def _refuse_outside_pool(
    controller: KafkaController, tp: TopicPartition, target: Sequence[int]
) -> ApiError | None:
    """Return an error if ``target`` adds replicas outside the topic's pool, else None."""
    pools, current = controller.config.pools, controller.context.assignments.get(tp)
    if current is None:
        return None
    text = outside_pool_text(pools, tp, current.reassign_to(target).adding_replicas)
    return None if text is None else ApiError(Errors.INVALID_REPLICA_ASSIGNMENT, text)


def process_list_partition_reassignments(
    controller: KafkaController, event: ListPartitionReassignments
) -> None:
    """Respond with the ongoing reassignments of the requested partitions."""
    context = controller.context
    partitions = event.request.partitions
    if partitions is None:
        partitions = tuple(sorted(context.partitions_being_reassigned))
    moving = {
        tp: assignment
        for tp in partitions
        if (assignment := context.partition_full_replica_assignment(tp)).is_being_reassigned
    }
    controller.reply(event.message, ListPartitionReassignmentsResponse(_NONE, moving))


def _maybe_trigger_partition_reassignment(
    controller: KafkaController, reassignments: Assignments
) -> _Results:
    """Start the valid reassignments, and return {partition: error or NONE}."""
    results: _Results = {}
    accepted: Assignments = {}
    for tp, reassignment in reassignments.items():
        refused = _refuse_to_begin(controller, tp, reassignment)
        if refused is None:
            accepted[tp] = reassignment
        else:
            results[tp] = refused
            _journal_failed(controller, tp, reassignment, _text(refused))
    failed = _continue(controller, accepted)
    return results | {tp: _UNKNOWN_ERROR if tp in failed else _NONE for tp in accepted}


def _refuse_to_begin(
    controller: KafkaController, tp: TopicPartition, reassignment: ReplicaAssignment
) -> ApiError | None:
    context = controller.context
    if tp.topic in context.topics_to_be_deleted:
        controller.log.info(
            f"Skipping reassignment of {tp} since the topic is currently being deleted"
        )
        return NO_SUCH_PARTITION
    if not context.partition_replica_assignment(tp):
        return NO_SUCH_PARTITION
    return refuse_reassignment(context, tp, reassignment)


# Resumption


def initialize_partition_reassignments(controller: KafkaController) -> None:
    """Resume reassignments after a failover.

    First, stray replicas are removed: they are left behind if the controller crashes while it
    cancels a reassignment, or if another client changes the replicas in a topic znode while there
    is no controller. Then the entries of /admin/reassign_partitions are resumed, and finally the
    reassignments stored in topic znodes.
    """
    if not controller.quirks.crash_leaves_stray_replicas:
        _stop_stray_replicas(controller)
    edited = () if controller.quirks.kafka_12493 else _reassign_edited_partitions(controller)
    resumed = {*edited, *_reassign_as_znode_asks(controller)}
    maybe_resume_reassignments(controller, lambda tp, _: tp not in resumed)


def _stop_stray_replicas(controller: KafkaController) -> None:
    context = controller.context
    strays = stray_replicas(context)
    for tp, replicas in strays.items():
        controller.log.warn(
            f"Replicas {','.join(map(str, replicas))} of partition {tp} are in the ISR but not "
            "assigned: removing them from the ISR"
        )
        for broker_id in replicas:
            context.put_replica_states(broker_id, [tp], ReplicaState.ONLINE)
    controller.reassignments.stop_unneeded_replicas(strays)


def _reassign_edited_partitions(controller: KafkaController) -> Collection[TopicPartition]:
    """Reassign the partitions whose assignment lacks every replica that can lead; return them.

    Another client changed the replicas while there was no controller. The replicas that have the
    records stay until the new ones are in sync. Kafka 2.8.2 moves no data (KAFKA-12493).
    """
    context = controller.context
    edited = assignments_with_strays(context)
    for tp, assignment in edited.items():
        controller.log.warn(
            f"Another client changed the replicas of partition {tp} in the topic znode: "
            f"reassigning it to {','.join(map(str, assignment.target_replicas))}"
        )
        for broker_id in unneeded_replicas(assignment, context.assignments[tp]):
            context.put_replica_states(broker_id, [tp], ReplicaState.ONLINE)
    if edited:
        _continue(controller, edited)
        controller.partition_state_machine.trigger_online_partition_state_change()
    return edited


def maybe_resume_reassignments(
    controller: KafkaController,
    should_resume: Callable[[TopicPartition, ReplicaAssignment], bool],
) -> None:
    """Continue the ongoing reassignments for which ``should_resume`` returns True."""
    context = controller.context
    resumed: Assignments = {}
    for tp in sorted(context.partitions_being_reassigned):
        assignment = context.partition_full_replica_assignment(tp)
        if should_resume(tp, assignment):
            resumed[tp] = assignment
    _continue(controller, resumed)


def maybe_complete_reassignments(
    controller: KafkaController, partitions: Iterable[TopicPartition]
) -> None:
    """Complete those reassignments of ``partitions`` whose target replicas are all in sync."""
    context = controller.context
    completed: Assignments = {}
    for tp in partitions:
        if tp not in context.partitions_being_reassigned:
            continue
        assignment = context.partition_full_replica_assignment(tp)
        if is_reassignment_complete(context, tp, assignment):
            completed[tp] = assignment
    controller.log.infos(
        f"Target replicas ArrayBuffer({', '.join(map(str, assignment.target_replicas))}) "
        f"have all caught up with the leader for reassigning partition {tp}"
        for tp, assignment in completed.items()
    )
    _continue(controller, completed)


def _continue(controller: KafkaController, assignments: Assignments) -> Collection[TopicPartition]:
    """Continue reassignments as far as possible, and return the partitions that failed."""
    if not assignments:
        return ()
    failures = controller.reassignments.on_partition_reassignment(assignments)
    for tp, failure in failures.items():
        controller.log.error(f"Error completing reassignment of partition {tp}: {failure.reason}")
        _journal_failed(controller, tp, assignments[tp], failure.reason)
    return failures


def _journal_failed(
    controller: KafkaController, tp: TopicPartition, reassignment: ReplicaAssignment, reason: str
) -> None:
    controller.recorder.occurrence(
        Kind.REASSIGNMENT_FAILED,
        topic=tp.topic,
        partition=tp.partition,
        reassignment_id=reassignment_id(tp, reassignment),
        outcome=reason,
    )


def process_partition_reassignment_isr_change(
    controller: KafkaController, event: PartitionReassignmentIsrChange
) -> None:
    """Complete the reassignment of a partition if all target replicas have joined the ISR.

    Events of this type that directly follow in the queue are processed together with ``event``, so
    that their reads and writes share pipelined batches.
    """
    changed = [event.topic_partition]
    for queued, following in controller.events.take_following(PartitionReassignmentIsrChange):
        with controller.events.processing(queued):
            controller.recorder.occurrence(Kind.EVENT, detail=str(following))
        changed.append(following.topic_partition)
    moving = controller.context.partitions_being_reassigned
    moved = [each for each in dict.fromkeys(changed) if each in moving]
    controller.refresh_leaderships(moved, watch=True)
    maybe_complete_reassignments(controller, moved)


def _text(error: ApiError) -> str:
    message = "" if error.message is None else f": {error.message}"
    return f"{error.error.name}{message}"
