"""Executes topic deletions: queues topics, starts, halts and completes the deletions.

statemachines/topic_deletion.py decides the next step of a deletion; this file executes it with the
state machines and fenced writes. At the end of the file are the event handlers for requests in
/admin/delete_topics and for brokers' responses to StopReplica. Mirrors
kafka/controller/TopicDeletionManager.scala; processTopicDeletion, fetchTopicDeletionsInProgress and
processTopicDeletionStopReplicaResponseReceived of KafkaController.scala; and the StopReplica
callback of ControllerChannelManager.scala.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.journal import Kind
from klamm.cluster.jvm.scala_sets import scala_hash_set, scala_set
from klamm.cluster.requests import ControlRequest, StopReplicaRequest, StopReplicaResponse
from klamm.cluster.types import TopicPartition
from klamm.controller.events import TopicDeletion
from klamm.controller.state_change_log import Source
from klamm.statemachines.context import ReplicasByBroker
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.replica_state import ReplicaState
from klamm.statemachines.topic_deletion import (
    DeletionCounts,
    DeletionProgress,
    count_deletions,
    plan_deletions,
    plan_start,
    progress_of,
    queued_replicas,
    replicas_in_state,
    topics_being_reassigned,
    topics_with_offline_replicas,
)
from klamm.zk.znodes import TopicZNode

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController

_SOURCE = Source.TOPIC_DELETION_MANAGER
OFFLINE_REPLICAS = "offline replicas"
REASSIGNMENT = "topic reassignment in progress"


class TopicDeletionManager:
    """Executes the topic deletions of one controller, and counts them for the metrics.

    A topic that is being reassigned is queued for deletion only after the reassignment has ended.
    Until then the topic stays in use, so that the reassignment can complete. Kafka 2.8.2 deletes
    such a topic immediately (KAFKA-8249) or, after a failover, queues it and waits.

    A deletion waits indefinitely for a replica on a dead broker (KAFKA-10548). If the topic were
    deleted without that replica, it would reappear when the broker returns.
    """

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller
        self.is_delete_topic_enabled = controller.config.delete_topic_enable
        self.counts = DeletionCounts()

    # From a failover to a resignation

    def init(self, topics: Iterable[str], offline: set[str], reassigned: set[str]) -> None:
        """Queue the topics to be deleted. A failover calls this before it starts state machines.

        Topics in ``offline``, those with offline replicas, and in ``reassigned`` cannot be deleted
        now.
        """
        context, log = self._controller.context, self._controller.log
        to_delete, ineligible = set(topics), offline | reassigned
        log.info(
            f"Initializing manager with initial deletions: {scala_set(sorted(to_delete))}, "
            f"initial ineligible deletions: {scala_hash_set(sorted(ineligible))}",
            _SOURCE,
        )
        if not self.is_delete_topic_enabled:
            self.remove_requests(to_delete, _SOURCE)
            return
        self._queue(to_delete)
        context.topics_ineligible_for_deletion |= ineligible & context.topics_to_be_deleted
        self._journal_halted(offline & context.topics_to_be_deleted, OFFLINE_REPLICAS)
        self._journal_halted((ineligible - offline) & context.topics_to_be_deleted, REASSIGNMENT)

    def try_topic_deletion(self) -> None:
        """Resume deletions at the end of a failover, after the state machines were started."""
        if self.is_delete_topic_enabled:
            self._resume_deletions()

    def reset(self) -> None:
        """Reset ``counts`` to 0, because the controller has resigned."""
        self.counts = DeletionCounts()

    # Called by event handlers

    def enqueue_topics_for_deletion(self, topics: Iterable[str]) -> None:
        """Queue ``topics`` for deletion, and resume all deletions."""
        self._queue(topics)
        self._resume_deletions()

    def remove_requests(self, topics: Iterable[str], source: Source) -> None:
        """Remove requests to delete topics, because delete.topic.enable is false."""
        names = sorted(topics)
        self._controller.log.info(
            f"Removing {scala_set(names)} since delete topic is disabled", source
        )
        if names:
            self._controller.controller_zk.delete_topic_deletions(
                names, self._controller.context.epoch_zk_version
            )

    def resume_deletion_for_topics(self, topics: Iterable[str]) -> None:
        """Resume the deletion of topics after a broker has returned or a reassignment has ended."""
        context = self._controller.context
        waiting = context.topics_to_be_deleted | context.topics_waiting_for_reassignment
        resumed = waiting.intersection(topics)
        if resumed:
            context.topics_ineligible_for_deletion -= resumed
            self._resume_deletions()

    def fail_replica_deletion(self, replicas: ReplicasByBroker) -> None:
        """Halt the deletion of topics whose replicas went offline or could not be deleted."""
        failed = queued_replicas(self._controller.context, replicas)
        if not failed:
            return
        topics = {tp.topic for tps in failed.values() for tp in tps}
        self._controller.log.debug(
            f"Deletion failed for replicas {replicas_text(failed)}. "
            f"Halting deletion for topics {scala_set(sorted(topics))}",
            _SOURCE,
        )
        self._controller.replica_state_machine.handle_state_changes(
            failed, ReplicaState.DELETION_INELIGIBLE
        )
        self._halt(topics, "replica deletion failure")
        self._resume_deletions()

    def complete_replica_deletion(self, replicas: ReplicasByBroker) -> None:
        """Record deleted replicas, and complete the deletion of topics with no replicas left."""
        deleted = queued_replicas(self._controller.context, replicas)
        self._controller.log.debug(
            f"Deletion successfully completed for replicas {replicas_text(deleted)}", _SOURCE
        )
        self._controller.replica_state_machine.handle_state_changes(
            deleted, ReplicaState.DELETION_SUCCESSFUL
        )
        self._resume_deletions()

    def mark_topic_ineligible_for_deletion(self, topics: Iterable[str], reason: str) -> None:
        """Halt the deletion of those ``topics`` that are queued for deletion."""
        context = self._controller.context
        halted = context.topics_to_be_deleted.intersection(topics)
        if halted:
            self._halt(halted, reason)

    def forget_topics(self, topics: Iterable[str]) -> None:
        """Clean up after another client deleted the topic znodes of topics queued for deletion.

        The topics' remaining znodes and deletion requests are deleted. With the quirk
        deleted_topic_znode_leaves_stale_state, they stay until the next deletion request or
        failover.
        """
        context = self._controller.context
        waiting = context.topics_to_be_deleted | context.topics_waiting_for_reassignment
        forgotten = sorted(waiting.intersection(topics))
        if forgotten and not self._controller.quirks.deleted_topic_znode_leaves_stale_state:
            self._delete_znodes(forgotten)

    # Queueing

    def _queue(self, topics: Iterable[str]) -> None:
        context = self._controller.context
        reassigned = topics_being_reassigned(context)
        wanted = sorted(topics)
        if self._controller.quirks.kafka_8249:
            context.queue_topic_deletion(wanted)
            return
        waiting = {
            topic
            for topic in reassigned.intersection(wanted)
            if topic not in context.topics_to_be_deleted
        }
        context.queue_topic_deletion([topic for topic in wanted if topic not in waiting])
        newly = waiting - context.topics_waiting_for_reassignment
        context.topics_waiting_for_reassignment |= waiting
        if newly:
            self._report_halted(newly, REASSIGNMENT)

    def _queue_after_reassignment(self) -> None:
        """Queue the topics that waited for a reassignment that has completed or was cancelled."""
        context = self._controller.context
        if context.topics_waiting_for_reassignment:
            reassigned = topics_being_reassigned(context)
            ready = context.topics_waiting_for_reassignment - reassigned
            context.topics_waiting_for_reassignment -= ready
            context.queue_topic_deletion(sorted(ready))

    # Execution

    def _resume_deletions(self) -> None:
        """Advance the deletion of every queued topic by one step: complete, retry or start."""
        self._queue_after_reassignment()
        context, log = self._controller.context, self._controller.log
        if context.topics_to_be_deleted:
            shown = ",".join(sorted(context.topics_to_be_deleted))
            log.info(f"Handling deletion for topics {shown}", _SOURCE)
            plan = plan_deletions(context)
            if plan.completed:
                self._complete(plan.completed)
            for topic in plan.to_start:
                log.info(f"Deletion of topic {topic} (re)started", _SOURCE)
            if plan.to_retry:
                self._retry(plan.to_retry)
            if plan.to_start:
                self._start(plan.to_start)
        self._count()

    def _complete(self, topics: Sequence[str]) -> None:
        """Move the deleted replicas to NonExistent, and delete the znodes of all ``topics``.

        A topic whose znodes cannot be deleted stays queued. The deletion is retried the next
        time deletions are resumed.
        """
        controller = self._controller
        # Deleting the znodes is irrevocable: a replica left on a broker would have no topic.
        assert all(
            progress_of(controller.context, topic) is DeletionProgress.DONE for topic in topics
        )
        # Otherwise the event for the changed znode could be processed for a new topic of that name.
        controller.watches.topics.difference_update(topics)
        deleted = replicas_in_state(controller.context, topics, ReplicaState.DELETION_SUCCESSFUL)
        controller.replica_state_machine.handle_state_changes(deleted, ReplicaState.NON_EXISTENT)
        failed = self._delete_znodes(topics)
        for topic in topics:
            if topic in failed:
                self._report_halted([topic], failed[topic].reason)
                continue
            controller.recorder.occurrence(
                Kind.TOPIC_DELETED, topic=topic, detail=controller.context.topic_ids.get(topic)
            )
            controller.context.remove_topic(topic)
            self._forget_malformed(topic)
            controller.log.info(f"Deletion of topic {topic} successfully completed", _SOURCE)

    def _delete_znodes(self, topics: Sequence[str]) -> dict[str, StateChangeFailed]:
        """Delete the znodes of ``topics``; log and return the failures, keyed by topic."""
        controller = self._controller
        failed = controller.controller_zk.delete_topics(topics, controller.context.epoch_zk_version)
        for topic, failure in failed.items():
            controller.log.error(f"Error while deleting topic {topic}: {failure}", _SOURCE)
        return failed

    def _forget_malformed(self, topic: str) -> None:
        malformed, path = self._controller.malformed, TopicZNode.path(topic)
        for name in [name for name in malformed if name == path or name.startswith(f"{path}/")]:
            del malformed[name]

    def _retry(self, topics: Sequence[str]) -> None:
        """Move the replicas that could not be deleted back to Offline, to retry their deletion."""
        failed = replicas_in_state(
            self._controller.context, topics, ReplicaState.DELETION_INELIGIBLE
        )
        self._controller.log.debug(
            f"Retrying deletion of topics {','.join(topics)} since replicas "
            f"{replicas_text(failed)} were not successfully deleted",
            _SOURCE,
        )
        self._controller.replica_state_machine.handle_state_changes(failed, ReplicaState.OFFLINE)

    def _start(self, topics: Sequence[str]) -> None:
        """Move partitions to NonExistent, notify the brokers, and start deleting live replicas.

        The partitions leave the state Offline before the deletion is marked as started. Otherwise
        the count of offline partitions would be wrong: it excludes topics whose deletion has
        started.
        """
        controller, context = self._controller, self._controller.context
        plan = plan_start(context, topics)
        for topic in plan.unseen_topics:
            controller.recorder.occurrence(
                Kind.TOPIC_DELETION_STARTED, topic=topic, detail=context.topic_ids.get(topic)
            )
        partitions = controller.partition_state_machine
        partitions.handle_state_changes(plan.unseen, PartitionState.OFFLINE)
        partitions.handle_state_changes(plan.unseen, PartitionState.NON_EXISTENT)
        context.begin_topic_deletion(plan.unseen_topics)
        controller.send_update_metadata_request(
            context.live_or_shutting_down_broker_ids, plan.partitions
        )
        if plan.dead:
            controller.log.debug(
                f"Dead Replicas ({replicas_text(plan.dead)}) found for topics "
                f"{','.join(plan.halted)}",
                _SOURCE,
            )
        replicas = controller.replica_state_machine
        replicas.handle_state_changes(plan.dead, ReplicaState.DELETION_INELIGIBLE)
        replicas.handle_state_changes(plan.replicas, ReplicaState.OFFLINE)
        replicas.handle_state_changes(plan.replicas, ReplicaState.DELETION_STARTED)
        if plan.halted:
            self._halt(plan.halted, OFFLINE_REPLICAS)

    def _halt(self, topics: Collection[str], reason: str) -> None:
        self._controller.context.topics_ineligible_for_deletion.update(topics)
        self._report_halted(topics, reason)

    def _report_halted(self, topics: Iterable[str], reason: str) -> None:
        names = sorted(topics)
        self._controller.log.info(
            f"Halted deletion of topics {','.join(names)} due to {reason}", _SOURCE
        )
        self._journal_halted(names, reason)

    def _journal_halted(self, topics: Iterable[str], reason: str) -> None:
        for topic in sorted(topics):
            self._controller.recorder.occurrence(
                Kind.TOPIC_DELETION_HALTED, topic=topic, outcome=reason
            )

    def _count(self) -> None:
        self.counts = count_deletions(self._controller.context)


def replicas_text(replicas: ReplicasByBroker) -> str:
    """Format replicas as in Kafka's log messages."""
    return ",".join(
        f"[Topic={tp.topic},Partition={tp.partition},Replica={broker_id}]"
        for broker_id, tps in replicas.items()
        for tp in tps
    )


