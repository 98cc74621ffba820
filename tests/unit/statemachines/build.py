"""Small clusters for the tests of the state machines, and an honest stand-in for the write."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from klamm.cluster.outcome import WriteOutcome
from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.cluster.types import (
    Broker,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.partition_transitions import PartitionPlan
from klamm.statemachines.replica_state import ReplicaState
from klamm.statemachines.replica_transitions import ReplicaPlan

DATA = Path(__file__).parents[2] / "data" / "statemachines"
EPOCH = 7

Case = dict[str, Any]


def cases(name: str, kind: str | None = None) -> list[Any]:
    """The lines of one file, of one kind or all, as pytest parameters named by line number."""
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    numbered = [(number, json.loads(line)) for number, line in enumerate(lines, 1)]
    return [
        pytest.param(case, id=f"line{number}")
        for number, case in numbered
        if kind is None or case["kind"] == kind
    ]


def tp(text: str) -> TopicPartition:
    """``t-0`` as a partition."""
    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition))


def live(*broker_ids: int) -> dict[Broker, int]:
    """Brokers with epochs 100 + id."""
    return {Broker(broker_id): 100 + broker_id for broker_id in broker_ids}


def leadership(
    leader: int, leader_epoch: int, isr: Iterable[int], zk_version: int = 0, epoch: int = EPOCH
) -> LeaderIsrAndControllerEpoch:
    """What a state znode holds."""
    state = LeaderAndIsr(leader, leader_epoch, tuple(isr), zk_version)
    return LeaderIsrAndControllerEpoch(state, epoch)


def cluster(
    assignments: Mapping[str, tuple[int, ...]],
    *,
    brokers: Iterable[int] = (1, 2, 3),
    partition_state: PartitionState | None = PartitionState.ONLINE,
    replica_state: ReplicaState | None = ReplicaState.ONLINE,
    quirks: Quirks = NO_QUIRKS,
) -> ControllerContext:
    """A context with these partitions in one state; Online ones are led by their first replica."""
    context = ControllerContext(quirks, controller_id=1)
    context.epoch = EPOCH
    context.set_live_brokers(live(*brokers))
    for text, replicas in assignments.items():
        partition = tp(text)
        context.all_topics.add(partition.topic)
        context.update_partition_full_replica_assignment(partition, ReplicaAssignment(replicas))
        if partition_state is not None:
            context.put_partition_state(partition, partition_state)
        if partition_state is PartitionState.ONLINE:
            context.put_partition_leadership_info(partition, leadership(replicas[0], 0, replicas))
        if replica_state is not None:
            for broker_id in replicas:
                context.put_replica_states(broker_id, (partition,), replica_state)
    return context


def stored(plan: PartitionPlan | ReplicaPlan) -> WriteOutcome:
    """Every write of the plan took place: versions rise by one, created znodes have version 0."""
    if isinstance(plan, ReplicaPlan):
        updates = plan.updates
        creates = {}
    else:
        updates = plan.leader_and_isrs
        creates = {t: created.leader_and_isr for t, created in plan.creates.items()}
    raised = {t: state.with_zk_version(state.zk_version + 1) for t, state in updates.items()}
    return WriteOutcome({**creates, **raised})


def snapshot(context: ControllerContext) -> dict[str, Any]:
    """Everything a context holds, copied."""
    return {
        name: {k: dict(v) if isinstance(v, dict) else v for k, v in value.items()}
        if isinstance(value, dict)
        else (set(value) if isinstance(value, set) else value)
        for name, value in vars(context).items()
    }
