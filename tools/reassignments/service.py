"""The actions of kafka-reassign-partitions: on a running cluster, or on the znodes of one chroot.

With ``--bootstrap-server`` the tool sends requests; with ``--zookeeper`` it writes throttles and
/admin/reassign_partitions, and the controller carries out the reassignment. Mirrors the methods of
ReassignPartitionsCommand that take an Admin client or a KafkaZkClient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from klamm.admin.failures import ExecutionException, admin_error
from klamm.admin.topics import read_assignments
from klamm.admin.zookeeper_admin import ZooKeeperAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.counting import joined, plural
from klamm.cluster.errors import AdminCommandFailed, InvalidTopic, UnknownTopicOrPartition
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.scala_sets import immutable_order, int_hash, topic_partition_hash
from klamm.cluster.requests import ApiError
from klamm.cluster.types import ReplicaAssignment, TopicPartition, TopicPartitionReplica
from klamm.placement.assign import Replicas
from klamm.placement.broker_metadata import broker_metadatas
from klamm.tools.reassignments.common import (
    Assignment,
    OwnOptions,
    TerseFailure,
    calculate_assignment,
    check_plan_in_pools,
    first_in_zookeeper,
    first_on_cluster,
    verified_report,
)
from klamm.tools.reassignments.log_dirs import LogDirMoves
from klamm.tools.reassignments.moves import calculate_proposed_move_map
from klamm.tools.reassignments.options import ReassignOptions
from klamm.tools.reassignments.reassignment_json import (
    format_reassignment,
    parse_execute_arguments,
    parse_generate_arguments,
    parse_reassignment,
)
from klamm.tools.reassignments.text import (
    CANNOT_EXECUTE,
    INCOMPLETE_RESULTS,
    NEEDS_BOOTSTRAP_SERVER,
    YOU_MUST_RUN_VERIFY,
    LogDirMoveState,
    PartitionReassignmentState,
    current_assignment_text,
    partition_states_lines,
    reassignments_lines,
    replica_states_text,
    started_text,
)
from klamm.tools.reassignments.throttles import Throttles
from klamm.tools.tool_output import ToolOutput, read_file
from klamm.tools.tool_services import ToolServices

if TYPE_CHECKING:
    from klamm.admin.kafka_admin import KafkaAdmin

REQUEST_TIMEOUT_MS: Final = 30_000


class ReassignmentService:
    """The five actions of kafka-reassign-partitions.

    The options allow ``list``, ``cancel`` and log directories only on a running cluster. A
    KafkaAdmin must wrap errors in ExecutionException, as Java futures do.
    """

    def __init__(
        self,
        admin: KafkaAdmin | ZooKeeperAdmin,
        output: ToolOutput,
        own: OwnOptions,
        services: ToolServices,
    ) -> None:
        self._admin = admin
        self._output = output
        self._own = own
        self._services = services
        self._throttles = Throttles(admin, output, own.save_throttles)
        self._in_zookeeper = isinstance(admin, ZooKeeperAdmin)

    def generate(self, command: ReassignOptions) -> None:
        """Propose new replicas for topics, and print the current and the proposed assignment."""
        text = read_file(command.text("topics-to-move-json-file"))
        brokers, topics = parse_generate_arguments(text, command.text("broker-list"))
        current = _replicas(self._assignments(topics))
        live = [broker for broker in self._admin.live_brokers() if broker.id in brokers]
        usable = broker_metadatas(live, ignores_racks=command.options.has("disable-rack-aware"))
        first = first_in_zookeeper if self._in_zookeeper else first_on_cluster
        source = self._services.source
        proposed = calculate_assignment(current, first, usable, source, self._own.pools)
        shown = [format_reassignment(assignment, {}) for assignment in (current, proposed)]
        self._output.println(
            f"Current partition replica assignment\n{shown[0]}\n",
            f"Proposed partition reassignment configuration\n{shown[1]}",
        )
        self._output.report["current"] = msgspec.Raw(shown[0].encode())
        self._output.report["proposed"] = msgspec.Raw(shown[1].encode())

    def verify(self, command: ReassignOptions) -> None:
        """Print the state of a reassignment; remove its throttles if nothing is being moved."""
        text = command.plan()
        if not command.preserve_throttles:
            self._before_write()
        targets, log_dirs = parse_reassignment(text)
        if self._in_zookeeper:
            _refuse(log_dirs)
            self._output.println(INCOMPLETE_RESULTS)
            self._output.report["warnings"] = [INCOMPLETE_RESULTS]
        reassignments = self._admin.list_partition_reassignments()
        found = self._found(targets, reassignments)
        states = {
            tp: PartitionReassignmentState(
                found[tp].replicas if tp in found else (), target, tp not in reassignments
            )
            for tp, target in targets
        }
        self._output.println(*partition_states_lines(states))
        moves: dict[TopicPartitionReplica, LogDirMoveState] = {}
        if not self._in_zookeeper:
            moves = self._moves.states(log_dirs)
            self._output.println(replica_states_text(moves))
        # Kafka's text covers only reassignments in /admin/reassign_partitions. Topic znodes also
        # show reassignments that an Admin client requested; klamm's report includes them.
        moving = {tp for tp, assignment in found.items() if assignment.is_being_reassigned}
        told = {
            tp: state._replace(done=state.done and tp not in moving) for tp, state in states.items()
        }
        self._output.report |= verified_report(told, moves)
        is_over = not reassignments and all(state.done for state in moves.values())
        self._end(targets, is_over=is_over and not command.preserve_throttles)

    def execute(self, command: ReassignOptions) -> None:
        """Check a plan, set its throttles, and start the reassignment.

        A throttle with a negative rate (the default) is not set.
        """
        text = command.plan()
        inter_broker_bytes_per_s = command.number("throttle")
        log_dir_bytes_per_s = command.number("replica-alter-log-dirs-throttle")
        timeout_ms = command.number("timeout")
        self._before_write()
        proposed, log_dirs = parse_execute_arguments(text)
        running: Mapping[TopicPartition, ReplicaAssignment] = {}
        if isinstance(self._admin, ZooKeeperAdmin):
            _refuse(log_dirs)
            current = self._check_in_zookeeper(self._admin, proposed)
        else:
            running = self._admin.list_partition_reassignments()
            if running and not command.options.has("additional"):
                raise TerseFailure(CANNOT_EXECUTE)
            current = self._check_on_cluster(proposed)
        self._output.println(current_assignment_text(proposed, current))
        if inter_broker_bytes_per_s >= 0 or log_dir_bytes_per_s >= 0:
            self._output.println(YOU_MUST_RUN_VERIFY)
        if inter_broker_bytes_per_s >= 0:
            moves = calculate_proposed_move_map(running, proposed, current)
            self._throttles.set_inter_broker(moves, inter_broker_bytes_per_s)
        if log_dir_bytes_per_s >= 0:
            moving = sorted({replica.broker_id for replica in log_dirs})
            self._throttles.set_log_dir(moving, log_dir_bytes_per_s)
        self._start(proposed)
        self._output.println(started_text(proposed))
        self._output.report["started"] = [
            {**tp._asdict(), "replicas": proposed[tp]} for tp in sorted(proposed)
        ]
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
        found = self._cluster.list_partition_reassignments(asked)
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

    def list(self, command: ReassignOptions) -> None:
        """Print all running reassignments."""
        reassignments = self._cluster.list_partition_reassignments()
        self._output.println(*reassignments_lines(reassignments))
        self._output.report["reassignments"] = [
            {**tp._asdict(), **msgspec.structs.asdict(reassignments[tp])}
            for tp in sorted(reassignments)
        ]
        moving = [(tp, found.replicas) for tp, found in reassignments.items()]
        self._end(moving, is_over=False)

    # -- steps of the actions

    @property
    def _cluster(self) -> KafkaAdmin:
        """The running cluster, for what cannot be done in ZooKeeper."""
        assert not isinstance(self._admin, ZooKeeperAdmin)
        return self._admin

    @property
    def _moves(self) -> LogDirMoves:
        return LogDirMoves(self._cluster, self._output, self._services)

    def _before_write(self) -> None:
        if isinstance(self._admin, ZooKeeperAdmin):
            self._services.before_write(self._admin.client)

    def _check_in_zookeeper(self, admin: ZooKeeperAdmin, proposed: Assignment) -> Assignment:
        """Check that a plan can be written; return the replicas of its topics."""
        current = _replicas(self._assignments([tp.topic for tp in proposed]))
        ordered = immutable_order(proposed, topic_partition_hash)
        unknown = [tp for tp in ordered if tp not in current]
        if unknown:
            raise AdminCommandFailed(
                "The proposed assignment contains non-existent partitions: "
                f"List({', '.join(map(str, unknown))})"
            )
        live = admin.live_broker_ids()
        missing = [id_ for tp in ordered for id_ in proposed[tp] if id_ not in live]
        if missing:
            in_order = immutable_order(missing, int_hash)
            raise AdminCommandFailed(
                f"The proposed assignment contains non-existent brokerIDs: {joined(in_order)}"
            )
        check_plan_in_pools(proposed, current, self._own.pools)
        if admin.client.reassign_partitions_in_progress():
            raise TerseFailure(CANNOT_EXECUTE)
        return current

    def _check_on_cluster(self, proposed: Assignment) -> Assignment:
        """Check the brokers of a plan; return the replicas of its topics."""
        live = set(self._live_broker_ids())
        wanted = (id_ for replicas in proposed.values() for id_ in replicas)
        for broker_id in immutable_order(wanted, int_hash):
            if broker_id not in live:
                raise AdminCommandFailed(f"Unknown broker id {broker_id}")
        current = _replicas(self._assignments([tp.topic for tp in proposed]))
        check_plan_in_pools(proposed, current, self._own.pools)
        return current

    def _start(self, proposed: Assignment) -> None:
        if isinstance(self._admin, ZooKeeperAdmin):
            if not self._admin.client.create_partition_reassignment(proposed):
                raise TerseFailure(CANNOT_EXECUTE)
            return
        failures = self._alter(proposed)
        if failures:
            raise TerseFailure(f"Error reassigning partition(s):\n{_failed(failures)}")

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
        answered = self._cluster.alter_partition_reassignments(sent, REQUEST_TIMEOUT_MS)
        failures = {**refused, **answered}
        self._output.has_changed |= len(failures) < len(targets)
        return failures

    def _end(self, targets: Sequence[tuple[TopicPartition, Replicas]], *, is_over: bool) -> None:
        """If the reassignment is over, clear its throttles or restore the saved throttles.

        Then add to the report the throttles of the brokers and topics involved. With
        --show-throttles, report and print all throttles of the cluster instead. Raises TerseFailure
        if the throttles of some brokers could not be restored.
        """
        live, skipped, file = self._live_broker_ids(), [], self._own.restore_throttles
        if is_over and file is not None:
            # On a cluster, the configs of a broker can only be changed through it, if it runs.
            skipped = self._throttles.restore(file, None if self._in_zookeeper else live)
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

    # -- reads

    def _live_broker_ids(self) -> Sequence[int]:
        if isinstance(self._admin, ZooKeeperAdmin):
            return self._admin.live_broker_ids()
        return [broker.id for broker in self._admin.live_brokers()]

    def _found(
        self,
        targets: Sequence[tuple[TopicPartition, Replicas]],
        reassignments: Mapping[TopicPartition, ReplicaAssignment],
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Return the assignments of all partitions of ``targets`` that exist."""
        if self._in_zookeeper:
            return self._assignments([tp.topic for tp, _ in targets])
        asked = list(dict.fromkeys(tp.topic for tp, _ in targets if tp not in reassignments))
        return {**self._existing_assignments(asked), **reassignments}

    def _existing_assignments(
        self, topics: Sequence[str]
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Return the assignments of those ``topics`` that exist on the cluster.

        One request is sent for all topics. If this request fails because a topic is missing, one
        request is sent for each topic.
        """
        try:
            return self._assignments(topics) if topics else {}
        except ExecutionException as error:
            if not isinstance(error.cause, UnknownTopicOrPartition):
                raise
        found = [self._existing_assignments([topic]) for topic in topics if len(topics) > 1]
        return {tp: replicas for assignment in found for tp, replicas in assignment.items()}

    def _assignments(self, topics: Iterable[str]) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Return the assignment of every partition of ``topics``.

        A topic that does not exist is skipped in ZooKeeper, and an error on a cluster.
        """
        asked = immutable_order(topics, string_hash)
        if isinstance(self._admin, ZooKeeperAdmin):
            return read_assignments(self._admin.client, asked)
        return {
            TopicPartition(partition.topic, partition.partition): ReplicaAssignment(
                partition.replicas
            )
            for topic in self._admin.describe_topics(asked)
            for partition in topic.partitions
        }


def _replicas(assignments: Mapping[TopicPartition, ReplicaAssignment]) -> Assignment:
    return {tp: found.replicas for tp, found in assignments.items()}


def _refuse(log_dirs: Mapping[TopicPartitionReplica, str]) -> None:
    if log_dirs:
        raise AdminCommandFailed(NEEDS_BOOTSTRAP_SERVER)


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
