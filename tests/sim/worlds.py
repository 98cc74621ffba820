"""Simulated clusters for tests, and what tests ask of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from klamm.admin.topics import TopicAdmin
from klamm.brokers.logs.log_store import MemoryLogStore
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.controller.kafka_controller import KafkaController
from klamm.placement.draws import JavaRandom
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient


def three_brokers(**spec: Any) -> SimulatedWorld:
    """Brokers 0, 1 and 2, started one after the other; 0 is the controller."""
    world = SimulatedWorld(ClusterSpec(broker_ids=(0, 1, 2), **spec))
    for broker_id in world.spec.broker_ids:
        world.start(broker_id)
        world.run_for(1_000)
    assert not world.errors
    return world


def create_topic(
    world: SimulatedWorld, topic: str, assignment: Mapping[int, tuple[int, ...]]
) -> None:
    """Write a topic's znodes as kafka-topics does."""
    store = world.open_store()
    admin = TopicAdmin(KafkaZkClient(store), JavaRandom(0))
    admin.create_topic_with_assignment(topic, {}, assignment)
    store.close()


def state_of(world: SimulatedWorld, topic: str, partition: int) -> LeaderAndIsr:
    """What a partition's state znode holds."""
    store = world.open_store()
    tp = TopicPartition(topic, partition)
    found = KafkaZkClient(store).get_partition_states([tp]).values[tp]
    store.close()
    return found.leader_and_isr


def controllers(world: SimulatedWorld) -> dict[int, KafkaController]:
    """The running candidates by broker id."""
    nodes = world.nodes.items()
    return {id_: c for id_, running in nodes if (c := running.node.controller) is not None}


def active_controller(world: SimulatedWorld) -> KafkaController:
    """The one active controller; fails if there is none or more than one."""
    active = [c for c in controllers(world).values() if c.is_active]
    assert len(active) == 1, [c.config.broker_id for c in active]
    return active[0]


def replicas_of(
    world: SimulatedWorld, broker_id: int
) -> Iterator[tuple[TopicPartition, ReplicaLog, int]]:
    """The partitions of a broker with their logs and high watermarks; if it is dead, in memory."""
    running = world.nodes.get(broker_id)
    if running is not None:
        for tp, partition in running.node.broker.replica_manager.partitions.items():
            if partition.log is not None:
                running.node.broker.rates.materialize(tp)
                yield tp, partition.log, partition.high_watermark
        return
    store = world.log_stores[broker_id]
    if isinstance(store, MemoryLogStore):
        for path, logs in store.dirs.items():
            for tp, log in logs.current.items():
                mark = store.high_watermarks.get(path, {}).get(tp, 0)
                yield tp, log, min(mark, log.log_end_offset)
