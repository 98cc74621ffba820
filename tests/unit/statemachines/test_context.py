"""The controller's context: who is online, what is where, what is counted, what is forgotten."""

from __future__ import annotations

import copy

import pytest

from klamm.cluster.types import Broker, EndPoint, ReplicaAssignment
from klamm.statemachines.context import ControllerContext, has_preferred_leader
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.replica_state import ReplicaState
from tests.unit.statemachines.build import cluster, leadership, live, snapshot, tp

A, B = tp("a-0"), tp("b-0")


def test_a_replica_is_online_while_its_broker_lives_stays_and_its_directory_works() -> None:
    context = cluster({"a-0": (1, 2, 3)})
    assert context.is_replica_online(3, A)
    context.add_shutting_down_broker(3)
    assert not context.is_replica_online(3, A)
    assert context.is_replica_online(3, A, include_shutting_down_brokers=True)
    context.replicas_on_offline_dirs[2] = {A}
    assert not context.is_replica_online(2, A)
    assert context.is_replica_online(2, B)
    assert not context.is_replica_online(2, A, include_shutting_down_brokers=True)
    assert context.online_replicas(A, (3, 2, 1)) == (1,)
    assert context.online_replicas(A, (3, 2, 1), include_shutting_down_brokers=True) == (3, 1)
    assert context.offline_replicas(A, (3, 2, 1)) == (3, 2)
    context.remove_live_brokers([1, 99])
    assert not context.is_replica_online(1, A)


def test_live_brokers_are_kept_with_epochs_and_in_order() -> None:
    context = ControllerContext()
    context.set_live_brokers(live(5, 1, 3))
    context.add_live_brokers({Broker(2): 42})
    context.add_shutting_down_broker(5)
    assert [broker.id for broker in context.live_or_shutting_down_brokers] == [1, 2, 3, 5]
    assert context.live_broker_ids == {1, 2, 3}
    assert context.live_or_shutting_down_broker_ids == {1, 2, 3, 5}
    assert context.live_broker_epochs == {1: 101, 2: 42, 3: 103, 5: 105}
    moved = Broker(2, (EndPoint("elsewhere", 9092),))
    context.update_broker_metadata(moved)
    assert context.live_or_shutting_down_brokers[1] is moved
    assert context.live_broker_epochs[2] == 42
    context.remove_shutting_down_brokers([5])
    assert 5 in context.live_broker_ids
    context.set_live_brokers(live(4))
    assert context.live_or_shutting_down_broker_ids == {4}


def test_the_index_of_replicas_follows_the_assignments() -> None:
    context = cluster({"a-0": (1, 2), "a-1": (2, 3), "b-0": (3, 1)})
    assert context.replicas_on_broker(2) == [A, tp("a-1")]
    context.update_partition_full_replica_assignment(A, ReplicaAssignment((4, 1)))
    assert context.replicas_on_broker(2) == [tp("a-1")]
    assert context.replicas_on_brokers([4, 2, 9]) == {2: [tp("a-1")], 4: [A]}
    assert context.replicas_for_topic("a") == {1: [A], 2: [tp("a-1")], 3: [tp("a-1")], 4: [A]}
    assert context.counts().replicas_per_broker == {1: 2, 2: 1, 3: 2, 4: 1}
    assert context.partitions_for_topic("a") == [A, tp("a-1")]
    assert set(context.replica_states[1]) == {A, B}
    assert context.partition_full_replica_assignment_for_topic("b") == {
        B: ReplicaAssignment((3, 1))
    }


def test_one_partition_object_is_the_key_everywhere() -> None:
    context = cluster({"a-0": (1, 2)})
    keys = [
        next(iter(keyed))
        for keyed in (
            context.assignments,
            context.leaderships,
            context.partition_states,
            context.replica_states[1],
            context.replica_states[2],
            context.partitions_for_topic("a"),
        )
    ]
    assert all(key is keys[0] for key in keys)


def test_an_empty_context_knows_nothing() -> None:
    context = ControllerContext()
    assert context.partition_state(A) is PartitionState.NON_EXISTENT
    assert context.replica_state(1, A) is ReplicaState.NON_EXISTENT
    assert context.partition_replica_assignment(A) == ()
    assert context.partition_leadership_info(A) is None
    assert context.replicas_on_broker(1) == []


def test_partitions_are_found_by_their_leader() -> None:
    context = cluster({"a-0": (1, 2), "b-0": (2, 1), "c-0": (1,), "d-0": (1, 3)})
    context.queue_topic_deletion(["d"])
    assert context.partition_leaders_on_broker(1) == [A]
    assert context.partitions_with_leaders() == [A, B, tp("c-0")]
    assert context.partitions_with_offline_leader() == []
    context.replicas_on_offline_dirs[2] = {B}
    context.remove_live_brokers([1])
    assert context.partitions_with_offline_leader() == [A, B, tp("c-0")]


