"""kafka-topics --bootstrap-server: what the cluster is asked, what becomes of its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from klamm.admin.topic_description import PartitionDescription, TopicDescription
from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    ApiError,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    NewPartitions,
)
from klamm.cluster.types import ReplicaAssignment
from klamm.placement.assign import RACKS_MISSING
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.tools.command_result import CommandResult
from klamm.tools.topics.command import run_topic_command
from tests.unit.tools.vectors import memory_server, services


class Cluster:
    """A cluster that keeps what it is told; ``error`` is its answer to every change."""

    def __init__(self, *topics: str, error: ApiError = None) -> None:
        self.topics = list(topics)
        self.error = error
        self.created: list[CreateTopicsRequest] = []
        self.grown: dict[str, NewPartitions] = {}
        self.deleted: list[str] = []

    def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        self.created.append(request)
        [topic] = request.topics
        failure = self.error or ApiError(Errors.NONE)
        result = CreatableTopicResult(topic.name, failure.error, failure.message)
        return CreateTopicsResponse((result,))

    def list_topics(self) -> Sequence[str]:
        return self.topics

    def describe_topics(self, topics: Sequence[str]) -> Sequence[TopicDescription]:
        return [
            TopicDescription(
                name,
                None,
                {"retention.ms": "9", "segment.bytes": "7", "cleanup.policy": "compact"},
                (PartitionDescription(name, 0, 1, (1, 2), (1,), min_isr=2),),
            )
            for name in reversed(topics)
        ]

    def live_brokers(self) -> Sequence[BrokerMetadata]:
        return (BrokerMetadata(1), BrokerMetadata(2))

    def create_partitions(
        self, topics: Mapping[str, NewPartitions], timeout_ms: int
    ) -> Mapping[str, ApiError]:
        self.grown = dict(topics)
        return {} if self.error is None else dict.fromkeys(topics, self.error)

    def delete_topics(self, topics: Sequence[str], timeout_ms: int) -> Mapping[str, ApiError]:
        self.deleted = list(topics)
        return {} if self.error is None else dict.fromkeys(topics, self.error)


def run(cluster: Cluster, line: str) -> CommandResult:
    given = services(memory_server(), cluster)
    return run_topic_command(["--bootstrap-server", "k:1", *line.split()], given)


def test_create_leaves_the_defaults_to_the_cluster() -> None:
    cluster = Cluster()
    result = run(cluster, "--create --topic t --config retention.ms=5")
    assert (result.stdout, result.exit_code) == ("Created topic t.\n", 0)
    [topic] = cluster.created[0].topics
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
    assert topic.configs == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--partitions 0", "The partitions must be greater than 0"),
        (
            "--replication-factor 32768",
            "The replication factor must be between 1 and 32767 inclusive",
        ),
        ("--config retention=1", "Unknown topic config name: retention"),
        (
            "--config min.compaction.lag.ms=2 --config max.compaction.lag.ms=1",
            "conflict topic config setting min.compaction.lag.ms (2) > max.compaction.lag.ms (1)",
        ),
        (
            "--config retention.ms",
            "requirement failed: Invalid topic config: all configs to be added must be in the "
            'format "key=val".',
        ),
    ],
)
def test_counts_and_configs_are_checked_before_the_cluster_is_asked(line: str, said: str) -> None:
    cluster = Cluster()
    result = run(cluster, f"--create --topic t {line}")
    assert result.stdout == f"Error while executing topic command : {said}\n"
    assert cluster.created == []


def test_an_error_without_a_text_gets_kafkas() -> None:
    cluster = Cluster(error=ApiError(Errors.REQUEST_TIMED_OUT))
    result = run(cluster, "--create --topic t")
    assert result.stdout == "Error while executing topic command : The request timed out.\n"
    assert result.report["error"]["code"] == "REQUEST_TIMED_OUT"
    assert result.report["error"]["definite"] is False


def test_a_hint_says_what_missing_racks_prevent() -> None:
    result = run(
        Cluster(error=ApiError(Errors.UNKNOWN_SERVER_ERROR, RACKS_MISSING)), "--create --topic t"
    )
    assert result.hint == (
        "all or none of the running brokers must have a rack (klamm status lists them); "
        "--replica-assignment works without"
    )


def test_if_not_exists_forgives_only_an_existing_topic() -> None:
    exists = Cluster(error=ApiError(Errors.TOPIC_ALREADY_EXISTS, "Topic 't' already exists."))
    assert run(exists, "--create --topic t --if-not-exists").exit_code == 0
    assert run(exists, "--create --topic t").exit_code == 1


def test_an_empty_list_is_an_empty_line() -> None:
    assert run(Cluster(), "--list").stdout == "\n"
    assert run(Cluster("b", "a"), "--list").stdout == "a\nb\n"


def test_describe_prints_topics_in_the_order_of_a_map_that_was_copied() -> None:
    described = run(Cluster("a", "a.b", "cf2", "m3", "m4", "m7"), "--describe")
    topics = [line.split()[1] for line in described.stdout.splitlines() if line[0] == "T"]
    assert topics == ["a", "m7", "a.b", "m3", "cf2", "m4"]


def test_the_client_refuses_an_empty_name() -> None:
    cluster = Cluster()
    given = services(memory_server(), cluster)
    result = run_topic_command(["--bootstrap-server", "k:1", "--create", "--topic", ""], given)
    assert result.exit_code == 1
    assert result.stdout == (
        "Error while executing topic command :"
        " The given topic name '' cannot be represented in a request.\n"
    )
    assert not cluster.created


def test_describe_prints_in_the_order_of_javas_maps() -> None:
    result = run(Cluster("topic-a", "topic-b", "x", "zebra", "Q"), "--describe")
    shown = [line.split()[1] for line in result.stdout.splitlines() if line.startswith("Topic")]
    # What `new HashMap<>(5)`, filled twice, gives for these names.
    assert shown == ["x", "zebra", "Q", "topic-a", "topic-b"]
    # The last two are in the same bucket, in the order of the broker's map.
    assert "Configs: cleanup.policy=compact,segment.bytes=7,retention.ms=9" in result.stdout


def test_min_isr_filters_work_here() -> None:
    result = run(Cluster("t"), "--describe --under-min-isr-partitions")
    assert result.stdout == "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n"


@pytest.mark.parametrize(
    ("leader", "isr", "min_isr", "is_under", "is_at"),
    [
        (1, (1,), 2, True, False),
        (1, (1, 2), 2, False, True),
        (1, (1, 2, 3), 2, False, False),
        (None, (1, 2), 2, True, True),
        (None, (1, 2, 3), None, True, False),
        (1, (1,), None, False, False),
    ],
)
def test_a_partition_is_under_its_min_isr_or_at_it(
    leader: int | None, isr: tuple[int, ...], min_isr: int | None, is_under: bool, is_at: bool
) -> None:
    partition = PartitionDescription("t", 0, leader, (1, 2, 3), isr, min_isr=min_isr)
    assert (partition.is_under_min_isr, partition.is_at_min_isr) == (is_under, is_at)


def test_alter_sends_only_the_new_lists_and_prints_nothing() -> None:
    cluster = Cluster("t")
    result = run(cluster, "--alter --topic t --partitions 3 --replica-assignment 1:2,2:1,1:2")
    assert (result.stdout, result.exit_code) == ("", 0)
    assert cluster.grown == {"t": NewPartitions(3, ((2, 1), (1, 2)))}
    refused = Cluster("t", error=ApiError(Errors.INVALID_PARTITIONS, "no"))
    assert run(refused, "--alter --topic t --partitions 1").stdout.endswith(" : no\n")


def test_delete_prints_nothing() -> None:
    cluster = Cluster("a", "b")
    result = run(cluster, "--delete --topic a,b")
    assert (result.stdout, result.exit_code, cluster.deleted) == ("", 0, ["a", "b"])


def test_the_replication_factor_of_a_partition_and_of_its_topic() -> None:
    def partition(number: int, *replicas: int, **more: object) -> PartitionDescription:
        given = ("t", number, 1, replicas, replicas)
        return PartitionDescription(*given, **more)  # type: ignore[arg-type]

    adds = ReplicaAssignment((1, 2, 3), (3,), ())
    assert partition(0, 1, 2, 3, reassignment=adds).replication_factor == 2
    elsewhere = ReplicaAssignment((4, 5, 6), (6,), ())
    assert partition(0, 1, 2, 3, reassignment=elsewhere).replication_factor == 3
    topic = TopicDescription("t", None, {}, (partition(0, 1), partition(1, 1, 2, 3)))
    assert topic.replication_factor == 1
