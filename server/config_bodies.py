"""What travels as JSON about configs between the API of a running cluster and its clients.

As bodies.py, of which it is a part.
"""

from __future__ import annotations

import msgspec

from admin.configs.config_resource import ConfigResource
from admin.configs.configs_admin import ConfigEntry
from server.bodies import RequestBody


class Entity(RequestBody, frozen=True):
    """Something with configs; ``type`` is "topics" or "brokers"."""

    type: str
    name: str

    @property
    def resource(self) -> ConfigResource:
        """The entity as everybody else knows it."""
        return ConfigResource(self.type, self.name)


class Entities(RequestBody, frozen=True):
    """Body of POST /configs/overrides. None: every entity that has configs."""

    entities: tuple[Entity, ...] | None = None


class EntityConfigs(Entity, frozen=True):
    """The configs of an entity by name; None removes one."""

    configs: dict[str, str | None]


class ConfigsOfEntities(RequestBody, frozen=True):
    """Body of POST /configs, and answer of POST /configs/overrides."""

    entities: tuple[EntityConfigs, ...]

    def by_entity(self) -> dict[ConfigResource, dict[str, str | None]]:
        """Back again."""
        return {one.resource: one.configs for one in self.entities}


class ConfigEntries(msgspec.Struct, frozen=True):
    """Answer of POST /configs/describe, whose body is an Entity."""

    entries: list[ConfigEntry]
