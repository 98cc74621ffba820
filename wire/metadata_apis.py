"""The APIs about the cluster and its topics: Metadata, CreateTopics and others.

Mirrors the request and response classes of org.apache.kafka.common.requests.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from klamm.admin.kafka_admin import ListenerAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import (
    MetadataRequest,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
)
from klamm.cluster.group_requests import FindCoordinatorResponse
from klamm.cluster.refusals import refusal
from klamm.cluster.requests import (
    ApiError,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    LeaderAndIsrRequest,
)
from klamm.cluster.topic_names import is_internal
from klamm.cluster.types import Broker
from klamm.wire.api import Api, Asked, ListenerCall
from klamm.wire.config_apis import with_topic_configs
from klamm.wire.schema import (
    OPERATIONS_OMITTED,
    RefusedRequest,
    Values,
    milliseconds,
    operations,
    topic_id_of,
)
from klamm.wire.translations import (
    SAME,
    Field,
    Translation,
    broker,
    each,
    error_fields,
    keyed,
    only,
    other_errors,
    struct,
)

_TOPIC_OPERATIONS: Final = operations(3, 4, 5, 6, 7, 8, 10, 11)
_CLUSTER_OPERATIONS: Final = operations(5, 7, 8, 9, 10, 11, 12)


# -- Metadata


def _metadata_request(body: Any) -> MetadataRequest:
    """Translate Metadata.

    In version 0 an empty list means all topics, in later ones null. Versions before 4 always allow
    missing topics to be created. Topics cannot be asked for by topic id, as in Kafka 2.8.
    """
    topics = body.topics or ()
    if any(topic.name is None or getattr(topic, "topic_id", None) for topic in topics):
        refused = [
            {
                "error_code": Errors.INVALID_REQUEST,
                "name": topic.name or "",
                "topic_id": getattr(topic, "topic_id", None),
                "is_internal": False,
                "partitions": (),
            }
            for topic in topics
        ]
        none: Values = {"brokers": (), "cluster_id": None, "controller_id": -1}
        raise RefusedRequest({**none, "topics": refused})
    request: MetadataRequest = _METADATA.read(body)
    is_all = body.topics is None or (not body.topics and body.__version__ == 0)
    topics = None if is_all else tuple(dict.fromkeys(request.topics or ()))
    return msgspec.structs.replace(request, topics=topics)


_NAMED: Final = Translation(lambda topic: topic.name, lambda name: {"name": name, "topic_id": None})
_METADATA: Final = struct(
    MetadataRequest,
    topics=each("topics", _NAMED),
    allow_auto_topic_creation=Field("allow_auto_topic_creation", SAME, True),
)
_PARTITION: Final = struct(
    PartitionMetadata,
    partition="partition_index",
    leader="leader_id",
    replicas="replica_nodes",
    isr="isr_nodes",
)
_TOPIC: Final = struct(
    TopicMetadata,
    {"topic_authorized_operations": OPERATIONS_OMITTED},
    partitions=each("partitions", _PARTITION, "partition"),
)
_METADATA_RESPONSE: Final = struct(
    MetadataResponse,
    {"cluster_authorized_operations": OPERATIONS_OMITTED},
    brokers=each("brokers", broker("node_id"), "id"),
    topics=each(
        "topics",
        _TOPIC._replace(
            write=lambda topic: {**_TOPIC.write(topic), "is_internal": is_internal(topic.name)}
        ),
    ),
)


def _metadata(request: MetadataRequest) -> Translation:
    """Return the translation of the response to Metadata, with the operations asked for."""
    has_cluster = request.include_cluster_authorized_operations
    has_topics = request.include_topic_authorized_operations
    if not (has_cluster or has_topics):
        return _METADATA_RESPONSE

    def write(response: MetadataResponse) -> Values:
        values = dict(_METADATA_RESPONSE.write(response))
        if has_cluster:
            values["cluster_authorized_operations"] = _CLUSTER_OPERATIONS
        if has_topics:
            allowed = {"topic_authorized_operations": _TOPIC_OPERATIONS}
            values["topics"] = [{**topic, **allowed} for topic in values["topics"]]
        return values

    return _METADATA_RESPONSE._replace(write=write)


def on_listener(message: Any, listener_name: str) -> Any:
    """Return a message with the brokers' end points of one listener.

    Brokers without that listener are left out of metadata and leaders; a coordinator without it is
    not available. Other messages are returned as they are.
    """
    match message:
        case MetadataResponse(brokers=brokers):
            return msgspec.structs.replace(message, brokers=_all_on(listener_name, brokers))
        case LeaderAndIsrRequest(live_leaders=brokers):
            return msgspec.structs.replace(message, live_leaders=_all_on(listener_name, brokers))
        case FindCoordinatorResponse(coordinator=Broker() as coordinator):
            own = _on_listener(coordinator, listener_name)
            error = Errors.COORDINATOR_NOT_AVAILABLE if own is None else Errors.NONE
            return FindCoordinatorResponse(error, own)
    return message


def _all_on(listener_name: str, brokers: tuple[Broker, ...]) -> tuple[Broker, ...]:
    found = (_on_listener(broker, listener_name) for broker in brokers)
    return tuple(broker for broker in found if broker is not None)


def _on_listener(broker: Broker, listener_name: str) -> Broker | None:
    own = tuple(one for one in broker.end_points if one.listener_name == listener_name)
    return msgspec.structs.replace(broker, end_points=own) if own else None


# -- DescribeCluster


def _describe_cluster(_: ListenerAdmin, asked: Asked) -> Values:
    has_operations = asked.body.include_cluster_authorized_operations
    return {
        "error_code": Errors.NONE,
        "cluster_authorized_operations": _CLUSTER_OPERATIONS
        if has_operations
        else OPERATIONS_OMITTED,
        **_CLUSTER.write(asked.metadata),
    }


def _refuse_describe_cluster(_: Any, error: ApiError) -> Values:
    return {**error_fields(error), "cluster_id": "", "brokers": ()}


_CLUSTER: Final = struct(
    MetadataResponse, brokers=each("brokers", broker("broker_id"), "id"), topics=None
)


# -- topics


def _delete_topics(body: Any) -> DeleteTopicsRequest:
    """Translate DeleteTopics. Before version 6 topics are strings, then names or topic ids."""
    timeout_ms = milliseconds(body.timeout)
    if hasattr(body, "topic_names"):
        return DeleteTopicsRequest(body.topic_names, timeout_ms)
    names = tuple(one.name for one in body.topics if one.topic_id is None)
    ids = tuple(id_ for one in body.topics if (id_ := topic_id_of(one.topic_id)) is not None)
    request = DeleteTopicsRequest(names, timeout_ms, ids)
    if None in names or any(one.name and one.topic_id for one in body.topics):
        raise RefusedRequest(_DELETED.write(refusal(request, Errors.INVALID_REQUEST)))
    return request


_CREATE: Final = struct(
    CreateTopicsRequest,
    topics=each(
        "topics",
        struct(
            CreatableTopic,
            assignments=keyed("assignments", "partition_index", only("broker_ids")),
            configs=keyed("configs", "name", only("value")),
        ),
    ),
)
_RESULT: Final = struct(CreatableTopicResult, {"configs": ()})


def _created(result: CreatableTopicResult) -> Values:
    """Translate a result. The message of NOT_CONTROLLER is empty, not null."""
    if result.error is Errors.NOT_CONTROLLER:
        result = msgspec.structs.replace(result, error_message="")
    return cast("Values", _RESULT.write(result))


_CREATED: Final = struct(
    CreateTopicsResponse, topics=each("topics", _RESULT._replace(write=_created))
)
# klamm's own clients name topics by their names.
_DELETE: Final = struct(
    DeleteTopicsRequest, topics=each("topics", _NAMED), topic_ids=None
)._replace(read=_delete_topics)
_DELETED: Final = struct(
    DeleteTopicsResponse, topics=each("responses", struct(DeletableTopicResult))
)
APIS: Final = (
    Api(3, range(12), _METADATA._replace(read=_metadata_request), _metadata),
    Api(19, range(5), _CREATE, _CREATED),
    Api(19, range(5, 8), _CREATE, _CREATED, with_topic_configs),
    Api(
        20,
        range(3),
        _DELETE,
        other_errors(_DELETED, {Errors.TOPIC_DELETION_DISABLED: Errors.INVALID_REQUEST}),
    ),
    Api(20, range(3, 7), _DELETE, _DELETED),
    ListenerCall(60, range(1), _describe_cluster, _refuse_describe_cluster),
)
