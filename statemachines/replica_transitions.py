"""State transitions of one broker's replicas: planned from the context, applied after the writes.

Pure: a plan holds the ZooKeeper writes, and the batch collects the requests to send. Mirrors
kafka/controller/ReplicaStateMachine.scala.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.outcome import WriteOutcome
from klamm.cluster.types import (
    NO_LEADER,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
)
from klamm.statemachines.context import ControllerContext, ReplicasByBroker
from klamm.statemachines.replica_state import PREVIOUS_NAMES, VALID_PREVIOUS, ReplicaState
from klamm.statemachines.request_batch import ControllerBrokerRequestBatch

Failures = dict[TopicPartition, StateChangeFailed]


class ReplicaMoves(msgspec.Struct, frozen=True):
    """Replicas of one broker with the same transition."""

    from_state: ReplicaState
    to_state: ReplicaState
    partitions: list[TopicPartition]


class ReplicaPlan(msgspec.Struct, frozen=True):
    """Planned transitions of replicas on the broker ``replica_id`` to ``target``.

    - ``moves``: replicas that change their state, grouped by their current state.
    - ``updates`` (only for Offline): state znodes to set, conditional on the zk_version in the
      state, so that the replica leaves the ISR.
    - ``failures``: replicas without a possible plan, which keep their state. For Offline they are
      in ``moves`` too, because the broker is sent StopReplica nevertheless.
    - ``invalid``: replicas without a legal transition to ``target``, which keep their state.
    - ``asked``: replicas on failed log directories, which keep their state; their broker is sent
      LeaderAndIsr again.
    """

    replica_id: int
    target: ReplicaState
    moves: list[ReplicaMoves]
    updates: dict[TopicPartition, LeaderAndIsr]
    failures: Failures
    invalid: Failures
    asked: list[TopicPartition]


class IsrRemoved(msgspec.Struct, frozen=True, gc=False):
    """Leadership of a partition after a replica left its ISR or was found not to be in it."""

    topic_partition: TopicPartition
    leadership: LeaderIsrAndControllerEpoch
    previous_leadership: LeaderIsrAndControllerEpoch


class ReplicaOutcome(msgspec.Struct, frozen=True):
    """Outcome of a plan.

    ``changes``: grouped as in the plan, so that 300,000 replicas need only a few lists.
    ``retries``: partitions whose states must be read and planned again. ``failures`` and
    ``invalid``: replicas that kept their state, including those of the plan.
    """

    replica_id: int
    changes: list[ReplicaMoves]
    isr_removed: list[IsrRemoved]
    failures: Failures
    invalid: Failures
    retries: list[TopicPartition]


def initialize_replica_states(
    context: ControllerContext,
) -> tuple[ReplicasByBroker, ReplicasByBroker]:
    """Set the state of every replica after a failover; return (online, offline) replicas.

    The state is Online, or ReplicaDeletionIneligible if the broker or the log directory is down.
    """
    online, offline = context.online_and_offline_replicas()
    for broker_id, tps in online.items():
        context.put_replica_states(broker_id, tps, ReplicaState.ONLINE)
    for broker_id, tps in offline.items():
        context.put_replica_states(broker_id, tps, ReplicaState.DELETION_INELIGIBLE)
    return online, offline


def plan_replica_state_changes(
    context: ControllerContext,
    replica_id: int,
    partitions: Iterable[TopicPartition],
    target: ReplicaState,
) -> ReplicaPlan:
    """Plan the transitions of the replicas of ``partitions`` on one broker to ``target``.

    The context is only read.
    """
    plan = ReplicaPlan(replica_id, target, [], {}, {}, {}, [])
    for state, tps in _by_state(context, replica_id, partitions).items():
        if state not in VALID_PREVIOUS[target]:
            for tp in tps:
                plan.invalid[tp] = invalid_transition(replica_id, tp, state, target)
            continue
        if target is ReplicaState.ONLINE and state is not ReplicaState.NEW:
            tps = _plan_online(context, replica_id, tps, plan.asked)
        elif target is ReplicaState.NEW:
            tps = _plan_new(context, replica_id, tps, plan.failures)
        elif target is ReplicaState.OFFLINE:
            _plan_isr_removals(context, replica_id, tps, plan.updates, plan.failures)
        if tps:
            plan.moves.append(ReplicaMoves(state, target, tps))
    return plan


def invalid_transition(
    replica_id: int, tp: TopicPartition, state: ReplicaState, target: ReplicaState
) -> StateChangeFailed:
    """Return the failure of an illegal transition, with Kafka's message."""
    return StateChangeFailed(
        f"Replica {PartitionAndReplica(tp, replica_id)} should be in the "
        f"{','.join(PREVIOUS_NAMES[target.value])} states before moving to {target} state. "
        f"Instead it is in {state} state"
    )


