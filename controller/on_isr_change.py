"""ISRs that leaders wrote themselves, as they do before the inter-broker protocol 2.7.

A leader that changed a state znode leaves a notice in /isr_change_notification. Mirrors
processIsrChangeNotification and updateLeaderAndIsrCache of
kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from cluster.types import TopicPartition
from controller.events import IsrChangeNotification
from controller.notices import Notices, delete_notices, names_of, numbers_of
from controller.on_reassignment import maybe_complete_reassignments
from zk.znodes import IsrChangeNotificationSequenceZNode, IsrChangeNotificationZNode

if TYPE_CHECKING:
    from controller.kafka_controller import KafkaController

NOTICES: Final = Notices(
    IsrChangeNotificationZNode.path, IsrChangeNotificationSequenceZNode.sequence_number_prefix
)


def process_isr_change_notification(controller: KafkaController, _: IsrChangeNotification) -> None:
    """Read the states that notices name, tell every broker, and delete the notices.

    A notice that cannot be read is set apart and deleted like the others. With hazard C2 it fails
    the event, and all are deleted unread.
    """
    names = names_of(controller, NOTICES)
    try:
        partitions = _changed_partitions(controller, names)
        if partitions:
            _take_over(controller, partitions)
    finally:
        delete_notices(controller, NOTICES, names)


def _changed_partitions(controller: KafkaController, names: Sequence[str]) -> list[TopicPartition]:
    """The partitions that notices name, each once."""
    numbers = numbers_of(controller, NOTICES, names)
    found = controller.zk.get_partitions_from_isr_change_notifications(numbers)
    controller.set_malformed_apart(found.malformed)
    return list(dict.fromkeys(tp for named in found.values.values() for tp in named))


def _take_over(controller: KafkaController, partitions: Sequence[TopicPartition]) -> None:
    """Put the states as their leaders wrote them into the context, and spread them."""
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
