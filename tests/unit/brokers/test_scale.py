"""What a hundred thousand partitions would cost: bytes a partition, and no state object twice."""

from __future__ import annotations

import gc
import tracemalloc

from klamm.cluster.requests import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from klamm.cluster.types import TopicPartition
from tests.unit.brokers.network import Network, registered

PARTITIONS = 1_250
BYTES_A_PARTITION_MAX = 1_300
BROKERS = 5


def test_five_brokers_hold_a_partition_of_three_replicas_in_1300_bytes() -> None:
    network = Network()
    brokers = [network.add(broker_id) for broker_id in range(BROKERS)]
    live = tuple(broker.info for broker in brokers)
    assert live == tuple(registered(broker_id) for broker_id in range(BROKERS))
    tps = [TopicPartition(f"topic-{i // 100}", i % 100) for i in range(PARTITIONS)]
    replicas = [tuple((i + j) % BROKERS for j in range(3)) for i in range(PARTITIONS)]
    ids = {f"topic-{i}": f"id-{i}" for i in range(PARTITIONS // 100)}
    gc.collect()
    tracemalloc.start()
    try:
        cached = [
            UpdateMetadataPartitionState(tp, 1, r[0], 0, r, 0, r)
            for tp, r in zip(tps, replicas, strict=True)
        ]
        states = [
            LeaderAndIsrPartitionState(tp, 1, r[0], 0, r, 0, r, is_new=True)
            for tp, r in zip(tps, replicas, strict=True)
        ]
        for broker in brokers:
            mine = [s for s in states if broker.info.id in s.replicas]
            manager = broker.replica_manager
            manager.maybe_update_metadata_cache(UpdateMetadataRequest(0, 1, -1, cached, live, ids))
            manager.become_leader_or_follower(
                LeaderAndIsrRequest(0, 1, -1, mine, ids, live), 0.0, 0
            )
        del mine
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(len(b.replica_manager.partitions) for b in brokers) == 3 * PARTITIONS
    assert brokers[0].replica_manager.partitions[tps[0]].state is states[0]
    assert used / PARTITIONS <= BYTES_A_PARTITION_MAX
