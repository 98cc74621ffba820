"""kafka-topics with ``--zookeeper``: reads and writes znodes, with or without a controller.

Znodes are read in pipelined batches, whereas Kafka's tool reads them one by one. Mirrors
TopicCommand.ZookeeperTopicService.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from typing import Final

from klamm.admin.config_validation import changed_configs
from klamm.admin.topic_description import PartitionDescription, TopicDescription
from klamm.admin.topics import TopicAdmin, change_topic_config
from klamm.cluster.errors import (
    AdminOperationError,
    InvalidPartitions,
    InvalidTopic,
    KlammError,
    StoreError,
    TopicExists,
    UsageError,
)
from klamm.cluster.jvm.java_maps import hash_map_order
from klamm.cluster.jvm.scala_sets import immutable_order, topic_partition_hash
from klamm.cluster.topic_names import is_internal
from klamm.cluster.types import (
    NO_LEADER,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicIdReplicaAssignment,
    TopicPartition,
)
from klamm.placement.added_partitions import drop_existing_partitions
from klamm.placement.draws import IntSource
from klamm.placement.pools import NO_POOLS, Pools
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
from klamm.zk.kafka_zk_client import KafkaZkClient

_TOPICS_PER_BATCH: Final = 500


class _StoredTopic(TopicDescription, frozen=True, kw_only=True):
    """A topic and its partitions, as ZooKeeper stores them.

    ``replicas_of_first`` is the number of replicas of the partition that comes first in Scala's
    map, which Kafka prints as the topic's replication factor.
    """

    replicas_of_first: int

    @property
    def replication_factor(self) -> int:
        return self.replicas_of_first


class ZooKeeperTopics:
    """The five actions of kafka-topics on the znodes of one chroot.

    ``source`` provides random numbers for replica placement.
    """

    def __init__(self, client: KafkaZkClient, source: IntSource, pools: Pools = NO_POOLS) -> None:
        self._client = client
        self._admin = TopicAdmin(client, source, pools)

    def create(self, command: TopicCommandOptions, output: ToolOutput) -> None:
        """Create a topic by writing its config znode, then its topic znode."""
        topic = read_new_topic(command, output)
        self._ensure_chroot()
        try:
            if topic.assignment is not None:
                assignment = topic.assignment
                self._admin.create_topic_with_assignment(
                    topic.name, topic.configs_to_add, assignment
                )
            else:
                assignment = self._admin.create_topic(
                    topic.name,
                    required(topic.partitions),
                    required(topic.replication_factor),
                    topic.configs_to_add,
                    ignores_racks=topic.ignores_racks,
                )
        except TopicExists:
            if not topic.if_not_exists:
                raise
            output.report["topics"].append({"topic": topic.name, "created": False})
            return
        output.println(f"Created topic {topic.name}.")
        replicas = {str(partition): ids for partition, ids in assignment.items()}
        output.report["topics"].append({"topic": topic.name, "created": True, "replicas": replicas})

    def list(self, command: TopicCommandOptions, output: ToolOutput) -> None:
        """Print the names of topics, and which of them are marked for deletion."""
        topics = select_topics(self._client.get_all_topics_in_cluster(), command)
        marked = set(self._client.get_topic_deletions())
        for topic in topics:
            output.println(f"{topic} - marked for deletion" if topic in marked else topic)
            output.report["topics"].append({"topic": topic, "marked_for_deletion": topic in marked})

    def describe(self, command: TopicCommandOptions, output: ToolOutput) -> None:
        """Print topics and partitions.

        A malformed znode does not prevent the output of other topics. Errors are printed as
        warnings at the end, except the last error, which is raised.
        """
        topics = select_topics(self._client.get_all_topics_in_cluster(), command)
        ensure_topics_exist(topics, command)
        live_brokers = self._client.get_sorted_broker_list()
        shown = DescribeFilter(command.options, live_brokers)
        problems: list[KlammError] = []
        for start in range(0, len(topics), _TOPICS_PER_BATCH):
            batch = topics[start : start + _TOPICS_PER_BATCH]
            for topic in self._descriptions(batch, output, problems):
                if not topic.partitions and shown.shows_topic(topic):
                    hint = f"topic {topic.topic} has no partitions"
                    problems.append(InvalidPartitions("next on empty iterator", hint=hint))
                else:
                    show_topic(topic, shown, output)
        for problem in problems[:-1]:
            output.warn(f"Error while executing topic command : {problem.message}")
        if problems:
            raise problems[-1]

    def alter(self, command: TopicCommandOptions, output: ToolOutput) -> None:
        """Change config overrides, then add partitions, topic by topic."""
        topics = select_topics(self._client.get_all_topics_in_cluster(), command)
        arguments = TopicArguments.read(command, output)
        ensure_topics_exist(topics, command)
        for topic in topics:
            if command.options.has("config") or command.options.has("delete-config"):
                self._alter_configs(topic, arguments, output)
            if arguments.partitions is not None:
                self._add_partitions(topic, arguments.partitions, arguments, output)

    def delete(self, command: TopicCommandOptions, output: ToolOutput) -> None:
        """Mark topics for deletion; the controller deletes them."""
        topics = select_topics(self._client.get_all_topics_in_cluster(), command)
        ensure_topics_exist(topics, command)
        for topic in topics:
            if is_internal(topic):
                raise AdminOperationError(
                    f"Topic {topic} is a kafka internal topic and is not allowed to be marked for "
                    "deletion."
                )
            try:
                is_new = self._client.create_delete_topic_path(topic)
            except StoreError as error:
                raise AdminOperationError(
                    f"Error while deleting topic {topic}", hint=error.message
                ) from error
            if is_new:
                output.println(f"Topic {topic} is marked for deletion.")
                output.println(
                    "Note: This will have no impact if delete.topic.enable is not set to true."
                )
            else:
                output.println(f"Topic {topic} is already marked for deletion.")
            output.report["topics"].append({"topic": topic, "newly_marked": is_new})

    def _ensure_chroot(self) -> None:
        if not self._client.path_exists("/"):
            raise UsageError(
                "Path length must be > 0",
                hint="the chroot given with --zookeeper does not exist; a broker creates it when "
                "it starts",
            )

    def _descriptions(
        self, topics: Sequence[str], output: ToolOutput, problems: MutableSequence[KlammError]
    ) -> Iterator[TopicDescription]:
        assignments = self._client.get_topic_assignments(topics)
        configs = self._client.get_topic_configs(topics)
        marked = set(self._client.get_topic_deletions())
        problems += [*assignments.malformed, *configs.malformed]
        states = self._client.get_partition_states(
            [tp for topic in assignments.values.values() for tp in topic.assignment]
        )
        problems += states.malformed
        for name in topics:
            topic = assignments.values.get(name)
            if topic is None:
                if name in assignments.missing:
                    output.println(f"Topic {name} doesn't exist!")
                continue
            overrides = configs.values.get(name, {})
            yield _StoredTopic(
                topic=name,
                topic_id=topic.topic_id,
                configs={key: overrides[key] for key in hash_map_order(list(overrides))},
                partitions=tuple(_partitions(name, topic, states.values, name in marked)),
                marked_for_deletion=name in marked,
                replicas_of_first=_replicas_of_first(topic.assignment),
            )

    def _alter_configs(self, topic: str, arguments: TopicArguments, output: ToolOutput) -> None:
        configs = self._client.get_entity_configs("topics", topic)
        output.warn(
            "WARNING: Altering topic configuration from this script has been deprecated and may be "
            "removed in future releases.",
            "         Going forward, please use kafka-configs.sh for this functionality",
        )
        deleted = dict.fromkeys(arguments.configs_to_delete)
        configs = changed_configs(configs, {**arguments.configs_to_add, **deleted})
        change_topic_config(self._client, topic, configs)
        output.println(f"Updated config for topic {topic}.")
        output.report["topics"].append({"topic": topic, "configs": configs})

    def _add_partitions(
        self, topic: str, partitions: int, arguments: TopicArguments, output: ToolOutput
    ) -> None:
        if is_internal(topic):
            raise UsageError(
                f"The number of partitions for the internal topic {topic} cannot be changed."
            )
        output.warn(
            "WARNING: If partitions are increased for a topic that has a key, the partition logic "
            "or ordering of the messages will be affected"
        )
        existing = self._admin.existing_assignment(topic)
        if not existing:
            raise InvalidTopic(f"The topic {topic} does not exist")
        manual = drop_existing_partitions(arguments.assignment or {}, len(existing))
        self._admin.add_partitions(topic, existing, partitions, manual)
        output.println("Adding partitions succeeded!")
        output.report["topics"].append({"topic": topic, "partition_count": partitions})


def _replicas_of_first(assignment: Mapping[TopicPartition, ReplicaAssignment]) -> int:
    ordered = immutable_order(assignment, topic_partition_hash)
    return len(assignment[ordered[0]].replicas) if ordered else 0


def _partitions(
    name: str,
    topic: TopicIdReplicaAssignment,
    states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
    marked: bool,
) -> Iterator[PartitionDescription]:
    for tp in sorted(topic.assignment, key=lambda tp: tp.partition):
        found = states.get(tp)
        state = None if found is None else found.leader_and_isr
        yield PartitionDescription(
            topic=name,
            partition=tp.partition,
            leader=None if state is None or state.leader == NO_LEADER else state.leader,
            replicas=topic.assignment[tp].replicas,
            isr=() if state is None else state.isr,
            marked_for_deletion=marked,
        )
