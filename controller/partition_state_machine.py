"""Executes partition state changes.

The steps are: plan the changes (statemachines/partition_transitions.py), write them to ZooKeeper
(zk/controller_client.py), apply them to the context, report them to the log and journal, and send
the resulting requests. If another writer changed a state znode (BADVERSION), the state change of
that partition is planned and written again. Mirrors handleStateChanges and electLeaderForPartitions
of kafka/controller/PartitionStateMachine.scala.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from klamm.cluster.configs import UNCLEAN
from klamm.cluster.errors import ControllerMoved, StateChangeFailed
from klamm.cluster.outcome import WriteOutcome
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.controller.request_sender import sent_batch
from klamm.controller.state_change_log import (
    ILLEGAL_STATE,
    STATE_CHANGE_FAILED,
    Source,
    partition_failed_text,
    partition_new_text,
    partition_online_text,
)
from klamm.statemachines.election import ElectionStrategy, OfflineElection
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.partition_transitions import (
    Failures,
    PartitionOutcome,
    PartitionPlan,
    apply_partition_state_changes,
    no_leader_and_isr,
    partitions_to_bring_online,
    plan_partition_state_changes,
    topics_without_live_isr,
)
from klamm.statemachines.request_batch import ControllerBrokerRequestBatch
from klamm.zk.znodes import ConfigEntityZNode

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController

ElectionResults = dict[TopicPartition, LeaderAndIsr | StateChangeFailed]
"""New state of each partition, or the reason why no leader was elected."""
OFFLINE_ELECTION: Final = OfflineElection()


class PartitionStateMachine:
    """Executes the partition state changes of one controller."""

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller
        self.batch = ControllerBrokerRequestBatch(controller.context, controller.config.broker_id)

    def startup(self) -> None:
        """Try to elect leaders for New and Offline partitions after a failover."""
        log = self._controller.log
        log.info("Initializing partition state", Source.PARTITION_STATE_MACHINE)
        log.info("Triggering online partition state changes", Source.PARTITION_STATE_MACHINE)
        self.trigger_online_partition_state_change()

    def shutdown(self) -> None:
        """Log that the state machine stopped, because the controller resigned."""
        self._controller.log.info("Stopped partition state machine", Source.PARTITION_STATE_MACHINE)

    def trigger_online_partition_state_change(self, topic: str | None = None) -> ElectionResults:
        """Try to elect leaders for New and Offline partitions of ``topic``, or of all topics."""
        waiting = partitions_to_bring_online(self._controller.context, topic)
        return self.handle_state_changes(waiting, PartitionState.ONLINE, OFFLINE_ELECTION)

    def handle_state_changes(
        self,
        partitions: Sequence[TopicPartition],
        target: PartitionState,
        election: ElectionStrategy | None = None,
    ) -> ElectionResults:
        """Move partitions to the state ``target``, and send the resulting requests to brokers.

        ``election`` is required if ``target`` is Online. Return the new leader and ISR of each
        partition for which an election succeeded, and the failure of each partition whose state
        change failed; illegal state changes are only logged. Raises ControllerMoved and other
        StoreErrors; the event then ends.
        """
        if not partitions:
            return {}
        moves = f"partitions to {target} state"
        source = Source.PARTITION_STATE_MACHINE
        results: ElectionResults = {}
        with sent_batch(
            self._controller, self.batch, moves, source, self.batch.abandon
        ) as swallowed:
            self.batch.new_batch()
            results = self._move(partitions, target, election)
        if swallowed:
            return dict.fromkeys(partitions, StateChangeFailed(str(swallowed[0])))
        return results

    def _move(
        self,
        partitions: Sequence[TopicPartition],
        target: PartitionState,
        election: ElectionStrategy | None,
    ) -> ElectionResults:
        context = self._controller.context
        results: ElectionResults = {}
        remaining = partitions
        while remaining:
            plan = self._plan(remaining, target, election)
            written = self._write(plan)
            outcome = apply_partition_state_changes(context, plan, self.batch, written)
            self._report(outcome, plan)
            self._quarantine_malformed_states(plan, outcome)
            results.update(outcome.failures)
            for tp in plan.updates:
                leadership = context.leaderships[tp]
                if tp not in outcome.failures:
                    results[tp] = leadership.leader_and_isr
            remaining = self._read_again(outcome.retries, plan, results)
            if remaining:
                self._controller.log.info(
                    f"Retrying leader election with strategy {election} for partitions "
                    f"{', '.join(map(str, remaining))}",
                    Source.PARTITION_STATE_MACHINE,
                )
        return results

    def _plan(
        self,
        partitions: Sequence[TopicPartition],
        target: PartitionState,
        election: ElectionStrategy | None,
    ) -> PartitionPlan:
        """Plan the changes, with the states that partitions without an electable leader have now.

        Nothing is written to these states, so an outdated ISR or a missing state would not be
        noticed.
        """
        context = self._controller.context
        unclean = self._unclean_topics(partitions, target, election)
        plan = plan_partition_state_changes(context, partitions, target, election, unclean)
        leaderships = context.leaderships
        before = {tp: leaderships[tp] for tp in plan.failures if tp in leaderships}
        lost = self._controller.refresh_leaderships(list(before))
        if any(leaderships[tp] != leadership for tp, leadership in before.items()):
            plan = plan_partition_state_changes(context, partitions, target, election, unclean)
        plan.failures.update(self._no_states(lost))
        return plan

    def _write(self, plan: PartitionPlan) -> WriteOutcome:
        controller = self._controller
        context, zk = controller.context, controller.controller_zk
        fence, states = context.epoch_zk_version, plan.leader_and_isrs
        # A leader outside of its ISR could acknowledge records that no other member of the ISR has,
        # and the next election would lose them.
        assert all(state.leader in state.isr for state in states.values()), "leader not in the ISR"
        try:
            created = zk.create_partition_states(plan.creates, fence)
        except ControllerMoved as moved:
            text = "Controller moved to another broker when trying to create the topic partition"
            controller.log.error(f"{text} state znode", Source.PARTITION_STATE_MACHINE, moved)
            raise
        updated = zk.update_leader_and_isr(states, context.epoch, fence)
        return WriteOutcome(created.finished | updated.finished, updated.retry, updated.missing)

    def _quarantine_malformed_states(self, plan: PartitionPlan, outcome: PartitionOutcome) -> None:
        """Quarantine malformed state znodes found where new state znodes were to be created.

        Valid state znodes that another client has created there are not loaded into the context.
        """
        controller = self._controller
        if (
            controller.quirks.malformed_znode_fails_the_event
            or controller.quirks.lost_reply_leaves_the_partition_stuck
        ):
            return
        failed = [tp for tp in plan.creates if tp in outcome.failures]
        if failed:
            controller.quarantine_malformed(controller.zk.get_partition_states(failed).malformed)

    def _read_again(
        self, partitions: Sequence[TopicPartition], plan: PartitionPlan, results: ElectionResults
    ) -> list[TopicPartition]:
        """Read state znodes that another writer changed; return the partitions to retry."""
        failures = self._no_states(self._controller.refresh_leaderships(partitions))
        self._report_failures(failures, plan)
        results.update(failures)
        return [tp for tp in partitions if tp not in failures]

    def _no_states(self, partitions: Sequence[TopicPartition]) -> Failures:
        context = self._controller.context
        return {tp: no_leader_and_isr(tp, context.partition_state(tp)) for tp in partitions}

    def _unclean_topics(
        self,
        partitions: Sequence[TopicPartition],
        target: PartitionState,
        election: ElectionStrategy | None,
    ) -> frozenset[str]:
        """Return the topics that allow unclean leader election.

        Topic configs are read only for topics with a partition that has no live ISR member. A topic
        with a malformed config znode does not allow unclean leader election.
        """
        if target is not PartitionState.ONLINE or election != OFFLINE_ELECTION:
            return frozenset()
        controller = self._controller
        topics = topics_without_live_isr(controller.context, partitions)
        if not topics:
            return frozenset()
        found = controller.zk.get_topic_configs(topics)
        controller.quarantine_malformed(found.malformed)
        default = str(controller.dynamic_config.unclean_leader_election_enable).lower()
        malformed = {error.path for error in found.malformed}
        if controller.malformed:
            for topic in found.values:
                controller.malformed.pop(ConfigEntityZNode.path("topics", topic), None)
        return frozenset(
            topic
            for topic in topics
            if ConfigEntityZNode.path("topics", topic) not in malformed
            and found.values.get(topic, {}).get(UNCLEAN, default).strip().lower() == "true"
        )

    # Reports

    def _report(self, outcome: PartitionOutcome, plan: PartitionPlan) -> None:
        controller = self._controller
        controller.recorder.partition_changes(outcome.changes)
        controller.metrics.unclean_leader_elections += sum(c.unclean for c in outcome.changes)
        self._log_changes(outcome, plan.target)
        self._report_failures(outcome.failures, plan)
        self._report_failures(outcome.invalid, plan, ILLEGAL_STATE)

    def _log_changes(self, outcome: PartitionOutcome, target: PartitionState) -> None:
        log, context, to = self._controller.log, self._controller.context, target.value
        if not log.is_on or not outcome.changes:
            return
        match target:
            case PartitionState.NEW:
                assignment_of = context.partition_replica_assignment
                log.state_change(
                    "INFO",
                    (
                        partition_new_text(tp, change.from_state.value, to, assignment_of(tp))
                        for change in outcome.changes
                        for tp in (change.topic_partition,)
                    ),
                )
            case PartitionState.ONLINE:
                log.state_change(
                    "INFO",
                    (
                        partition_online_text(
                            change.topic_partition, change.from_state.value, to, change.leadership
                        )
                        for change in outcome.changes
                        if change.leadership is not None
                    ),
                )
            case _ if log.is_trace:
                log.state_change(
                    "TRACE",
                    (
                        f"Changed partition {change.topic_partition} state "
                        f"from {change.from_state} to {to}"
                        for change in outcome.changes
                    ),
                )

    def _report_failures(
        self,
        failures: Mapping[TopicPartition, StateChangeFailed],
        plan: PartitionPlan,
        java_class: str = STATE_CHANGE_FAILED,
    ) -> None:
        if not failures:
            return
        controller, to = self._controller, plan.target.value
        context = controller.context
        strategy = None if plan.election is None else str(plan.election)
        controller.recorder.partition_failures(failures, context, to, strategy)
        me = controller.config.broker_id, context.epoch
        controller.log.state_change_failed(
            (
                partition_failed_text(*me, tp, context.partition_state(tp).value, to),
                f"{java_class}: {failure.reason}",
            )
            for tp, failure in failures.items()
        )
