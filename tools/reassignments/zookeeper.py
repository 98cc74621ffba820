"""kafka-reassign-partitions with ``--zookeeper``: writes /admin/reassign_partitions and throttles.

The controller carries out the reassignment. Mirrors the methods of ReassignPartitionsCommand that
take a KafkaZkClient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from klamm.admin.configs.zookeeper import ZooKeeperConfigs
from klamm.admin.topics import read_assignments, registered_brokers
from klamm.cluster.counting import joined
from klamm.cluster.errors import AdminCommandFailed
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.scala_sets import (
    SMALL_SET,
    hash_set_order,
    immutable_order,
    int_hash,
    topic_partition_hash,
)
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.tools.reassignments.common import (
    OwnOptions,
    ReassignmentTool,
    TerseFailure,
    check_plan_in_pools,
)
from klamm.tools.reassignments.moves import calculate_proposed_move_map
from klamm.tools.reassignments.options import ReassignOptions
from klamm.tools.reassignments.reassignment_json import (
    Replicas,
    parse_execute_arguments,
    parse_reassignment,
)
from klamm.tools.reassignments.text import (
    CANNOT_EXECUTE,
    NEEDS_BOOTSTRAP_SERVER,
    YOU_MUST_RUN_VERIFY,
    PartitionReassignmentState,
    current_assignment_text,
    partition_states_lines,
)
from klamm.tools.tool_output import ToolOutput
from klamm.tools.tool_services import ToolServices
from klamm.zk.kafka_zk_client import KafkaZkClient

_INCOMPLETE: Final = (
    "Warning: because you are using the deprecated --zookeeper option, the results may be "
    "incomplete.  Use --bootstrap-server instead for more accurate results."
)


class ZooKeeperReassignment(ReassignmentTool):
    """Performs --generate, --execute and --verify by reading and writing znodes."""

    ASKS_BROKERS = False

    def __init__(
        self,
        client: KafkaZkClient,
        output: ToolOutput,
        own: OwnOptions,
        services: ToolServices,
    ) -> None:
        super().__init__(ZooKeeperConfigs(client), output, own, services)
        self._client = client

    def verify(self, command: ReassignOptions) -> None:
        """Print the state of a reassignment; remove its throttles if it is complete."""
        text = command.plan()
        if not command.preserve_throttles:
            self._services.before_write(self._client)
        targets, log_dirs = parse_reassignment(text)
        if log_dirs:
            raise AdminCommandFailed(NEEDS_BOOTSTRAP_SERVER)
        self._output.println(_INCOMPLETE)
        self._output.report["warnings"] = [_INCOMPLETE]
        reassigning = self._client.get_partition_reassignment()
        current = self._assignments([tp.topic for tp, _ in targets])
        states = {
            tp: PartitionReassignmentState(
                current[tp].replicas if tp in current else (), replicas, tp not in reassigning
            )
            for tp, replicas in targets
        }
        self._output.println(*partition_states_lines(states))
        # Kafka's text covers only reassignments in /admin/reassign_partitions. Topic znodes also
        # show reassignments that an Admin client requested; klamm's report includes them.
        moving = {tp for tp, assignment in current.items() if assignment.is_being_reassigned}
        self._report_verified(
            {
                tp: state._replace(done=state.done and tp not in moving)
                for tp, state in states.items()
            },
            {},
        )
        self._end(targets, is_over=not reassigning and not command.preserve_throttles)

    def execute(self, command: ReassignOptions) -> None:
        """Check a plan, set its throttle, and write the plan to /admin/reassign_partitions.

        A throttle with a negative rate (the default) is not set.
        """
        text, inter_broker_bytes_per_s = command.plan(), command.number("throttle")
        self._services.before_write(self._client)
        proposed, log_dirs = parse_execute_arguments(text)
        if log_dirs:
            raise AdminCommandFailed(NEEDS_BOOTSTRAP_SERVER)
        current = self._replicas([tp.topic for tp in proposed])
        self._check_exists(proposed, current)
        check_plan_in_pools(proposed, current, self._own.pools)
        if self._client.reassign_partitions_in_progress():
            raise TerseFailure(CANNOT_EXECUTE)
        self._output.println(current_assignment_text(proposed, current))
        if inter_broker_bytes_per_s >= 0:
            self._output.println(YOU_MUST_RUN_VERIFY)
            moves = calculate_proposed_move_map({}, proposed, current)
            self._throttles.set_inter_broker(moves, inter_broker_bytes_per_s)
        if not self._client.create_partition_reassignment(proposed):
            raise TerseFailure(CANNOT_EXECUTE)
        self._show_started(proposed)

    def _check_exists(
        self,
        proposed: dict[TopicPartition, Replicas],
        current: dict[TopicPartition, Replicas],
    ) -> None:
        ordered = immutable_order(proposed, topic_partition_hash)
        unknown = [tp for tp in ordered if tp not in current]
        if unknown:
            raise AdminCommandFailed(
                "The proposed assignment contains non-existent partitions: "
                f"List({', '.join(map(str, unknown))})"
            )
        live = self._live_brokers()
        missing = [id_ for tp in ordered for id_ in proposed[tp] if id_ not in live]
        if missing:
            in_order = immutable_order(missing, int_hash)
            raise AdminCommandFailed(
                f"The proposed assignment contains non-existent brokerIDs: {joined(in_order)}"
            )

    def _brokers(self) -> Sequence[BrokerMetadata]:
        return registered_brokers(self._client)

    def _live_brokers(self) -> Sequence[int]:
        return self._client.get_sorted_broker_list()

    @staticmethod
    def first(of_topic: Sequence[TopicPartition], count: int) -> TopicPartition:
        # groupBy splits a HashMap into HashMaps, however small these are.
        is_hashed = count > SMALL_SET
        return hash_set_order(of_topic, topic_partition_hash)[0] if is_hashed else of_topic[0]

    def _replicas(self, topics: Sequence[str]) -> dict[TopicPartition, Replicas]:
        return {tp: found.replicas for tp, found in self._assignments(topics).items()}

    def _assignments(self, topics: Sequence[str]) -> dict[TopicPartition, ReplicaAssignment]:
        return read_assignments(self._client, immutable_order(topics, string_hash))
