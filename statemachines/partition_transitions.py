"""Partition state transitions, in two steps: plan, then apply to the controller context.

The functions do no I/O. Between the two steps the caller makes the ZooKeeper writes in the plan;
the second step adds the control requests to a request batch, which the caller sends. Mirrors
kafka/controller/PartitionStateMachine.scala.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.jvm.scala_sets import immutable_order, int_hash, scala_set
from klamm.cluster.outcome import WriteOutcome
from klamm.cluster.types import (
    INITIAL_LEADER_EPOCH,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    TopicPartition,
)
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.election import ElectionResult, ElectionStrategy, elect_leaders
from klamm.statemachines.partition_state import PREVIOUS, PartitionState
from klamm.statemachines.request_batch import ControllerBrokerRequestBatch

Failures = dict[TopicPartition, StateChangeFailed]


class PartitionPlan(msgspec.Struct, frozen=True):
    """Planned transitions of partitions to the state ``target``.

    - ``moves``: partitions that change state without a ZooKeeper write.
    - ``creates``: state znodes to create.
    - ``updates``: state znodes to overwrite if their version equals ``zk_version`` in the state.
    - ``failures``: partitions that cannot change state, e.g. because no leader can be elected.
    - ``invalid``: partitions for which the transition from their state to ``target`` is illegal.
    """

    target: PartitionState
    election: ElectionStrategy | None
    moves: list[TopicPartition]
    creates: dict[TopicPartition, LeaderIsrAndControllerEpoch]
    updates: dict[TopicPartition, ElectionResult]
    failures: Failures
    invalid: Failures

    @property
    def leader_and_isrs(self) -> dict[TopicPartition, LeaderAndIsr]:
        """New contents of the state znodes in ``updates``, keyed by partition."""
        return {
            tp: result.leader_and_isr
            for tp, result in self.updates.items()
            if result.leader_and_isr is not None
        }


class PartitionChange(msgspec.Struct, frozen=True, gc=False):
    """A state change of a partition, or the election of a new leader for an Online partition.

    ``leadership`` and ``previous_leadership`` are the same object unless a state znode was written.
    ``unclean``: True if the elected leader was not in the ISR.
    """

    topic_partition: TopicPartition
    from_state: PartitionState
    to_state: PartitionState
    leadership: LeaderIsrAndControllerEpoch | None
    previous_leadership: LeaderIsrAndControllerEpoch | None
    election: ElectionStrategy | None = None
    unclean: bool = False


class PartitionOutcome(msgspec.Struct, frozen=True):
    """Outcome of applying a PartitionPlan.

    - ``failures`` and ``invalid``: partitions that keep their state. These include the partitions
      in ``failures`` and ``invalid`` of the plan.
    - ``retries``: partitions whose state znode did not have the expected version, or is missing.
      The caller must read the znode and plan the transition again.
    """

    changes: list[PartitionChange]
    failures: Failures
    invalid: Failures
    retries: list[TopicPartition]


def initialize_partition_states(context: ControllerContext) -> None:
    """Set the state of every partition after a failover.

    A partition is New if it has no leader and ISR yet, Online if its leader is online, and
    Offline otherwise.
    """
    leaderships = context.leaderships
    for tp in context.all_partitions():
        leadership = leaderships.get(tp)
        if leadership is None:
            state = PartitionState.NEW
        elif context.is_replica_online(leadership.leader_and_isr.leader, tp):
            state = PartitionState.ONLINE
        else:
            state = PartitionState.OFFLINE
        context.put_partition_state(tp, state)


def partitions_to_bring_online(
    context: ControllerContext, topic: str | None = None
) -> list[TopicPartition]:
    """Return the New and Offline partitions of ``topic``, or of all topics if ``topic`` is None.

    Partitions of topics queued for deletion are omitted.
    """
    waiting = (PartitionState.OFFLINE, PartitionState.NEW)
    return [
        tp
        for tp in context.partitions_in_states(waiting, topic)
        if tp.topic not in context.topics_to_be_deleted
    ]


def topics_without_live_isr(
    context: ControllerContext, partitions: Iterable[TopicPartition]
) -> list[str]:
    """Return the topics of those ``partitions`` whose ISR has no live member.

    For these topics, the config unclean.leader.election.enable decides whether an OfflineElection
    can elect a leader.
    """
    topics = (
        tp.topic
        for tp in partitions
        if (leadership := context.leaderships.get(tp)) is not None
        and not context.online_replicas(tp, leadership.leader_and_isr.isr)
    )
    return list(dict.fromkeys(topics))


def plan_partition_state_changes(
    context: ControllerContext,
    partitions: Iterable[TopicPartition],
    target: PartitionState,
    election: ElectionStrategy | None = None,
    unclean_topics: Collection[str] = frozenset(),
) -> PartitionPlan:
    """Plan the transitions of ``partitions`` to ``target`` without changing the context.

    ``election`` is required if ``target`` is Online. ``unclean_topics`` are the topics that allow
    unclean leader election.
    """
    plan = PartitionPlan(target, election, [], {}, {}, {}, {})
    valid = PREVIOUS[target]
    to_elect: list[tuple[TopicPartition, LeaderAndIsr]] = []
    for tp in partitions:
        state = context.partition_state(tp)
        if state not in valid:
            plan.invalid[tp] = invalid_partition_transition(tp, state, target)
        elif target is not PartitionState.ONLINE:
            plan.moves.append(tp)
        elif state is PartitionState.NEW:
            _plan_create(context, tp, plan)
        else:
            leadership = context.leaderships.get(tp)
            failure = _refuse_election(context, tp, state, leadership)
            if failure is not None:
                plan.failures[tp] = failure
            elif leadership is not None:
                to_elect.append((tp, leadership.leader_and_isr))
    if to_elect:
        assert election is not None, "a transition to OnlinePartition requires an election strategy"
        for tp, result in elect_leaders(context, to_elect, election, unclean_topics).items():
            if result.leader_and_isr is not None:
                plan.updates[tp] = result
            else:
                plan.failures[tp] = StateChangeFailed(
                    f"Failed to elect leader for partition {tp} under strategy {election}"
                )
    return plan


def invalid_partition_transition(
    tp: TopicPartition, state: PartitionState, target: PartitionState
) -> StateChangeFailed:
    """Return a StateChangeFailed with Kafka's message about an illegal partition transition."""
    return StateChangeFailed(
        f"Partition {tp} should be in one of {','.join(map(str, PREVIOUS[target]))} states "
        f"before moving to {target} state. Instead it is in {state} state"
    )


