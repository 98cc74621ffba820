"""Reads and changes configs of topics and brokers in ZooKeeper, and notifies the brokers.

The config znode is written before the notification. No running controller is needed. Mirrors
kafka.zk.AdminZkClient.fetchEntityConfig and change*Config.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from klamm.admin.configs.config_resource import BROKERS, TOPICS, ConfigResource
from klamm.admin.topics import change_topic_config
from klamm.zk.kafka_zk_client import KafkaZkClient


def read_overrides(
    client: KafkaZkClient, resources: Collection[ConfigResource] | None = None
) -> dict[ConfigResource, dict[str, str]]:
    """Return the config overrides of ``resources``. Raises MalformedZNode.

    If ``resources`` is None, the result contains the overrides of all topics and brokers that have
    any, and the dynamic defaults of all brokers.
    """
    if resources is None:
        resources = [
            ConfigResource(entity_type, name)
            for entity_type in (BROKERS, TOPICS)
            for name in client.get_all_entities_with_config(entity_type)
        ]
    return {resource: client.get_entity_configs(*resource) for resource in resources}


def change_configs(
    client: KafkaZkClient, resource: ConfigResource, configs: Mapping[str, str]
) -> None:
    """Replace all config overrides of one topic, broker or user, and notify the brokers.

    Raises UnknownTopicOrPartition, InvalidConfig, MalformedZNode.
    """
    resource = resource.with_parsed_id()
    if resource.entity_type == TOPICS:
        return change_topic_config(client, resource.name, configs)
    client.set_or_create_entity_configs(*resource, configs)
    client.create_config_change_notification("/".join(resource))
