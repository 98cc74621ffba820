"""Client quotas of users, client ids and IP addresses: their text in /config, and filters of them.

klamm's brokers keep quotas and do not enforce them. Mirrors {describe,alter}ClientQuotas of
kafka.server.ZkAdminManager, and org.apache.kafka.common.config.internals.QuotaConfigs (KIP-546).
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Final, NamedTuple
from urllib.parse import unquote

from klamm.admin.configs.config_resource import USERS, ConfigResource
from klamm.admin.configs.scram_credentials import sanitized
from klamm.admin.configs.zookeeper import change_configs
from klamm.admin.failures import InvalidRequest, UnsupportedVersion
from klamm.cluster.jvm.java_double import double_text, parse_double
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.znodes import DEFAULT_ENTITY, MalformedZNode

USER, CLIENT_ID, IP = "user", "client-id", "ip"
_CLIENTS, _IPS = "clients", "ips"
_LONG_MAX, _INT_MAX = 2**63 - 1, 2**31 - 1
_OF_CLIENTS: Final[Mapping[str, int | None]] = {
    "producer_byte_rate": _LONG_MAX,
    "consumer_byte_rate": _LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
"""The quotas of users and client ids: the maximum of integers, or None for a double."""
_OF_IPS: Final[Mapping[str, int | None]] = {"connection_creation_rate": _INT_MAX}
_EPSILON: Final = 1e-6

QuotaEntity = frozenset[tuple[str, str | None]]
"""What has quotas: a name for each of its entity types; the name None stands for the default."""


class QuotaFilter(NamedTuple):
    """A filter of entities that have a name of this type: any name, or ``name``."""

    entity_type: str
    name: str | None = None
    is_any: bool = False


class ClientQuotas:
    """The quotas of all entities of one cluster, in its ZooKeeper."""

    def __init__(self, client: KafkaZkClient) -> None:
        self._client = client

    def describe(
        self, filters: Sequence[QuotaFilter], *, is_strict: bool
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of entities that match all filters.

        ``is_strict`` excludes entities with other entity types than those of the filters. Raises
        InvalidRequest, UnsupportedVersion, MalformedZNode.
        """
        _check_filters(filters)
        found = {}
        for entity, path in self._entities():
            if _matches(entity, filters, is_strict=is_strict):
                quotas = _quotas(entity, self._client.get_entity_configs(*path))
                if quotas:
                    found[entity] = quotas
        return found

    def alter(
        self, entity: QuotaEntity, changes: Mapping[str, float | None], *, validate_only: bool
    ) -> None:
        """Set quotas of an entity; the value None removes a quota. Raises InvalidRequest."""
        resource = _resource(entity)
        known = _known(entity)
        configs = dict(self._client.get_entity_configs(*resource))
        for name, value in changes.items():
            if value is None:
                configs.pop(name, None)
            elif name not in known:
                raise InvalidRequest(f"Invalid configuration key {name}")
            else:
                configs[name] = _text(name, value, known[name])
        if not validate_only:
            change_configs(self._client, resource, configs)

    def _entities(self) -> Iterator[tuple[QuotaEntity, ConfigResource]]:
        """Yield every entity that has a config znode."""
        keys = {USERS: USER, _CLIENTS: CLIENT_ID, _IPS: IP}
        names = {folder: self._client.get_all_entities_with_config(folder) for folder in keys}
        for folder, key in keys.items():
            for name in names[folder]:
                yield frozenset({(key, _name(name))}), ConfigResource(folder, name)
        for user in names[USERS]:
            folder = f"{user}/{_CLIENTS}"
            for client in self._client.get_all_entities_with_config(f"{USERS}/{folder}"):
                entity = frozenset({(USER, _name(user)), (CLIENT_ID, _name(client))})
                yield entity, ConfigResource(USERS, f"{folder}/{client}")


def _check_filters(filters: Sequence[QuotaFilter]) -> None:
    types = [one.entity_type for one in filters]
    for entity_type, word in ((USER, "user"), (CLIENT_ID, "client"), (IP, "ip")):
        if types.count(entity_type) > 1:
            raise InvalidRequest(f"Duplicate {word} filter component entity type")
    for entity_type in types:
        if not entity_type:
            raise InvalidRequest("Unexpected empty filter component entity type")
        if entity_type not in (USER, CLIENT_ID, IP):
            raise UnsupportedVersion(f"Custom entity type '{entity_type}' not supported")
    if IP in types and len(types) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination, IP filter component should not be used "
            "with user or clientId filter component."
        )


def _matches(entity: QuotaEntity, filters: Sequence[QuotaFilter], *, is_strict: bool) -> bool:
    names = dict(entity)
    if is_strict and names.keys() != {one.entity_type for one in filters}:
        return False
    return all(
        one.entity_type in names and (one.is_any or names[one.entity_type] == one.name)
        for one in filters
    )


def _known(entity: QuotaEntity) -> Mapping[str, int | None]:
    return _OF_IPS if IP in dict(entity) else _OF_CLIENTS


def _quotas(entity: QuotaEntity, configs: Mapping[str, str]) -> dict[str, float]:
    quotas = {}
    for name in _known(entity):
        if name in configs:
            try:
                quotas[name] = parse_double(configs[name])
            except ValueError:
                raise MalformedZNode(
                    f"Unexpected client quota configuration value: {name} -> {configs[name]}"
                ) from None
    return quotas


def _resource(entity: QuotaEntity) -> ConfigResource:
    """Return where the quotas of an entity are. Raises InvalidRequest."""
    if not entity:
        raise InvalidRequest("Invalid empty client quota entity")
    names = dict(entity)
    for entity_type, name in names.items():
        if entity_type not in (USER, CLIENT_ID, IP):
            raise InvalidRequest(f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            raise InvalidRequest(f"Empty {entity_type} not supported")
    znodes = {
        entity_type: DEFAULT_ENTITY if name is None else sanitized(name)
        for entity_type, name in names.items()
    }
    if IP in names:
        if len(names) > 1:
            raise InvalidRequest(
                "Invalid quota entity combination, IP entity should not be used with user/client "
                "ID entity."
            )
        _check_address(znodes[IP])
        return ConfigResource(_IPS, znodes[IP])
    if USER not in names:
        return ConfigResource(_CLIENTS, znodes[CLIENT_ID])
    if CLIENT_ID not in names:
        return ConfigResource(USERS, znodes[USER])
    return ConfigResource(USERS, f"{znodes[USER]}/{_CLIENTS}/{znodes[CLIENT_ID]}")


def _check_address(znode: str) -> None:
    # As in Kafka, the znode's name is checked, in which %3A stands for the colons of IPv6.
    if znode != DEFAULT_ENTITY:
        try:
            socket.getaddrinfo(znode, None)
        except (OSError, UnicodeError):
            raise InvalidRequest(f"{znode} is not a valid IP or resolvable host.") from None


def _text(name: str, value: float, maximum: int | None) -> str:
    """Return a quota as the value of a config. Raises InvalidRequest."""
    if maximum is None:
        return double_text(value)
    # As Scala converts a double to an integer: 0 for NaN, and never beyond the limits of the type.
    number = 0 if isnan(value) else int(max(-maximum - 1, min(value + _EPSILON, maximum)))
    if abs(float(number) - value) > _EPSILON:
        kind = "LONG" if maximum == _LONG_MAX else "INT"
        raise InvalidRequest(f"Configuration {name} must be a {kind} value")
    return str(number)


def _name(znode: str) -> str | None:
    return None if znode == DEFAULT_ENTITY else unquote(znode)
