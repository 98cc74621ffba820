"""Code that kafka-reassign-partitions uses with --zookeeper as well as with --bootstrap-server.

This module generates plans, reports the result of --verify and clears throttles; zookeeper.py and
cluster.py access the cluster. Mirrors ReassignPartitionsCommand.calculateAssignment and the last
steps of each action.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from klamm.cluster.counting import joined, plural
from klamm.cluster.errors import AdminError
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.scala_sets import hash_set_order, immutable_order, int_hash
from klamm.cluster.types import TopicPartition, TopicPartitionReplica
from klamm.placement.assign import Replicas
from klamm.placement.broker_metadata import BrokerMetadata, broker_metadatas
from klamm.placement.draws import IntSource
from klamm.placement.pool_rules import assign_in_pool, check_moves_in_pool
from klamm.placement.pools import NO_POOLS, Pools
from klamm.tools.reassignments.options import ReassignOptions
from klamm.tools.reassignments.reassignment_json import (
    format_reassignment,
    parse_generate_arguments,
)
from klamm.tools.reassignments.text import LogDirMoveState, PartitionReassignmentState, started_text
from klamm.tools.reassignments.throttles import Throttles
from klamm.tools.tool_output import ToolOutput, read_file
from klamm.tools.tool_services import ToolServices

if TYPE_CHECKING:
    from klamm.admin.configs.zookeeper import ZooKeeperConfigs
    from klamm.admin.kafka_admin import KafkaAdmin

COMPLETE: Final = "complete"
IN_PROGRESS: Final = "in_progress"
DIFFERENT: Final = "different"

Assignment = Mapping[TopicPartition, Replicas]


class TerseFailure(AdminError):
    """Kafka's TerseReassignmentFailureException: the tool prints only its message."""


class OwnOptions(msgspec.Struct, frozen=True):
    """Options that klamm adds to kafka-reassign-partitions.

    ``save_throttles`` is the file to which the previous throttles are saved, ``restore_throttles``
    the file from which they are restored. With ``pools``, no partition may gain a replica outside
    its topic's pool.
    """

    save_throttles: Path | None = None
    restore_throttles: Path | None = None
    show_throttles: bool = False
    pools: Pools = NO_POOLS


def calculate_assignment(
    current: Assignment,
    first: Callable[[Sequence[TopicPartition], int], TopicPartition],
    brokers: Sequence[BrokerMetadata],
    source: IntSource,
    pools: Pools,
) -> dict[TopicPartition, Replicas]:
    """Compute a new replica assignment for each topic, inside the topic's pool.

    The partitions in the result are numbered from 0, even if those in ``current`` are not. All
    partitions of a topic get the replication factor of its first partition, which ``first`` returns
    given the topic's partitions and the number of all partitions. As in Kafka, topics are in the
    iteration order of Scala's maps. Raises InvalidReplicationFactor, AdminOperationError.
    """
    proposed: dict[TopicPartition, Replicas] = {}
    for topic in hash_set_order([tp.topic for tp in current], string_hash):
        of_topic = [tp for tp in current if tp.topic == topic]
        factor = len(current[first(of_topic, len(current))])
        assigned = assign_in_pool(pools, topic, brokers, len(of_topic), factor, source)
        proposed |= {
            TopicPartition(topic, partition): replicas for partition, replicas in assigned.items()
        }
    return proposed


def check_plan_in_pools(proposed: Assignment, current: Assignment, pools: Pools) -> None:
    """Raise InvalidReplicaAssignment if a partition gains a replica outside its pool."""
    check_moves_in_pool(
        pools,
        {
            tp: [id_ for id_ in proposed[tp] if id_ not in current.get(tp, ())]
            for tp in sorted(proposed)
        },
    )