def load_topic_deletions(controller: KafkaController) -> None:
    """Read and watch /admin/delete_topics during a failover, and queue the listed topics."""
    controller.log.info("Fetching topic deletions in progress")
    topics = controller.zk.get_topic_deletions(watch=True)
    offline = topics_with_offline_replicas(controller.context)
    reassigned: set[str] = set()
    if controller.quirks.kafka_8249:
        reassigned = topics_being_reassigned(controller.context)
    ineligible = ",".join(sorted(offline | reassigned))
    controller.log.info(f"List of topics to be deleted: {','.join(topics)}")
    controller.log.info(f"List of topics ineligible for deletion: {ineligible}")
    controller.log.info("Initializing topic deletion manager")
    controller.topic_deletion_manager.init(topics, offline, reassigned)


def process_topic_deletion(controller: KafkaController, _: TopicDeletion) -> None:
    """Read /admin/delete_topics, remove requests for missing topics, and queue the other topics.

    A topic with a malformed znode counts as existing, so that the topic can be deleted.
    """
    context, log = controller.context, controller.log
    topics = controller.zk.get_topic_deletions(watch=True)
    log.debug(f"Delete topics listener fired for topics {','.join(topics)} to be deleted")
    unknown = [
        topic
        for topic in topics
        if topic not in context.all_topics and TopicZNode.path(topic) not in controller.malformed
    ]
    if unknown:
        log.warn(f"Ignoring request to delete non-existing topics {','.join(unknown)}")
        controller.controller_zk.delete_topic_deletions(unknown, context.epoch_zk_version)
    known = sorted(set(topics).difference(unknown))
    manager = controller.topic_deletion_manager
    if not manager.is_delete_topic_enabled:
        manager.remove_requests(known, Source.CONTROLLER)
        return
    if not known:
        return
    log.info(f"Starting topic deletion for topics {','.join(known)}")
    if controller.quirks.kafka_8249:
        # As in Kafka, this halts only topics that are already queued.
        reassigned = topics_being_reassigned(context).intersection(known)
        manager.mark_topic_ineligible_for_deletion(reassigned, REASSIGNMENT)
    manager.enqueue_topics_for_deletion(known)


