"""Formats of the znodes under /config: config overrides of entities, and change notifications.

Mirrors kafka.zk.ZkData and the decoding in kafka.server.DynamicConfigManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.java_maps import hash_map_order
from klamm.cluster.jvm.scala_sets import immutable_order
from klamm.zk.znodes.json_values import (
    STRING_INDEX,
    MalformedZNode,
    UnparsableJson,
    field,
    illegal_content,
    parse_bytes,
    to_int,
    to_str,
    utf8,
)

CONFIG_TYPES: Final = ("topics", "clients", "users", "brokers", "ips")
"""Entity types that have configs, in the order in which Kafka creates their znodes."""
DEFAULT_ENTITY: Final = "<default>"
_VERSION_1_TYPES: Final = ("topics", "clients")


class ConfigZNode:
    """/config: parent of config overrides and change notifications."""

    path: Final = "/config"


class ConfigEntityTypeZNode:
    """/config/TYPE: parent of the config overrides of one entity type, e.g. topics."""

    @staticmethod
    def path(entity_type: str) -> str:
        """Return the parent path of the config znodes of an entity type."""
        return f"/config/{entity_type}"


class ConfigEntityZNode:
    """/config/TYPE/NAME: config overrides of an entity."""

    @staticmethod
    def path(entity_type: str, entity_name: str) -> str:
        """Return the path of the entity's config znode."""
        return f"/config/{entity_type}/{entity_name}"

    @staticmethod
    def encode(config: Mapping[str, str]) -> bytes:
        """Encode config overrides as JSON (format version 1), in the order of Java's Properties."""
        ordered = {name: config[name] for name in hash_map_order(list(config))}
        return msgspec.json.encode({"version": 1, "config": ordered})

    @staticmethod
    def decode(data: bytes | None) -> dict[str, str]:
        """Decode config overrides.

        The result is empty if ``data`` is null, is not JSON, or has no ``config`` object. Raises
        MalformedZNode for a value that is not a string.
        """
        if data is None:
            return {}
        try:
            node = parse_bytes(data)
        except UnparsableJson:
            return {}
        config = node.get("config") if isinstance(node, dict) else None
        if not isinstance(config, dict):
            return {}
        return {name: to_str(value) for name, value in config.items()}


class ConfigEntityChangeNotificationZNode:
    """/config/changes: parent of the config change notifications."""

    path: Final = "/config/changes"


class ConfigChange(NamedTuple):
    """Type and name of an entity whose config overrides changed, e.g. ``("topics", "t")``."""

    entity_type: str
    entity_name: str


class ConfigEntityChangeNotificationSequenceZNode:
    """/config/changes/config_change_N: notification that config overrides of an entity changed."""

    sequence_number_prefix: Final = "config_change_"
    create_path: Final = "/config/changes/config_change_"

    @staticmethod
    def path(sequence_node: str) -> str:
        """Return the path of a notification, given its name such as config_change_0000000001."""
        return f"/config/changes/{sequence_node}"

    @staticmethod
    def encode(sanitized_entity_path: str) -> bytes:
        """Encode a notification (format version 2) for an entity path such as ``topics/t``."""
        return msgspec.json.encode({"version": 2, "entity_path": sanitized_entity_path})

    @staticmethod
    def decode(data: bytes | None) -> ConfigChange | None:
        """Decode a notification (format version 1 or 2). Return None if ``data`` is not JSON.

        Raises MalformedZNode if Kafka's decoder throws.
        """
        try:
            node = parse_bytes(data)
        except UnparsableJson:
            return None
        received = f"Received: {utf8(data or b'')}"
        if not isinstance(node, dict):
            raise illegal_content(
                "Config change notification has an unexpected value. The format is:"
                '{"version" : 1, "entity_type":"topics/clients", '
                '"entity_name" : "topic_name/client_id"} or '
                f'{{"version" : 2, "entity_path":"entity_type/entity_name"}}. {received}'
            )
        version = to_int(field(node, "version"))
        if version == 1:
            return _version_1(node, received)
        if version == 2:
            return _version_2(node, received)
        raise illegal_content(
            f"Config change notification has unsupported version '{version}', "
            "supported versions are 1 and 2."
        )


def _optional_str(node: dict[str, Any], name: str) -> str | None:
    return None if node.get(name) is None else to_str(node[name])


def _version_1(node: dict[str, Any], received: str) -> ConfigChange:
    entity_type = _optional_str(node, "entity_type")
    if entity_type not in _VERSION_1_TYPES:
        raise illegal_content(
            "Version 1 config change notification must have 'entity_type' set to "
            f"'clients' or 'topics'. {received}"
        )
    entity_name = _optional_str(node, "entity_name")
    if entity_name is None:
        raise illegal_content(
            f"Version 1 config change notification does not specify 'entity_name'. {received}"
        )
    return ConfigChange(entity_type, entity_name)


def _version_2(node: dict[str, Any], received: str) -> ConfigChange:
    entity_path = _optional_str(node, "entity_path")
    if entity_path is None:
        raise illegal_content(
            f"Version 2 config change notification must specify 'entity_path'. {received}"
        )
    entity_type, slash, entity_name = entity_path.partition("/")
    if not slash:
        raise MalformedZNode(f"begin 0, end -1, length {len(entity_path)}", STRING_INDEX)
    if entity_type not in CONFIG_TYPES:
        starts = immutable_order([f"'{name}'/" for name in CONFIG_TYPES], string_hash)
        raise illegal_content(
            "Version 2 config change notification must have 'entity_path' starting with "
            f"one of {', '.join(starts)}. {received}"
        )
    return ConfigChange(entity_type, entity_name)
