"""The calls of KafkaAdmin over HTTP: one table for server and client.

The body of a request is the arguments of the call by name, the answer is its result; entries.py
converts between them and JSON. Types of answers, unlike those of requests, accept unknown fields:
clients can read the answers of newer servers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, ClassVar, Final, NamedTuple, cast, get_type_hints

import msgspec

from klamm.admin.configs.config_resource import ConfigResource
from klamm.admin.configs.configs_admin import ConfigEntry
from klamm.admin.kafka_admin import KafkaAdmin, LogDirDescription, ReplicaInfo, ReplicaLogDirs
from klamm.admin.reassignments.reassignment_json import TopicPartitionReplica
from klamm.admin.topics.text import TopicDescription
from klamm.cluster import requests
from klamm.cluster.api_errors import Errors
from klamm.cluster.integers import Count, Int32
from klamm.cluster.types import ElectionType, ReplicaAssignment, TopicPartition
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.server.bodies import RequestBody
from klamm.server.entries import Entry, field_types, read_entry, read_fields, written, written_entry

DEFAULT_TIMEOUT_MS = 30_000
Request = Callable[[str, str, object], bytes]


def _api_error(code: str, message: str | None) -> requests.ApiError:
    return requests.ApiError(Errors[code], message)


# -- entries of mappings: the fields of the key, then those of the value


class Partition(Entry, frozen=True):
    """One partition."""

    KEY: ClassVar[Callable[..., Any]] = TopicPartition
    topic: str
    partition: Count


class PartitionResult(Partition, frozen=True, forbid_unknown_fields=False):
    """Why a partition was refused; the code NONE says that it was not."""

    VALUE = _api_error
    code: str
    message: str | None = None


class MovingPartition(Partition, frozen=True, forbid_unknown_fields=False):
    """A partition that is being reassigned."""

    VALUE = ReplicaAssignment
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


class WantedReplicas(Partition, frozen=True):
    """Where a partition is to be; None cancels its reassignment."""

    IS_UNIQUE = True
    replicas: tuple[Int32, ...] | None


class Replica(Partition, frozen=True):
    """One replica of a partition."""

    KEY = TopicPartitionReplica
    broker: Count


class ReplicaPlace(Replica, frozen=True, forbid_unknown_fields=False):
    """The directory of a replica and, while it moves, the one that it moves to."""

    VALUE = ReplicaLogDirs
    current: str | None = None
    future: str | None = None


class WantedLogDir(Replica, frozen=True):
    """Which directory a replica is to have."""

    log_dir: str


class ReplicaFailure(Replica, frozen=True, forbid_unknown_fields=False):
    """Why a replica was refused."""

    VALUE = _api_error
    code: str
    message: str | None = None


class ReplicaLog(Partition, frozen=True, forbid_unknown_fields=False):
    """A replica in a directory: bytes, how far its end is behind, whether it is a future one."""

    VALUE = ReplicaInfo
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDir(Entry, frozen=True, forbid_unknown_fields=False):
    """A directory; ``error`` is the Java class of what is wrong with it."""

    KEY = str
    VALUE = LogDirDescription
    path: str
    error: str | None
    replicas: list[ReplicaLog]


class BrokerLogDirs(Entry, frozen=True, forbid_unknown_fields=False):
    """The directories of a broker."""

    KEY = int
    broker: int
    log_dirs: list[LogDir]


class LiveBroker(Entry, frozen=True, forbid_unknown_fields=False):
    """A broker that lives, and its rack."""

    KEY = BrokerMetadata
    id: int
    rack: str | None = None


class Entity(Entry, frozen=True):
    """Something with configs; ``type`` is "topics" or "brokers"."""

    KEY = ConfigResource
    type: str
    name: str


class EntityConfigs(Entity, frozen=True):
    """The configs of an entity by name; None removes one."""

    configs: dict[str, str | None]


# -- bodies of requests: their fields are the arguments of the call


class Topics(RequestBody, frozen=True):
    """Body of POST /topics/describe and /topics/delete."""

    topics: tuple[str, ...]
    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS


class CreatePartitions(RequestBody, frozen=True):
    """Body of POST /topics/partitions."""

    topics: dict[str, requests.NewPartitions]
    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS


class PartitionsOrAll(RequestBody, frozen=True):
    """Body of POST /reassignments/list. None: all of them."""

    partitions: tuple[Partition, ...] | None = None


class AlterReassignments(RequestBody, frozen=True):
    """Body of POST /reassignments."""

    reassignments: tuple[WantedReplicas, ...]
    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS


class ElectLeaders(RequestBody, frozen=True):
    """Body of POST /elections. ``partitions`` None: all that need it."""

    election_type: ElectionType
    partitions: tuple[Partition, ...] | None = None
    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS


class Brokers(RequestBody, frozen=True):
    """Body of POST /log-dirs/describe. None: those that live."""

    brokers: tuple[Count, ...] | None = None


class Replicas(RequestBody, frozen=True):
    """Body of POST /log-dirs/replicas."""

    replicas: tuple[Replica, ...]


class AlterLogDirs(RequestBody, frozen=True):
    """Body of POST /log-dirs."""

    replicas: tuple[WantedLogDir, ...]


class Entities(RequestBody, frozen=True):
    """Body of POST /configs/overrides. None: every entity that has configs."""

    entities: tuple[Entity, ...] | None = None


class ConfigsOfEntities(RequestBody, frozen=True):
    """Body of POST /configs, and answer of POST /configs/overrides."""

    entities: tuple[EntityConfigs, ...]


# -- answers: their one field is the result of the call


class Failure(msgspec.Struct, frozen=True):
    """Why something was refused. ``message`` None stands for the error's usual text."""

    error: Errors
    message: str | None = None


