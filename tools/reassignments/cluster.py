"""kafka-reassign-partitions with ``--bootstrap-server``: sends requests to a running cluster.

Mirrors the methods of ReassignPartitionsCommand that take an Admin client.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from klamm.admin.failures import ExecutionException, admin_error
from klamm.cluster.api_errors import Errors
from klamm.cluster.counting import joined, plural
from klamm.cluster.errors import AdminCommandFailed, InvalidTopic, UnknownTopicOrPartition
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.scala_sets import (
    immutable_order,
    int_hash,
    mutable_order,
    topic_partition_hash,
)
from klamm.cluster.requests import ApiError
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.tools.reassignments.common import (
    OwnOptions,
    ReassignmentTool,
    TerseFailure,
    check_plan_in_pools,
)
from klamm.tools.reassignments.log_dirs import LogDirMoves
from klamm.tools.reassignments.moves import calculate_proposed_move_map
from klamm.tools.reassignments.options import ReassignOptions
from klamm.tools.reassignments.reassignment_json import (
    Replicas,
    parse_execute_arguments,
    parse_reassignment,
)
from klamm.tools.reassignments.text import (
    CANNOT_EXECUTE,
    YOU_MUST_RUN_VERIFY,
    PartitionReassignmentState,
    current_assignment_text,
    partition_states_lines,
    reassignments_lines,
    replica_states_text,
)
from klamm.tools.tool_output import ToolOutput
from klamm.tools.tool_services import ToolServices

if TYPE_CHECKING:
    from klamm.admin.kafka_admin import KafkaAdmin

REQUEST_TIMEOUT_MS = 30_000


class ClusterReassignment(ReassignmentTool):
    """The five actions of kafka-reassign-partitions on a running cluster.

    ``admin`` must wrap errors in ExecutionException, as Java futures do.
    """

    ASKS_BROKERS = True

    def __init__(
        self, admin: KafkaAdmin, output: ToolOutput, own: OwnOptions, services: ToolServices
    ) -> None:
        super().__init__(admin, output, own, services)
        self._admin = admin
        self._moves = LogDirMoves(admin, output, services)

    def verify(self, command: ReassignOptions) -> None:
        """Print the state of a reassignment; remove its throttles if nothing is being moved."""
        targets, log_dirs = parse_reassignment(command.plan())
        reassignments = self._admin.list_partition_reassignments()
        states = self._states(targets, reassignments)
        self._output.println(*partition_states_lines(states))
        moves = self._moves.states(log_dirs)
        self._output.println(replica_states_text(moves))
        self._report_verified(states, moves)
        still_moves = any(not state.done for state in moves.values())
        is_over = not reassignments and not still_moves
        self._end(targets, is_over=is_over and not command.preserve_throttles)

    def execute(self, command: ReassignOptions) -> None:
        """Check a plan, set its throttles, and start the reassignment.

        A throttle with a negative rate (the default) is not set.
        """
        text = command.plan()
        inter_broker_bytes_per_s = command.number("throttle")
        log_dir_bytes_per_s = command.number("replica-alter-log-dirs-throttle")
        timeout_ms = command.number("timeout")
        proposed, log_dirs = parse_execute_arguments(text)
        reassignments = self._admin.list_partition_reassignments()
        if reassignments and not command.options.has("additional"):
            raise TerseFailure(CANNOT_EXECUTE)
        self._check_brokers(proposed.values())
        found = self._replicas([tp.topic for tp in proposed])
        current = {tp: replicas for tp, replicas in found.items() if tp in proposed}
        check_plan_in_pools(proposed, current, self._own.pools)
        self._output.println(current_assignment_text(proposed, current))
        if inter_broker_bytes_per_s >= 0 or log_dir_bytes_per_s >= 0:
            self._output.println(YOU_MUST_RUN_VERIFY)
        if inter_broker_bytes_per_s >= 0:
            moves = calculate_proposed_move_map(reassignments, proposed, current)
            self._throttles.set_inter_broker(moves, inter_broker_bytes_per_s)
        if log_dir_bytes_per_s >= 0:
            moving = sorted({replica.broker_id for replica in log_dirs})
            self._throttles.set_log_dir(moving, log_dir_bytes_per_s)
        failures = self._alter(proposed)
        if failures:
            raise TerseFailure(f"Error reassigning partition(s):\n{_failed(failures)}")
        self._show_started(proposed)
        if log_dirs:
            self._moves.execute(log_dirs, timeout_ms)

    def cancel(self, command: ReassignOptions) -> None:
        """Cancel the reassignments and log directory moves of a plan that are still running.

        Removes the plan's throttles.
        """
        text, timeout_ms = command.plan(), command.number("timeout")
        targets, log_dirs = parse_reassignment(text)
        asked = list(dict.fromkeys(tp for tp, _ in targets))
        _check_partitions(asked)
        found = self._admin.list_partition_reassignments(asked)
        active = sorted(tp for tp, assignment in found.items() if assignment.is_being_reassigned)
        if active:
            failures = self._alter(dict.fromkeys(active))
            if failures:
                raise TerseFailure(
                    f"Error cancelling partition reassignment{plural(len(failures))} for:\n"
                    f"{_failed(failures)}"
                )
            self._output.println(
                f"Successfully cancelled partition reassignment{plural(len(active))} for: "
                f"{joined(active)}"
            )
        else:
            self._output.println("None of the specified partition reassignments are active.")
        self._output.report["cancelled"] = [tp._asdict() for tp in active]
        back = {
            replica: state.current
            for replica, state in self._moves.states(log_dirs).items()
            if state.is_active and state.current is not None
        }
        if back:
            self._moves.execute(back, timeout_ms)
        else:
            self._output.println("None of the specified partition moves are active.")
        self._end(targets, is_over=not command.preserve_throttles)

    def _alter(
        self, targets: Mapping[TopicPartition, Replicas | None]
    ) -> Mapping[TopicPartition, ApiError]:
        """Start, override or cancel reassignments. Mirrors alterPartitionReassignments."""
        refused = {
            tp: ApiError(Errors.INVALID_TOPIC_EXCEPTION, _invalid_index(tp))
            for tp in targets
            if tp.partition < 0
        }
        sent = {tp: replicas for tp, replicas in targets.items() if tp not in refused}
        answered = self._admin.alter_partition_reassignments(sent, REQUEST_TIMEOUT_MS)
        failures = {**refused, **answered}
        self._output.has_changed |= len(failures) < len(targets)
        return failures

    def list(self, command: ReassignOptions) -> None:
        """Print all running reassignments."""
        reassignments = self._admin.list_partition_reassignments()
        self._output.println(*reassignments_lines(reassignments))
        self._output.report["reassignments"] = [
            {**tp._asdict(), **msgspec.structs.asdict(reassignments[tp])}
            for tp in sorted(reassignments)
        ]
        moving = [(tp, found.replicas) for tp, found in reassignments.items()]
        self._end(moving, is_over=False)

    def _states(
        self,
        targets: Sequence[tuple[TopicPartition, Replicas]],
        reassignments: Mapping[TopicPartition, ReplicaAssignment],
    ) -> dict[TopicPartition, PartitionReassignmentState]:
        asked = list(dict.fromkeys(tp.topic for tp, _ in targets if tp not in reassignments))
        current = self._existing_assignments(asked)
        replicas = current | {tp: found.replicas for tp, found in reassignments.items()}
        return {
            tp: PartitionReassignmentState(replicas.get(tp, ()), target, tp not in reassignments)
            for tp, target in targets
        }

    def _existing_assignments(self, topics: Sequence[str]) -> dict[TopicPartition, Replicas]:
        """Return the replicas of those ``topics`` that exist.

        One request is sent for all topics. If this request fails because a topic is missing, one
        request is sent for each topic.
        """
        try:
            return self._replicas(topics) if topics else {}
        except ExecutionException as error:
            if not isinstance(error.cause, UnknownTopicOrPartition):
                raise
        found = [self._existing_assignments([topic]) for topic in topics if len(topics) > 1]
        return {tp: replicas for assignment in found for tp, replicas in assignment.items()}

    def _check_brokers(self, targets: Iterable[Replicas]) -> None:
        live = set(self._live_brokers())
        wanted = immutable_order((id_ for replicas in targets for id_ in replicas), int_hash)
        for broker_id in wanted:
            if broker_id not in live:
                raise AdminCommandFailed(f"Unknown broker id {broker_id}")

    @staticmethod
    def first(of_topic: Sequence[TopicPartition], count: int) -> TopicPartition:
        # The maps of Java's Admin client become mutable ones in Scala.
        return mutable_order(of_topic, topic_partition_hash)[0]

    def _replicas(self, topics: Sequence[str]) -> dict[TopicPartition, Replicas]:
        asked = immutable_order(topics, string_hash)
        return {
            TopicPartition(partition.topic, partition.partition): partition.replicas
            for topic in self._admin.describe_topics(asked)
            for partition in topic.partitions
        }

    def _brokers(self) -> Sequence[BrokerMetadata]:
        return self._admin.live_brokers()

    def _live_brokers(self) -> Sequence[int]:
        return [broker.id for broker in self._brokers()]


def _check_partitions(partitions: Iterable[TopicPartition]) -> None:
    """Raise ExecutionException for a partition about which Kafka's Admin client sends no request.

    Mirrors KafkaAdminClient.listPartitionReassignments.
    """
    for tp in partitions:
        if not tp.topic:
            why = f"The given topic name '{tp.topic}' cannot be represented in a request."
            raise ExecutionException(InvalidTopic(why))
        if tp.partition < 0:
            raise ExecutionException(InvalidTopic(_invalid_index(tp)))


def _invalid_index(tp: TopicPartition) -> str:
    return f"The given partition index {tp.partition} is not valid."


def _failed(failures: Mapping[TopicPartition, ApiError]) -> str:
    return "\n".join(f"{tp}: {admin_error(failures[tp]).message}" for tp in sorted(failures))