def process_deleted_replicas(
    controller: KafkaController,
    broker_id: int,
    request: ControlRequest,
    response: StopReplicaResponse,
) -> None:
    """Handle a StopReplica response for topics whose deletion has started.

    Replicas that were deleted, or could not be deleted, are recorded. Replicas that were only
    stopped are ignored.
    """
    assert isinstance(request, StopReplicaRequest), "not a response to StopReplica"
    started = controller.context.topics_with_deletion_started
    if not started:
        return
    deleted: list[TopicPartition] = []
    failed: list[TopicPartition] = []
    for state in request.partition_states:
        tp = state.topic_partition
        error = response.partition_errors.get(tp)
        if state.delete_partition and error is not None and tp.topic in started:
            is_deleted = error is Errors.NONE and response.error is Errors.NONE
            (deleted if is_deleted else failed).append(tp)
    if deleted or failed:
        controller.log.debug(
            f"Delete topic callback invoked on StopReplica response received from broker "
            f"{broker_id}: request error = {response.error.name}, partition errors = "
            f"Map({', '.join(f'{tp} -> {e.name}' for tp, e in response.partition_errors.items())})"
        )
    manager = controller.topic_deletion_manager
    if failed:
        manager.fail_replica_deletion({broker_id: failed})
    if deleted:
        manager.complete_replica_deletion({broker_id: deleted})
