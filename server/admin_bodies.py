"""Bodies of the calls of KafkaAdmin in the HTTP API: entries of mappings, requests, responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from klamm.admin.configs.config_resource import ConfigResource
from klamm.admin.configs.configs_admin import ConfigEntry
from klamm.admin.kafka_admin import LogDirDescription, ReplicaLogDirs
from klamm.admin.topic_description import TopicDescription
from klamm.cluster import requests
from klamm.cluster.api_errors import Errors
from klamm.cluster.integers import Count, Int32
from klamm.cluster.types import (
    ElectionType,
    ReplicaAssignment,
    TopicPartition,
    TopicPartitionReplica,
)
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.server.bodies import RequestBody
from klamm.server.entries import Entry

DEFAULT_TIMEOUT_MS = 30_000


def _api_error(code: str, message: str | None) -> requests.ApiError:
    return requests.ApiError(Errors[code], message)


# -- entries of mappings: the fields of the key, then the fields of the value


class PartitionEntry(Entry, frozen=True):
    """A partition, identified by topic and partition number."""

    KEY: ClassVar[Callable[..., Any]] = TopicPartition
    topic: str
    partition: Int32


class PartitionResult(PartitionEntry, frozen=True, forbid_unknown_fields=False):
    """Result of a request for one partition; ``code`` is NONE if there was no error."""

    VALUE = _api_error
    code: str
    message: str | None = None


class MovingPartition(PartitionEntry, frozen=True, forbid_unknown_fields=False):
    """A partition that is being reassigned."""

    VALUE = ReplicaAssignment
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


class WantedReplicas(PartitionEntry, frozen=True):
    """Target replicas of a partition; null cancels the partition's reassignment."""

    replicas: tuple[Int32, ...] | None


class Replica(PartitionEntry, frozen=True):
    """One replica of a partition."""

    KEY = TopicPartitionReplica
    broker: Count


class ReplicaPlace(Replica, frozen=True, forbid_unknown_fields=False):
    """Log directory of a replica, and the target directory if the replica is being moved."""

    VALUE = ReplicaLogDirs
    current: str | None = None
    future: str | None = None


class WantedLogDir(Replica, frozen=True):
    """Target log directory of a replica."""

    log_dir: str


class ReplicaFailure(Replica, frozen=True, forbid_unknown_fields=False):
    """The error for a replica that could not be moved."""

    VALUE = _api_error
    code: str
    message: str | None = None


class TopicFailure(Entry, frozen=True, forbid_unknown_fields=False):
    """The error for one topic."""

    KEY = str
    VALUE = _api_error
    topic: str
    code: str
    message: str | None = None


class ReplicaLogEntry(PartitionEntry, frozen=True, forbid_unknown_fields=False):
    """A replica in a log directory; ``is_future`` marks a copy that a running move creates."""

    VALUE = requests.ReplicaInfo
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDir(Entry, frozen=True, forbid_unknown_fields=False):
    """A log directory; ``error`` is the Java class of its error, or null if it has not failed."""

    KEY = str
    VALUE = LogDirDescription
    path: str
    error: str | None
    replicas: list[ReplicaLogEntry]


class BrokerLogDirs(Entry, frozen=True, forbid_unknown_fields=False):
    """The log directories of a broker."""

    KEY = int
    broker: int
    log_dirs: list[LogDir]


class LiveBroker(Entry, frozen=True, forbid_unknown_fields=False):
    """A live broker and its rack."""

    KEY = BrokerMetadata
    id: int
    rack: str | None = None


class Entity(Entry, frozen=True):
    """A topic or broker that has configs; ``type`` is "topics" or "brokers"."""

    KEY = ConfigResource
    type: str
    name: str


class EntityConfigs(Entity, frozen=True):
    """Configs of a topic or broker, keyed by config name; in requests, null removes a config."""

    configs: dict[str, str | None]


# -- bodies of requests: their fields are the arguments of the call


class Topics(RequestBody, frozen=True):
    """Body of POST /topics/describe."""

    topics: tuple[str, ...]


class DeletedTopics(Topics, frozen=True):
    """Body of POST /topics/delete."""

    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS


class CreatePartitions(RequestBody, frozen=True):
    """Body of POST /topics/partitions."""

    topics: dict[str, requests.NewPartitions]
    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS


class PartitionsOrAll(RequestBody, frozen=True):
    """Body of POST /reassignments/list; null stands for all partitions."""

    partitions: tuple[PartitionEntry, ...] | None = None


class AlterReassignments(RequestBody, frozen=True):
    """Body of POST /reassignments."""

    reassignments: tuple[WantedReplicas, ...]
    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS


class ElectLeadersBody(RequestBody, frozen=True):
    """Body of POST /elections; null stands for all partitions that need an election."""

    election_type: ElectionType
    partitions: tuple[PartitionEntry, ...] | None = None
    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS


class Brokers(RequestBody, frozen=True):
    """Body of POST /log-dirs/describe; null stands for all live brokers."""

    brokers: tuple[Count, ...] | None = None


class Replicas(RequestBody, frozen=True):
    """Body of POST /log-dirs/replicas."""

    replicas: tuple[Replica, ...]


class AlterLogDirs(RequestBody, frozen=True):
    """Body of POST /log-dirs."""

    replicas: tuple[WantedLogDir, ...]


class Entities(RequestBody, frozen=True):
    """Body of POST /configs/overrides; null stands for all topics and brokers with overrides."""

    entities: tuple[Entity, ...] | None = None


class ConfigsOfEntities(RequestBody, frozen=True):
    """Body of POST /configs; response to POST /configs and /configs/overrides."""

    entities: tuple[EntityConfigs, ...]


# -- responses: their only field is the result of the call


class TopicNames(msgspec.Struct, frozen=True):
    """Response to GET /topics."""

    topics: list[str]


class TopicDescriptions(msgspec.Struct, frozen=True):
    """Response to POST /topics/describe."""

    topics: list[TopicDescription]


class TopicFailures(msgspec.Struct, frozen=True):
    """Response to POST /topics/partitions and /topics/delete: errors sorted by topic."""

    failures: list[TopicFailure]


class LiveBrokers(msgspec.Struct, frozen=True):
    """Response to GET /brokers/live."""

    brokers: list[LiveBroker]


class Reassignments(msgspec.Struct, frozen=True):
    """Response to GET /reassignments and POST /reassignments/list."""

    reassignments: list[MovingPartition]


class PartitionResults(msgspec.Struct, frozen=True):
    """Response to POST /reassignments and /elections: results sorted by partition."""

    partitions: list[PartitionResult]


class DescribedLogDirs(msgspec.Struct, frozen=True):
    """Response to POST /log-dirs/describe."""

    brokers: list[BrokerLogDirs]


class ReplicaPlaces(msgspec.Struct, frozen=True):
    """Response to POST /log-dirs/replicas."""

    replicas: list[ReplicaPlace]


class ReplicaFailures(msgspec.Struct, frozen=True):
    """Response to POST /log-dirs: errors of the replicas that were not moved, sorted by replica."""

    failures: list[ReplicaFailure]


class ConfigEntries(msgspec.Struct, frozen=True):
    """Response to POST /configs/describe; the body of that request is an Entity."""

    entries: list[ConfigEntry]
