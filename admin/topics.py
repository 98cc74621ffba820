"""Topic operations of Kafka's admin tools: validate, create, add partitions, change configs.

Znodes are read and written through KafkaZkClient; no running controller is needed. Mirrors
kafka.zk.AdminZkClient.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence

from klamm.admin.config_validation import validate_topic_configs
from klamm.admin.failures import ReassignmentInProgress
from klamm.cluster.errors import (
    InvalidPartitions,
    InvalidTopic,
    TopicExists,
    UnknownTopicOrPartition,
)
from klamm.cluster.partition_limits import DEFAULT_LIMITS, PartitionLimits
from klamm.cluster.requests import NewPartitions
from klamm.cluster.topic_names import has_collision, has_collision_chars, validate_topic_name
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.placement.added_partitions import number_added_lists
from klamm.placement.assign import Assignment
from klamm.placement.broker_metadata import BrokerMetadata, broker_metadatas
from klamm.placement.draws import IntSource
from klamm.placement.manual import check_new_topic_assignment
from klamm.placement.pool_rules import (
    add_partitions_in_pool,
    assign_in_pool,
    check_in_pool,
)
from klamm.placement.pools import NO_POOLS, Pools, brokers_for_topic
from klamm.zk.kafka_zk_client import KafkaZkClient

_RESERVED_TOPIC_IDS = ("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ")


def new_topic_id(source: IntSource) -> str:
    """Return a random topic id: a version 4 UUID as 22 characters of base64.

    Kafka's reserved ids are never returned.
    """
    while True:
        raw = bytearray(source.next_int(256) for _ in range(16))
        raw[6] = (raw[6] & 0x0F) | 0x40
        raw[8] = (raw[8] & 0x3F) | 0x80
        topic_id = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        if topic_id not in _RESERVED_TOPIC_IDS and not topic_id.startswith("-"):
            return topic_id


def check_topic_absent(topic: str, existing_topics: Collection[str]) -> None:
    """Raise TopicExists if the topic exists.

    A controller checks this before it chooses brokers for the topic's replicas.
    """
    if topic in existing_topics:
        raise TopicExists(f"Topic '{topic}' already exists.")


def validate_topic_create(
    topic: str,
    assignment: Mapping[int, Sequence[int]],
    configs: Mapping[str, str],
    existing_topics: Collection[str],
    *,
    is_request: bool = False,
) -> None:
    """Validate a new topic, with Kafka's checks in Kafka's order.

    ``assignment`` is {partition: replicas}; ``is_request``: of a CreateTopics request. Raises
    InvalidTopic, TopicExists, InvalidReplicaAssignment, InvalidConfig.
    """
    validate_topic_name(topic)
    check_topic_absent(topic, existing_topics)
    if has_collision_chars(topic):
        colliding = sorted(other for other in existing_topics if has_collision(topic, other))
        if colliding:
            raise InvalidTopic(
                f"Topic '{topic}' collides with existing topics: {', '.join(colliding)}"
            )
    check_new_topic_assignment(assignment, is_request=is_request)
    validate_topic_configs(configs)


def change_topic_config(client: KafkaZkClient, topic: str, configs: Mapping[str, str]) -> None:
    """Replace a topic's config overrides and notify the brokers.

    Raises UnknownTopicOrPartition, InvalidTopic, InvalidConfig.
    """
    validate_topic_name(topic)
    if not client.topic_exists(topic):
        raise UnknownTopicOrPartition(f"Topic '{topic}' does not exist.")
    validate_topic_configs(configs)
    client.set_or_create_entity_configs("topics", topic, configs)
    client.create_config_change_notification(f"topics/{topic}")


def read_assignments(
    client: KafkaZkClient, topics: Sequence[str]
) -> dict[TopicPartition, ReplicaAssignment]:
    """Read the assignments of ``topics`` from the topic znodes.

    Missing topics are skipped. Raises MalformedZNode.
    """
    read = client.get_topic_assignments(topics)
    if read.malformed:
        raise read.malformed[0]
    return {tp: found for topic in read.values.values() for tp, found in topic.assignment.items()}


def registered_brokers(client: KafkaZkClient) -> list[BrokerMetadata]:
    """Return the registered brokers and their racks, by ascending id."""
    registered = client.get_all_brokers_and_epochs_in_cluster().values
    return [BrokerMetadata(id_, registered[id_].broker.rack) for id_ in sorted(registered)]


class TopicAdmin:
    """Topic operations of kafka.zk.AdminZkClient, on the znodes of one chroot.

    ``source`` provides random numbers for replica placement. With ``pools``, all replicas,
    including manually assigned ones, must be inside the topic's pool. ``limits`` restricts the
    number of partitions that one call may add.
    """

    def __init__(
        self,
        client: KafkaZkClient,
        source: IntSource,
        pools: Pools = NO_POOLS,
        limits: PartitionLimits = DEFAULT_LIMITS,
    ) -> None:
        self._client = client
        self._limits = limits
        self._source = source
        self._pools = pools

    def create_topic(
        self,
        topic: str,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
        *,
        ignores_racks: bool,
    ) -> Assignment:
        """Create a topic on the live brokers, and return its assignment, {partition: replicas}.

        Raises PolicyViolation, InvalidPartitions, InvalidReplicationFactor and the errors of
        ``create_topic_with_assignment``.
        """
        self._limits.check_request(partitions)
        allowed = brokers_for_topic(self._pools, topic, registered_brokers(self._client))
        brokers = broker_metadatas(allowed, ignores_racks=ignores_racks)
        assignment = assign_in_pool(
            self._pools, topic, brokers, partitions, replication_factor, self._source
        )
        self.create_topic_with_assignment(topic, configs, assignment)
        return assignment

    def create_topic_with_assignment(
        self,
        topic: str,
        configs: Mapping[str, str],
        assignment: Mapping[int, Sequence[int]],
    ) -> None:
        """Validate a new topic; write its config znode, then its topic znode.

        Raises the errors of ``validate_topic_create``. TopicExists is also raised if another client
        creates the topic at the same time, and InvalidReplicaAssignment if a replica is outside the
        topic's pool.
        """
        existing = self._client.get_all_topics_in_cluster()
        validate_topic_create(topic, assignment, configs, existing)
        check_in_pool(self._pools, topic, assignment)
        self._client.set_or_create_entity_configs("topics", topic, configs)
        replicas = {
            TopicPartition(topic, partition): ReplicaAssignment(tuple(ids))
            for partition, ids in assignment.items()
        }
        if not self._client.create_topic_assignment(topic, None, replicas):
            raise TopicExists(f"Topic '{topic}' already exists.")

    def add_partitions(
        self,
        topic: str,
        existing: Mapping[int, ReplicaAssignment],
        num_partitions: int,
        manual: Mapping[int, Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Increase the number of a topic's partitions to ``num_partitions``.

        ``manual`` gives the replicas of the new partitions; if it is None, klamm chooses them.
        With ``validate_only``, nothing is written.
        Raises PolicyViolation and the errors of placement.pool_rules.add_partitions_in_pool.
        """
        self._limits.check_request(num_partitions - len(existing))
        registered = registered_brokers(self._client)
        if manual is None:
            registered = list(brokers_for_topic(self._pools, topic, registered))
        added = add_partitions_in_pool(
            self._pools, topic, existing, broker_metadatas(registered), num_partitions, manual
        )
        if validate_only:
            return
        combined = {
            TopicPartition(topic, partition): assignment
            for partition, assignment in ({**existing, **added}).items()
        }
        topic_id = self._client.get_topic_ids_for_topics([topic]).get(topic)
        self._client.set_topic_assignment(topic, topic_id, combined)

    def create_partitions(
        self, topic: str, wanted: NewPartitions, *, validate_only: bool = False
    ) -> list[TopicPartition]:
        """Validate and add new partitions of a topic, and return them.

        With ``validate_only``, nothing is written. Mirrors createPartitions of
        kafka.server.ZkAdminManager. Raises AdminError.
        """
        if topic in self._client.get_topic_deletions():
            raise InvalidTopic("The topic is queued for deletion.")
        existing = self.existing_assignment(topic)
        if not existing:
            raise UnknownTopicOrPartition(f"The topic '{topic}' does not exist.")
        if any(assignment.is_being_reassigned for assignment in existing.values()):
            raise ReassignmentInProgress(
                f"A partition reassignment is in progress for the topic '{topic}'."
            )
        count, total = len(existing), wanted.total_count
        if total < count:
            raise InvalidPartitions(
                f"Topic currently has {count} partitions, which is higher than the requested "
                f"{total}."
            )
        if total == count:
            raise InvalidPartitions(f"Topic already has {count} partitions.")
        manual = None
        if wanted.new_assignments is not None:
            live = broker_metadatas(registered_brokers(self._client))
            brokers = [broker.id for broker in live]
            manual = number_added_lists(wanted.new_assignments, count, total, brokers)
        self.add_partitions(topic, existing, total, manual, validate_only=validate_only)
        return [TopicPartition(topic, number) for number in range(count, total)]

    def existing_assignment(self, topic: str) -> dict[int, ReplicaAssignment]:
        """Return the replica assignment of each partition of a topic.

        The result is empty if the topic does not exist. Raises MalformedZNode.
        """
        found = read_assignments(self._client, [topic])
        return {tp.partition: assignment for tp, assignment in found.items()}
