"""Kafka's Admin client, which Kafka's tools, the HTTP API and scenarios use.

This module builds requests and chooses their destinations; AdminChannel sends them. The HTTP API
offers the same calls (server/admin_calls.py). Mirrors
org.apache.kafka.clients.admin.KafkaAdminClient, createPartitions and incrementalAlterConfigs of
kafka.server.ZkAdminManager, and kafka.server.ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from klamm.admin.admin_channel import AdminChannel, timed_out
from klamm.admin.configs.changes import alter_configs, checked_resource
from klamm.admin.configs.client_quotas import ClientQuotas
from klamm.admin.configs.config_resource import BROKERS, TOPICS, ConfigResource
from klamm.admin.configs.configs_admin import ConfigEntry
from klamm.admin.configs.effective_configs import (
    BrokerConfigs,
    broker_entries,
    default_entries,
    shown_overrides,
    static_topic_configs,
    topic_entries,
)
from klamm.admin.configs.scram_credentials import UserScramCredentials
from klamm.admin.configs.zookeeper import read_overrides
from klamm.admin.failures import admin_error
from klamm.admin.topic_description import PartitionDescription, TopicDescription
from klamm.admin.topics import TopicAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import TopicMetadata
from klamm.cluster.configs import TOPIC_CONFIGS
from klamm.cluster.counting import listed
from klamm.cluster.errors import AdminError, UnknownTopicOrPartition
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.scala_sets import mutable_order
from klamm.cluster.partition_limits import DEFAULT_LIMITS, PartitionLimits
from klamm.cluster.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    ApiError,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    NewPartitions,
    ReplicaInfo,
)
from klamm.cluster.suggestions import suggestion
from klamm.cluster.topic_names import validate_topic_name
from klamm.cluster.types import (
    NO_LEADER,
    ElectionType,
    ReplicaAssignment,
    TopicPartition,
    TopicPartitionReplica,
)
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.placement.draws import JavaRandom
from klamm.placement.pools import NO_POOLS, Pools
from klamm.zk.znodes import DEFAULT_ENTITY

DESCRIBE_CONFIGS_TIMEOUT_MS: Final = 30_000
_LISTED: Final = 10
"""Maximum number of topics that a hint lists."""
_OF_ALL_BROKERS: Final = ConfigResource(BROKERS, DEFAULT_ENTITY)

K = TypeVar("K")


class ReplicaLogDirs(NamedTuple):
    """Log directory of a replica, and the target directory if the replica is being moved.

    If ``current`` is None, no live log directory contains the replica.
    """

    current: str | None
    future: str | None = None


class LogDirDescription(NamedTuple):
    """A log directory of a broker and the replicas in it.

    ``error`` is the Java class of the error if the directory has failed, otherwise None.
    """

    error: str | None
    replicas: Mapping[TopicPartition, ReplicaInfo]


class KafkaAdmin:
    """Kafka's Admin client for one cluster. Thread-safe if ``channel`` is thread-safe.

    The HTTP API offers every public method, so that commands can call each of them over HTTP.
    ``config`` has the brokers' static configs. ``pools`` restricts on which brokers replicas are
    placed, and ``limits`` restricts the number of partitions. Every call raises KlammError if the
    cluster does not respond, and AdminError if the cluster refuses the request.
    """

    def __init__(
        self,
        channel: AdminChannel,
        config: Mapping[str, str],
        pools: Pools = NO_POOLS,
        limits: PartitionLimits = DEFAULT_LIMITS,
    ) -> None:
        self._channel = channel
        self._config = config
        self._pools = pools
        self._limits = limits

    # -- topics and brokers

    def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """Create topics; wait until they have leaders or the request's timeout expires."""
        self._check_limits(
            sum(len(one.assignments) or max(1, one.num_partitions) for one in request.topics)
        )
        return self._channel.ask_controller(
            "createTopics", request, CreateTopicsResponse, request.timeout_ms
        )

    def delete_topics(self, topics: Sequence[str], timeout_ms: int) -> Mapping[str, ApiError]:
        """Delete topics; return the error of each topic that was not deleted, keyed by topic."""
        request = DeleteTopicsRequest(tuple(topics), timeout_ms)
        response = self._channel.ask_controller(
            "deleteTopics", request, DeleteTopicsResponse, timeout_ms
        )
        return _refused({str(result.name): ApiError(result.error) for result in response.topics})

    def create_partitions(
        self, topics: Mapping[str, NewPartitions], timeout_ms: int, *, validate_only: bool = False
    ) -> Mapping[str, ApiError]:
        """Add partitions to topics; wait until they have leaders or the timeout expires.

        With ``validate_only``, no partitions are added. Returns errors keyed by topic, e.g.
        REQUEST_TIMED_OUT if the timeout expires first.
        """
        channel = self._channel
        deadline_ms = channel.now_ms() + timeout_ms
        channel.await_controller("createPartitions", timeout_ms)
        known = channel.metadata(tuple(topics)).topics
        self._check_limits(
            sum(max(0, topics[one.name].total_count - len(one.partitions)) for one in known)
        )
        admin = TopicAdmin(channel.zk, JavaRandom(0), self._pools, self._limits)
        failures: dict[str, ApiError] = {}
        added: dict[str, list[TopicPartition]] = {}
        for topic, wanted in topics.items():
            try:
                added[topic] = admin.create_partitions(topic, wanted, validate_only=validate_only)
            except AdminError as error:
                failures[topic] = ApiError(error.code, error.message)
        if validate_only:
            return failures
        for topic, partitions in added.items():
            if not channel.await_leaders(partitions, deadline_ms - channel.now_ms()):
                failures[topic] = ApiError(Errors.REQUEST_TIMED_OUT)
        return failures

    def list_topics(self) -> Sequence[str]:
        """Return the names of all topics, including internal ones."""
        return self._channel.topic_names()

    def describe_topics(self, topics: Sequence[str]) -> Sequence[TopicDescription]:
        """Return the partitions, config overrides and running reassignments of topics.

        Raises UnknownTopicOrPartition if a topic does not exist.
        """
        found = self._channel.metadata(topics).topics
        for topic in found:
            if not topic.partitions:
                raise UnknownTopicOrPartition(
                    "This server does not host this topic-partition.",
                    hint=f"topic {topic.name} does not exist; {self._known_topics(topic.name)}",
                )
        overrides = self._channel.zk.get_topic_configs(topics).values
        defaults = static_topic_configs(self._config)
        moving = self._channel.running_reassignments()
        return [
            _description(topic, defaults | shown_overrides(overrides.get(topic.name, {})), moving)
            for topic in found
        ]

    def _known_topics(self, unknown: str) -> str:
        names = self._channel.topic_names()
        return suggestion(unknown, names, f"topics: {listed(names, _LISTED) or 'none'}")

    def live_brokers(self) -> list[BrokerMetadata]:
        """Return the live brokers and their racks, by ascending id."""
        found = {broker.id: broker.rack for broker in self._channel.metadata(()).brokers}
        return [BrokerMetadata(id_, found[id_]) for id_ in sorted(found)]

    # -- reassignments and elections

    def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Return the running reassignments of ``partitions``; None means all partitions."""
        request = ListPartitionReassignmentsRequest(
            None if partitions is None else tuple(partitions)
        )
        response = self._channel.ask_controller(
            "listPartitionReassignments", request, ListPartitionReassignmentsResponse
        )
        _check(response.error)
        return response.partitions

    def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, tuple[int, ...] | None], timeout_ms: int
    ) -> Mapping[TopicPartition, ApiError]:
        """Start, replace or cancel reassignments; return the errors, keyed by partition.

        ``reassignments`` maps a partition to its target replicas, or to None to cancel its
        reassignment. ``timeout_ms`` is ignored, as it is by Kafka's controller.
        """
        response = self._channel.ask_controller(
            "alterPartitionReassignments",
            AlterPartitionReassignmentsRequest(reassignments),
            AlterPartitionReassignmentsResponse,
        )
        _check(response.error)
        return _refused(response.partitions)

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Collection[TopicPartition] | None,
        timeout_ms: int,
    ) -> Mapping[TopicPartition, ApiError]:
        """Elect leaders of ``partitions``; return the result for each partition.

        If ``partitions`` is None, leaders are elected for all partitions that need an election.
        """
        request = ElectLeadersRequest(
            election_type, None if partitions is None else tuple(partitions), timeout_ms
        )
        response = self._channel.ask_controller(
            "electLeaders", request, ElectLeadersResponse, timeout_ms
        )
        _check(ApiError(response.error))
        return response.partitions

    # -- log directories

    def describe_log_dirs(
        self, brokers: Sequence[int] | None = None
    ) -> Mapping[int, Mapping[str, LogDirDescription]]:
        """Return the log directories of each broker, keyed by path.

        If ``brokers`` is None, all live brokers are asked. Raises RequestTimedOut if a broker does
        not respond.
        """
        asked = [broker.id for broker in self.live_brokers()] if brokers is None else brokers
        responses = self._describe_log_dirs(
            "describeLogDirs", {id_: DescribeLogDirsRequest() for id_ in asked}
        )
        return {id_: _log_dirs(response) for id_, response in responses.items()}

    def describe_replica_log_dirs(
        self, replicas: Collection[TopicPartitionReplica]
    ) -> Mapping[TopicPartitionReplica, ReplicaLogDirs]:
        """Return the log directories of replicas, and the targets of running moves.

        Raises RequestTimedOut if a broker does not respond.
        """
        asked: dict[int, list[TopicPartition]] = {}
        for topic, partition, broker_id in replicas:
            asked.setdefault(broker_id, []).append(TopicPartition(topic, partition))
        responses = self._describe_log_dirs(
            "describeReplicaLogDirs",
            {id_: DescribeLogDirsRequest(tuple(partitions)) for id_, partitions in asked.items()},
        )
        found = {replica: ReplicaLogDirs(None) for replica in replicas}
        for broker_id, response in responses.items():
            for log_dir in response.log_dirs:
                for tp, log in log_dir.logs.items():
                    replica = TopicPartitionReplica(*tp, broker_id)
                    if replica in found:
                        kind = "future" if log.is_future else "current"
                        found[replica] = found[replica]._replace(**{kind: log_dir.path})
        return found

    def alter_replica_log_dirs(
        self, replicas: Mapping[TopicPartitionReplica, str]
    ) -> Mapping[TopicPartitionReplica, ApiError]:
        """Move replicas to other log directories; return the error of each move that failed."""
        wanted: dict[int, dict[TopicPartition, str]] = {}
        for (topic, partition, broker_id), log_dir in replicas.items():
            wanted.setdefault(broker_id, {})[TopicPartition(topic, partition)] = log_dir
        call = "alterReplicaLogDirs"
        responses = self._channel.ask_brokers(
            call,
            {id_: AlterReplicaLogDirsRequest(dirs) for id_, dirs in wanted.items()},
            AlterReplicaLogDirsResponse,
        )
        results: dict[TopicPartitionReplica, ApiError] = {}
        for replica in replicas:
            response = responses.get(replica.broker_id)
            if response is None:
                late = timed_out(call, self._channel.now_ms())
                results[replica] = ApiError(late.code, late.message)
            else:
                tp = TopicPartition(replica.topic, replica.partition)
                results[replica] = ApiError(response.results[tp])
        return _refused(results)

    # -- configs

    def overrides(
        self, entities: Collection[ConfigResource] | None = None
    ) -> Mapping[ConfigResource, Mapping[str, str]]:
        """Return the config overrides of each topic or broker in ``entities``.

        If ``entities`` is None, all topics and brokers with overrides are returned.
        """
        wanted = None if entities is None else list(map(checked_resource, entities))
        return read_overrides(self._channel.zk, wanted)

    def describe_configs(self, resource: ConfigResource) -> Sequence[ConfigEntry]:
        """Return all configs of a topic or broker, in the order in which a broker of Kafka does.

        For DEFAULT_ENTITY, returns the dynamic defaults of all brokers. Raises InvalidTopic,
        UnknownTopicOrPartition, InvalidRequest, and RequestTimedOut if the broker is down.
        """
        entries = {entry.name: entry for entry in self._config_entries(checked_resource(resource))}
        return [entries[name] for name in mutable_order(entries, string_hash)]

    def _config_entries(self, resource: ConfigResource) -> Iterable[ConfigEntry]:
        if resource.entity_type == TOPICS:
            validate_topic_name(resource.name)
            if not self._topic_exists(resource.name):
                raise UnknownTopicOrPartition(
                    f"topic {resource.name} does not exist",
                    hint="klamm topics --list lists all topics",
                )
            overrides = self.overrides([resource])[resource]
            broker_id = self._channel.metadata(()).controller_id
            return topic_entries(overrides, self._broker_configs(broker_id))
        if resource.name == DEFAULT_ENTITY:
            return default_entries(self.overrides([resource])[resource])
        broker_id = int(resource.name)
        self._channel.await_broker("describeConfigs", broker_id, DESCRIBE_CONFIGS_TIMEOUT_MS)
        return broker_entries(self._broker_configs(broker_id))

    def incremental_alter_configs(
        self,
        entities: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
    ) -> Mapping[ConfigResource, Mapping[str, str]]:
        """Change configs of topics and brokers; the value None removes a config.

        With ``validate_only``, nothing is changed. Brokers that are down are changed last, because
        the call waits for them. If a change fails, the other changes are still attempted, and then
        the first AdminError is raised, which is definite only if no change was made. Returns all
        config overrides of these topics and brokers after the changes.
        """
        changes = [(checked_resource(entity), wanted) for entity, wanted in entities.items()]
        failed: list[AdminError] = []
        for entity, wanted in sorted(changes, key=lambda change: self._is_down(change[0])):
            try:
                if self._is_down(entity):
                    self._channel.await_broker("incrementalAlterConfigs", int(entity.name))
                alter_configs(
                    self._channel.zk,
                    entity,
                    wanted,
                    self._topic_exists,
                    validate_only=validate_only,
                )
            except AdminError as error:
                failed.append(error)
        if failed:
            failed[0].definite &= validate_only or len(failed) == len(changes)
            raise failed[0]
        return self.overrides(list(entities))

    # -- helpers

    def _check_limits(self, added: int) -> None:
        self._limits.check_request(added)
        existing = self._channel.partition_count()
        if existing is not None:
            self._limits.check_cluster(existing, added)

    def _describe_log_dirs(
        self, call: str, requests: Mapping[int, DescribeLogDirsRequest]
    ) -> Mapping[int, DescribeLogDirsResponse]:
        responses = self._channel.ask_brokers(call, requests, DescribeLogDirsResponse)
        missing = sorted(requests.keys() - responses.keys())
        if missing:
            raise self._channel.no_response(call, missing)
        return responses

    def _broker_configs(self, broker_id: int) -> BrokerConfigs:
        own = ConfigResource(BROKERS, str(broker_id))
        found = self.overrides([own, _OF_ALL_BROKERS])
        static = {**self._config, **self._registered_configs(broker_id)}
        return BrokerConfigs(found[own], found[_OF_ALL_BROKERS], static)

    def _registered_configs(self, broker_id: int) -> dict[str, str]:
        """Return the configs that a broker takes from its properties, and shows as it registers."""
        configs = {"broker.id": str(broker_id)}
        for broker in self._channel.metadata(()).brokers:
            if broker.id == broker_id:
                configs["advertised.listeners"] = ",".join(
                    one.connection_string for one in broker.end_points
                )
                if broker.rack is not None:
                    configs["broker.rack"] = broker.rack
        return configs

    def _topic_exists(self, topic: str) -> bool:
        return bool(self._channel.metadata((topic,)).topics[0].partitions)

    def _is_down(self, resource: ConfigResource) -> bool:
        is_broker = resource.entity_type == BROKERS and resource.name != DEFAULT_ENTITY
        return is_broker and not self._channel.is_registered(int(resource.name))


class ListenerAdmin(KafkaAdmin):
    """KafkaAdmin with what only the listeners need and the HTTP API does not offer."""

    @property
    def user_scram_credentials(self) -> UserScramCredentials:
        """The SCRAM credentials of users."""
        return UserScramCredentials(self._channel.zk)

    @property
    def client_quotas(self) -> ClientQuotas:
        """The quotas of users, client ids and IP addresses."""
        return ClientQuotas(self._channel.zk)

    def broker_configs(self, broker_id: int) -> BrokerConfigs:
        """Return the configs that are set for a broker."""
        return self._broker_configs(broker_id)


def _refused(results: Mapping[K, ApiError]) -> dict[K, ApiError]:
    return {key: found for key, found in results.items() if found.error is not Errors.NONE}


def _check(error: ApiError) -> None:
    if error.error is not Errors.NONE:
        raise admin_error(error)


def _description(
    topic: TopicMetadata,
    configs: Mapping[str, str],
    moving: Mapping[TopicPartition, ReplicaAssignment],
) -> TopicDescription:
    partitions = tuple(
        PartitionDescription(
            topic.name,
            found.partition,
            None if found.leader == NO_LEADER else found.leader,
            found.replicas,
            found.isr,
            min_isr=TOPIC_CONFIGS["min.insync.replicas"].value(configs),
            reassignment=moving.get(TopicPartition(topic.name, found.partition)),
        )
        for found in topic.partitions
    )
    return TopicDescription(topic.name, topic.topic_id, configs, partitions)


def _log_dirs(response: DescribeLogDirsResponse) -> dict[str, LogDirDescription]:
    return {
        log_dir.path: LogDirDescription(
            None
            if log_dir.error is Errors.NONE
            else admin_error(ApiError(log_dir.error)).kafka_class,
            log_dir.logs,
        )
        for log_dir in response.log_dirs
    }
