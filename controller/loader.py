"""Loading the cluster from ZooKeeper into the context after an election.

The reads are sent in a few pipelined batches and arm watches; only missing topic ids are written.
Mirrors initializeControllerContext and processTopicIds of kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from klamm.admin.topics.topics import new_topic_id
from klamm.cluster.types import Broker, ReplicaAssignment, TopicIdReplicaAssignment
from klamm.controller.events import BrokerChange
from klamm.controller.state_change_log import scala_set
from klamm.statemachines.partition_transitions import initialize_partition_states
from klamm.zk.kafka_zk_client import Decoded, RegisteredBroker
from klamm.zk.store import Exists
from klamm.zk.znodes import BrokerIdsZNode, BrokerIdZNode, MalformedZNode, TopicZNode

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController


def initialize_controller_context(controller: KafkaController) -> None:
    """Fill an empty context from ZooKeeper and open a channel to every live broker.

    Malformed znodes are quarantined; with the quirk malformed_znode_fails_the_event they fail the
    failover.
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
    log.info(f"Current list of topics in the cluster: {scala_set(topics)}")


def read_live_brokers(controller: KafkaController) -> Decoded[int, RegisteredBroker]:
    """Read the registered brokers, by ascending id, and watch the children of /brokers/ids.

    Malformed registrations are watched too, so that their brokers are served once repaired.
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
        # Repaired or deleted between the two reads: no watch fires for that.
        controller.events.put_caused(BrokerChange())


def broker_and_epochs(registered: Iterable[RegisteredBroker]) -> Mapping[Broker, int]:
    """Return {broker: broker epoch}."""
    return {found.broker: found.epoch for found in registered}


def broker_epochs_text(epochs: Mapping[int, int]) -> str:
    """Format broker epochs as Kafka logs them."""
    return f"HashMap({', '.join(f'{id_} -> {epoch}' for id_, epoch in sorted(epochs.items()))})"


def watch_brokers(controller: KafkaController, broker_ids: list[int]) -> None:
    """Watch the registrations of these brokers, whose end points may change."""
    controller.log.debug(f"Register BrokerModifications handler for {scala_set(broker_ids)}")
    controller.watches.brokers.update(broker_ids)
    controller.zk.paths_exist([BrokerIdZNode.path(id_) for id_ in broker_ids], watch=True)


def load_topics(controller: KafkaController, topics: list[str]) -> list[TopicIdReplicaAssignment]:
    """Read and watch topics of the context, and assign topic ids where they are missing.

    A malformed topic is removed from the topics of the context, but its znode stays watched, so
    that it is served once repaired. With the quirk malformed_znode_fails_the_event, raises
    MalformedZNode instead.
    """
    context = controller.context
    controller.watches.topics.update(topics)
    found = read_topics(controller, topics)
    _quarantine_duplicate_ids(controller, found)
    if found.malformed or found.missing:
        context.set_all_topics(context.all_topics.difference(topics).union(found.values))
    loaded = _with_topic_ids(controller, list(found.values.values()))
    for topic in loaded:
        if topic.topic_id is not None:
            context.add_topic_id(topic.topic, topic.topic_id)
    return loaded


def read_topics(
    controller: KafkaController, topics: list[str]
) -> Decoded[str, TopicIdReplicaAssignment]:
    """Read and watch topic znodes; quarantine those that are malformed or cannot be served.

    With the quirk malformed_znode_fails_the_event, raises MalformedZNode for a malformed topic and
    serves every other topic, as Kafka does.
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
    """Return the topic with all replicas kept for partitions that would lose all of them.

    Kafka 2.8.2 writes such a topic znode for a reassignment entry without replicas; see the quirk
    empty_reassignment_is_started.
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
    """Return why a topic cannot be served: a partition without replicas or with invalid ids.

    Such a partition could never be led, moved or deleted. Returns None for a valid topic.
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
    """Quarantine topics with a duplicate topic id; the topic that was created first keeps it.

    2.8.2 fails every failover with an IllegalStateException; so does klamm with the quirk
    malformed_znode_fails_the_event.
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
    """Draw a topic id that is neither in use nor in ``drawn``, and add it to ``drawn``.

    With the same seed and the same ZooKeeper the first draw may already be in use.
    """
    known = controller.context.topic_names
    while (topic_id := new_topic_id(controller.random)) in known or topic_id in drawn:
        pass
    drawn.add(topic_id)
    return topic_id


def _with_topic_ids(
    controller: KafkaController, topics: list[TopicIdReplicaAssignment]
) -> list[TopicIdReplicaAssignment]:
    """Return the topics with ids; new ids are written to the znodes before this returns.

    A topic whose znode cannot be written stays without an id.
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
