"""Log directories that brokers lost.

A broker that lost one leaves a notice in /log_dir_event_notification. Which replicas were there is
not known here: the broker is sent every replica that it hosts, and those that it answers with
KAFKA_STORAGE_ERROR are taken offline by on_responses.py. Mirrors processLogDirEventNotification and
onBrokerLogDirFailure of kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cluster.types import NO_LEADER, TopicPartition
from controller.notices import Notices, delete_notices, names_of, numbers_of
from controller.parts import Controller
from controller.state_change_log import id_list
from statemachines.context import ControllerContext
from statemachines.replica_state import ReplicaState
from zk.znodes import LogDirEventNotificationSequenceZNode, LogDirEventNotificationZNode

NOTICES: Final = Notices(
    LogDirEventNotificationZNode.path, LogDirEventNotificationSequenceZNode.sequence_number_prefix
)


def process_log_dir_event_notification(controller: Controller) -> None:
    """Ask the brokers that notices name for their replicas, and delete the notices.

    A notice that cannot be read is set apart and deleted like the others. With hazard C2 it fails
    the event, and all are deleted unread.
    """
    if not controller.is_active:
        return
    names = names_of(controller, NOTICES)
    try:
        on_broker_log_dir_failure(controller, _broker_ids(controller, names))
    finally:
        delete_notices(controller, NOTICES, names)


def _broker_ids(controller: Controller, names: Sequence[str]) -> list[int]:
    """The brokers that notices name, in their order."""
    found = controller.zk.get_broker_ids_from_log_dir_events(numbers_of(controller, NOTICES, names))
    controller.set_malformed_apart(found.malformed)
    return list(found.values.values())


def on_broker_log_dir_failure(controller: Controller, broker_ids: Sequence[int]) -> None:
    """Send the brokers their replicas, to learn which are on a failed directory.

    Offline replicas in the ISR are skipped, because they could become the leader. The broker is
    asked about the others: it can restore a damaged log as a follower, and a replica that is still
    offline is taken offline again. Kafka 2.8.2 puts all of them online (hazard C10).
    """
    context = controller.context
    controller.log.info(f"Handling log directory failure for brokers {id_list(broker_ids)}")
    replicas = context.replicas_on_brokers(dict.fromkeys(broker_ids))
    if not controller.quirks.hazard_c10:
        _forget_followers_on_offline_dirs(context, broker_ids)
        replicas = {
            broker_id: online
            for broker_id, tps in replicas.items()
            if (online := [tp for tp in tps if context.is_replica_online(broker_id, tp, True)])
        }
    controller.replica_state_machine.handle_state_changes(replicas, ReplicaState.ONLINE)


def _forget_followers_on_offline_dirs(
    context: ControllerContext, broker_ids: Sequence[int]
) -> None:
    for broker_id in broker_ids:
        offline = context.replicas_on_offline_dirs.pop(broker_id, set())
        kept = {tp for tp in offline if not _follows_outside_isr(context, broker_id, tp)}
        if kept:
            context.replicas_on_offline_dirs[broker_id] = kept


def _follows_outside_isr(context: ControllerContext, broker_id: int, tp: TopicPartition) -> bool:
    found = context.partition_leadership_info(tp)
    if found is None or tp.topic in context.topics_to_be_deleted:
        return False
    state = found.leader_and_isr
    return state.leader != NO_LEADER and broker_id not in state.isr
