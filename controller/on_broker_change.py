"""Handlers for brokers that registered, failed, restarted quickly, or changed their end points.

Mirrors processBrokerChange, onBrokerStartup, onBrokerFailure, onReplicasBecomeOffline and
processBrokerModification of kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.journal import Kind
from klamm.cluster.types import Broker
from klamm.controller.events import BrokerChange, BrokerModifications
from klamm.controller.loader import (
    broker_and_epochs,
    broker_epochs_text,
    read_live_brokers,
    watch_brokers,
)
from klamm.controller.on_reassignment import maybe_resume_reassignments
from klamm.controller.state_change_log import id_list
from klamm.controller.topic_deletion_manager import replicas_text
from klamm.statemachines.context import ReplicasByBroker
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.replica_state import ReplicaState
from klamm.statemachines.topic_deletion import queued_replicas
from klamm.zk.kafka_zk_client import RegisteredBroker
from klamm.zk.znodes import BrokerIdZNode, MalformedZNode

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController


def process_broker_change(controller: KafkaController, _: BrokerChange) -> None:
    """Compare /brokers/ids with the context, and handle new, dead and bounced brokers.

    A bounced broker restarted so quickly that the controller only sees a new broker epoch (the
    czxid of the registration znode). A live broker whose registration znode becomes malformed
    keeps its cached registration.
    """
    context = controller.context
    current = read_live_brokers(controller).values
    known = context.live_broker_epochs
    new = [id_ for id_ in current if id_ not in known]
    dead = sorted(
        id_
        for id_ in known
        if id_ not in current and BrokerIdZNode.path(id_) not in controller.malformed
    )
    bounced = [id_ for id_ in current if id_ in known and current[id_].epoch > known[id_]]
    controller.log.info(
        f"Newly added brokers: {id_list(new)}, deleted brokers: {id_list(dead)}, "
        f"bounced brokers: {id_list(bounced)}, all live brokers: {id_list(current)}"
    )
    for id_ in (*bounced, *dead):
        controller.channels.remove_broker(id_)
    for id_ in (*new, *bounced):
        controller.channels.add_broker(id_)
    if new:
        context.add_live_brokers(broker_and_epochs(current[id_] for id_ in new))
        on_broker_startup(controller, [current[id_] for id_ in new])
    if bounced:
        context.remove_live_brokers(bounced)
        on_broker_failure(controller, bounced)
        context.add_live_brokers(broker_and_epochs(current[id_] for id_ in bounced))
        on_broker_startup(controller, [current[id_] for id_ in bounced])
    if dead:
        context.remove_live_brokers(dead)
        on_broker_failure(controller, dead)
    if new or dead or bounced:
        epochs = broker_epochs_text(context.live_broker_epochs)
        controller.log.info(f"Updated broker epochs cache: {epochs}")


def on_broker_startup(controller: KafkaController, brokers: Sequence[RegisteredBroker]) -> None:
    """Bring new brokers into the cluster.

    UpdateMetadata sends the list of live brokers to the existing brokers, and all metadata to the
    new brokers. The replicas on the new brokers come online, leaders are elected for leaderless
    partitions, and reassignments and topic deletions that waited for the new brokers are resumed.
    """
    context = controller.context
    new = [found.broker.id for found in brokers]
    # The request batch omits brokers that are not live: their replicas would come online unasked.
    assert context.live_broker_epochs.keys() >= set(new), "a new broker is not live"
    controller.log.info(f"New broker startup callback for {id_list(new)}")
    for found in brokers:
        controller.recorder.occurrence(
            Kind.BROKER_ONLINE, replica=found.broker.id, zxid=found.epoch
        )
    existing = context.live_or_shutting_down_broker_ids.difference(new)
    controller.send_update_metadata_request(existing, ())
    controller.send_update_metadata_request(new, context.partitions_with_leaders())
    replicas = context.replicas_on_brokers(new)
    controller.replica_state_machine.handle_state_changes(replicas, ReplicaState.ONLINE)
    controller.partition_state_machine.trigger_online_partition_state_change()
    maybe_resume_reassignments(
        controller, lambda _, assignment: not set(new).isdisjoint(assignment.target_replicas)
    )
    _resume_deletions(controller, replicas, new)
    watch_brokers(controller, new)


def on_broker_failure(controller: KafkaController, broker_ids: Sequence[int]) -> None:
    """Take replicas on failed brokers offline, shrink the ISRs, and elect new leaders."""
    context, log = controller.context, controller.log
    # Otherwise the elections below could choose a replica on a broker that has failed.
    assert context.live_broker_epochs.keys().isdisjoint(broker_ids), "a failed broker is live"
    log.info(f"Broker failure callback for {id_list(broker_ids)}")
    for broker_id in broker_ids:
        controller.recorder.occurrence(Kind.BROKER_OFFLINE, replica=broker_id)
        context.replicas_on_offline_dirs.pop(broker_id, None)
    shutting_down = [id_ for id_ in broker_ids if id_ in context.shutting_down_broker_ids]
    if shutting_down:
        context.remove_shutting_down_brokers(shutting_down)
        log.info(f"Removed {id_list(shutting_down)} from list of shutting down brokers.")
    on_replicas_become_offline(controller, context.replicas_on_brokers(broker_ids))
    controller.watches.brokers.difference_update(broker_ids)


def on_replicas_become_offline(controller: KafkaController, replicas: ReplicasByBroker) -> None:
    """Elect new leaders for the partitions that ``replicas`` led, and take ``replicas`` offline.

    Even if no partition needs a new leader, UpdateMetadata sends the list of live brokers to all
    brokers. Kafka 2.8.2 does not send it while any partition of the cluster is leaderless
    (KAFKA-13225).
    """
    context, partitions = controller.context, controller.partition_state_machine
    with_offline_leader = context.partitions_with_offline_leader()
    partitions.handle_state_changes(with_offline_leader, PartitionState.OFFLINE)
    elected = partitions.trigger_online_partition_state_change()
    not_deleted = {
        broker_id: kept
        for broker_id, tps in replicas.items()
        if (kept := [tp for tp in tps if tp.topic not in context.topics_to_be_deleted])
    }
    controller.replica_state_machine.handle_state_changes(not_deleted, ReplicaState.OFFLINE)
    controller.topic_deletion_manager.fail_replica_deletion(replicas)
    no_update_sent = not not_deleted and all(
        isinstance(result, StateChangeFailed) for result in elected.values()
    )
    if not with_offline_leader or (no_update_sent and not controller.quirks.kafka_13225):
        controller.send_update_metadata_request(context.live_or_shutting_down_broker_ids, ())


def _resume_deletions(
    controller: KafkaController, replicas: ReplicasByBroker, broker_ids: Sequence[int]
) -> None:
    """Resume the deletion of topics that have replicas on brokers that have returned."""
    found = queued_replicas(controller.context, replicas)
    topics = sorted({tp.topic for tps in found.values() for tp in tps})
    if topics:
        controller.log.info(
            f"Some replicas {replicas_text(found)} for topics scheduled for deletion "
            f"{','.join(sorted(controller.context.topics_to_be_deleted))} are on the newly "
            f"restarted brokers {id_list(broker_ids)}. "
            "Signaling restart of topic deletion for these topics"
        )
        controller.topic_deletion_manager.resume_deletion_for_topics(topics)


def process_broker_modification(controller: KafkaController, event: BrokerModifications) -> None:
    """Handle a changed broker registration: send the broker's new end points to all brokers."""
    context, broker_id = controller.context, event.broker_id
    try:
        new = controller.zk.get_broker(broker_id, watch=True)
    except MalformedZNode as error:
        if controller.quirks.malformed_znode_fails_the_event:
            raise
        controller.quarantine_malformed([error])
        return
    was_malformed = controller.malformed.pop(BrokerIdZNode.path(broker_id), None) is not None
    old = context.live_brokers.get(broker_id)
    if was_malformed and old is None:
        process_broker_change(controller, BrokerChange())
        return
    if new is None or old is None or new.end_points == old.end_points:
        return
    controller.log.info(f"Updated broker metadata: {_text(old)} -> {_text(new)}")
    context.update_broker_metadata(new)
    controller.recorder.occurrence(Kind.BROKER_MODIFIED, replica=broker_id, detail=_text(new))
    controller.log.info(f"Broker info update callback for {broker_id}")
    controller.send_update_metadata_request(context.live_or_shutting_down_broker_ids, ())


def _text(broker: Broker) -> str:
    end_points = ", ".join(e.connection_string for e in broker.end_points)
    return f"{broker.id} : {end_points} : {broker.rack or 'null'}"
