"""Code that kafka-topics uses with --zookeeper as well as with --bootstrap-server.

This module converts the options, selects topics and prints them; zookeeper_topics.py and
cluster_topics.py access the cluster. Mirrors the traits and helpers of kafka.admin.TopicCommand.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from klamm.admin.topic_description import TopicDescription
from klamm.cluster.errors import UnknownTopicOrPartition
from klamm.cluster.topic_names import has_collision_chars, is_internal
from klamm.placement.assign import Assignment
from klamm.tools.jopt import UncaughtException
from klamm.tools.tool_output import ToolOutput
from klamm.tools.topics.describe_filter import DescribeFilter
from klamm.tools.topics.options import TopicCommandOptions


class TopicArguments(msgspec.Struct, frozen=True):
    """Arguments of ``--create`` and ``--alter``.

    With an ``assignment``, ``--create`` accepts neither a number of partitions nor a replication
    factor.
    """

    name: str
    partitions: int | None
    replication_factor: int | None
    assignment: Assignment | None
    configs_to_add: dict[str, str]
    configs_to_delete: list[str]
    ignores_racks: bool
    if_not_exists: bool

    @classmethod
    def read(cls, command: TopicCommandOptions, output: ToolOutput) -> TopicArguments:
        """Read the arguments from the options, in the same order as Kafka's tool.

        If several options are invalid, the error is therefore the same as in Kafka. Raises
        UsageError, UncaughtException, InvalidConfig and the errors of parse_replica_assignment.
        """
        options = command.options
        return cls(
            name=options.text("topic") or "",
            partitions=options.integer("partitions"),
            replication_factor=options.integer("replication-factor"),
            assignment=command.replica_assignment(),
            configs_to_add=command.configs_to_add(output),
            configs_to_delete=command.configs_to_delete(),
            ignores_racks=options.has("disable-rack-aware"),
            if_not_exists=options.has("if-not-exists"),
        )


def read_new_topic(command: TopicCommandOptions, output: ToolOutput) -> TopicArguments:
    """Return the arguments of ``--create``; print Kafka's warning about "." or "_" in the name."""
    arguments = TopicArguments.read(command, output)
    if has_collision_chars(arguments.name):
        output.warn(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore "
            "('_') could collide. To avoid issues it is best to use either, but not both."
        )
    return arguments


def select_topics(all_topics: Sequence[str], command: TopicCommandOptions) -> list[str]:
    """Return the topics that the options --topic and --exclude-internal select, sorted."""
    pattern = command.topic_filter()
    exclude_internal = command.options.has("exclude-internal")
    return [
        topic
        for topic in sorted(all_topics)
        if (pattern is None or pattern.fullmatch(topic))
        and not (exclude_internal and is_internal(topic))
    ]


def ensure_topics_exist(found: Collection[str], command: TopicCommandOptions) -> None:
    """Raise UnknownTopicOrPartition if --topic matches no topic and --if-exists is not given."""
    topic = command.options.text("topic")
    if topic is not None and not found and not command.options.has("if-exists"):
        raise UnknownTopicOrPartition(f"Topic '{topic}' does not exist as expected")


def required(number: int | None) -> int:
    """Return ``number``, or raise the exception that Kafka's tool throws if it is missing."""
    if number is None:
        raise UncaughtException("java.util.NoSuchElementException", "None.get")
    return number


def show_topic(topic: TopicDescription, shown: DescribeFilter, output: ToolOutput) -> None:
    """Print one topic as ``--describe`` shows it, and add it to the report."""
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
