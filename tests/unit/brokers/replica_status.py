"""What a broker knows of one of its replicas, as plain values, for tests."""

from __future__ import annotations

from typing import Any

from klamm.brokers.broker import KafkaServer
from klamm.cluster.types import TopicPartition


def replica_status(broker: KafkaServer, partition: TopicPartition) -> dict[str, Any] | None:
    """One replica as its broker knows it, None if it is not hosted there."""
    if partition in broker.replica_manager.offline_partitions:
        return {"topic": partition.topic, "partition": partition.partition, "role": "offline"}
    replica = broker.replica_manager.partitions.get(partition)
    if replica is None:
        return None
    dirs = broker.replica_manager.log_dirs
    current = replica.leader_and_isr
    leads = replica.is_leader(broker.info.id)
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "role": "leader" if leads else "follower",
        "leader": None if current is None else current.leader,
        "leader_epoch": replica.leader_epoch,
        "isr": [] if current is None else list(current.isr),
        "zk_version": None if current is None else current.zk_version,
        "pending_isr": None if replica.pending is None else list(replica.pending.isr),
        "log_dir": dirs.path_of(partition),
        "future_log_dir": dirs.future_path_of(partition),
        "topic_id": None if replica.log is None else replica.log.topic_id,
    }
