"""Configs, requests of tools and notices of brokers: the znodes by which others are told things.

Unfenced: what the active controller deletes of them is in controller_client.py. Mirrors the parts
of kafka.zk.KafkaZkClient on /config, /admin, /isr_change_notification, /log_dir_event_notification.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cluster.types import TopicPartition
from zk.decoding_client import Decoded, DecodingClient
from zk.store import ReadResult
from zk.znodes import (
    ConfigChange,
    ConfigEntityChangeNotificationSequenceZNode,
    ConfigEntityChangeNotificationZNode,
    ConfigEntityTypeZNode,
    ConfigEntityZNode,
    DeleteTopicsTopicZNode,
    DeleteTopicsZNode,
    IsrChangeNotificationSequenceZNode,
    LogDirEventNotificationSequenceZNode,
    LogDirEventNotificationZNode,
    MalformedZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
    UnparsableJson,
)


class AdminZNodeClient(DecodingClient):
    """Configs, /admin and notifications. ``watch`` arms the one-shot watch of what is read."""

    # Configs

    def get_entity_configs(self, entity_type: str, entity_name: str) -> dict[str, str]:
        """An entity's overrides; none if it has no znode. Raises MalformedZNode."""
        path = ConfigEntityZNode.path(entity_type, entity_name)
        found = self.get_data_and_stat(path)
        if found is None:
            return {}
        try:
            return ConfigEntityZNode.decode(found[0])
        except MalformedZNode as error:
            raise error.at(path) from None

    def get_topic_configs(self, topics: Sequence[str]) -> Decoded[str, dict[str, str]]:
        """Overrides by topic; a topic without a config znode is in ``missing``."""
        return self.read_each(
            topics,
            lambda topic: ConfigEntityZNode.path("topics", topic),
            lambda _, result: ConfigEntityZNode.decode(result.data),
        )

    def get_all_entities_with_config(self, entity_type: str) -> list[str]:
        """Names of the entities of a type that have overrides, sorted."""
        return self.get_children(ConfigEntityTypeZNode.path(entity_type))

    def set_or_create_entity_configs(
        self, entity_type: str, entity_name: str, config: Mapping[str, str]
    ) -> None:
        """Replace an entity's overrides; the last writer wins."""
        path = ConfigEntityZNode.path(entity_type, entity_name)
        self.set_or_create(path, ConfigEntityZNode.encode(config))

    def create_config_change_notification(self, sanitized_entity_path: str) -> None:
        """Tell every broker that an entity's overrides changed, e.g. of ``topics/t``."""
        self.make_sure_persistent_paths_exist([ConfigEntityChangeNotificationZNode.path])
        self.create_sequential(
            ConfigEntityChangeNotificationSequenceZNode.create_path,
            ConfigEntityChangeNotificationSequenceZNode.encode(sanitized_entity_path),
        )

    def get_config_change_notifications(self, watch: bool = False) -> list[str]:
        """Names of the notifications, ascending; ``watch`` arms the child watch."""
        return self.get_children(ConfigEntityChangeNotificationZNode.path, watch)

    def get_config_changes(self, sequence_nodes: Sequence[str]) -> Decoded[str, ConfigChange]:
        """Which entities changed, by the notification's name."""
        return self.read_each(
            sequence_nodes,
            ConfigEntityChangeNotificationSequenceZNode.path,
            lambda _, result: ConfigEntityChangeNotificationSequenceZNode.decode(result.data),
        )

    # Topic deletion

    def create_delete_topic_path(self, topic: str) -> bool:
        """Ask for the deletion of a topic; False if that was asked for already."""
        return self.create_recursive(DeleteTopicsTopicZNode.path(topic))

    def get_topic_deletions(self, watch: bool = False) -> list[str]:
        """Topics to be deleted, sorted; ``watch`` arms the child watch."""
        return self.get_children(DeleteTopicsZNode.path, watch)

    # Reassignment and preferred leaders

    def get_partition_reassignment(
        self, watch: bool = False
    ) -> dict[TopicPartition, tuple[int, ...]]:
        """Target replicas by partition; empty if the znode is absent or not what it should be.

        Raises MalformedZNode where Kafka throws.
        """
        found = self.get_data_and_stat(ReassignPartitionsZNode.path, watch)
        if found is None:
            return {}
        try:
            return ReassignPartitionsZNode.decode(found[0])
        except UnparsableJson:
            return {}
        except MalformedZNode as error:
            raise error.at(ReassignPartitionsZNode.path) from None

    def create_partition_reassignment(
        self, reassignment: Mapping[TopicPartition, Sequence[int]]
    ) -> bool:
        """Ask for a reassignment; False if one is there."""
        data = ReassignPartitionsZNode.encode(reassignment)
        return self.create_recursive(ReassignPartitionsZNode.path, data)

    def reassign_partitions_in_progress(self) -> bool:
        """True if /admin/reassign_partitions is there."""
        return self.path_exists(ReassignPartitionsZNode.path)

    def get_preferred_replica_election(self, watch: bool = False) -> list[TopicPartition]:
        """Partitions to be given to their preferred leader. Raises MalformedZNode."""
        found = self.get_data_and_stat(PreferredReplicaElectionZNode.path, watch)
        if found is None:
            return []
        try:
            return PreferredReplicaElectionZNode.decode(found[0])
        except MalformedZNode as error:
            raise error.at(PreferredReplicaElectionZNode.path) from None

    def create_preferred_replica_election(self, partitions: Iterable[TopicPartition]) -> bool:
        """Ask for preferred leaders; False if such a request is there."""
        data = PreferredReplicaElectionZNode.encode(partitions)
        return self.create_recursive(PreferredReplicaElectionZNode.path, data)

    # Notices of brokers

    def get_partitions_from_isr_change_notifications(
        self, sequence_numbers: Sequence[str]
    ) -> Decoded[str, list[TopicPartition]]:
        """Partitions whose ISR changed, by the notice's sequence number."""
        return self.read_each(
            sequence_numbers, IsrChangeNotificationSequenceZNode.path, _decode_isr_change
        )

    def propagate_isr_changes(self, partitions: Iterable[TopicPartition]) -> None:
        """Tell the controller that these partitions' ISRs were changed in ZooKeeper."""
        data = IsrChangeNotificationSequenceZNode.encode(partitions)
        self.create_sequential(IsrChangeNotificationSequenceZNode.path(), data)

    def get_all_log_dir_event_notifications(self, watch: bool = False) -> list[str]:
        """Sequence numbers of the log dir notices, ascending; ``watch`` arms the child watch."""
        names = self.get_children(LogDirEventNotificationZNode.path, watch)
        return [LogDirEventNotificationSequenceZNode.sequence_number(name) for name in names]

    def get_broker_ids_from_log_dir_events(
        self, sequence_numbers: Sequence[str]
    ) -> Decoded[str, int]:
        """Brokers with a failed directory, by the notice's sequence number."""
        return self.read_each(
            sequence_numbers, LogDirEventNotificationSequenceZNode.path, self._decode_log_dir_event
        )

    def _decode_log_dir_event(self, _: str, result: ReadResult) -> int | None:
        broker_id = LogDirEventNotificationSequenceZNode.decode(result.data)
        if broker_id is None:
            self.not_json()
        return broker_id

    def propagate_log_dir_event(self, broker_id: int) -> None:
        """Tell the controller that one of the broker's directories failed."""
        data = LogDirEventNotificationSequenceZNode.encode(broker_id)
        self.create_sequential(LogDirEventNotificationSequenceZNode.path(), data)


def _decode_isr_change(_: str, result: ReadResult) -> list[TopicPartition]:
    return IsrChangeNotificationSequenceZNode.decode(result.data)
