"""What is to be done about the topics that are to be deleted: decided from the context alone.

Writes, sends and changes nothing; the deletion is carried out by
controller/topic_deletion_manager.py. Mirrors the decisions of
kafka/controller/TopicDeletionManager.scala.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from klamm.cluster.types import TopicPartition
from klamm.statemachines.context import ControllerContext, ReplicasByBroker
from klamm.statemachines.replica_state import ReplicaState


class Progress(Enum):
    """How far the replicas of a topic to be deleted are."""

    DONE = "every replica is deleted"
    RUNNING = "a broker has not answered yet"
    FAILED = "a replica could not be deleted"
    IDLE = "nothing was begun, or what was begun has ended without a failure"


class DeletionPlan(msgspec.Struct, frozen=True):
    """Topics to be deleted, by what is next for them; each list is sorted.

    ``completed``: all replicas are gone, the znodes may go. ``to_retry``: replicas that could not
    be deleted go back to Offline. ``to_start``: the replicas may be deleted now. A topic may be in
    the last two.
    """

    completed: list[str]
    to_retry: list[str]
    to_start: list[str]


class StartPlan(msgspec.Struct, frozen=True):
    """How the deletion of topics begins, or begins again.

    ``unseen`` are the partitions of topics whose deletion was never begun, ``partitions`` those of
    all. ``dead`` replicas cannot be deleted now, ``replicas`` can; ``halted`` are the topics of the
    dead ones, sorted.
    """

    unseen_topics: list[str]
    unseen: list[TopicPartition]
    partitions: list[TopicPartition]
    dead: ReplicasByBroker
    replicas: ReplicasByBroker
    halted: list[str]


class DeletionCounts(msgspec.Struct, frozen=True):
    """What is still to be deleted, and how much of that is held up."""

    topics: int = 0
    replicas: int = 0
    ineligible_topics: int = 0
    ineligible_replicas: int = 0


def plan_deletions(context: ControllerContext) -> DeletionPlan:
    """What is next for each topic that is queued for deletion."""
    plan = DeletionPlan([], [], [])
    for topic in sorted(context.topics_to_be_deleted):
        progress = progress_of(context, topic)
        if progress is Progress.DONE:
            plan.completed.append(topic)
            continue
        if progress is Progress.FAILED:
            plan.to_retry.append(topic)
        if progress is not Progress.RUNNING and context.is_topic_eligible_for_deletion(topic):
            plan.to_start.append(topic)
    return plan


def progress_of(context: ControllerContext, topic: str) -> Progress:
    """How far the deletion of a topic's replicas is; DONE if it has none."""
    progress = Progress.DONE
    for tp in context.partitions_for_topic(topic):
        for broker_id in context.partition_replica_assignment(tp):
            state = context.replica_state(broker_id, tp)
            if state is ReplicaState.DELETION_SUCCESSFUL:
                continue
            if state is ReplicaState.DELETION_STARTED:
                return Progress.RUNNING
            if state is ReplicaState.DELETION_INELIGIBLE:
                progress = Progress.FAILED
            elif progress is Progress.DONE:
                progress = Progress.IDLE
    return progress


def plan_start(context: ControllerContext, topics: Sequence[str]) -> StartPlan:
    """Which replicas of ``topics`` are deleted now, and which cannot be.

    A replica that was deleted before is not asked again, but counts as dead if its broker is.
    """
    started = context.topics_with_deletion_started
    unseen_topics = [topic for topic in topics if topic not in started]
    plan = StartPlan(unseen_topics, [], [], {}, {}, [])
    for topic in topics:
        partitions = context.partitions_for_topic(topic)
        plan.partitions.extend(partitions)
        if topic not in started:
            plan.unseen.extend(partitions)
    for broker_id, tps in context.replicas_for_partitions(plan.partitions).items():
        online, offline = context.split_by_online(broker_id, tps)
        remaining = [
            tp
            for tp in online
            if context.replica_state(broker_id, tp) is not ReplicaState.DELETION_SUCCESSFUL
        ]
        if remaining:
            plan.replicas[broker_id] = remaining
        if offline:
            plan.dead[broker_id] = list(offline)
    plan.halted.extend(sorted({tp.topic for tps in plan.dead.values() for tp in tps}))
    return plan


def replicas_in_state(
    context: ControllerContext, topics: Iterable[str], state: ReplicaState
) -> ReplicasByBroker:
    """The replicas of some topics that are in ``state``."""
    found: ReplicasByBroker = {}
    for topic in topics:
        for broker_id, tps in context.replicas_in_state(topic, state).items():
            found.setdefault(broker_id, []).extend(tps)
    return dict(sorted(found.items()))


def queued_replicas(context: ControllerContext, replicas: ReplicasByBroker) -> ReplicasByBroker:
    """Those of ``replicas`` whose topics are queued for deletion."""
    queued = context.topics_to_be_deleted
    if not queued:
        return {}
    kept = {b: [tp for tp in tps if tp.topic in queued] for b, tps in replicas.items()}
    return {broker_id: tps for broker_id, tps in kept.items() if tps}


def topics_being_reassigned(context: ControllerContext) -> set[str]:
    """Topics with a partition whose reassignment is not finished."""
    return {tp.topic for tp in context.partitions_being_reassigned}


def topics_with_offline_replicas(context: ControllerContext, topics: Iterable[str]) -> set[str]:
    """Those of ``topics`` of which a replica's broker or directory is down."""
    return {topic for topic in topics if plan_start(context, [topic]).dead}


def count_deletions(context: ControllerContext) -> DeletionCounts:
    """What is still to be deleted, topics that wait for their reassignment included."""
    topics = context.topics_to_be_deleted | context.topics_waiting_for_reassignment
    replicas = ineligible = 0
    for topic in topics:
        for tp in context.partitions_for_topic(topic):
            for broker_id in context.partition_replica_assignment(tp):
                state = context.replica_state(broker_id, tp)
                replicas += state is not ReplicaState.DELETION_SUCCESSFUL
                ineligible += state is ReplicaState.DELETION_INELIGIBLE
    held_up = context.topics_ineligible_for_deletion | context.topics_waiting_for_reassignment
    return DeletionCounts(len(topics), replicas, len(held_up), ineligible)
