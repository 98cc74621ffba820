"""Answers the APIs that klamm's admin client carries out: CreatePartitions and those of configs.

As in Kafka's ZooKeeper mode, these calls write to ZooKeeper, where the controller and the brokers
see the change. Mirrors handleCreatePartitionsRequest of kafka.server.KafkaApis, alterConfigs,
incrementalAlterConfigs and maybePopulateMetadataAndConfigs of kafka.server.ZkAdminManager, and
kafka.server.ConfigHelper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeVar

from klamm.admin.configs.changes import checked_resource
from klamm.admin.configs.config_resource import BROKERS, TOPICS, ConfigResource
from klamm.admin.configs.configs_admin import ConfigEntry, ConfigSource
from klamm.admin.configs.effective_configs import BrokerConfigs, topic_entries
from klamm.admin.failures import InvalidRequest, message_of
from klamm.admin.kafka_admin import ListenerAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.configs import BROKER_CONFIGS, THROTTLED_RATES, TOPIC_CONFIGS, Config, Type
from klamm.cluster.errors import (
    AdminError,
    InvalidConfig,
    KlammError,
    UnknownTopicOrPartition,
)
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.java_maps import hash_map_order
from klamm.cluster.jvm.java_strings import java_split
from klamm.cluster.jvm.scala_sets import duplicates
from klamm.cluster.requests import ApiError, CreateTopicsRequest, NewPartitions
from klamm.wire.api import Asked, ListenerCall, api_error
from klamm.wire.schema import Values, milliseconds
from klamm.wire.translations import error_fields, error_or_empty
from klamm.zk.znodes import DEFAULT_ENTITY

if TYPE_CHECKING:
    from kio.schema.alter_configs.v2 import request as replacing
    from kio.schema.create_partitions.v3.request import CreatePartitionsRequest
    from kio.schema.describe_configs.v4.request import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )
    from kio.schema.incremental_alter_configs.v1 import request as incremental

    _AlterRequest = replacing.AlterConfigsRequest | incremental.IncrementalAlterConfigsRequest
    _Resource = (
        DescribeConfigsResource | replacing.AlterConfigsResource | incremental.AlterConfigsResource
    )

_C = TypeVar("_C")
"""A change of one config."""
MAX_WAIT_MS: Final = 60_000
"""How long a CreatePartitions request waits at most, because it occupies a thread."""
_KINDS: Final = {2: TOPICS, 4: BROKERS}
_KNOWN: Final = (*_KINDS, 8)
"""Kafka refuses a whole request with a resource of another type than these. 8: BROKER_LOGGER."""
_MALFORMED: Final = message_of(ApiError(Errors.INVALID_REQUEST))
_SOURCES: Final = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: 1,
    ConfigSource.DYNAMIC_BROKER_CONFIG: 2,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: 3,
    ConfigSource.STATIC_BROKER_CONFIG: 4,
    ConfigSource.DEFAULT_CONFIG: 5,
}
_TYPES: Final = {
    Type.BOOLEAN: 1,
    Type.STRING: 2,
    Type.INT: 3,
    Type.LONG: 5,
    Type.DOUBLE: 6,
    Type.LIST: 7,
}


class _Operation(IntEnum):
    """Operations of IncrementalAlterConfigs: AlterConfigOp.OpType. The last two are for lists."""

    SET, DELETE, APPEND, SUBTRACT = range(4)


def _create_partitions(admin: ListenerAdmin, asked: Asked) -> Values:
    """Add partitions to topics. Only the active controller does so."""
    names = Counter(topic.name for topic in asked.body.topics)
    errors: dict[str, ApiError] = {}
    if asked.broker_id != asked.metadata.controller_id:
        errors = dict.fromkeys(names, ApiError(Errors.NOT_CONTROLLER))
    else:
        again = ApiError(Errors.INVALID_REQUEST, "Duplicate topic in request.")
        errors = {name: again for name, times in names.items() if times > 1}
        wanted = {
            topic.name: NewPartitions(
                topic.count,
                None
                if topic.assignments is None
                else tuple(one.broker_ids for one in topic.assignments),
            )
            for topic in asked.body.topics
            if topic.name not in errors
        }
        timeout_ms = min(milliseconds(asked.body.timeout), MAX_WAIT_MS)
        try:
            errors |= admin.create_partitions(
                wanted, timeout_ms, validate_only=asked.body.validate_only
            )
        except KlammError as error:
            errors |= dict.fromkeys(wanted, api_error(error))
    return {
        "results": [{"name": name, **error_fields(errors.get(name, ApiError()))} for name in names]
    }


def with_topic_configs(
    admin: ListenerAdmin, broker_id: int, request: CreateTopicsRequest, response: Values
) -> Values:
    """Add the configs of the created topics to a response to CreateTopics.

    They are in the order in which a HashMap of Kafka's LogConfig has them.
    """
    created = {one["name"] for one in response["topics"] if one["error_code"] is Errors.NONE}
    if not created:
        return response
    overrides = {topic.name: topic.overrides for topic in request.topics}
    added: dict[str, Values]
    try:
        broker = admin.broker_configs(broker_id)
        added = {name: {"configs": _topic_configs(overrides[name], broker)} for name in created}
    except KlammError as error:
        unknown = {"configs": None, "topic_config_error_code": api_error(error).error}
        added = dict.fromkeys(created, unknown)
    topics = [{**one, **added.get(one["name"], {})} for one in response["topics"]]
    return {**response, "topics": topics}


def _topic_configs(overrides: Mapping[str, str], broker: BrokerConfigs) -> list[Values]:
    entries = {entry.name: entry for entry in topic_entries(overrides, broker)}
    return [
        _entry(TOPICS, entries[name], has_synonyms=False) for name in hash_map_order([*entries])
    ]


def _refuse_create_partitions(body: CreatePartitionsRequest, error: ApiError) -> Values:
    """Refuse CreatePartitions."""
    return {"results": [{"name": one.name, **error_fields(error)} for one in body.topics]}


def _refuse_describe_configs(body: DescribeConfigsRequest, error: ApiError) -> Values:
    """Refuse DescribeConfigs."""
    return {
        "results": [{**_named(one), **error_fields(error), "configs": ()} for one in body.resources]
    }


def _refuse_alter_configs(body: _AlterRequest, error: ApiError) -> Values:
    """Refuse AlterConfigs or IncrementalAlterConfigs."""
    return {"responses": [{**_named(one), **error_fields(error)} for one in body.resources]}


def _describe_configs(admin: ListenerAdmin, asked: Asked) -> Values:
    """Describe the configs of topics and of the broker that received the request."""
    if any(one.resource_type not in _KNOWN for one in asked.body.resources):
        return _refuse_describe_configs(asked.body, ApiError(Errors.INVALID_REQUEST, _MALFORMED))
    has_synonyms = getattr(asked.body, "include_synonyms", False)
    return {
        "results": [
            _described(admin, asked.broker_id, resource, has_synonyms=has_synonyms)
            for resource in asked.body.resources
        ]
    }


def _alter_configs(admin: ListenerAdmin, asked: Asked) -> Values:
    """Replace all overrides of topics and of the broker that received the request."""
    if any(config.value is None for one in asked.body.resources for config in one.configs):
        return _refuse_alter_configs(asked.body, ApiError(Errors.UNKNOWN_SERVER_ERROR))

    def changes(
        resource: ConfigResource, configs: Iterable[replacing.AlterableConfig]
    ) -> Mapping[str, str | None]:
        existing = admin.overrides([resource])[resource]
        return {**dict.fromkeys(existing), **{one.name: one.value for one in configs}}

    return _altered(admin, asked, changes)


def _incremental_alter_configs(admin: ListenerAdmin, asked: Asked) -> Values:
    """Change single configs of topics and of the broker that received the request."""

    def changes(
        resource: ConfigResource, configs: Iterable[incremental.AlterableConfig]
    ) -> Mapping[str, str | None]:
        existing = admin.overrides([resource])[resource]
        return {one.name: _changed(resource, one, existing.get(one.name)) for one in configs}

    return _altered(admin, asked, changes, _check_operations)


def _check_operations(configs: Iterable[incremental.AlterableConfig]) -> None:
    """Raise InvalidRequest if a config has two operations, or an operation lacks its value."""
    twice = duplicates([one.name for one in configs], string_hash)
    if twice:
        raise InvalidRequest(f"Error due to duplicate config keys : {','.join(twice)}")
    nulls = [
        f"{_operation(one.config_operation).name}:{one.name}"
        for one in configs
        if one.value is None and _operation(one.config_operation) is not _Operation.DELETE
    ]
    if nulls:
        raise InvalidRequest(f"Null value not supported for : {','.join(nulls)}")


def _operation(code: int) -> _Operation:
    if code not in range(len(_Operation)):
        raise InvalidRequest(f"Unsupported operation: {code}")
    return _Operation(code)


def _changed(
    resource: ConfigResource, change: incremental.AlterableConfig, existing: str | None
) -> str | None:
    """Return the value of a config after a change, or None if the change removes the config."""
    operation, name = _operation(change.config_operation), change.name
    if operation is _Operation.DELETE:
        return None
    value = change.value
    assert value is not None, "_check_operations refuses null"
    if operation is _Operation.SET:
        return value
    config = _configs(resource.entity_type).get(name)
    if config is None:
        raise AdminError(f"key not found: {name}")
    if config.type is not Type.LIST:
        raise InvalidRequest(
            f"Config value {operation.name.lower()} is not allowed for config key: {name}"
        )
    before = existing if existing is not None else config.default or ""
    values, given = java_split(before, ","), java_split(value, ",")
    if operation is _Operation.APPEND:
        return ",".join(values + given)
    for one in given:
        if one in values:
            values.remove(one)
    return ",".join(values)


def _altered(
    admin: ListenerAdmin,
    asked: Asked,
    changes: Callable[[ConfigResource, Iterable[_C]], Mapping[str, str | None]],
    check: Callable[[Iterable[_C]], None] = lambda _: None,
) -> Values:
    if any(one.resource_type not in _KNOWN for one in asked.body.resources):
        unknown = ApiError(Errors.INVALID_REQUEST, "Unexpected resource type UNKNOWN")
        return _refuse_alter_configs(asked.body, unknown)
    responses = []
    for one in asked.body.resources:
        error = ApiError()
        try:
            check(one.configs)
            resource = _resource(one, asked.broker_id, str(asked.broker_id))
            admin.incremental_alter_configs(
                {resource: changes(resource, one.configs)}, validate_only=asked.body.validate_only
            )
        except KlammError as failure:
            error = api_error(failure)
        responses.append({**_named(one), **error_fields(error)})
    return {"responses": responses}


def _described(
    admin: ListenerAdmin, broker_id: int, asked: DescribeConfigsResource, *, has_synonyms: bool
) -> Values:
    error = ApiError()
    entries: Sequence[ConfigEntry] = ()
    try:
        resource = _resource(asked, broker_id, f"{broker_id} or empty string")
        entries = admin.describe_configs(resource)
    except UnknownTopicOrPartition as failure:
        # Kafka adds no words here, and its tools print what they get.
        error = ApiError(failure.code, "")
    except InvalidConfig:
        # Of a stored value, which Kafka does not expect to be invalid.
        error = ApiError(Errors.UNKNOWN_SERVER_ERROR)
    except KlammError as failure:
        error = api_error(failure)
    names = asked.configuration_keys
    return {
        **_named(asked),
        **error_or_empty(error),
        "configs": [
            _entry(resource.entity_type, entry, has_synonyms=has_synonyms)
            for entry in entries
            if not names or entry.name in names
        ],
    }


def _resource(asked: _Resource, broker_id: int, expected: str) -> ConfigResource:
    """Return the resource of a request. Raises InvalidRequest unless it is this broker's."""
    kind, name = _KINDS.get(asked.resource_type), asked.resource_name
    if kind is None:
        raise InvalidRequest("klamm's brokers have no loggers")
    if kind == TOPICS:
        return ConfigResource(TOPICS, name)
    resource = checked_resource(ConfigResource(BROKERS, name or DEFAULT_ENTITY))
    if resource.name not in (str(broker_id), DEFAULT_ENTITY):
        raise InvalidRequest(f"Unexpected broker id, expected {expected}, but received {name}")
    return resource


