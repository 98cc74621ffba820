"""Kafka's four leader election strategies.

The functions change no state; they return the leader, ISR and incremented leader epoch to write.
Functions named ..._partition_leader_election choose among the given replica ids; ``elect_leaders``
takes the replicas from a controller context. Mirrors kafka/controller/Election.scala and
PartitionLeaderElectionAlgorithms of kafka/controller/PartitionStateMachine.scala.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.statemachines.context import ControllerContext


class OfflineElection(msgspec.Struct, frozen=True):
    """Strategy that elects leaders for partitions that have lost their leader.

    ``allow_unclean``: allow an unclean election even if the topic's
    unclean.leader.election.enable is false.
    """

    allow_unclean: bool = False

    def __str__(self) -> str:
        return f"OfflinePartitionLeaderElectionStrategy({str(self.allow_unclean).lower()})"


class ReassignElection(msgspec.Struct, frozen=True):
    """Strategy that elects a leader among the target replicas of a reassignment."""

    def __str__(self) -> str:
        return "ReassignPartitionLeaderElectionStrategy"


class PreferredReplicaElection(msgspec.Struct, frozen=True):
    """Strategy that elects the preferred replica, i.e. the first assigned replica."""

    def __str__(self) -> str:
        return "PreferredReplicaPartitionLeaderElectionStrategy"


class ControlledShutdownElection(msgspec.Struct, frozen=True):
    """Strategy that moves leadership off brokers that are shutting down.

    Brokers that are shutting down are also removed from the ISR.
    """

    def __str__(self) -> str:
        return "ControlledShutdownPartitionLeaderElectionStrategy"


ElectionStrategy = (
    OfflineElection | ReassignElection | PreferredReplicaElection | ControlledShutdownElection
)


class ElectionResult(msgspec.Struct, frozen=True, gc=False):
    """Result of the election of one partition.

    - ``leader_and_isr``: the new content of the state znode, or None if no replica can become
      leader.
    - ``live_replicas``: the brokers to which LeaderAndIsr is sent. As in Kafka, reassign and
      preferred replica elections also include brokers that are not live.
    - ``unclean``: True if the elected leader was not in the ISR.
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
    """Return the first assigned replica that is live and in the ISR.

    If there is none, return None, or the first live assigned replica if unclean leader election is
    enabled.
    """
    for replica in assignment:
        if replica in live_replicas and replica in isr:
            return replica
    if unclean_leader_election_enabled:
        return next((r for r in assignment if r in live_replicas), None)
    return None


def reassign_partition_leader_election(
    reassignment: Sequence[int], isr: Collection[int], live_replicas: Collection[int]
) -> int | None:
    """Return the first target replica that is live and in the ISR, or None."""
    return next((r for r in reassignment if r in live_replicas and r in isr), None)


def preferred_replica_partition_leader_election(
    assignment: Sequence[int], isr: Collection[int], live_replicas: Collection[int]
) -> int | None:
    """Return the first assigned replica if that replica is live and in the ISR, else None."""
    return next((r for r in assignment[:1] if r in live_replicas and r in isr), None)


def controlled_shutdown_partition_leader_election(
    assignment: Sequence[int],
    isr: Collection[int],
    live_replicas: Collection[int],
    shutting_down_brokers: Collection[int],
) -> int | None:
    """Return the first assigned replica that is live, in the ISR and not shutting down, or None."""
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
    """Elect a leader for each of the given partitions, and return the results.

    ``states`` has the partitions, each with its current leader and ISR. ``unclean_topics`` are the
    topics with unclean.leader.election.enable=true; they only matter to an OfflineElection of a
    partition that has no online ISR member.
    """
    return {tp: _elect(context, tp, state, strategy, unclean_topics) for tp, state in states}


def _elect(
    context: ControllerContext,
    tp: TopicPartition,
    state: LeaderAndIsr,
    strategy: ElectionStrategy,
    unclean_topics: Collection[str],
) -> ElectionResult:
    assignment, isr = context.partition_replica_assignment(tp), state.isr
    if isinstance(strategy, ReassignElection):
        assignment = context.partition_full_replica_assignment(tp).target_replicas
    is_shutdown = isinstance(strategy, ControlledShutdownElection)
    live = context.online_replicas(tp, assignment, include_shutting_down_brokers=is_shutdown)
    recipients = live
    match strategy:
        case OfflineElection():
            allow_unclean = strategy.allow_unclean or tp.topic in unclean_topics
            leader = offline_partition_leader_election(assignment, isr, live, allow_unclean)
            if leader is not None and leader not in isr:
                unclean = state.with_leader_and_isr(leader, (leader,))
                return ElectionResult(unclean, live, unclean=True)
            isr = context.online_replicas(tp, isr)
        case ReassignElection():
            leader = reassign_partition_leader_election(assignment, isr, live)
            recipients = assignment
        case PreferredReplicaElection():
            leader = preferred_replica_partition_leader_election(assignment, isr, live)
            recipients = assignment
        case ControlledShutdownElection():
            leaving = context.shutting_down_broker_ids
            leader = controlled_shutdown_partition_leader_election(assignment, isr, live, leaving)
            isr = tuple(r for r in isr if r not in leaving)
    elected = None if leader is None else state.with_leader_and_isr(leader, isr)
    return ElectionResult(elected, recipients)
