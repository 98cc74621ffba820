"""KafkaAdmin on a channel that answers as a test says: requests, deadlines, limits and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from klamm.admin.admin_channel import timed_out
from klamm.admin.configs.config_resource import BROKERS, TOPICS, ConfigResource
from klamm.admin.failures import InvalidRequest, message_of
from klamm.admin.kafka_admin import KafkaAdmin, LogDirDescription, ReplicaLogDirs
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataResponse, PartitionMetadata, TopicMetadata
from klamm.cluster.errors import (
    AdminError,
    PolicyViolation,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from klamm.cluster.partition_limits import PartitionLimits
from klamm.cluster.requests import (
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsResponse,
    ApiError,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsResponse,
    LogDirResult,
    NewPartitions,
    ReplicaInfo,
)
from klamm.cluster.types import (
    Broker,
    ElectionType,
    EndPoint,
    ReplicaAssignment,
    TopicPartition,
    TopicPartitionReplica,
)
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryStore
from tests.unit.tools.vectors import memory_server, put

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LIMITS = PartitionLimits(per_request=10, cluster=20)


class PlayedChannel:
    """``asked`` are all calls with their arguments; the answers are attributes."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.answer: Any = None
        self.answers: Mapping[int, Any] = {}
        self.zk = KafkaZkClient(MemoryStore(memory_server()))
        put(self.zk, "/config/changes", None)
        self.brokers = [2, 1]
        self.topics: dict[str, TopicMetadata] = {}
        self.count: int | None = 5
        self.down: set[int] = set()
        self.changed_before: Mapping[str, str] = {}
        self.clock_ms = 1_000
        self.has_leaders = True
        self.moving: dict[TopicPartition, ReplicaAssignment] = {}

    def ask_controller(
        self, call: str, request: object, kind: type, timeout_ms: int | None = None
    ) -> Any:
        self.asked.append((call, request, timeout_ms))
        assert isinstance(self.answer, kind)
        return self.answer

    def ask_brokers(self, call: str, requests: Mapping[int, object], kind: type) -> Any:
        self.asked.append((call, dict(requests)))
        return self.answers

    def await_controller(self, call: str, timeout_ms: int) -> None:
        self.asked.append(("await controller", call, timeout_ms))
        self.clock_ms += 300

    def await_broker(self, call: str, broker_id: int, timeout_ms: int | None = None) -> None:
        self.asked.append(("await broker", call, broker_id, timeout_ms))
        self.changed_before = self.zk.get_entity_configs("brokers", "2")
        if broker_id in self.down and timeout_ms is None:
            raise timed_out(call, self.clock_ms, "down")

    def no_response(self, call: str, broker_ids: Sequence[int]) -> RequestTimedOut:
        return timed_out(call, self.clock_ms, f"no response from {broker_ids}")

    def await_leaders(self, partitions: Sequence[TopicPartition], timeout_ms: int) -> bool:
        self.asked.append(("await leaders", list(partitions), timeout_ms))
        return self.has_leaders

    def is_registered(self, broker_id: int) -> bool:
        return broker_id not in self.down

    def topic_names(self) -> Sequence[str]:
        return sorted(self.topics)

    def metadata(self, topics: Sequence[str]) -> MetadataResponse:
        brokers = tuple(
            Broker(id_, (EndPoint(f"h{id_}", 9),), f"r{id_}" if id_ == 1 else None)
            for id_ in self.brokers
        )
        unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION
        found = [self.topics.get(name, TopicMetadata(unknown, name)) for name in topics]
        return MetadataResponse(brokers, 1, tuple(found))

    def partition_count(self) -> int | None:
        return self.count

    def running_reassignments(self) -> Mapping[TopicPartition, ReplicaAssignment]:
        return self.moving

    def now_ms(self) -> int:
        return self.clock_ms


@pytest.fixture
def channel() -> PlayedChannel:
    return PlayedChannel()


@pytest.fixture
def admin(channel: PlayedChannel) -> KafkaAdmin:
    return KafkaAdmin(channel, {"min.insync.replicas": "2"}, limits=LIMITS)