def _entry(entity_type: str, entry: ConfigEntry, *, has_synonyms: bool) -> Values:
    known = _configs(entity_type).get(entry.name)
    # Kafka's list of dynamic configs lacks the throttled rates.
    is_dynamic = known is not None and known.dynamic and entry.name not in THROTTLED_RATES
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": not (entity_type == TOPICS or is_dynamic),
        "config_source": _SOURCES[entry.source],
        "is_default": entry.source is ConfigSource.DEFAULT_CONFIG,
        "is_sensitive": False,
        "config_type": 0 if known is None else _TYPES[known.type],
        "documentation": None,
        "synonyms": [
            {"name": one.name, "value": one.value, "source": _SOURCES[one.source]}
            for one in (entry.synonyms if has_synonyms else ())
        ],
    }


def _configs(entity_type: str) -> Mapping[str, Config]:
    return TOPIC_CONFIGS if entity_type == TOPICS else BROKER_CONFIGS


def _named(asked: _Resource) -> Values:
    return {"resource_type": asked.resource_type, "resource_name": asked.resource_name}


APIS: Final = (
    ListenerCall(32, range(5), _describe_configs, _refuse_describe_configs),
    ListenerCall(33, range(3), _alter_configs, _refuse_alter_configs),
    ListenerCall(37, range(4), _create_partitions, _refuse_create_partitions),
    ListenerCall(44, range(2), _incremental_alter_configs, _refuse_alter_configs),
)
