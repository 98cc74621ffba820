"""Configs as a cluster describes them, and where their values come from.

Mirrors org.apache.kafka.clients.admin.ConfigEntry.
"""

from __future__ import annotations

from enum import Enum

import msgspec


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
