"""Executes replica state changes, one broker after another.

The steps are: plan the changes (statemachines/replica_transitions.py), write them to ZooKeeper
(zk/controller_client.py), apply them to the context, report them to the log and journal, and send
the resulting requests. If another writer changed a state znode (BADVERSION), the state change of
that partition is planned and written again. Mirrors handleStateChanges and removeReplicasFromIsr of
kafka/controller/ReplicaStateMachine.scala.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.outcome import WriteOutcome
from klamm.cluster.types import TopicPartition
from klamm.controller.request_sender import sent_batch
from klamm.controller.state_change_log import (
    ILLEGAL_STATE,
    STATE_CHANGE_FAILED,
    Source,
    replica_failed_text,
)
from klamm.statemachines.context import ReplicasByBroker
from klamm.statemachines.partition_transitions import Failures
from klamm.statemachines.replica_state import ReplicaState
from klamm.statemachines.replica_transitions import (
    ReplicaOutcome,
    ReplicaPlan,
    abandon_replica_state_changes,
    apply_replica_state_changes,
    initialize_replica_states,
    plan_replica_state_changes,
)
from klamm.statemachines.request_batch import ControllerBrokerRequestBatch

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController


class ReplicaStateMachine:
    """Executes the replica state changes of one controller."""

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller
        self.batch = ControllerBrokerRequestBatch(controller.context, controller.config.broker_id)

    def startup(self) -> None:
        """Set the initial state of every replica after a failover, and notify the brokers."""
        controller, source = self._controller, Source.REPLICA_STATE_MACHINE
        controller.log.info("Initializing replica state", source)
        online, offline = initialize_replica_states(controller.context)
        controller.recorder.replicas_initialized(online)
        controller.recorder.replicas_initialized(offline)
        controller.log.info("Triggering online replica state changes", source)
        self.handle_state_changes(online, ReplicaState.ONLINE)
        controller.log.info("Triggering offline replica state changes", source)
        self.handle_state_changes(offline, ReplicaState.OFFLINE)

    def shutdown(self) -> None:
        """Log that the state machine stopped, because the controller resigned."""
        self._controller.log.info("Stopped replica state machine", Source.REPLICA_STATE_MACHINE)

    def handle_state_changes(self, replicas: ReplicasByBroker, target: ReplicaState) -> None:
        """Move replicas to the state ``target``, and send the resulting requests to brokers.

        Raises ControllerMoved and other StoreErrors; the event then ends.
        """
        if not replicas:
            return
        moves, source = f"replicas to {target} state", Source.REPLICA_STATE_MACHINE
        plan: ReplicaPlan | None = None

        def abandon(moved: bool) -> None:
            if plan is None:
                self.batch.abandon(moved)
            else:
                abandon_replica_state_changes(plan, self.batch, moved)

        with sent_batch(self._controller, self.batch, moves, source, abandon):
            self.batch.new_batch()
            for replica_id in sorted(replicas):
                remaining: Sequence[TopicPartition] = replicas[replica_id]
                failed: Failures = {}
                if target is ReplicaState.OFFLINE:
                    failed = self._read_isrs_without(replica_id, remaining)
                while remaining:
                    plan = plan_replica_state_changes(
                        self._controller.context, replica_id, remaining, target, failed
                    )
                    remaining = self._carry_out(plan)

    def _read_isrs_without(self, replica_id: int, partitions: Sequence[TopicPartition]) -> Failures:
        """Read the states whose ISRs, according to the context, lack a replica; return failures.

        Nothing would be written to them, so an outdated ISR would not be noticed. An ISR that the
        leader has written itself is outdated until the controller gets the ISR change notification
        (inter.broker.protocol.version below 2.7), and if the leader dies first it gets none.
        """
        leaderships = self._controller.context.leaderships
        known = ((tp, leaderships.get(tp)) for tp in partitions)
        lost = self._controller.refresh_leaderships(
            [
                tp
                for tp, leadership in known
                if leadership is not None and replica_id not in leadership.leader_and_isr.isr
            ]
        )
        return self._failures_of_lost(replica_id, lost)

    def _carry_out(self, plan: ReplicaPlan) -> list[TopicPartition]:
        """Execute a plan. Return the partitions whose state change must be planned again."""
        controller = self._controller
        context = controller.context
        written: WriteOutcome | None = None
        # Only the leader may add a replica to the ISR, because only the leader knows which replicas
        # have caught up. The higher epoch makes the leader drop the ISR that it had proposed.
        assert all(
            len(new.isr) <= len(old.isr) and new.leader_epoch > old.leader_epoch
            for tp, new in plan.updates.items()
            for old in (context.leaderships[tp].leader_and_isr,)
        ), "an ISR grew, or a leader epoch did not"
        if plan.updates:
            written = controller.controller_zk.update_leader_and_isr(
                plan.updates, context.epoch, context.epoch_zk_version
            )
        outcome = apply_replica_state_changes(context, plan, self.batch, written)
        self._report(outcome, plan)
        lost = controller.refresh_leaderships(outcome.retries)
        failures = self._failures_of_lost(plan.replica_id, lost)
        gone = [tp for tp in lost if tp not in failures]
        for tp in gone:
            context.remove_partition_leadership_info(tp)
        self._report_failures(failures, plan)
        found = set(outcome.retries).difference(lost)
        return [*gone, *(tp for tp in outcome.retries if tp in found)]

    def _failures_of_lost(self, replica_id: int, lost: Iterable[TopicPartition]) -> Failures:
        """Return the failures of partitions without a state znode.

        A replica of a topic that is being deleted does not need to leave its ISR any more. Kafka
        2.8.2 keeps the leaders and ISRs of such a topic cached until the next failover.
        """
        deleting = self._controller.context.topics_to_be_deleted
        return {
            tp: StateChangeFailed(
                f"Failed to change state of replica {replica_id} for partition {tp} since "
                "the leader and isr path in zookeeper is empty"
            )
            for tp in lost
            if tp.topic not in deleting
        }

    # Reports

    def _report(self, outcome: ReplicaOutcome, plan: ReplicaPlan) -> None:
        controller, replica_id = self._controller, outcome.replica_id
        controller.recorder.isr_removals(replica_id, outcome.isr_removed)
        controller.recorder.replica_changes(replica_id, outcome.changes)
        log = controller.log
        if log.is_on and outcome.isr_removed:
            log.state_change(
                "INFO",
                (
                    f"Partition {removed.topic_partition} state changed to {removed.leadership} "
                    f"after removing replica {replica_id} from the ISR as part of transition to "
                    f"{ReplicaState.OFFLINE}"
                    for removed in outcome.isr_removed
                ),
            )
        if log.is_trace:
            for moves in outcome.changes:
                after = f" from {moves.from_state} to {moves.to_state}"
                before = f"Changed state of replica {replica_id} for partition "
                log.state_change("TRACE", (f"{before}{tp}{after}" for tp in moves.partitions))
        self._report_failures(outcome.failures, plan)
        self._report_failures(outcome.invalid, plan, ILLEGAL_STATE)

    def _report_failures(
        self,
        failures: Mapping[TopicPartition, StateChangeFailed],
        plan: ReplicaPlan,
        java_class: str = STATE_CHANGE_FAILED,
    ) -> None:
        if not failures:
            return
        controller = self._controller
        context, replica_id, to = controller.context, plan.replica_id, plan.target.value
        controller.recorder.replica_failures(replica_id, failures, context, to)
        me = controller.config.broker_id, context.epoch
        controller.log.state_change_failed(
            (
                replica_failed_text(
                    *me, tp, replica_id, context.replica_state(replica_id, tp).value, to
                ),
                f"{java_class}: {failure.reason}",
            )
            for tp, failure in failures.items()
        )
