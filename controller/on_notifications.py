"""Handlers of broker notifications: sequential children of a znode, deleted after they are read.

The controller lists the notifications when it processes the event, and deletes exactly those
(KAFKA-5879): one that is created in the meantime fires the watch again.

/isr_change_notification lists partitions whose ISR was written by the leader itself, as leaders do
before inter-broker protocol 2.7. /log_dir_event_notification lists brokers with a failed log
directory, but not the replicas on it: the broker is sent every replica that it hosts, and
on_responses.py takes the replicas offline that it answers with KAFKA_STORAGE_ERROR, and takes
offline replicas online that it answers with NONE. Mirrors processIsrChangeNotification,
updateLeaderAndIsrCache, processLogDirEventNotification and onBrokerLogDirFailure of
kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.cluster.types import TopicPartition
from klamm.controller.events import IsrChangeNotification, LogDirEventNotification
from klamm.controller.on_reassignment import maybe_complete_reassignments
from klamm.controller.state_change_log import id_list
from klamm.statemachines.replica_state import ReplicaState
from klamm.zk.znodes import (
    IsrChangeNotificationSequenceZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationSequenceZNode,
    LogDirEventNotificationZNode,
    MalformedZNode,
)

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController


class Notifications(NamedTuple):
    """Parent znode of one kind of notification, and the prefix of their names."""

    path: str
    prefix: str


ISR_CHANGES: Final = Notifications(
    IsrChangeNotificationZNode.path, IsrChangeNotificationSequenceZNode.sequence_number_prefix
)
LOG_DIR_EVENTS: Final = Notifications(
    LogDirEventNotificationZNode.path, LogDirEventNotificationSequenceZNode.sequence_number_prefix
)


def list_notifications(controller: KafkaController, notifications: Notifications) -> list[str]:
    """Return all children of the parent znode, sorted, and watch its children."""
    return controller.zk.get_children(notifications.path, watch=True)


def _sequence_numbers(
    controller: KafkaController, notifications: Notifications, names: Sequence[str]
) -> list[str]:
    """Return the sequence numbers of the notifications among ``names``.

    Other znodes are quarantined; with the quirk malformed_znode_fails_the_event they are skipped.
    """
    path, prefix = notifications
    if not controller.quirks.malformed_znode_fails_the_event:
        controller.quarantine_malformed(
            MalformedZNode("not a notification", None).at(f"{path}/{name}")
            for name in names
            if not name.startswith(prefix)
        )
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


def delete_notifications(
    controller: KafkaController, notifications: Notifications, names: Sequence[str]
) -> None:
    """Delete children of the parent znode, whether they are notifications or not.

    With the quirk malformed_znode_fails_the_event, only notifications are deleted.
    """
    path, prefix = notifications
    if controller.quirks.malformed_znode_fails_the_event:
        names = [name for name in names if name.startswith(prefix)]
    paths = [f"{path}/{name}" for name in names]
    controller.controller_zk.delete_notifications(paths, controller.context.epoch_zk_version)
    for deleted in paths:
        controller.malformed.pop(deleted, None)


@contextmanager
def _deleted_at_the_end(
    controller: KafkaController, notifications: Notifications
) -> Iterator[list[str]]:
    """Yield the sequence numbers of the current notifications, and delete these afterwards."""
    names = list_notifications(controller, notifications)
    try:
        yield _sequence_numbers(controller, notifications, names)
    finally:
        delete_notifications(controller, notifications, names)


def process_isr_change_notification(controller: KafkaController, _: IsrChangeNotification) -> None:
    """Read the partition states listed in notifications, and send them to all brokers.

    The notifications are deleted; a malformed one is quarantined and deleted too. With the quirk
    malformed_znode_fails_the_event, it fails the event, and all are deleted without effect.
    """
    with _deleted_at_the_end(controller, ISR_CHANGES) as numbers:
        found = controller.zk.get_partitions_from_isr_change_notifications(numbers)
        controller.quarantine_malformed(found.malformed)
        partitions = list(dict.fromkeys(tp for named in found.values.values() for tp in named))
        if partitions:
            _take_over(controller, partitions)


def _take_over(controller: KafkaController, partitions: Sequence[TopicPartition]) -> None:
    """Read the states that leaders wrote into the context, and send them to all brokers."""
    context = controller.context
    known = [tp for tp in partitions if context.partition_replica_assignment(tp)]
    before = {tp: context.partition_leadership_info(tp) for tp in known}
    controller.refresh_leaderships(known)
    controller.recorder.isrs_changed(
        (tp, leadership, previous)
        for tp, previous in before.items()
        if (leadership := context.partition_leadership_info(tp)) is not None
        and leadership != previous
    )
    brokers = context.live_or_shutting_down_broker_ids
    controller.log.debug(
        f"Sending MetadataRequest to Brokers: ArrayBuffer({', '.join(map(str, brokers))}) for "
        f"TopicPartitions: ArrayBuffer({', '.join(map(str, partitions))})"
    )
    controller.send_update_metadata_request(brokers, known)
    maybe_complete_reassignments(controller, known)


def process_log_dir_event_notification(
    controller: KafkaController, _: LogDirEventNotification
) -> None:
    """Find the failed replicas of the brokers listed in notifications.

    The notifications are deleted; a malformed one is quarantined and deleted too. With the quirk
    malformed_znode_fails_the_event, it fails the event, and all are deleted without effect.
    """
    with _deleted_at_the_end(controller, LOG_DIR_EVENTS) as numbers:
        found = controller.zk.get_broker_ids_from_log_dir_events(numbers)
        controller.quarantine_malformed(found.malformed)
        on_broker_log_dir_failure(controller, list(found.values.values()))


def on_broker_log_dir_failure(controller: KafkaController, broker_ids: Sequence[int]) -> None:
    """Send the brokers all of their replicas, to learn which are on a failed log directory.

    Replicas on directories that failed earlier are sent too, and stay offline until their broker
    answers NONE. Dead brokers are skipped. Kafka 2.8.2 marks all these replicas as online (quirk
    log_dir_failure_revives_offline_replicas).
    """
    context = controller.context
    controller.log.info(f"Handling log directory failure for brokers {id_list(broker_ids)}")
    asked = dict.fromkeys(broker_ids)
    if not controller.quirks.log_dir_failure_revives_offline_replicas:
        live = context.live_or_shutting_down_broker_ids
        asked = {broker_id: None for broker_id in asked if broker_id in live}
    replicas = context.replicas_on_brokers(asked)
    controller.replica_state_machine.handle_state_changes(replicas, ReplicaState.ONLINE)
