"""What a partition costs: the context's budget, and that startup makes one state per partition."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from klamm.cluster.types import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.partition_transitions import initialize_partition_states
from klamm.statemachines.replica_state import ReplicaState
from klamm.statemachines.replica_transitions import (
    apply_replica_state_changes,
    initialize_replica_states,
    plan_replica_state_changes,
)
from klamm.statemachines.request_batch import ControllerBrokerRequestBatch
from tests.unit.statemachines.build import live

PARTITIONS = 1_250
BUDGET_BYTES = 1536
FIRST_BROKER = 1000


def loaded(partitions_per_topic: int) -> ControllerContext:
    """A context as a failover loads it: no value is shared that parsed JSON would not share."""
    context = ControllerContext()
    context.set_live_brokers(live(*range(FIRST_BROKER, FIRST_BROKER + 5)))
    for number in range(PARTITIONS):
        topic_number, partition = divmod(number, partitions_per_topic)
        if partition == 0:
            topic = f"topic-{topic_number:05d}"
            context.all_topics.add(topic)
            context.add_topic_id(topic, f"{topic_number:022d}")
        tp = TopicPartition(topic, partition)
        replicas = tuple(int(str(FIRST_BROKER + (number + i) % 5)) for i in range(3))
        isr = tuple(int(str(replica)) for replica in replicas)
        state = LeaderAndIsr(isr[0], 3, isr, 7)
        context.update_partition_full_replica_assignment(tp, ReplicaAssignment(replicas))
        context.put_partition_leadership_info(tp, LeaderIsrAndControllerEpoch(state, 2))
    initialize_partition_states(context)
    initialize_replica_states(context)
    return context


@pytest.mark.parametrize("partitions_per_topic", [1, 100])
def test_a_partition_of_three_replicas_stays_within_its_budget(partitions_per_topic: int) -> None:
    gc.collect()
    tracemalloc.start()
    try:
        context = loaded(partitions_per_topic)
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(context.assignments) == PARTITIONS
    assert size / PARTITIONS <= BUDGET_BYTES


def test_startup_notifies_every_replica_with_one_state_for_each_partition() -> None:
    context = loaded(100)
    batch = ControllerBrokerRequestBatch(context, FIRST_BROKER)
    online, _ = context.online_and_offline_replicas()
    for broker_id, tps in online.items():
        plan = plan_replica_state_changes(context, broker_id, tps, ReplicaState.ONLINE)
        outcome = apply_replica_state_changes(context, plan, batch)
        assert len(outcome.changes) == 1, "however many replicas, one group"
    states = [state for told in batch.leader_and_isr.values() for state in told.values()]
    assert len(states) == 3 * PARTITIONS
    assert len({id(state) for state in states}) == PARTITIONS
