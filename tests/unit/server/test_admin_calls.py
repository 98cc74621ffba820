"""The calls of KafkaAdmin over HTTP: arguments and results are the same on both sides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from inspect import signature
from typing import Any, cast

import msgspec
import pytest

from klamm.admin.admin_channel import AdminChannel
from klamm.admin.configs.config_resource import ConfigResource
from klamm.admin.configs.configs_admin import ConfigEntry, ConfigSource, ConfigSynonym
from klamm.admin.kafka_admin import KafkaAdmin, LogDirDescription, ReplicaLogDirs
from klamm.admin.topic_description import PartitionDescription, TopicDescription
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import UsageError
from klamm.cluster.requests import (
    ApiError,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    NewPartitions,
    ReplicaInfo,
)
from klamm.cluster.types import (
    ElectionType,
    ReplicaAssignment,
    TopicPartition,
    TopicPartitionReplica,
)
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.server.admin_bodies import (
    AlterLogDirs,
    AlterReassignments,
    ConfigsOfEntities,
    Entity,
    EntityConfigs,
    PartitionEntry,
    PartitionsOrAll,
    WantedLogDir,
    WantedReplicas,
)
from klamm.server.admin_calls import CALLS, AdminCall, http_admin
from klamm.server.entries import field_types

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
R0 = TopicPartitionReplica("t", 0, 2)
TOPIC = ConfigResource("topics", "t")
RESULTS = {T0: ApiError(), T1: ApiError(Errors.ELECTION_NOT_NEEDED, "as it is")}
LOG_DIRS = {1: {"/a": LogDirDescription(None, {T0: ReplicaInfo(5, 1, True)})}}
CREATE = CreateTopicsRequest((CreatableTopic("t", 3, 2),), 500)
DESCRIPTION = TopicDescription(
    "t", "id", {"a": "1"}, (PartitionDescription("t", 0, 1, (1,), (1,)),)
)
SYNONYM = ConfigSynonym(ConfigSource.DYNAMIC_TOPIC_CONFIG, "retention.ms", "7")

Given = Mapping[str, Any]
EXAMPLES: Mapping[str, tuple[Given, Any]] = {
    "live_brokers": ({}, [BrokerMetadata(1, "r"), BrokerMetadata(2)]),
    "list_topics": ({}, ["a", "b"]),
    "create_topics": (
        {"request": CREATE},
        CreateTopicsResponse((CreatableTopicResult("t", Errors.INVALID_PARTITIONS, "no"),)),
    ),
    "describe_topics": ({"topics": ("t",)}, [DESCRIPTION]),
    "create_partitions": ({"topics": {"t": NewPartitions(3, ((1,),))}, "timeout_ms": 5}, {}),
    "delete_topics": ({"topics": ("t", "u"), "timeout_ms": 5}, {}),
    "list_partition_reassignments": (
        {"partitions": [T1, T0]},
        {T0: ReplicaAssignment((1, 2), (2,), (1,))},
    ),
    "alter_partition_reassignments": (
        {"reassignments": {T1: (2, 3), T0: None}, "timeout_ms": 5},
        {T1: ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION)},
    ),
    "elect_leaders": (
        {"election_type": ElectionType.UNCLEAN, "partitions": None, "timeout_ms": 5},
        RESULTS,
    ),
    "describe_log_dirs": ({"brokers": (1,)}, LOG_DIRS),
    "describe_replica_log_dirs": ({"replicas": [R0]}, {R0: ReplicaLogDirs("/a", "/b")}),
    "alter_replica_log_dirs": ({"replicas": {R0: "/b"}}, {R0: ApiError(Errors.LOG_DIR_NOT_FOUND)}),
    "incremental_alter_configs": (
        {"entities": {TOPIC: {"retention.ms": "7", "flush.ms": None}}},
        {TOPIC: {"retention.ms": "7"}},
    ),
    "describe_configs": ({"resource": TOPIC}, [ConfigEntry("retention.ms", "7", (SYNONYM,))]),
    "overrides": ({"entities": [TOPIC]}, {TOPIC: {"retention.ms": "7"}}),
}


class Admin:
    """A KafkaAdmin behind the HTTP API, without a socket; every call has the same ``result``."""

    def __init__(self, result: Any, calls: Iterable[AdminCall] = CALLS) -> None:
        self.asked: list[tuple[str, list[Any]]] = []
        self._calls = {call.route: call for call in calls}
        self._result = result

    def request(self, method: str, path: str, body: object) -> bytes:
        """Answer a request as the HTTP server does."""
        call, sent = self._calls[f"{method} {path}"], msgspec.json.encode(body)
        wanted = None if call.body is None else msgspec.json.decode(sent, type=call.body)
        return msgspec.json.encode(call.answer_to(cast(KafkaAdmin, self), wanted))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.asked.append((name, [*arguments, *named.values()]))
            return self._result

        return call


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_call_has_the_same_arguments_and_result_on_both_sides(name: str) -> None:
    given, result = EXAMPLES[name]
    admin = Admin(result)
    assert getattr(http_admin(admin.request), name)(**given) == result
    assert admin.asked == [(name, list(given.values()))]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.route)
def test_every_field_of_a_body_is_an_argument_of_the_call(call: AdminCall) -> None:
    if call.body not in (None, Entity, CreateTopicsRequest):
        assert field_types(call.body).keys() <= signature(call.call).parameters.keys()


def test_a_get_request_has_no_body_and_its_description_none() -> None:
    found = [call for call in CALLS if call.route.startswith("GET ")]
    assert found and not any(call.body or "body" in call.about for call in found)


def test_every_public_method_of_the_admin_is_a_call() -> None:
    methods = {name for name in vars(KafkaAdmin) if not name.startswith("_")}
    assert methods == {call.call.__name__ for call in CALLS}


def test_every_call_has_an_example() -> None:
    assert EXAMPLES.keys() == {call.call.__name__ for call in CALLS}


def test_refused_topics_come_with_code_and_message() -> None:
    admin = Admin({"t": ApiError(Errors.INVALID_PARTITIONS, "no")})
    [(topic, failure)] = http_admin(admin.request).delete_topics(["t"], 5).items()
    assert (topic, failure.error, failure.message) == ("t", Errors.INVALID_PARTITIONS, "no")


def test_results_are_sorted_and_requests_keep_their_order() -> None:
    admin = Admin({T1: ApiError(), T0: ApiError()})
    http_admin(admin.request).alter_partition_reassignments({T1: (1,), T0: (2,)}, 5)
    assert list(admin.asked[0][1][0]) == [T1, T0]
    alter = next(call for call in CALLS if call.operation == "alter_reassignments")
    answer = alter.answer_to(cast(KafkaAdmin, admin), AlterReassignments(()))
    assert [one.partition for one in answer.partitions] == [0, 1]


def test_config_overrides_are_in_the_order_of_the_request() -> None:
    asked = [ConfigResource("topics", "u"), TOPIC, ConfigResource("brokers", "1")]
    admin = Admin({entity: {"b": "1", "a": "2"} for entity in asked})
    assert list(http_admin(admin.request).overrides(asked)) == asked


@pytest.mark.parametrize(
    ("operation", "body", "message"),
    [
        (
            "alter_reassignments",
            AlterReassignments((WantedReplicas("t", 0, (1,)), WantedReplicas("t", 0, None))),
            "topic t, partition 0 is listed twice",
        ),
        (
            "alter_log_dirs",
            AlterLogDirs((WantedLogDir("t", 0, 1, "x"), WantedLogDir("t", 0, 1, "/a"))),
            "topic t, partition 0, broker 1 is listed twice",
        ),
        (
            "alter_configs",
            ConfigsOfEntities(
                (EntityConfigs("topics", "t", {"a": "1"}), EntityConfigs("topics", "t", {}))
            ),
            "type topics, name t is listed twice",
        ),
    ],
)
def test_a_key_named_twice_is_refused(operation: str, body: object, message: str) -> None:
    call, admin = next(one for one in CALLS if one.operation == operation), Admin({})
    with pytest.raises(UsageError, match=f"^{message}$"):
        call.answer_to(cast(KafkaAdmin, admin), body)
    assert not admin.asked


def test_an_unknown_call_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="unregister_broker"):
        http_admin(Admin(None).request).unregister_broker(1)  # type: ignore[attr-defined]


# A new call, by the steps in CONTRIBUTING.md.


class GrownAdmin(KafkaAdmin):
    """Step 1: a method."""

    def count_replicas(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Return how many replicas partitions have."""
        return {tp: tp.partition + 1 for tp in partitions}


class ReplicaCount(PartitionEntry, frozen=True, forbid_unknown_fields=False):
    """How many replicas a partition has."""

    count: int


class ReplicaCounts(msgspec.Struct, frozen=True):
    """Answer of POST /replicas/count."""

    partitions: list[ReplicaCount]


# Step 2: a row of the table.
COUNT = AdminCall(
    GrownAdmin.count_replicas,
    "POST /replicas/count",
    PartitionsOrAll,
    ReplicaCounts,
    "count_replicas",
    "How many replicas partitions have.",
)


def test_a_new_call_is_a_method_and_a_row_of_the_table() -> None:
    admin = GrownAdmin(cast(AdminChannel, None), {})

    def request(method: str, path: str, body: object) -> bytes:
        wanted = msgspec.json.decode(msgspec.json.encode(body), type=COUNT.body)
        return msgspec.json.encode(COUNT.answer_to(admin, wanted))

    assert COUNT.ask(request, [T1, T0]) == admin.count_replicas([T0, T1])
