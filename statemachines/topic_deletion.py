"""Decides the next steps of topic deletions.

The functions use only the controller context and do no I/O: controller/topic_deletion_manager.py
executes the steps. Mirrors the decisions in kafka/controller/TopicDeletionManager.scala.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from klamm.cluster.types import TopicPartition
from klamm.statemachines.context import ControllerContext, ReplicasByBroker
from klamm.statemachines.replica_state import ReplicaState


class DeletionProgress(Enum):
    """Progress of a topic deletion, derived from the states of the topic's replicas."""

    DONE = "every replica is deleted"
    RUNNING = "a broker has not responded yet"
    FAILED = "a replica could not be deleted"
    IDLE = "no replica is being deleted, but some still have to be deleted"


class DeletionPlan(msgspec.Struct, frozen=True):
    """Topics queued for deletion, by the next step of their deletion. The lists are sorted.

    - ``completed``: all replicas are deleted, so the topic's znodes can be deleted.
    - ``to_retry``: some replicas could not be deleted and must be moved back to Offline.
    - ``to_start``: the deletion of the replicas can start now. A topic may be in ``to_retry`` too.
    """

    completed: list[str]
    to_retry: list[str]
    to_start: list[str]


class StartPlan(msgspec.Struct, frozen=True):
    """Plan to start or restart the deletion of topics.

    - ``unseen_topics``: topics whose deletion has not been started before.
    - ``unseen``: the partitions of ``unseen_topics``.
    - ``partitions``: the partitions of all topics of the plan.
    - ``dead``: offline replicas, which cannot be deleted now.
    - ``replicas``: replicas that can be deleted now.
    - ``halted``: topics with dead replicas, sorted.
    """

    unseen_topics: list[str]
    unseen: list[TopicPartition]
    partitions: list[TopicPartition]
    dead: ReplicasByBroker
    replicas: ReplicasByBroker
    halted: list[str]


class DeletionCounts(msgspec.Struct, frozen=True):
    """Numbers of topics and replicas to be deleted, and how many of them cannot be deleted now."""

    topics: int = 0
    replicas: int = 0
    ineligible_topics: int = 0
    ineligible_replicas: int = 0


def plan_deletions(context: ControllerContext) -> DeletionPlan:
    """Decide the next step of each topic that is queued for deletion."""
    plan = DeletionPlan([], [], [])
    for topic in sorted(context.topics_to_be_deleted):
        progress = progress_of(context, topic)
        if progress is DeletionProgress.DONE:
            plan.completed.append(topic)
            continue
        if progress is DeletionProgress.FAILED:
            plan.to_retry.append(topic)
        if progress is not DeletionProgress.RUNNING and context.is_topic_eligible_for_deletion(
            topic
        ):
            plan.to_start.append(topic)
    return plan


def progress_of(context: ControllerContext, topic: str) -> DeletionProgress:
    """Return the progress of a topic's deletion. A topic without replicas is DONE."""
    progress = DeletionProgress.DONE
    for tp in context.partitions_for_topic(topic):
        for broker_id in context.partition_replica_assignment(tp):
            state = context.replica_state(broker_id, tp)
            if state is ReplicaState.DELETION_SUCCESSFUL:
                continue
            if state is ReplicaState.DELETION_STARTED:
                return DeletionProgress.RUNNING
            if state is ReplicaState.DELETION_INELIGIBLE:
                progress = DeletionProgress.FAILED
            elif progress is DeletionProgress.DONE:
                progress = DeletionProgress.IDLE
    return progress


def plan_start(context: ControllerContext, topics: Sequence[str]) -> StartPlan:
    """Decide which replicas of ``topics`` can be deleted now and which are dead.

    A replica that was already deleted is not deleted again, but it is listed as dead if its broker
    is not live.
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
    """Return the replicas of ``topics`` that are in ``state``, grouped by broker."""
    found: ReplicasByBroker = {}
    for topic in topics:
        for broker_id, tps in context.replicas_in_state(topic, state).items():
            found.setdefault(broker_id, []).extend(tps)
    return dict(sorted(found.items()))


def queued_replicas(context: ControllerContext, replicas: ReplicasByBroker) -> ReplicasByBroker:
    """Return those of ``replicas`` whose topics are queued for deletion."""
    queued = context.topics_to_be_deleted
    if not queued:
        return {}
    kept = {b: [tp for tp in tps if tp.topic in queued] for b, tps in replicas.items()}
    return {broker_id: tps for broker_id, tps in kept.items() if tps}


def topics_being_reassigned(context: ControllerContext) -> set[str]:
    """Return the topics with at least one partition that is being reassigned."""
    return {tp.topic for tp in context.partitions_being_reassigned}


def topics_with_offline_replicas(context: ControllerContext) -> set[str]:
    """Return the topics with a replica on a dead broker or in a failed log directory."""
    _, offline = context.online_and_offline_replicas()
    return {tp.topic for tps in offline.values() for tp in tps}


def count_deletions(context: ControllerContext) -> DeletionCounts:
    """Count the pending topic deletions, including topics waiting for a reassignment to finish."""
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