def _by_state(
    context: ControllerContext, replica_id: int, partitions: Iterable[TopicPartition]
) -> dict[ReplicaState, list[TopicPartition]]:
    """Group replicas by state.

    Replicas come in long runs of one state, and hashing an Enum is slow, so a group is looked up
    only when the state changes.
    """
    states = context.replica_states.get(replica_id, {})
    groups: dict[ReplicaState, list[TopicPartition]] = {}
    current: ReplicaState | None = None
    group: list[TopicPartition] = []
    for tp in partitions:
        state = states.get(tp, ReplicaState.NON_EXISTENT)
        if state is not current:
            current = state
            group = groups.setdefault(state, [])
        group.append(tp)
    return groups


def _plan_online(
    context: ControllerContext,
    replica_id: int,
    tps: list[TopicPartition],
    asked: list[TopicPartition],
) -> list[TopicPartition]:
    """Return the replicas to move to Online; those on a failed directory are added to ``asked``.

    They become Online when their broker answers NONE; with the quirk
    log_dir_failure_revives_offline_replicas, at once.
    """
    failed = context.replicas_on_offline_dirs.get(replica_id)
    if not failed or context.quirks.log_dir_failure_revives_offline_replicas:
        return tps
    asked.extend(tp for tp in tps if tp in failed)
    return [tp for tp in tps if tp not in failed]


def _plan_new(
    context: ControllerContext,
    replica_id: int,
    tps: list[TopicPartition],
    failures: Failures,
) -> list[TopicPartition]:
    movable = []
    for tp in tps:
        leadership = context.leaderships.get(tp)
        if leadership is not None and leadership.leader_and_isr.leader == replica_id:
            failures[tp] = StateChangeFailed(
                f"Replica {replica_id} for partition {tp} cannot be moved to NewReplica state as "
                "it is being requested to become leader"
            )
        else:
            movable.append(tp)
    return movable


def _plan_isr_removals(
    context: ControllerContext,
    replica_id: int,
    tps: list[TopicPartition],
    updates: dict[TopicPartition, LeaderAndIsr],
    failures: Failures,
) -> None:
    """Plan to take the replica out of ISRs, except as the last member of an ISR.

    The last member stays, so that a clean election remains possible.
    """
    for tp in tps:
        leadership = context.leaderships.get(tp)
        if leadership is None:
            continue
        state = leadership.leader_and_isr
        if leadership.controller_epoch > context.epoch:
            failures[tp] = StateChangeFailed(
                "Leader and isr path written by another controller. This probably means the "
                f"current controller with epoch {context.epoch} went through a soft failure and "
                f"another controller was elected with epoch {leadership.controller_epoch}. "
                "Aborting state change by this controller"
            )
        elif replica_id in state.isr:
            leader = NO_LEADER if state.leader == replica_id else state.leader
            isr = (
                state.isr if len(state.isr) == 1 else tuple(r for r in state.isr if r != replica_id)
            )
            updates[tp] = state.with_leader_and_isr(leader, isr)


def apply_replica_state_changes(
    context: ControllerContext,
    plan: ReplicaPlan,
    batch: ControllerBrokerRequestBatch,
    written: WriteOutcome | None = None,
) -> ReplicaOutcome:
    """Apply a plan, after its writes, to the context and the request batch.

    ``written`` has a result for every partition of ``updates``. Replicas with a failed write, or
    with a write to retry, keep their state.
    """
    outcome = ReplicaOutcome(plan.replica_id, [], [], dict(plan.failures), plan.invalid, [])
    if plan.target is ReplicaState.OFFLINE:
        _apply_offline(context, plan, batch, written or WriteOutcome(), outcome)
        return outcome
    replica_id = plan.replica_id
    batch.add_leader_and_isr_requests_for_broker(replica_id, plan.asked, False)
    for move in plan.moves:
        match plan.target:
            case ReplicaState.NEW:
                batch.add_leader_and_isr_requests_for_broker(replica_id, move.partitions, True)
            case ReplicaState.ONLINE if move.from_state is ReplicaState.NEW:
                _join_assignments(context, replica_id, move.partitions)
            case ReplicaState.ONLINE:
                batch.add_leader_and_isr_requests_for_broker(replica_id, move.partitions, False)
            case ReplicaState.DELETION_STARTED:
                for tp in move.partitions:
                    batch.add_stop_replica_request_for_brokers((replica_id,), tp, True)
            case ReplicaState.NON_EXISTENT:
                for tp in move.partitions:
                    assignment = context.partition_full_replica_assignment(tp)
                    context.update_partition_full_replica_assignment(
                        tp, assignment.remove_replica(replica_id)
                    )
        if move.from_state is not move.to_state:
            context.put_replica_states(replica_id, move.partitions, plan.target)
        outcome.changes.append(move)
    return outcome


