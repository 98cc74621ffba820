"""Replica state transitions, in two steps: plan, then apply to the controller context.

A plan is for replicas on one broker. The functions do no I/O. Between the two steps the caller
makes the ZooKeeper writes in the plan; the second step adds the control requests to a request
batch, which the caller sends. Mirrors kafka/controller/ReplicaStateMachine.scala.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

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
from klamm.statemachines.partition_transitions import Failures
from klamm.statemachines.replica_state import PREVIOUS, ReplicaState
from klamm.statemachines.request_batch import ControllerBrokerRequestBatch

NO_FAILURES: Final[Failures] = {}


class ReplicaMoves(msgspec.Struct, frozen=True):
    """Replicas of one broker that make the same state transition."""

    from_state: ReplicaState
    to_state: ReplicaState
    partitions: list[TopicPartition]


class ReplicaPlan(msgspec.Struct, frozen=True):
    """Planned transitions of replicas on the broker ``replica_id`` to ``target``.

    - ``moves``: replicas that change state, grouped by current state.
    - ``updates``: state znodes to overwrite if their version equals ``zk_version`` in the state,
      in order to remove the replica from the ISR; empty unless ``target`` is Offline.
    - ``failures``: replicas that cannot change state. If ``target`` is Offline, these replicas are
      in ``moves`` too, because the broker is sent StopReplica anyway.
    - ``invalid``: replicas for which the transition from their state to ``target`` is illegal.
    - ``asked``: replicas in failed log directories. They keep their state, and the broker is sent
      LeaderAndIsr again to find out whether they still fail.
    """

    replica_id: int
    target: ReplicaState
    moves: list[ReplicaMoves]
    updates: dict[TopicPartition, LeaderAndIsr]
    failures: Failures
    invalid: Failures
    asked: list[TopicPartition]


class IsrRemoved(msgspec.Struct, frozen=True, gc=False):
    """Leader and ISR of a partition, before and after a replica was removed from the ISR.

    The leader and ISR are unchanged if the replica was not in the ISR.
    """

    topic_partition: TopicPartition
    leadership: LeaderIsrAndControllerEpoch
    previous_leadership: LeaderIsrAndControllerEpoch


class ReplicaOutcome(msgspec.Struct, frozen=True):
    """Outcome of applying a ReplicaPlan.

    - ``changes``: replicas that changed state, grouped by previous state.
    - ``failures`` and ``invalid``: replicas that keep their state. These include the replicas in
      ``failures`` and ``invalid`` of the plan.
    - ``retries``: partitions whose state znode did not have the expected version, or is missing.
      The caller must read the znode and plan the transition again.
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
    """Set the state of every replica after a failover, and return (online, offline) replicas.

    A replica is offline if its broker is not live or its log directory has failed. Offline replicas
    become ReplicaDeletionIneligible; all other replicas become Online.
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
    lost: Failures = NO_FAILURES,
) -> ReplicaPlan:
    """Plan the transition of one broker's replicas of ``partitions`` to the state ``target``.

    ``replica_id`` is the broker id. ``lost``: the failures of partitions that have no state znode
    from which a replica could be removed. The context is not changed.
    """
    plan = ReplicaPlan(replica_id, target, [], {}, {}, {}, [])
    for state, tps in _by_state(context, replica_id, partitions).items():
        if state not in PREVIOUS[target]:
            for tp in tps:
                plan.invalid[tp] = invalid_replica_transition(replica_id, tp, state, target)
            continue
        if target is ReplicaState.ONLINE and state is not ReplicaState.NEW:
            tps = _plan_online(context, replica_id, tps, plan.asked)
        elif target is ReplicaState.NEW:
            tps = _plan_new(context, replica_id, tps, plan.failures)
        elif target is ReplicaState.OFFLINE:
            plan.failures.update((tp, lost[tp]) for tp in tps if tp in lost)
            _plan_isr_removals(context, replica_id, tps, plan.updates, plan.failures)
        if tps:
            plan.moves.append(ReplicaMoves(state, target, tps))
    return plan


def invalid_replica_transition(
    replica_id: int, tp: TopicPartition, state: ReplicaState, target: ReplicaState
) -> StateChangeFailed:
    """Return a StateChangeFailed with Kafka's message about an illegal replica transition."""
    return StateChangeFailed(
        f"Replica {PartitionAndReplica(tp, replica_id)} should be in the "
        f"{','.join(map(str, PREVIOUS[target]))} states before moving to {target} state. "
        f"Instead it is in {state} state"
    )


def _by_state(
    context: ControllerContext, replica_id: int, partitions: Iterable[TopicPartition]
) -> dict[ReplicaState, list[TopicPartition]]:
    """Group the broker's replicas of ``partitions`` by state.

    Hashing an Enum is slow, and consecutive replicas usually have the same state. So the group is
    looked up only for a replica whose state differs from that of the replica before it.
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
    """Return the replicas to move to Online; add those in failed log directories to ``asked``.

    A replica in ``asked`` becomes Online when its broker responds to LeaderAndIsr without an error.
    With the quirk log_dir_failure_revives_offline_replicas, all replicas become Online immediately.
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
    """Plan to remove the replica from the ISRs of ``tps``.

    The last member of an ISR is not removed, so that a clean election remains possible.
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
    """Apply a plan to the context and the request batch, after the plan's ZooKeeper writes.

    ``written`` has the result of the write for every partition in ``updates``. Replicas whose write
    failed or must be retried keep their state.
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
    """Discard the request batch after the ZooKeeper write of ``plan`` failed as a whole.

    ``moved``: True if the write failed because another controller was elected. Two quirks keep the
    batch (see ControllerBrokerRequestBatch.abandon). Because Kafka's batch then contains the
    StopReplica requests of a transition to OfflineReplica, those requests are added first.
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
    """Apply a plan with target Offline to the context and the request batch.

    StopReplica requests are added before the ISR changes, because they must have the old leader
    epoch.
    """
    _add_stop_replicas(plan, batch)
    outcome.retries.extend(written.unwritten)
    unmoved = {*plan.failures, *written.unwritten}
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
            assert isinstance(stored, LeaderAndIsr), f"the write for {tp} failed"
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
    """Cache the leader and ISR without the replica, and add LeaderAndIsr for the other replicas.

    No requests are added if the topic is queued for deletion.
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