class TopicNames(msgspec.Struct, frozen=True):
    """Answer of GET /topics."""

    topics: list[str]


class TopicDescriptions(msgspec.Struct, frozen=True):
    """Answer of POST /topics/describe."""

    topics: list[TopicDescription]


class TopicFailures(msgspec.Struct, frozen=True):
    """Answer where topics were refused, by name."""

    failures: dict[str, Failure]


class LiveBrokers(msgspec.Struct, frozen=True):
    """Answer of GET /brokers/live."""

    brokers: list[LiveBroker]


class Reassignments(msgspec.Struct, frozen=True):
    """Answer of GET /reassignments and POST /reassignments/list."""

    reassignments: list[MovingPartition]


class PartitionResults(msgspec.Struct, frozen=True):
    """Answer of POST /reassignments and /elections: what became of partitions, sorted."""

    partitions: list[PartitionResult]


class LogDirs(msgspec.Struct, frozen=True):
    """Answer of POST /log-dirs/describe."""

    brokers: list[BrokerLogDirs]


class ReplicaPlaces(msgspec.Struct, frozen=True):
    """Answer of POST /log-dirs/replicas."""

    replicas: list[ReplicaPlace]


class ReplicaFailures(msgspec.Struct, frozen=True):
    """Answer of POST /log-dirs: the replicas that were refused, sorted."""

    failures: list[ReplicaFailure]


class ConfigEntries(msgspec.Struct, frozen=True):
    """Answer of POST /configs/describe, whose body is an Entity."""

    entries: list[ConfigEntry]


# -- the calls


_ARGUMENTS: Final = (Entity, requests.CreateTopicsRequest)
"""Bodies that are the one argument of their calls."""


class AdminCall(NamedTuple):
    """One call over HTTP: a method of KafkaAdmin and its route, METHOD PATH.

    ``operation`` and ``about`` stand in docs/http-api.md and the OpenAPI document.
    """

    call: Callable[..., Any]
    route: str
    body: Any
    answer: Any
    operation: str
    about: str

    def answer_to(self, admin: KafkaAdmin, body: Any) -> Any:
        """Make the call that a request asks for; returns the answer. Raises what it raises."""
        call = getattr(admin, self.call.__name__)
        if self.body in _ARGUMENTS:
            result = call(read_entry(body)[0] if self.body is Entity else body)
        else:
            result = call(**{k: v for k, v in read_fields(body).items() if k in _hints(self.call)})
        if self.answer is _hints(self.call)["return"]:
            return result
        (kind,) = field_types(self.answer).values()
        return self.answer(written(result, kind, is_sorted=self.answer is not ConfigsOfEntities))

    def ask(self, request: Request, /, *arguments: Any, **named: Any) -> Any:
        """Make the call through ``request``; returns the result."""
        given = inspect.signature(self.call).bind(None, *arguments, **named).arguments
        del given["self"]
        method, _, path = self.route.partition(" ")
        data = request(method, path, self._body(given))
        answer = msgspec.json.decode(data, type=self.answer)
        if self.answer is _hints(self.call)["return"]:
            return answer
        (result,) = read_fields(answer).values()
        return result

    def _body(self, given: Mapping[str, Any]) -> object:
        if self.body is None:
            return None
        if self.body in _ARGUMENTS:
            (argument,) = given.values()
            return written_entry(Entity, argument) if self.body is Entity else argument
        kinds = field_types(self.body)
        return self.body(
            **{name: written(given[name], kinds[name], is_sorted=False) for name in given}
        )


@cache
def _hints(call: Callable[..., Any]) -> Mapping[str, Any]:
    return get_type_hints(call)


