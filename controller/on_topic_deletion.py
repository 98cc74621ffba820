"""Requests to delete topics, and what brokers answer that were told to delete replicas.

Mirrors processTopicDeletion, fetchTopicDeletionsInProgress and
processTopicDeletionStopReplicaResponseReceived of kafka/controller/KafkaController.scala, and the
StopReplica callback of ControllerChannelManager.scala.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.api_errors import Errors
from cluster.requests import ControlRequest, StopReplicaRequest, StopReplicaResponse
from cluster.types import TopicPartition
from controller.events import TopicDeletion
from controller.topic_deletion_manager import REASSIGNMENT
from statemachines.topic_deletion import topics_being_reassigned
from zk.znodes import TopicZNode

if TYPE_CHECKING:
    from controller.kafka_controller import KafkaController


def load_topic_deletions(controller: KafkaController) -> None:
    """At a failover: read and watch what is to be deleted, and queue it."""
    controller.log.info("Fetching topic deletions in progress")
    topics = controller.zk.get_topic_deletions(watch=True)
    controller.log.info(f"List of topics to be deleted: {','.join(topics)}")
    controller.log.info("Initializing topic deletion manager")
    controller.topic_deletion_manager.init(topics)


def process_topic_deletion(controller: KafkaController, _: TopicDeletion) -> None:
    """Read /admin/delete_topics, remove from it what does not exist, and queue the rest.

    A topic whose znode cannot be read exists: deleting it is a way out.
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
    if not known:
        return
    manager = controller.topic_deletion_manager
    if manager.is_delete_topic_enabled:
        log.info(f"Starting topic deletion for topics {','.join(known)}")
        if controller.quirks.kafka_8249:
            # Nothing that is not queued yet is halted by this.
            reassigned = topics_being_reassigned(context).intersection(known)
            manager.mark_topic_ineligible_for_deletion(reassigned, REASSIGNMENT)
    manager.enqueue_topics_for_deletion(known)


def process_deleted_replicas(
    controller: KafkaController,
    broker_id: int,
    request: ControlRequest,
    response: StopReplicaResponse,
) -> None:
    """A broker answered a StopReplica: of topics whose deletion has begun, some replicas are gone
    and some could not be deleted. Replicas that were only stopped do not count."""
    assert isinstance(request, StopReplicaRequest), "a StopReplica is what was answered"
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
