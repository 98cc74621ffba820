"""/admin/reassign_partitions as the controller uses it: entries leave it, the znode with the last.

What the entries mean is not known here. Mirrors maybeRemoveFromZkReassignment and
removePartitionFromReassigningPartitions of kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from cluster.types import ReplicaAssignment, TopicPartition
from controller.events import ZkPartitionReassignment
from zk.store import Delete, ResultCode, SetData, WriteOp
from zk.znode_client import store_error
from zk.znodes import MalformedZNode, ReassignPartitionsZNode, UnparsableJson

if TYPE_CHECKING:
    from controller.kafka_controller import KafkaController

_PATH: Final = ReassignPartitionsZNode.path


class Entries(NamedTuple):
    """What /admin/reassign_partitions holds, as it stands there, and the version of the znode."""

    targets: dict[TopicPartition, tuple[int, ...]]
    version: int


def maybe_remove_from_zk_reassignment(
    controller: KafkaController, should_remove: Callable[[TopicPartition, tuple[int, ...]], bool]
) -> None:
    """Take entries off /admin/reassign_partitions, and the znode with the last one.

    The write is to the version that was read: an entry put there meanwhile is not lost.
    """
    context = controller.context
    while controller.zk.path_exists(_PATH):
        targets, version = read_reassignment(controller)
        left = {tp: target for tp, target in targets.items() if not should_remove(tp, target)}
        shown = ", ".join(
            f"{tp} -> Buffer({', '.join(map(str, target))})"
            for tp, target in targets.items()
            if tp not in left
        )
        controller.log.info(
            f"Removing partitions Map({shown}) from the list of reassigned partitions in zookeeper"
        )
        data = ReassignPartitionsZNode.encode(left)
        op: WriteOp = SetData(_PATH, data, version) if left else Delete(_PATH, version)
        if not left:
            controller.log.info(
                f"No more partitions need to be reassigned. Deleting zk path {_PATH}"
            )
        result = controller.controller_zk.fenced_write([op], context.epoch_zk_version)[0]
        if result.code is ResultCode.OK:
            controller.reassignments.forget_taken_up(left)
            controller.reassignments.decoded = (data, left)
            if not left:
                controller.malformed.pop(_PATH, None)
                # The watch is armed again by whoever processes this.
                controller.events.put_caused(ZkPartitionReassignment())
            return
        if result.code is ResultCode.NOTEMPTY:
            controller.controller_zk.delete_below(_PATH, context.epoch_zk_version)
        elif result.code not in (
            ResultCode.BADVERSION,
            ResultCode.NONODE,
            ResultCode.CONNECTIONLOSS,
        ):
            raise store_error(result.code, _PATH)


def remove_completed_reassignments(
    controller: KafkaController, completed: Mapping[TopicPartition, ReplicaAssignment]
) -> None:
    """Phase B7: these partitions are no longer being reassigned."""
    is_exact = controller.quirks.kafka_9478

    def is_completed(tp: TopicPartition, target: tuple[int, ...]) -> bool:
        assignment = completed.get(tp)
        return assignment is not None and assignment.replicas == (
            target if is_exact else tuple(dict.fromkeys(target))
        )

    controller.watches.unregister_reassigned(completed)
    maybe_remove_from_zk_reassignment(controller, is_completed)
    controller.context.partitions_being_reassigned.difference_update(completed)


def read_reassignment(controller: KafkaController) -> Entries:
    """The entries of the znode; none if it cannot be read, or is gone.

    With hazard C2 raises MalformedZNode where Kafka throws.
    """
    found = controller.zk.get_data_and_stat(_PATH)
    if found is None:
        return Entries({}, 0)
    data, stat = found
    known = controller.reassignments.decoded
    if known is not None and known[0] == data:
        return Entries(known[1], stat.version)
    try:
        targets = ReassignPartitionsZNode.decode(data)
        controller.reassignments.decoded = (data, targets)
        return Entries(targets, stat.version)
    except UnparsableJson as error:
        controller.log.warn(f"Ignoring partition reassignment due to invalid json: {error}")
        malformed = MalformedZNode(str(error), None)
    except MalformedZNode as error:
        if controller.quirks.hazard_c2:
            raise error.at(_PATH) from None
        malformed = error
    controller.set_malformed_apart([malformed.at(_PATH)])
    return Entries({}, stat.version)