def http_admin(request: Request) -> KafkaAdmin:
    """Return the Admin of a cluster behind its HTTP API.

    ``request`` takes method, path and body, returns the body of the answer, and raises the error
    that was answered.
    """
    return cast(KafkaAdmin, _HttpAdmin(request))


class _HttpAdmin:
    def __init__(self, request: Request) -> None:
        self._request = request

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _BY_NAME:
            raise AttributeError(name)
        return partial(_BY_NAME[name].ask, self._request)


_REASSIGNMENTS: Final = AdminCall(
    KafkaAdmin.list_partition_reassignments,
    "POST /reassignments/list",
    PartitionsOrAll,
    Reassignments,
    "list_reassignments",
    "The running reassignments: all, or those of the partitions in the body.",
)
_LOG_DIRS: Final = AdminCall(
    KafkaAdmin.describe_log_dirs,
    "POST /log-dirs/describe",
    Brokers,
    LogDirs,
    "describe_log_dirs",
    "The log directories of brokers, and the replicas in them.",
)
CALLS: Final = (
    AdminCall(
        KafkaAdmin.live_brokers,
        "GET /brokers/live",
        None,
        LiveBrokers,
        "live_brokers",
        "The live brokers by a broker's metadata cache, and their racks, as Kafka's tools need "
        "them.",
    ),
    AdminCall(
        KafkaAdmin.list_topics,
        "GET /topics",
        None,
        TopicNames,
        "list_topics",
        "Names of all topics.",
    ),
    AdminCall(
        KafkaAdmin.create_topics,
        "POST /topics",
        requests.CreateTopicsRequest,
        requests.CreateTopicsResponse,
        "create_topics",
        "Create topics; the body is a CreateTopicsRequest, the answer its response.",
    ),
    AdminCall(
        KafkaAdmin.describe_topics,
        "POST /topics/describe",
        Topics,
        TopicDescriptions,
        "describe_topics",
        "Describe the topics of the body.",
    ),
    AdminCall(
        KafkaAdmin.create_partitions,
        "POST /topics/partitions",
        CreatePartitions,
        TopicFailures,
        "create_partitions",
        "Add partitions; the answer lists the refused topics.",
    ),
    AdminCall(
        KafkaAdmin.delete_topics,
        "POST /topics/delete",
        Topics,
        TopicFailures,
        "delete_topics",
        "Delete topics; the answer lists the refused ones.",
    ),
    _REASSIGNMENTS._replace(route="GET /reassignments"),
    AdminCall(
        KafkaAdmin.alter_partition_reassignments,
        "POST /reassignments",
        AlterReassignments,
        PartitionResults,
        "alter_reassignments",
        "Start, replace or (`replicas` null) cancel reassignments; the answer lists the refused "
        "partitions.",
    ),
    _REASSIGNMENTS,
    AdminCall(
        KafkaAdmin.elect_leaders,
        "POST /elections",
        ElectLeaders,
        PartitionResults,
        "elect_leaders",
        "Elect preferred or unclean leaders of the partitions in the body, or of all partitions "
        "that need it; the answer has the code NONE for each election that succeeded.",
    ),
    _LOG_DIRS._replace(route="GET /log-dirs"),
    AdminCall(
        KafkaAdmin.alter_replica_log_dirs,
        "POST /log-dirs",
        AlterLogDirs,
        ReplicaFailures,
        "alter_log_dirs",
        "Move replicas to other log directories; the answer lists the refused replicas.",
    ),
    _LOG_DIRS,
    AdminCall(
        KafkaAdmin.describe_replica_log_dirs,
        "POST /log-dirs/replicas",
        Replicas,
        ReplicaPlaces,
        "describe_replicas",
        "The log directory of each replica, and the one it moves to.",
    ),
    AdminCall(
        KafkaAdmin.incremental_alter_configs,
        "POST /configs",
        ConfigsOfEntities,
        ConfigsOfEntities,
        "alter_configs",
        "Set or (null) remove configs of topics and brokers; the answer has all configs that are "
        "set afterwards.",
    ),
    AdminCall(
        KafkaAdmin.describe_configs,
        "POST /configs/describe",
        Entity,
        ConfigEntries,
        "describe_configs",
        "All configs of a topic or a broker (`<default>`: all brokers), and their sources.",
    ),
    AdminCall(
        KafkaAdmin.overrides,
        "POST /configs/overrides",
        Entities,
        ConfigsOfEntities,
        "config_overrides",
        "The configs that are set for the topics and brokers in the body, or for all.",
    ),
)
_BY_NAME: Final = {call.call.__name__: call for call in CALLS}
"""Of two routes the last: a GET with a body is for people."""
