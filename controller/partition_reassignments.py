"""Reassignments carried out: phases U, A and B for many partitions at once, in Kafka's order.

Every phase is one step for all partitions, so that waves of ZooKeeper requests do not grow with
their number; the replicas of one partition are still removed one by one, as in Kafka, because each
removal raises the leader epoch. Who asked for a reassignment is not known here. Mirrors
onPartitionReassignment of kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING

from cluster.errors import StateChangeFailed
from cluster.types import LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller.loader import set_topic_assignments
from controller.partition_state_changes import OFFLINE_ELECTION
from controller.reassign_partitions_znode import remove_completed_reassignments
from controller.topic_deletion_manager import REASSIGNMENT
from statemachines.election import ReassignElection
from statemachines.partition_state import PartitionState
from statemachines.reassignment import (
    Assignments,
    Phase,
    Replicas,
    adding_rounds,
    apply_epoch_bumps,
    is_reassignment_complete,
    moves_leader_first,
    no_leader_and_isr,
    plan_epoch_bumps,
    plan_leader_moves,
    replicas_by_broker,
    topics_to_store,
    unneeded_replicas,
)
from statemachines.replica_state import ReplicaState

if TYPE_CHECKING:
    from controller.kafka_controller import KafkaController

Failures = dict[TopicPartition, StateChangeFailed]
REASSIGN_ELECTION = ReassignElection()


class PartitionReassignments:
    """What one controller does to reassign partitions.

    It remembers the entries of /admin/reassign_partitions that were acted on, so that each is
    acted on once.
    """

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller
        self._taken_up: dict[TopicPartition, tuple[int, ...]] = {}

    def shutdown(self) -> None:
        """The controller resigned."""
        self._taken_up.clear()

    def take_up(self, entries: Replicas) -> Replicas:
        """Those of the znode's ``entries`` that are still to be acted on, as from now they are.

        With the quirk KAFKA-9478 this is asked only for a znode just created: all of them.
        """
        self.forget_taken_up(entries)
        if self._controller.quirks.kafka_9478:
            return entries
        new = {tp: target for tp, target in entries.items() if self._taken_up.get(tp) != target}
        self._taken_up.update(new)
        return new

    def forget_taken_up(self, left: Container[TopicPartition]) -> None:
        """Only these entries are left in the znode."""
        for tp in [tp for tp in self._taken_up if tp not in left]:
            del self._taken_up[tp]

    def on_partition_reassignment(
        self, reassignments: Mapping[TopicPartition, ReplicaAssignment]
    ) -> Failures:
        """Begin reassignments, replace them, or go on with them; gives those that failed.

        A partition whose target replicas are all in sync is completed, any other is started (again,
        if it was before). Raises ControllerMoved and other StoreErrors, which end the event.
        """
        failures: Failures = {}
        topics = sorted({tp.topic for tp in reassignments})
        deletions = self._controller.topic_deletion_manager
        deletions.mark_topic_ineligible_for_deletion(topics, REASSIGNMENT)
        stopped = self._update_current_reassignments(reassignments, failures)
        context = self._controller.context
        incomplete: Assignments = {}
        complete: Assignments = {}
        for tp, assignment in reassignments.items():
            if tp in failures:
                continue
            if is_reassignment_complete(context, tp, assignment):
                complete[tp] = assignment
            else:
                incomplete[tp] = assignment
        if incomplete:
            self._start(incomplete, stopped, failures)
        if complete:
            self._complete(complete, stopped, failures)
        self.delete_replicas(stopped)
        for tp in failures:
            if not context.partition_full_replica_assignment(tp).is_being_reassigned:
                context.partitions_being_reassigned.discard(tp)
        if complete:
            deletions.resume_deletion_for_topics(topics)
        return failures

    # Phase U: the assignment

    def _update_current_reassignments(
        self, reassignments: Mapping[TopicPartition, ReplicaAssignment], failures: Failures
    ) -> Replicas:
        """U1 to U3; gives the replicas that were stopped and are still to be deleted."""
        context = self._controller.context
        before = {tp: context.partition_full_replica_assignment(tp) for tp in reassignments}
        changed = {tp: new for tp, new in reassignments.items() if before[tp] != new}
        self._store_assignments(Phase.U1, changed, failures)
        changed = {tp: new for tp, new in changed.items() if tp not in failures}
        for tp, new in changed.items():
            context.update_partition_full_replica_assignment(tp, new)
        self._report(Phase.U2, changed)
        unneeded = {
            tp: replicas
            for tp, new in changed.items()
            if (replicas := unneeded_replicas(before[tp], new))
        }
        if unneeded:
            self.stop_unneeded_replicas(unneeded)
        context.partitions_being_reassigned.update(tp for tp in reassignments if tp not in failures)
        return unneeded

    def _store_assignments(
        self, phase: Phase, assignments: Assignments, failures: Failures
    ) -> None:
        """U1 and B6: write the topic znodes, one write a topic."""
        if not assignments:
            return
        controller = self._controller
        failed = set_topic_assignments(controller, topics_to_store(controller.context, assignments))
        for tp, assignment in assignments.items():
            if tp.topic in failed:
                failures[tp] = StateChangeFailed(
                    f"Failed to update assignment for {tp}: {failed[tp.topic].reason}"
                )
            else:
                controller.log.info(
                    f"Successfully updated assignment of partition {tp} to {assignment}"
                )
        self._report(phase, {tp: a for tp, a in assignments.items() if tp not in failures})

    def stop_unneeded_replicas(self, unneeded: Replicas) -> None:
        """U3: take replicas offline that nobody wants any more; their leaders are moved first.

        Kafka 2.8.2 has them deleted at once, by requests with a leader epoch that their brokers
        know already (KAFKA-13972).
        """
        controller = self._controller
        context = controller.context
        led = [
            tp
            for tp, replicas in unneeded.items()
            if (leadership := context.leaderships.get(tp)) is not None
            and leadership.leader_and_isr.leader in replicas
            and moves_leader_first(context, context.partition_full_replica_assignment(tp))
        ]
        controller.partition_state_machine.handle_state_changes(
            led, PartitionState.ONLINE, OFFLINE_ELECTION
        )
        self._report(Phase.U3, {tp: context.assignments[tp] for tp in unneeded})
        controller.replica_state_machine.handle_state_changes(
            replicas_by_broker(unneeded), ReplicaState.OFFLINE
        )
        if controller.quirks.kafka_13972:
            self.delete_replicas(unneeded)

    # Phase A: not all of the target replicas are in sync

    def _start(self, assignments: Assignments, stopped: Replicas, failures: Failures) -> None:
        """A1 and A2."""
        self._report(Phase.A1, assignments)
        self._update_leader_epochs_and_send_requests(assignments, failures)
        started = {tp: a for tp, a in assignments.items() if tp not in failures}
        self.delete_replicas(stopped, assignments)
        self._report(Phase.A2, started)
        for replicas in adding_rounds(started):
            self._controller.replica_state_machine.handle_state_changes(replicas, ReplicaState.NEW)

    def _update_leader_epochs_and_send_requests(
        self, assignments: Mapping[TopicPartition, ReplicaAssignment], failures: Failures
    ) -> None:
        """Raise the leader epochs and tell all replicas of ``assignments`` of it."""
        controller = self._controller
        stored = self._update_leader_epochs(assignments, failures)
        if not stored:
            return
        controller.begin_batch()
        bumps = apply_epoch_bumps(controller.context, stored, assignments, controller.batch)
        controller.sender.send(controller.batch)
        controller.recorder.leader_epochs_bumped(bumps)
        for bump in bumps:
            state = bump.leadership.leader_and_isr
            controller.log.info(
                f"Updated leader epoch for partition {bump.topic_partition} to "
                f"{state.leader_epoch}, zkVersion={state.zk_version}"
            )
        controller.log.state_change(
            "INFO",
            (
                f"Sent LeaderAndIsr request {bump.leadership} with new replica assignment "
                f"{bump.assignment} to leader {bump.leadership.leader_and_isr.leader} for "
                f"partition being reassigned {bump.topic_partition}"
                for bump in bumps
            ),
        )

    def _update_leader_epochs(
        self, partitions: Iterable[TopicPartition], failures: Failures
    ) -> dict[TopicPartition, LeaderAndIsr]:
        """Write states with the next leader epoch; gives what was stored."""
        controller = self._controller
        context = controller.context
        stored: dict[TopicPartition, LeaderAndIsr] = {}
        remaining = list(partitions)
        while remaining:
            updates, failed = plan_epoch_bumps(context, remaining)
            failures.update(failed)
            written = controller.controller_zk.update_leader_and_isr(
                updates, context.epoch, context.epoch_zk_version
            )
            for tp, result in written.finished.items():
                if isinstance(result, StateChangeFailed):
                    failures[tp] = result
                else:
                    stored[tp] = result
            lost = controller.refresh_leaderships(written.retry)
            failures.update((tp, no_leader_and_isr(tp)) for tp in lost)
            remaining = [tp for tp in written.retry if tp not in failures]
        return stored

    # Phase B: all of the target replicas are in sync

    def _complete(self, assignments: Assignments, stopped: Replicas, failures: Failures) -> None:
        """B1 to B8."""
        controller = self._controller
        context, replica_state_machine = controller.context, controller.replica_state_machine
        self._report(Phase.B1, assignments)
        replica_state_machine.handle_state_changes(
            replicas_by_broker({tp: a.adding_replicas for tp, a in assignments.items()}),
            ReplicaState.ONLINE,
        )
        completed = {tp: ReplicaAssignment(a.target_replicas) for tp, a in assignments.items()}
        for tp, assignment in completed.items():
            context.update_partition_full_replica_assignment(tp, assignment)
        self._report(Phase.B2, completed)
        waiting = self._move_leaders_if_required(completed, failures)
        self.delete_replicas(stopped, completed)
        for tp in waiting:
            # What is not to be stored yet is forgotten again: the reassignment is still pending.
            context.update_partition_full_replica_assignment(tp, assignments[tp])
            del completed[tp]
        if not completed:
            return
        self._stop_removed_replicas({tp: assignments[tp].removing_replicas for tp in completed})
        self._store_assignments(Phase.B6, completed, failures)
        completed = {tp: a for tp, a in completed.items() if tp not in failures}
        remove_completed_reassignments(controller, completed)
        self._report(Phase.B7, completed)
        controller.send_update_metadata_request(context.live_or_shutting_down_broker_ids, completed)
        self._report(Phase.B8, completed)

    def _move_leaders_if_required(
        self, completed: Assignments, failures: Failures
    ) -> list[TopicPartition]:
        """B3; gives the partitions that cannot go on: without a leader, or failed.

        Kafka 2.8.2 goes on without a leader (KAFKA-14424).
        """
        controller = self._controller
        moves = plan_leader_moves(controller.context, completed)
        for reason in (*moves.elect.values(), *moves.bump.values()):
            controller.log.info(reason)
        self._report(Phase.B3, completed)
        elected = controller.partition_state_machine.handle_state_changes(
            list(moves.elect), PartitionState.ONLINE, REASSIGN_ELECTION
        )
        if moves.bump:
            self._update_leader_epochs_and_send_requests(
                {tp: completed[tp] for tp in moves.bump}, failures
            )
        for tp in completed:
            if tp not in moves.elect and tp not in moves.bump:
                failures[tp] = no_leader_and_isr(tp)
        leaderless = [
            tp
            for tp in moves.elect
            if not controller.quirks.kafka_14424 and not isinstance(elected.get(tp), LeaderAndIsr)
        ]
        for tp in leaderless:
            controller.log.warn(
                f"Reassignment of partition {tp} waits: none of the replicas "
                f"{','.join(map(str, completed[tp].replicas))} is alive and in sync"
            )
        return [*leaderless, *(tp for tp in completed if tp in failures)]

    def _stop_removed_replicas(self, removed: Replicas) -> None:
        """B4 and B5."""
        context = self._controller.context
        assignments = {tp: context.assignments[tp] for tp, replicas in removed.items() if replicas}
        self._report(Phase.B4, assignments)
        self._controller.replica_state_machine.handle_state_changes(
            replicas_by_broker(removed), ReplicaState.OFFLINE
        )
        self._report(Phase.B5, assignments)
        self.delete_replicas(removed)

    # Both

    def delete_replicas(
        self, replicas: Replicas, partitions: Iterable[TopicPartition] | None = None
    ) -> None:
        """Have offline replicas deleted, of some partitions or of all; they are taken out of
        ``replicas``. As in Kafka the brokers' answers are not awaited."""
        keys = list(replicas) if partitions is None else [tp for tp in partitions if tp in replicas]
        deleted = replicas_by_broker({tp: replicas.pop(tp) for tp in keys})
        for target in (
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_SUCCESSFUL,
            ReplicaState.NON_EXISTENT,
        ):
            self._controller.replica_state_machine.handle_state_changes(deleted, target)

    def _report(self, phase: Phase, assignments: Assignments) -> None:
        self._controller.recorder.reassignment_phase(phase, assignments)
