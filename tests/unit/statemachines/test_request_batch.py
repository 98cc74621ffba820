"""The request batch: who hears what, in which order, merged how, and what a failure leaves."""

from __future__ import annotations

import pytest

from klamm.cluster.quirks import Quirks
from klamm.cluster.requests import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from klamm.cluster.types import ReplicaAssignment
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.request_batch import BatchNotEmpty, ControllerBrokerRequestBatch
from tests.unit.statemachines.build import EPOCH, cluster, leadership, live, tp

A, B, C = tp("t-0"), tp("t-1"), tp("u-0")


def batch_of(context: ControllerContext) -> ControllerBrokerRequestBatch:
    return ControllerBrokerRequestBatch(context, 1)


def add(
    batch: ControllerBrokerRequestBatch, broker_ids: list[int], text: str, is_new: bool = False
) -> None:
    """LeaderAndIsr with what the context holds."""
    context = batch.context
    partition = tp(text)
    batch.add_leader_and_isr_request_for_brokers(
        broker_ids,
        partition,
        context.leaderships[partition],
        context.assignments[partition],
        is_new,
    )


def test_leader_and_isr_goes_first_then_metadata_then_stops_each_by_ascending_broker() -> None:
    context = cluster({"t-0": (3, 1), "u-0": (1, 2)})
    batch = batch_of(context)
    batch.add_stop_replica_request_for_brokers([3, 2], C, False)
    add(batch, [3, 1], "t-0")
    assert [(type(request), broker_id) for broker_id, request in batch.drain()] == [
        (LeaderAndIsrRequest, 1),
        (LeaderAndIsrRequest, 3),
        (UpdateMetadataRequest, 1),
        (UpdateMetadataRequest, 2),
        (UpdateMetadataRequest, 3),
        (StopReplicaRequest, 2),
        (StopReplicaRequest, 3),
    ]
    assert batch.is_empty and batch.drain() == []


def test_the_three_requests_carry_every_field() -> None:
    context = cluster({"t-0": (2, 1)}, brokers=(1, 2, 3))
    context.add_topic_id("t", "id-of-t")
    context.add_shutting_down_broker(3)
    context.update_partition_full_replica_assignment(A, ReplicaAssignment((2, 1, 3), (3,), (1,)))
    context.put_partition_leadership_info(A, leadership(2, 4, (2, 1), 6, epoch=EPOCH - 1))
    batch = batch_of(context)
    add(batch, [1], "t-0", is_new=True)
    batch.add_stop_replica_request_for_brokers([3], A, True)
    requests = batch.drain()
    brokers = {broker.id: broker for broker in context.live_or_shutting_down_brokers}
    assert requests[0] == (
        1,
        LeaderAndIsrRequest(
            1,
            EPOCH,
            101,
            (
                LeaderAndIsrPartitionState(
                    A, EPOCH - 1, 2, 4, (2, 1), 6, (2, 1, 3), (3,), (1,), True
                ),
            ),
            {"t": "id-of-t"},
            (brokers[2],),
        ),
    )
    state = UpdateMetadataPartitionState(A, EPOCH - 1, 2, 4, (2, 1), 6, (2, 1, 3), (3,))
    assert requests[1:4] == [
        (
            b,
            UpdateMetadataRequest(
                1, EPOCH, 100 + b, (state,), tuple(brokers.values()), {"t": "id-of-t"}
            ),
        )
        for b in (1, 2, 3)
    ]
    assert requests[4:] == [
        (3, StopReplicaRequest(1, EPOCH, 103, (StopReplicaPartitionState(A, 4, True),)))
    ]


def test_a_partition_is_named_once_per_broker_as_last_added_and_stays_new() -> None:
    context = cluster({"t-0": (1, 2), "t-1": (1, 2)})
    batch = batch_of(context)
    add(batch, [1, 2], "t-0", is_new=True)
    add(batch, [1, 2], "t-1")
    context.put_partition_leadership_info(A, leadership(2, 5, (2,)))
    add(batch, [1], "t-0", is_new=False)
    states = batch.leader_and_isr
    assert [(str(s.topic_partition), s.leader, s.is_new) for s in states[1].values()] == [
        ("t-0", 2, True),
        ("t-1", 1, False),
    ]
    assert states[2][A].leader == 1, "what broker 2 was told is not changed"
    metadata = [r for _, r in batch.drain() if isinstance(r, UpdateMetadataRequest)]
    assert [s.leader for s in metadata[0].partition_states] == [2, 1]


