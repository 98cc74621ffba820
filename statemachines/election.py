"""Who leads a partition: the four elections of Kafka, over plain ids and over a context.

Pure: nothing is changed, the leader epoch of a result is the one to write. Mirrors
kafka/controller/Election.scala and PartitionLeaderElectionAlgorithms of
kafka/controller/PartitionStateMachine.scala.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from cluster.types import LeaderAndIsr, TopicPartition
from statemachines.context import ControllerContext


class OfflineElection(msgspec.Struct, frozen=True):
    """For new and leaderless partitions; ``allow_unclean`` allows it for every topic."""

    allow_unclean: bool = False

    def __str__(self) -> str:
        return f"OfflinePartitionLeaderElectionStrategy({str(self.allow_unclean).lower()})"


class ReassignElection(msgspec.Struct, frozen=True):
    """Among the target replicas of a reassignment."""

    def __str__(self) -> str:
        return "ReassignPartitionLeaderElectionStrategy"


class PreferredReplicaElection(msgspec.Struct, frozen=True):
    """The first assigned replica or nobody."""

    def __str__(self) -> str:
        return "PreferredReplicaPartitionLeaderElectionStrategy"


class ControlledShutdownElection(msgspec.Struct, frozen=True):
    """Away from the brokers that are shutting down, which leave the ISR."""

    def __str__(self) -> str:
        return "ControlledShutdownPartitionLeaderElectionStrategy"


ElectionStrategy = (
    OfflineElection | ReassignElection | PreferredReplicaElection | ControlledShutdownElection
)


class ElectionResult(msgspec.Struct, frozen=True, gc=False):
    """What an election decided about one partition.

    ``leader_and_isr`` to write, None if there is no leader; ``live_replicas`` are who hears of it
    (for the reassign and the preferred election all candidates, live or not). ``unclean``: the
    leader was not in sync.
    """

    leader_and_isr: LeaderAndIsr | None
    live_replicas: tuple[int, ...]
    unclean: bool = False


def offline_partition_leader_election(
    assignment: Sequence[int],
    isr: Collection[int],
    live_replicas: Collection[int],
    unclean_leader_election_enabled: bool,
) -> int | None:
    """The first live replica in sync; failing that and if allowed, the first live one."""
    for replica in assignment:
        if replica in live_replicas and replica in isr:
            return replica
    if unclean_leader_election_enabled:
        return next((r for r in assignment if r in live_replicas), None)
    return None


def reassign_partition_leader_election(
    reassignment: Sequence[int], isr: Collection[int], live_replicas: Collection[int]
) -> int | None:
    """The first target replica that is live and in sync."""
    return next((r for r in reassignment if r in live_replicas and r in isr), None)


def preferred_replica_partition_leader_election(
    assignment: Sequence[int], isr: Collection[int], live_replicas: Collection[int]
) -> int | None:
    """The first replica, if it is live and in sync."""
    return next((r for r in assignment[:1] if r in live_replicas and r in isr), None)


def controlled_shutdown_partition_leader_election(
    assignment: Sequence[int],
    isr: Collection[int],
    live_replicas: Collection[int],
    shutting_down_brokers: Collection[int],
) -> int | None:
    """The first replica that is live, in sync and not on a broker that is shutting down."""
    return next(
        (
            r
            for r in assignment
            if r in live_replicas and r in isr and r not in shutting_down_brokers
        ),
        None,
    )


def elect_leaders(
    context: ControllerContext,
    states: Iterable[tuple[TopicPartition, LeaderAndIsr]],
    strategy: ElectionStrategy,
    unclean_topics: Collection[str] = frozenset(),
) -> dict[TopicPartition, ElectionResult]:
    """Elect a leader for each partition from the state that is given with it.

    ``unclean_topics``: those with unclean.leader.election.enable=true; asked only by the offline
    election, and only where no replica in sync is online.
    """
    match strategy:
        case OfflineElection(allow_unclean=True):
            return {tp: leader_for_offline(context, tp, state, True) for tp, state in states}
        case OfflineElection():
            return {
                tp: leader_for_offline(context, tp, state, tp.topic in unclean_topics)
                for tp, state in states
            }
        case ReassignElection():
            return {tp: leader_for_reassign(context, tp, state) for tp, state in states}
        case PreferredReplicaElection():
            return {tp: leader_for_preferred_replica(context, tp, state) for tp, state in states}
        case ControlledShutdownElection():
            return {tp: leader_for_controlled_shutdown(context, tp, state) for tp, state in states}


def leader_for_offline(
    context: ControllerContext, tp: TopicPartition, state: LeaderAndIsr, unclean_enabled: bool
) -> ElectionResult:
    """A live leader; the ISR is what is online of the old one, or the unclean leader alone."""
    assignment = context.partition_replica_assignment(tp)
    live = context.online_replicas(tp, assignment)
    leader = offline_partition_leader_election(assignment, state.isr, live, unclean_enabled)
    if leader is None:
        return ElectionResult(None, live)
    if leader in state.isr:
        isr = context.online_replicas(tp, state.isr)
        return ElectionResult(state.with_leader_and_isr(leader, isr), live)
    return ElectionResult(state.with_leader_and_isr(leader, (leader,)), live, unclean=True)


def leader_for_reassign(
    context: ControllerContext, tp: TopicPartition, state: LeaderAndIsr
) -> ElectionResult:
    """A live target replica in sync; the ISR stays."""
    target = context.partition_full_replica_assignment(tp).target_replicas
    live = context.online_replicas(tp, target)
    leader = reassign_partition_leader_election(target, state.isr, live)
    return _same_isr(state, leader, target)


def leader_for_preferred_replica(
    context: ControllerContext, tp: TopicPartition, state: LeaderAndIsr
) -> ElectionResult:
    """The preferred replica; the ISR stays."""
    assignment = context.partition_replica_assignment(tp)
    live = context.online_replicas(tp, assignment)
    leader = preferred_replica_partition_leader_election(assignment, state.isr, live)
    return _same_isr(state, leader, assignment)


def leader_for_controlled_shutdown(
    context: ControllerContext, tp: TopicPartition, state: LeaderAndIsr
) -> ElectionResult:
    """A leader that stays; the brokers that are shutting down leave the ISR."""
    assignment = context.partition_replica_assignment(tp)
    live = context.online_replicas(tp, assignment, include_shutting_down_brokers=True)
    leaving = context.shutting_down_broker_ids
    leader = controlled_shutdown_partition_leader_election(assignment, state.isr, live, leaving)
    if leader is None:
        return ElectionResult(None, live)
    isr = tuple(r for r in state.isr if r not in leaving)
    return ElectionResult(state.with_leader_and_isr(leader, isr), live)


def _same_isr(
    state: LeaderAndIsr, leader: int | None, recipients: tuple[int, ...]
) -> ElectionResult:
    if leader is None:
        return ElectionResult(None, recipients)
    return ElectionResult(state.with_leader_and_isr(leader, state.isr), recipients)
