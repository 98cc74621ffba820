"""Kafka's admin operations on the znodes of one chroot, as Kafka's tools with --zookeeper do them.

KafkaAdmin sends requests to a cluster; ZooKeeperAdmin reads and writes znodes itself, with or
without a controller. Its operations have the names of KafkaAdmin's. Znodes are read in pipelined
batches, whereas Kafka's tools read them one by one. Mirrors what kafka.admin.TopicCommand and
ReassignPartitionsCommand do with a KafkaZkClient.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from klamm.admin.config_validation import changed_configs
from klamm.admin.configs.config_resource import ConfigResource
from klamm.admin.configs.zookeeper import change_configs, read_overrides
from klamm.admin.topic_description import PartitionDescription, TopicDescription
from klamm.admin.topics import TopicAdmin, registered_brokers
from klamm.cluster.errors import (
    AdminOperationError,
    KlammError,
    StoreError,
    UnknownTopicOrPartition,
)
from klamm.cluster.jvm.java_maps import hash_map_order
from klamm.cluster.jvm.scala_sets import immutable_order, topic_partition_hash
from klamm.cluster.topic_names import is_internal
from klamm.cluster.types import (
    NO_LEADER,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicIdReplicaAssignment,
    TopicPartition,
)
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.placement.draws import IntSource
from klamm.placement.pools import NO_POOLS, Pools
from klamm.zk.kafka_zk_client import KafkaZkClient

_TOPICS_PER_BATCH: Final = 500


class _StoredTopic(TopicDescription, frozen=True, kw_only=True):
    """A topic as ZooKeeper stores it; ``printed_factor`` is printed as its replication factor."""

    printed_factor: int

    @property
    def replication_factor(self) -> int:
        return self.printed_factor


class ZooKeeperAdmin:
    """Admin operations on the znodes of one chroot.

    ``source`` provides random numbers for replica placement. With ``pools``, all replicas must be
    inside the topic's pool.
    """

    def __init__(self, client: KafkaZkClient, source: IntSource, pools: Pools = NO_POOLS) -> None:
        self.client = client
        self.topics = TopicAdmin(client, source, pools)

    def list_topics(self) -> Sequence[str]:
        """Return the names of all topics, including those that are marked for deletion."""
        return self.client.get_all_topics_in_cluster()

    def live_brokers(self) -> list[BrokerMetadata]:
        """Return the registered brokers and their racks, by ascending id."""
        return registered_brokers(self.client)

    def live_broker_ids(self) -> Sequence[int]:
        """Return the ids of the registered brokers, in ascending order."""
        return self.client.get_sorted_broker_list()

    def describe_topics(self, topics: Sequence[str]) -> Iterator[TopicDescription | KlammError]:
        """Yield a description of each topic, or the error if there is no such topic.

        Errors of malformed znodes are yielded before the topics that are read together with them.
        """
        for start in range(0, len(topics), _TOPICS_PER_BATCH):
            batch = topics[start : start + _TOPICS_PER_BATCH]
            assignments = self.client.get_topic_assignments(batch)
            configs = self.client.get_topic_configs(batch)
            marked = set(self.client.get_topic_deletions())
            states = self.client.get_partition_states(
                [tp for topic in assignments.values.values() for tp in topic.assignment]
            )
            yield from (*assignments.malformed, *configs.malformed, *states.malformed)
            for name in batch:
                topic = assignments.values.get(name)
                if topic is not None:
                    overrides = configs.values.get(name, {})
                    yield _stored_topic(name, topic, overrides, states.values, name in marked)
                elif name in assignments.missing:
                    yield UnknownTopicOrPartition(f"Topic {name} doesn't exist!")

    def delete_topic(self, topic: str) -> bool:
        """Mark a topic for deletion by the controller; return False if it is marked already.

        Raises AdminOperationError for an internal topic, and if the znode cannot be written.
        """
        if is_internal(topic):
            raise AdminOperationError(
                f"Topic {topic} is a kafka internal topic and is not allowed to be marked for "
                "deletion."
            )
        try:
            return self.client.create_delete_topic_path(topic)
        except StoreError as error:
            raise AdminOperationError(
                f"Error while deleting topic {topic}", hint=error.message
            ) from error

    # -- reassignments and configs

    def list_partition_reassignments(self) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Return the targets in /admin/reassign_partitions, as assignments of their partitions."""
        targets = self.client.get_partition_reassignment()
        return {tp: ReplicaAssignment(ids or ()) for tp, ids in targets.items()}

    def overrides(
        self, resources: Collection[ConfigResource] | None = None
    ) -> dict[ConfigResource, dict[str, str]]:
        """Return the config overrides of ``resources``; None means all that have any."""
        return read_overrides(self.client, resources)

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Mapping[str, str | None]]
    ) -> None:
        """Change configs of topics and brokers, one by one; the value None removes a config.

        If a change only removes configs that are not set, nothing is written. Raises
        UnknownTopicOrPartition, InvalidConfig, MalformedZNode.
        """
        for resource, wanted in changes.items():
            before = self.client.get_entity_configs(*resource)
            configs = changed_configs(before, wanted)
            if configs != before or any(value is not None for value in wanted.values()):
                change_configs(self.client, resource, configs)


def _stored_topic(
    name: str,
    topic: TopicIdReplicaAssignment,
    overrides: Mapping[str, str],
    states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
    marked: bool,
) -> TopicDescription:
    partitions = []
    for tp in sorted(topic.assignment, key=lambda tp: tp.partition):
        state = states[tp].leader_and_isr if tp in states else LeaderAndIsr(NO_LEADER, 0, ())
        leader = None if state.leader == NO_LEADER else state.leader
        replicas = topic.assignment[tp].replicas
        partitions.append(
            PartitionDescription(
                name, tp.partition, leader, replicas, state.isr, marked_for_deletion=marked
            )
        )
    # Kafka prints the number of replicas of the partition that comes first in Scala's map.
    in_order = immutable_order(topic.assignment, topic_partition_hash)
    return _StoredTopic(
        topic=name,
        topic_id=topic.topic_id,
        configs={key: overrides[key] for key in hash_map_order(list(overrides))},
        partitions=tuple(partitions),
        marked_for_deletion=marked,
        printed_factor=len(topic.assignment[in_order[0]].replicas) if in_order else 0,
    )
