"""Which moves are legal: Kafka's table, the derived one and the library's machines agree."""

from __future__ import annotations

import itertools
import json
from enum import Enum
from typing import Any

import pytest
from transitions import Machine, MachineError

from docs.state_machines import SECTIONS
from klamm.statemachines import partition_state, replica_state
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.election import OfflineElection
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.partition_transitions import (
    apply_partition_state_changes,
    plan_partition_state_changes,
)
from klamm.statemachines.replica_state import ReplicaState
from klamm.statemachines.replica_transitions import (
    apply_replica_state_changes,
    plan_replica_state_changes,
)
from klamm.statemachines.request_batch import ControllerBrokerRequestBatch
from klamm.statemachines.rules import machine_of
from tests.unit.statemachines.build import DATA, cluster, leadership, snapshot, stored, tp

RECORDED = json.loads((DATA / "state_pairs.json").read_text(encoding="utf-8"))
PARTITION_MACHINE = machine_of(PartitionState.NON_EXISTENT, partition_state.PREVIOUS)
REPLICA_MACHINE = machine_of(ReplicaState.NON_EXISTENT, replica_state.PREVIOUS)
T = tp("t-0")


class Model:
    """Something that a machine of the library moves."""

    state: str


def library_allows(machine: Machine, source: Enum, target: Enum) -> bool:
    """Whether the library's machine itself makes the move."""
    model = Model()
    machine.add_model(model, initial=source.value)
    try:
        moved = model.trigger(target.value)  # type: ignore[attr-defined]
    except MachineError:
        assert model.state == source.value
        return False
    finally:
        machine.remove_model(model)
    assert moved and model.state == target.value
    return True


@pytest.mark.parametrize(
    ("module", "states", "recorded"),
    [
        (partition_state, PartitionState, RECORDED["partition_states"]),
        (replica_state, ReplicaState, RECORDED["replica_states"]),
    ],
)
def test_states_and_previous_states_are_kafkas(
    module: Any, states: type[Enum], recorded: dict[str, Any]
) -> None:
    assert {state.value for state in states} == set(recorded)
    for state in states:
        kafka = recorded[state.value]
        assert str(state) == state.value
        assert {s.value for s in module.PREVIOUS[state]} == set(kafka["valid_previous_states"])
        assert ",".join(map(str, module.PREVIOUS[state])) == kafka["mkString"]


def partition_in(state: PartitionState) -> ControllerContext:
    context = cluster({"t-0": (1, 2)}, partition_state=None, replica_state=None)
    if state is not PartitionState.NON_EXISTENT:
        context.put_partition_state(T, state)
    if state in (PartitionState.ONLINE, PartitionState.OFFLINE):
        context.put_partition_leadership_info(T, leadership(1, 4, (1, 2), 9))
    return context


@pytest.mark.parametrize(
    ("source", "target"), list(itertools.product(PartitionState, repeat=2)), ids=str
)
def test_a_partition_moves_just_where_kafka_and_the_library_let_it(
    source: PartitionState, target: PartitionState
) -> None:
    allowed = source.value in RECORDED["partition_states"][target.value]["valid_previous_states"]
    assert library_allows(PARTITION_MACHINE, source, target) is allowed

    context = partition_in(source)
    before = snapshot(context)
    plan = plan_partition_state_changes(context, [T], target, OfflineElection())
    assert snapshot(context) == before, "planning changes nothing"
    batch = ControllerBrokerRequestBatch(context, 1)
    outcome = apply_partition_state_changes(context, plan, batch, stored(plan))
    if allowed:
        assert [(c.from_state, c.to_state) for c in outcome.changes] == [(source, target)]
        assert context.partition_state(T) is target
    else:
        assert snapshot(context) == before
        assert batch.is_empty
        names = RECORDED["partition_states"][target.value]["mkString"]
        assert str(outcome.invalid[T]) == (
            f"Partition t-0 should be in one of {names} states before moving to {target} state. "
            f"Instead it is in {source} state"
        )
    assert context.counts() == context.recount()


def replica_in(state: ReplicaState) -> ControllerContext:
    context = cluster({"t-0": (1, 2)}, replica_state=None)
    if state is not ReplicaState.NON_EXISTENT:
        context.put_replica_states(2, (T,), state)
    return context


@pytest.mark.parametrize(
    ("source", "target"), list(itertools.product(ReplicaState, repeat=2)), ids=str
)
def test_a_replica_moves_just_where_kafka_and_the_library_let_it(
    source: ReplicaState, target: ReplicaState
) -> None:
    allowed = source.value in RECORDED["replica_states"][target.value]["valid_previous_states"]
    assert library_allows(REPLICA_MACHINE, source, target) is allowed

    context = replica_in(source)
    before = snapshot(context)
    plan = plan_replica_state_changes(context, 2, [T], target)
    assert snapshot(context) == before, "planning changes nothing"
    batch = ControllerBrokerRequestBatch(context, 1)
    outcome = apply_replica_state_changes(context, plan, batch, stored(plan))
    if allowed:
        moved = [(m.from_state, m.to_state, m.partitions) for m in outcome.changes]
        assert moved == [(source, target, [T])]
        assert context.replica_state(2, T) is target
    else:
        assert snapshot(context) == before
        assert batch.is_empty
        names = RECORDED["replica_states"][target.value]["mkString"]
        assert str(outcome.invalid[T]) == (
            f"Replica [Topic=t,Partition=0,Replica=2] should be in the {names} states before "
            f"moving to {target} state. Instead it is in {source} state"
        )
    assert context.counts() == context.recount()


def test_the_diagrams_and_tables_of_the_docs_show_the_machines() -> None:
    assert "| OfflinePartition |   | x | x | x |" in SECTIONS["partition table"]()
    assert "NewPartition --> OnlinePartition" in SECTIONS["partition diagram"]()
    assert "[*] --> NonExistentReplica" in SECTIONS["replica diagram"]()
