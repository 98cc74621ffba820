"""Topics that were created, or whose znodes were removed.

Mirrors processTopicChange and onNewPartitionCreation of kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cluster.journal import Kind
from cluster.types import TopicIdReplicaAssignment, TopicPartition
from controller.events import TopicChange
from controller.loader import load_topics
from controller.partition_state_machine import OFFLINE_ELECTION
from controller.state_change_log import scala_set
from statemachines.partition_state import PartitionState
from statemachines.replica_state import ReplicaState
from zk.znodes import TopicZNode

if TYPE_CHECKING:
    from controller.kafka_controller import KafkaController


def process_topic_change(controller: KafkaController, _: TopicChange) -> None:
    """Compare /brokers/topics with the context, forget what is gone, bring online what is new."""
    context = controller.context
    topics = controller.zk.get_all_topics_in_cluster(watch=True)
    known = context.all_topics
    # What is malformed is watched by itself, and read again once its data change.
    new = [t for t in topics if t not in known and TopicZNode.path(t) not in controller.malformed]
    deleted = sorted(known.difference(topics))
    context.set_all_topics(known.union(new).difference(deleted))
    loaded = load_topics(controller, new) if new else []
    controller.topic_deletion_manager.forget_topics(deleted)
    for topic in deleted:
        context.remove_topic(topic)
    controller.watches.unregister_topics(deleted)
    _forget_malformed(controller, topics)
    create_partitions(controller, loaded, deleted)


def create_partitions(
    controller: KafkaController,
    loaded: Sequence[TopicIdReplicaAssignment],
    deleted: Sequence[str] = (),
) -> None:
    """Put the assignments of new topics into the context and bring their partitions online."""
    context = controller.context
    for topic in loaded:
        controller.recorder.occurrence(
            Kind.TOPIC_CREATED, topic=topic.topic, detail=f"{len(topic.assignment)} partitions"
        )
        for tp, assignment in topic.assignment.items():
            context.update_partition_full_replica_assignment(tp, assignment)
    names = scala_set(topic.topic for topic in loaded)
    assignments = scala_set(_text(topic) for topic in loaded)
    controller.log.info(
        f"New topics: [{names}], deleted topics: [{scala_set(deleted)}], "
        f"new partition replica assignment [{assignments}]"
    )
    if loaded:
        on_new_partition_creation(controller, [tp for topic in loaded for tp in topic.assignment])


def on_new_partition_creation(
    controller: KafkaController, partitions: Sequence[TopicPartition]
) -> None:
    """Partitions New, replicas New, partitions Online, replicas Online."""
    controller.log.info(f"New partition creation callback for {','.join(map(str, partitions))}")
    replicas = controller.context.replicas_for_partitions(partitions)
    partition_state_machine = controller.partition_state_machine
    replica_state_machine = controller.replica_state_machine
    partition_state_machine.handle_state_changes(partitions, PartitionState.NEW)
    replica_state_machine.handle_state_changes(replicas, ReplicaState.NEW)
    partition_state_machine.handle_state_changes(
        partitions, PartitionState.ONLINE, OFFLINE_ELECTION
    )
    replica_state_machine.handle_state_changes(replicas, ReplicaState.ONLINE)


def _forget_malformed(controller: KafkaController, topics: Sequence[str]) -> None:
    """Topics that were malformed, or whose states were, and are gone are no news any more."""
    there = set(topics)
    parent = TopicZNode.path("")
    for path in list(controller.malformed):
        topic = path.removeprefix(parent).partition("/")[0]
        if path.startswith(parent) and topic not in there:
            del controller.malformed[path]
            controller.watches.unregister_topics([topic])


def _text(topic: TopicIdReplicaAssignment) -> str:
    assignments = ", ".join(f"{tp} -> {a}" for tp, a in topic.assignment.items())
    topic_id = "None" if topic.topic_id is None else f"Some({topic.topic_id})"
    return f"TopicIdReplicaAssignment({topic.topic},{topic_id},Map({assignments}))"
