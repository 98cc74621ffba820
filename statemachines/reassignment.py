"""Decisions about the reassignment of partitions: validation, phases, leader moves.

Pure: the functions plan from the context and apply written results to it. Mirrors
onPartitionReassignment and its helpers in kafka/controller/KafkaController.scala (KIP-455).

RS is the assigned replica set, ORS the original one, TRS the target one; AR are the added replicas
and RR the removed replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from klamm.statemachines.request_batch import ControllerBrokerRequestBatch

Assignments = dict[TopicPartition, ReplicaAssignment]
Replicas = dict[TopicPartition, tuple[int, ...]]


class Phase(StrEnum):
    """Phases of a reassignment under Kafka's names.

    U: store the reassignment. A: start it, while a target replica is not in sync. B: complete it,
    when all target replicas are in sync.
    """

    U1 = "U1"
    """Store RS = TRS + ORS, AR and RR in the topic znode."""
    U2 = "U2"
    """Store the same in the context."""
    U3 = "U3"
    """Stop the replicas that an earlier reassignment added and this one does not need."""
    A1 = "A1"
    """Increment the leader epoch and send RS, AR and RR to every replica."""
    A2 = "A2"
    """AR to NewReplica."""
    B1 = "B1"
    """AR to OnlineReplica."""
    B2 = "B2"
    """Store RS = TRS, without AR and RR, in the context."""
    B3 = "B3"
    """Elect a leader in TRS, or increment the epoch of a leader that is already in TRS."""
    B4 = "B4"
    """RR to OfflineReplica, and out of the ISR."""
    B5 = "B5"
    """RR to NonExistentReplica: their brokers delete them."""
    B6 = "B6"
    """Store RS = TRS in the topic znode."""
    B7 = "B7"
    """Remove the partition from the ongoing reassignments and /admin/reassign_partitions."""
    B8 = "B8"
    """Send the new replicas and leader to every broker."""


def reassignment_id(tp: TopicPartition, assignment: ReplicaAssignment) -> str:
    """Return the id of a reassignment in the journal, the same under every controller."""
    return f"{tp}->{target_text(assignment)}"


def target_text(assignment: ReplicaAssignment) -> str:
    """Return the target replicas as they appear in a reassignment id: ``3,4``."""
    return ",".join(map(str, assignment.target_replicas))


# Requests


def build_reassignment(
    context: ControllerContext, tp: TopicPartition, target: Sequence[int] | None
) -> ReplicaAssignment | None:
    """Return the assignment that starts to move a partition to ``target``.

    ``target`` None cancels: the target are the original replicas. Returns None for a cancel without
    an ongoing reassignment.
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
    """Return Kafka's error if ``replicas`` is not a valid target, else None."""
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


def unneeded_replicas(current: ReplicaAssignment, new: ReplicaAssignment) -> tuple[int, ...]:
    """Return the replicas that a cancel or an override drops immediately."""
    return tuple(r for r in current.replicas if r not in new.replicas)


def moves_leader_first(context: ControllerContext, new: ReplicaAssignment) -> bool:
    """Return True if the leader is moved before its replica is dropped.

    Kafka 2.8.2 does not move it if a reassignment is cancelled (KAFKA-14424) or overridden
    (KAFKA-14808).
    """
    quirks = context.quirks
    return not (quirks.kafka_14808 if new.is_being_reassigned else quirks.kafka_14424)


def refuse_reassignment(
    context: ControllerContext, tp: TopicPartition, new: ReplicaAssignment
) -> ApiError | None:
    """Return an error if a cancel or override would leave the partition leaderless, else None."""
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
        f"No replica of [{listed}] is alive and in sync with the leader {state.leader} of {tp}, "
        "which would be removed."
    )


def is_reassignment_complete(
    context: ControllerContext, tp: TopicPartition, assignment: ReplicaAssignment
) -> bool:
    """Return True if every target replica is in the ISR, or no replica is added or removed."""
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
    """Return the contents of the topic znodes with these assignments.

    The other partitions of the topics keep their assignment in the context.
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
    """An incremented leader epoch: new and previous leadership, and the assignment it is for."""

    topic_partition: TopicPartition
    leadership: LeaderIsrAndControllerEpoch
    previous_leadership: LeaderIsrAndControllerEpoch
    assignment: ReplicaAssignment


def plan_epoch_bumps(
    context: ControllerContext, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, LeaderAndIsr], dict[TopicPartition, StateChangeFailed]]:
    """Return the states with only the leader epoch incremented, and partitions without a state."""
    updates: dict[TopicPartition, LeaderAndIsr] = {}
    failures: dict[TopicPartition, StateChangeFailed] = {}
    for tp in partitions:
        leadership = context.leaderships.get(tp)
        if leadership is None:
            failures[tp] = no_leader_and_isr(tp)
        else:
            state = leadership.leader_and_isr
            updates[tp] = state.with_leader_and_isr(state.leader, state.isr)
    return updates, failures


def no_leader_and_isr(tp: TopicPartition) -> StateChangeFailed:
    """Return Kafka's failure for incrementing the epoch of a partition without a state znode."""
    return StateChangeFailed(
        f"Cannot update leader epoch for partition {tp} as leaderAndIsr path is empty. This could "
        "mean we somehow tried to reassign a partition that doesn't exist"
    )


def apply_epoch_bumps(
    context: ControllerContext,
    stored: Mapping[TopicPartition, LeaderAndIsr],
    assignments: Mapping[TopicPartition, ReplicaAssignment],
) -> list[EpochBump]:
    """Put the stored states into the context; return the increments with their assignments."""
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


class LeaderMoves(msgspec.Struct, frozen=True):
    """Plan of phase B3: partitions to elect and partitions to bump, each with Kafka's log text.

    ``elect``: partitions that need another leader. ``bump``: partitions that only need an
    incremented leader epoch.
    """

    elect: dict[TopicPartition, str]
    bump: dict[TopicPartition, str]


def plan_leader_moves(
    context: ControllerContext, targets: Mapping[TopicPartition, ReplicaAssignment]
) -> LeaderMoves:
    """Plan an election for each partition with an offline leader or a leader not in the target."""
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
    """Return the added replicas in rounds: round n has the n-th added replica of each partition.

    Phase A2 starts the added replicas of a partition one after another.
    """
    longest = max((len(a.adding_replicas) for a in assignments.values()), default=0)
    return [
        replicas_by_broker({tp: a.adding_replicas[n : n + 1] for tp, a in assignments.items()})
        for n in range(longest)
    ]


def stray_replicas(context: ControllerContext) -> Replicas:
    """Return the replicas that are in the ISR but not assigned, by partition.

    A controller that crashes between U1 and U3 leaves them behind. Excludes replicas without which
    the partition would have no leader.
    """
    strays: Replicas = {}
    for tp, leadership in context.leaderships.items():
        state = leadership.leader_and_isr
        replicas = context.partition_replica_assignment(tp)
        found = tuple(r for r in state.isr if r not in replicas)
        if not found or tp.topic in context.topics_to_be_deleted:
            continue
        remaining = tuple(r for r in state.isr if r in replicas)
        if remaining and (state.leader in replicas or context.online_replicas(tp, remaining)):
            strays[tp] = found
    return strays
