"""The admin APIs of klamm's listeners, asked in the bytes of Kafka's protocol."""

from __future__ import annotations

import io
import socket
import struct
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from klamm.cluster.requests import CreatableTopic, CreateTopicsRequest
from klamm.lab.actions.actions import Pause, Resume
from klamm.server.cluster_server import ClusterServer
from klamm.wire.schema import fill
from klamm.zk.embedded import EmbeddedZooKeeper
from tests.listeners import BROKERS, config_of, free_ports, place

TIMEOUT = timedelta(seconds=10)
CREATE_PARTITIONS, ELECT_LEADERS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS = 37, 43, 45, 46
DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 32, 33, 44
ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS = 34, 35
DESCRIBE_QUOTAS, ALTER_QUOTAS = 48, 49
METADATA, CREATE_TOPICS, DELETE_TOPICS = 3, 19, 20
TOPIC, BROKER = 2, 4
FOR_CONTROLLER = {
    CREATE_PARTITIONS: (
        3,
        {
            "topics": [{"name": "t", "count": 5, "assignments": None}],
            "timeout": TIMEOUT,
            "validate_only": False,
        },
    ),
    ELECT_LEADERS: (
        2,
        {
            "election_type": 0,
            "topic_partitions": [{"topic": "t", "partitions": [0]}],
            "timeout": TIMEOUT,
        },
    ),
    ALTER_REASSIGNMENTS: (
        0,
        {"timeout": TIMEOUT, "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]},
    ),
    LIST_REASSIGNMENTS: (0, {"timeout": TIMEOUT, "topics": None}),
}


@pytest.fixture(scope="module")
def server(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterServer]:
    chroot = f"{zookeeper.connect_string}/admin-apis-{uuid.uuid4().hex}"
    folder = tmp_path_factory.mktemp("klamm")
    with ClusterServer(config_of(chroot, folder, str(free_ports(BROKERS)))) as opened:
        yield opened


def topic(server: ClusterServer, name: str, replicas: tuple[int, ...] = (0, 1)) -> str:
    created = CreatableTopic(name, assignments={0: replicas})
    server.admin.create_topics(CreateTopicsRequest((created,), 10_000))
    return name


def controller(server: ClusterServer) -> int:
    answer = ask(server, 0, 60, 0, {"include_cluster_authorized_operations": False})
    return int(answer.controller_id)


def send(connection: socket.socket, key: int, version: int, values: dict[str, Any]) -> None:
    schema = load_request_schema(key, version)
    header: type[Any] = schema.__header_schema__
    buffer = io.BytesIO()
    entity_writer(header)(
        buffer,
        header(
            request_api_key=key, request_api_version=version, correlation_id=7, client_id="test"
        ),
    )
    entity_writer(schema)(buffer, fill(schema, values))
    connection.sendall(struct.pack(">i", len(buffer.getvalue())) + buffer.getvalue())


def receive(connection: socket.socket, key: int, version: int) -> Any:
    with connection.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4))
        frame = memoryview(stream.read(size))
    schema = load_response_schema(key, version)
    header, start = entity_reader(schema.__header_schema__)(frame, 0)
    assert header.correlation_id == 7
    body, size = entity_reader(schema)(frame, start)
    assert start + size == len(frame)
    return body


def ask(
    server: ClusterServer, broker_id: int, key: int, version: int, values: dict[str, Any]
) -> Any:
    """Return the response of a broker, in kio's schema."""
    with socket.create_connection(place(server, broker_id), timeout=30) as connection:
        send(connection, key, version, values)
        return receive(connection, key, version)


def errors(answer: Any) -> list[tuple[str, str | None]]:
    return [(one.error_code.name, one.error_message) for one in answer]


def configs(server: ClusterServer, broker_id: int, kind: int, name: str, version: int = 4) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    values = {"resources": [resource], "include_synonyms": True}
    (result,) = ask(server, broker_id, DESCRIBE_CONFIGS, version, values).results
    return result


