"""Topics of the running cluster, as a Kafka Admin client sees and changes them.

It asks the active controller by messages and reads a broker's metadata cache; what it creates, the
controller validates and writes. Mirrors org.apache.kafka.clients.admin.KafkaAdminClient, and
createPartitions of kafka/server/ZkAdminManager.scala.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from admin.failures import Failure
from admin.topics.cluster_topics import NewPartitions
from admin.topics.text import PartitionDescription, Reassignment, TopicDescription
from admin.topics.topics import TopicAdmin
from brokers.metadata_cache import MetadataCache
from cluster.api_errors import Errors
from cluster.errors import (
    AdminError,
    InvalidPartitions,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from cluster.requests import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    UpdateMetadataPartitionState,
)
from cluster.types import NO_LEADER, TopicPartition
from placement.added_partitions import number_added_lists
from placement.broker_metadata import BrokerMetadata
from placement.draws import JavaRandom
from server.cluster_calls import ClusterCalls
from server.config import TOPIC_DEFAULTS

_MIN_ISR: Final = "min.insync.replicas"


class TopicCalls(ClusterCalls):
    """admin.topics.cluster_topics.ClusterAdmin inside the server's process."""

    # -- through the controller

    def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """Create topics; asks again if the controller moves or dies before it answers.

        Raises PolicyViolation, and RequestTimedOut if there is no controller within the request's
        own timeout.
        """
        self._check_limits(
            sum(len(one.assignments) or max(1, one.num_partitions) for one in request.topics)
        )
        return self._ask_controller(
            "createTopics",
            request,
            CreateTopicsResponse,
            _is_not_controller,
            timeout_ms=request.timeout_ms,
        )

    def delete_topics(self, topics: Sequence[str], timeout_ms: int) -> Mapping[str, Failure]:
        """Delete topics; asks again if the controller moves or dies before it answers.

        Raises RequestTimedOut if there is no controller within ``timeout_ms``.
        """
        request = DeleteTopicsRequest(tuple(topics), timeout_ms)
        response = self._ask_controller(
            "deleteTopics",
            request,
            DeleteTopicsResponse,
            _is_not_controller,
            timeout_ms=timeout_ms,
        )
        return {r.name: Failure(r.error) for r in response.topics if r.error is not Errors.NONE}

    def create_partitions(
        self, topics: Mapping[str, NewPartitions], timeout_ms: int
    ) -> Mapping[str, Failure]:
        """Add partitions; answered when they have leaders, or at the timeout.

        Raises PolicyViolation, and RequestTimedOut if there is no controller within
        ``timeout_ms``.
        """
        deadline_s = time.monotonic() + timeout_ms / 1000
        controller_id = self._controller_id(self._deadline_s(timeout_ms), "createPartitions")
        known = self._cache(controller_id)
        self._check_limits(
            sum(
                max(0, wanted.total_count - known.num_partitions(topic))
                for topic, wanted in topics.items()
            )
        )
        failures: dict[str, Failure] = {}
        waiting: dict[str, list[TopicPartition]] = {}
        for topic, wanted in topics.items():
            try:
                waiting[topic] = self._add_partitions(topic, wanted)
            except AdminError as error:
                failures[topic] = Failure(error.code, error.message)
        cache = self._cache(controller_id)
        for topic, partitions in waiting.items():
            if not self._get_leaders(cache, partitions, deadline_s):
                failures[topic] = Failure(Errors.REQUEST_TIMED_OUT)
        return failures

    # -- from a broker's metadata cache

    def list_topics(self) -> Sequence[str]:
        """Names of all topics, sorted."""
        with self._cluster.broker_thread_paused():
            return sorted(self._cache().topics())

    def live_broker_ids(self) -> Sequence[int]:
        """The brokers that a broker knows to live."""
        return sorted(self._cache().alive_brokers)

    def live_brokers(self) -> Sequence[BrokerMetadata]:
        """The same brokers, with their racks."""
        alive = self._cache().alive_brokers
        return [BrokerMetadata(id_, alive[id_].rack) for id_ in sorted(alive)]

    def describe_topics(self, topics: Sequence[str]) -> Sequence[TopicDescription]:
        """Topics with their partitions, overrides and running reassignments.

        Raises UnknownTopicOrPartition.
        """
        with self._cluster.broker_thread_paused():
            cache = self._cache()
            states = _states_by_topic(cache, topics)
            ids = {topic: cache.topic_id(topic) for topic in topics}
            alive = set(cache.alive_brokers)
        if not all(states.values()):
            raise UnknownTopicOrPartition("This server does not host this topic-partition.")
        overrides = self._zk().get_topic_configs(topics).values
        config = self._cluster.spec.config
        defaults = {name: config[name] for name in TOPIC_DEFAULTS if name in config}
        moving = self._reassignments()
        return [
            _describe(
                topic,
                ids[topic],
                {**defaults, **overrides.get(topic, {})},
                [(state, moving.get(state.topic_partition)) for state in states[topic]],
                alive,
            )
            for topic in topics
        ]

    # -- helpers

    def _check_limits(self, added: int) -> None:
        limits = self._cluster.spec.partition_limits
        limits.check_request(added)
        controller = self._controller()
        if controller is not None:
            limits.check_cluster(len(controller.context.assignments), added)

    def _get_leaders(
        self, cache: MetadataCache, partitions: Sequence[TopicPartition], deadline_s: float
    ) -> bool:
        """Wait until a cache shows a leader for each; False if time is up first."""

        def have_leaders() -> bool | None:
            return all(cache.leader_of(tp) not in (None, NO_LEADER) for tp in partitions) or None

        try:
            return self._closing.wait_until(have_leaders, deadline_s, "")
        except RequestTimedOut:
            return False

    def _add_partitions(self, topic: str, wanted: NewPartitions) -> list[TopicPartition]:
        """Validate and write; the partitions that are new. Raises AdminError."""
        spec = self._cluster.spec
        admin = TopicAdmin(self._zk(), JavaRandom(0), spec.pools, spec.partition_limits)
        existing = admin.existing_assignment(topic)
        if not existing:
            raise UnknownTopicOrPartition(f"The topic '{topic}' does not exist.")
        if any(assignment.is_being_reassigned for assignment in existing.values()):
            raise _ReassignmentInProgress(
                f"A partition reassignment is in progress for the topic '{topic}'."
            )
        count = len(existing)
        if wanted.total_count < count:
            raise InvalidPartitions(
                f"Topic currently has {count} partitions, which is higher than the requested "
                f"{wanted.total_count}."
            )
        if wanted.total_count == count:
            raise InvalidPartitions(f"Topic already has {count} partitions.")
        manual = None
        if wanted.new_assignments is not None:
            brokers = [broker.id for broker in admin.broker_metadatas()]
            manual = number_added_lists(wanted.new_assignments, count, wanted.total_count, brokers)
        admin.add_partitions(topic, existing, wanted.total_count, manual)
        return [TopicPartition(topic, number) for number in range(count, wanted.total_count)]

    def _reassignments(self) -> dict[TopicPartition, Reassignment]:
        controller = self._controller()
        if controller is None:
            return {}
        context = controller.context
        found: dict[TopicPartition, Reassignment] = {}
        for tp in tuple(context.partitions_being_reassigned):
            assignment = context.partition_full_replica_assignment(tp)
            if assignment.is_being_reassigned:
                found[tp] = Reassignment(
                    assignment.replicas, assignment.adding_replicas, assignment.removing_replicas
                )
        return found