def of_topic(*leaders: int, name: str = "t") -> TopicMetadata:
    partitions = tuple(
        PartitionMetadata(Errors.NONE, n, leader, 0, (1, 2), (1,))
        for n, leader in enumerate(leaders)
    )
    return TopicMetadata(Errors.NONE, name, "id", partitions)


def test_topics_are_created_within_the_timeout_of_the_request(
    admin: KafkaAdmin, channel: PlayedChannel
) -> None:
    channel.answer = CreateTopicsResponse(())
    request = CreateTopicsRequest((CreatableTopic("t", 3, 1),), 7_000)
    assert admin.create_topics(request) is channel.answer
    assert channel.asked == [("createTopics", request, 7_000)]


@pytest.mark.parametrize(
    ("topics", "count", "allowed"),
    [
        ([CreatableTopic("t", 10, 1)], 10, True),
        ([CreatableTopic("t", 10, 1)], 11, False),
        ([CreatableTopic("t", 11, 1)], None, False),
        ([CreatableTopic("t", 10, 1)], None, True),
        ([CreatableTopic("t", 9, 1), CreatableTopic("u", -1, 1)], 0, True),
        ([CreatableTopic("t", 9, 1), CreatableTopic("u", -1, 1), CreatableTopic("v")], 0, False),
        ([CreatableTopic("t", assignments={n: (1,) for n in range(11)})], 0, False),
    ],
)
def test_a_request_that_exceeds_the_limit_of_partitions_is_refused(
    admin: KafkaAdmin,
    channel: PlayedChannel,
    topics: list[CreatableTopic],
    count: int | None,
    allowed: bool,
) -> None:
    channel.answer, channel.count = CreateTopicsResponse(()), count
    request = CreateTopicsRequest(tuple(topics), 1)
    if allowed:
        admin.create_topics(request)
    else:
        with pytest.raises(PolicyViolation):
            admin.create_topics(request)
        assert channel.asked == []


def test_only_the_topics_that_grow_count_for_the_limit(
    admin: KafkaAdmin, channel: PlayedChannel
) -> None:
    channel.topics = {"t": of_topic(*[1] * 9), "u": of_topic(1, name="u")}
    with pytest.raises(PolicyViolation, match="The request adds 11 partitions"):
        admin.create_partitions({"t": NewPartitions(20), "u": NewPartitions(0)}, 1_000)


def test_added_partitions_have_what_is_left_of_the_timeout(
    admin: KafkaAdmin, channel: PlayedChannel
) -> None:
    channel.topics = {"t": of_topic(1)}
    put(channel.zk, "/brokers/ids/1", None)
    put(channel.zk, "/brokers/topics/t", {"version": 1, "partitions": {"0": [1]}})
    assert admin.create_partitions({"t": NewPartitions(3)}, 5_000) == {}
    new = [T1, TopicPartition("t", 2)]
    assert channel.asked == [
        ("await controller", "createPartitions", 5_000),
        ("await leaders", new, 4_700),
    ]
    channel.has_leaders = False
    failed = admin.create_partitions({"t": NewPartitions(4)}, 5_000)
    assert failed == {"t": ApiError(Errors.REQUEST_TIMED_OUT)}
    assert admin.create_partitions({"t": NewPartitions(4)}, 5_000)["t"].message == (
        "Topic already has 4 partitions."
    )


def test_partitions_that_are_only_validated_are_not_written(
    admin: KafkaAdmin, channel: PlayedChannel
) -> None:
    channel.topics = {"t": of_topic(1)}
    put(channel.zk, "/brokers/ids/1", None)
    put(channel.zk, "/brokers/topics/t", {"version": 1, "partitions": {"0": [1]}})
    channel.has_leaders = False
    wanted = {"t": NewPartitions(3), "u": NewPartitions(2)}
    failed = admin.create_partitions(wanted, 5_000, validate_only=True)
    assert list(failed) == ["u"]
    assert channel.asked == [("await controller", "createPartitions", 5_000)]
    again = admin.create_partitions({"t": NewPartitions(1)}, 5_000, validate_only=True)
    assert again["t"].message == "Topic already has 1 partitions."


