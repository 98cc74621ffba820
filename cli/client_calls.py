"""What Kafka's tools ask of a running cluster, as requests to klamm's HTTP API.

It knows paths and bodies, and leaves the connection to whoever builds on it. Mirrors the methods of
org.apache.kafka.clients.admin.Admin that Kafka's tools call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

import msgspec

from admin.configs.config_resource import ConfigResource
from admin.configs.configs_admin import ConfigEntry
from admin.failures import Failure, admin_error
from admin.log_dirs_command import LogDirDescription
from admin.reassignments.reassign_admin import ReplicaLogDirs
from admin.reassignments.reassignment_json import TopicPartitionReplica
from admin.topics.cluster_topics import NewPartitions
from admin.topics.text import TopicDescription
from cluster import errors
from cluster.api_errors import Errors
from cluster.errors import KlammError, UnknownTopicOrPartition
from cluster.requests import CreateTopicsRequest, CreateTopicsResponse
from cluster.types import ElectionType, ReplicaAssignment, TopicPartition
from placement.broker_metadata import BrokerMetadata
from server.bodies import (
    AlterReassignments,
    CreatePartitions,
    ElectLeaders,
    LiveBrokers,
    PartitionResults,
    PartitionsOrAll,
    Reassignments,
    TopicDescriptions,
    TopicFailures,
    TopicNames,
    Topics,
    WantedReplicas,
    partitions_of,
)
from server.config_bodies import ConfigEntries, ConfigsOfEntities, Entities, Entity, EntityConfigs
from server.log_dir_bodies import (
    AlterLogDirs,
    Brokers,
    LogDirs,
    ReplicaFailures,
    ReplicaPlaces,
    Replicas,
    WantedLogDir,
)

T = TypeVar("T")


class Refused(KlammError):
    """The server refused the request: a wrong Host, Origin or token."""


class _ErrorBody(msgspec.Struct):
    message: str
    error: str = "KlammError"
    code: str | None = None
    hint: str | None = None


class _ErrorAnswer(msgspec.Struct):
    error: _ErrorBody


class ClusterClient(ABC):
    """ClusterAdmin, ReassignAdmin, ElectionAdmin, LogDirsAdmin and ConfigsAdmin over HTTP.

    Every call raises what ``request`` raises.
    """

    @abstractmethod
    def request(self, method: str, path: str, body: object = None) -> bytes:
        """The answer as it came."""

    # -- topics and brokers

    def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """Create topics through the controller."""
        return self._ask("/topics", request, CreateTopicsResponse)

    def list_topics(self) -> Sequence[str]:
        """Names of all topics."""
        return msgspec.json.decode(self.request("GET", "/topics"), type=TopicNames).topics

    def describe_topics(self, topics: Sequence[str]) -> Sequence[TopicDescription]:
        """Topics and their partitions. Raises UnknownTopicOrPartition."""
        return self._ask("/topics/describe", Topics(tuple(topics)), TopicDescriptions).topics

    def create_partitions(
        self, topics: Mapping[str, NewPartitions], timeout_ms: int
    ) -> Mapping[str, Failure]:
        """Add partitions; gives the topics that were refused."""
        body = CreatePartitions(dict(topics), timeout_ms)
        return self._ask("/topics/partitions", body, TopicFailures).failures

    def delete_topics(self, topics: Sequence[str], timeout_ms: int) -> Mapping[str, Failure]:
        """Delete topics; gives those that were refused."""
        body = Topics(tuple(topics), timeout_ms)
        return self._ask("/topics/delete", body, TopicFailures).failures

    def live_broker_ids(self) -> Sequence[int]:
        """The brokers that live."""
        return [broker.id for broker in self.live_brokers()]

    def live_brokers(self) -> Sequence[BrokerMetadata]:
        """The same brokers, with their racks."""
        answer = self.request("GET", "/brokers/live")
        found = msgspec.json.decode(answer, type=LiveBrokers).brokers
        return [BrokerMetadata(broker.id, broker.rack) for broker in found]

    # -- reassignments and elections

    def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """What is being reassigned: of ``partitions``, or all of it."""
        body = PartitionsOrAll(partitions_of(partitions))
        return self._ask("/reassignments/list", body, Reassignments).by_partition()

    def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None], timeout_ms: int
    ) -> Mapping[TopicPartition, Failure]:
        """Start reassignments; a target of None cancels. Gives the partitions refused."""
        wanted = tuple(WantedReplicas(*tp, replicas) for tp, replicas in targets.items())
        body = AlterReassignments(wanted, timeout_ms)
        results = self._ask("/reassignments", body, PartitionResults).by_partition()
        return {tp: failure for tp, failure in results.items() if failure is not None}

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Collection[TopicPartition] | None,
        timeout_ms: int,
    ) -> Mapping[TopicPartition, Failure | None]:
        """Elect leaders; None asks for all partitions that need it."""
        body = ElectLeaders(election_type, partitions_of(partitions), timeout_ms)
        return self._ask("/elections", body, PartitionResults).by_partition()

    # -- log directories

    def describe_log_dirs(
        self, brokers: Sequence[int]
    ) -> Mapping[int, Mapping[str, LogDirDescription]]:
        """The directories of brokers by path. Raises RequestTimedOut if one does not answer."""
        return self._ask("/log-dirs/describe", Brokers(tuple(brokers)), LogDirs).by_broker()

    def describe_replica_log_dirs(
        self, replicas: Collection[TopicPartitionReplica]
    ) -> Mapping[TopicPartitionReplica, ReplicaLogDirs]:
        """The directories of replicas. Raises RequestTimedOut if a broker does not answer."""
        return self._ask("/log-dirs/replicas", Replicas.of(replicas), ReplicaPlaces).by_replica()

    def alter_replica_log_dirs(
        self, log_dirs: Mapping[TopicPartitionReplica, str]
    ) -> Mapping[TopicPartitionReplica, Failure]:
        """Give replicas another directory; gives those that were refused."""
        body = AlterLogDirs(tuple(WantedLogDir(*one, path) for one, path in log_dirs.items()))
        return self._ask("/log-dirs", body, ReplicaFailures).by_replica()

    # -- configs

    def overrides(
        self, resources: Collection[ConfigResource] | None = None
    ) -> Mapping[ConfigResource, Mapping[str, str]]:
        """The configs that are set for each of the entities; none for one that has none.

        Without ``resources``: of every entity that has some.
        """
        body = Entities(
            None if resources is None else tuple(Entity(*resource) for resource in resources)
        )
        found = self._ask("/configs/overrides", body, ConfigsOfEntities).by_entity()
        return {
            resource: {name: value for name, value in configs.items() if value is not None}
            for resource, configs in found.items()
        }

    def describe_configs(self, resource: ConfigResource) -> Sequence[ConfigEntry]:
        """The configs of a topic, a broker, or with the name DEFAULT_ENTITY of all brokers."""
        try:
            return self._ask("/configs/describe", Entity(*resource), ConfigEntries).entries
        except UnknownTopicOrPartition as error:
            # Kafka's brokers answer without a text, and its tools print that.
            raise UnknownTopicOrPartition("", hint=error.message) from error

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Mapping[str, str | None]]
    ) -> None:
        """Set configs of entities; None removes one. Raises AdminError if one is refused."""
        entities = tuple(EntityConfigs(*entity, dict(found)) for entity, found in changes.items())
        self._ask("/configs", ConfigsOfEntities(entities), ConfigsOfEntities)

    def _ask(self, path: str, body: object, kind: type[T]) -> T:
        return msgspec.json.decode(self.request("POST", path, body), type=kind)


def answered_error(answer: bytes) -> KlammError:
    """The error that a server answered with. Raises msgspec.DecodeError if it is no klamm's."""
    body = msgspec.json.decode(answer, type=_ErrorAnswer).error
    if body.error == "Refused":
        return Refused(body.message, hint=body.hint)
    if body.code is not None:
        answered = admin_error(Failure(Errors[body.code], body.message))
        answered.hint = body.hint
        return answered
    kind = getattr(errors, body.error, KlammError)
    is_error = isinstance(kind, type) and issubclass(kind, KlammError)
    return (kind if is_error else KlammError)(body.message, hint=body.hint)
