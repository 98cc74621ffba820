"""What kafka-reassign-partitions asks of a running cluster: a protocol and its values.

Nothing here knows how a cluster is reached. Mirrors the calls of Kafka's Admin client that
ReassignPartitionsCommand makes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from admin.configs.config_resource import ConfigResource
from admin.failures import Failure
from admin.reassignments.reassignment_json import TopicPartitionReplica
from admin.topics.text import TopicDescription
from cluster.types import ReplicaAssignment, TopicPartition
from placement.broker_metadata import BrokerMetadata


class ReplicaLogDirs(NamedTuple):
    """Where a replica lies and, while it moves, whereto. ``current`` None: in no live directory."""

    current: str | None
    future: str | None = None


class ReassignAdmin(Protocol):
    """A running cluster. Each call raises KlammError if none answers."""

    def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """What is being reassigned: of ``partitions``, or all of it."""
        ...

    def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None], timeout_ms: int
    ) -> Mapping[TopicPartition, Failure]:
        """Start reassignments; a target of None cancels. Gives the partitions refused."""
        ...

    def describe_topics(self, topics: Sequence[str]) -> Sequence[TopicDescription]:
        """The topics, in any order. Raises UnknownTopicOrPartition if one is not there."""
        ...

    def live_brokers(self) -> Sequence[BrokerMetadata]:
        """The brokers that live, with their racks, ascending."""
        ...

    def overrides(
        self, resources: Collection[ConfigResource] | None = None
    ) -> Mapping[ConfigResource, Mapping[str, str]]:
        """The configs that are set for each of the entities; none for one that has none.

        Without ``resources``: of every entity that has some.
        """
        ...

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Mapping[str, str | None]]
    ) -> None:
        """Set configs of entities; None removes one. Raises AdminError if one is refused."""
        ...

    def describe_replica_log_dirs(
        self, replicas: Collection[TopicPartitionReplica]
    ) -> Mapping[TopicPartitionReplica, ReplicaLogDirs]:
        """The directories of replicas. Raises RequestTimedOut if a broker does not answer."""
        ...

    def alter_replica_log_dirs(
        self, log_dirs: Mapping[TopicPartitionReplica, str]
    ) -> Mapping[TopicPartitionReplica, Failure]:
        """Give replicas another directory; gives those that were refused."""
        ...
