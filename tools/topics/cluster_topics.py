"""kafka-topics with ``--bootstrap-server``: sends requests to a running cluster.

Mirrors TopicCommand.AdminClientTopicService.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec

from klamm.admin.failures import admin_error
from klamm.cluster.api_errors import Errors
from klamm.cluster.configs import TOPIC_CONFIGS
from klamm.cluster.errors import InvalidTopic, UsageError
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.java_maps import copied_order, hash_map_order
from klamm.cluster.jvm.scala_sets import mutable_order
from klamm.cluster.requests import ApiError, CreatableTopic, CreateTopicsRequest, NewPartitions
from klamm.tools.tool_output import ToolOutput
from klamm.tools.topics.describe_filter import DescribeFilter
from klamm.tools.topics.options import TopicCommandOptions
from klamm.tools.topics.service import (
    TopicArguments,
    ensure_topics_exist,
    read_new_topic,
    required,
    select_topics,
    show_topic,
)

if TYPE_CHECKING:
    from klamm.admin.kafka_admin import KafkaAdmin

REQUEST_TIMEOUT_MS: Final = 30_000
_REPLICATION_FACTOR_MAX: Final = 2**15 - 1


class ClusterTopics:
    """The five actions of kafka-topics on a running cluster."""

    def __init__(self, admin: KafkaAdmin) -> None:
        self._admin = admin

    def create(self, command: TopicCommandOptions, output: ToolOutput) -> None:
        """Create a topic by sending a CreateTopics request to the controller."""
        topic = read_new_topic(command, output)
        factor, partitions = topic.replication_factor, topic.partitions
        if factor is not None and not 1 <= factor <= _REPLICATION_FACTOR_MAX:
            raise UsageError(
                f"The replication factor must be between 1 and {_REPLICATION_FACTOR_MAX} inclusive"
            )
        if partitions is not None and partitions < 1:
            raise UsageError("The partitions must be greater than 0")
        if not topic.name:
            raise InvalidTopic("The given topic name '' cannot be represented in a request.")
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
            output.report["topics"].append(
                {
                    "topic": topic.name,
                    "created": True,
                    "topic_id": result.topic_id,
                    "partition_count": result.num_partitions,
                    "replication_factor": result.replication_factor,
                }
            )
        elif result.error is Errors.TOPIC_ALREADY_EXISTS and topic.if_not_exists:
            output.report["topics"].append({"topic": topic.name, "created": False})
        else:
            raise admin_error(ApiError(result.error, result.error_message))

    def list(self, command: TopicCommandOptions, output: ToolOutput) -> None:
        """Print the names of topics, or an empty line if there are none."""
        topics = select_topics(self._admin.list_topics(), command)
        output.println("\n".join(topics))
        output.report["topics"] += [{"topic": topic} for topic in topics]

    def describe(self, command: TopicCommandOptions, output: ToolOutput) -> None:
        """Print topics and partitions, in the order in which Kafka's tool prints them."""
        topics = select_topics(self._admin.list_topics(), command)
        ensure_topics_exist(topics, command)
        if not topics:
            return
        live = [broker.id for broker in self._admin.live_brokers()]
        shown = DescribeFilter(command.options, live)
        found = {topic.topic: topic for topic in self._admin.describe_topics(topics)}
        # The client's map of answers is a copy, and the tool's map is made from that.
        asked = hash_map_order([name for name in topics if name in found], capacity=len(topics))
        answered = copied_order(asked)
        # The tool's map has all configs of a topic, in the order of the broker's map.
        names = dict.fromkeys(chain(TOPIC_CONFIGS, *(topic.configs for topic in found.values())))
        order = hash_map_order(mutable_order(names, string_hash))
        for name in hash_map_order(answered, capacity=len(topics)):
            configs = found[name].configs
            ordered = {config: configs[config] for config in order if config in configs}
            show_topic(msgspec.structs.replace(found[name], configs=ordered), shown, output)

    def alter(self, command: TopicCommandOptions, output: ToolOutput) -> None:
        """Add partitions to topics; print nothing on success."""
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
        _raise_first(topics, self._admin.create_partitions(wanted, REQUEST_TIMEOUT_MS), output)
        output.report["topics"] += [{"topic": topic, "partition_count": total} for topic in topics]

    def delete(self, command: TopicCommandOptions, output: ToolOutput) -> None:
        """Delete topics; print nothing on success."""
        topics = select_topics(self._admin.list_topics(), command)
        ensure_topics_exist(topics, command)
        if topics:
            _raise_first(topics, self._admin.delete_topics(topics, REQUEST_TIMEOUT_MS), output)
        output.report["topics"] += [{"topic": topic, "newly_marked": True} for topic in topics]


def _added(arguments: TopicArguments, existing_count: int) -> tuple[tuple[int, ...], ...] | None:
    if arguments.assignment is None:
        return None
    return tuple(arguments.assignment.values())[existing_count:]


def _raise_first(
    topics: Sequence[str], failures: Mapping[str, ApiError], output: ToolOutput
) -> None:
    output.has_changed |= len(failures) < len(topics)
    for topic in topics:
        if topic in failures:
            raise admin_error(failures[topic])
