"""Configs of topics and brokers of the running cluster, as a Kafka Admin client asks for them.

They live in ZooKeeper; a broker's are asked of that broker, so one that is away does not answer.
Mirrors describeConfigs and incrementalAlterConfigs of
org.apache.kafka.clients.admin.KafkaAdminClient and kafka.server.ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from admin.configs.changes import ConfigChanges, check_resource
from admin.configs.config_resource import BROKERS, TOPICS, ConfigResource
from admin.configs.configs_admin import ConfigEntry
from admin.configs.effective_configs import (
    BrokerConfigs,
    broker_entries,
    default_entries,
    topic_entries,
)
from admin.configs.zookeeper import ZooKeeperConfigs
from cluster.errors import AdminError, UnknownTopicOrPartition
from server.cluster_calls import ClusterCalls
from zk.znodes import DEFAULT_ENTITY

DESCRIBE_TIMEOUT_S: Final = 30.0
_OF_ALL: Final = ConfigResource(BROKERS, DEFAULT_ENTITY)


class ConfigCalls(ClusterCalls):
    """Calls about configs; brokers answer, ZooKeeper keeps them."""

    def overrides(
        self, resources: Collection[ConfigResource] | None = None
    ) -> Mapping[ConfigResource, Mapping[str, str]]:
        """The configs that are set for each of the entities; none for one that has none.

        Without ``resources``: of every entity that has some.

        Raises InvalidRequest for an entity that cannot be.
        """
        for resource in resources or ():
            check_resource(resource)
        return ZooKeeperConfigs(self._zk()).overrides(resources)

    def describe_configs(self, resource: ConfigResource) -> Sequence[ConfigEntry]:
        """The configs of a topic, a broker, or with the name DEFAULT_ENTITY of all brokers.

        Raises UnknownTopicOrPartition, InvalidRequest, RequestTimedOut if the broker does not
        answer.
        """
        check_resource(resource)
        if resource.entity_type == TOPICS:
            if not self._topic_exists(resource.name):
                raise UnknownTopicOrPartition(
                    f"there is no topic {resource.name}", hint="klamm topics --list shows them"
                )
            overrides = self.overrides([resource])[resource]
            broker_id = self._any_broker().info.id
            return topic_entries(overrides, self._broker_configs(broker_id))
        if resource.name == DEFAULT_ENTITY:
            return default_entries(self.overrides([resource])[resource])
        self._await_broker(int(resource.name), "describeConfigs", DESCRIBE_TIMEOUT_S)
        return broker_entries(self._broker_configs(int(resource.name)))

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Mapping[str, str | None]]
    ) -> None:
        """Set configs of entities; None removes one. Those of brokers that are away come last.

        Raises the first AdminError there was, after all changes were tried.
        """
        for resource in changes:
            check_resource(resource)
        failed: list[AdminError] = []
        for resource in sorted(changes, key=self._is_away):
            try:
                if self._is_away(resource):
                    call = "incrementalAlterConfigs"
                    self._await_broker(int(resource.name), call, self._api_timeout_s)
                ConfigChanges(self._zk(), self._topic_exists).alter(resource, changes[resource])
            except AdminError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def _broker_configs(self, broker_id: int) -> BrokerConfigs:
        own = ConfigResource(BROKERS, str(broker_id))
        found = self.overrides([own, _OF_ALL])
        static = {**self._cluster.spec.config, "broker.id": str(broker_id)}
        return BrokerConfigs(found[own], found[_OF_ALL], static)

    def _topic_exists(self, topic: str) -> bool:
        return self._cache().num_partitions(topic) > 0

    def _is_away(self, resource: ConfigResource) -> bool:
        is_broker = resource.entity_type == BROKERS and resource.name != DEFAULT_ENTITY
        return is_broker and not self._is_registered(int(resource.name))
