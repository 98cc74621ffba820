"""Copies on the real clock: a reassignment lasts as long as its bytes take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from klamm.admin.topics import TopicAdmin
from klamm.cluster.requests import Address, AlterPartitionReassignmentsRequest, Message
from klamm.cluster.types import TopicPartition
from klamm.placement.draws import JavaRandom
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.preloading import preload_replicas
from klamm.world.real.cluster import RealCluster
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.integration.real_clusters import real_cluster
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

T0 = TopicPartition("t", 0)
NETWORK_IN = "klamm.network.in.bytes.per.second"
LATE_S = 1.0
"""How much later than the copying a busy machine may be done."""


@contextmanager
def copying(chroot: str, bytes_per_s: int) -> Iterator[tuple[RealCluster, float]]:
    """A cluster in which broker 2 copies ten megabytes of t-0 from broker 0, and since when."""
    config = {NETWORK_IN: str(bytes_per_s), "auto.leader.rebalance.enable": "false"}
    spec = ClusterSpec(broker_ids=(0, 1, 2), session_timeout_ms=30_000, config=config)
    with real_cluster(spec, chroot) as cluster:
        client = KafkaZkClient(cluster.store)
        TopicAdmin(client, JavaRandom(0)).create_topic_with_assignment("t", {}, {0: (0, 1)})
        brokers = [running.node.broker for running in cluster.nodes.values()]
        wait_until(lambda: T0 in brokers[0].replica_manager.partitions and cluster.is_idle)
        with cluster.broker_thread_paused():
            preload_replicas(brokers, T0, 10_000_000, cluster.clock)
        began_s = time.monotonic()
        request = AlterPartitionReassignmentsRequest({T0: (0, 1, 2)})
        client_address = Address("client", 0)
        cluster.transport.register(client_address, lambda _: None)
        controller = Address("controller", 0)
        cluster.transport.send(Message(client_address, controller, 1, request))
        wait_until(lambda: T0 in brokers[2].replica_manager.partitions)
        yield cluster, began_s
        assert cluster.errors == []


def next_copy_ms(cluster: RealCluster) -> float | None:
    """When the next copy is complete; None if there is none."""
    with cluster.broker_thread_paused():
        return cluster.copying.next_due_ms()


def test_a_copy_ends_with_its_broker(chroot: str) -> None:
    with copying(chroot, 100_000) as (cluster, _):
        wait_until(lambda: next_copy_ms(cluster) is not None)
        cluster.kill(2)
        assert next_copy_ms(cluster) is None


def test_a_copy_of_a_second_takes_a_second_and_stands_still_with_its_broker(chroot: str) -> None:
    with copying(chroot, 10_000_000) as (cluster, began_s):
        client = KafkaZkClient(cluster.store)

        def is_in_isr(broker_id: int) -> bool:
            state = client.get_partition_states([T0]).values[T0]
            return broker_id in state.leader_and_isr.isr

        cluster.pause(2)
        paused_s = time.monotonic()
        wait_until(lambda: time.monotonic() > paused_s + 0.5)
        assert not is_in_isr(2)
        cluster.resume(2)
        stood_still_s = time.monotonic() - paused_s
        wait_until(lambda: is_in_isr(2))
        assert 1.0 <= time.monotonic() - began_s - stood_still_s <= 1.0 + LATE_S