@pytest.mark.parametrize(
    ("key", "version"),
    [
        *((DESCRIBE_CONFIGS, version) for version in range(5)),
        *((CREATE_PARTITIONS, version) for version in range(4)),
        *((ALTER_CONFIGS, version) for version in range(3)),
        *((INCREMENTAL_ALTER_CONFIGS, version) for version in range(2)),
        *((DESCRIBE_LOG_DIRS, version) for version in range(3)),
        *((ALTER_REPLICA_LOG_DIRS, version) for version in range(3)),
        *((DESCRIBE_QUOTAS, version) for version in range(2)),
        *((ALTER_QUOTAS, version) for version in range(2)),
        *((ELECT_LEADERS, version) for version in range(3)),
    ],
)
def test_every_version_of_an_empty_request_is_answered(
    server: ClusterServer, key: int, version: int
) -> None:
    values = {
        "resources": [],
        "components": [],
        "strict": True,
        "entries": [],
        "topics": [],
        "election_type": 0,
        "topic_partitions": [],
        "dirs": [],
        "timeout": TIMEOUT,
        "validate_only": False,
    }
    assert ask(server, controller(server), key, version, values).__version__ == version


def test_only_the_controller_adds_partitions_and_every_topic_has_a_result(
    server: ClusterServer,
) -> None:
    topic(server, "added")
    values = {
        "topics": [
            {"name": "added", "count": 3, "assignments": None},
            {"name": "absent", "count": 3, "assignments": None},
            *[{"name": "twice", "count": 3, "assignments": None}] * 2,
        ],
        "timeout": TIMEOUT,
        "validate_only": False,
    }
    results = ask(server, controller(server), CREATE_PARTITIONS, 3, values).results
    assert [one.name for one in results] == ["added", "absent", "twice"]
    assert errors(results) == [
        ("none", None),
        ("unknown_topic_or_partition", "The topic 'absent' does not exist."),
        ("invalid_request", "Duplicate topic in request."),
    ]
    assert len(server.admin.describe_topics(["added"])[0].partitions) == 3
    values |= {"topics": [{**values["topics"][0], "count": 5}], "validate_only": True}
    validated = ask(server, controller(server), CREATE_PARTITIONS, 3, values).results
    assert errors(validated) == [("none", None)]
    assert len(server.admin.describe_topics(["added"])[0].partitions) == 3


def test_a_topic_is_deleted_by_its_id(server: ClusterServer) -> None:
    topic(server, "short-lived")
    asked = {
        "topics": [{"name": "short-lived", "topic_id": None}],
        "include_topic_authorized_operations": False,
    }
    (described,) = ask(server, 0, METADATA, 11, asked).topics
    gone = {"name": None, "topic_id": described.topic_id}
    values = {"topics": [gone], "timeout": TIMEOUT}
    (deleted,) = ask(server, controller(server), DELETE_TOPICS, 6, values).responses
    assert (deleted.name, deleted.topic_id) == ("short-lived", described.topic_id)
    assert deleted.error_code.name == "none"
    values["topics"] = [{**gone, "topic_id": uuid.uuid4()}]
    (unknown,) = ask(server, controller(server), DELETE_TOPICS, 6, values).responses
    assert (unknown.name, unknown.error_code.name) == (None, "unknown_topic_id")


@pytest.mark.parametrize("key", FOR_CONTROLLER)
def test_a_broker_that_is_not_the_controller_says_so(server: ClusterServer, key: int) -> None:
    version, values = FOR_CONTROLLER[key]
    other = (controller(server) + 1) % BROKERS
    answer = ask(server, other, key, version, values)
    asked = answer
    if key == CREATE_PARTITIONS:
        (asked,) = answer.results
    if key == ELECT_LEADERS:
        assert answer.error_code.name == "none"
        ((asked,),) = (topic.partition_result for topic in answer.replica_election_results)
    assert asked.error_code.name == "not_controller"


