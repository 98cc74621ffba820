"""Decisions about partition reassignments: validation, phases and leadership changes.

The functions do no I/O: they plan the steps of a reassignment from the controller context, and
update the context with the results of ZooKeeper writes. Mirrors onPartitionReassignment and its
helpers in kafka/controller/KafkaController.scala (KIP-455).

Kafka's abbreviations: RS is the assigned replica set, ORS the original replica set, TRS the target
replica set. AR are the added replicas, RR the removed replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.requests import ApiError
from klamm.cluster.types import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicIdReplicaAssignment,
    TopicPartition,
)
from klamm.statemachines.context import ControllerContext, ReplicasByBroker, replicas_by_broker
from klamm.statemachines.replica_state import ReplicaState
from klamm.statemachines.request_batch import ControllerBrokerRequestBatch

Assignments = dict[TopicPartition, ReplicaAssignment]
Replicas = dict[TopicPartition, tuple[int, ...]]


class Phase(StrEnum):
    """Phases of a reassignment, with Kafka's names.

    The U phases store the reassignment in ZooKeeper and in the context. The A phases start the
    added replicas if any target replica is not in sync. The B phases complete the reassignment once
    all target replicas are in sync.
    """

    U1 = "U1"
    """Store RS = TRS + ORS, AR and RR in the topic znode."""
    U2 = "U2"
    """Store the same assignment in the controller context."""
    U3 = "U3"
    """Stop the replicas that an earlier reassignment added and this reassignment does not need."""
    A1 = "A1"
    """Increment the leader epoch and send RS, AR and RR to every replica."""
    A2 = "A2"
    """Move AR to NewReplica."""
    B1 = "B1"
    """Move AR to OnlineReplica."""
    B2 = "B2"
    """Store RS = TRS, without AR and RR, in the context."""
    B3 = "B3"
    """Elect a leader in TRS, or increment the epoch of a leader that is already in TRS."""
    B4 = "B4"
    """Move RR to OfflineReplica and remove them from the ISR."""
    B5 = "B5"
    """Move RR to NonExistentReplica: the brokers delete the removed replicas."""
    B6 = "B6"
    """Store RS = TRS in the topic znode."""
    B7 = "B7"
    """Remove the partition from the ongoing reassignments and /admin/reassign_partitions."""
    B8 = "B8"
    """Send the new replicas and leader to every broker."""


def reassignment_id(tp: TopicPartition, assignment: ReplicaAssignment) -> str:
    """Return a reassignment's id in the journal, which stays the same after a failover."""
    return f"{tp}->{target_text(assignment)}"


def target_text(assignment: ReplicaAssignment) -> str:
    """Format the target replicas as in a reassignment id, e.g. ``3,4``."""
    return ",".join(map(str, assignment.target_replicas))


# Requests


def build_reassignment(
    context: ControllerContext, tp: TopicPartition, target: Sequence[int] | None
) -> ReplicaAssignment | None:
    """Return the assignment to store in order to reassign a partition to the brokers ``target``.

    If ``target`` is None, return the original assignment, which cancels the ongoing reassignment,
    or None if there is no reassignment to cancel.
    """
    current = context.partition_full_replica_assignment(tp)
    if target is None:
        if not current.is_being_reassigned:
            return None
        target = current.origin_replicas
    return current.reassign_to(target)


def validate_replicas(
    context: ControllerContext, tp: TopicPartition, replicas: Sequence[int]
) -> ApiError | None:
    """Return Kafka's error if ``replicas`` is not a valid reassignment target, else None."""
    listed = f"ArrayBuffer({', '.join(map(str, replicas))})"
    if not replicas:
        return EMPTY_REPLICA_LIST
    if len(set(replicas)) != len(replicas):
        return _invalid(f"Duplicate replica ids in partition reassignment replica list: {listed}")
    if min(replicas) < 0:
        return _invalid(f"Invalid broker id in replica list: {listed}")
    adding = context.partition_full_replica_assignment(tp).reassign_to(replicas).adding_replicas
    live = context.live_broker_ids
    if not live.issuperset(adding):
        added = f"ArrayBuffer({', '.join(map(str, adding))})"
        kind = "Set" if 0 < len(live) <= 4 else "HashSet"
        return _invalid(
            f"Replica assignment has brokers that are not alive. Replica list: {added}, "
            f"live broker list: {kind}({', '.join(map(str, sorted(live)))})"
        )
    return None


