"""kafka-reassign-partitions with ``--bootstrap-server``: asks a running cluster.

Mirrors ReassignPartitionsCommand's methods that
take an Admin client.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from admin.failures import ExecutionException, admin_error
from admin.reassignments.common import (
    OwnOptions,
    TerseFailure,
    calculate_assignment,
    check_plan_in_pools,
    finish_throttles,
    report_verified,
    show_generated,
    show_throttles,
    started_report,
)
from admin.reassignments.log_dirs import LogDirMoves
from admin.reassignments.moves import calculate_moving_brokers, calculate_proposed_move_map
from admin.reassignments.reassignment_json import (
    Replicas,
    parse_execute_arguments,
    parse_generate_arguments,
    parse_reassignment,
)
from admin.reassignments.text import (
    CANNOT_EXECUTE,
    YOU_MUST_RUN_VERIFY,
    PartitionReassignmentState,
    current_assignment_text,
    joined,
    partition_states_text,
    plural,
    reassignments_text,
    replica_states_text,
    started_text,
)
from admin.reassignments.throttles import Throttles
from admin.scala_sets import immutable_order, int_hash
from admin.tool_output import ToolOutput
from cluster.errors import AdminCommandFailed, UnknownTopicOrPartition
from cluster.java_hash import string_hash
from cluster.requests import ApiError
from cluster.types import ReplicaAssignment, TopicPartition
from placement.broker_metadata import RackAwareMode, broker_metadatas
from placement.draws import IntSource

if TYPE_CHECKING:
    from admin.kafka_admin import KafkaAdmin

REQUEST_TIMEOUT_MS = 30_000


class ClusterReassignment:
    """The five actions on a running cluster. ``moves`` starts and watches directory moves.

    ``admin`` fails as futures do: with ExecutionException.
    """

    def __init__(
        self, admin: KafkaAdmin, output: ToolOutput, own: OwnOptions, moves: LogDirMoves
    ) -> None:
        self._admin = admin
        self._output = output
        self._own = own
        self._moves = moves
        self._throttles = Throttles(admin, output, own.save_throttles)

    def verify(self, text: str, preserve_throttles: bool) -> None:
        """Tell how far a reassignment is; remove its throttles when nothing moves any more."""
        targets, log_dirs = parse_reassignment(text)
        reassignments = self._admin.list_partition_reassignments()
        states = self._states(targets, reassignments)
        self._output.println(partition_states_text(states))
        moves = self._moves.states(log_dirs)
        self._output.println(replica_states_text(moves))
        report_verified(states, moves, self._output)
        still_moves = any(not state.done for state in moves.values())
        live = self._live_brokers()
        if not reassignments and not still_moves and not preserve_throttles:
            finish_throttles(self._throttles, self._own, live, targets)
        self._show_throttles(live, targets)

    def generate(self, text: str, broker_list: str, rack_aware: bool, source: IntSource) -> None:
        """Propose new replicas for topics."""
        brokers, topics = parse_generate_arguments(text, broker_list)
        current = self._assignments(topics)
        mode = RackAwareMode.ENFORCED if rack_aware else RackAwareMode.DISABLED
        metadatas = broker_metadatas(
            (broker for broker in self._admin.live_brokers() if broker.id in brokers), mode
        )
        proposed = calculate_assignment(current, metadatas, source, self._own.pools)
        show_generated(current, proposed, self._output)

    def execute(
        self,
        text: str,
        additional: bool,
        inter_broker_bytes_per_s: int,
        log_dir_bytes_per_s: int,
        timeout_ms: int,
    ) -> None:
        """Check a plan, throttle it where a rate is not negative, and start it."""
        proposed, log_dirs = parse_execute_arguments(text)
        reassignments = self._admin.list_partition_reassignments()
        if reassignments and not additional:
            raise TerseFailure(CANNOT_EXECUTE)
        self._check_brokers(proposed.values())
        current = {
            tp: replicas
            for tp, replicas in self._assignments([tp.topic for tp in proposed]).items()
            if tp in proposed
        }
        check_plan_in_pools(proposed, current, self._own.pools)
        self._output.println(current_assignment_text(proposed, current))
        if inter_broker_bytes_per_s >= 0 or log_dir_bytes_per_s >= 0:
            self._output.println(YOU_MUST_RUN_VERIFY)
        if inter_broker_bytes_per_s >= 0:
            moves = calculate_proposed_move_map(reassignments, proposed, current)
            self._throttles.set_inter_broker(moves, inter_broker_bytes_per_s)
        if log_dir_bytes_per_s >= 0:
            brokers = calculate_moving_brokers(log_dirs)
            self._throttles.set_log_dir(brokers, log_dir_bytes_per_s)
        failures = self._admin.alter_partition_reassignments(dict(proposed), REQUEST_TIMEOUT_MS)
        if failures:
            raise TerseFailure(f"Error reassigning partition(s):\n{_failed(failures)}")
        self._output.println(started_text(proposed))
        self._output.report["started"] = started_report(proposed)
        if log_dirs:
            self._moves.execute(log_dirs, timeout_ms)

    def cancel(self, text: str, preserve_throttles: bool, timeout_ms: int) -> None:
        """Take back what of a plan still moves, and remove its throttles."""
        targets, log_dirs = parse_reassignment(text)
        asked = list(dict.fromkeys(tp for tp, _ in targets))
        found = self._admin.list_partition_reassignments(asked)
        active = sorted(tp for tp, assignment in found.items() if assignment.is_being_reassigned)
        if active:
            failures = self._admin.alter_partition_reassignments(
                dict.fromkeys(active), REQUEST_TIMEOUT_MS
            )
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
        live = self._live_brokers()
        if not preserve_throttles:
            finish_throttles(self._throttles, self._own, live, targets)
        self._show_throttles(live, targets)

    def list_reassignments(self) -> None:
        """Print everything that is being reassigned."""
        reassignments = self._admin.list_partition_reassignments()
        self._output.println(reassignments_text(reassignments))
        self._output.report["reassignments"] = [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "replicas": reassignments[tp].replicas,
                "adding_replicas": reassignments[tp].adding_replicas,
                "removing_replicas": reassignments[tp].removing_replicas,
            }
            for tp in sorted(reassignments)
        ]
        self._show_throttles(
            self._live_brokers(), [(tp, found.replicas) for tp, found in reassignments.items()]
        )

    def _states(
        self,
        targets: Sequence[tuple[TopicPartition, Replicas]],
        reassignments: Mapping[TopicPartition, ReplicaAssignment],
    ) -> dict[TopicPartition, PartitionReassignmentState]:
        asked = list(dict.fromkeys(tp.topic for tp, _ in targets if tp not in reassignments))
        current = self._existing_assignments(asked)
        moving = [item for item in targets if item[0] in reassignments]
        others = [item for item in targets if item[0] not in reassignments]
        return {
            tp: PartitionReassignmentState(reassignments[tp].replicas, target, False)
            for tp, target in moving
        } | {
            tp: PartitionReassignmentState(current.get(tp, ()), target, True)
            for tp, target in others
        }

    def _existing_assignments(self, topics: Sequence[str]) -> dict[TopicPartition, Replicas]:
        """The replicas of those of the topics that are there; one by one if some are not."""
        try:
            return self._assignments(topics) if topics else {}
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

    def _assignments(self, topics: Sequence[str]) -> dict[TopicPartition, Replicas]:
        asked = immutable_order(topics, string_hash)
        return {
            TopicPartition(partition.topic, partition.partition): partition.replicas
            for topic in self._admin.describe_topics(asked)
            for partition in topic.partitions
        }

    def _live_brokers(self) -> list[int]:
        return [broker.id for broker in self._admin.live_brokers()]

    def _show_throttles(
        self, live: Collection[int], targets: Sequence[tuple[TopicPartition, Replicas]]
    ) -> None:
        brokers = {*live, *(id_ for _, ids in targets for id_ in ids)}
        topics = [tp.topic for tp, _ in targets]
        show_throttles(self._throttles, self._own, self._output, brokers, topics)


def _failed(failures: Mapping[TopicPartition, ApiError]) -> str:
    return "\n".join(f"{tp}: {admin_error(failures[tp]).message}" for tp in sorted(failures))
