"""The decisions of reassignments: targets, refusals, completion, epochs, leaders, replicas."""

from __future__ import annotations

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.quirks import Quirks
from klamm.cluster.requests import LeaderAndIsrRequest
from klamm.cluster.types import LeaderAndIsr, ReplicaAssignment
from klamm.statemachines.context import ControllerContext, replicas_by_broker
from klamm.statemachines.reassignment import (
    add_requests,
    added_replicas_on_live_brokers,
    adding_rounds,
    apply_epoch_bumps,
    assignments_with_strays,
    build_reassignment,
    is_reassignment_complete,
    plan_epoch_bumps,
    plan_leader_moves,
    reassignment_id,
    refuse_reassignment,
    stray_replicas,
    topics_to_store,
    unneeded_replicas,
    validate_replicas,
)
from klamm.statemachines.request_batch import ControllerBrokerRequestBatch
from tests.unit.statemachines.build import cluster, leadership, live, tp

A, B, C = tp("t-0"), tp("t-1"), tp("u-0")
MOVING = ReplicaAssignment((3, 4, 1, 2), (3, 4), (1, 2))


def moving(
    leader: int = 1,
    isr: tuple[int, ...] = (1, 2),
    brokers: tuple[int, ...] = (1, 2, 3, 4),
    quirks: Quirks | None = None,
) -> ControllerContext:
    """A goes from 1 and 2 to 3 and 4."""
    context = cluster({"t-0": (1, 2), "t-1": (2, 1), "u-0": (1,)}, quirks=quirks or Quirks())
    context.set_live_brokers(live(*brokers))
    context.update_partition_full_replica_assignment(A, MOVING)
    context.put_partition_leadership_info(A, leadership(leader, 5, isr, 7))
    return context


def test_a_reassignment_is_built_from_its_target_or_cancelled_without_one() -> None:
    context = moving()
    assert build_reassignment(context, B, (2, 3)) == ReplicaAssignment((2, 3, 1), (3,), (1,))
    assert build_reassignment(context, B, None) is None
    assert build_reassignment(context, A, None) == ReplicaAssignment((1, 2))
    assert build_reassignment(context, A, (4, 1)) == ReplicaAssignment((4, 1, 2), (4,), (2,))
    assert unneeded_replicas(MOVING, ReplicaAssignment((4, 1, 2), (4,), (2,))) == (3,)


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        ((), "Empty replica list specified in partition reassignment."),
        ((1, 1), "Duplicate replica ids in partition reassignment replica list: ArrayBuffer(1, 1)"),
        ((-1, 1), "Invalid broker id in replica list: ArrayBuffer(-1, 1)"),
        (
            (9, 1),
            "Replica assignment has brokers that are not alive. Replica list: ArrayBuffer(9), "
            "live broker list: Set(1, 2, 3, 4)",
        ),
    ],
)
def test_invalid_targets_are_refused_with_kafkas_texts(
    replicas: tuple[int, ...], message: str
) -> None:
    error = validate_replicas(moving(), B, replicas)
    assert error is not None
    assert (error.error, error.message) == (Errors.INVALID_REPLICA_ASSIGNMENT, message)


@pytest.mark.parametrize("brokers", [(), (0, 1, 2, 3, 4)])
def test_none_or_five_live_brokers_are_a_hash_set_as_in_scala(brokers: tuple[int, ...]) -> None:
    error = validate_replicas(moving(brokers=brokers), B, (9, 1))
    assert error is not None
    listed = ", ".join(map(str, brokers))
    assert (error.message or "").endswith(f"live broker list: HashSet({listed})")
    assert validate_replicas(moving(brokers=(0, 1)), B, (0, 1)) is None


def test_only_added_replicas_have_to_live() -> None:
    context = moving(brokers=(3,))
    assert validate_replicas(context, B, (1, 2)) is None
    assert validate_replicas(context, B, (3,)) is None


CANCEL = ReplicaAssignment((1, 2))
OVERRIDE = ReplicaAssignment((4, 2, 1), (4,), (1,))


@pytest.mark.parametrize(
    ("leader", "isr", "brokers", "new", "is_refused"),
    [
        (1, (1, 2), (1, 2, 3, 4), CANCEL, False),
        (3, (3, 2), (2, 3), CANCEL, False),
        (3, (3, 2), (3,), CANCEL, True),
        (3, (3,), (1, 2, 3), CANCEL, True),
        (-1, (3,), (1, 2), CANCEL, True),
        (3, (3, 4), (3, 4), OVERRIDE, False),
        (3, (3, 4), (3,), OVERRIDE, True),
    ],
)
def test_a_change_that_would_leave_no_possible_leader_is_refused(
    leader: int,
    isr: tuple[int, ...],
    brokers: tuple[int, ...],
    new: ReplicaAssignment,
    is_refused: bool,
) -> None:
    refused = refuse_reassignment(moving(leader, isr, brokers), A, new)
    assert (refused is not None) is is_refused
    for quirk, other in (("kafka_14424", OVERRIDE), ("kafka_14808", CANCEL)):
        context = moving(leader, isr, brokers, Quirks(**{quirk: True}))
        assert (refuse_reassignment(context, A, new) is not None) is (is_refused and new == other)


def test_complete_once_the_target_is_in_sync() -> None:
    assert not is_reassignment_complete(moving(isr=(1, 2, 3)), A, MOVING)
    assert is_reassignment_complete(moving(isr=(4, 1, 3)), A, MOVING)
    context = moving()
    assert is_reassignment_complete(context, A, CANCEL), "nothing is added or removed"
    context.leaderships.pop(A)
    assert not is_reassignment_complete(context, A, MOVING)


