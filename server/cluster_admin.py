"""Topics of the running cluster, as a Kafka Admin client sees and changes them.

A client of the cluster like any other: it asks the active controller by messages and reads a
broker's metadata cache; what it creates, the controller validates and writes. Mirrors
org.apache.kafka.clients.admin.KafkaAdminClient, and createPartitions of
kafka/server/ZkAdminManager.scala.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Final, TypeVar

from admin.cluster_topics import NewPartitions
from admin.failures import Failure
from admin.topic_text import PartitionDescription, Reassignment, TopicDescription
from admin.topics import TopicAdmin
from brokers.broker import Broker
from brokers.metadata_cache import MetadataCache
from cluster.api_errors import Errors
from cluster.errors import (
    AdminError,
    InvalidPartitions,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from cluster.requests import (
    Address,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    Message,
    TopicRequest,
    TopicResponse,
    UpdateMetadataPartitionState,
)
from cluster.types import NO_LEADER, TopicPartition
from placement.added_partitions import number_added_lists
from placement.draws import JavaRandom
from runtime.real_cluster import RealCluster
from server.closing import POLL_S, Closing
from server.config import TOPIC_DEFAULTS
from server.zookeeper import connected_store
from zk.kafka_zk_client import KafkaZkClient

API_TIMEOUT_S: Final = 60.0
"""How long a call looks for a controller: default.api.timeout.ms."""
_R = TypeVar("_R", bound=TopicResponse)
_MIN_ISR: Final = "min.insync.replicas"
_NO_NODE: Final = "Timed out waiting for a node assignment. Call: {}"


class RunningClusterAdmin:
    """admin.cluster_topics.ClusterAdmin inside the server's process. For any thread."""

    def __init__(self, cluster: RealCluster, closing: Closing) -> None:
        self._cluster = cluster
        self._closing = closing
        self._address = Address("client", 0)
        self._lock = threading.Lock()
        self._last_correlation_id = 0
        self._answers: dict[int, Future[object]] = {}
        cluster.transport.register(self._address, self._on_message)

    # -- through the controller

    def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """Create topics; asks again if the controller moves or dies before it answers.

        Raises RequestTimedOut if there is no controller.
        """
        return self._call("createTopics", request, CreateTopicsResponse)

    def delete_topics(self, topics: Sequence[str], timeout_ms: int) -> Mapping[str, Failure]:
        """Delete topics; asks again if the controller moves or dies before it answers.

        Raises RequestTimedOut if there is no controller.
        """
        request = DeleteTopicsRequest(tuple(topics), timeout_ms)
        response = self._call("deleteTopics", request, DeleteTopicsResponse)
        return {r.name: Failure(r.error) for r in response.topics if r.error is not Errors.NONE}

    def create_partitions(
        self, topics: Mapping[str, NewPartitions], timeout_ms: int
    ) -> Mapping[str, Failure]:
        """Add partitions; answered when they have leaders, or at the timeout.

        Raises RequestTimedOut if there is no controller.
        """
        controller_id = self._controller_id(time.monotonic() + API_TIMEOUT_S, "createPartitions")
        deadline_s = time.monotonic() + timeout_ms / 1000
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
        overrides = KafkaZkClient(connected_store(self._cluster)).get_topic_configs(topics).values
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

    # -- messages

    def _on_message(self, message: Message) -> None:
        with self._lock:
            answer = self._answers.pop(message.correlation_id, None)
        if answer is not None:
            answer.set_result(message.body)

    def _call(self, name: str, request: TopicRequest, kind: type[_R]) -> _R:
        """Ask the controller until one answers that is the controller.

        Raises RequestTimedOut if there is none in time.
        """
        deadline_s = time.monotonic() + API_TIMEOUT_S
        while True:
            controller_id = self._controller_id(deadline_s, name)
            response = self._ask(controller_id, request, name, deadline_s)
            if isinstance(response, kind) and not any(
                result.error is Errors.NOT_CONTROLLER for result in response.topics
            ):
                return response
            self._pause(deadline_s, name)

    def _ask(
        self, controller_id: int, request: TopicRequest, name: str, deadline_s: float
    ) -> object:
        """One request; None if the controller's process ended before it answered."""
        running = self._cluster.nodes.get(controller_id)
        answer: Future[object] = Future()
        with self._lock:
            self._last_correlation_id += 1
            number = self._last_correlation_id
            self._answers[number] = answer
        destination = Address("controller", controller_id)
        self._cluster.transport.send(Message(self._address, destination, number, request))
        try:
            while time.monotonic() < deadline_s:
                try:
                    return self._closing.result_of(answer, POLL_S)
                except TimeoutError:
                    if self._cluster.nodes.get(controller_id) is not running:
                        return None
            raise RequestTimedOut(f"Timed out waiting to send the call. Call: {name}")
        finally:
            with self._lock:
                self._answers.pop(number, None)

    def _controller_id(self, deadline_s: float, call: str) -> int:
        return self._closing.wait_until(
            lambda: self._cluster.active_controller, deadline_s, _NO_NODE.format(call)
        )

    def _pause(self, deadline_s: float, call: str) -> None:
        """Let retry.backoff.ms pass."""
        retry_at_s = time.monotonic() + 0.1
        self._closing.wait_until(
            lambda: True if time.monotonic() >= retry_at_s else None,
            deadline_s,
            _NO_NODE.format(call),
        )

    # -- helpers

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

    def _cache(self, broker_id: int | None = None) -> MetadataCache:
        """A broker's metadata cache: the controller's own if there is a controller.

        Raises RequestTimedOut if no broker runs.
        """
        return self._any_broker(broker_id).metadata_cache

    def _any_broker(self, broker_id: int | None) -> Broker:
        wanted = self._cluster.active_controller if broker_id is None else broker_id
        running = dict(self._cluster.nodes)
        for candidate in (wanted, *sorted(running)):
            if candidate in running and not running[candidate].is_paused:
                return running[candidate].node.broker
        raise RequestTimedOut(_NO_NODE.format("describeCluster"), hint="no broker runs")

    def _add_partitions(self, topic: str, wanted: NewPartitions) -> list[TopicPartition]:
        """Validate and write; the partitions that are new. Raises AdminError."""
        client = KafkaZkClient(connected_store(self._cluster))
        admin = TopicAdmin(client, JavaRandom(0), self._cluster.spec.pools)
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
        controller_id = self._cluster.active_controller
        running = self._cluster.nodes.get(-1 if controller_id is None else controller_id)
        if running is None or running.node.controller is None:
            return {}
        context = running.node.controller.context
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
