"""Validates config changes, writes them to ZooKeeper and notifies the brokers.

Each topic or broker is changed separately, so a refused change does not prevent others. Mirrors
incrementalAlterConfigs of kafka.server.ZkAdminManager and its error texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from klamm.admin.config_validation import (
    changed_configs,
    validate_broker_configs,
    validate_topic_configs,
)
from klamm.admin.configs.config_resource import BROKERS, TOPICS, ConfigResource
from klamm.admin.configs.zookeeper import change_configs
from klamm.admin.failures import InvalidConfiguration, InvalidRequest
from klamm.cluster.errors import InvalidConfig, UnknownTopicOrPartition
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.znodes import DEFAULT_ENTITY
from klamm.zk.znodes.json_values import MalformedZNode


def alter_configs(
    client: KafkaZkClient,
    resource: ConfigResource,
    wanted: Mapping[str, str | None],
    topic_exists: Callable[[str], bool],
    *,
    validate_only: bool = False,
) -> None:
    """Change configs of one topic or broker, and notify the brokers; the value None removes one.

    The config znode is written even if no value changes. With ``validate_only``, nothing is
    written. ``topic_exists`` returns True if a broker's metadata contains the given topic. Raises
    UnknownTopicOrPartition, InvalidConfiguration, InvalidRequest, and UsageError for configs that
    klamm does not support.
    """
    added = {name: value for name, value in wanted.items() if value is not None}
    configs = changed_configs(client.get_entity_configs(*resource), wanted)
    try:
        if resource.entity_type == TOPICS:
            if not topic_exists(resource.name):
                raise UnknownTopicOrPartition(f"The topic '{resource.name}' does not exist.")
            validate_topic_configs(configs)
        else:
            validate_broker_configs(configs, added)
        if not validate_only:
            change_configs(client, resource, configs)
    except InvalidConfiguration:
        raise
    except InvalidConfig as error:
        raise InvalidRequest(
            f"Invalid config value for resource {_shown(resource)}: {error.message}"
        ) from error


def checked_resource(resource: ConfigResource) -> ConfigResource:
    """Return ``resource``, with its id parsed if it is a broker.

    Raises InvalidRequest unless ``resource`` is a topic, a broker id or DEFAULT_ENTITY.
    """
    if resource.entity_type not in (TOPICS, BROKERS):
        raise InvalidRequest(f"Unsupported resource type: {resource.entity_type}")
    try:
        return resource.with_parsed_id()
    except MalformedZNode:
        raise InvalidRequest(f"Broker id must be an integer, but it is: {resource.name}") from None


def _shown(resource: ConfigResource) -> str:
    kind = resource.entity_type[:-1].upper()
    name = "" if resource.name == DEFAULT_ENTITY else resource.name
    return f"ConfigResource(type={kind}, name='{name}')"
