"""Executes reassignments of many partitions at once.

The phases U1 to B8 are those of Kafka (see Phase in statemachines/reassignment.py). Each phase is
executed for all partitions before the next phase begins, so that the number of pipelined ZooKeeper
batches does not depend on the number of partitions. The replicas of one partition are removed one
after another, as in Kafka, because each removal increments the leader epoch. Completed
reassignments are removed from /admin/reassign_partitions; the znode is deleted when it has no
entries left. Mirrors onPartitionReassignment, maybeRemoveFromZkReassignment and
removePartitionFromReassigningPartitions of kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.types import LeaderAndIsr, ReplicaAssignment, TopicPartition
from klamm.controller.events import ZkPartitionReassignment
from klamm.controller.partition_state_machine import OFFLINE_ELECTION
from klamm.controller.topic_deletion_manager import REASSIGNMENT
from klamm.controller.znode_requests import Requests, read_requests
from klamm.statemachines.context import replicas_by_broker
from klamm.statemachines.election import ReassignElection
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.partition_transitions import Failures
from klamm.statemachines.reassignment import (
    Assignments,
    Phase,
    Replicas,
    add_requests,
    added_replicas_on_live_brokers,
    adding_rounds,
    apply_epoch_bumps,
    is_reassignment_complete,
    moves_leader_first,
    no_leader_epoch,
    plan_epoch_bumps,
    plan_leader_moves,
    topics_to_store,
    unneeded_replicas,
    unstarted_replicas,
    with_removal_outside_isr,
)
from klamm.statemachines.replica_state import ReplicaState
from klamm.zk.store import Delete, ResultCode, SetData, WriteOp
from klamm.zk.znode_client import store_error
from klamm.zk.znodes import (
    MalformedZNode,
    ReassignmentTargets,
    ReassignPartitionsZNode,
    UnparsableJson,
)
from klamm.zk.znodes.json_values import NULL_POINTER

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController

_PATH: Final = ReassignPartitionsZNode.path
NO_HEAD: Final = "java.lang.IndexOutOfBoundsException: 0 is out of bounds (min 0, max -1)"
REASSIGN_ELECTION: Final = ReassignElection()


class _Run(NamedTuple):
    """Results of one call of ``on_partition_reassignment``.

    ``failures``: the partitions whose reassignment failed, and the reasons. ``bumped``: the
    partitions whose leader epoch was incremented.
    """

    failures: Failures
    bumped: set[TopicPartition]


class PartitionReassignments:
    """Executes the reassignments of one controller.

    Entries of /admin/reassign_partitions are marked as acknowledged when they are first read, so
    that each entry is started only once. The last decoded content of the znode is cached, because
    the znode is read again whenever reassignments complete.
    """

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller
        self._acknowledged: ReassignmentTargets = {}
        self._decoded: tuple[bytes | None, ReassignmentTargets] | None = None

    def shutdown(self) -> None:
        """Forget the acknowledged entries and the cached znode after a resignation."""
        self._acknowledged.clear()
        self._decoded = None

    def acknowledge(self, entries: ReassignmentTargets) -> ReassignmentTargets:
        """Return those ``entries`` that are new or changed, and mark them as acknowledged.

        With the quirk KAFKA-9478, all entries are returned: the controller then reads the znode
        only after the znode was created, so every entry is new.
        """
        self.retain_acknowledged(entries)
        if self._controller.quirks.kafka_9478:
            return entries
        acknowledged = self._acknowledged
        new = {
            tp: to for tp, to in entries.items() if tp not in acknowledged or acknowledged[tp] != to
        }
        self._acknowledged.update(new)
        return new

    def retain_acknowledged(self, left: Container[TopicPartition]) -> None:
        """Forget acknowledged entries, except those for the partitions in ``left``."""
        for tp in [tp for tp in self._acknowledged if tp not in left]:
            del self._acknowledged[tp]

    def on_partition_reassignment(
        self, reassignments: Mapping[TopicPartition, ReplicaAssignment]
    ) -> Failures:
        """Start, override or continue reassignments, and return the failures.

        A reassignment whose target replicas are all in sync is completed; any other reassignment is
        started or restarted. Raises ControllerMoved and other StoreErrors; the event then ends.
        """
        run = _Run({}, set())
        topics = sorted({tp.topic for tp in reassignments})
        deletions = self._controller.topic_deletion_manager
        deletions.mark_topic_ineligible_for_deletion(topics, REASSIGNMENT)
        self._update_current_reassignments(reassignments, run)
        context = self._controller.context
        continuing = {tp: a for tp, a in reassignments.items() if tp not in run.failures}
        complete = {
            tp: a for tp, a in continuing.items() if is_reassignment_complete(context, tp, a)
        }
        incomplete = {tp: a for tp, a in continuing.items() if tp not in complete}
        if incomplete:
            self._start(incomplete, run)
        if complete:
            self._complete(complete, run)
        for tp in run.failures:
            assignment = context.partition_full_replica_assignment(tp)
            if assignment.replicas and not assignment.is_being_reassigned:
                context.partitions_being_reassigned.discard(tp)
        if complete:
            deletions.resume_deletion_for_topics(topics)
        return run.failures

    # Phase U: the assignment

    def _update_current_reassignments(
        self, reassignments: Mapping[TopicPartition, ReplicaAssignment], run: _Run
    ) -> None:
        """Execute phases U1 to U3: store the assignments, and stop replicas no longer needed.

        If there are such replicas, the leader epoch is incremented in ZooKeeper first. The brokers
        then accept StopReplica, because the request has a newer epoch than theirs. If the
        controller crashes, the next controller sends the leader the new assignment with that epoch.
        Kafka 2.8.2 increments the leader epoch last (KAFKA-13972).
        """
        context = self._controller.context
        before = {tp: context.partition_full_replica_assignment(tp) for tp in reassignments}
        changed = {tp: new for tp, new in reassignments.items() if before[tp] != new}
        unneeded = {
            tp: replicas
            for tp, new in changed.items()
            if (replicas := unneeded_replicas(before[tp], new))
        }
        if unneeded and not self._controller.quirks.kafka_13972:
            led = {tp: changed[tp] for tp in unneeded if tp in context.leaderships}
            self._update_leader_epochs(led, run)
            changed = {tp: new for tp, new in changed.items() if tp not in run.failures}
        self._store_assignments(Phase.U1, changed, run)
        changed = {tp: new for tp, new in changed.items() if tp not in run.failures}
        for tp, new in changed.items():
            context.update_partition_full_replica_assignment(tp, new)
        self._report(Phase.U2, changed)
        dropped = {tp: replicas for tp, replicas in unneeded.items() if tp in changed}
        self.stop_unneeded_replicas(dropped)
        continuing = [tp for tp in reassignments if tp not in run.failures]
        context.partitions_being_reassigned.update(continuing)
        if not self._controller.config.is_alter_isr_enabled:
            self._controller.watches.register_reassigned(continuing)
            self._controller.refresh_leaderships(continuing, watch=True)

    def _store_assignments(self, phase: Phase, assignments: Assignments, run: _Run) -> None:
        """Execute phase U1 or B6: write the new assignments to the topic znodes."""
        if not assignments:
            return
        controller = self._controller
        context = controller.context
        failed = controller.controller_zk.set_topic_assignments(
            topics_to_store(context, assignments), context.epoch_zk_version
        )
        stored = {tp: a for tp, a in assignments.items() if tp.topic not in failed}
        for tp in assignments:
            if tp not in stored:
                run.failures[tp] = StateChangeFailed(
                    f"Failed to update assignment for {tp}: {failed[tp.topic].reason}"
                )
        controller.log.infos(
            f"Successfully updated assignment of partition {tp} to {assignment}"
            for tp, assignment in stored.items()
        )
        self._report(phase, stored)

    def stop_unneeded_replicas(self, unneeded: Replicas) -> None:
        """Execute phase U3: move leadership off the unneeded replicas, and delete the replicas."""
        controller = self._controller
        context = controller.context
        led = [
            tp
            for tp, replicas in unneeded.items()
            if (leadership := context.leaderships.get(tp)) is not None
            and leadership.leader_and_isr.leader in replicas
            and moves_leader_first(context, context.partition_full_replica_assignment(tp))
        ]
        self._report(Phase.U3, {tp: context.assignments[tp] for tp in unneeded})
        controller.partition_state_machine.handle_state_changes(
            led, PartitionState.ONLINE, OFFLINE_ELECTION
        )
        self._stop_and_delete(unneeded)

    # Phase A: not all of the target replicas are in sync

    def _start(self, assignments: Assignments, run: _Run) -> None:
        """Execute phases A1 and A2: send LeaderAndIsr to all replicas, and start added replicas."""
        self._report(Phase.A1, assignments)
        self._update_leader_epochs_and_send_requests(assignments, run)
        started = {tp: a for tp, a in assignments.items() if tp not in run.failures}
        self._report(Phase.A2, started)
        for replicas in adding_rounds(started):
            self._controller.replica_state_machine.handle_state_changes(replicas, ReplicaState.NEW)

    def _update_leader_epochs_and_send_requests(
        self, assignments: Mapping[TopicPartition, ReplicaAssignment], run: _Run
    ) -> None:
        """Increment leader epochs, each at most once per ``run``, and send LeaderAndIsr."""
        controller = self._controller
        context = controller.context
        self._update_leader_epochs(
            {tp: a for tp, a in assignments.items() if tp not in run.bumped}, run
        )
        sent = {tp: a for tp, a in assignments.items() if tp in run.bumped}
        if not sent:
            return
        controller.begin_batch()
        add_requests(context, sent, controller.batch)
        controller.sender.send(controller.batch)
        controller.log.state_change(
            "INFO",
            (
                f"Sent LeaderAndIsr request {leadership} with new replica assignment "
                f"{assignment} to leader {leadership.leader_and_isr.leader} for "
                f"partition being reassigned {tp}"
                for tp, assignment in sent.items()
                for leadership in (context.leaderships[tp],)
            ),
        )

    def _update_leader_epochs(
        self, assignments: Mapping[TopicPartition, ReplicaAssignment], run: _Run
    ) -> None:
        controller = self._controller
        context = controller.context
        stored: dict[TopicPartition, LeaderAndIsr] = {}
        remaining = list(assignments)
        while remaining:
            updates, failed = plan_epoch_bumps(context, remaining)
            run.failures.update(failed)
            written = controller.controller_zk.update_leader_and_isr(
                updates, context.epoch, context.epoch_zk_version
            )
            for tp, result in written.finished.items():
                if isinstance(result, StateChangeFailed):
                    run.failures[tp] = result
                else:
                    stored[tp] = result
            lost = controller.refresh_leaderships(written.unwritten)
            run.failures.update((tp, no_leader_epoch(tp)) for tp in lost)
            remaining = [tp for tp in written.unwritten if tp not in run.failures]
        run.bumped.update(stored)
        bumps = apply_epoch_bumps(context, stored, assignments)
        controller.recorder.leader_epochs_bumped(bumps)
        controller.log.infos(
            f"Updated leader epoch for partition {bump.topic_partition} to "
            f"{state.leader_epoch}, zkVersion={state.zk_version}"
            for bump in bumps
            for state in (bump.leadership.leader_and_isr,)
        )

    # Phase B: all of the target replicas are in sync

    def _complete(self, assignments: Assignments, run: _Run) -> None:
        """Execute phases B1 to B8: complete the reassignments and remove the old replicas."""
        controller = self._controller
        context, replica_state_machine = controller.context, controller.replica_state_machine
        self._report(Phase.B1, assignments)
        # These replicas may have been sent the present epoch in U3: increment it again in B3.
        run.bumped.difference_update(with_removal_outside_isr(context, assignments))
        # A replica cannot leave NonExistentReplica for OnlineReplica, nor later for OfflineReplica,
        # so that it would stay in the ISR when it is removed.
        replica_state_machine.handle_state_changes(
            unstarted_replicas(context, assignments), ReplicaState.NEW
        )
        replica_state_machine.handle_state_changes(
            added_replicas_on_live_brokers(context, assignments), ReplicaState.ONLINE
        )
        completed = {tp: ReplicaAssignment(a.target_replicas) for tp, a in assignments.items()}
        for tp, assignment in completed.items():
            context.update_partition_full_replica_assignment(tp, assignment)
        for tp in [tp for tp, assignment in completed.items() if not assignment.replicas]:
            # Only with the quirk empty_reassignment_is_started: Kafka throws here, after it removed
            # the replicas from its cache but not from the znode.
            del completed[tp]
            run.failures[tp] = StateChangeFailed(NO_HEAD)
        self._report(Phase.B2, completed)
        waiting = self._move_leaders_if_required(completed, run)
        for tp in waiting:
            # Restore the pending reassignment in the context: it is not completed yet.
            context.update_partition_full_replica_assignment(tp, assignments[tp])
            del completed[tp]
        if not completed:
            return
        removed = {
            tp: replicas for tp in completed if (replicas := assignments[tp].removing_replicas)
        }
        # Deleting the leader's replica would lose the records that are not replicated yet.
        assert controller.quirks.kafka_14424 or not any(
            context.leaderships[tp].leader_and_isr.leader in replicas
            for tp, replicas in removed.items()
        ), "a replica to be deleted is still the leader"
        self._report(Phase.B4, {tp: completed[tp] for tp in removed})
        self._stop_and_delete(removed)
        self._report(Phase.B5, {tp: completed[tp] for tp in removed})
        self._store_assignments(Phase.B6, completed, run)
        completed = {tp: a for tp, a in completed.items() if tp not in run.failures}
        self._remove_completed(completed)
        self._report(Phase.B7, completed)
        controller.send_update_metadata_request(context.live_or_shutting_down_broker_ids, completed)
        self._report(Phase.B8, completed)

    def _move_leaders_if_required(self, completed: Assignments, run: _Run) -> list[TopicPartition]:
        """Execute phase B3: move leadership to target replicas, or increment the leader epoch.

        Return the partitions that failed or have no leader; they cannot be completed now. Kafka
        2.8.2 completes the reassignment of a leaderless partition (KAFKA-14424).
        """
        controller = self._controller
        moves = plan_leader_moves(controller.context, completed)
        controller.log.infos((*moves.elect.values(), *moves.bump.values()))
        self._report(Phase.B3, completed)
        elected = controller.partition_state_machine.handle_state_changes(
            list(moves.elect), PartitionState.ONLINE, REASSIGN_ELECTION
        )
        if moves.bump:
            self._update_leader_epochs_and_send_requests(
                {tp: completed[tp] for tp in moves.bump}, run
            )
        for tp in completed:
            if tp not in moves.elect and tp not in moves.bump:
                run.failures[tp] = no_leader_epoch(tp)
        leaderless = [
            tp
            for tp in moves.elect
            if not controller.quirks.kafka_14424 and not isinstance(elected.get(tp), LeaderAndIsr)
        ]
        for tp in leaderless:
            controller.log.warn(
                f"The reassignment of partition {tp} has to wait: none of its target replicas "
                f"{','.join(map(str, completed[tp].replicas))} is both alive and in sync"
            )
        return [*leaderless, *(tp for tp in completed if tp in run.failures)]

    # Phases U3 and B4 to B5

    def _stop_and_delete(self, replicas: Replicas) -> None:
        """Remove replicas from the ISR one after another, and send StopReplica to delete them.

        As in Kafka, this does not wait for the brokers' responses.
        """
        by_broker = replicas_by_broker(replicas)
        for target in (
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_SUCCESSFUL,
            ReplicaState.NON_EXISTENT,
        ):
            self._controller.replica_state_machine.handle_state_changes(by_broker, target)

    def _report(self, phase: Phase, assignments: Assignments) -> None:
        self._controller.recorder.reassignment_phase(phase, assignments)

    # /admin/reassign_partitions

    def maybe_remove_from_zk_reassignment(
        self, should_remove: Callable[[TopicPartition, tuple[int, ...] | None], bool]
    ) -> None:
        """Remove entries from /admin/reassign_partitions, or delete the znode if no entry is left.

        The write is conditional on the znode version that was read, so that entries that another
        client adds at the same time are not lost.
        """
        controller = self._controller
        context = controller.context
        while controller.zk.path_exists(_PATH):
            targets, version = self.read_znode()
            left = {tp: target for tp, target in targets.items() if not should_remove(tp, target)}
            shown = ", ".join(
                f"{tp} -> {_target_text(target)}"
                for tp, target in targets.items()
                if tp not in left
            )
            controller.log.info(
                f"Removing partitions Map({shown}) from the list of reassigned partitions "
                "in zookeeper"
            )
            data = ReassignPartitionsZNode.encode(left)
            op: WriteOp = SetData(_PATH, data, version) if left else Delete(_PATH, version)
            if not left:
                controller.log.info(
                    f"No more partitions need to be reassigned. Deleting zk path {_PATH}"
                )
            result = controller.controller_zk.fenced_write([op], context.epoch_zk_version)[0]
            if result.code is ResultCode.OK:
                self.retain_acknowledged(left)
                self._decoded = (data, left)
                if not left:
                    controller.malformed.pop(_PATH, None)
                    # The handler of this event arms the watch again.
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

    def _remove_completed(self, completed: Assignments) -> None:
        """Execute phase B7: remove completed reassignments from the context and the znode."""
        controller = self._controller
        is_exact = controller.quirks.kafka_9478

        def is_completed(tp: TopicPartition, target: tuple[int, ...] | None) -> bool:
            assignment = completed.get(tp)
            return assignment is not None and assignment.replicas == (
                target if is_exact else tuple(dict.fromkeys(target or ()))
            )

        controller.watches.unregister_reassigned(completed)
        self.maybe_remove_from_zk_reassignment(is_completed)
        controller.context.partitions_being_reassigned.difference_update(completed)

    def read_znode(self) -> Requests[ReassignmentTargets]:
        """Read /admin/reassign_partitions. A missing or malformed znode counts as empty."""
        return read_requests(self._controller, _PATH, self._decode, {}) or Requests({}, 0)

    def _decode(self, data: bytes | None) -> ReassignmentTargets:
        known, controller = self._decoded, self._controller
        if known is not None and known[0] == data:
            return known[1]
        try:
            targets = ReassignPartitionsZNode.decode(data)
        except UnparsableJson as error:
            controller.log.warn(f"Ignoring partition reassignment due to invalid json: {error}")
            raise
        if controller.quirks.malformed_znode_fails_the_event and None in targets.values():
            raise MalformedZNode("an entry has no replicas", NULL_POINTER)
        self._decoded = (data, targets)
        return targets


def _target_text(target: tuple[int, ...] | None) -> str:
    return "null" if target is None else f"Buffer({', '.join(map(str, target))})"