def test_topic_znodes_hold_changed_and_unchanged_partitions() -> None:
    context = moving()
    (stored,) = topics_to_store(context, {B: ReplicaAssignment((3,))})
    assert stored.topic == "t"
    assert stored.assignment == {A: MOVING, B: ReplicaAssignment((3,))}
    assert [t.topic for t in topics_to_store(context, {C: CANCEL, B: CANCEL})] == ["u", "t"]


def test_only_the_epoch_rises_and_added_replicas_are_new() -> None:
    context = moving()
    updates, failures = plan_epoch_bumps(context, [A, tp("no-0")])
    assert updates == {A: LeaderAndIsr(1, 6, (1, 2), 7)}
    assert list(failures) == [tp("no-0")]
    (bump,) = apply_epoch_bumps(context, {A: updates[A].with_zk_version(8)}, {A: MOVING})
    assert bump.previous_leadership.leader_and_isr.leader_epoch == 5
    assert context.leaderships[A] is bump.leadership
    batch = ControllerBrokerRequestBatch(context, 1)
    add_requests(context, {A: MOVING}, batch)
    sent = {
        broker_id: request.partition_states[0]
        for broker_id, request in batch.drain()
        if isinstance(request, LeaderAndIsrRequest)
    }
    assert {broker_id: state.is_new for broker_id, state in sent.items()} == {
        1: False,
        2: False,
        3: True,
        4: True,
    }
    assert {(s.leader_epoch, s.zk_version, s.adding_replicas) for s in sent.values()} == {
        (6, 8, (3, 4))
    }


@pytest.mark.parametrize(
    ("leader", "brokers", "target", "step"),
    [
        (1, (1, 2, 3, 4), (3, 4), "elect"),
        (1, (1, 2, 3, 4), (3, 1), "bump"),
        (1, (2, 3, 4), (3, 1), "elect"),
        (-1, (2, 3, 4), (3, 4), "elect"),
    ],
)
def test_a_leader_outside_the_target_or_not_live_is_replaced(
    leader: int, brokers: tuple[int, ...], target: tuple[int, ...], step: str
) -> None:
    moves = plan_leader_moves(moving(leader, brokers=brokers), {A: ReplicaAssignment(target)})
    assert [bool(moves.elect), bool(moves.bump)] == [step == "elect", step == "bump"]


def test_a_leader_in_a_failed_directory_is_replaced() -> None:
    context = moving(1)
    context.replicas_on_offline_dirs[1] = {A}
    moves = plan_leader_moves(context, {A: ReplicaAssignment((3, 1))})
    assert list(moves.elect) == [A]
    assert moves.elect[A].endswith("is already in the new list of replicas 3,1 but is dead")


def test_a_broker_that_shuts_down_keeps_added_replicas_but_gets_no_new_ones() -> None:
    context = moving()
    context.add_shutting_down_broker(3)
    assert added_replicas_on_live_brokers(context, {A: MOVING}) == {3: [A], 4: [A]}
    error = validate_replicas(context, B, (2, 3))
    assert error is not None
    listed = "Replica list: ArrayBuffer(3), live broker list: Set(1, 2, 4)"
    assert (error.message or "").endswith(listed)
    context.remove_live_brokers([4])
    assert added_replicas_on_live_brokers(context, {A: MOVING}) == {3: [A]}


def test_added_replicas_start_in_rounds() -> None:
    rounds = adding_rounds({A: MOVING, B: ReplicaAssignment((4, 2), (4,)), C: CANCEL})
    assert rounds == [{3: [A], 4: [B]}, {4: [A]}]
    assert adding_rounds({}) == []
    assert replicas_by_broker({A: (4, 1), B: (1,)}) == {1: [A, B], 4: [A]}


def test_replicas_in_sync_but_not_assigned_are_strays() -> None:
    context = moving(isr=(1, 2, 3))
    assert stray_replicas(context) == {}
    context.update_partition_full_replica_assignment(A, CANCEL)
    assert stray_replicas(context) == {A: (3,)}
    context.put_partition_leadership_info(A, leadership(3, 6, (3,)))
    assert stray_replicas(context) == {}, "nobody else could lead"
    kept = {A: ReplicaAssignment((*CANCEL.replicas, 3), (), (3,))}
    assert assignments_with_strays(context) == kept
    context.put_partition_leadership_info(A, leadership(3, 6, (3, 1)))
    assert (stray_replicas(context), assignments_with_strays(context)) == ({A: (3,)}, {})
    context.remove_live_brokers([1])
    assert stray_replicas(context) == {}, "the only other in-sync replica is dead"
    assert assignments_with_strays(context) == kept
    context.update_partition_full_replica_assignment(A, OVERRIDE)
    kept = {A: ReplicaAssignment((4, 2, 1, 3), (4,), (1, 3))}
    assert assignments_with_strays(context) == kept


def test_a_stray_is_not_kept_for_an_assigned_leader_that_is_dead() -> None:
    context = moving(isr=(1, 3), brokers=(2, 3, 4))
    context.update_partition_full_replica_assignment(A, CANCEL)
    assert (stray_replicas(context), assignments_with_strays(context)) == ({A: (3,)}, {})


def test_a_stray_of_a_topic_to_be_deleted_is_removed_and_never_kept() -> None:
    context = moving(isr=(1, 2, 3))
    context.update_partition_full_replica_assignment(A, CANCEL)
    context.topics_to_be_deleted.add("t")
    assert stray_replicas(context) == {A: (3,)}
    context.put_partition_leadership_info(A, leadership(3, 6, (3,)))
    assert (stray_replicas(context), assignments_with_strays(context)) == ({}, {})


def test_an_id_lasts_as_long_as_the_target() -> None:
    assert reassignment_id(A, MOVING) == reassignment_id(A, ReplicaAssignment((3, 4))) == "t-0->3,4"
