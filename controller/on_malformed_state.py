"""Reads partition states from ZooKeeper, and quarantines malformed znodes of any kind.

A quarantined znode is recorded and logged once, and ignored until it has been repaired. A malformed
state znode stays watched, so that the partition comes back online as soon as the znode is
rewritten. Kafka 2.8.2 has no such quarantine (quirk malformed_znode_fails_the_event): in Kafka,
the partition comes back online only after the next failover.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from klamm.cluster.errors import ControllerMoved
from klamm.cluster.journal import Kind
from klamm.cluster.types import TopicPartition
from klamm.controller.events import PartitionStateModifications
from klamm.controller.on_reassignment import maybe_complete_reassignments
from klamm.controller.partition_state_machine import OFFLINE_ELECTION
from klamm.statemachines.partition_state import PartitionState
from klamm.zk.znodes import MalformedZNode, TopicPartitionStateZNode

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController


def refresh_leaderships(
    controller: KafkaController, partitions: Sequence[TopicPartition], watch: bool = False
) -> list[TopicPartition]:
    """Read partition state znodes into the context.

    Return the partitions whose state znode is missing or malformed. Raises ControllerMoved if a
    newer controller wrote one of the states.
    """
    if not partitions:
        return []
    context = controller.context
    found = controller.zk.get_partition_states(partitions, watch)
    controller.quarantine_malformed(found.malformed)
    for tp, leadership in found.values.items():
        if leadership.controller_epoch > context.epoch:
            raise ControllerMoved(
                f"The state of {tp} was written by a newer controller, with epoch "
                f"{leadership.controller_epoch}"
            )
        context.put_partition_leadership_info(tp, leadership)
    return [tp for tp in partitions if tp not in found.values]


def quarantine_malformed(controller: KafkaController, malformed: Iterable[MalformedZNode]) -> None:
    """Record, log and journal malformed znodes, and watch those that are state znodes.

    A znode that is already recorded with the same reason is not reported again.
    """
    states: list[TopicPartition] = []
    for error in malformed:
        path, reason = error.path or "?", error.reason
        if controller.malformed.get(path) == reason:
            continue
        controller.malformed[path] = reason
        controller.log.warn(f"Ignoring the malformed znode {path}: {reason}")
        controller.recorder.occurrence(Kind.ZNODE_MALFORMED, detail=path, outcome=reason)
        tp = TopicPartitionStateZNode.partition_of(path)
        if tp is not None:
            states.append(tp)
    if states:
        _watch(controller, states)


def process_partition_state_modifications(
    controller: KafkaController, event: PartitionStateModifications
) -> None:
    """Bring a partition back online after its malformed state znode was repaired or deleted.

    A new leader is elected, because the controller does not know which leader each broker was last
    sent. If the state znode is missing and the partition is in state NewPartition, the state znode
    is created. A reassignment that was waiting for the state is resumed.
    """
    tp = event.topic_partition
    path = TopicPartitionStateZNode.path(tp)
    if path not in controller.malformed:
        return
    context = controller.context
    if not context.partition_replica_assignment(tp):
        del controller.malformed[path]
        return
    found = controller.zk.get_partition_states([tp], watch=True)
    controller.quarantine_malformed(found.malformed)
    if found.malformed:
        return
    controller.malformed.pop(path, None)
    if tp.topic in context.topics_to_be_deleted:
        return
    controller.log.info(f"The state of partition {tp} can be read again")
    machine = controller.partition_state_machine
    if tp in found.values:
        if controller.refresh_leaderships([tp]):
            return
        machine.handle_state_changes([tp], PartitionState.OFFLINE)
    elif context.partition_state(tp) is not PartitionState.NEW:
        return
    machine.handle_state_changes([tp], PartitionState.ONLINE, OFFLINE_ELECTION)
    maybe_complete_reassignments(controller, [tp])


def _watch(controller: KafkaController, partitions: Sequence[TopicPartition]) -> None:
    again = controller.zk.get_partition_states(partitions, watch=True)
    malformed = {error.path for error in again.malformed}
    for tp in partitions:
        # The znode was repaired between the two reads, so no watch will fire.
        if TopicPartitionStateZNode.path(tp) not in malformed:
            controller.events.put_caused(PartitionStateModifications(tp))
