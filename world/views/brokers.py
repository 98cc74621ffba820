"""What tests and checks see of the brokers of a cluster now, as plain values.

Brokers of Kafka show nothing of this. Read it only while no broker is handling an event, unless
noted otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from klamm.brokers.broker import KafkaServer
from klamm.cluster.requests import LeaderAndIsrPartitionState
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.world.cluster import Cluster, brokers_of, nodes_of
from klamm.world.node_host import NodeHost
from klamm.world.views.replica_view import ReplicaView


class BrokerView(msgspec.Struct, frozen=True):
    """What a broker believes and hosts.

    - ``alive_brokers``: the brokers that it considers alive.
    - ``cached``: the partition states in its metadata cache.
    - ``applied``: its replicas, and the last LeaderAndIsr that each has applied; None before the
      first.
    - ``offline_partitions``: its replicas in failed log directories.
    - ``abandoned_moves``: the replicas that it has given up moving to another log directory.
    """

    broker_epoch: int
    alive_brokers: Collection[int]
    cached: Mapping[TopicPartition, LeaderAndIsr]
    applied: Mapping[TopicPartition, LeaderAndIsr | None]
    offline_partitions: Collection[TopicPartition]
    abandoned_moves: Collection[TopicPartition]


def broker_views(cluster: NodeHost[Any]) -> dict[int, BrokerView]:
    """Return the running brokers, sorted by id."""
    return {id_: _view(running.node.broker) for id_, running in sorted(cluster.nodes.items())}


def _view(broker: KafkaServer) -> BrokerView:
    manager, cache = broker.replica_manager, broker.metadata_cache
    return BrokerView(
        broker.broker_epoch,
        tuple(cache.alive_brokers),
        {
            one.topic_partition: LeaderAndIsr(one.leader, one.leader_epoch, one.isr, one.zk_version)
            for one in cache.states()
        },
        {tp: partition.leader_and_isr for tp, partition in manager.partitions.items()},
        frozenset(manager.offline_partitions),
        tuple(manager.replica_alter_log_dirs_manager.failed),
    )


def alive_brokers(cluster: Cluster) -> list[Collection[int]]:
    """Return which brokers each running broker considers alive. Safe while brokers are running."""
    return [tuple(broker.metadata_cache.alive_brokers) for broker in brokers_of(cluster)]


def cached_topics(cluster: Cluster) -> set[str]:
    """Return the topics that any running broker knows."""
    return {topic for broker in brokers_of(cluster) for topic in broker.metadata_cache.topics()}


def hosted_partitions(cluster: Cluster, broker_id: int) -> list[str] | None:
    """Return the partitions that a broker hosts, sorted, or None if it is not running."""
    for broker in brokers_of(cluster):
        if broker.info.id == broker_id:
            return sorted(map(str, broker.replica_manager.partitions))
    return None


def offline_log_dirs(cluster: Cluster) -> list[tuple[int, str]]:
    """Return the failed log directories, with their brokers. Safe while brokers are running."""
    return [
        (broker.info.id, path)
        for broker in brokers_of(cluster)
        for path in tuple(broker.replica_manager.log_dirs.offline)
    ]


def is_shutting_down(cluster: Cluster) -> bool:
    """Return True if a running broker is shutting down. Safe while brokers are running."""
    return any(broker.replica_manager.is_shutting_down for broker in brokers_of(cluster))


def has_control_requests(cluster: Cluster) -> bool:
    """Return True if the active controller waits for a broker's response.

    Safe while brokers are running."""
    return any(
        controller is not None and controller.is_active and not controller.channels.is_idle()
        for controller in (node.controller for node in nodes_of(cluster))
    )


def leader_states(cluster: Cluster) -> dict[TopicPartition, LeaderAndIsrPartitionState]:
    """Return the state at the leader of each partition that a broker leads, unless it is paused.

    Like leading_replica for all partitions at once: scenarios read it after every event.
    """
    leaders: dict[TopicPartition, LeaderAndIsrPartitionState] = {}
    paused = cluster.paused_broker_ids
    for broker in brokers_of(cluster):
        broker_id = broker.info.id
        if broker_id in paused:
            continue
        for tp, partition in broker.replica_manager.partitions.items():
            state = partition.state
            if state is None or state.leader != broker_id:
                continue
            other = leaders.get(tp)
            if other is None or state.leader_epoch > other.leader_epoch:
                leaders[tp] = state
    return leaders


def leading_replica(cluster: Cluster, tp: TopicPartition) -> ReplicaView | None:
    """Return the replica on the running broker that leads a partition; None without a leader.

    If several brokers consider themselves the leader, it is the one with the highest leader epoch;
    the others have not heard of their successor yet.
    """
    leaders = (
        (broker.info.id, partition)
        for broker in brokers_of(cluster)
        if (partition := broker.replica_manager.partitions.get(tp)) is not None
        and partition.is_leader(broker.info.id)
    )
    led = max(leaders, key=lambda led: led[1].leader_epoch, default=None)
    if led is None or (log := led[1].log) is None:
        return None
    broker_id, partition = led
    epoch, start, end = partition.leader_epoch, log.log_start_offset, log.log_end_offset
    intervals, high_watermark = log.intervals(), partition.high_watermark
    return ReplicaView(tp, broker_id, intervals, high_watermark, epoch, epoch, start, end)


def log_end_offset(cluster: Cluster, tp: TopicPartition) -> int:
    """Return the highest log end offset of a partition's replicas; 0 without a replica."""
    found = (broker.replica_manager.partitions.get(tp) for broker in brokers_of(cluster))
    ends = (one.log.log_end_offset for one in found if one is not None and one.log is not None)
    return max(ends, default=0)
