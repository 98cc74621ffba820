"""The calls of KafkaAdmin over HTTP: one table for server and client.

The body of a request has the call's arguments by name, the answer has its result; entries.py
converts between them and JSON. Types of answers accept unknown fields, so that clients can read
the answers of newer servers; types of requests do not.
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


# -- entries of mappings: the fields of the key, then the fields of the value


class Partition(Entry, frozen=True):
    """One partition."""

    KEY: ClassVar[Callable[..., Any]] = TopicPartition
    topic: str
    partition: Count


class PartitionResult(Partition, frozen=True, forbid_unknown_fields=False):
    """Result for a partition; the code is NONE if it was accepted."""

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
    """Target replicas of a partition; None cancels its reassignment."""

    IS_UNIQUE = True
    replicas: tuple[Int32, ...] | None


class Replica(Partition, frozen=True):
    """One replica of a partition."""

    KEY = TopicPartitionReplica
    broker: Count


class ReplicaPlace(Replica, frozen=True, forbid_unknown_fields=False):
    """Log directory of a replica, and the one that it is being moved to, if any."""

    VALUE = ReplicaLogDirs
    current: str | None = None
    future: str | None = None


class WantedLogDir(Replica, frozen=True):
    """Target log directory of a replica."""

    log_dir: str


class ReplicaFailure(Replica, frozen=True, forbid_unknown_fields=False):
    """Error of a replica that was refused."""

    VALUE = _api_error
    code: str
    message: str | None = None


class ReplicaLog(Partition, frozen=True, forbid_unknown_fields=False):
    """A replica in a log directory: size, offset lag, and whether it is a future replica."""

    VALUE = ReplicaInfo
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDir(Entry, frozen=True, forbid_unknown_fields=False):
    """A log directory; ``error`` is the Java class of its error."""

    KEY = str
    VALUE = LogDirDescription
    path: str
    error: str | None
    replicas: list[ReplicaLog]


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
    """A config resource; ``type`` is "topics" or "brokers"."""

    KEY = ConfigResource
    type: str
    name: str


class EntityConfigs(Entity, frozen=True):
    """Configs of an entity by name; the value None removes a config."""

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
    """Body of POST /reassignments/list. None: all reassignments."""

    partitions: tuple[Partition, ...] | None = None


class AlterReassignments(RequestBody, frozen=True):
    """Body of POST /reassignments."""

    reassignments: tuple[WantedReplicas, ...]
    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS


class ElectLeaders(RequestBody, frozen=True):
    """Body of POST /elections. ``partitions`` None: all partitions that need an election."""

    election_type: ElectionType
    partitions: tuple[Partition, ...] | None = None
    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS


class Brokers(RequestBody, frozen=True):
    """Body of POST /log-dirs/describe. None: all live brokers."""

    brokers: tuple[Count, ...] | None = None


class Replicas(RequestBody, frozen=True):
    """Body of POST /log-dirs/replicas."""

    replicas: tuple[Replica, ...]


class AlterLogDirs(RequestBody, frozen=True):
    """Body of POST /log-dirs."""

    replicas: tuple[WantedLogDir, ...]


class Entities(RequestBody, frozen=True):
    """Body of POST /configs/overrides. None: all entities that have configs."""

    entities: tuple[Entity, ...] | None = None


class ConfigsOfEntities(RequestBody, frozen=True):
    """Body of POST /configs, and answer of POST /configs/overrides."""

    entities: tuple[EntityConfigs, ...]


# -- answers: their only field is the result of the call


class Failure(msgspec.Struct, frozen=True):
    """Error of a refused topic. ``message`` None: the default text of the error code."""

    error: Errors
    message: str | None = None


class TopicNames(msgspec.Struct, frozen=True):
    """Answer of GET /topics."""

    topics: list[str]


class TopicDescriptions(msgspec.Struct, frozen=True):
    """Answer of POST /topics/describe."""

    topics: list[TopicDescription]


class TopicFailures(msgspec.Struct, frozen=True):
    """Answer of calls on topics: the refused topics by name."""

    failures: dict[str, Failure]


class LiveBrokers(msgspec.Struct, frozen=True):
    """Answer of GET /brokers/live."""

    brokers: list[LiveBroker]


class Reassignments(msgspec.Struct, frozen=True):
    """Answer of GET /reassignments and POST /reassignments/list."""

    reassignments: list[MovingPartition]


class PartitionResults(msgspec.Struct, frozen=True):
    """Answer of POST /reassignments and /elections: results by partition, sorted."""

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
    """Answer of POST /configs/describe; the body of that request is an Entity."""

    entries: list[ConfigEntry]


# -- the calls


_ARGUMENTS: Final = (Entity, requests.CreateTopicsRequest)
"""Bodies that are the only argument of their calls."""


class AdminCall(NamedTuple):
    """One call over HTTP: a method of KafkaAdmin and its route, METHOD PATH.

    ``operation`` and ``about`` appear in docs/http-api.md and the OpenAPI document.
    """

    call: Callable[..., Any]
    route: str
    body: Any
    answer: Any
    operation: str
    about: str

    def answer_to(self, admin: KafkaAdmin, body: Any) -> Any:
        """Decode the body, make the call and return the answer. Raises the call's errors."""
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
        """Send the call through ``request`` and return its decoded result."""
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
    """Return an admin client of a cluster that sends its calls to the HTTP API.

    ``request`` takes method, path and body, returns the body of the answer, and raises the error
    that the answer describes.
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
        "The live brokers in a broker's metadata cache, and their racks.",
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
"""Calls by method name. Of a call with two routes, the last: the GET route is for people."""
