"""State transitions of partitions: planned from the context, and applied after they are written.

Pure: a plan holds the ZooKeeper writes, and the batch collects the requests to send. Mirrors
kafka/controller/PartitionStateMachine.scala.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.outcome import WriteOutcome
from klamm.cluster.types import (
    INITIAL_LEADER_EPOCH,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    TopicPartition,
)
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.election import ElectionResult, ElectionStrategy, elect_leaders
from klamm.statemachines.partition_state import PREVIOUS_NAMES, VALID_PREVIOUS, PartitionState
from klamm.statemachines.request_batch import ControllerBrokerRequestBatch

Failures = dict[TopicPartition, StateChangeFailed]


class PartitionPlan(msgspec.Struct, frozen=True):
    """Planned transitions of partitions to ``target``.

    - ``moves``: partitions that only change their state.
    - ``creates``: state znodes to create.
    - ``updates``: state znodes to set, conditional on the zk_version in the state.
    - ``failures``: partitions without a possible plan; their state does not change.
    - ``invalid``: partitions without a legal transition to ``target``; their state does not change.
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
        """New contents of the state znodes of ``updates``."""
        return {
            tp: result.leader_and_isr
            for tp, result in self.updates.items()
            if result.leader_and_isr is not None
        }


class PartitionChange(msgspec.Struct, frozen=True, gc=False):
    """A partition changed its state, or got a leader without a change of state.

    ``leadership`` and ``previous_leadership`` are the same object unless a state znode was written.
    ``unclean``: the elected leader was not in sync.
    """

    topic_partition: TopicPartition
    from_state: PartitionState
    to_state: PartitionState
    leadership: LeaderIsrAndControllerEpoch | None
    previous_leadership: LeaderIsrAndControllerEpoch | None
    election: ElectionStrategy | None = None
    unclean: bool = False


class PartitionOutcome(msgspec.Struct, frozen=True):
    """Outcome of a plan.

    ``retries``: partitions whose states must be read and planned again. ``failures`` and
    ``invalid``: partitions that kept their state, including those of the plan.
    """

    changes: list[PartitionChange]
    failures: Failures
    invalid: Failures
    retries: list[TopicPartition]


def initialize_partition_states(context: ControllerContext) -> None:
    """Set the state of every partition after a failover.

    Online if the leader is online, Offline if not, New without a leader and ISR.
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
    """Return the New and Offline partitions of one topic or of all.

    Excludes topics to be deleted.
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
    """Return the topics of those ``partitions`` that have no live ISR member.

    An offline election needs to know their unclean.leader.election.enable. Only Online and Offline
    partitions are considered.
    """
    topics: dict[str, None] = {}
    for tp in partitions:
        if tp.topic not in topics and context.partition_state(tp) in (
            PartitionState.OFFLINE,
            PartitionState.ONLINE,
        ):
            leadership = context.leaderships.get(tp)
            if leadership is not None and not context.online_replicas(
                tp, leadership.leader_and_isr.isr
            ):
                topics[tp.topic] = None
    return list(topics)


def plan_partition_state_changes(
    context: ControllerContext,
    partitions: Iterable[TopicPartition],
    target: PartitionState,
    election: ElectionStrategy | None = None,
    unclean_topics: Collection[str] = frozenset(),
) -> PartitionPlan:
    """Plan the transitions of partitions to ``target``; the context is only read.

    ``election``: required for Online. ``unclean_topics``: topics that allow unclean elections.
    """
    plan = PartitionPlan(target, election, [], {}, {}, {}, {})
    valid = VALID_PREVIOUS[target]
    to_elect: list[tuple[TopicPartition, LeaderAndIsr]] = []
    for tp in partitions:
        state = context.partition_state(tp)
        if state not in valid:
            plan.invalid[tp] = invalid_transition(tp, state, target)
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
        assert election is not None, "a move to OnlinePartition needs an election strategy"
        for tp, result in elect_leaders(context, to_elect, election, unclean_topics).items():
            if result.leader_and_isr is not None:
                plan.updates[tp] = result
            else:
                plan.failures[tp] = StateChangeFailed(
                    f"Failed to elect leader for partition {tp} under strategy {election}"
                )
    return plan


def invalid_transition(
    tp: TopicPartition, state: PartitionState, target: PartitionState
) -> StateChangeFailed:
    """Return the failure of an illegal transition, with Kafka's message."""
    return StateChangeFailed(
        f"Partition {tp} should be in one of {','.join(PREVIOUS_NAMES[target.value])} states "
        f"before moving to {target} state. Instead it is in {state} state"
    )


def _plan_create(context: ControllerContext, tp: TopicPartition, plan: PartitionPlan) -> None:
    replicas = context.partition_replica_assignment(tp)
    live = context.online_replicas(tp, replicas)
    if live:
        plan.creates[tp] = LeaderIsrAndControllerEpoch(
            LeaderAndIsr(live[0], INITIAL_LEADER_EPOCH, live), context.epoch
        )
        return
    live_brokers = ", ".join(map(str, sorted(context.live_broker_ids)))
    plan.failures[tp] = StateChangeFailed(
        f"Controller {context.controller_id} epoch {context.epoch} encountered error during state "
        f"change of partition {tp} from New to Online, assigned replicas are "
        f"[{','.join(map(str, replicas))}], live brokers are [Set({live_brokers})]. "
        "No assigned replica is alive."
    )


def _refuse_election(
    context: ControllerContext,
    tp: TopicPartition,
    state: PartitionState,
    leadership: LeaderIsrAndControllerEpoch | None,
) -> StateChangeFailed | None:
    if leadership is None:
        return StateChangeFailed(
            f"LeaderAndIsr information doesn't exist for partition {tp} in {state} state"
        )
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
    """Apply a plan, after its writes, to the context and the request batch.

    ``written`` has a result for every partition of ``creates`` and ``updates``. Partitions with a
    failed write, or with a write to retry, keep their state.
    """
    outcome = PartitionOutcome([], dict(plan.failures), plan.invalid, [])
    for tp in plan.moves:
        leadership = context.leaderships.get(tp)
        outcome.changes.append(
            PartitionChange(tp, context.partition_state(tp), plan.target, leadership, leadership)
        )
        context.put_partition_state(tp, plan.target)
    if plan.creates or plan.updates:
        assert written is not None, "the plan has writes, so it needs their results"
        outcome.retries.extend(written.retry)
        _apply_writes(context, plan, batch, written, outcome)
    return outcome


def _apply_writes(
    context: ControllerContext,
    plan: PartitionPlan,
    batch: ControllerBrokerRequestBatch,
    written: WriteOutcome,
    outcome: PartitionOutcome,
) -> None:
    """Apply created states, then elected states: the order of Kafka's request batch."""
    epoch = context.epoch
    retries = set(written.retry)
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
        assert stored.leader in stored.isr, f"{tp}: leader {stored.leader} is not in sync"
        assert previous is None or stored.leader_epoch > previous.leader_and_isr.leader_epoch, (
            f"{tp}: leader epoch {stored.leader_epoch} is not new"
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