def test_configs_of_a_topic_are_set_deleted_replaced_and_described(server: ClusterServer) -> None:
    topic(server, "configured")
    resource = {"resource_type": TOPIC, "resource_name": "configured"}

    def change(key: int, version: int, entries: list[dict[str, Any]]) -> tuple[str, str | None]:
        values = {"resources": [{**resource, "configs": entries}], "validate_only": False}
        (error,) = errors(ask(server, 2, key, version, values).responses)
        return error

    def overrides() -> dict[str, str]:
        found = configs(server, 1, TOPIC, "configured").configs
        return {one.name: one.value for one in found if one.config_source == 1}

    def entry(name: str, value: str | None, operation: int = 0) -> dict[str, Any]:
        return {"name": name, "value": value, "config_operation": operation}

    both = [entry("retention.ms", "1000"), entry("cleanup.policy", "compact")]
    assert change(INCREMENTAL_ALTER_CONFIGS, 1, both) == ("none", None)
    assert overrides() == {"retention.ms": "1000", "cleanup.policy": "compact"}
    gone = [entry("retention.ms", None, operation=1)]
    assert change(INCREMENTAL_ALTER_CONFIGS, 0, gone) == ("none", None)
    assert overrides() == {"cleanup.policy": "compact"}
    more = [entry("cleanup.policy", "delete", operation=2)]
    assert change(INCREMENTAL_ALTER_CONFIGS, 1, more) == ("none", None)
    assert overrides() == {"cleanup.policy": "compact,delete"}
    assert change(ALTER_CONFIGS, 2, [entry("retention.ms", "5")]) == ("none", None)
    assert overrides() == {"retention.ms": "5"}

    for key, entries, message in (
        (INCREMENTAL_ALTER_CONFIGS, [entry("retention.ms", None)], "Null value not supported for"),
        (INCREMENTAL_ALTER_CONFIGS, both + both, "Error due to duplicate config keys"),
        (INCREMENTAL_ALTER_CONFIGS, [entry("retention.ms", "1", operation=2)], "Config value app"),
    ):
        code, words = change(key, 1, entries)
        assert (code, str(words)[: len(message)]) == ("invalid_request", message)
    assert change(ALTER_CONFIGS, 1, [entry("retention.ms", "x")])[0] in (
        "invalid_request",
        "invalid_config",
    )
    assert overrides() == {"retention.ms": "5"}


def test_a_broker_describes_and_changes_its_own_configs_only(server: ClusterServer) -> None:
    own = {one.name: one for one in configs(server, 1, BROKER, "1").configs}
    assert own["broker.id"].value == "1"
    assert (own["broker.id"].read_only, own["broker.id"].config_type) == (True, 3)
    unclean = own["unclean.leader.election.enable"]
    assert (unclean.read_only, unclean.config_type, unclean.config_source) == (False, 1, 5)
    other = configs(server, 1, BROKER, "2")
    assert errors([other]) == [
        (
            "invalid_request",
            "Unexpected broker id, expected 1 or empty string, but received 2",
        )
    ]
    assert errors([configs(server, 1, BROKER, "x")]) == [
        ("invalid_request", "Broker id must be an integer, but it is: x")
    ]
    assert errors([configs(server, 1, 8, "1")]) == [
        ("invalid_request", "klamm's brokers have no loggers")
    ]
    assert configs(server, 1, TOPIC, "absent").error_code.name == "unknown_topic_or_partition"
    assert configs(server, 1, BROKER, "").configs == ()
    change = {"name": "unclean.leader.election.enable", "value": "true", "config_operation": 0}
    values = {
        "resources": [{"resource_type": BROKER, "resource_name": "", "configs": [change]}],
        "validate_only": False,
    }
    (changed,) = ask(server, 1, INCREMENTAL_ALTER_CONFIGS, 1, values).responses
    assert changed.error_code.name == "none"
    values["resources"][0]["resource_name"] = "01"
    (changed,) = ask(server, 1, INCREMENTAL_ALTER_CONFIGS, 1, values).responses
    assert (changed.resource_name, changed.error_code.name) == ("01", "none")
    own = {one.name: one for one in configs(server, 1, BROKER, "+1").configs}
    assert (own[change["name"]].value, own[change["name"]].config_source) == ("true", 2)
    assert configs(server, 1, BROKER, " 1").error_code.name == "invalid_request"
    (default,) = configs(server, 2, BROKER, "").configs
    assert (default.name, default.value, default.config_source) == (change["name"], "true", 3)


def test_a_partition_is_reassigned_and_its_preferred_leader_elected(server: ClusterServer) -> None:
    topic(server, "moved", (0, 1))
    at = controller(server)

    def reassign(name: str, replicas: list[int]) -> Any:
        moved = {"partition_index": 0, "replicas": replicas}
        values = {"timeout": TIMEOUT, "topics": [{"name": name, "partitions": [moved]}]}
        answer = ask(server, at, ALTER_REASSIGNMENTS, 0, values)
        assert answer.error_code.name == "none"
        ((result,),) = (one.partitions for one in answer.responses)
        return result.error_code.name

    def elect() -> dict[int, str]:
        partitions = [{"topic": "moved", "partitions": [0, 9]}]
        values = {"election_type": 0, "topic_partitions": partitions, "timeout": TIMEOUT}
        answer = ask(server, at, ELECT_LEADERS, 2, values)
        assert answer.error_code.name == "none"
        (found,) = answer.replica_election_results
        return {one.partition_id: one.error_code.name for one in found.partition_result}

    assert reassign("absent", [1, 0]) == "unknown_topic_or_partition"
    assert reassign("moved", [1, 0]) == "none"
    running = {"timeout": TIMEOUT, "topics": [{"name": "moved", "partition_indexes": [0]}]}
    while ask(server, at, LIST_REASSIGNMENTS, 0, running).topics:
        pass
    assert elect() == {0: "none", 9: "unknown_topic_or_partition"}
    assert elect() == {0: "election_not_needed", 9: "unknown_topic_or_partition"}


