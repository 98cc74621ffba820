"""Loading the cluster into the context after an election: everything, in a few waves.

Reads and arms watches; changes nothing but missing topic ids. Mirrors initializeControllerContext
and processTopicIds of kafka/controller/KafkaController.scala.
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

    A malformed znode is set apart; with hazard C2 it ends the failover.
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
    """The registered brokers, by ascending id; arms the child watch of /brokers/ids.

    Of those that cannot be read the data are watched, so that they are served once mended.
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
        # Mended, or gone, between the two reads: no watch will tell.
        controller.events.put_caused(BrokerChange())


def broker_and_epochs(registered: Iterable[RegisteredBroker]) -> Mapping[Broker, int]:
    """{broker: broker epoch}."""
    return {found.broker: found.epoch for found in registered}


def broker_epochs_text(epochs: Mapping[int, int]) -> str:
    """Broker epochs as Kafka logs them."""
    return f"HashMap({', '.join(f'{id_} -> {epoch}' for id_, epoch in sorted(epochs.items()))})"


def watch_brokers(controller: KafkaController, broker_ids: list[int]) -> None:
    """Watch the registrations of these brokers for other end points."""
    controller.log.debug(f"Register BrokerModifications handler for {scala_set(broker_ids)}")
    controller.watches.brokers.update(broker_ids)
    controller.zk.paths_exist([BrokerIdZNode.path(id_) for id_ in broker_ids], watch=True)


def load_topics(controller: KafkaController, topics: list[str]) -> list[TopicIdReplicaAssignment]:
    """Read and watch topics of the context, and give an id to those that have none.

    A topic that cannot be read leaves the context's topics; its data stays watched, so that it is
    served once it is mended. Raises MalformedZNode with hazard C2.
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
    """Read topics and watch their data; sets apart what cannot be read or cannot be served.

    Raises MalformedZNode with hazard C2, which serves any topic that can be read, as Kafka does.
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
    """The topic as it is served: partitions that are to lose all their replicas keep them.

    Kafka 2.8.2 leaves a topic znode so after an entry without replicas (hazard C11).
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
                    f"Partition {tp} is to lose all its replicas, which cannot be completed: "
                    f"it keeps {','.join(map(str, assignment.replicas))}"
                )
    return served


def _malformed_reason(topic: TopicIdReplicaAssignment) -> str | None:
    """Why an assignment cannot be one: a partition that could never be led, moved or deleted."""
    for tp, assignment in topic.assignment.items():
        replicas = assignment.replicas
        if not replicas:
            return f"partition {tp.partition} has no replicas"
        if len(set(replicas)) < len(replicas) or min(replicas) < 0:
            return f"partition {tp.partition} has impossible replicas {list(replicas)}"
    return None


def _quarantine_duplicate_ids(
    controller: KafkaController, found: Decoded[str, TopicIdReplicaAssignment]
) -> None:
    """Quarantine topics with a duplicate topic id; the topic that was created first keeps it.

    2.8.2 fails with an IllegalStateException, at every failover; so does klamm with hazard C2.
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
                reason = f"its id {topic_id} belongs to topic {owner}: write it without topic_id"
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

    The same seed on the same ZooKeeper may repeat an id: then the next one is drawn.
    """
    known = controller.context.topic_names
    while (topic_id := new_topic_id(controller.random)) in known or topic_id in drawn:
        pass
    drawn.add(topic_id)
    return topic_id


def _with_topic_ids(
    controller: KafkaController, topics: list[TopicIdReplicaAssignment]
) -> list[TopicIdReplicaAssignment]:
    """The topics, each with an id; new ids are in their znodes when this returns."""
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
        # A topic that was deleted in the meantime, or whose znode is as big as ZooKeeper takes.
        controller.log.warn(f"Topic {topic} gets no id: {failure.reason}")
    return [
        topic if topic.topic in failed else with_new_ids.get(topic.topic, topic) for topic in topics
    ]
