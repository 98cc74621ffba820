"""What both ways of kafka-reassign-partitions share: generate a plan, tell what was verified.

It knows neither ZooKeeper nor a server; zookeeper.py and cluster.py do. Mirrors
ReassignPartitionsCommand.calculateAssignment and the ends of its entry points.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from admin.reassignments.options import ReassignOptions
from admin.reassignments.reassignment_json import TopicPartitionReplica, format_reassignment
from admin.reassignments.text import LogDirMoveState, PartitionReassignmentState, started_text
from admin.reassignments.throttles import Throttles
from admin.scala_sets import hash_set_order, immutable_order, int_hash, topic_partition_hash
from admin.tool_output import ToolOutput
from cluster.errors import AdminError
from cluster.java_hash import string_hash
from cluster.types import TopicPartition
from placement.assign import Replicas
from placement.broker_metadata import BrokerMetadata, RackAwareMode, broker_metadatas
from placement.draws import IntSource
from placement.pool_rules import assign_in_pool, check_moves_in_pool
from placement.pools import Pools

COMPLETE: Final = "complete"
IN_PROGRESS: Final = "in_progress"
DIFFERENT: Final = "different"

Assignment = Mapping[TopicPartition, Replicas]


class TerseFailure(AdminError):
    """The tool prints this message alone: Kafka's TerseReassignmentFailureException."""


class OwnOptions(msgspec.Struct, frozen=True):
    """What klamm adds to the tool. Files are those of saved throttles.

    With ``pools`` no partition gains a replica outside its topic's pool.
    """

    save_throttles: Path | None = None
    restore_throttles: Path | None = None
    show_throttles: bool = False
    pools: Pools | None = None


def calculate_assignment(
    current: Assignment,
    brokers: Sequence[BrokerMetadata],
    source: IntSource,
    pools: Pools | None = None,
) -> dict[TopicPartition, Replicas]:
    """Place the partitions of every topic anew, each topic inside its pool.

    Partitions count from 0, with the replication factor of the topic's first partition in Scala's
    order; topics draw in that order too. Raises InvalidReplicationFactor, AdminOperationError.
    """
    ordered = immutable_order(current, topic_partition_hash)
    proposed: dict[TopicPartition, Replicas] = {}
    for topic in hash_set_order([tp.topic for tp in ordered], string_hash):
        of_topic = immutable_order(
            [tp for tp in ordered if tp.topic == topic], topic_partition_hash
        )
        assigned = assign_in_pool(
            pools, topic, brokers, len(of_topic), len(current[of_topic[0]]), source
        )
        proposed |= {
            TopicPartition(topic, partition): replicas for partition, replicas in assigned.items()
        }
    return proposed


def check_plan_in_pools(proposed: Assignment, current: Assignment, pools: Pools | None) -> None:
    """Refuse a plan by which a partition gains a replica outside its pool.

    Raises InvalidReplicaAssignment.
    """
    check_moves_in_pool(
        pools,
        {
            tp: [id_ for id_ in proposed[tp] if id_ not in current.get(tp, ())]
            for tp in sorted(proposed)
        },
    )


def generate(
    current: Assignment,
    brokers: Iterable[BrokerMetadata],
    command: ReassignOptions,
    source: IntSource,
    pools: Pools | None,
    output: ToolOutput,
) -> None:
    """Propose new replicas on ``brokers``, and print what is and what is proposed."""
    is_disabled = command.options.has("disable-rack-aware")
    mode = RackAwareMode.DISABLED if is_disabled else RackAwareMode.ENFORCED
    proposed = calculate_assignment(current, broker_metadatas(brokers, mode), source, pools)
    shown = [format_reassignment(assignment, {}) for assignment in (current, proposed)]
    output.println(f"Current partition replica assignment\n{shown[0]}\n")
    output.println(f"Proposed partition reassignment configuration\n{shown[1]}")
    output.report["current"] = msgspec.Raw(shown[0].encode())
    output.report["proposed"] = msgspec.Raw(shown[1].encode())


def report_verified(
    partitions: Mapping[TopicPartition, PartitionReassignmentState],
    replicas: Mapping[TopicPartitionReplica, LogDirMoveState],
    output: ToolOutput,
) -> None:
    """Report for machines where everything stands. ``state`` is that of the least advanced."""
    states = [_partition_state(state) for state in partitions.values()]
    states += [_replica_state(state) for state in replicas.values()]
    output.report["state"] = next(
        (state for state in (IN_PROGRESS, DIFFERENT) if state in states), COMPLETE
    )
    output.report["partitions"] = [
        {
            **tp._asdict(),
            "replicas": partitions[tp].current_replicas,
            "target": partitions[tp].target_replicas,
            "state": _partition_state(partitions[tp]),
        }
        for tp in sorted(partitions)
    ]
    output.report["log_dirs"] = [
        {**replica._asdict(), **replicas[replica]._asdict(), "state": _replica_state(state)}
        for replica, state in sorted(replicas.items(), key=lambda item: item[0].order)
    ]


def finish_throttles(
    throttles: Throttles,
    own: OwnOptions,
    live_brokers: Iterable[int],
    targets: Sequence[tuple[TopicPartition, Replicas]],
) -> None:
    """Clear the throttles of a reassignment that is over, or put back those from before."""
    if own.restore_throttles is not None:
        throttles.restore(own.restore_throttles)
        return
    target_brokers = immutable_order((id_ for _, ids in targets for id_ in ids), int_hash)
    brokers = immutable_order([*immutable_order(live_brokers, int_hash), *target_brokers], int_hash)
    topics = immutable_order((tp.topic for tp, _ in targets), string_hash)
    throttles.clear(brokers, topics)


def show_throttles(
    throttles: Throttles,
    own: OwnOptions,
    output: ToolOutput,
    live_brokers: Iterable[int],
    targets: Sequence[tuple[TopicPartition, Replicas]],
) -> None:
    """Report the throttles of these brokers, and of the brokers and topics of ``targets`` or, if
    that was asked for, print all that are set."""
    if own.show_throttles:
        output.println(*throttles.show())
    else:
        brokers = {*live_brokers, *(id_ for _, ids in targets for id_ in ids)}
        throttles.report(brokers, [tp.topic for tp, _ in targets])


def show_started(targets: Assignment, output: ToolOutput) -> None:
    """Say that a reassignment has begun."""
    output.println(started_text(targets))
    output.report["started"] = [{**tp._asdict(), "replicas": targets[tp]} for tp in sorted(targets)]


def _partition_state(state: PartitionReassignmentState) -> str:
    if not state.done:
        return IN_PROGRESS
    return COMPLETE if state.is_complete else DIFFERENT


def _replica_state(state: LogDirMoveState) -> str:
    if state.done:
        return COMPLETE if state.current == state.target else DIFFERENT
    return IN_PROGRESS if state.is_active else DIFFERENT
