"""Log directories that brokers lost.

A broker that lost one leaves a notice in /log_dir_event_notification. Which replicas were there is
not known here: the broker is sent every replica that it hosts. on_responses.py takes those offline
that it answers with KAFKA_STORAGE_ERROR, and puts those online that were offline and get NONE.
Mirrors processLogDirEventNotification and onBrokerLogDirFailure of
kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from controller.events import LogDirEventNotification
from controller.notices import Notices, delete_notices, names_of, numbers_of
from controller.state_change_log import id_list
from statemachines.replica_state import ReplicaState
from zk.znodes import LogDirEventNotificationSequenceZNode, LogDirEventNotificationZNode

if TYPE_CHECKING:
    from controller.kafka_controller import KafkaController

NOTICES: Final = Notices(
    LogDirEventNotificationZNode.path, LogDirEventNotificationSequenceZNode.sequence_number_prefix
)


def process_log_dir_event_notification(
    controller: KafkaController, _: LogDirEventNotification
) -> None:
    """Ask the brokers that notices name for their replicas, and delete the notices.

    A notice that cannot be read is set apart and deleted like the others. With hazard C2 it fails
    the event, and all are deleted unread.
    """
    names = names_of(controller, NOTICES)
    try:
        on_broker_log_dir_failure(controller, _broker_ids(controller, names))
    finally:
        delete_notices(controller, NOTICES, names)


def _broker_ids(controller: KafkaController, names: Sequence[str]) -> list[int]:
    """The brokers that notices name, in their order."""
    found = controller.zk.get_broker_ids_from_log_dir_events(numbers_of(controller, NOTICES, names))
    controller.set_malformed_apart(found.malformed)
    return list(found.values.values())


def on_broker_log_dir_failure(controller: KafkaController, broker_ids: Sequence[int]) -> None:
    """Send the brokers all of their replicas, to learn which are on a failed directory.

    Replicas on directories that failed before are sent too, and stay offline until their broker
    answers NONE. A dead broker is not asked. Kafka 2.8.2 puts all of them online (hazard C10).
    """
    context = controller.context
    controller.log.info(f"Handling log directory failure for brokers {id_list(broker_ids)}")
    asked = dict.fromkeys(broker_ids)
    if not controller.quirks.hazard_c10:
        live = context.live_or_shutting_down_broker_ids
        asked = {broker_id: None for broker_id in asked if broker_id in live}
    replicas = context.replicas_on_brokers(asked)
    controller.replica_state_machine.handle_state_changes(replicas, ReplicaState.ONLINE)
