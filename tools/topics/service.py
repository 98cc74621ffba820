"""The actions of kafka-topics: with ``--bootstrap-server`` requests, with ``--zookeeper`` znodes.

Mirrors the traits and helpers of kafka.admin.TopicCommand, its AdminClientTopicService and its
ZookeeperTopicService.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from klamm.admin.config_validation import changed_configs
from klamm.admin.failures import admin_error
from klamm.admin.topic_description import TopicDescription
from klamm.admin.topics import change_topic_config
from klamm.admin.zookeeper_admin import ZooKeeperAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.configs import TOPIC_CONFIGS
from klamm.cluster.errors import (
    InvalidPartitions,
    InvalidTopic,
    KlammError,
    TopicExists,
    UnknownTopicOrPartition,
    UsageError,
)
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.java_maps import copied_order, hash_map_order
from klamm.cluster.jvm.scala_sets import mutable_order
from klamm.cluster.requests import ApiError, CreatableTopic, CreateTopicsRequest, NewPartitions
from klamm.cluster.topic_names import has_collision_chars, is_internal
from klamm.placement.added_partitions import drop_existing_partitions
from klamm.placement.assign import Assignment
from klamm.tools.jopt import UncaughtException
from klamm.tools.tool_output import ToolOutput
from klamm.tools.topics.describe_filter import DescribeFilter
from klamm.tools.topics.options import TopicCommandOptions

if TYPE_CHECKING:
    from klamm.admin.kafka_admin import KafkaAdmin

REQUEST_TIMEOUT_MS: Final = 30_000
_REPLICATION_FACTOR_MAX: Final = 2**15 - 1


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
        )


class TopicService:
    """The five actions of kafka-topics: on a running cluster, or on the znodes of one chroot.

    On a cluster, an action asks the controller, which checks it and chooses the brokers of
    replicas. In ZooKeeper, the tool itself does both; only there it can change configs, and tells
    which topics are marked for deletion.
    """

    def __init__(
        self, admin: KafkaAdmin | ZooKeeperAdmin, command: TopicCommandOptions, output: ToolOutput
    ) -> None:
        self._admin = admin
        self._command = command
        self._output = output

    def create(self) -> None:
        """Create a topic, unless it exists and --if-not-exists is given."""
        topic = TopicArguments.read(self._command, self._output)
        if has_collision_chars(topic.name):
            self._output.warn(
                "WARNING: Due to limitations in metric names, topics with a period ('.') or "
                "underscore ('_') could collide. To avoid issues it is best to use either, but not "
                "both."
            )
        try:
            if isinstance(self._admin, ZooKeeperAdmin):
                ignores_racks = self._command.options.has("disable-rack-aware")
                created = _create_in_zookeeper(self._admin, topic, ignores_racks)
            else:
                created = _create_on_cluster(self._admin, topic)
        except TopicExists:
            if not self._command.options.has("if-not-exists"):
                raise
            self._report({"topic": topic.name, "created": False})
        else:
            self._output.println(f"Created topic {topic.name}.")
            self._report({"topic": topic.name, "created": True, **created})

    def list(self) -> None:
        """Print the names of topics. Without topics, Kafka's client prints an empty line."""
        topics = self._selected()
        if not isinstance(self._admin, ZooKeeperAdmin):
            self._output.println("\n".join(topics))
            self._report(*({"topic": topic} for topic in topics))
            return
        marked = set(self._admin.client.get_topic_deletions())
        for topic in topics:
            self._output.println(f"{topic} - marked for deletion" if topic in marked else topic)
            self._report({"topic": topic, "marked_for_deletion": topic in marked})

    def describe(self) -> None:
        """Print topics and partitions, in the order in which Kafka's tool prints them.

        A malformed znode does not prevent the output of other topics. Errors are printed as
        warnings at the end, except the last error, which is raised.
        """
        topics = self._existing()
        if not topics:
            return
        shown = DescribeFilter(self._command.options, self._live_broker_ids())
        problems: list[KlammError] = []
        for topic in self._described(topics):
            if isinstance(topic, UnknownTopicOrPartition):
                self._output.println(topic.message)
            elif isinstance(topic, KlammError):
                problems.append(topic)
            elif not topic.partitions and shown.shows_topic(topic):
                hint = f"topic {topic.topic} has no partitions"
                problems.append(InvalidPartitions("next on empty iterator", hint=hint))
            else:
                self._show(topic, shown)
        for problem in problems[:-1]:
            self._output.warn(f"Error while executing topic command : {problem.message}")
        if problems:
            raise problems[-1]

    def alter(self) -> None:
        """Add partitions to topics; in ZooKeeper, first change their config overrides."""
        if isinstance(self._admin, ZooKeeperAdmin):
            topics = self._selected()
            arguments = TopicArguments.read(self._command, self._output)
            self._ensure_exist(topics)
            for topic in topics:
                self._alter_in_zookeeper(self._admin, topic, arguments)
            return
        arguments = TopicArguments.read(self._command, self._output)
        topics = self._existing()
        if not topics:
            return
        found = self._admin.describe_topics(topics)
        counts = {topic.topic: len(topic.partitions) for topic in found}
        total, manual = _required(arguments.partitions), arguments.assignment
        lists = None if manual is None else tuple(manual.values())
        wanted = {topic: NewPartitions(total, lists and lists[counts[topic] :]) for topic in topics}
        self._raise_first(topics, self._admin.create_partitions(wanted, REQUEST_TIMEOUT_MS))
        self._report(*({"topic": topic, "partition_count": total} for topic in topics))

    def delete(self) -> None:
        """Delete topics; in ZooKeeper, mark them for deletion by the controller."""
        topics = self._existing()
        if isinstance(self._admin, ZooKeeperAdmin):
            for topic in topics:
                self._mark_for_deletion(self._admin, topic)
            return
        if topics:
            self._raise_first(topics, self._admin.delete_topics(topics, REQUEST_TIMEOUT_MS))
        self._report(*({"topic": topic, "newly_marked": True} for topic in topics))

    # -- topics

    def _selected(self) -> Sequence[str]:
        """Return the topics that the options --topic and --exclude-internal select, sorted."""
        pattern = self._command.topic_filter()
        exclude_internal = self._command.options.has("exclude-internal")
        return [
            topic
            for topic in sorted(self._admin.list_topics())
            if (pattern is None or pattern.fullmatch(topic))
            and not (exclude_internal and is_internal(topic))
        ]

    def _existing(self) -> Sequence[str]:
        """Return the selected topics.

        Raises UnknownTopicOrPartition if --topic matches no topic and --if-exists is not given.
        """
        topics = self._selected()
        self._ensure_exist(topics)
        return topics

    def _ensure_exist(self, topics: Collection[str]) -> None:
        topic = self._command.options.text("topic")
        if topic is not None and not topics and not self._command.options.has("if-exists"):
            raise UnknownTopicOrPartition(f"Topic '{topic}' does not exist as expected")

    def _live_broker_ids(self) -> Sequence[int]:
        if isinstance(self._admin, ZooKeeperAdmin):
            return self._admin.live_broker_ids()
        return [broker.id for broker in self._admin.live_brokers()]

    def _described(self, topics: Sequence[str]) -> Iterable[TopicDescription | KlammError]:
        if isinstance(self._admin, ZooKeeperAdmin):
            return self._admin.describe_topics(topics)
        return _in_order(topics, self._admin.describe_topics(topics))

    # -- changes

    def _raise_first(self, topics: Sequence[str], failures: Mapping[str, ApiError]) -> None:
        self._output.has_changed |= len(failures) < len(topics)
        for topic in topics:
            if topic in failures:
                raise admin_error(failures[topic])

    def _alter_in_zookeeper(
        self, admin: ZooKeeperAdmin, topic: str, arguments: TopicArguments
    ) -> None:
        if self._command.options.has("config") or self._command.options.has("delete-config"):
            self._alter_configs(admin, topic, arguments)
        if arguments.partitions is not None:
            self._add_partitions(admin, topic, arguments.partitions, arguments.assignment or {})

    def _alter_configs(self, admin: ZooKeeperAdmin, topic: str, arguments: TopicArguments) -> None:
        configs = admin.client.get_entity_configs("topics", topic)
        self._output.warn(
            "WARNING: Altering topic configuration from this script has been deprecated and may be "
            "removed in future releases.",
            "         Going forward, please use kafka-configs.sh for this functionality",
        )
        deleted = dict.fromkeys(arguments.configs_to_delete)
        configs = changed_configs(configs, {**arguments.configs_to_add, **deleted})
        change_topic_config(admin.client, topic, configs)
        self._output.println(f"Updated config for topic {topic}.")
        self._report({"topic": topic, "configs": configs})

    def _add_partitions(
        self, admin: ZooKeeperAdmin, topic: str, total: int, assignment: Assignment
    ) -> None:
        if is_internal(topic):
            raise UsageError(
                f"The number of partitions for the internal topic {topic} cannot be changed."
            )
        self._output.warn(
            "WARNING: If partitions are increased for a topic that has a key, the partition logic "
            "or ordering of the messages will be affected"
        )
        existing = admin.topics.existing_assignment(topic)
        if not existing:
            raise InvalidTopic(f"The topic {topic} does not exist")
        manual = drop_existing_partitions(assignment, len(existing))
        admin.topics.add_partitions(topic, existing, total, manual)
        self._output.println("Adding partitions succeeded!")
        self._report({"topic": topic, "partition_count": total})

    def _mark_for_deletion(self, admin: ZooKeeperAdmin, topic: str) -> None:
        is_new = admin.delete_topic(topic)
        if is_new:
            self._output.println(
                f"Topic {topic} is marked for deletion.",
                "Note: This will have no impact if delete.topic.enable is not set to true.",
            )
        else:
            self._output.println(f"Topic {topic} is already marked for deletion.")
        self._report({"topic": topic, "newly_marked": is_new})

    # -- the report

    def _report(self, *topics: Mapping[str, Any]) -> None:
        self._output.report["topics"] += topics

    def _show(self, topic: TopicDescription, shown: DescribeFilter) -> None:
        """Print one topic as ``--describe`` shows it, and add it to the report."""
        self._output.print(shown.text(topic))
        partitions = shown.partitions(topic)
        if partitions or shown.shows_topic(topic):
            self._report(
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


def _create_in_zookeeper(
    admin: ZooKeeperAdmin, topic: TopicArguments, ignores_racks: bool
) -> dict[str, Any]:
    """Write a topic's config znode, then its topic znode; return what the report tells."""
    if not admin.client.path_exists("/"):
        raise UsageError(
            "Path length must be > 0",
            hint="the chroot given with --zookeeper does not exist; a broker creates it when it "
            "starts",
        )
    assignment = topic.assignment
    if assignment is not None:
        admin.topics.create_topic_with_assignment(topic.name, topic.configs_to_add, assignment)
    else:
        assignment = admin.topics.create_topic(
            topic.name,
            _required(topic.partitions),
            _required(topic.replication_factor),
            topic.configs_to_add,
            ignores_racks=ignores_racks,
        )
    return {"replicas": {str(partition): ids for partition, ids in assignment.items()}}


def _create_on_cluster(admin: KafkaAdmin, topic: TopicArguments) -> dict[str, Any]:
    """Send a CreateTopics request to the controller; return what the report tells."""
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
    (result,) = admin.create_topics(CreateTopicsRequest((new,), REQUEST_TIMEOUT_MS)).topics
    if result.error is not Errors.NONE:
        raise admin_error(ApiError(result.error, result.error_message))
    return {
        "topic_id": result.topic_id,
        "partition_count": result.num_partitions,
        "replication_factor": result.replication_factor,
    }


def _in_order(
    topics: Sequence[str], descriptions: Iterable[TopicDescription]
) -> Iterable[TopicDescription]:
    """Yield the descriptions of ``topics`` in the order in which Kafka's tool prints them."""
    found = {topic.topic: topic for topic in descriptions}
    # The client's map of answers is a copy, and the tool's map is made from that.
    asked = hash_map_order([name for name in topics if name in found], capacity=len(topics))
    answered = copied_order(asked)
    # The tool's map has all configs of a topic, in the order of the broker's map.
    names = dict.fromkeys(chain(TOPIC_CONFIGS, *(topic.configs for topic in found.values())))
    order = hash_map_order(mutable_order(names, string_hash))
    for name in hash_map_order(answered, capacity=len(topics)):
        configs = found[name].configs
        ordered = {config: configs[config] for config in order if config in configs}
        yield msgspec.structs.replace(found[name], configs=ordered)


def _required(number: int | None) -> int:
    """Return ``number``, or raise the exception that Kafka's tool throws if it is missing."""
    if number is None:
        raise UncaughtException("java.util.NoSuchElementException", "None.get")
    return number
