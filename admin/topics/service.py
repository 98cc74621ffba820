"""Shared part of kafka-topics with --zookeeper and with --bootstrap-server.

Converts options to values, selects topics and prints; zookeeper_topics.py and cluster_topics.py
access the cluster. Mirrors the traits and helpers of kafka.admin.TopicCommand.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from klamm.admin.jopt import UncaughtException
from klamm.admin.tool_output import ToolOutput
from klamm.admin.topics.options import TopicCommandOptions
from klamm.admin.topics.text import DescribeFilter, TopicDescription
from klamm.cluster.errors import UsageError
from klamm.cluster.topic_names import has_collision_chars, is_internal
from klamm.placement.assign import Assignment
from klamm.placement.broker_metadata import RackAwareMode


class TopicArguments(msgspec.Struct, frozen=True):
    """Arguments of ``--create`` and ``--alter``. ``assignment`` excludes both counts."""

    name: str
    partitions: int | None
    replication_factor: int | None
    assignment: Assignment | None
    configs_to_add: dict[str, str]
    configs_to_delete: list[str]
    rack_aware_mode: RackAwareMode
    if_not_exists: bool

    @classmethod
    def read(cls, command: TopicCommandOptions, output: ToolOutput) -> TopicArguments:
        """Convert the options in Kafka's order. Raises UsageError, InvalidConfig and others."""
        options = command.options
        return cls(
            name=options.text("topic") or "",
            partitions=options.integer("partitions"),
            replication_factor=options.integer("replication-factor"),
            assignment=command.replica_assignment(),
            configs_to_add=command.configs_to_add(output),
            configs_to_delete=command.configs_to_delete(),
            rack_aware_mode=command.rack_aware_mode,
            if_not_exists=options.has("if-not-exists"),
        )


def read_new_topic(command: TopicCommandOptions, output: ToolOutput) -> TopicArguments:
    """Return the topic to create; print Kafka's warning about names that may collide."""
    arguments = TopicArguments.read(command, output)
    if has_collision_chars(arguments.name):
        output.warn(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore "
            "('_') could collide. To avoid issues it is best to use either, but not both."
        )
    return arguments


def select_topics(all_topics: Sequence[str], command: TopicCommandOptions) -> list[str]:
    """Return the topics that a command selects, sorted."""
    pattern = command.topic_filter()
    exclude_internal = command.options.has("exclude-internal")
    return [
        topic
        for topic in sorted(all_topics)
        if (pattern is None or pattern.fullmatch(topic))
        and not (exclude_internal and is_internal(topic))
    ]


def ensure_topics_exist(found: Collection[str], command: TopicCommandOptions) -> None:
    """Raise UsageError if --topic matches no topic, unless ``--if-exists`` is given."""
    topic = command.options.text("topic")
    if topic is not None and not found and not command.options.has("if-exists"):
        raise UsageError(f"Topic '{topic}' does not exist as expected")


def required(number: int | None) -> int:
    """Return a count; raise Kafka's exception for a missing one that its checks do not detect."""
    if number is None:
        raise UncaughtException("java.util.NoSuchElementException", "None.get")
    return number


def show(topic: TopicDescription, shown: DescribeFilter, output: ToolOutput) -> None:
    """Print and report one topic as ``--describe`` shows it."""
    output.print(shown.text(topic))
    partitions = shown.partitions(topic)
    if partitions or shown.shows_topic(topic):
        output.report["topics"].append(
            {
                "topic": topic.topic,
                "topic_id": topic.topic_id,
                "partition_count": len(topic.partitions),
                "replication_factor": topic.replication_factor,
                "configs": dict(topic.configs),
                "marked_for_deletion": topic.marked_for_deletion,
                "partitions": [
                    {
                        "partition": partition.partition,
                        "leader": partition.leader,
                        "replicas": partition.replicas,
                        "isr": partition.isr,
                        "reassignment": partition.reassignment,
                    }
                    for partition in partitions
                ],
            }
        )
