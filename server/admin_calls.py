"""Table of the KafkaAdmin calls that the HTTP API offers; both server and client use it.

The request body contains the arguments of the call, keyed by name, and the response body its
result; entries.py converts them to and from JSON. Response types accept unknown fields, so that
clients can read the responses of newer servers; request types do not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

import msgspec

from klamm.admin.kafka_admin import KafkaAdmin
from klamm.cluster import requests
from klamm.server.admin_bodies import (
    AlterLogDirs,
    AlterReassignments,
    Brokers,
    ConfigEntries,
    ConfigsOfEntities,
    CreatePartitions,
    DeletedTopics,
    DescribedLogDirs,
    ElectLeadersBody,
    Entities,
    Entity,
    LiveBrokers,
    PartitionResults,
    PartitionsOrAll,
    Reassignments,
    ReplicaFailures,
    ReplicaPlaces,
    Replicas,
    TopicDescriptions,
    TopicFailures,
    TopicNames,
    Topics,
)
from klamm.server.bodies import CreatedTopics
from klamm.server.entries import as_entries, field_types, read_entry, read_fields, written_entry

AskServer = Callable[[str, str, object], bytes]

_ARGUMENTS: Final = (Entity, requests.CreateTopicsRequest)
"""Types of bodies that are passed to the call as a whole, as its only argument."""


class AdminCall(NamedTuple):
    """A method of KafkaAdmin, and its ``route`` in the HTTP API: "METHOD PATH".

    ``about`` is the call's description, ``own_name`` its operation id in the OpenAPI document if
    that is not the name of the method."""

    call: Callable[..., Any]
    route: str
    body: Any
    answer: Any
    about: str
    own_name: str | None = None

    @property
    def operation(self) -> str:
        """The operation id in the OpenAPI document."""
        return self.own_name or self.call.__name__

    def answer_to(self, admin: KafkaAdmin, body: Any) -> Any:
        """Decode ``body``, call ``admin`` and return the response. Raises the call's errors."""
        call = getattr(admin, self.call.__name__)
        if self.body in _ARGUMENTS:
            result = call(read_entry(body)[0] if self.body is Entity else body)
        else:
            result = call(**read_fields(body))
        if self.answer is CreatedTopics:
            return CreatedTopics.of(result)
        (kind,) = field_types(self.answer).values()
        return self.answer(as_entries(result, kind, is_sorted=self.answer is not ConfigsOfEntities))

    def ask(self, request: AskServer, /, *arguments: Any, **named: Any) -> Any:
        """Send this call to the server, by calling ``request``, and return the decoded result."""
        given = inspect.signature(self.call).bind(None, *arguments, **named).arguments
        del given["self"]
        method, _, path = self.route.partition(" ")
        data = request(method, path, self._body(given))
        answer = msgspec.json.decode(data, type=self.answer)
        if isinstance(answer, CreatedTopics):
            return answer.response()
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
            **{name: as_entries(given[name], kinds[name], is_sorted=False) for name in given}
        )


def http_admin(request: AskServer) -> KafkaAdmin:
    """Return an Admin client for the HTTP API, to which ``request`` sends requests.

    ``request`` takes method, path and body, and returns the body of the response or raises."""
    # CALLS has every public method of KafkaAdmin.
    calls = {call.call.__name__: partial(call.ask, request) for call in CALLS}
    return cast(KafkaAdmin, SimpleNamespace(**calls))


_REASSIGNMENTS: Final = AdminCall(
    KafkaAdmin.list_partition_reassignments,
    "POST /reassignments/list",
    PartitionsOrAll,
    Reassignments,
    "List running reassignments: of the partitions in the body, or of all partitions.",
    "list_reassignments",
)
_LOG_DIRS: Final = AdminCall(
    KafkaAdmin.describe_log_dirs,
    "POST /log-dirs/describe",
    Brokers,
    DescribedLogDirs,
    "Describe the log directories of brokers, and the replicas in them.",
)
CALLS: Final = (
    AdminCall(
        KafkaAdmin.live_brokers,
        "GET /brokers/live",
        None,
        LiveBrokers,
        "List the live brokers in the metadata cache of a running broker, and their racks.",
    ),
    AdminCall(
        KafkaAdmin.list_topics, "GET /topics", None, TopicNames, "List the names of all topics."
    ),
    AdminCall(
        KafkaAdmin.create_topics,
        "POST /topics",
        requests.CreateTopicsRequest,
        CreatedTopics,
        "Create topics; the body is that of Kafka's CreateTopics request. The response has a code "
        "for each topic, NONE if it was created.",
    ),
    AdminCall(
        KafkaAdmin.describe_topics,
        "POST /topics/describe",
        Topics,
        TopicDescriptions,
        "Describe the topics listed in the body.",
    ),
    AdminCall(
        KafkaAdmin.create_partitions,
        "POST /topics/partitions",
        CreatePartitions,
        TopicFailures,
        "Add partitions to topics. The response contains errors keyed by topic.",
    ),
    AdminCall(
        KafkaAdmin.delete_topics,
        "POST /topics/delete",
        DeletedTopics,
        TopicFailures,
        "Delete topics. The response contains the errors, sorted by topic.",
    ),
    _REASSIGNMENTS._replace(
        route="GET /reassignments",
        body=None,
        about="List all running reassignments.",
        own_name="list_reassignments_get",
    ),
    AdminCall(
        KafkaAdmin.alter_partition_reassignments,
        "POST /reassignments",
        AlterReassignments,
        PartitionResults,
        "Start or replace the reassignments of partitions, or cancel them (`replicas`: null). The "
        "response lists the partitions whose change was refused, with the error.",
        "alter_reassignments",
    ),
    _REASSIGNMENTS,
    AdminCall(
        KafkaAdmin.elect_leaders,
        "POST /elections",
        ElectLeadersBody,
        PartitionResults,
        "Elect preferred or unclean leaders for the partitions in the body, or for all partitions "
        "that need an election. In the response, each election that succeeded has the code NONE.",
    ),
    _LOG_DIRS._replace(
        route="GET /log-dirs",
        body=None,
        about="Describe the log directories of all live brokers, and the replicas in them.",
        own_name="describe_log_dirs_get",
    ),
    AdminCall(
        KafkaAdmin.alter_replica_log_dirs,
        "POST /log-dirs",
        AlterLogDirs,
        ReplicaFailures,
        "Move replicas to other log directories. The response has an error for each failed move.",
        "alter_log_dirs",
    ),
    _LOG_DIRS,
    AdminCall(
        KafkaAdmin.describe_replica_log_dirs,
        "POST /log-dirs/replicas",
        Replicas,
        ReplicaPlaces,
        "Return the log directory of each replica, and the target directory if it is being moved.",
        "describe_replicas",
    ),
    AdminCall(
        KafkaAdmin.incremental_alter_configs,
        "POST /configs",
        ConfigsOfEntities,
        ConfigsOfEntities,
        "Set configs of topics and brokers; the value null removes a config. The response contains "
        "all their config overrides after the change.",
        "alter_configs",
    ),
    AdminCall(
        KafkaAdmin.describe_configs,
        "POST /configs/describe",
        Entity,
        ConfigEntries,
        "Describe all configs of a topic or broker and their sources; the name `<default>` stands "
        "for the dynamic defaults of all brokers.",
    ),
    AdminCall(
        KafkaAdmin.overrides,
        "POST /configs/overrides",
        Entities,
        ConfigsOfEntities,
        "Return config overrides: of the topics and brokers in the body, or of all that have any.",
        "config_overrides",
    ),
)
"""The calls. A call with two routes is asked at the last one, its POST route."""