def _invalid(message: str) -> ApiError:
    return ApiError(Errors.INVALID_REPLICA_ASSIGNMENT, message)


EMPTY_REPLICA_LIST: Final = _invalid("Empty replica list specified in partition reassignment.")
NO_BROKER_IDS: Final = _invalid(
    "The replicas in partition reassignment are not a list of broker ids."
)


def unneeded_replicas(current: ReplicaAssignment, new: ReplicaAssignment) -> tuple[int, ...]:
    """Return the replicas in ``current`` that are not part of the assignment ``new``."""
    return tuple(r for r in current.replicas if r not in new.replicas)


def moves_leader_first(context: ControllerContext, new: ReplicaAssignment) -> bool:
    """Return True if a new leader is elected before a change to ``new`` drops the leader's replica.

    The change cancels or overrides a reassignment. No leader is elected first with the quirk
    KAFKA-14424 if the change is a cancellation, and with the quirk KAFKA-14808 if it is an
    override.
    """
    quirks = context.quirks
    return not (quirks.kafka_14808 if new.is_being_reassigned else quirks.kafka_14424)


def refuse_reassignment(
    context: ControllerContext, tp: TopicPartition, new: ReplicaAssignment
) -> ApiError | None:
    """Return an error if the change to the assignment ``new`` would leave ``tp`` leaderless.

    Return None if the change is allowed. ``new`` cancels or overrides a reassignment.
    """
    leadership = context.leaderships.get(tp)
    if leadership is None or not moves_leader_first(context, new):
        return None
    state = leadership.leader_and_isr
    unneeded = unneeded_replicas(context.partition_full_replica_assignment(tp), new)
    remaining = tuple(r for r in state.isr if r not in unneeded)
    drops_isr = not remaining and len(remaining) < len(state.isr)
    needs_leader = state.leader in unneeded and not context.online_replicas(tp, remaining)
    if not drops_isr and not needs_leader:
        return None
    listed = ", ".join(map(str, new.replicas))
    return _invalid(
        f"The leader {state.leader} of {tp} would be removed, and no replica of [{listed}] is both "
        "alive and in sync."
    )


def is_reassignment_complete(
    context: ControllerContext, tp: TopicPartition, assignment: ReplicaAssignment
) -> bool:
    """Return True if all target replicas are in the ISR, or there is no reassignment."""
    if not assignment.is_being_reassigned:
        return True
    leadership = context.leaderships.get(tp)
    if leadership is None:
        return False
    isr = leadership.leader_and_isr.isr
    return all(replica in isr for replica in assignment.target_replicas)


# Phases U1 and B6


def topics_to_store(
    context: ControllerContext, assignments: Mapping[TopicPartition, ReplicaAssignment]
) -> list[TopicIdReplicaAssignment]:
    """Return the topic znodes to write in order to store ``assignments``.

    Partitions that are not in ``assignments`` keep the assignment cached in the context.
    """
    by_topic: dict[str, Assignments] = {}
    for tp, assignment in assignments.items():
        if tp.topic not in by_topic:
            by_topic[tp.topic] = context.partition_full_replica_assignment_for_topic(tp.topic)
        by_topic[tp.topic][tp] = assignment
    return [
        TopicIdReplicaAssignment(topic, context.topic_ids.get(topic), stored)
        for topic, stored in by_topic.items()
    ]


# Phases A1 and B3: the leader epoch


