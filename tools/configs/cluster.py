"""kafka-configs with ``--bootstrap-server``: sends requests to a running cluster.

Mirrors ConfigCommand.alterConfig, describeConfig and getResourceConfig, for topics and brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from klamm.admin.configs.config_resource import BROKERS, TOPICS, ConfigResource
from klamm.admin.configs.configs_admin import ConfigEntry, ConfigSource
from klamm.admin.failures import (
    ExecutionException,
    InvalidConfiguration,
    InvalidRequest,
    as_futures,
)
from klamm.cluster.errors import AdminError, RequestTimedOut, UnknownTopicOrPartition
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.java_maps import hash_map_order
from klamm.cluster.jvm.scala_sets import immutable_order
from klamm.cluster.topic_names import validate_topic_name
from klamm.tools.configs.options import ConfigOptions, illegal_argument
from klamm.tools.tool_output import ToolOutput
from klamm.zk.znodes import DEFAULT_ENTITY

if TYPE_CHECKING:
    from klamm.admin.kafka_admin import KafkaAdmin

_BROKER_CONFIG_COUNT: Final = 234
"""Number of broker configs in Kafka 2.8.2.

Kafka's tool prints the configs in the iteration order of a HashMap, which depends on the size of
the HashMap.
"""


class TimeoutException(AdminError):
    """Java's TimeoutException, thrown when the tool's own timeout expires.

    The exception has no message; only a timeout of the Admin client has one.
    """

    kafka_class = "java.util.concurrent.TimeoutException"


class ClusterConfigs:
    """The actions of kafka-configs (alter, describe) on a running cluster."""

    def __init__(self, admin: KafkaAdmin, output: ToolOutput) -> None:
        self._admin = as_futures(admin)
        self._output = output

    def alter(self, command: ConfigOptions) -> None:
        """Add and remove configs of the entity given on the command line."""
        types, names = command.entity_types, command.entity_names
        if len(types) != len(names):
            raise illegal_argument("An entity name must be specified for every entity type")
        entity_type, name = types[0], names[0]
        added = command.configs_to_add(self._output)
        deleted = command.configs_to_delete()
        found = {entry.name for entry in self._entries(entity_type, name, describe_all=False)}
        check_there(deleted, found)
        if entity_type == TOPICS:
            _check_different(added, deleted)
        resource = _resource(entity_type, name)
        self._admin.incremental_alter_configs({resource: {**added, **dict.fromkeys(deleted)}})
        which = f"config for {entity_type[:-1]} {name}"
        if not name:
            which = f"default config for {entity_type} in the cluster"
        self._output.println(f"Completed updating {which}.")
        self._output.report["entities"] = [
            _report(resource, self._entries(entity_type, name, describe_all=False))
        ]

    def describe(self, command: ConfigOptions) -> None:
        """Print configs and their sources, for one entity or for all entities of a type."""
        entity_type = command.entity_types[0]
        describe_all = command.options.has("all")
        entities: list[dict[str, Any]] = []
        self._output.report["entities"] = entities
        for name in command.entity_names[:1] or self._all_names(entity_type):
            if name:
                which = "All" if describe_all else "Dynamic"
                self._output.println(f"{which} configs for {entity_type[:-1]} {name} are:")
            else:
                self._output.println(f"Default configs for {entity_type} in the cluster are:")
            entries = self._entries(entity_type, name, describe_all)
            for entry in entries:
                self._output.println(f"  {_shown(entry)}")
            entities.append(_report(_resource(entity_type, name), entries))

    def _all_names(self, entity_type: str) -> list[str]:
        if entity_type == TOPICS:
            return hash_map_order(self._admin.list_topics())
        return [*(str(broker.id) for broker in self._admin.live_brokers()), ""]

    def _entries(self, entity_type: str, name: str, describe_all: bool) -> list[ConfigEntry]:
        """Return an entity's configs in the order in which Kafka's tool prints them."""
        if entity_type == TOPICS and name:
            validate_topic_name(name)
        try:
            found = self._admin.describe_configs(_resource(entity_type, name))
        except ExecutionException as error:
            if isinstance(error.cause, RequestTimedOut):
                raise TimeoutException("", hint=error.hint) from error
            if isinstance(error.cause, UnknownTopicOrPartition):
                # Kafka's brokers respond without a message, and its tools print the empty message.
                unknown = UnknownTopicOrPartition("", hint=error.cause.message)
                raise ExecutionException(unknown) from error
            raise
        entries = {entry.name: entry for entry in found}
        count = max(len(entries), _BROKER_CONFIG_COUNT) if entity_type == BROKERS and name else None
        order = hash_map_order(list(entries), entries=count)
        source = _source(entity_type, name)
        return [entries[name] for name in order if describe_all or entries[name].source is source]


def _source(entity_type: str, name: str) -> ConfigSource:
    if entity_type == TOPICS:
        return ConfigSource.DYNAMIC_TOPIC_CONFIG
    return (
        ConfigSource.DYNAMIC_BROKER_CONFIG if name else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    )


def _resource(entity_type: str, name: str) -> ConfigResource:
    return ConfigResource(entity_type, name or DEFAULT_ENTITY if entity_type == BROKERS else name)


def check_there(deleted: Sequence[str], found: Collection[str]) -> None:
    """Raise InvalidConfiguration if a config to delete is not set."""
    absent = [name for name in deleted if name not in found]
    if absent:
        raise InvalidConfiguration(f"Invalid config(s): {','.join(absent)}")


def _check_different(added: Collection[str], deleted: Collection[str]) -> None:
    """If a config is both added and deleted, raise the error that a broker would return."""
    twice = [name for name in immutable_order(added, string_hash) if name in deleted]
    if twice:
        raise ExecutionException(
            InvalidRequest(f"Error due to duplicate config keys : {','.join(twice)}")
        )


def _shown(entry: ConfigEntry) -> str:
    value = "null" if entry.value is None else entry.value
    synonyms = ", ".join(f"{one.source.value}:{one.name}={one.value}" for one in entry.synonyms)
    return f"{entry.name}={value} sensitive=false synonyms={{{synonyms}}}"


def _report(resource: ConfigResource, entries: Sequence[ConfigEntry]) -> dict[str, Any]:
    report = entity_report(resource, {entry.name: entry.value for entry in entries})
    return {**report, "sources": {entry.name: entry.source.value for entry in entries}}


def entity_report(entity: ConfigResource, configs: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the entry for one topic or broker in the tool's JSON report."""
    return {"type": entity.entity_type, "name": entity.name, "configs": dict(configs)}