def test_many_partitions_of_one_broker_are_as_one_by_one() -> None:
    def batch(bulk: bool) -> ControllerBrokerRequestBatch:
        context = cluster({"t-0": (1, 2), "t-1": (2, 1), "u-0": (1, 2)})
        context.leaderships.pop(C)
        made = batch_of(context)
        add(made, [1], "t-0", is_new=True)
        for is_new in (False, True):
            if bulk:
                made.add_leader_and_isr_requests_for_broker(1, [A, B, C], is_new)
            else:
                add(made, [1], "t-0", is_new)
                add(made, [1], "t-1", is_new)
        return made

    assert batch(True).leader_and_isr == batch(False).leader_and_isr
    assert batch(True).drain() == batch(False).drain()
    empty = batch_of(cluster({}))
    empty.add_leader_and_isr_requests_for_broker(1, [A], False)
    assert empty.is_empty


def test_a_bulk_addition_keeps_the_marks_of_new_replicas() -> None:
    context = cluster({"t-0": (1, 2)})
    batch = batch_of(context)
    batch.add_leader_and_isr_requests_for_broker(1, [A], True)
    batch.add_leader_and_isr_requests_for_broker(1, [A], False)
    assert batch.leader_and_isr[1][A].is_new


def test_a_bulk_addition_sends_the_current_leader() -> None:
    context = cluster({"t-0": (1, 2)})
    batch = batch_of(context)
    batch.add_leader_and_isr_requests_for_broker(1, [A], False)
    context.put_partition_leadership_info(A, leadership(2, 5, (2,)))
    batch.add_leader_and_isr_requests_for_broker(1, [A], False)
    assert batch.leader_and_isr[1][A].leader == 2
    context.update_partition_full_replica_assignment(A, ReplicaAssignment((2, 3)))
    batch.add_leader_and_isr_requests_for_broker(1, [A], False)
    assert batch.leader_and_isr[1][A].replicas == (2, 3)


def test_no_leader_is_no_recipient() -> None:
    batch = batch_of(cluster({"t-0": (1, 2)}, brokers=(1,)))
    add(batch, [-1, 2], "t-0")
    batch.add_stop_replica_request_for_brokers([-1, 2], A, False)
    batch.add_update_metadata_request_for_brokers([-2, 2], [A])
    assert (list(batch.leader_and_isr), list(batch.stop_replica)) == ([2], [2])
    assert batch.update_metadata_brokers == {1, 2}


def test_a_leader_that_shuts_down_is_among_the_live_leaders() -> None:
    context = cluster({"t-0": (1, 2)}, brokers=(1, 2))
    context.add_shutting_down_broker(1)
    batch = batch_of(context)
    add(batch, [2], "t-0")
    (_, request), *_ = batch.drain()
    assert isinstance(request, LeaderAndIsrRequest)
    assert [broker.id for broker in request.live_leaders] == [1]


def test_equal_states_are_one_object_for_all_brokers() -> None:
    context = cluster({"t-0": (1, 2, 3)})
    batch = batch_of(context)
    add(batch, [1, 2], "t-0")
    batch.add_leader_and_isr_requests_for_broker(3, [A], False)
    requests = [r for _, r in batch.drain()]
    first, *others = [r for r in requests if isinstance(r, LeaderAndIsrRequest)]
    assert all(r.partition_states[0] is first.partition_states[0] for r in others)
    first_metadata, *rest = [r for r in requests if isinstance(r, UpdateMetadataRequest)]
    assert all(r.partition_states is first_metadata.partition_states for r in rest)


