"""What kafka-configs asks of a running cluster: a protocol and its values.

Nothing here knows how a cluster is reached. Mirrors the calls of Kafka's Admin client that
ConfigCommand makes, and org.apache.kafka.clients.admin.ConfigEntry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

import msgspec

from admin.configs.config_resource import ConfigResource


class ConfigSource(Enum):
    """Where a config's value comes from, the strongest first."""

    DYNAMIC_TOPIC_CONFIG = "DYNAMIC_TOPIC_CONFIG"
    DYNAMIC_BROKER_CONFIG = "DYNAMIC_BROKER_CONFIG"
    DYNAMIC_DEFAULT_BROKER_CONFIG = "DYNAMIC_DEFAULT_BROKER_CONFIG"
    STATIC_BROKER_CONFIG = "STATIC_BROKER_CONFIG"
    DEFAULT_CONFIG = "DEFAULT_CONFIG"


class ConfigSynonym(msgspec.Struct, frozen=True):
    """A config that would give, or gives, another its value."""

    source: ConfigSource
    name: str
    value: str


class ConfigEntry(msgspec.Struct, frozen=True):
    """A config as it holds for an entity. ``synonyms``: what it comes from, the strongest first."""

    name: str
    value: str | None
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def source(self) -> ConfigSource:
        """Where the value comes from."""
        return self.synonyms[0].source if self.synonyms else ConfigSource.DEFAULT_CONFIG


class ConfigsAdmin(Protocol):
    """A running cluster. Each call raises KlammError if none answers."""

    def list_topics(self) -> Sequence[str]:
        """Names of all topics, internal ones too."""
        ...

    def live_broker_ids(self) -> Sequence[int]:
        """The brokers that live."""
        ...

    def describe_configs(self, resource: ConfigResource) -> Sequence[ConfigEntry]:
        """The configs of a topic, a broker, or with the name DEFAULT_ENTITY of all brokers.

        Raises UnknownTopicOrPartition, RequestTimedOut if the broker does not answer.
        """
        ...

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Mapping[str, str | None]]
    ) -> None:
        """Set configs of entities; None removes one. Raises AdminError if one is refused."""
        ...
