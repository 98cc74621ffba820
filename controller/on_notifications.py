"""Handlers for broker notifications: sequential child znodes that are deleted after they are read.

The controller lists the notifications when it processes the event, and deletes only the listed
znodes (KAFKA-5879). A notification created in the meantime fires the watch again.

A notification in /isr_change_notification lists partitions whose leaders have written a new ISR to
ZooKeeper, as leaders do before inter-broker protocol 2.7. A notification in
/log_dir_event_notification has the id of a broker with a failed log directory, but does not name
the replicas in that directory. So the controller sends LeaderAndIsr for every replica on the
broker. on_responses.py then takes replicas with the error KAFKA_STORAGE_ERROR offline, and brings
offline replicas without an error back online. Mirrors processIsrChangeNotification,
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
from klamm.zk.znodes.json_values import STRING_INDEX

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController


class Notifications(NamedTuple):
    """Type of notification: the path of the parent znode, and the name prefix of its children."""

    path: str
    prefix: str


ISR_CHANGES: Final = Notifications(
    IsrChangeNotificationZNode.path, IsrChangeNotificationSequenceZNode.sequence_number_prefix
)
LOG_DIR_EVENTS: Final = Notifications(
    LogDirEventNotificationZNode.path, LogDirEventNotificationSequenceZNode.sequence_number_prefix
)


def list_notifications(controller: KafkaController, notifications: Notifications) -> list[str]:
    """Return the sorted names of the parent znode's children, and set a child watch on it.

    With the quirk malformed_znode_fails_the_event, MalformedZNode is raised for a name that is too
    short for a notification. Kafka cuts the prefix off without looking for it.
    """
    path, prefix = notifications
    names = controller.zk.get_children(path, watch=True)
    if controller.quirks.malformed_znode_fails_the_event:
        begin = len(prefix) - 1
        for name in names:
            if len(name) < begin:
                reason = f"begin {begin}, end {len(name)}, length {len(name)}"
                raise MalformedZNode(reason, STRING_INDEX).at(f"{path}/{name}")
    return names


def _sequence_numbers(
    controller: KafkaController, notifications: Notifications, names: Sequence[str]
) -> list[str]:
    """Return the sequence numbers of the notifications among the child znodes ``names``.

    Child znodes that are not notifications are quarantined. With the quirk
    malformed_znode_fails_the_event, those whose names are long enough are ignored.
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
    """Delete the given child znodes, including those that are not notifications.

    ``names`` are the names of the child znodes. With the quirk malformed_znode_fails_the_event,
    only notifications are deleted.
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
    """Context manager that yields sequence numbers, and deletes the notifications on exit.

    A controller that crashes (in the simulated world, with a BaseException) deletes nothing.
    """
    names = list_notifications(controller, notifications)
    try:
        yield _sequence_numbers(controller, notifications, names)
    except Exception:
        delete_notifications(controller, notifications, names)
        raise
    delete_notifications(controller, notifications, names)


def process_isr_change_notification(controller: KafkaController, _: IsrChangeNotification) -> None:
    """Read the states of the partitions in the notifications, and send them to all brokers.

    All notifications are then deleted, including malformed ones, which are quarantined. With the
    quirk malformed_znode_fails_the_event, a malformed notification makes the event fail,
    and all notifications are deleted without effect.
    """
    with _deleted_at_the_end(controller, ISR_CHANGES) as numbers:
        found = controller.zk.get_partitions_from_isr_change_notifications(numbers)
        controller.quarantine_malformed(found.malformed)
        partitions = list(dict.fromkeys(tp for named in found.values.values() for tp in named))
        if partitions:
            _take_over(controller, partitions)


def _take_over(controller: KafkaController, partitions: Sequence[TopicPartition]) -> None:
    """Read the partition states that leaders wrote, cache them, and send them to all brokers."""
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
    controller.send_update_metadata_request(brokers, partitions)
    maybe_complete_reassignments(controller, known)


def process_log_dir_event_notification(
    controller: KafkaController, _: LogDirEventNotification
) -> None:
    """Find out which replicas have failed on the brokers named in the notifications.

    All notifications are then deleted, including malformed ones, which are quarantined. With the
    quirk malformed_znode_fails_the_event, a malformed notification makes the event fail,
    and all notifications are deleted without effect.
    """
    with _deleted_at_the_end(controller, LOG_DIR_EVENTS) as numbers:
        found = controller.zk.get_broker_ids_from_log_dir_events(numbers)
        controller.quarantine_malformed(found.malformed)
        on_broker_log_dir_failure(controller, list(found.values.values()))


def on_broker_log_dir_failure(controller: KafkaController, broker_ids: Sequence[int]) -> None:
    """Find out which replicas on the given brokers have failed.

    LeaderAndIsr is sent to each live broker for all its replicas, and the response has an error for
    each failed replica. A replica that failed earlier stays offline until the broker responds
    without an error for it. Kafka 2.8.2 marks all replicas on the brokers as online until the
    response arrives (quirk log_dir_failure_revives_offline_replicas).
    """
    context = controller.context
    controller.log.info(f"Handling log directory failure for brokers {id_list(broker_ids)}")
    asked = dict.fromkeys(broker_ids)
    if not controller.quirks.log_dir_failure_revives_offline_replicas:
        live = context.live_or_shutting_down_broker_ids
        asked = {broker_id: None for broker_id in asked if broker_id in live}
    replicas = context.replicas_on_brokers(asked)
    controller.replica_state_machine.handle_state_changes(replicas, ReplicaState.ONLINE)
