"""Results of the Admin call describeConfigs: config values and where they come from.

Mirrors org.apache.kafka.clients.admin.ConfigEntry.
"""

from __future__ import annotations

from enum import Enum

import msgspec


class ConfigSource(Enum):
    """Sources of config values, highest precedence first."""

    DYNAMIC_TOPIC_CONFIG = "DYNAMIC_TOPIC_CONFIG"
    DYNAMIC_BROKER_CONFIG = "DYNAMIC_BROKER_CONFIG"
    DYNAMIC_DEFAULT_BROKER_CONFIG = "DYNAMIC_DEFAULT_BROKER_CONFIG"
    STATIC_BROKER_CONFIG = "STATIC_BROKER_CONFIG"
    DEFAULT_CONFIG = "DEFAULT_CONFIG"


class ConfigSynonym(msgspec.Struct, frozen=True):
    """A setting that can determine the value of a config.

    For example, the broker config log.retention.ms can determine the topic config retention.ms.
    """

    source: ConfigSource
    name: str
    value: str


class ConfigEntry(msgspec.Struct, frozen=True):
    """Effective value of one config of a topic or broker.

    ``synonyms`` lists the settings that can determine the value, highest precedence first.
    """

    name: str
    value: str | None
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def source(self) -> ConfigSource:
        """Source of the effective value."""
        return self.synonyms[0].source if self.synonyms else ConfigSource.DEFAULT_CONFIG
