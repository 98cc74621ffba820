"""kafka-topics with ``--bootstrap-server``: asks a running cluster, which decides and writes.

The cluster is whatever implements ClusterAdmin; nothing here knows how it is reached. Mirrors
TopicCommand.AdminClientTopicService and the calls of Kafka's Admin client that it makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from admin.failures import Failure, admin_error
from admin.java_maps import hash_map_order
from admin.topics.options import TopicCommandOptions
from admin.topics.service import (
    Output,
    TopicArguments,
    ensure_topics_exist,
    read_new_topic,
    required,
    select_topics,
    show,
)
from admin.topics.text import DescribeFilter, TopicDescription
from admin.topics.topic_configs import TOPIC_CONFIGS
from cluster.api_errors import Errors
from cluster.errors import UsageError
from cluster.integers import Int32
from cluster.requests import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

REQUEST_TIMEOUT_MS: Final = 30_000
_REPLICATION_FACTOR_MAX: Final = 2**15 - 1


class NewPartitions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many partitions a topic is to have; ``new_assignments`` None: placed by the controller.

    ``new_assignments``: the replicas of each partition that is added, in order.
    """

    total_count: Int32
    new_assignments: tuple[tuple[Int32, ...], ...] | None = None


class ClusterAdmin(Protocol):
    """What kafka-topics asks of a running cluster. Each call raises KlammError if none answers."""

    def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """Create topics; answered when they have leaders, or at the request's timeout."""
        ...

    def list_topics(self) -> Sequence[str]:
        """Names of all topics, internal ones too."""
        ...

    def describe_topics(self, topics: Sequence[str]) -> Sequence[TopicDescription]:
        """The topics, in any order; configs are those that are not the default, min_isr is known.

        Raises UnknownTopicOrPartition.
        """
        ...

    def live_broker_ids(self) -> Sequence[int]:
        """The brokers that live."""
        ...

    def create_partitions(
        self, topics: Mapping[str, NewPartitions], timeout_ms: int
    ) -> Mapping[str, Failure]:
        """Add partitions to topics; gives the topics that were refused."""
        ...

    def delete_topics(self, topics: Sequence[str], timeout_ms: int) -> Mapping[str, Failure]:
        """Delete topics; gives those that were refused."""
        ...


class ClusterTopics:
    """The five actions on a running cluster."""

    def __init__(self, admin: ClusterAdmin) -> None:
        self._admin = admin

    def create_topic(self, command: TopicCommandOptions, output: Output) -> None:
        """Create a topic through the controller."""
        topic = read_new_topic(command, output)
        factor, partitions = topic.replication_factor, topic.partitions
        if factor is not None and not 1 <= factor <= _REPLICATION_FACTOR_MAX:
            raise UsageError(
                f"The replication factor must be between 1 and {_REPLICATION_FACTOR_MAX} inclusive"
            )
        if partitions is not None and partitions < 1:
            raise UsageError("The partitions must be greater than 0")
        new = CreatableTopic(
            name=topic.name,
            num_partitions=-1 if partitions is None else partitions,
            replication_factor=-1 if factor is None else factor,
            assignments=topic.assignment or {},
            configs=topic.configs_to_add,
        )
        result = self._admin.create_topics(CreateTopicsRequest((new,), REQUEST_TIMEOUT_MS)).topics[
            0
        ]
        if result.error is Errors.NONE:
            output.println(f"Created topic {topic.name}.")
            output.topics.append(
                {
                    "topic": topic.name,
                    "created": True,
                    "topic_id": result.topic_id,
                    "partition_count": result.num_partitions,
                    "replication_factor": result.replication_factor,
                }
            )
        elif result.error is Errors.TOPIC_ALREADY_EXISTS and topic.if_not_exists:
            output.topics.append({"topic": topic.name, "created": False})
        else:
            raise admin_error(Failure(result.error, result.error_message))

    def list_topics(self, command: TopicCommandOptions, output: Output) -> None:
        """Print the names; with none, an empty line."""
        topics = select_topics(self._admin.list_topics(), command)
        output.println("\n".join(topics))
        output.topics += [{"topic": topic} for topic in topics]

    def describe_topic(self, command: TopicCommandOptions, output: Output) -> None:
        """Print topics and partitions, in the order of the Java maps that hold them."""
        topics = select_topics(self._admin.list_topics(), command)
        ensure_topics_exist(topics, command)
        if not topics:
            return
        shown = DescribeFilter(command.options, self._admin.live_broker_ids())
        found = {topic.topic: topic for topic in self._admin.describe_topics(topics)}
        asked = hash_map_order([name for name in topics if name in found], capacity=len(topics))
        for name in hash_map_order(asked, capacity=len(topics)):
            configs = found[name].configs
            order = hash_map_order(list(configs), entries=len(TOPIC_CONFIGS))
            ordered = {config: configs[config] for config in order}
            show(msgspec.structs.replace(found[name], configs=ordered), shown, output)

    def alter_topic(self, command: TopicCommandOptions, output: Output) -> None:
        """Add partitions; says nothing when it is done."""
        arguments = TopicArguments.read(command, output)
        topics = select_topics(self._admin.list_topics(), command)
        ensure_topics_exist(topics, command)
        if not topics:
            return
        found = {topic.topic: topic for topic in self._admin.describe_topics(topics)}
        total = required(arguments.partitions)
        wanted = {
            topic: NewPartitions(total, _added(arguments, len(found[topic].partitions)))
            for topic in topics
        }
        _raise_first(topics, self._admin.create_partitions(wanted, REQUEST_TIMEOUT_MS))
        output.topics += [{"topic": topic, "partition_count": total} for topic in topics]

    def delete_topic(self, command: TopicCommandOptions, output: Output) -> None:
        """Delete topics; says nothing when it is done."""
        topics = select_topics(self._admin.list_topics(), command)
        ensure_topics_exist(topics, command)
        if topics:
            _raise_first(topics, self._admin.delete_topics(topics, REQUEST_TIMEOUT_MS))
        output.topics += [{"topic": topic, "newly_marked": True} for topic in topics]


def _added(arguments: TopicArguments, existing_count: int) -> tuple[tuple[int, ...], ...] | None:
    if arguments.assignment is None:
        return None
    return tuple(arguments.assignment.values())[existing_count:]


def _raise_first(topics: Sequence[str], failures: Mapping[str, Failure]) -> None:
    for topic in topics:
        if topic in failures:
            raise admin_error(failures[topic])