class ReassignmentTool(ABC):
    """Base class of ClusterReassignment and ZooKeeperReassignment.

    ``ASKS_BROKERS``: the throttles of a broker can only be changed through that broker, if it runs.
    """

    ASKS_BROKERS: ClassVar[bool]

    def __init__(
        self,
        configs: KafkaAdmin | ZooKeeperConfigs,
        output: ToolOutput,
        own: OwnOptions,
        services: ToolServices,
    ) -> None:
        self._output = output
        self._own = own
        self._services = services
        self._throttles = Throttles(configs, output, own.save_throttles)

    @abstractmethod
    def _replicas(self, topics: Sequence[str]) -> dict[TopicPartition, Replicas]:
        """Return the replicas of every partition of ``topics``."""

    @staticmethod
    @abstractmethod
    def first(of_topic: Sequence[TopicPartition], count: int) -> TopicPartition:
        """Return the partition of a topic that is first in Kafka's map of ``count`` partitions."""

    @abstractmethod
    def _brokers(self) -> Sequence[BrokerMetadata]:
        """Return the live brokers and their racks."""

    @abstractmethod
    def _live_brokers(self) -> Sequence[int]:
        """Return the ids of the live brokers."""

    def generate(self, command: ReassignOptions) -> None:
        """Propose new replicas for topics, and print the current and the proposed assignment."""
        text = read_file(command.text("topics-to-move-json-file"))
        brokers, topics = parse_generate_arguments(text, command.text("broker-list"))
        current = self._replicas(topics)
        live = [broker for broker in self._brokers() if broker.id in brokers]
        usable = broker_metadatas(live, ignores_racks=command.options.has("disable-rack-aware"))
        proposed = calculate_assignment(
            current, self.first, usable, self._services.source, self._own.pools
        )
        shown = [format_reassignment(assignment, {}) for assignment in (current, proposed)]
        self._output.println(
            f"Current partition replica assignment\n{shown[0]}\n",
            f"Proposed partition reassignment configuration\n{shown[1]}",
        )
        self._output.report["current"] = msgspec.Raw(shown[0].encode())
        self._output.report["proposed"] = msgspec.Raw(shown[1].encode())

    def _report_verified(
        self,
        partitions: Mapping[TopicPartition, PartitionReassignmentState],
        replicas: Mapping[TopicPartitionReplica, LogDirMoveState],
    ) -> None:
        """Add the states of all moves to the report.

        The report's ``state`` is IN_PROGRESS if any move is in progress, otherwise DIFFERENT if a
        partition or replica is not as planned, otherwise COMPLETE.
        """
        states = [_partition_state(state) for state in partitions.values()]
        states += [_replica_state(state) for state in replicas.values()]
        self._output.report["state"] = next(
            (state for state in (IN_PROGRESS, DIFFERENT) if state in states), COMPLETE
        )
        self._output.report["partitions"] = [
            {
                **tp._asdict(),
                "replicas": partitions[tp].current_replicas,
                "target": partitions[tp].target_replicas,
                "state": _partition_state(partitions[tp]),
            }
            for tp in sorted(partitions)
        ]
        self._output.report["log_dirs"] = [
            {**replica._asdict(), **replicas[replica]._asdict(), "state": _replica_state(state)}
            for replica, state in sorted(replicas.items(), key=lambda item: item[0].order)
        ]

    def _show_started(self, targets: Assignment) -> None:
        """Print that a reassignment has started, and add the reassignment to the report."""
        self._output.println(started_text(targets))
        self._output.report["started"] = [
            {**tp._asdict(), "replicas": targets[tp]} for tp in sorted(targets)
        ]

    def _end(self, targets: Sequence[tuple[TopicPartition, Replicas]], *, is_over: bool) -> None:
        """If the reassignment is over, clear its throttles or restore the saved throttles.

        Then add to the report the throttles of the brokers and topics involved. With
        --show-throttles, report and print all throttles of the cluster instead. Raises TerseFailure
        if the throttles of some brokers could not be restored.
        """
        live, skipped, file = self._live_brokers(), list[str](), self._own.restore_throttles
        if is_over and file is not None:
            skipped = self._throttles.restore(file, live if self.ASKS_BROKERS else None)
        elif is_over:
            in_targets = immutable_order((id_ for _, ids in targets for id_ in ids), int_hash)
            brokers = immutable_order([*immutable_order(live, int_hash), *in_targets], int_hash)
            topics = immutable_order((tp.topic for tp, _ in targets), string_hash)
            self._throttles.clear(brokers, topics)
        if self._own.show_throttles:
            self._output.println(*self._throttles.show())
        else:
            named = {*live, *(id_ for _, ids in targets for id_ in ids)}
            self._throttles.report(named, [tp.topic for tp, _ in targets])
        if skipped:
            raise TerseFailure(
                f"Not registered: broker{plural(len(skipped))} {joined(skipped)}. Their throttles"
                f" stay in {file}",
                hint="repeat the command once they are registered, or use --verify --zookeeper; "
                "if they are gone for good, delete the file",
            )


def _partition_state(state: PartitionReassignmentState) -> str:
    if not state.done:
        return IN_PROGRESS
    return COMPLETE if state.is_complete else DIFFERENT


def _replica_state(state: LogDirMoveState) -> str:
    if state.done:
        return COMPLETE if state.current == state.target else DIFFERENT
    return IN_PROGRESS if state.is_active else DIFFERENT