def test_a_topic_that_is_queued_for_deletion_does_not_grow(
    admin: KafkaAdmin, channel: PlayedChannel
) -> None:
    channel.topics = {"t": of_topic(1)}
    put(channel.zk, "/brokers/ids/1", None)
    put(channel.zk, "/brokers/topics/t", {"version": 1, "partitions": {"0": [1]}})
    put(channel.zk, "/admin/delete_topics/t", None)
    why = ApiError(Errors.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
    assert admin.create_partitions({"t": NewPartitions(3)}, 5_000) == {"t": why}


def test_configs_that_are_only_validated_are_not_written(
    admin: KafkaAdmin, channel: PlayedChannel
) -> None:
    channel.topics = {"t": of_topic(1)}
    put(channel.zk, "/brokers/topics/t", {"version": 1, "partitions": {"0": [1]}})
    topic, broker = ConfigResource(TOPICS, "t"), ConfigResource(BROKERS, "2")
    wanted = {topic: {"retention.ms": "7"}, broker: {"leader.replication.throttled.rate": "5"}}
    assert admin.incremental_alter_configs(wanted, validate_only=True) == {topic: {}, broker: {}}
    wrong = {topic: {"retention.ms": "x"}}
    with pytest.raises(InvalidRequest, match="Invalid config value for resource"):
        admin.incremental_alter_configs(wrong, validate_only=True)


@pytest.mark.parametrize(
    ("wanted", "definite", "retriable"),
    [
        ({"2": "5", "9": "5"}, False, True),
        ({"2": "x", "9": "5"}, True, False),
        ({"9": "5"}, True, True),
    ],
)
def test_an_error_about_one_entity_is_definite_only_if_no_other_was_changed(
    admin: KafkaAdmin,
    channel: PlayedChannel,
    wanted: Mapping[str, str],
    definite: bool,
    retriable: bool,
) -> None:
    channel.down = {9}
    entities = {
        ConfigResource(BROKERS, name): {"leader.replication.throttled.rate": rate}
        for name, rate in wanted.items()
    }
    with pytest.raises(AdminError) as raised:
        admin.incremental_alter_configs(entities)
    assert (raised.value.definite, raised.value.retriable) == (definite, retriable)
    with pytest.raises(AdminError) as raised:
        admin.incremental_alter_configs(entities, validate_only=True)
    assert raised.value.definite


def test_topics_are_deleted_within_the_timeout(admin: KafkaAdmin, channel: PlayedChannel) -> None:
    refused = DeletableTopicResult("u", Errors.TOPIC_DELETION_DISABLED)
    channel.answer = DeleteTopicsResponse((DeletableTopicResult("t"), refused))
    found = admin.delete_topics(["t", "u"], 8_000)
    assert found == {"u": ApiError(Errors.TOPIC_DELETION_DISABLED)}
    assert channel.asked == [("deleteTopics", DeleteTopicsRequest(("t", "u"), 8_000), 8_000)]


def test_leaders_are_elected_within_the_timeout(admin: KafkaAdmin, channel: PlayedChannel) -> None:
    channel.answer = ElectLeadersResponse(Errors.NONE, {T0: ApiError(Errors.NONE)})
    assert admin.elect_leaders(ElectionType.UNCLEAN, [T0], 9_000) == {T0: ApiError(Errors.NONE)}
    request = ElectLeadersRequest(ElectionType.UNCLEAN, (T0,), 9_000)
    assert channel.asked == [("electLeaders", request, 9_000)]
    admin.elect_leaders(ElectionType.PREFERRED, None, 1)
    assert channel.asked[-1][1] == ElectLeadersRequest(ElectionType.PREFERRED, None, 1)


@pytest.mark.parametrize(
    ("answer", "ask"),
    [
        (
            ElectLeadersResponse(Errors.NOT_CONTROLLER, {}),
            lambda admin: admin.elect_leaders(ElectionType.PREFERRED, None, 1),
        ),
        (
            ListPartitionReassignmentsResponse(ApiError(Errors.NOT_CONTROLLER, "no")),
            lambda admin: admin.list_partition_reassignments(),
        ),
        (
            AlterPartitionReassignmentsResponse(ApiError(Errors.NOT_CONTROLLER, "no")),
            lambda admin: admin.alter_partition_reassignments({}, 1),
        ),
    ],
)
def test_an_error_of_the_whole_call_is_raised(
    admin: KafkaAdmin, channel: PlayedChannel, answer: object, ask: Any
) -> None:
    channel.answer = answer
    with pytest.raises(AdminError) as refused:
        ask(admin)
    assert refused.value.code is Errors.NOT_CONTROLLER


def test_topics_are_described(admin: KafkaAdmin, channel: PlayedChannel) -> None:
    channel.topics = {"t": of_topic(1, -1)}
    moving = ReplicaAssignment((1, 2, 3), (3,), ())
    channel.moving = {T1: moving}
    [topic] = admin.describe_topics(["t"])
    assert (topic.topic, topic.topic_id) == ("t", "id")
    assert topic.configs == {"min.insync.replicas": "2"}
    assert [p.leader for p in topic.partitions] == [1, None]
    assert [p.min_isr for p in topic.partitions] == [2, 2]
    assert [p.reassignment for p in topic.partitions] == [None, moving]
    assert [(p.replicas, p.isr) for p in topic.partitions] == [((1, 2), (1,))] * 2


def test_live_brokers_are_sorted(admin: KafkaAdmin) -> None:
    assert [(broker.id, broker.rack) for broker in admin.live_brokers()] == [(1, "r1"), (2, None)]


LOGS = {T0: ReplicaInfo(70, 3, False), T1: ReplicaInfo(80, 0, True)}
DIRS = DescribeLogDirsResponse(
    (LogDirResult("/a", Errors.NONE, LOGS), LogDirResult("/b", Errors.KAFKA_STORAGE_ERROR))
)


def test_log_directories_are_described(admin: KafkaAdmin, channel: PlayedChannel) -> None:
    channel.answers = {1: DIRS, 2: DescribeLogDirsResponse(())}
    assert admin.describe_log_dirs() == {
        1: {
            "/a": LogDirDescription(None, LOGS),
            "/b": LogDirDescription("org.apache.kafka.common.errors.KafkaStorageException", {}),
        },
        2: {},
    }
    everything = DescribeLogDirsRequest()
    assert channel.asked == [("describeLogDirs", {1: everything, 2: everything})]
    channel.answers = {2: DescribeLogDirsResponse(())}
    with pytest.raises(RequestTimedOut) as missing:
        admin.describe_log_dirs([3, 2, 1])
    assert missing.value.hint == "no response from [1, 3]"


def test_the_directories_of_replicas_are_asked_of_their_brokers(
    admin: KafkaAdmin, channel: PlayedChannel
) -> None:
    channel.answers = {1: DIRS}
    first, other = TopicPartitionReplica("t", 0, 1), TopicPartitionReplica("t", 1, 1)
    found = admin.describe_replica_log_dirs([first, other])
    assert found == {first: ReplicaLogDirs("/a"), other: ReplicaLogDirs(None, "/a")}
    assert admin.describe_replica_log_dirs([other]) == {other: ReplicaLogDirs(None, "/a")}
    assert channel.asked[0][1] == {1: DescribeLogDirsRequest((T0, T1))}


def test_moves_between_directories_fail_one_by_one(
    admin: KafkaAdmin, channel: PlayedChannel
) -> None:
    moved, refused, late = (
        TopicPartitionReplica("t", 0, 1),
        TopicPartitionReplica("t", 1, 1),
        TopicPartitionReplica("t", 0, 2),
    )
    results = {T0: Errors.NONE, T1: Errors.LOG_DIR_NOT_FOUND}
    channel.answers = {1: AlterReplicaLogDirsResponse(results)}
    failed = admin.alter_replica_log_dirs({moved: "/b", refused: "/c", late: "/b"})
    assert list(failed) == [refused, late]
    assert failed[refused] == ApiError(Errors.LOG_DIR_NOT_FOUND)
    assert failed[late].error is Errors.REQUEST_TIMED_OUT
    assert "callName=alterReplicaLogDirs" in (failed[late].message or "")


def test_configs_of_a_broker_are_asked_of_the_broker(
    admin: KafkaAdmin, channel: PlayedChannel
) -> None:
    shown = {
        entry.name: entry.value for entry in admin.describe_configs(ConfigResource(BROKERS, "1"))
    }
    assert channel.asked == [("await broker", "describeConfigs", 1, 30_000)]
    assert shown["broker.id"] == "1"
    assert shown["advertised.listeners"] == "PLAINTEXT://h1:9"
    assert shown["min.insync.replicas"] == "2"


def test_the_own_configs_of_a_broker_are_the_strongest(channel: PlayedChannel) -> None:
    name, listeners = "leader.replication.throttled.rate", "advertised.listeners"
    admin = KafkaAdmin(channel, {listeners: "PLAINTEXT://all:1"})
    for broker, rate in (("1", "5"), ("<default>", "6")):
        channel.zk.set_or_create_entity_configs("brokers", broker, {name: rate})
    for broker, rate in (("1", "5"), ("2", "6")):
        entries = admin.describe_configs(ConfigResource(BROKERS, broker))
        shown = {entry.name: entry.value for entry in entries}
        assert shown[name] == rate
        assert shown[listeners] == f"PLAINTEXT://h{broker}:9"


def test_describing_the_configs_of_an_unknown_topic_is_an_error_with_a_hint(
    admin: KafkaAdmin,
) -> None:
    with pytest.raises(UnknownTopicOrPartition) as unknown:
        admin.describe_configs(ConfigResource(TOPICS, "u"))
    assert unknown.value.hint == "klamm topics --list lists all topics"


def test_a_topic_of_which_one_partition_moves_does_not_grow(
    admin: KafkaAdmin, channel: PlayedChannel
) -> None:
    channel.topics = {"t": of_topic(1, 1)}
    moving = {"version": 2, "partitions": {"0": [1], "1": [1, 2]}}
    changes = {"adding_replicas": {"1": [2]}, "removing_replicas": {}}
    put(channel.zk, "/brokers/topics/t", {**moving, **changes})
    failed = admin.create_partitions({"t": NewPartitions(3)}, 1_000)
    assert failed["t"].message == "A partition reassignment is in progress for the topic 't'."


def test_brokers_that_are_down_are_changed_last(admin: KafkaAdmin, channel: PlayedChannel) -> None:
    channel.topics, channel.down = {"t": of_topic(1)}, {1}
    put(channel.zk, "/brokers/topics/t", {"version": 1, "partitions": {"0": [1]}})
    down, up, topic = (
        ConfigResource(BROKERS, "1"),
        ConfigResource(BROKERS, "2"),
        ConfigResource(TOPICS, "t"),
    )
    rate = {"leader.replication.throttled.rate": "5"}
    with pytest.raises(RequestTimedOut, match="callName=incrementalAlterConfigs"):
        admin.incremental_alter_configs({down: rate, up: rate, topic: {"retention.ms": "7"}})
    assert channel.asked == [("await broker", "incrementalAlterConfigs", 1, None)]
    assert channel.changed_before == rate
    found = admin.overrides([down, up, topic])
    assert found == {down: {}, up: rate, topic: {"retention.ms": "7"}}
    channel.down = set()
    assert admin.incremental_alter_configs({down: rate}) == {down: rate}
    assert len(channel.asked) == 1


def test_the_first_of_several_errors_is_raised(admin: KafkaAdmin, channel: PlayedChannel) -> None:
    channel.topics = {"t": of_topic(1)}
    put(channel.zk, "/brokers/topics/t", {"version": 1, "partitions": {"0": [1]}})
    wanted = {
        ConfigResource(TOPICS, "u"): {"retention.ms": "1"},
        ConfigResource(TOPICS, "v"): {"retention.ms": "1"},
        ConfigResource(TOPICS, "t"): {"retention.ms": "1"},
    }
    with pytest.raises(AdminError, match="u"):
        admin.incremental_alter_configs(wanted)
    topic = ConfigResource(TOPICS, "t")
    assert admin.overrides([topic]) == {topic: {"retention.ms": "1"}}


@pytest.mark.parametrize(
    ("message", "said"), [(None, "Configuration is invalid."), ("", ""), ("why", "why")]
)
def test_an_error_without_a_message_has_that_of_its_code(message: str | None, said: str) -> None:
    assert message_of(ApiError(Errors.INVALID_CONFIG, message)) == said