def test_a_stop_deletes_once_any_addition_said_so() -> None:
    context = cluster({"t-0": (1, 2), "u-0": (1,)}, partition_state=None)
    batch = batch_of(context)
    batch.add_stop_replica_request_for_brokers([2], A, True)
    context.put_partition_leadership_info(A, leadership(1, 8, (1, 2)))
    batch.add_stop_replica_request_for_brokers([2, -1], A, False)
    for _ in range(2):
        batch.add_stop_replica_request_for_brokers([2], B, False)
    context.queue_topic_deletion(["u"])
    batch.add_stop_replica_request_for_brokers([2], C, False)
    assert batch.stop_replica == {
        2: {
            A: StopReplicaPartitionState(A, 8, True),
            B: StopReplicaPartitionState(B, -1, False),
            C: StopReplicaPartitionState(C, -2, False),
        }
    }


def test_metadata_of_a_topic_to_be_deleted_has_leader_minus_two() -> None:
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)})
    context.put_partition_leadership_info(A, leadership(1, 8, (1, 2), 5))
    context.leaderships.pop(C)
    context.queue_topic_deletion(["t"])
    batch = batch_of(context)
    batch.add_update_metadata_request_for_brokers([2, -1], [A, C])
    assert [(b, list(r.partition_states)) for b, r in batch.drain()] == [
        (2, [UpdateMetadataPartitionState(A, EPOCH, -2, 0, (1, 2), 0, (1, 2))])
    ]


def test_brokers_that_are_not_live_get_no_request() -> None:
    context = cluster({"t-0": (9, 1)})
    batch = batch_of(context)
    add(batch, [-1, 9], "t-0")
    batch.add_stop_replica_request_for_brokers([9], A, True)
    requests = batch.drain()
    assert [(type(r), b) for b, r in requests] == [(UpdateMetadataRequest, b) for b in (1, 2, 3)]
    assert batch.is_empty


def test_brokers_that_become_live_during_a_batch_get_the_metadata_too() -> None:
    context = cluster({"t-0": (1, 2)}, brokers=(1, 2))
    batch = batch_of(context)
    add(batch, [1], "t-0")
    context.add_live_brokers(live(7))
    add(batch, [2], "t-0")
    assert batch.update_metadata_brokers == {1, 2, 7}


def test_metadata_without_partitions_carries_the_live_brokers() -> None:
    context = cluster({})
    batch = batch_of(context)
    batch.add_update_metadata_request_for_brokers([2], [])
    ((broker_id, request),) = batch.drain()
    assert isinstance(request, UpdateMetadataRequest)
    assert (broker_id, request.partition_states) == (2, ())
    assert [broker.id for broker in request.live_brokers] == [1, 2, 3]


@pytest.mark.parametrize("moved", [True, False])
def test_a_batch_given_up_is_empty_unless_the_quirk_leaves_it(moved: bool) -> None:
    context = cluster({"t-0": (1, 2)})
    batch = batch_of(context)
    add(batch, [1], "t-0")
    batch.abandon(moved)
    batch.new_batch()
    assert batch.drain() == []

    quirk = (
        Quirks(kafka_12315=True)
        if moved
        else Quirks(failed_state_change_leaves_the_batch_dirty=True)
    )
    batch = batch_of(cluster({"t-0": (1, 2)}, quirks=quirk))
    add(batch, [1], "t-0")
    batch.abandon(not moved)
    batch.new_batch()
    add(batch, [2, 1], "t-0")
    batch.abandon(moved)
    with pytest.raises(BatchNotEmpty, match="LeaderAndIsr state changes to brokers 1, 2 might be"):
        batch.new_batch()
    batch.clear()
    batch.new_batch()


@pytest.mark.parametrize("kind", ["stop", "metadata"])
def test_no_request_of_any_kind_may_be_left(kind: str) -> None:
    batch = batch_of(cluster({"t-0": (1, 2)}))
    if kind == "stop":
        batch.add_stop_replica_request_for_brokers([1], A, False)
    else:
        batch.add_update_metadata_request_for_brokers([1], [A])
    with pytest.raises(BatchNotEmpty):
        batch.new_batch()