class _ReassignmentInProgress(AdminError):
    """Partitions cannot be added while others of the topic move."""

    code = Errors.REASSIGNMENT_IN_PROGRESS
    kafka_class = "org.apache.kafka.common.errors.ReassignmentInProgressException"


def _is_not_controller(response: CreateTopicsResponse | DeleteTopicsResponse) -> bool:
    return any(result.error is Errors.NOT_CONTROLLER for result in response.topics)


def _states_by_topic(
    cache: MetadataCache, topics: Sequence[str]
) -> dict[str, list[UpdateMetadataPartitionState]]:
    """The partitions' states by topic, in order; none for a topic that is unknown."""
    states: dict[str, list[UpdateMetadataPartitionState]] = {topic: [] for topic in topics}
    for topic, found in states.items():
        for partition in range(cache.num_partitions(topic)):
            state = cache.get(TopicPartition(topic, partition))
            if state is not None:
                found.append(state)
    gaps = {t: found for t, found in states.items() if len(found) < cache.num_partitions(t)}
    if gaps:
        for found in gaps.values():
            found.clear()
        for state in cache.states():
            if state.topic_partition.topic in gaps:
                gaps[state.topic_partition.topic].append(state)
        for found in gaps.values():
            found.sort(key=lambda state: state.topic_partition.partition)
    return states


def _describe(
    topic: str,
    topic_id: str | None,
    configs: Mapping[str, str],
    partitions: Sequence[tuple[UpdateMetadataPartitionState, Reassignment | None]],
    alive: set[int],
) -> TopicDescription:
    return TopicDescription(
        topic,
        topic_id,
        configs,
        tuple(
            PartitionDescription(
                topic,
                state.topic_partition.partition,
                state.leader if state.leader in alive else None,
                state.replicas,
                state.isr,
                min_isr=int(configs.get(_MIN_ISR, "1")),
                reassignment=reassignment,
            )
            for state, reassignment in partitions
        ),
    )
