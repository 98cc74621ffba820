"""A cluster in memory that reassigns as far as the topic znodes go, to run the tools against."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from klamm.admin.configs.config_resource import ConfigResource
from klamm.admin.kafka_admin import ReplicaLogDirs
from klamm.admin.topic_description import PartitionDescription, TopicDescription
from klamm.admin.zookeeper_admin import ZooKeeperAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import UnknownTopicOrPartition
from klamm.cluster.requests import ApiError
from klamm.cluster.types import ReplicaAssignment, TopicPartition, TopicPartitionReplica
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.placement.draws import JavaRandom
from klamm.tools.tool_services import ToolServices
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryStore
from tests.unit.tools.vectors import memory_server, put, services


class ZnodeCluster:
    """KafkaAdmin on the topic znodes: starts and cancels, and leaves the copying out."""

    def __init__(self, client: KafkaZkClient) -> None:
        self.client = client
        self.configs = ZooKeeperAdmin(client, JavaRandom(0))
        self.refused: dict[TopicPartition, ApiError] = {}
        self.log_dirs: dict[TopicPartitionReplica, ReplicaLogDirs] = {}
        self.not_there_yet = 0
        self.clock_ms = 0.0

    def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, ReplicaAssignment]:
        return {
            tp: found
            for tp, found in self._assignments(self.client.get_all_topics_in_cluster()).items()
            if found.is_being_reassigned and (partitions is None or tp in partitions)
        }

    def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None], timeout_ms: int
    ) -> dict[TopicPartition, ApiError]:
        for tp, target in targets.items():
            if tp in self.refused:
                continue
            all_of_topic = self._assignments([tp.topic])
            now = all_of_topic[tp]
            changed = (
                ReplicaAssignment(now.origin_replicas)
                if target is None
                else now.reassign_to(target)
            )
            self.client.set_topic_assignment(tp.topic, None, all_of_topic | {tp: changed})
        return {tp: failure for tp, failure in self.refused.items() if tp in targets}

    def describe_topics(self, topics: Sequence[str]) -> list[TopicDescription]:
        described = []
        for topic in topics:
            found = self._assignments([topic])
            if not found:
                raise UnknownTopicOrPartition(f"no {topic}")
            partitions = tuple(
                PartitionDescription(topic, tp.partition, 0, one.replicas, one.replicas)
                for tp, one in found.items()
            )
            described.append(TopicDescription(topic, None, {}, partitions))
        return described

    def live_brokers(self) -> list[BrokerMetadata]:
        found = self.client.get_all_brokers_and_epochs_in_cluster().values
        return [BrokerMetadata(id_, registered.broker.rack) for id_, registered in found.items()]

    def overrides(
        self, resources: Collection[ConfigResource] | None = None
    ) -> dict[ConfigResource, dict[str, str]]:
        return self.configs.overrides(resources)

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Mapping[str, str | None]]
    ) -> None:
        self.configs.incremental_alter_configs(changes)

    def describe_replica_log_dirs(
        self, replicas: Collection[TopicPartitionReplica]
    ) -> dict[TopicPartitionReplica, ReplicaLogDirs]:
        return {replica: self.log_dirs[replica] for replica in replicas if replica in self.log_dirs}

    def alter_replica_log_dirs(
        self, log_dirs: Mapping[TopicPartitionReplica, str]
    ) -> dict[TopicPartitionReplica, ApiError]:
        if self.not_there_yet > 0:
            self.not_there_yet -= 1
            return dict.fromkeys(log_dirs, ApiError(Errors.REPLICA_NOT_AVAILABLE))
        for replica, log_dir in log_dirs.items():
            self.log_dirs[replica] = ReplicaLogDirs("/a", log_dir)
        return {}

    def sleep_ms(self, wait_ms: float) -> None:
        self.clock_ms += wait_ms

    def _assignments(self, topics: Sequence[str]) -> dict[TopicPartition, ReplicaAssignment]:
        read = self.client.get_topic_assignments(topics)
        assert not read.malformed
        return {tp: one for topic in read.values.values() for tp, one in topic.assignment.items()}


class World:
    """A ZooKeeper in memory with a cluster on it, as services of the tools."""

    def __init__(self, brokers: int = 0, topics: Mapping[str, object] | None = None) -> None:
        self.server = memory_server()
        self.client = KafkaZkClient(MemoryStore(self.server))
        self.cluster = ZnodeCluster(self.client)
        self.written = 0
        for broker_id in range(brokers):
            put(self.client, f"/brokers/ids/{broker_id}", None)
        for topic, partitions in (topics or {}).items():
            data = {"version": 3, "partitions": partitions}
            put(self.client, f"/brokers/topics/{topic}", data)

    def services(self, seed: int = 1, cluster: Any = None) -> ToolServices:
        """What a tool needs, on this ZooKeeper and this or another cluster."""
        return services(
            self.server,
            cluster or self.cluster,
            source=JavaRandom(seed),
            before_write=self.before_write,
            now_ms=lambda: self.cluster.clock_ms,
            sleep_ms=self.cluster.sleep_ms,
        )

    def before_write(self, _: KafkaZkClient) -> None:
        self.written += 1