def no_leader_and_isr(tp: TopicPartition, state: PartitionState) -> StateChangeFailed:
    """Return a StateChangeFailed with Kafka's message about a partition without a state znode."""
    return StateChangeFailed(
        f"LeaderAndIsr information doesn't exist for partition {tp} in {state} state"
    )


def _plan_create(context: ControllerContext, tp: TopicPartition, plan: PartitionPlan) -> None:
    replicas = context.partition_replica_assignment(tp)
    live = context.online_replicas(tp, replicas)
    if live:
        plan.creates[tp] = LeaderIsrAndControllerEpoch(
            LeaderAndIsr(live[0], INITIAL_LEADER_EPOCH, live), context.epoch
        )
        return
    live_brokers = immutable_order(sorted(context.live_broker_ids), int_hash)
    # Kafka prints the live ones of the assigned replicas, and there are none.
    plan.failures[tp] = StateChangeFailed(
        f"Controller {context.controller_id} epoch {context.epoch} encountered error during state "
        f"change of partition {tp} from New to Online, assigned replicas are [], live brokers are "
        f"[{scala_set(live_brokers)}]. No assigned replica is alive."
    )


def _refuse_election(
    context: ControllerContext,
    tp: TopicPartition,
    state: PartitionState,
    leadership: LeaderIsrAndControllerEpoch | None,
) -> StateChangeFailed | None:
    if leadership is None:
        return no_leader_and_isr(tp, state)
    if leadership.controller_epoch > context.epoch:
        return StateChangeFailed(
            f"Aborted leader election for partition {tp} since the LeaderAndIsr path was already "
            "written by another controller. This probably means that the current controller "
            f"{context.controller_id} went through a soft failure and another controller was "
            f"elected with epoch {leadership.controller_epoch}."
        )
    return None


def apply_partition_state_changes(
    context: ControllerContext,
    plan: PartitionPlan,
    batch: ControllerBrokerRequestBatch,
    written: WriteOutcome | None = None,
) -> PartitionOutcome:
    """Apply a plan to the context and the request batch, after the plan's ZooKeeper writes.

    ``written`` has the result of the write for every partition in ``creates`` and ``updates``.
    Partitions whose write failed or must be retried keep their state.
    """
    outcome = PartitionOutcome([], dict(plan.failures), plan.invalid, [])
    for tp in plan.moves:
        leadership = context.leaderships.get(tp)
        outcome.changes.append(
            PartitionChange(tp, context.partition_state(tp), plan.target, leadership, leadership)
        )
        context.put_partition_state(tp, plan.target)
    if plan.creates or plan.updates:
        assert written is not None, "the results of the plan's writes are missing"
        outcome.retries.extend(written.unwritten)
        _apply_writes(context, plan, batch, written, outcome)
    return outcome


def _apply_writes(
    context: ControllerContext,
    plan: PartitionPlan,
    batch: ControllerBrokerRequestBatch,
    written: WriteOutcome,
    outcome: PartitionOutcome,
) -> None:
    """Apply the written states, ``creates`` first, so that requests are in Kafka's order."""
    epoch = context.epoch
    retries = set(written.unwritten)
    for tp in (*plan.creates, *plan.updates):
        if tp in retries:
            continue
        stored = written.finished[tp]
        if isinstance(stored, StateChangeFailed):
            outcome.failures[tp] = stored
            continue
        result = plan.updates.get(tp)
        previous = context.leaderships.get(tp)
        # Brokers accept a LeaderAndIsr only with a newer leader epoch, and a leader outside the ISR
        # could be replaced at once.
        assert stored.leader in stored.isr, f"{tp}: leader {stored.leader} is not in the ISR"
        assert previous is None or stored.leader_epoch > previous.leader_and_isr.leader_epoch, (
            f"{tp}: leader epoch {stored.leader_epoch} is not higher than the previous one"
        )
        leadership = LeaderIsrAndControllerEpoch(stored, epoch)
        context.put_partition_leadership_info(tp, leadership)
        batch.add_leader_and_isr_request_for_brokers(
            stored.isr if result is None else result.live_replicas,
            tp,
            leadership,
            context.partition_full_replica_assignment(tp),
            is_new=result is None,
        )
        state = context.partition_state(tp)
        context.put_partition_state(tp, plan.target)
        outcome.changes.append(
            PartitionChange(
                tp,
                state,
                plan.target,
                leadership,
                previous,
                None if result is None else plan.election,
                result is not None and result.unclean,
            )
        )