class EpochBump(msgspec.Struct, frozen=True):
    """Leader epoch increment of one partition during a reassignment.

    ``assignment`` is the assignment sent to the brokers together with the new epoch.
    """

    topic_partition: TopicPartition
    leadership: LeaderIsrAndControllerEpoch
    previous_leadership: LeaderIsrAndControllerEpoch
    assignment: ReplicaAssignment


def plan_epoch_bumps(
    context: ControllerContext, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, LeaderAndIsr], dict[TopicPartition, StateChangeFailed]]:
    """Plan leader epoch increments, and return ({partition: new state}, {partition: failure}).

    The increment fails for a partition that has no leader and ISR in the context.
    """
    updates: dict[TopicPartition, LeaderAndIsr] = {}
    failures: dict[TopicPartition, StateChangeFailed] = {}
    for tp in partitions:
        leadership = context.leaderships.get(tp)
        if leadership is None:
            failures[tp] = no_leader_epoch(tp)
        else:
            state = leadership.leader_and_isr
            updates[tp] = state.with_leader_and_isr(state.leader, state.isr)
    return updates, failures


def no_leader_epoch(tp: TopicPartition) -> StateChangeFailed:
    """Return Kafka's error for a partition without a state znode, i.e. without a leader epoch."""
    return StateChangeFailed(
        f"Cannot update leader epoch for partition {tp} as leaderAndIsr path is empty. This could "
        "mean we somehow tried to reassign a partition that doesn't exist"
    )


def apply_epoch_bumps(
    context: ControllerContext,
    stored: Mapping[TopicPartition, LeaderAndIsr],
    assignments: Mapping[TopicPartition, ReplicaAssignment],
) -> list[EpochBump]:
    """Cache the stored partition states in the context, and return the epoch increments."""
    bumps = []
    for tp, state in stored.items():
        previous = context.leaderships[tp]
        leadership = LeaderIsrAndControllerEpoch(state, context.epoch)
        context.put_partition_leadership_info(tp, leadership)
        bumps.append(EpochBump(tp, leadership, previous, assignments[tp]))
    return bumps


def add_requests(
    context: ControllerContext,
    assignments: Mapping[TopicPartition, ReplicaAssignment],
    batch: ControllerBrokerRequestBatch,
) -> None:
    """Add LeaderAndIsr requests for every replica of ``assignments`` to the batch.

    Only the added replicas are marked as new: an original replica on a failed log directory must
    not be created again in another directory.
    """
    for tp, assignment in assignments.items():
        leadership = context.leaderships[tp]
        for replicas, is_new in (
            (assignment.origin_replicas, False),
            (assignment.adding_replicas, True),
        ):
            batch.add_leader_and_isr_request_for_brokers(
                replicas, tp, leadership, assignment, is_new
            )


def with_removal_outside_isr(
    context: ControllerContext, assignments: Assignments
) -> list[TopicPartition]:
    """Return the partitions with a removing replica that is not in the ISR.

    The removal of such a replica does not increment the leader epoch. If its broker already has the
    epoch, it rejects StopReplica and keeps the replica.
    """
    return [
        tp
        for tp, assignment in assignments.items()
        if (leadership := context.leaderships.get(tp)) is not None
        and not set(leadership.leader_and_isr.isr).issuperset(assignment.removing_replicas)
    ]


class LeaderMoves(msgspec.Struct, frozen=True):
    """Plan for phase B3 of reassignments.

    ``elect``: partitions that need another leader. ``bump``: partitions whose leader epoch only
    has to be incremented. Each partition is mapped to Kafka's log message about it.
    """

    elect: dict[TopicPartition, str]
    bump: dict[TopicPartition, str]