def test_replicas_of_a_topic_are_found_by_state() -> None:
    context = cluster({"a-0": (1, 2), "a-1": (2, 1)})
    context.put_replica_states(2, [A], ReplicaState.OFFLINE)
    assert context.replicas_in_state("a", ReplicaState.OFFLINE) == {2: [A]}
    assert context.replicas_in_state("a", ReplicaState.NEW) == {}


@pytest.mark.parametrize(
    ("assignment", "leader", "isr", "preferred"),
    [
        (ReplicaAssignment((1, 2)), 1, (1, 2), True),
        (ReplicaAssignment((1, 2)), 2, (1, 2), False),
        (ReplicaAssignment((3, 1), (3,), ()), 1, (1,), True),
        (ReplicaAssignment((3, 1), (3,), ()), 1, (1, 3), False),
        (ReplicaAssignment(()), 1, (1,), True),
    ],
)
def test_an_added_first_replica_is_not_missed_before_it_is_in_sync(
    assignment: ReplicaAssignment, leader: int, isr: tuple[int, ...], preferred: bool
) -> None:
    assert has_preferred_leader(assignment, leadership(leader, 0, isr)) is preferred


def test_counts_leave_out_topics_that_are_being_deleted() -> None:
    context = cluster({"a-0": (1, 2), "b-0": (2, 1)})
    for partition in (A, B):
        context.put_partition_leadership_info(partition, leadership(3, 1, (3,)))
        context.put_partition_state(partition, PartitionState.OFFLINE)
    assert (context.offline_partition_count, context.preferred_replica_imbalance_count) == (2, 2)
    context.queue_topic_deletion(["a"])
    context.queue_topic_deletion(["a", "unknown"])
    assert (context.offline_partition_count, context.preferred_replica_imbalance_count) == (2, 1)
    context.begin_topic_deletion(["a"])
    context.begin_topic_deletion(["a"])
    assert (context.offline_partition_count, context.preferred_replica_imbalance_count) == (1, 1)
    context.remove_topic("a")
    context.remove_topic("b")
    assert (context.offline_partition_count, context.preferred_replica_imbalance_count) == (0, 0)
    assert context.counts() == context.recount()


def test_a_removed_topic_leaves_nothing_behind() -> None:
    context = cluster({"b-0": (2, 1)})
    context.add_topic_id("b", "id-of-b")
    before = snapshot(context)
    context.all_topics.add("a")
    context.add_topic_id("a", "id-of-a")
    context.update_partition_full_replica_assignment(A, ReplicaAssignment((2, 1)))
    context.put_partition_state(A, PartitionState.OFFLINE)
    context.put_partition_leadership_info(A, leadership(-1, 1, (1,)))
    context.put_replica_states(1, [A], ReplicaState.ONLINE)
    context.partitions_being_reassigned.add(A)
    context.queue_topic_deletion(["a"])
    context.begin_topic_deletion(["a"])
    context.topics_ineligible_for_deletion.add("a")
    assert context.topic_names == {"id-of-b": "b", "id-of-a": "a"}
    context.remove_topic("a")
    assert snapshot(context) == before
    context.remove_topic("never seen")
    assert snapshot(context) == before


def test_a_topic_has_one_id_and_an_id_one_topic() -> None:
    context = cluster({"a-0": (1,), "b-0": (1,)})
    context.add_topic_id("a", "one")
    context.add_topic_id("a", "one")
    for topic, topic_id in (("a", "two"), ("b", "one"), ("unknown", "three")):
        with pytest.raises(AssertionError):
            context.add_topic_id(topic, topic_id)


def test_deletion_goes_from_queued_to_started_unless_it_is_held_up() -> None:
    context = cluster({"a-0": (1,)})
    assert not context.is_topic_eligible_for_deletion("a")
    context.queue_topic_deletion(["a"])
    assert "a" in context.topics_to_be_deleted
    assert context.is_topic_eligible_for_deletion("a")
    context.topics_ineligible_for_deletion.add("a")
    assert not context.is_topic_eligible_for_deletion("a")
    assert "a" not in context.topics_with_deletion_started
    context.begin_topic_deletion(["a"])
    assert "a" in context.topics_with_deletion_started


def test_reset_forgets_all_but_the_own_broker_id() -> None:
    context = cluster({"a-0": (1,)})
    context.add_shutting_down_broker(1)
    context.replicas_on_offline_dirs[1] = {A}
    quirks = context.quirks
    context.reset_context()
    assert snapshot(context) == snapshot(ControllerContext(quirks, controller_id=1))


def test_a_copy_shares_nothing_that_changes() -> None:
    context = cluster({"a-0": (1, 2)})
    before = snapshot(context)
    copied = copy.deepcopy(context)
    assert snapshot(copied) == before
    copied.remove_topic("a")
    copied.remove_live_brokers([1])
    assert snapshot(context) == before