def abandon_replica_state_changes(
    plan: ReplicaPlan, batch: ControllerBrokerRequestBatch, moved: bool
) -> None:
    """Abandon the batch because the write of ``plan`` failed as a whole.

    Kafka adds the StopReplica requests of an Offline transition before it writes. Therefore a batch
    that is not cleared (KAFKA-12315) is never empty after such a failure.
    """
    if plan.target is ReplicaState.OFFLINE:
        _add_stop_replicas(plan, batch)
    batch.abandon(moved)


def _join_assignments(
    context: ControllerContext, replica_id: int, tps: Iterable[TopicPartition]
) -> None:
    for tp in tps:
        assignment = context.partition_full_replica_assignment(tp)
        if replica_id not in assignment.replicas:
            context.update_partition_full_replica_assignment(
                tp,
                ReplicaAssignment(
                    (*assignment.replicas, replica_id),
                    assignment.adding_replicas,
                    assignment.removing_replicas,
                ),
            )


def _add_stop_replicas(plan: ReplicaPlan, batch: ControllerBrokerRequestBatch) -> None:
    for move in plan.moves:
        for tp in move.partitions:
            batch.add_stop_replica_request_for_brokers((plan.replica_id,), tp, False)


def _apply_offline(
    context: ControllerContext,
    plan: ReplicaPlan,
    batch: ControllerBrokerRequestBatch,
    written: WriteOutcome,
    outcome: ReplicaOutcome,
) -> None:
    """Apply a transition to Offline.

    StopReplica requests are added first, because they carry the leader epoch before the write.
    """
    _add_stop_replicas(plan, batch)
    outcome.retries.extend(written.retry)
    unmoved = {*plan.failures, *written.retry}
    for tp in plan.updates:
        stored = None if tp in unmoved else written.finished[tp]
        if isinstance(stored, StateChangeFailed):
            outcome.failures[tp] = stored
            unmoved.add(tp)
    without_leader = []
    for move in plan.moves:
        moved = [tp for tp in move.partitions if tp not in unmoved] if unmoved else move.partitions
        for tp in moved:
            previous = context.leaderships.get(tp)
            if previous is None:
                without_leader.append(tp)
                continue
            stored = written.finished[tp] if tp in plan.updates else previous.leader_and_isr
            assert isinstance(stored, LeaderAndIsr), "failed writes were set aside"
            leadership = LeaderIsrAndControllerEpoch(stored, context.epoch)
            _leave_isr(context, batch, plan.replica_id, tp, leadership)
            outcome.isr_removed.append(IsrRemoved(tp, leadership, previous))
        if moved:
            context.put_replica_states(plan.replica_id, moved, ReplicaState.OFFLINE)
            outcome.changes.append(ReplicaMoves(move.from_state, ReplicaState.OFFLINE, moved))
    if without_leader:
        batch.add_update_metadata_request_for_brokers(
            context.live_or_shutting_down_broker_ids, without_leader
        )


def _leave_isr(
    context: ControllerContext,
    batch: ControllerBrokerRequestBatch,
    replica_id: int,
    tp: TopicPartition,
    leadership: LeaderIsrAndControllerEpoch,
) -> None:
    """Put the new ISR into the context, and add requests for the other replicas to the batch.

    No requests are added for a topic to be deleted.
    """
    context.put_partition_leadership_info(tp, leadership)
    if tp.topic in context.topics_to_be_deleted:
        return
    assignment = context.partition_full_replica_assignment(tp)
    batch.add_leader_and_isr_request_for_brokers(
        [r for r in assignment.replicas if r != replica_id],
        tp,
        leadership,
        assignment,
        is_new=False,
    )