def test_a_broker_describes_its_log_directories_and_moves_only_to_known_ones(
    server: ClusterServer,
) -> None:
    topic(server, "logged", (1,))
    (described,) = ask(server, 1, DESCRIBE_LOG_DIRS, 2, {"topics": None}).results
    assert described.error_code.name == "none"
    assert "logged" in [one.name for one in described.topics]
    asked = {"topics": [{"topic": "logged", "partitions": [0]}]}
    (only,) = ask(server, 1, DESCRIBE_LOG_DIRS, 1, asked).results
    assert [(one.name, [log.partition_index for log in one.partitions]) for one in only.topics] == [
        ("logged", [0])
    ]
    moves = {
        "dirs": [{"path": "/absent", "topics": [{"name": "logged", "partitions": [0]}]}],
    }
    (moved,) = ask(server, 1, ALTER_REPLICA_LOG_DIRS, 1, moves).results
    assert (moved.topic_name, moved.partitions[0].error_code.name) == (
        "logged",
        "log_dir_not_found",
    )


def test_quotas_are_kept_filtered_and_refused(server: ClusterServer) -> None:
    def entity(**names: str | None) -> list[dict[str, Any]]:
        return [
            {"entity_type": one.replace("_", "-"), "entity_name": name}
            for one, name in names.items()
        ]

    def alter(of: list[dict[str, Any]], key: str, value: float | None) -> tuple[str, str | None]:
        op = {"key": key, "value": value or 0.0, "remove": value is None}
        values = {"entries": [{"entity": of, "ops": [op]}], "validate_only": False}
        (error,) = errors(ask(server, 2, ALTER_QUOTAS, 1, values).entries)
        return error

    def described(*components: tuple[str, int, str | None], strict: bool = True) -> Any:
        values = {
            "components": [
                {"entity_type": one, "match_type": match_type, "match": match}
                for one, match_type, match in components
            ],
            "strict": strict,
        }
        answer = ask(server, 1, DESCRIBE_QUOTAS, 1, values)
        if answer.error_code.name != "none":
            return errors([answer])[0]
        return {
            frozenset((part.entity_type, part.entity_name) for part in one.entity): {
                value.key: value.value for value in one.values
            }
            for one in answer.entries
        }

    rate, percentage = "producer_byte_rate", "request_percentage"
    alice, everyone = {("user", "alice,=")}, {("user", None)}
    both, local = {*alice, ("client-id", "app")}, {("ip", "127.0.0.1")}
    assert alter(entity(user="alice,="), rate, 1024.0) == ("none", None)
    assert alter(entity(user=None), percentage, 12.5) == ("none", None)
    assert alter(entity(user="alice,=", client_id="app"), rate, 1.0) == ("none", None)
    assert alter(entity(ip="127.0.0.1"), "connection_creation_rate", 5.0) == ("none", None)
    assert described(("user", 2, None)) == {
        frozenset(alice): {rate: 1024.0},
        frozenset(everyone): {percentage: 12.5},
    }
    assert described(("user", 0, "alice,=")).keys() == {frozenset(alice)}
    assert described(("user", 1, None)).keys() == {frozenset(everyone)}
    assert described(("client-id", 0, "app"), strict=False).keys() == {frozenset(both)}
    assert described().keys() == set()
    assert described(strict=False).keys() == set(map(frozenset, (alice, everyone, both, local)))
    assert alter(entity(user=None), percentage, None) == ("none", None)
    assert described(("user", 1, None)) == {}

    for of, key, value, message in (
        (entity(user="a"), rate, 0.5, f"Configuration {rate} must be a LONG value"),
        (entity(user="a"), rate, 2.0**64, f"Configuration {rate} must be a LONG value"),
        (entity(user="a"), "SCRAM-SHA-256", 1.0, "Invalid configuration key SCRAM-SHA-256"),
        (entity(user=""), rate, 1.0, "Empty user not supported"),
        (entity(), rate, 1.0, "Invalid empty client quota entity"),
        (entity(topic="t"), rate, 1.0, "Unhandled client quota entity type: topic"),
        (entity(ip="no host"), rate, 1.0, "no%20host is not a valid IP or resolvable host."),
    ):
        assert alter(of, key, value) == ("invalid_request", message)
    assert described(("user", 2, None), ("ip", 2, None))[0] == "invalid_request"
    assert described(("user", 2, None), ("user", 2, None))[0] == "invalid_request"
    assert described(("topic", 2, None)) == (
        "unsupported_version",
        "Custom entity type 'topic' not supported",
    )


