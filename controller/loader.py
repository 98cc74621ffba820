"""Loads the cluster state from ZooKeeper into the controller context after an election.

The reads are sent in a few pipelined batches and also set watches. Nothing is written except
missing topic ids. Mirrors initializeControllerContext and processTopicIds of
kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from klamm.admin.topics import new_topic_id
from klamm.cluster.jvm.scala_sets import scala_hash_set, scala_set
from klamm.cluster.types import Broker, ReplicaAssignment, TopicIdReplicaAssignment
from klamm.controller.events import BrokerChange
from klamm.statemachines.partition_transitions import initialize_partition_states
from klamm.zk.kafka_zk_client import Decoded, RegisteredBroker
from klamm.zk.store import Exists
from klamm.zk.znodes import BrokerIdsZNode, BrokerIdZNode, MalformedZNode, TopicZNode

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController


def initialize_controller_context(controller: KafkaController) -> None:
    """Fill the empty context from ZooKeeper, and open a channel to every live broker.

    Malformed znodes are quarantined. With the quirk malformed_znode_fails_the_event, the failover
    fails instead.
    """
    context, log = controller.context, controller.log
    brokers = read_live_brokers(controller)
    context.set_live_brokers(broker_and_epochs(brokers.values.values()))
    log.info(f"Initialized broker epochs cache: {broker_epochs_text(context.live_broker_epochs)}")
    topics = controller.zk.get_all_topics_in_cluster(watch=True)
    context.set_all_topics(topics)
    for topic in load_topics(controller, topics):
        for tp, assignment in topic.assignment.items():
            context.update_partition_full_replica_assignment(tp, assignment)
            if assignment.is_being_reassigned:
                context.partitions_being_reassigned.add(tp)
    watch_brokers(controller, list(brokers.values))
    partitions = list(context.all_partitions())
    states = controller.zk.get_partition_states(partitions)
    controller.quarantine_malformed(states.malformed)
    for tp, leadership in states.values.items():
        context.put_partition_leadership_info(tp, leadership)
    # Kafka does this after the replicas' first transitions, which change no partition's state.
    initialize_partition_states(context)
    controller.recorder.partition_snapshots(context)
    for broker_id in brokers.values:
        controller.channels.add_broker(broker_id)
    log.info(f"Currently active brokers in the cluster: {scala_set(brokers.values)}")
    log.info("Currently shutting brokers in the cluster: HashSet()")
    log.info(f"Current list of topics in the cluster: {scala_hash_set(topics)}")


def read_live_brokers(controller: KafkaController) -> Decoded[int, RegisteredBroker]:
    """Read the registered brokers in ascending id order, and watch the children of /brokers/ids.

    Malformed registration znodes are watched too, so that the broker joins the cluster once its
    znode has been repaired.
    """
    found = controller.zk.get_all_brokers_and_epochs_in_cluster(watch=True)
    controller.quarantine_malformed(found.malformed)
    malformed = {error.path for error in found.malformed}
    for path in list(controller.malformed):
        if path.startswith(f"{BrokerIdsZNode.path}/") and path not in malformed:
            del controller.malformed[path]
    if malformed:
        _watch_malformed_brokers(controller)
    return found


def _watch_malformed_brokers(controller: KafkaController) -> None:
    ids = [id_ for path in controller.malformed if (id_ := BrokerIdZNode.id_of(path)) is not None]
    controller.watches.brokers.update(ids)
    for broker_id in ids:
        try:
            controller.zk.get_broker(broker_id, watch=True)
        except MalformedZNode:
            continue
        # The znode was repaired or deleted between the two reads, so no watch will fire.
        controller.events.put_caused(BrokerChange())


def broker_and_epochs(registered: Iterable[RegisteredBroker]) -> Mapping[Broker, int]:
    """Return {broker: broker epoch} for the registered brokers."""
    return {found.broker: found.epoch for found in registered}


def broker_epochs_text(epochs: Mapping[int, int]) -> str:
    """Format broker epochs as Kafka logs them."""
    return f"HashMap({', '.join(f'{id_} -> {epoch}' for id_, epoch in sorted(epochs.items()))})"


def watch_brokers(controller: KafkaController, broker_ids: list[int]) -> None:
    """Watch the registration znodes of ``broker_ids``, to notice changed end points."""
    controller.log.debug(f"Register BrokerModifications handler for {scala_set(broker_ids)}")
    controller.watches.brokers.update(broker_ids)
    controller.zk.paths_exist([BrokerIdZNode.path(id_) for id_ in broker_ids], watch=True)


def load_topics(controller: KafkaController, topics: list[str]) -> list[TopicIdReplicaAssignment]:
    """Read and watch the znodes of ``topics``, and assign topic ids where they are missing.

    New ids are added to the context, but not to the returned topics, which are as they were read.

    A topic with a malformed znode is removed from the context, but the znode stays watched, so that
    the topic is loaded once the znode has been repaired. With the quirk
    malformed_znode_fails_the_event, MalformedZNode is raised instead.
    """
    context = controller.context
    controller.watches.topics.update(topics)
    found = read_topics(controller, topics)
    _quarantine_duplicate_ids(controller, found)
    if found.malformed or found.missing:
        context.set_all_topics(context.all_topics.difference(topics).union(found.values))
    loaded = list(found.values.values())
    for topic in _with_topic_ids(controller, loaded):
        if topic.topic_id is not None:
            context.add_topic_id(topic.topic, topic.topic_id)
    return loaded


def read_topics(
    controller: KafkaController, topics: list[str]
) -> Decoded[str, TopicIdReplicaAssignment]:
    """Read and watch topic znodes, and quarantine those that are malformed or unusable.

    With the quirk malformed_znode_fails_the_event, MalformedZNode is raised for a malformed znode,
    and topics with an unusable assignment (see _malformed_reason) are returned, as in Kafka.
    """
    found = controller.zk.get_topic_assignments(topics, watch=True)
    if not controller.quirks.empty_reassignment_is_started:
        for topic, read in found.values.items():
            found.values[topic] = _with_replicas_kept(controller, read)
    if not controller.quirks.malformed_znode_fails_the_event:
        for topic, read in list(found.values.items()):
            reason = _malformed_reason(read)
            if reason is not None:
                del found.values[topic]
                found.malformed.append(MalformedZNode(reason, None).at(TopicZNode.path(topic)))
    controller.quarantine_malformed(found.malformed)
    return found


def with_replicas_kept(topic: TopicIdReplicaAssignment) -> TopicIdReplicaAssignment:
    """Return ``topic`` without the reassignments that would remove all replicas of a partition.

    Kafka 2.8.2 stores such a reassignment in the topic znode if the requested replica list is empty
    (see the quirk empty_reassignment_is_started).
    """
    kept = {
        tp: ReplicaAssignment(assignment.replicas)
        for tp, assignment in topic.assignment.items()
        if assignment.removing_replicas and not assignment.target_replicas
    }
    if not kept:
        return topic
    return msgspec.structs.replace(topic, assignment={**topic.assignment, **kept})


def _with_replicas_kept(
    controller: KafkaController, read: TopicIdReplicaAssignment
) -> TopicIdReplicaAssignment:
    served = with_replicas_kept(read)
    if served is not read:
        for tp, assignment in served.assignment.items():
            if assignment != read.assignment[tp]:
                controller.log.warn(
                    f"The reassignment of partition {tp} removes all its replicas and cannot "
                    f"complete: keeping replicas {','.join(map(str, assignment.replicas))}"
                )
    return served


def _malformed_reason(topic: TopicIdReplicaAssignment) -> str | None:
    """Return why a topic's assignment is unusable, or None if it is valid.

    A partition without replicas, or with duplicate or negative replica ids, could never be led,
    moved or deleted.
    """
    for tp, assignment in topic.assignment.items():
        replicas = assignment.replicas
        if not replicas:
            return f"partition {tp.partition} has no replicas"
        if len(set(replicas)) < len(replicas) or min(replicas) < 0:
            return f"partition {tp.partition} has duplicate or negative replicas: {list(replicas)}"
    return None


def _quarantine_duplicate_ids(
    controller: KafkaController, found: Decoded[str, TopicIdReplicaAssignment]
) -> None:
    """If several topics have the same topic id, quarantine all but the topic created first.

    In Kafka 2.8.2, and with the quirk malformed_znode_fails_the_event, a duplicate topic id makes
    every failover fail (IllegalStateException).
    """
    known, owners = controller.context.topic_names, dict[str, str]()
    contested: dict[str, list[str]] = {}
    for topic, read in found.values.items():
        if read.topic_id is None:
            continue
        owner = known.get(read.topic_id) or owners.setdefault(read.topic_id, topic)
        if owner != topic:
            contested.setdefault(read.topic_id, [owner]).append(topic)
    if not contested or controller.quirks.malformed_znode_fails_the_event:
        return
    for topic_id, topics in contested.items():
        owner = known.get(topic_id) or _created_first(controller, topics)
        for topic in topics:
            if topic != owner:
                del found.values[topic]
                reason = (
                    f"topic id {topic_id} already belongs to topic {owner}: "
                    "remove topic_id from the znode"
                )
                found.malformed.append(MalformedZNode(reason, None).at(TopicZNode.path(topic)))
    controller.quarantine_malformed(found.malformed)


def _created_first(controller: KafkaController, topics: list[str]) -> str:
    results = controller.zk.read([Exists(TopicZNode.path(topic)) for topic in topics])
    ages = [
        (result.stat.czxid, topic)
        for topic, result in zip(topics, results, strict=True)
        if result.stat is not None
    ]
    return min(ages, default=(0, topics[0]))[1]


def draw_topic_id(controller: KafkaController, drawn: set[str]) -> str:
    """Draw a random topic id that is neither in use nor in ``drawn``, and add it to ``drawn``.

    An id may already be in use if an earlier run with the same seed created topics in the same
    ZooKeeper.
    """
    known = controller.context.topic_names
    while (topic_id := new_topic_id(controller.random)) in known or topic_id in drawn:
        pass
    drawn.add(topic_id)
    return topic_id


def _with_topic_ids(
    controller: KafkaController, topics: list[TopicIdReplicaAssignment]
) -> list[TopicIdReplicaAssignment]:
    """Assign ids to topics without an id, write the ids to the topic znodes, and return all topics.

    A topic whose znode cannot be written is left without an id.
    """
    without = [topic for topic in topics if topic.topic_id is None]
    if not without or not controller.config.uses_topic_ids:
        return topics
    drawn = {topic.topic_id for topic in topics if topic.topic_id is not None}
    with_new_ids = {
        topic.topic: TopicIdReplicaAssignment(
            topic.topic, draw_topic_id(controller, drawn), topic.assignment
        )
        for topic in without
    }
    failed = controller.controller_zk.set_topic_assignments(
        list(with_new_ids.values()), controller.context.epoch_zk_version
    )
    for topic, failure in failed.items():
        # The topic was deleted in the meantime, or its znode would exceed ZooKeeper's limit.
        controller.log.warn(f"Topic {topic} was not assigned a topic id: {failure.reason}")
    return [
        topic if topic.topic in failed else with_new_ids.get(topic.topic, topic) for topic in topics
    ]
