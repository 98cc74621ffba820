"""Changes configs of topics and brokers in ZooKeeper, and notifies the brokers.

The config znode is written before the notification. No running controller is needed. Mirrors
kafka.zk.AdminZkClient.fetchEntityConfig and change*Config.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from klamm.admin.config_validation import changed_configs
from klamm.admin.configs.config_resource import BROKERS, TOPICS, ConfigResource
from klamm.admin.topics import change_topic_config
from klamm.zk.kafka_zk_client import KafkaZkClient


class ZooKeeperConfigs:
    """Reads and changes the configs of topics and brokers in one chroot."""

    def __init__(self, client: KafkaZkClient) -> None:
        self._client = client

    def overrides(
        self, resources: Collection[ConfigResource] | None = None
    ) -> dict[ConfigResource, dict[str, str]]:
        """Return the config overrides of ``resources``. Raises MalformedZNode.

        If ``resources`` is None, the result contains the overrides of all topics and brokers that
        have any, and the dynamic defaults of all brokers.
        """
        if resources is None:
            resources = [
                ConfigResource(entity_type, name)
                for entity_type in (BROKERS, TOPICS)
                for name in self._client.get_all_entities_with_config(entity_type)
            ]
        return {resource: self._client.get_entity_configs(*resource) for resource in resources}

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Mapping[str, str | None]]
    ) -> None:
        """Change configs of topics and brokers, one by one; the value None removes a config.

        If a change only removes configs that are not set, nothing is written. Raises
        UnknownTopicOrPartition, InvalidConfig, MalformedZNode.
        """
        for resource, wanted in changes.items():
            before = self._client.get_entity_configs(*resource)
            configs = changed_configs(before, wanted)
            if configs != before or any(value is not None for value in wanted.values()):
                self.change(resource, configs)

    def change(self, resource: ConfigResource, configs: Mapping[str, str]) -> None:
        """Replace all config overrides of one topic or broker, and notify the brokers.

        Raises UnknownTopicOrPartition, InvalidConfig, MalformedZNode.
        """
        resource = resource.with_parsed_id()
        if resource.entity_type == TOPICS:
            return change_topic_config(self._client, resource.name, configs)
        self._client.set_or_create_entity_configs(*resource, configs)
        self._client.create_config_change_notification("/".join(resource))
