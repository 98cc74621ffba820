"""Handlers for created topics, added partitions, and deleted or repaired topic znodes.

Mirrors processTopicChange, processPartitionModifications and onNewPartitionCreation of
kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from klamm.cluster.journal import Kind
from klamm.cluster.jvm.scala_sets import scala_hash_set, scala_set
from klamm.cluster.types import TopicIdReplicaAssignment, TopicPartition
from klamm.controller.events import PartitionModifications, TopicChange
from klamm.controller.loader import load_topics, read_topics, with_replicas_kept
from klamm.controller.partition_state_machine import OFFLINE_ELECTION
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.replica_state import ReplicaState
from klamm.zk.store import ResultCode, SetData
from klamm.zk.znode_client import store_error
from klamm.zk.znodes import MalformedZNode, TopicZNode

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController


def process_topic_change(controller: KafkaController, _: TopicChange) -> None:
    """Compare /brokers/topics with the context: remove deleted topics, bring new topics online."""
    context = controller.context
    topics = controller.zk.get_all_topics_in_cluster(watch=True)
    known = context.all_topics
    # A malformed topic has its own data watch, and is read again when its data changes.
    new = [t for t in topics if t not in known and TopicZNode.path(t) not in controller.malformed]
    deleted = sorted(known.difference(topics))
    context.set_all_topics(known.union(new))
    loaded = load_topics(controller, new) if new else []
    controller.topic_deletion_manager.forget_topics(deleted)
    for topic in deleted:
        context.remove_topic(topic)
    controller.watches.topics.difference_update(deleted)
    _forget_malformed(controller, topics)
    create_partitions(controller, loaded, deleted)


def create_partitions(
    controller: KafkaController,
    loaded: Sequence[TopicIdReplicaAssignment],
    deleted: Sequence[str] = (),
) -> None:
    """Cache the assignments of new topics in the context, and bring their partitions online."""
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
        f"New topics: [{names}], deleted topics: [{scala_hash_set(deleted)}], "
        f"new partition replica assignment [{assignments}]"
    )
    if loaded:
        on_new_partition_creation(controller, [tp for topic in loaded for tp in topic.assignment])


def on_new_partition_creation(
    controller: KafkaController, partitions: Sequence[TopicPartition]
) -> None:
    """Move new partitions and their replicas to New and then to Online."""
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
    there = set(topics)
    parent = TopicZNode.path("")
    for path in list(controller.malformed):
        topic = path.removeprefix(parent).partition("/")[0]
        if path.startswith(parent) and topic not in there:
            del controller.malformed[path]
            controller.watches.topics.discard(topic)


def _text(topic: TopicIdReplicaAssignment) -> str:
    assignments = ", ".join(f"{tp} -> {a}" for tp, a in topic.assignment.items())
    topic_id = "None" if topic.topic_id is None else f"Some({topic.topic_id})"
    return f"TopicIdReplicaAssignment({topic.topic},{topic_id},Map({assignments}))"


def process_partition_modifications(
    controller: KafkaController, event: PartitionModifications
) -> None:
    """Read a changed topic znode and bring its new partitions online.

    Events of this type that directly follow in the queue are processed with the same batch of
    reads, because a reassignment writes many watched topic znodes at once. If another client
    changed the replicas of existing partitions or removed the topic id, the znode is restored: only
    a reassignment may change replicas. Kafka 2.8.2 ignores such changes until the next failover
    (KAFKA-12493, CMAK-878). The removal of partitions from the znode is ignored.
    """
    topic = event.topic
    # With this quirk, the event of a malformed znode fails: other topics need separate events.
    taken = (
        []
        if controller.quirks.malformed_znode_fails_the_event
        else controller.events.take_following(PartitionModifications)
    )
    following = [(queued, event.topic) for queued, event in taken]
    names = dict.fromkeys((topic, *(name for _, name in following)))
    mended = {
        name
        for name in names
        if controller.malformed.pop(TopicZNode.path(name), None) is not None
        and name not in controller.context.all_topics
    }
    read = read_topics(controller, [name for name in names if name not in mended]).values
    _take_over(controller, topic, read.pop(topic, None), topic in mended)
    for queued, name in following:
        with controller.events.processing(queued):
            controller.recorder.occurrence(Kind.EVENT, detail=str(queued.event))
            _take_over(controller, name, read.pop(name, None), name in mended)


def _take_over(
    controller: KafkaController, topic: str, read: TopicIdReplicaAssignment | None, is_mended: bool
) -> None:
    """Process the content of one topic znode: add new partitions, restore a changed assignment."""
    context = controller.context
    if is_mended and topic not in context.all_topics:
        _serve_mended_topic(controller, topic)
        return
    if read is None:
        return
    assignments = read.assignment
    added = {tp: a for tp, a in assignments.items() if not context.partition_replica_assignment(tp)}
    if topic in context.topics_to_be_deleted:
        _refuse_partitions(controller, read, list(added))
        return
    changed = [
        tp for tp, a in assignments.items() if tp not in added and a != context.assignments[tp]
    ]
    # Only with the quirk empty_reassignment_is_started: the reassignment that removed the replicas
    # from the context wrote this znode.
    emptied = [tp for tp in added if tp in context.leaderships]
    for tp, assignment in added.items():
        context.update_partition_full_replica_assignment(tp, assignment)
    if _is_to_be_restored(controller, read, changed):
        _restore_assignment(controller, read)
    if not added:
        return
    shown = ", ".join(f"{tp} -> {assignment}" for tp, assignment in added.items())
    controller.log.info(f"New partitions to be added Map({shown})")
    controller.recorder.occurrence(
        Kind.PARTITIONS_ADDED, topic=topic, detail=f"{len(added)} partitions"
    )
    if emptied:
        raise LookupError(f"partition {emptied[0]} had no replicas")
    on_new_partition_creation(controller, list(added))


def _is_to_be_restored(
    controller: KafkaController,
    read: TopicIdReplicaAssignment,
    changed: Sequence[TopicPartition],
) -> bool:
    quirks, log = controller.quirks, controller.log
    is_changed = bool(changed) and not quirks.kafka_12493
    if is_changed:
        log.warn(
            f"Another client changed the replicas of partitions {','.join(map(str, changed))} in "
            "the topic znode: only a reassignment may change them"
        )
    topic_id = controller.context.topic_ids.get(read.topic)
    is_id_lost = topic_id is not None and read.topic_id is None and not quirks.cmak_878
    if is_id_lost:
        log.warn(f"Another client removed the topic id {topic_id} from the znode of {read.topic}")
    return is_changed or is_id_lost


def _refuse_partitions(
    controller: KafkaController, read: TopicIdReplicaAssignment, added: Sequence[TopicPartition]
) -> None:
    """Reject partitions added to a topic that is being deleted, by restoring the topic znode."""
    log = controller.log
    if not added:
        log.info("Ignoring partition change during topic deletion as no new partitions are added")
        return
    log.warn(
        f"Skipping adding partitions {','.join(str(tp.partition) for tp in added)} for topic "
        f"{read.topic} since it is currently being deleted"
    )
    _restore_assignment(controller, read)


def _restore_assignment(controller: KafkaController, read: TopicIdReplicaAssignment) -> None:
    """Overwrite a topic znode with the assignment and topic id cached in the context.

    Do nothing if the znode has changed since it was read: the change fires another event, and
    partitions that a tool has just added must not be lost.
    """
    log, context, topic = controller.log, controller.context, read.topic
    log.info(f"Restoring the partition replica assignment for topic {topic}")
    path = TopicZNode.path(topic)
    version = _version_of(controller, read)
    if version is None:
        return
    kept = {
        tp: assignment
        for tp, assignment in context.partition_full_replica_assignment_for_topic(topic).items()
        if assignment.replicas
    }
    data = TopicZNode.encode(context.topic_ids.get(topic), kept)
    op = SetData(path, data, version)
    (result,) = controller.controller_zk.write_until_known([op], context.epoch_zk_version)
    if result.code not in (ResultCode.OK, ResultCode.BADVERSION):
        failure = store_error(result.code, path)
        log.warn(f"Failed to restore the assignment of topic {topic}: {failure}")


def _version_of(controller: KafkaController, read: TopicIdReplicaAssignment) -> int | None:
    """Return the version of a topic znode, or None if the znode has changed since it was read."""
    found = controller.zk.get_data_and_stat(TopicZNode.path(read.topic))
    if found is None:
        return None
    try:
        current = TopicZNode.decode(read.topic, found[0])
    except MalformedZNode:
        return None
    is_same = read in (current, with_replicas_kept(current))
    return found[1].version if is_same else None


def _serve_mended_topic(controller: KafkaController, topic: str) -> None:
    controller.context.set_all_topics(controller.context.all_topics | {topic})
    create_partitions(controller, load_topics(controller, [topic]))