def test_there_are_no_acls_and_no_sasl(server: ClusterServer) -> None:
    filters = {"resource_type_filter": 2, "operation": 2, "permission_type": 3}
    anyone = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    given = {"resource_type": 2, "resource_name": "t", "principal": "User:a", "host": "*"}
    values = {
        **{**filters, **anyone},
        "filters": [{**filters, **anyone}] * 2,
        "creations": [{**given, "operation": 2, "permission_type": 3}] * 2,
        "mechanism": "PLAIN",
        "auth_bytes": b"x",
    }
    disabled = ("security_disabled", "No Authorizer is configured on the broker.")
    for version in range(3):
        assert errors([ask(server, 0, 29, version, values)]) == [
            ("security_disabled", "No Authorizer is configured on the broker")
        ]
        assert errors(ask(server, 0, 30, version, values).results) == [disabled] * 2
        assert errors(ask(server, 0, 31, version, values).filter_results) == [disabled] * 2
        answer = ask(server, 0, 36, version, values)
        assert answer.error_code.name == "illegal_sasl_state"
    for version in range(2):
        answer = ask(server, 0, 17, version, values)
        assert (answer.error_code.name, answer.mechanisms) == ("illegal_sasl_state", ())


def test_a_created_topic_is_described(server: ClusterServer) -> None:
    """With its configs from version 5 on, also if it is only validated."""

    def created(
        version: int, name: str, *, is_tried: bool = False, retention: str | None = "7"
    ) -> Any:
        configs = [{"name": "retention.ms", "value": retention}]
        topics = [
            {
                **{"name": one, "num_partitions": 3, "replication_factor": 2},
                **{"assignments": [], "configs": configs},
            }
            for one in (name, "a b")
        ]
        values = {"topics": topics, "timeout": TIMEOUT, "validate_only": is_tried}
        return ask(server, controller(server), CREATE_TOPICS, version, values).topics

    assert not hasattr(created(4, "without")[0], "configs")
    for version, is_tried in ((5, True), (5, False), (7, False)):
        topic, refused = created(version, f"with-{version}", is_tried=is_tried)
        assert (topic.num_partitions, topic.replication_factor) == (3, 2)
        assert (topic.topic_config_error_code, len(topic.configs)) == (0, 26)
        assert {one.name: one.value for one in topic.configs if one.config_source == 1} == {
            "retention.ms": "7"
        }
        assert (refused.num_partitions, refused.replication_factor) == (-1, -1)
        assert (refused.topic_config_error_code, refused.configs) == (0, ())
    null = created(7, "null", retention=None)[0]
    assert null.error_message == "Null value not supported for topic configs : retention.ms"


def test_configs_are_described_in_kafkas_order(server: ClusterServer) -> None:
    topic(server, "ordered")
    # Both are in the same bucket of the client's HashMap, which keeps their order.
    names = [one.name for one in configs(server, 0, TOPIC, "ordered").configs]
    assert names.index("segment.bytes") < names.index("retention.ms")


def test_a_topic_without_a_name_has_no_configs(server: ClusterServer) -> None:
    answer = configs(server, 0, TOPIC, "")
    assert answer.error_code.name == "invalid_topic_exception"
    assert answer.error_message == "Topic name is illegal, it can't be empty"


def test_a_paused_broker_does_not_describe_configs(server: ClusterServer) -> None:
    with socket.create_connection(place(server, 2), timeout=1) as connection:
        server.operations.perform(Pause(2))
        try:
            values = {"resources": [], "include_synonyms": False}
            send(connection, DESCRIBE_CONFIGS, 1, values)
            with pytest.raises(TimeoutError):
                connection.recv(1)
        finally:
            server.operations.perform(Resume(2))
        connection.settimeout(30)
        assert receive(connection, DESCRIBE_CONFIGS, 1).results == ()
