"""The elections against what the classes of Kafka 2.8.2 answered."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.cluster.types import LeaderAndIsr, ReplicaAssignment
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.election import (
    ControlledShutdownElection,
    ElectionResult,
    ElectionStrategy,
    OfflineElection,
    PreferredReplicaElection,
    ReassignElection,
    controlled_shutdown_partition_leader_election,
    elect_leaders,
    offline_partition_leader_election,
    preferred_replica_partition_leader_election,
    reassign_partition_leader_election,
)
from tests.unit.statemachines.build import Case, cases, live, tp

T = tp("t-0")


@pytest.mark.parametrize("case", cases("elections.jsonl", "algorithm"))
def test_each_algorithm_chooses_the_leader_that_kafka_chooses(case: Case) -> None:
    assignment, isr, live_ids = case["assignment"], case["isr"], set(case["live"])
    leader = offline_partition_leader_election(assignment, isr, live_ids, case["unclean_enabled"])
    assert leader == case["offline"]
    assert (leader is not None and leader not in isr) is case["unclean_marked"]
    assert reassign_partition_leader_election(assignment, isr, live_ids) == case["reassign"]
    preferred = preferred_replica_partition_leader_election(assignment, isr, live_ids)
    assert preferred == case["preferred"]
    staying = controlled_shutdown_partition_leader_election(
        assignment, isr, live_ids, set(case["shutting_down"])
    )
    assert staying == case["controlled_shutdown"]


def context_of(case: Case) -> ControllerContext:
    context = ControllerContext()
    context.set_live_brokers(live(*case["live_or_shutting_down"]))
    for broker_id in case["shutting_down"]:
        context.add_shutting_down_broker(broker_id)
    context.update_partition_full_replica_assignment(
        T,
        ReplicaAssignment(
            tuple(case["assignment"]), tuple(case["adding"]), tuple(case["removing"])
        ),
    )
    for broker_id in case["offline_dir_replicas"]:
        context.replicas_on_offline_dirs[broker_id] = {T}
    return context


def state_of(recorded: dict[str, Any]) -> LeaderAndIsr:
    return LeaderAndIsr(
        recorded["leader"], recorded["leader_epoch"], tuple(recorded["isr"]), recorded["zk_version"]
    )


def recorded_result(recorded: dict[str, Any], isr_before: list[int]) -> ElectionResult:
    after = recorded["leader_and_isr"]
    state = None if after is None else state_of(after)
    unclean = state is not None and state.leader not in isr_before
    return ElectionResult(state, tuple(recorded["live_replicas"]), unclean)


@pytest.mark.parametrize("case", cases("elections.jsonl", "election_with_context"))
def test_each_election_gives_the_leader_isr_epoch_and_recipients_of_kafka(case: Case) -> None:
    context = context_of(case)
    before = state_of(case["leader_and_isr"])
    unclean = {"t"} if case["unclean_enabled"] else set()
    strategies: dict[str, ElectionStrategy] = {
        "offline": OfflineElection(),
        "reassign": ReassignElection(),
        "preferred": PreferredReplicaElection(),
        "controlled_shutdown": ControlledShutdownElection(),
    }
    for name, strategy in strategies.items():
        result = elect_leaders(context, [(T, before)], strategy, unclean)[T]
        assert result == recorded_result(case[name], case["leader_and_isr"]["isr"]), name


def test_an_unclean_election_may_be_allowed_for_all_topics() -> None:
    context = ControllerContext()
    context.set_live_brokers(live(2))
    context.update_partition_full_replica_assignment(T, ReplicaAssignment((1, 2)))
    states = [(T, LeaderAndIsr(-1, 4, (1,), 6))]
    assert elect_leaders(context, states, OfflineElection())[T].leader_and_isr is None
    assert elect_leaders(context, states, OfflineElection(allow_unclean=True))[T] == ElectionResult(
        LeaderAndIsr(2, 5, (2,), 6), (2,), unclean=True
    )


def test_strategies_print_kafkas_names() -> None:
    assert [
        str(strategy)
        for strategy in (
            OfflineElection(),
            OfflineElection(allow_unclean=True),
            ReassignElection(),
            PreferredReplicaElection(),
            ControlledShutdownElection(),
        )
    ] == [
        "OfflinePartitionLeaderElectionStrategy(false)",
        "OfflinePartitionLeaderElectionStrategy(true)",
        "ReassignPartitionLeaderElectionStrategy",
        "PreferredReplicaPartitionLeaderElectionStrategy",
        "ControlledShutdownPartitionLeaderElectionStrategy",
    ]
