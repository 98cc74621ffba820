"""Reads the replicas of a cluster from ZooKeeper or a dump, to check them against pools.

Topics that are being deleted are skipped. A partition that is being reassigned is read as if the
reassignment were complete.
"""

from __future__ import annotations

from typing import NamedTuple

from klamm.cluster.errors import StoreError
from klamm.cluster.types import NO_LEADER, TopicPartition
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.placement.pools import ClusterPlacement, PartitionPlace
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import Store
from klamm.zk.znodes import BrokerIdsZNode, TopicsZNode


class ReadCluster(NamedTuple):
    """Brokers and replicas of a cluster, and one warning for each malformed znode."""

    placement: ClusterPlacement
    warnings: tuple[str, ...]


def read_cluster(store: Store) -> ReadCluster:
    """Read the live brokers, and the replicas and leader of every partition.

    A malformed znode causes a warning; the topic, broker or leader that it describes is omitted.
    Raises StoreError, e.g. if the store contains no Kafka cluster.
    """
    client = KafkaZkClient(store)
    for path in (BrokerIdsZNode.path, TopicsZNode.path):
        if not client.path_exists(path):
            raise StoreError(
                f"znode {path} does not exist",
                hint="give the chroot of a Kafka cluster, or a dump of one",
            )
    brokers = client.get_all_brokers_and_epochs_in_cluster()
    deleted = set(client.get_topic_deletions())
    names = [name for name in client.get_all_topics_in_cluster() if name not in deleted]
    topics = client.get_topic_assignments(names)
    assigned = {
        partition: assignment
        for name in sorted(topics.values)
        for partition, assignment in sorted(topics.values[name].assignment.items())
    }
    states = client.get_partition_states(list(assigned))
    leaders: dict[TopicPartition, int] = {
        partition: state.leader_and_isr.leader
        for partition, state in states.values.items()
        if state.leader_and_isr.leader != NO_LEADER
    }
    placement = ClusterPlacement(
        tuple(
            BrokerMetadata(id_, brokers.values[id_].broker.rack) for id_ in sorted(brokers.values)
        ),
        {
            partition: PartitionPlace(
                assignment.target_replicas,
                leaders.get(partition),
                assignment.is_being_reassigned,
            )
            for partition, assignment in assigned.items()
        },
    )
    malformed = (*brokers.malformed, *topics.malformed, *states.malformed)
    return ReadCluster(placement, tuple(error.message for error in malformed))
