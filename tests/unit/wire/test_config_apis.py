"""What a listener answers to CreatePartitions and to the requests of configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from klamm.admin.configs.config_resource import BROKERS, TOPICS, ConfigResource
from klamm.admin.configs.configs_admin import ConfigEntry, ConfigSource, ConfigSynonym
from klamm.admin.configs.effective_configs import BrokerConfigs
from klamm.admin.failures import InvalidConfiguration
from klamm.admin.kafka_admin import ListenerAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataResponse
from klamm.cluster.configs import THROTTLED_RATES
from klamm.cluster.errors import (
    AdminError,
    InvalidConfig,
    StoreError,
    UnknownTopicOrPartition,
    UsageError,
)
from klamm.cluster.requests import (
    ApiError,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    NewPartitions,
)
from klamm.wire.api import Api, Asked, ListenerCall
from klamm.wire.apis import APIS
from klamm.wire.config_apis import MAX_WAIT_MS

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
ME = 1
OF_T, OF_ME, OF_ALL = (
    ConfigResource(TOPICS, "t"),
    ConfigResource(BROKERS, "1"),
    ConfigResource(BROKERS, "<default>"),
)


class PlayedAdmin:
    """``changed`` and ``created`` are the calls; ``failure`` is raised by all of them."""

    def __init__(self) -> None:
        self.changed: list[Mapping[ConfigResource, Mapping[str, str | None]]] = []
        self.created: list[tuple[Mapping[str, NewPartitions], int]] = []
        self.validate_only: list[bool] = []
        self.failure: Exception | None = None
        self.refused: dict[str, ApiError] = {}
        self.existing: dict[ConfigResource, dict[str, str]] = {}
        self.entries: dict[ConfigResource, Sequence[ConfigEntry]] = {}

    def incremental_alter_configs(
        self, entities: Mapping[ConfigResource, Mapping[str, str | None]], *, validate_only: bool
    ) -> None:
        self.changed.append(entities)
        self.validate_only.append(validate_only)
        self.fail()

    def overrides(self, entities: Sequence[ConfigResource]) -> Mapping[ConfigResource, Any]:
        return {entity: self.existing.get(entity, {}) for entity in entities}

    def describe_configs(self, resource: ConfigResource) -> Sequence[ConfigEntry]:
        self.fail()
        return self.entries[resource]

    def broker_configs(self, broker_id: int) -> BrokerConfigs:
        assert broker_id == ME
        self.fail()
        static = {"log.index.size.max.bytes": "4000", "min.insync.replicas": "2"}
        return BrokerConfigs({"unclean.leader.election.enable": "TRUE"}, static=static)

    def create_partitions(
        self, wanted: Mapping[str, NewPartitions], timeout_ms: int, *, validate_only: bool
    ) -> Mapping[str, ApiError]:
        self.created.append((wanted, timeout_ms))
        self.validate_only.append(validate_only)
        self.fail()
        return self.refused

    def fail(self) -> None:
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def admin() -> PlayedAdmin:
    return PlayedAdmin()


def answer(admin: PlayedAdmin, key: int, body: Any, controller: int = ME) -> Any:
    api = APIS[key, 0]
    assert isinstance(api, ListenerCall)
    return api.answer(
        cast("ListenerAdmin", admin), Asked(body, ME, MetadataResponse((), controller, ()))
    )


# -- CreateTopics

OF_TOPIC, OF_BROKER, OF_BROKERS, STATIC, UNSET = range(1, 6)
CREATED = [
    ("compression.type", "producer", UNSET),
    ("leader.replication.throttled.replicas", "", UNSET),
    ("min.insync.replicas", "2", STATIC),
    ("message.downconversion.enable", "true", UNSET),
    ("segment.jitter.ms", "0", UNSET),
    ("cleanup.policy", "delete", UNSET),
    ("flush.ms", "9223372036854775807", UNSET),
    ("follower.replication.throttled.replicas", "", UNSET),
    ("segment.bytes", "1073741824", UNSET),
    ("retention.ms", "7", OF_TOPIC),
    ("flush.messages", "9223372036854775807", UNSET),
    ("message.format.version", "2.8-IV1", UNSET),
    ("max.compaction.lag.ms", "9223372036854775807", UNSET),
    ("file.delete.delay.ms", "60000", UNSET),
    ("max.message.bytes", "1048588", UNSET),
    ("min.compaction.lag.ms", "0", UNSET),
    ("message.timestamp.type", "CreateTime", UNSET),
    ("preallocate", "false", UNSET),
    ("index.interval.bytes", "4096", UNSET),
    ("min.cleanable.dirty.ratio", "0.5", UNSET),
    ("unclean.leader.election.enable", "true", OF_BROKER),
    ("retention.bytes", "-1", UNSET),
    ("delete.retention.ms", "86400000", UNSET),
    ("segment.ms", "604800000", UNSET),
    ("message.timestamp.difference.max.ms", "9223372036854775807", UNSET),
    ("segment.index.bytes", "4000", STATIC),
]
"""In the order of a Java HashMap with the definitions of LogConfig."""


def created_topics(admin: PlayedAdmin, *results: CreatableTopicResult) -> list[Any]:
    """The topics in the response to a request that creates t and u."""
    api = APIS[19, 5]
    assert isinstance(api, Api) and api.complete is not None
    topics = (CreatableTopic("t", 1, 1, configs={"retention.ms": "07"}), CreatableTopic("u", 1, 1))
    request = CreateTopicsRequest(topics, 1000)
    response = api.response_to(request).write(CreateTopicsResponse(results))
    answer = api.complete(cast("ListenerAdmin", admin), ME, request, response)
    return list(answer["topics"])


def test_created_topics_have_their_configs(admin: PlayedAdmin) -> None:
    t, u = created_topics(
        admin,
        CreatableTopicResult("t"),
        CreatableTopicResult("u", Errors.TOPIC_ALREADY_EXISTS, "it exists"),
    )
    assert [(one["name"], one["value"], one["config_source"]) for one in t["configs"]] == CREATED
    assert all((one["read_only"], one["is_sensitive"]) == (False, False) for one in t["configs"])
    assert u["configs"] == ()


def test_configs_of_created_topics_may_be_unknown(admin: PlayedAdmin) -> None:
    admin.failure = StoreError("no")
    exists = CreatableTopicResult("u", Errors.TOPIC_ALREADY_EXISTS)
    t, u = created_topics(admin, CreatableTopicResult("t"), exists)
    assert t["configs"] is None
    assert t["topic_config_error_code"] is Errors.UNKNOWN_SERVER_ERROR
    assert u["configs"] == ()
    assert created_topics(admin, exists) == [u]


# -- CreatePartitions


def creation(
    *topics: tuple[str, int, list[list[int]] | None],
    timeout_ms: int = 5_000,
    validate_only: bool = False,
) -> SimpleNamespace:
    bodies = [
        SimpleNamespace(
            name=name,
            count=count,
            assignments=None
            if assignments is None
            else [SimpleNamespace(broker_ids=tuple(ids)) for ids in assignments],
        )
        for name, count, assignments in topics
    ]
    timeout = timedelta(milliseconds=timeout_ms)
    return SimpleNamespace(topics=bodies, timeout=timeout, validate_only=validate_only)


def created(admin: PlayedAdmin, body: SimpleNamespace, controller: int = ME) -> dict[str, Any]:
    results = answer(admin, 37, body, controller)["results"]
    return {one["name"]: (one["error_code"], one["error_message"]) for one in results}


def test_partitions_are_added_with_or_without_their_brokers(admin: PlayedAdmin) -> None:
    admin.refused = {"u": ApiError(Errors.INVALID_PARTITIONS, "no")}
    body = creation(("t", 3, None), ("u", 4, [[1, 2], [2, 3]]), timeout_ms=1_500)
    assert created(admin, body) == {
        "t": (Errors.NONE, None),
        "u": (Errors.INVALID_PARTITIONS, "no"),
    }
    wanted = {"t": NewPartitions(3), "u": NewPartitions(4, ((1, 2), (2, 3)))}
    assert admin.created == [(wanted, 1_500)]


def test_only_the_controller_adds_partitions(admin: PlayedAdmin) -> None:
    assert created(admin, creation(("t", 3, None)), controller=2) == {
        "t": (Errors.NOT_CONTROLLER, None)
    }
    assert admin.created == []


@pytest.mark.parametrize("validate_only", [False, True])
def test_partitions_can_be_validated_only(admin: PlayedAdmin, *, validate_only: bool) -> None:
    body = creation(("t", 3, None), validate_only=validate_only)
    assert created(admin, body) == {"t": (Errors.NONE, None)}
    assert admin.validate_only == [validate_only]


def test_a_topic_that_is_named_twice_is_refused_and_the_others_grow(admin: PlayedAdmin) -> None:
    body = creation(("t", 3, None), ("u", 2, None), ("t", 4, None))
    assert created(admin, body) == {
        "t": (Errors.INVALID_REQUEST, "Duplicate topic in request."),
        "u": (Errors.NONE, None),
    }
    assert admin.created == [({"u": NewPartitions(2)}, 5_000)]


def test_a_request_waits_for_added_partitions_only_so_long(admin: PlayedAdmin) -> None:
    created(admin, creation(("t", 3, None), timeout_ms=MAX_WAIT_MS + 1))
    assert admin.created[0][1] == MAX_WAIT_MS == 60_000


def test_a_failure_is_that_of_every_topic_that_was_to_grow(admin: PlayedAdmin) -> None:
    admin.failure = AdminError("too many")
    body = creation(("t", 3, None), ("u", 2, None), ("u", 2, None))
    failed = created(admin, body)
    assert failed["t"] == (Errors.UNKNOWN_SERVER_ERROR, None)
    assert failed["u"] == (Errors.INVALID_REQUEST, "Duplicate topic in request.")


# -- IncrementalAlterConfigs and AlterConfigs


def alteration(
    kind: int,
    name: str,
    *configs: tuple[str, str | None] | tuple[str, str | None, int],
    validate_only: bool = False,
) -> SimpleNamespace:
    bodies = [
        SimpleNamespace(name=one[0], value=one[1], config_operation=one[2] if one[2:] else SET)
        for one in configs
    ]
    resource = SimpleNamespace(resource_type=kind, resource_name=name, configs=bodies)
    return SimpleNamespace(resources=[resource], validate_only=validate_only)


def altered(admin: PlayedAdmin, body: SimpleNamespace, key: int = 44) -> tuple[Errors, str | None]:
    (one,) = answer(admin, key, body)["responses"]
    resource = body.resources[0]
    named = (resource.resource_type, resource.resource_name)
    assert (one["resource_type"], one["resource_name"]) == named
    return one["error_code"], one["error_message"]


@pytest.mark.parametrize(
    ("kind", "name", "entity"),
    [(TOPIC, "t", OF_T), (BROKER, "1", OF_ME), (BROKER, "01", OF_ME), (BROKER, "", OF_ALL)],
)
def test_configs_are_set_and_deleted(
    admin: PlayedAdmin, kind: int, name: str, entity: ConfigResource
) -> None:
    body = alteration(kind, name, ("a", "1"), ("b", "2", DELETE), ("c", None, DELETE))
    assert altered(admin, body) == (Errors.NONE, None)
    assert admin.changed == [{entity: {"a": "1", "b": None, "c": None}}]


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ([("a", "1", 4)], "Unsupported operation: 4"),
        ([("a", "1", -1)], "Unsupported operation: -1"),
        (
            [("retention.ms", "1", APPEND)],
            "Config value append is not allowed for config key: retention.ms",
        ),
        (
            [("retention.ms", "1", SUBTRACT)],
            "Config value subtract is not allowed for config key: retention.ms",
        ),
        ([("a", None, APPEND)], "Null value not supported for : APPEND:a"),
        (
            [(name, "1") for name in "cabdec"] + [("d", "1"), ("b", None)],
            "Error due to duplicate config keys : b,c,d",
        ),
        ([("a", None), ("b", None), ("c", "1")], "Null value not supported for : SET:a,SET:b"),
        ([("a", "1"), ("b", "1"), ("a", None, DELETE)], "Error due to duplicate config keys : a"),
    ],
)
def test_invalid_incremental_changes_are_refused_with_kafkas_texts(
    admin: PlayedAdmin, configs: list[Any], why: str
) -> None:
    assert altered(admin, alteration(TOPIC, "t", *configs)) == (Errors.INVALID_REQUEST, why)
    assert admin.changed == []


def test_operations_are_checked_before_the_broker_id(admin: PlayedAdmin) -> None:
    for change, why in (
        (("a", None), "Null value not supported for : SET:a"),
        (("a", "1"), "Unexpected broker id, expected 1, but received 2"),
    ):
        refused = (Errors.INVALID_REQUEST, why)
        assert altered(admin, alteration(BROKER, "2", change)) == refused


@pytest.mark.parametrize(
    ("kind", "name", "why"),
    [
        (BROKER_LOGGER, "1", "klamm's brokers have no loggers"),
        (BROKER, "2", "Unexpected broker id, expected 1, but received 2"),
        (BROKER, "x", "Broker id must be an integer, but it is: x"),
    ],
)
def test_a_broker_changes_only_its_own_configs_and_those_of_topics(
    admin: PlayedAdmin, kind: int, name: str, why: str
) -> None:
    body = alteration(kind, name, ("a", "1"))
    assert altered(admin, body) == (Errors.INVALID_REQUEST, why)
    assert altered(admin, body, key=33) == (Errors.INVALID_REQUEST, why)
    assert admin.changed == []


def test_an_unknown_config_has_no_values_to_change(admin: PlayedAdmin) -> None:
    body = alteration(TOPIC, "t", ("log.cleanup.policy", "1", APPEND))
    assert altered(admin, body) == (Errors.UNKNOWN_SERVER_ERROR, None)
    assert admin.changed == []


@pytest.mark.parametrize(
    ("existing", "operation", "given", "changed"),
    [
        ("compact", APPEND, "delete", "compact,delete"),
        ("compact", APPEND, "compact", "compact,compact"),
        (None, APPEND, "compact,x", "delete,compact,x"),
        ("compact,delete", SUBTRACT, "compact", "delete"),
        ("compact,delete,compact", SUBTRACT, "compact", "delete,compact"),
        ("compact", SUBTRACT, "delete", "compact"),
        ("compact", SUBTRACT, "compact", ""),
        ("", APPEND, "delete", ",delete"),
        (None, SUBTRACT, "delete", ""),
    ],
)
def test_values_are_appended_to_and_subtracted_from_lists(
    admin: PlayedAdmin, existing: str | None, operation: int, given: str, changed: str
) -> None:
    for kind, named, name, entity in (
        (TOPIC, "t", "cleanup.policy", OF_T),
        (BROKER, "1", "log.cleanup.policy", OF_ME),
    ):
        if existing is not None:
            admin.existing = {entity: {name: existing}}
        assert altered(admin, alteration(kind, named, (name, given, operation)))[0] is Errors.NONE
        assert admin.changed.pop() == {entity: {name: changed}}


@pytest.mark.parametrize("key", [33, 44])
@pytest.mark.parametrize("validate_only", [False, True])
def test_configs_can_be_validated_only(
    admin: PlayedAdmin, key: int, *, validate_only: bool
) -> None:
    body = alteration(TOPIC, "t", ("a", "1"), validate_only=validate_only)
    assert altered(admin, body, key)[0] is Errors.NONE
    assert admin.validate_only == [validate_only]


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (
            32,
            "This most likely occurs because of a request being malformed by the client library or",
        ),
        (33, "Unexpected resource type UNKNOWN"),
        (44, "Unexpected resource type UNKNOWN"),
    ],
)
def test_a_resource_of_an_unknown_type_spoils_the_request(
    admin: PlayedAdmin, key: int, why: str
) -> None:
    body = alteration(TOPIC, "t", ("a", "1")) if key != 32 else description(TOPIC, "t")
    (unknown,) = alteration(3, "g").resources
    body.resources.append(unknown)
    answers = answer(admin, key, body)["results" if key == 32 else "responses"]
    assert [one["error_code"] for one in answers] == [Errors.INVALID_REQUEST] * 2
    assert all(one["error_message"].startswith(why) for one in answers)
    assert admin.changed == []


def test_all_overrides_are_replaced(admin: PlayedAdmin) -> None:
    admin.existing = {OF_T: {"a": "0", "b": "0"}}
    body = alteration(TOPIC, "t", ("a", "1"), ("c", "2"))
    assert altered(admin, body, key=33) == (Errors.NONE, None)
    assert admin.changed == [{OF_T: {"a": "1", "b": None, "c": "2"}}]


def test_overrides_are_not_replaced_by_nulls(admin: PlayedAdmin) -> None:
    body = alteration(TOPIC, "t", ("a", None), ("b", "1"), ("c", None))
    body.resources += alteration(TOPIC, "u", ("a", "1")).resources
    answers = answer(admin, 33, body)["responses"]
    assert [one["error_code"] for one in answers] == [Errors.UNKNOWN_SERVER_ERROR] * 2
    assert admin.changed == []


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (InvalidConfiguration("bad"), (Errors.INVALID_CONFIG, "bad")),
        (UsageError("unknown"), (Errors.INVALID_REQUEST, "unknown")),
        (StoreError("gone"), (Errors.UNKNOWN_SERVER_ERROR, "gone")),
    ],
)
def test_each_resource_fails_by_itself(
    admin: PlayedAdmin, failure: Exception, error: tuple[Errors, str]
) -> None:
    admin.failure = failure
    body = alteration(TOPIC, "t", ("a", "1"))
    body.resources += alteration(BROKER, "2", ("a", "1")).resources
    first, second = answer(admin, 44, body)["responses"]
    assert (first["error_code"], first["error_message"]) == error
    assert second["error_code"] is Errors.INVALID_REQUEST


# -- DescribeConfigs


def description(
    kind: int, name: str, names: list[str] | None = None, **fields: bool
) -> SimpleNamespace:
    resource = SimpleNamespace(resource_type=kind, resource_name=name, configuration_keys=names)
    return SimpleNamespace(resources=[resource], **fields)


RETENTION = ConfigEntry(
    "retention.ms",
    "5",
    (
        ConfigSynonym(ConfigSource.DYNAMIC_TOPIC_CONFIG, "retention.ms", "5"),
        ConfigSynonym(ConfigSource.DEFAULT_CONFIG, "log.retention.hours", "168"),
    ),
)
DEFAULT = ConfigEntry(
    "unclean.leader.election.enable",
    "false",
    (ConfigSynonym(ConfigSource.DEFAULT_CONFIG, "unclean.leader.election.enable", "false"),),
)
UNKNOWN = ConfigEntry("mine", None)


def test_configs_of_a_topic_are_described(admin: PlayedAdmin) -> None:
    admin.entries = {OF_T: [RETENTION, DEFAULT, UNKNOWN]}
    body = description(TOPIC, "t", include_synonyms=True)
    (result,) = answer(admin, 32, body)["results"]
    assert (result["error_code"], result["resource_type"], result["resource_name"]) == (
        Errors.NONE,
        TOPIC,
        "t",
    )
    retention, default, unknown = result["configs"]
    assert retention == {
        "name": "retention.ms",
        "value": "5",
        "read_only": False,
        "config_source": 1,
        "is_default": False,
        "is_sensitive": False,
        "config_type": 5,
        "documentation": None,
        "synonyms": [
            {"name": "retention.ms", "value": "5", "source": 1},
            {"name": "log.retention.hours", "value": "168", "source": 5},
        ],
    }
    assert (default["is_default"], default["config_source"], default["config_type"]) == (True, 5, 1)
    assert (unknown["config_type"], unknown["is_default"]) == (0, True)


def test_only_the_configs_that_are_asked_for_are_described(admin: PlayedAdmin) -> None:
    admin.entries = {OF_T: [RETENTION, DEFAULT]}
    body = description(TOPIC, "t", [DEFAULT.name])
    (result,) = answer(admin, 32, body)["results"]
    assert [(one["name"], one["synonyms"]) for one in result["configs"]] == [(DEFAULT.name, [])]


def test_only_dynamic_configs_of_a_broker_can_be_changed(admin: PlayedAdmin) -> None:
    # Kafka takes the throttled rates for read-only, although they are dynamic.
    names = [DEFAULT.name, *THROTTLED_RATES, "broker.id", "log.retention.ms", "mine"]
    admin.entries = {OF_ME: [ConfigEntry(name, "1") for name in names]}
    (result,) = answer(admin, 32, description(BROKER, "1"))["results"]
    assert [one["name"] for one in result["configs"] if not one["read_only"]] == names[:1]


def test_an_unknown_topic_has_an_error_without_words(admin: PlayedAdmin) -> None:
    admin.failure = UnknownTopicOrPartition("topic t does not exist")
    (result,) = answer(admin, 32, description(TOPIC, "t"))["results"]
    assert result["error_code"] is Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert (result["error_message"], result["configs"]) == ("", [])


def test_a_stored_value_that_is_invalid_is_an_unexpected_error(admin: PlayedAdmin) -> None:
    admin.failure = InvalidConfig("Invalid value zz for configuration retention.ms")
    (result,) = answer(admin, 32, description(TOPIC, "t"))["results"]
    assert result["error_code"] is Errors.UNKNOWN_SERVER_ERROR
    assert (result["error_message"], result["configs"]) == (None, [])


def test_configs_of_another_broker_are_not_described(admin: PlayedAdmin) -> None:
    (result,) = answer(admin, 32, description(BROKER, "2"))["results"]
    assert result["error_code"] is Errors.INVALID_REQUEST
    assert result["error_message"] == (
        "Unexpected broker id, expected 1 or empty string, but received 2"
    )
