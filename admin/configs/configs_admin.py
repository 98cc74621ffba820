"""Configs with the sources of their values, as a cluster describes them.

Mirrors org.apache.kafka.clients.admin.ConfigEntry.
"""

from __future__ import annotations

from enum import Enum

import msgspec


class ConfigSource(Enum):
    """Source of a config's value, by descending precedence."""

    DYNAMIC_TOPIC_CONFIG = "DYNAMIC_TOPIC_CONFIG"
    DYNAMIC_BROKER_CONFIG = "DYNAMIC_BROKER_CONFIG"
    DYNAMIC_DEFAULT_BROKER_CONFIG = "DYNAMIC_DEFAULT_BROKER_CONFIG"
    STATIC_BROKER_CONFIG = "STATIC_BROKER_CONFIG"
    DEFAULT_CONFIG = "DEFAULT_CONFIG"


class ConfigSynonym(msgspec.Struct, frozen=True):
    """A config and source that can determine the value of a config."""

    source: ConfigSource
    name: str
    value: str


class ConfigEntry(msgspec.Struct, frozen=True):
    """Effective config of an entity. ``synonyms``: its possible sources by precedence."""

    name: str
    value: str | None
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def source(self) -> ConfigSource:
        """Source of the effective value."""
        return self.synonyms[0].source if self.synonyms else ConfigSource.DEFAULT_CONFIG