def plan_leader_moves(
    context: ControllerContext, targets: Mapping[TopicPartition, ReplicaAssignment]
) -> LeaderMoves:
    """Plan an election for each partition whose leader is offline or not a target replica.

    The other partitions only get an incremented leader epoch.
    """
    moves = LeaderMoves({}, {})
    for tp, assignment in targets.items():
        leadership = context.leaderships.get(tp)
        if leadership is None:
            continue
        leader = leadership.leader_and_isr.leader
        subject = f"Leader {leader} for partition {tp} being reassigned,"
        listed = f"in the new list of replicas {','.join(map(str, assignment.replicas))}"
        if leader not in assignment.replicas:
            moves.elect[tp] = f"{subject} is not {listed}. Re-electing leader"
        elif context.is_replica_online(leader, tp):
            moves.bump[tp] = f"{subject} is already {listed} and is alive"
        else:
            moves.elect[tp] = f"{subject} is already {listed} but is dead"
    return moves


# Replicas


def adding_rounds(
    assignments: Mapping[TopicPartition, ReplicaAssignment],
) -> list[ReplicasByBroker]:
    """Return a list whose n-th item contains the n-th added replica of each partition.

    Phase A2 starts the replicas of the first item, then those of the second, and so on: as in
    Kafka, the added replicas of one partition are started one after another.
    """
    longest = max((len(a.adding_replicas) for a in assignments.values()), default=0)
    return [
        replicas_by_broker({tp: a.adding_replicas[n : n + 1] for tp, a in assignments.items()})
        for n in range(longest)
    ]


def unstarted_replicas(context: ControllerContext, assignments: Assignments) -> ReplicasByBroker:
    """Return the added replicas that phase A2 has not started.

    The removal of the replicas of an overridden reassignment (U3) sends LeaderAndIsr to all
    replicas. If the added ones are in sync soon after, the reassignment completes without phase A.
    """
    return _added_replicas(
        assignments,
        lambda broker_id, tp: context.replica_state(broker_id, tp) is ReplicaState.NON_EXISTENT,
    )


def added_replicas_on_live_brokers(
    context: ControllerContext, assignments: Assignments
) -> ReplicasByBroker:
    """Return the added replicas whose brokers are alive. Others may still be in the ISR."""
    live = context.live_or_shutting_down_broker_ids
    return _added_replicas(assignments, lambda broker_id, _: broker_id in live)


def _added_replicas(
    assignments: Assignments, includes: Callable[[int, TopicPartition], bool]
) -> ReplicasByBroker:
    return replicas_by_broker(
        {
            tp: [broker_id for broker_id in a.adding_replicas if includes(broker_id, tp)]
            for tp, a in assignments.items()
        }
    )


def stray_replicas(context: ControllerContext) -> Replicas:
    """Return {partition: replicas that are in the ISR but not in the assignment}.

    A controller that crashes between the phases U1 and U3 leaves such replicas behind. Replicas
    whose removal would leave the partition leaderless are omitted.
    """
    return {tp: strays for tp, strays, is_needed in _strays(context) if not is_needed}


def assignments_with_strays(context: ControllerContext) -> Assignments:
    """Return assignments that remove stray replicas once the assigned replicas are in sync.

    They are for the partitions that would be leaderless without their stray replicas, because
    another client changed the assignment while there was no controller. Topics to be deleted are
    omitted.
    """
    assignments: Assignments = {}
    for tp, strays, is_needed in _strays(context):
        if is_needed and tp.topic not in context.topics_to_be_deleted:
            found = context.partition_full_replica_assignment(tp)
            assignments[tp] = ReplicaAssignment(
                found.replicas + strays, found.adding_replicas, found.removing_replicas + strays
            )
    return assignments


def _strays(
    context: ControllerContext,
) -> Iterator[tuple[TopicPartition, tuple[int, ...], bool]]:
    """Yield each partition with stray replicas, these, and whether only they can lead it."""
    for tp, leadership in context.leaderships.items():
        state = leadership.leader_and_isr
        replicas = context.partition_replica_assignment(tp)
        strays = tuple(r for r in state.isr if r not in replicas)
        if not strays:
            continue
        remaining = tuple(r for r in state.isr if r in replicas)
        can_lead = state.leader in replicas or context.online_replicas(tp, remaining)
        yield tp, strays, not (remaining and can_lead)
